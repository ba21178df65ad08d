// SPDX-License-Identifier: MIT
//
// An epoll set, and what a wait has found in it.
#ifndef VIPL_SOCKETS_EPOLL_SET_HPP
#define VIPL_SOCKETS_EPOLL_SET_HPP

#include <map>
#include <vector>

#include <sys/epoll.h>

#include "tcp_pair.hpp"

namespace sockets_test {

using Events = std::map<uint64_t, uint32_t>; // data, events

class Set {
public:
    Set() : fd_(epoll_create1(EPOLL_CLOEXEC)) { must(fd_ >= 0, "epoll_create1"); }
    operator int() const { return fd_; } // NOLINT
    int control(int operation, int fd, uint32_t events, uint64_t data) const
    {
        epoll_event event = {};
        event.events = events;
        event.data.u64 = data;
        return epoll_ctl(fd_, operation, fd, &event) == 0 ? 0 : errno;
    }
    int add(int fd, uint32_t events, uint64_t data = 1) const
    {
        return control(EPOLL_CTL_ADD, fd, events, data);
    }
    int modify(int fd, uint32_t events, uint64_t data = 1) const
    {
        return control(EPOLL_CTL_MOD, fd, events, data);
    }
    int remove(int fd) const { return epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr) == 0 ? 0 : errno; }
    Events wait(int ms = 0, int most = 64) const
    {
        std::vector<epoll_event> events(static_cast<size_t>(most));
        const int n = epoll_wait(fd_, events.data(), most, ms);
        must(n >= 0, "epoll_wait");
        Events found;
        for (int i = 0; i < n; i++) {
            found[events[static_cast<size_t>(i)].data.u64] |= events[static_cast<size_t>(i)].events;
        }
        must(found.size() == static_cast<size_t>(n), "each member is reported once");
        return found;
    }
    void close() { fd_.close(); }

private:
    Fd fd_;
};

} // namespace sockets_test

#endif
