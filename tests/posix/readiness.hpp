// SPDX-License-Identifier: MIT
//
// A descriptor from VipxGetFd, looked at as an event loop does: nothing of VIPL is called
// meanwhile.
#ifndef VIPL_CONFORMANCE_READINESS_HPP
#define VIPL_CONFORMANCE_READINESS_HPP

#include <cerrno>

#include <poll.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"

namespace vipl_conformance {

inline int fd_of(VIPX_FD_KIND kind, VIP_PVOID handle)
{
    int fd = -1;
    REQUIRE_VIP(VipxGetFd(kind, handle, &fd));
    EXPECT(fd >= 0);
    return fd;
}

/** Whether it becomes readable in so many milliseconds. */
inline bool is_readable(int fd, VIP_ULONG timeout = 0)
{
    const unsigned long long end = now_ms() + timeout;
    for (;;) {
        pollfd set = {fd, POLLIN, 0};
        const unsigned long long now = now_ms();
        const int ready = poll(&set, 1, now < end ? static_cast<int>(end - now) : 0);
        EXPECT(ready >= 0 || errno == EINTR);
        EXPECT(ready <= 0 || set.revents == POLLIN); // nothing but that
        if (ready >= 0) {
            return ready == 1;
        }
    }
}

inline void expect_readable(int fd)
{
    EXPECT(is_readable(fd, patience()));
    EXPECT(is_readable(fd)); // and stays so
}

/** A descriptor that was readable once looks so no more, once nothing is left to take. */
inline void expect_quiet(int fd)
{
    EXPECT(!is_readable(fd));
}

} // namespace vipl_conformance

#endif
