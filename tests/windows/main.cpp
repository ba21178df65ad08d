// SPDX-License-Identifier: MIT
//
// The main function: in a child of a case it plays the child's role, and does not come back.
#include "support/roles.hpp"

int vipl_catch_run(int argc, char **argv);

int main(int argc, char **argv)
{
    vipl_test::start_zygote();
    return vipl_catch_run(argc, argv);
}
