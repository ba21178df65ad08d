// SPDX-License-Identifier: MIT
//
// Lines as socket pairs.
#include "line.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.hpp"
#include "environment.hpp"

namespace vipl_test {

namespace {

bool wait_readable(int fd, unsigned long long end)
{
    for (;;) {
        const unsigned long long now = now_ms();
        pollfd entry = {fd, POLLIN, 0};
        const int ready = poll(&entry, 1, now < end ? static_cast<int>(end - now) : 0);
        if (ready > 0) {
            return true;
        }
        if (ready == 0 && now >= end) {
            return false;
        }
    }
}

} // namespace

LinePair::LinePair()
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end) != 0) {
        throw Failure(std::string("socketpair: ") + std::strerror(errno));
    }
}

LinePair::~LinePair()
{
    close_end(0);
    close_end(1);
}

void LinePair::close_end(int i)
{
    if (end[i] >= 0) {
        line_close(end[i]);
        end[i] = -1;
    }
}

bool line_read(int line, void *data, size_t size, unsigned long long end)
{
    auto *next = static_cast<char *>(data);
    while (size > 0) {
        if (!wait_readable(line, end)) {
            throw Failure("the other side did not come to the same point in time");
        }
        const ssize_t got = recv(line, next, size, 0);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        if (got > 0) {
            next += got;
            size -= static_cast<size_t>(got);
        }
    }
    return true;
}

bool line_write(int line, const void *data, size_t size)
{
    const auto *next = static_cast<const char *>(data);
    while (size > 0) {
        const ssize_t put = ::send(line, next, size, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        if (put > 0) {
            next += put;
            size -= static_cast<size_t>(put);
        }
    }
    return true;
}

void line_shut(int line)
{
    shutdown(line, SHUT_RDWR);
}

void line_close(int line)
{
    close(line);
}

} // namespace vipl_test
