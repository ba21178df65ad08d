// SPDX-License-Identifier: MIT
//
// Catch2's own code, which takes longer to compile than most tests: once, for all programs.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int vipl_catch_run(int argc, char **argv);

int vipl_catch_run(int argc, char **argv)
{
    return Catch::Session().run(argc, argv);
}
