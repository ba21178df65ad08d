// SPDX-License-Identifier: MIT
//
// vipl-conformance: does a VIPL device keep the contract? Selects cases by level and by setting,
// runs them with Catch2, and reports. The process that makes children is forked before anything
// else; a watchdog ends a run whose case hangs, with the report as far as it got.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <thread>

#include <unistd.h>

#include <vipl/version.h>

#include "report.hpp"
#include "support/role_case.hpp"

using namespace vipl_conformance;

namespace {

struct Options {
    int level = kFull;
    std::string mode = "both";
    std::string junit;
    bool tap = false;
    bool list = false;
    std::vector<char *> for_catch;
};

const char kUsage[] =
    "Usage: vipl-conformance [options] [Catch2 options and case filters]\n"
    "Checks a VIPL device against the contract of the Virtual Interface Provider Library 1.0.\n"
    "\n"
    "  --device NAME      the device to test (default: VIPL_TEST_DEVICE, or loopback)\n"
    "  --level LEVEL      early, functional, full or posix (beyond VIPL 1.0); each includes the ones\n"
    "                     before (default: full)\n"
    "  --mode MODE        inproc: no case between processes; procs: two-sided cases between\n"
    "                     processes only; both (default)\n"
    "  --peer-device NAME the device of the other process, where it has another\n"
    "  --peer-netns FILE  the network namespace of the other process (/run/netns/NAME; Linux)\n"
    "  --list             list the selected cases with their tags and stop\n"
    "  --junit FILE       also write the results as JUnit XML\n"
    "  --tap              print the results as TAP version 13\n"
    "  -h, --help         this text\n"
    "  --version          print the version\n"
    "\n"
    "A filter is a case name with *, or tags: vipl-conformance '[VipCQWait]'\n"
    "VIPL_TEST_TIMEOUT_SCALE=N multiplies every patience, for emulators and sanitizers; in "
    "VIPL_TEST_ANSWER_MS\n"
    "a network answers surely (default 60; one that loses packets needs several seconds).\n"
    "Exit status: 0 all selected cases passed, 1 some failed or none ran, 2 usage.\n";

[[noreturn]] void usage_error(const std::string &message)
{
    std::cerr << "vipl-conformance: " << message << "\nTry 'vipl-conformance --help'.\n";
    std::exit(2);
}

int level_from_name(const std::string &name)
{
    for (int i = 0; i < kLevels; ++i) {
        if (name == kLevelTags[i]) {
            return i;
        }
    }
    usage_error("--level is early, functional, full or posix, not '" + name + "'");
}

/** The value of "--name VALUE" or "--name=VALUE" at argv[*i], or NULL if that is not there. */
const char *option_value(const char *name, int argc, char **argv, int *i)
{
    const size_t length = std::strlen(name);
    if (std::strncmp(argv[*i], name, length) != 0) {
        return nullptr;
    }
    if (argv[*i][length] == '=') {
        return argv[*i] + length + 1;
    }
    if (argv[*i][length] != '\0') {
        return nullptr;
    }
    if (*i + 1 >= argc) {
        usage_error(std::string(name) + " needs a value");
    }
    return argv[++*i];
}

Options parse(int argc, char **argv)
{
    Options options;
    options.for_catch.push_back(argv[0]);
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (const char *device = option_value("--device", argc, argv, &i)) {
            setenv("VIPL_TEST_DEVICE", device, 1);
        } else if (const char *peer = option_value("--peer-device", argc, argv, &i)) {
            setenv("VIPL_TEST_PEER_DEVICE", peer, 1);
        } else if (const char *space = option_value("--peer-netns", argc, argv, &i)) {
            setenv("VIPL_TEST_PEER_NETNS", space, 1);
        } else if (const char *level = option_value("--level", argc, argv, &i)) {
            options.level = level_from_name(level);
        } else if (const char *mode = option_value("--mode", argc, argv, &i)) {
            options.mode = mode;
        } else if (const char *junit = option_value("--junit", argc, argv, &i)) {
            options.junit = junit;
        } else if (word == "--tap") {
            options.tap = true;
        } else if (word == "--list") {
            options.list = true;
        } else if (word == "-h" || word == "--help") {
            std::cout << kUsage;
            std::exit(0);
        } else if (word == "--version") {
            std::cout << "vipl-conformance " << VIPL_VERSION_STRING << '\n';
            std::exit(0);
        } else {
            options.for_catch.push_back(argv[i]);
        }
    }
    if (options.mode != "inproc" && options.mode != "procs" && options.mode != "both") {
        usage_error("--mode is inproc, procs or both, not '" + options.mode + "'");
    }
    return options;
}

/** Exclusions to put before each of Catch2's filters: higher levels, and the other setting. */
std::string exclusions(const Options &options)
{
    std::string text = "~[.]";
    for (int i = options.level + 1; i < kLevels; ++i) {
        text += std::string("~[") + kLevelTags[i] + ']';
    }
    if (options.mode != "both") {
        text += options.mode == "inproc" ? "~[procs]" : "~[inproc]";
    }
    return text;
}

void restrict_filters(std::vector<std::string> &filters, const std::string &prefix)
{
    for (std::string &filter : filters) {
        std::string out = prefix;
        for (size_t i = 0; i < filter.size(); ++i) {
            out += filter[i];
            if (filter[i] == '\\' && i + 1 < filter.size()) {
                out += filter[++i];
            } else if (filter[i] == ',') {
                out += prefix;
            }
        }
        filter = out;
    }
    if (filters.empty()) {
        filters.push_back(prefix);
    }
}

