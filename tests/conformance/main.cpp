// SPDX-License-Identifier: MIT
//
// vipl-conformance: does a VIPL device keep the contract? Selects cases by level and by setting,
// runs them with Catch2, and reports. The process that makes children is forked before anything
// else; a watchdog ends a run whose case hangs, with the report as far as it got.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "options.hpp"
#include "report.hpp"
#include "support/catch2/session.hpp"
#include "support/role_case.hpp"
#include "support/system.hpp"

using namespace vipl_conformance;

namespace {

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

    void start(const Options &options, std::size_t cases)
    {
        options_ = options;
        cases_ = cases;
        shows_ = isatty(STDERR_FILENO) != 0 && !options.tap;
        started_ = std::chrono::steady_clock::now();
        watchdog_ = std::thread([this] { watch(); });
    }

    /** A case that is not run. */
    void leave_out(CaseResult result)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        results_.push_back(std::move(result));
    }

    void begin_case(const std::string &name)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        running_ = name;
        show_progress();
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
            if (shows_) {
                std::cerr << "\r\033[K" << std::flush;
            }
        }
        watchdog_.join();
        const std::lock_guard<std::mutex> lock(mutex_);
        return report();
    }

private:
    /** On a terminal: how far it is, and how long it goes on if the other cases take as long as
     * those so far. */
    void show_progress()
    {
        const std::size_t done = ++begun_ - 1;
        if (!shows_ || done > cases_) {
            return;
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started_;
        std::cerr << "\r\033[K" << done << " of " << cases_ << " cases";
        if (done >= 10) {
            std::cerr << ", about "
                      << static_cast<int>(taken.count() / static_cast<double>(done) *
                                              static_cast<double>(cases_ - done) +
                                          1)
                      << " s left";
        }
        std::cerr << ": " << running_.substr(0, 60) << std::flush;
    }

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
        if (!options_.shuffle.empty()) {
            std::cout << (options_.tap ? "# " : "") << "Shuffled: --shuffle " << options_.shuffle
                      << " repeats this order.\n";
        }
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
    bool shows_ = false;
    std::size_t cases_ = 0, begun_ = 0;
    std::chrono::steady_clock::time_point started_;
    std::string running_;
    std::chrono::system_clock::time_point deadline_;
    std::vector<CaseResult> results_;
};

/** Hears of every case and assertion from Catch2. */
struct ResultListener : vipl_test::CatchListener {
    using vipl_test::CatchListener::CatchListener;

    void testCaseStarting(const Catch::TestCaseInfo &info) override
    {
        text_.clear();
        vipl_test::take_not_applicable();
        started_ = std::chrono::steady_clock::now();
        Run::get().begin_case(info.name);
    }

    vipl_test::CatchAssertionEnded assertionEnded(const Catch::AssertionStats &stats) override
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
        VIPL_CATCH_ASSERTION_ENDED;
    }

    void testCaseEnded(const Catch::TestCaseStats &stats) override
    {
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
        const std::string reason = vipl_test::take_not_applicable();
        const std::vector<std::string> tags = vipl_test::tags_of(vipl_test::case_of(stats));
        const bool good = stats.totals.testCases.failed == 0;
        Run::get().end_case({vipl_test::case_of(stats).name, function_of(tags), level_of(tags),
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
struct QuietReporter : vipl_test::CatchReporter<QuietReporter> {
    using vipl_test::CatchReporter<QuietReporter>::CatchReporter;

    static std::string getDescription() { return "No output but the suite's own report"; }
    void assertionStarting(const Catch::AssertionInfo &) override {}
    vipl_test::CatchAssertionEnded assertionEnded(const Catch::AssertionStats &) override
    {
        VIPL_CATCH_ASSERTION_ENDED;
    }
};
CATCH_REGISTER_REPORTER("quiet", QuietReporter)

/** Every case has exactly one level and a function or topic; a slip of the suite is no result. */
void check_tags(vipl_test::CatchSession &session)
{
    for (const auto &one : session.cases()) {
        if (level_of(one.tags) < 0 || function_of(one.tags).empty()) {
            std::cerr << "vipl-conformance: case '" << one.name << "' has no function or not one level\n";
            std::exit(2);
        }
    }
}

/** The selected cases: a line with the name, one with the tags. */
void list(vipl_test::CatchSession &session)
{
    for (const auto &one : session.cases()) {
        if (one.selected) {
            std::cout << one.name << "\n   ";
            for (const std::string &tag : one.tags) {
                std::cout << " [" << tag << ']';
            }
            std::cout << '\n';
        }
    }
}

/** Selected cases with these tags are reported now, and not selected any longer. */
void leave_out(vipl_test::CatchSession &session, const std::map<std::string, std::string> &tags)
{
    std::string filter;
    for (const auto &one : session.cases()) {
        const auto tag = std::find_if(one.tags.begin(), one.tags.end(),
                                      [&](const std::string &each) { return tags.count(each) > 0; });
        if (one.selected && tag != one.tags.end()) {
            Run::get().leave_out({one.name, function_of(one.tags), level_of(one.tags), CaseResult::left_out,
                                  tags.at(*tag), 0});
        }
    }
    for (const auto &each : tags) {
        filter += "~[" + each.first + ']';
    }
    restrict_filters(session.filters(), filter);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    const int code = parse(argc, argv, options);
    if (code >= 0) {
        return code;
    }
    for (const auto &setting : options.settings) {
        vipl_test::set_environment(setting.first, setting.second);
    }
    if (std::getenv("VIPL_LOG") == nullptr) {
        vipl_test::set_environment("VIPL_LOG", "off"); // cases provoke errors on purpose
    }
    vipl_test::start_zygote();

    vipl_test::CatchSession session;
    session.set_reporter("quiet");
    if (session.apply(static_cast<int>(options.for_catch.size()), options.for_catch.data()) != 0) {
        return 2;
    }
    restrict_filters(session.filters(), exclusions(options));
    if (!options.shuffle.empty()) {
        session.shuffle(static_cast<unsigned>(std::stoul(options.shuffle)));
    }
    if (session.take_list() || options.list) {
        list(session);
        return 0;
    }
    if (session.only_lists()) {
        session.run();
        return 0;
    }
    check_tags(session);
    if (!options.left_out.empty()) {
        leave_out(session, options.left_out);
    }
    const auto all = session.cases();
    const auto selected = std::count_if(all.begin(), all.end(), [](const auto &one) { return one.selected; });
    if (selected == 0) {
        std::cerr << "vipl-conformance: no case is selected; --list names them all\n";
    }
    Run::get().start(options, static_cast<std::size_t>(selected));
    session.run();
    return Run::get().finish() ? 0 : 1;
}
