// SPDX-License-Identifier: MIT
//
// What the cases of traces share: the file, and its lines.
#ifndef VIPL_TESTS_TRACE_FILE_HPP
#define VIPL_TESTS_TRACE_FILE_HPP

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "support/check.hpp"

namespace vipl_test {

/** A file for a trace, gone with the object. */
class TraceFile {
public:
    TraceFile()
    {
        const char *folder = std::getenv("TMPDIR");
        path_ = std::string(folder != nullptr ? folder : "/tmp") + "/vipl-trace-XXXXXX";
        const int fd = mkstemp(path_.data());
        EXPECT(fd >= 0);
        close(fd);
    }
    ~TraceFile() { std::remove(path_.c_str()); }
    TraceFile(const TraceFile &) = delete;
    TraceFile &operator=(const TraceFile &) = delete;

    const std::string &path() const { return path_; }
    std::vector<std::string> lines() const
    {
        std::ifstream file(path_);
        std::vector<std::string> all;
        for (std::string line; std::getline(file, line);) {
            all.push_back(line);
        }
        return all;
    }

private:
    std::string path_;
};

inline std::string operation(const std::string &line)
{
    std::istringstream in(line);
    std::string time, thread, name;
    in >> time >> thread >> name;
    return name;
}

inline bool has(const std::vector<std::string> &lines, const std::string &name, const std::string &part)
{
    return std::any_of(lines.begin(), lines.end(), [&](const std::string &line) {
        return operation(line) == name && line.find(part) != std::string::npos;
    });
}

} // namespace vipl_test

#endif
