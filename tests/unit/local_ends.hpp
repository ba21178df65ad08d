// SPDX-License-Identifier: MIT
//
// Connected ends between processes, both of which are in this one. Where they are sockets, what one
// end has sent is at the other one at once; on Windows a thread of the library reads it ahead, so a
// case says when all of it must have come. No Catch: fuzzers use it, too.
#ifndef VIPL_UNIT_LOCAL_ENDS_HPP
#define VIPL_UNIT_LOCAL_ENDS_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "internal.hpp"

namespace unit {

inline void must(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "a test's own assumption is not so: %s\n", what);
        std::abort();
    }
}

/** Whether something comes, of another thread or the system: it does within moments. */
inline bool comes(int fd)
{
    constexpr int kPatienceMs = 10000;
    return vipl_poll(&fd, 1, kPatienceMs, nullptr) == 0;
}

/** Makes two connected ends, as of two processes that have met by a name. */
inline void make_ends(int fds[2])
{
    std::uint64_t name[2];
    int listener = -1, lock = -1;
    fds[0] = fds[1] = -1;
    must(vipl_entropy(name, sizeof name) == 0, "entropy");
    must(vipl_local_listen(name, sizeof name, &listener, &lock) == 0, "a name");
    must(vipl_local_connect(name, sizeof name, &fds[1]) == 0, "a caller");
    must(comes(listener) && vipl_local_accept(listener, &fds[0]) == 0, "the caller is accepted");
    vipl_local_unlisten(name, sizeof name, listener, lock);
}

/** All that this process has sent to ends of its own, `messages` to each at most, has come, and so
 * have calls and hang-ups. */
inline void settle(unsigned messages = 1)
{
    // On Windows one thread reads all ends, in the order in which the system tells it that they
    // have something. It begins each read at its turn, and the first one of a new end, too: in one
    // turn of a message of ours every end has been read once, or its first read has begun.
    static const struct Probe {
        Probe() { make_ends(ends); }
        int ends[2];
    } probe;
    for (unsigned i = 0; i <= messages; ++i) {
        char byte = 0;
        size_t length = 0;
        int none[2];
        must(vipl_local_send(probe.ends[0], "!", 1, nullptr, 0) == 0 && comes(probe.ends[1]) &&
                 vipl_local_receive(probe.ends[1], &byte, 1, &length, none) == 0 && length == 1,
             "a message arrives");
    }
}

} // namespace unit

#endif
