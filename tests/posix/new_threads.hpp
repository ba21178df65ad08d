// SPDX-License-Identifier: MIT
//
// The threads of this process that have begun since a moment, as /proc shows them.
#ifndef VIPL_CONFORMANCE_NEW_THREADS_HPP
#define VIPL_CONFORMANCE_NEW_THREADS_HPP

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <dirent.h>

#include "support/check.hpp"
#include "support/environment.hpp"

namespace vipl_conformance {

using namespace vipl_test;

inline std::vector<std::string> entries_of(const char *folder)
{
    std::vector<std::string> found;
    if (DIR *dir = opendir(folder)) {
        while (const dirent *entry = readdir(dir)) {
            if (entry->d_name[0] != '.') {
                found.emplace_back(entry->d_name);
            }
        }
        closedir(dir);
    }
    return found;
}

/** Whether the thread has begun to end: it stays in /proc for a moment after it has been joined. */
inline bool is_ending(const std::string &thread)
{
    constexpr unsigned kExiting = 4; // PF_EXITING, in the flags of proc(5)'s stat
    std::ifstream file("/proc/self/task/" + thread + "/stat");
    std::string line, state;
    std::getline(file, line);
    std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    long long parent, group, session, terminal, foreground;
    unsigned flags = 0;
    const bool read =
        !(fields >> state >> parent >> group >> session >> terminal >> foreground >> flags).fail();
    return !read || (flags & kExiting) != 0;
}

/** The threads that have begun since the object was made: those that others left may end
 * meanwhile. */
class NewThreads {
public:
    NewThreads() : old_(entries_of("/proc/self/task")) {}

    size_t count() const
    {
        size_t count = 0;
        for (const std::string &thread : entries_of("/proc/self/task")) {
            const bool is_old = std::find(old_.begin(), old_.end(), thread) != old_.end();
            count += !is_old && !is_ending(thread) ? 1 : 0;
        }
        return count;
    }

    /** A thread that nobody joins ends in its own time. */
    void expect_none_soon() const
    {
        const unsigned long long end = now_ms() + patience();
        while (count() != 0 && now_ms() < end) {
            give_way();
        }
        EXPECT_EQ(0U, count());
    }

private:
    std::vector<std::string> old_;
};

} // namespace vipl_conformance

#endif