/** Results so far, and the watchdog that prints them when a case does not end. */
class Run {
public:
    static Run &get()
    {
        static Run run;
        return run;
    }

    void start(const Options &options)
    {
        options_ = options;
        watchdog_ = std::thread([this] { watch(); });
    }

    void begin_case(const std::string &name)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        running_ = name;
        deadline_ = std::chrono::system_clock::now() + std::chrono::seconds(2 * vipl_test::case_limit() + 10);
        changed_.notify_all();
    }

    void end_case(CaseResult result)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        running_.clear();
        if (result.outcome == CaseResult::failed && !options_.tap) {
            std::cout << "FAILED: " << result.function << ": " << result.name << '\n'
                      << result.text << std::endl;
        }
        results_.push_back(std::move(result));
    }

    /** Print everything; whether all went well. */
    bool finish()
    {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            finished_ = true;
            changed_.notify_all();
        }
        watchdog_.join();
        const std::lock_guard<std::mutex> lock(mutex_);
        return report();
    }

private:
    void watch()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!finished_) {
            const auto now = std::chrono::system_clock::now();
            if (running_.empty()) {
                changed_.wait(lock);
            } else if (now < deadline_) {
                changed_.wait_until(lock, deadline_);
            } else {
                std::cout << "HUNG: " << running_ << "\nThe run ends here." << std::endl;
                results_.push_back({running_, "(hung)", options_.level, CaseResult::failed, "hung", 0});
                report();
                std::cout.flush();
                _exit(1);
            }
        }
    }

    bool report()
    {
        if (options_.tap) {
            print_tap(std::cout, results_);
        }
        print_tables(std::cout, results_, options_.level, options_.tap ? "# " : "");
        bool good = !results_.empty();
        for (const CaseResult &result : results_) {
            good = good && result.outcome != CaseResult::failed;
        }
        if (!options_.junit.empty() && !write_junit(options_.junit, results_)) {
            std::cerr << "vipl-conformance: cannot write " << options_.junit << '\n';
            good = false;
        }
        return good;
    }

    Options options_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread watchdog_;
    bool finished_ = false;
    std::string running_;
    std::chrono::system_clock::time_point deadline_;
    std::vector<CaseResult> results_;
};

/** Hears of every case and assertion from Catch2. */
struct ResultListener : Catch::TestEventListenerBase {
    using TestEventListenerBase::TestEventListenerBase;

    void testCaseStarting(const Catch::TestCaseInfo &info) override
    {
        text_.clear();
        vipl_test::take_not_applicable();
        started_ = std::chrono::steady_clock::now();
        Run::get().begin_case(info.name);
    }

    bool assertionEnded(const Catch::AssertionStats &stats) override
    {
        const Catch::AssertionResult &result = stats.assertionResult;
        if (!result.isOk()) {
            std::string text;
            if (result.getResultType() != Catch::ResultWas::ThrewException) {
                text = std::string(result.getSourceInfo().file) + ':' +
                       std::to_string(result.getSourceInfo().line) + ": " + result.getExpressionInMacro() +
                       '\n' + result.getExpandedExpression() + '\n';
            }
            text_ += text + std::string(result.getMessage()) + '\n';
        }
        return true;
    }

    void testCaseEnded(const Catch::TestCaseStats &stats) override
    {
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
        const std::string reason = vipl_test::take_not_applicable();
        const bool good = stats.totals.testCases.failed == 0;
        Run::get().end_case({stats.testInfo.name, function_of(stats.testInfo.tags),
                             level_of(stats.testInfo.tags),
                             !reason.empty() ? CaseResult::not_applicable
                             : good          ? CaseResult::passed
                                             : CaseResult::failed,
                             reason.empty() ? text_ : reason, seconds.count()});
    }

private:
    std::string text_;
    std::chrono::steady_clock::time_point started_;
};
CATCH_REGISTER_LISTENER(ResultListener)

/** Prints nothing: the listener's report is the default output. */
struct QuietReporter : Catch::StreamingReporterBase<QuietReporter> {
    using StreamingReporterBase::StreamingReporterBase;

    static std::string getDescription() { return "No output but the suite's own report"; }
    void assertionStarting(const Catch::AssertionInfo &) override {}
    bool assertionEnded(const Catch::AssertionStats &) override { return true; }
};
CATCH_REGISTER_REPORTER("quiet", QuietReporter)

/** Every case has exactly one level and a function or topic; a slip of the suite is no result. */
void check_tags(Catch::Config &config)
{
    for (const Catch::TestCase &one : Catch::getAllTestCasesSorted(config)) {
        if (level_of(one.tags) < 0 || function_of(one.tags).empty()) {
            std::cerr << "vipl-conformance: case '" << one.name << "' has no function or not one level\n";
            std::exit(2);
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    const Options options = parse(argc, argv);
    setenv("VIPL_LOG", "off", 0); // cases provoke errors on purpose
    vipl_test::start_zygote();

    Catch::Session session;
    session.configData().reporterName = "quiet";
    if (session.applyCommandLine(static_cast<int>(options.for_catch.size()), options.for_catch.data()) != 0) {
        return 2;
    }
    restrict_filters(session.configData().testsOrTags, exclusions(options));
    session.configData().listTests |= options.list;
    const auto &config = session.configData();
    if (config.listTests || config.listTags || config.listTestNamesOnly || config.listReporters ||
        config.showHelp) {
        session.run();
        return 0;
    }
    check_tags(session.config());
    Run::get().start(options);
    session.run();
    return Run::get().finish() ? 0 : 1;
}
