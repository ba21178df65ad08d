// SPDX-License-Identifier: MIT
#include "pair.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace {

int must(int result, const char *what)
{
    if (result < 0) {
        throw Wrong{std::string(what) + ": " + error_name(errno)};
    }
    return result;
}

sockaddr_in loopback(int port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

// One byte of the stream that an end sends.
unsigned char byte_at(int end, std::uint64_t offset)
{
    return static_cast<unsigned char>(offset * 131 + (offset >> 7) * 29 + (offset >> 16) * 3 +
                                      static_cast<unsigned>(end) * 101);
}

} // namespace

std::string error_name(int error)
{
    static const std::pair<int, const char *> kNames[] = {
        {0, "0"},
        {EAGAIN, "EAGAIN"},
        {ECONNRESET, "ECONNRESET"},
        {EEXIST, "EEXIST"},
        {EINTR, "EINTR"},
        {EINVAL, "EINVAL"},
        {ENOENT, "ENOENT"},
        {EPIPE, "EPIPE"},
        {ENOTCONN, "ENOTCONN"},
        {ENOTSOCK, "ENOTSOCK"},
        {ESPIPE, "ESPIPE"},
    };
    for (const auto &one : kNames) {
        if (one.first == error) {
            return one.second;
        }
    }
    return "errno " + std::to_string(error);
}

int limit_ms()
{
    const char *scale = std::getenv("VIPL_TEST_TIMEOUT_SCALE");
    return 20000 * (scale == nullptr ? 1 : std::atoi(scale));
}

int listen_at(int port)
{
    int fd = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    int on = 1;
    must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
    sockaddr_in address = loopback(port);
    must(bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)), "bind");
    must(listen(fd, 8), "listen");
    return fd;
}

int port_of(int fd)
{
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    must(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size), "getsockname");
    return ntohs(address.sin_port);
}

Pair::Pair(const char *its_name, int listener, bool nonblocking) : name(its_name)
{
    fds[0].push_back(must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    sockaddr_in address = loopback(port_of(listener));
    must(connect(fds[0][0], reinterpret_cast<sockaddr *>(&address), sizeof(address)), "connect");
    fds[1].push_back(must(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), "accept4"));
    for (auto &each : fds) {
        int on = 1; // or the kernel holds small segments back for 40 ms
        must(setsockopt(each[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
        if (nonblocking) {
            must(fcntl(each[0], F_SETFL, O_NONBLOCK), "F_SETFL");
        }
    }
    set = must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    outer = must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    epoll_event event{};
    event.events = EPOLLIN;
    must(epoll_ctl(outer, EPOLL_CTL_ADD, set, &event), "EPOLL_CTL_ADD");
}

Pair::~Pair()
{
    close_end(0);
    close_end(1);
    close(outer);
    close(set);
}

void Pair::close_end(int end)
{
    for (int each : fds[end]) {
        close(each);
    }
    fds[end].clear();
}

short Pair::state(int end, int timeout_ms) const
{
    pollfd one{fds[end][0], POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0};
    must(poll(&one, 1, timeout_ms), "poll");
    return one.revents;
}

std::vector<unsigned char> Pair::next(int end, std::size_t size) const
{
    std::vector<unsigned char> bytes(size);
    for (std::size_t i = 0; i < size; i++) {
        bytes[i] = byte_at(end, sent[end] + i);
    }
    return bytes;
}

bool Pair::is_right(int end, const unsigned char *bytes, std::size_t size, std::uint64_t offset) const
{
    for (std::size_t i = 0; i < size; i++) {
        if (bytes[i] != byte_at(1 - end, received[end] + offset + i)) {
            return false;
        }
    }
    return true;
}

void Pair::send_first(int end)
{
    auto end_of_time = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms());
    auto bytes = next(end, 1);
    while (send(fd(end), bytes.data(), 1, MSG_NOSIGNAL) != 1) {
        if (errno != EAGAIN || std::chrono::steady_clock::now() > end_of_time) {
            throw Wrong{std::string(name) + ": the first send fails: " + error_name(errno)};
        }
        state(1 - end); // one thread has both ends: each may have to act
        pollfd one{fd(end), POLLOUT, 0};
        poll(&one, 1, 1);
    }
    sent[end] += 1;
}

void Pair::warm_up()
{
    for (int end : {0, 1}) {
        send_first(end);
        Model model;
        model.ends[1 - end].unread = 1;
        settle(model);
        unsigned char byte = 0;
        if (recv(fd(1 - end), &byte, 1, 0) != 1 || !is_right(1 - end, &byte, 1)) {
            throw Wrong{std::string(name) + ": WRONG first byte: " + error_name(errno)};
        }
        received[1 - end] += 1;
    }
}

void Pair::settle(const Model &model) const
{
    auto end_of_time = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms());
    for (;;) {
        std::string missing;
        for (int end : {0, 1}) {
            const End &one = model.ends[end];
            if (!one.open) {
                continue;
            }
            short now = state(end);
            int count = -1;
            must(ioctl(fds[end][0], FIONREAD, &count), "FIONREAD");
            if (static_cast<std::size_t>(count) != one.unread) {
                missing = "FIONREAD of end " + std::to_string(end) + " is " + std::to_string(count) +
                          ", not " + std::to_string(one.unread);
            } else if (one.reset && !(now & POLLHUP)) {
                missing = "end " + std::to_string(end) + " does not learn that it was reset";
            } else if (one.at_end && !(now & POLLRDHUP)) {
                missing = "end " + std::to_string(end) + " does not learn of the end of the stream";
            }
        }
        if (missing.empty()) {
            return;
        }
        if (std::chrono::steady_clock::now() > end_of_time) {
            throw Wrong{std::string("HUNG: ") + name + ": " + missing};
        }
        sched_yield();
    }
}
