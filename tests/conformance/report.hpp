// SPDX-License-Identifier: MIT
//
// What the suite says about a run: failures as they happen, then a table per level, the cases that
// do not apply, or were left out, with their reasons, and one line in all. Also as TAP and as
// JUnit's XML.
#ifndef VIPL_CONFORMANCE_REPORT_HPP
#define VIPL_CONFORMANCE_REPORT_HPP

#include <iosfwd>
#include <string>
#include <vector>

namespace vipl_conformance {

struct CaseResult {
    enum Outcome { passed, failed, not_applicable, left_out };

    std::string name;
    std::string function; // the VIPL function, or another topic, that the case is about
    int level;            // index into kLevelNames
    Outcome outcome;
    std::string text; // why it failed, does not apply or was left out
    double seconds;

    bool skipped() const { return outcome == not_applicable || outcome == left_out; }
};

inline constexpr const char *kLevelNames[] = {"Early Adopter", "Functional", "Full Conformance",
                                              "POSIX extensions"};
inline constexpr const char *kLevelTags[] = {"early", "functional", "full", "posix"};
inline constexpr int kLevels = 4;
inline constexpr int kFull = 2; // all of VIPL 1.0

/** A case's level from its tags: exactly one of kLevelTags, or -1. */
int level_of(const std::vector<std::string> &tags);

/** The Vip... tag of a case, or else its first tag that is no level and no setting. */
std::string function_of(const std::vector<std::string> &tags);

/** Tables for levels 0 to `level`, what does not apply or was left out, and the total; every line
 * starts with `prefix`. */
void print_tables(std::ostream &out, const std::vector<CaseResult> &results, int level, const char *prefix);

void print_tap(std::ostream &out, const std::vector<CaseResult> &results);

/** False if the file cannot be written. */
bool write_junit(const std::string &file, const std::vector<CaseResult> &results);

} // namespace vipl_conformance

#endif
