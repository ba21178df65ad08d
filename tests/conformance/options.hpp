// SPDX-License-Identifier: MIT
//
// vipl-conformance's command line.
#ifndef VIPL_CONFORMANCE_OPTIONS_HPP
#define VIPL_CONFORMANCE_OPTIONS_HPP

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report.hpp"

namespace vipl_conformance {

struct Options {
    int level = kFull;
    std::string mode = "both";
    std::string junit;
    std::string shuffle;                         // the seed; empty: in the order of the files
    std::map<std::string, std::string> left_out; // of a tag, the reason why its cases are not run
    bool tap = false;
    bool list = false;
    std::vector<std::pair<const char *, const char *>> settings; // for the environment
    std::vector<char *> for_catch;                               // what is Catch2's, the program's name first
};

/** An exit code, or -1 to go on. What it says it has written to the standard output or error. */
int parse(int argc, char **argv, Options &options);

} // namespace vipl_conformance

#endif
