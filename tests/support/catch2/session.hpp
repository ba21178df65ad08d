// SPDX-License-Identifier: MIT
//
// Catch2's session for a program that has its own main function, without Catch2's own code in that file. Include it after
// <catch2/catch.hpp>, with CATCH_CONFIG_EXTERNAL_INTERFACES.
#ifndef VIPL_TEST_CATCH2_SESSION_HPP
#define VIPL_TEST_CATCH2_SESSION_HPP

#include <memory>
#include <string>
#include <vector>

namespace Catch {
class Session;
}

namespace vipl_test {

/** Catch::Session; there may be one. */
class CatchSession {
public:
    CatchSession();
    ~CatchSession();

    /** What the command line says; may be changed before it is run. */
    Catch::ConfigData &data();
    struct Case {
        std::string name;
        std::vector<std::string> tags;
        bool selected; // by the filters
    };
    /** Each case there is. */
    std::vector<Case> cases();
    /** 0, or it has been said on stderr what is wrong. */
    int apply(int argc, const char *const *argv);
    int run();

private:
    std::unique_ptr<Catch::Session> session_;
};

} // namespace vipl_test

#endif
