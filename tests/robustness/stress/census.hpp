// SPDX-License-Identifier: MIT
//
// What this process holds, as the kernel sees it: open descriptors, threads, mappings of the
// library's shared segments, resident memory; and the library's sockets of a discriminator, by
// the name that names.c gives them.
#ifndef VIPL_STRESS_CENSUS_HPP
#define VIPL_STRESS_CENSUS_HPP

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <dirent.h>
#include <unistd.h>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/system_name.hpp"

namespace stress {

inline unsigned count_entries(const char *folder)
{
    unsigned count = 0;
    if (DIR *dir = opendir(folder)) {
        while (const dirent *entry = readdir(dir)) {
            count += entry->d_name[0] != '.' ? 1 : 0;
        }
        closedir(dir);
    }
    return count;
}

inline unsigned count_lines(const char *path, const std::string &text)
{
    unsigned count = 0;
    char line[1024];
    if (FILE *file = std::fopen(path, "re")) {
        while (std::fgets(line, sizeof line, file) != nullptr) {
            count += std::strstr(line, text.c_str()) != nullptr ? 1 : 0;
        }
        std::fclose(file);
    }
    return count;
}

/** A listening socket's name without its end: 'vipl/loopback/UID/w<hash>/PLACE'. */
inline std::string socket_name(char kind, const std::string &discriminator)
{
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : discriminator) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    char text[96];
    std::snprintf(text, sizeof text, "vipl/loopback/%u/%c%016llx/", static_cast<unsigned>(geteuid()), kind,
                  static_cast<unsigned long long>(hash));
    return text;
}

/** Listening sockets, of any process, for this discriminator: bound ones and those accepted from
 * them. */
inline unsigned count_sockets(const std::string &discriminator)
{
    unsigned count = 0;
    for (const char kind : {'w', 'r', 'p'}) {
        count += count_lines("/proc/net/unix", vipl_test::system_name(socket_name(kind, discriminator)));
    }
    return count;
}

struct Census {
    unsigned fds;
    unsigned threads;
    unsigned mappings; // of the library's shared segments

    /** No more of anything: what was counted may have been about to go. */
    bool within(const Census &other) const
    {
        return fds <= other.fds && threads <= other.threads && mappings <= other.mappings;
    }
};

inline Census take_census()
{
    return {count_entries("/proc/self/fd"), count_entries("/proc/self/task"),
            count_lines("/proc/self/maps", vipl_test::segment_name())};
}

inline std::string show(const Census &census)
{
    return std::to_string(census.fds) + " descriptors, " + std::to_string(census.threads) + " threads, " +
           std::to_string(census.mappings) + " shared mappings";
}

/** Require the census to become no more than that, while `progress` is called. */
template <class Progress>
void expect_census(const Census &most, Progress progress)
{
    const unsigned long long end = vipl_test::now_ms() + vipl_test::patience();
    Census seen = take_census();
    while (!seen.within(most) && vipl_test::now_ms() < end) {
        progress();
        seen = take_census();
    }
    if (!seen.within(most)) {
        throw vipl_test::Failure("census: expected " + show(most) + "\n        seen     " + show(seen));
    }
}

/** Resident memory in KiB. */
inline long resident_kib()
{
    long pages = 0;
    if (FILE *file = std::fopen("/proc/self/statm", "re")) {
        if (std::fscanf(file, "%*s %ld", &pages) != 1) {
            pages = 0;
        }
        std::fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

} // namespace stress

#endif
