// SPDX-License-Identifier: MIT
//
// Catch2's own code, which takes longer to compile than most tests: once, for all programs. Catch2
// 3 is a library.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>

#include "session.hpp"

unsigned vipl_catch_case_seconds = 40; // several times what the longest takes

namespace {

/** Tells limit.py which case runs, and how many seconds it may take. */
struct CaseTeller : vipl_test::CatchListener {
    using vipl_test::CatchListener::CatchListener;

    void testCaseStarting(const Catch::TestCaseInfo &info) override { tell(info.name); }
    void testCaseEnded(const Catch::TestCaseStats &) override { tell(""); }

private:
    void tell(const std::string &name)
    {
        static const char *const file = std::getenv("VIPL_TEST_CASE"); // cases change the environment
        static const char *const slow = std::getenv("VIPL_TEST_SLOWNESS");
        static const unsigned slowness = slow != nullptr ? static_cast<unsigned>(std::atoi(slow)) : 1;
        if (file != nullptr) {
            std::ofstream(file) << ++count_ << ' ' << slowness * vipl_catch_case_seconds << ' ' << name
                                << '\n';
        }
    }

    unsigned count_ = 0;
};
CATCH_REGISTER_LISTENER(CaseTeller)

} // namespace

int vipl_catch_run(int argc, char **argv);

int vipl_catch_run(int argc, char **argv)
{
    return Catch::Session().run(argc, argv);
}

namespace vipl_test {

std::vector<std::string> tags_of(const Catch::TestCaseInfo &info)
{
#if CATCH_VERSION_MAJOR >= 3
    std::vector<std::string> tags;
    for (const Catch::Tag &tag : info.tags) {
        tags.emplace_back(tag.original.data(), tag.original.size());
    }
    return tags;
#else
    return info.tags;
#endif
}

CatchSession::CatchSession() : session_(new Catch::Session)
{
}

CatchSession::~CatchSession() = default;

int CatchSession::apply(int argc, const char *const *argv)
{
    return session_->applyCommandLine(argc, argv);
}

std::vector<std::string> &CatchSession::filters()
{
    return session_->configData().testsOrTags;
}

void CatchSession::set_reporter(const std::string &name)
{
#if CATCH_VERSION_MAJOR >= 3
    session_->configData().reporterSpecifications = {Catch::ReporterSpec(name, {}, {}, {})};
#else
    session_->configData().reporterName = name;
#endif
}

void CatchSession::shuffle(unsigned seed)
{
#if CATCH_VERSION_MAJOR >= 3
    session_->configData().runOrder = Catch::TestRunOrder::Randomized;
#else
    session_->configData().runOrder = Catch::RunTests::InRandomOrder;
#endif
    session_->configData().rngSeed = seed;
}

bool CatchSession::only_lists() const
{
    const Catch::ConfigData &data = session_->configData();
    return data.listTags || data.listReporters || data.showHelp;
}

bool CatchSession::take_list()
{
    Catch::ConfigData &data = session_->configData();
    const bool list = data.listTests;
    data.listTests = false;
    return list;
}

std::vector<CatchSession::Case> CatchSession::cases()
{
    session_->useConfigData(session_->configData()); // as it is now
    const Catch::Config &config = session_->config();
    std::vector<Case> all;
    for (const auto &one : Catch::getAllTestCasesSorted(config)) {
#if CATCH_VERSION_MAJOR >= 3
        const Catch::TestCaseInfo &info = one.getTestCaseInfo();
#else
        const Catch::TestCaseInfo &info = one;
#endif
        all.push_back({info.name, tags_of(info), config.testSpec().matches(info)});
    }
    session_->useConfigData(session_->configData()); // which may be changed again
    return all;
}

int CatchSession::run()
{
    return session_->run();
}

} // namespace vipl_test
