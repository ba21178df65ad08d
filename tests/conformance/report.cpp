// SPDX-License-Identifier: MIT
//
// The report's text. Knows nothing of Catch2 or VIPL: results in, lines out.
#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <ostream>

namespace vipl_conformance {

namespace {

struct Tally {
    int cases = 0, passed = 0, failed = 0, not_applicable = 0, left_out = 0; // cases: those that were run

    void add(const CaseResult &result)
    {
        cases += !result.skipped();
        passed += result.outcome == CaseResult::passed;
        failed += result.outcome == CaseResult::failed;
        not_applicable += result.outcome == CaseResult::not_applicable;
        left_out += result.outcome == CaseResult::left_out;
    }
};

std::string row(const std::string &name, const Tally &tally)
{
    char text[128];
    std::snprintf(text, sizeof text, "  %-34s %6d %6d", name.c_str(), tally.cases, tally.passed);
    return text;
}

std::string xml_escape(const std::string &text)
{
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        default:
            out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
        }
    }
    return out;
}

/** What does not apply: reasons, of many cases each. What was left out: by name as well. */
void print_skipped(std::ostream &out, const std::vector<CaseResult> &results, const char *prefix)
{
    std::map<std::string, int> do_not_apply;
    std::map<std::string, std::vector<std::string>> left_out;
    int sum = 0;
    for (const CaseResult &result : results) {
        if (result.outcome == CaseResult::not_applicable) {
            do_not_apply[result.text]++;
            sum++;
        } else if (result.outcome == CaseResult::left_out) {
            left_out[result.text].push_back(result.function + ": " + result.name);
        }
    }
    if (sum > 0) {
        out << prefix << "Not applicable: " << sum << '\n';
    }
    for (const auto &[reason, count] : do_not_apply) {
        out << prefix << "  " << count << ": " << reason << '\n';
    }
    for (const auto &[reason, names] : left_out) {
        out << prefix << "Left out: " << names.size() << ": " << reason << '\n';
        for (const std::string &name : names) {
            out << prefix << "  " << name << '\n';
        }
    }
}

} // namespace

int level_of(const std::vector<std::string> &tags)
{
    int level = -1;
    for (int i = 0; i < kLevels; ++i) {
        if (std::find(tags.begin(), tags.end(), kLevelTags[i]) != tags.end()) {
            level = level < 0 ? i : kLevels;
        }
    }
    return level == kLevels ? -1 : level;
}

std::string function_of(const std::vector<std::string> &tags)
{
    std::string topic;
    for (const std::string &tag : tags) {
        if (tag.compare(0, 3, "Vip") == 0) {
            return tag;
        }
        const bool other =
            tag == "inproc" || tag == "procs" ||
            std::find(std::begin(kLevelTags), std::end(kLevelTags), tag) != std::end(kLevelTags);
        if (topic.empty() && !other) {
            topic = tag;
        }
    }
    return topic;
}

void print_tables(std::ostream &out, const std::vector<CaseResult> &results, int level, const char *prefix)
{
    Tally all;
    for (const CaseResult &result : results) {
        all.add(result);
    }
    for (int i = 0; i <= level; ++i) {
        std::map<std::string, Tally> rows;
        Tally sum;
        for (const CaseResult &result : results) {
            if (result.level == i) {
                rows[result.function].add(result);
                sum.add(result);
            }
        }
        if (sum.cases == 0) {
            continue;
        }
        char heading[128];
        std::snprintf(heading, sizeof heading, "%-36s %6s %6s", kLevelNames[i], "cases", "passed");
        out << prefix << heading << '\n';
        for (const auto &[name, tally] : rows) {
            out << prefix << row(name, tally) << '\n';
        }
        out << prefix << row("", sum) << '\n';
    }
    print_skipped(out, results, prefix);
    for (const CaseResult &result : results) { // once more: a log's end is what is read
        if (result.outcome == CaseResult::failed) {
            out << prefix << "FAILED: " << result.function << ": " << result.name << '\n';
        }
    }
    out << prefix << kLevelNames[level] << ": " << all.cases << " cases, " << all.passed << " passed, "
        << all.failed << " failed, " << all.not_applicable << " not applicable, " << all.left_out
        << " left out\n";
}

void print_tap(std::ostream &out, const std::vector<CaseResult> &results)
{
    out << "TAP version 13\n1.." << results.size() << '\n';
    size_t number = 0;
    for (const CaseResult &result : results) {
        std::string name = result.function + ": " + result.name;
        std::replace(name.begin(), name.end(), '#', '_');
        out << (result.outcome == CaseResult::failed ? "not ok " : "ok ") << ++number << " - " << name;
        if (result.skipped()) {
            out << " # SKIP " << result.text;
        }
        out << '\n';
        if (result.outcome == CaseResult::failed) {
            std::string text = "  " + result.text;
            for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
                text.replace(at, 1, "\n#   ");
            }
            out << "# " << text << '\n';
        }
    }
}

bool write_junit(const std::string &file, const std::vector<CaseResult> &results)
{
    Tally all;
    double seconds = 0;
    for (const CaseResult &result : results) {
        all.add(result);
        seconds += result.seconds;
    }
    std::ofstream out(file);
    out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"vipl-conformance\" "
           "tests=\""
        << results.size() << "\" failures=\"" << all.failed << "\" errors=\"0\" skipped=\""
        << all.not_applicable + all.left_out << "\" time=\"" << seconds << "\">\n";
    for (const CaseResult &result : results) {
        out << "<testcase classname=\"" << kLevelTags[result.level] << '.' << xml_escape(result.function)
            << "\" name=\"" << xml_escape(result.name) << "\" time=\"" << result.seconds << "\">";
        if (result.outcome == CaseResult::failed) {
            out << "<failure message=\"" << xml_escape(result.text.substr(0, result.text.find('\n'))) << "\">"
                << xml_escape(result.text) << "</failure>";
        } else if (result.skipped()) {
            out << "<skipped message=\"" << xml_escape(result.text) << "\"/>";
        }
        out << "</testcase>\n";
    }
    out << "</testsuite>\n</testsuites>\n";
    out.close();
    return out.good();
}

} // namespace vipl_conformance
