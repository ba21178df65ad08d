// SPDX-License-Identifier: MIT
//
// Catch2's own code, which takes longer to compile than most tests: once, for all programs.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "session.hpp"

int vipl_catch_run(int argc, char **argv);

int vipl_catch_run(int argc, char **argv)
{
    return Catch::Session().run(argc, argv);
}

namespace vipl_test {

CatchSession::CatchSession() : session_(new Catch::Session)
{
}

CatchSession::~CatchSession() = default;

Catch::ConfigData &CatchSession::data()
{
    return session_->configData();
}

std::vector<CatchSession::Case> CatchSession::cases()
{
    session_->useConfigData(session_->configData()); // as it is now
    const Catch::Config &config = session_->config();
    std::vector<Case> all;
    for (const Catch::TestCase &one : Catch::getAllTestCasesSorted(config)) {
        all.push_back({one.name, one.tags, config.testSpec().matches(one)});
    }
    session_->useConfigData(session_->configData()); // which may be changed again
    return all;
}

int CatchSession::apply(int argc, const char *const *argv)
{
    return session_->applyCommandLine(argc, argv);
}

int CatchSession::run()
{
    return session_->run();
}

} // namespace vipl_test
