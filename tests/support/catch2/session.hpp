// SPDX-License-Identifier: MIT
//
// Catch2's session for a program that has its own main function, without Catch2's own code in that
// file, and alike with its versions 2 and 3. Include it after <catch2/catch.hpp>, with
// CATCH_CONFIG_EXTERNAL_INTERFACES.
#ifndef VIPL_TEST_CATCH2_SESSION_HPP
#define VIPL_TEST_CATCH2_SESSION_HPP

#include <memory>
#include <string>
#include <vector>

namespace Catch {
class Session;
}

namespace vipl_test {

#if CATCH_VERSION_MAJOR >= 3
using CatchListener = Catch::EventListenerBase;
template <class>
struct CatchReporter : Catch::StreamingReporterBase {
    using StreamingReporterBase::StreamingReporterBase;
};
using CatchAssertionEnded = void;
#define VIPL_CATCH_ASSERTION_ENDED return
#else
using CatchListener = Catch::TestEventListenerBase;
template <class Reporter>
struct CatchReporter : Catch::StreamingReporterBase<Reporter> {
    using Catch::StreamingReporterBase<Reporter>::StreamingReporterBase;
};
using CatchAssertionEnded = bool;
#define VIPL_CATCH_ASSERTION_ENDED return true
#endif

/** The case of an event of a listener. */
inline const Catch::TestCaseInfo &case_of(const Catch::TestCaseStats &stats)
{
#if CATCH_VERSION_MAJOR >= 3
    return *stats.testInfo;
#else
    return stats.testInfo;
#endif
}

/** The tags of a case. */
std::vector<std::string> tags_of(const Catch::TestCaseInfo &info);

/** Catch::Session; there may be one. */
class CatchSession {
public:
    CatchSession();
    ~CatchSession();

    /** 0, or it has been said on stderr what is wrong. */
    int apply(int argc, const char *const *argv);
    /** Filters, as on the command line; may be changed before the session is run. */
    std::vector<std::string> &filters();
    void set_reporter(const std::string &name);
    void shuffle(unsigned seed);
    /** Whether it is to list tags, reporters or the like, and to run no case. */
    bool only_lists() const;

    struct Case {
        std::string name;
        std::vector<std::string> tags;
        bool selected; // by the filters
    };
    /** Each case there is. */
    std::vector<Case> cases();
    /** Whether the command line asks for a list of cases, which is then for the caller to print. */
    bool take_list();
    int run();

private:
    std::unique_ptr<Catch::Session> session_;
};

} // namespace vipl_test

#endif
