// SPDX-License-Identifier: MIT
//
// Lines as connected sockets of this host's loopback address: Windows has no socket pairs. The
// numbers of sockets fit into an int.
#include "support/line.hpp"

#include <algorithm>
#include <string>

#include "support/windows/ended.hpp"
#include "support/windows/line.hpp"

#include "support/check.hpp"
#include "support/environment.hpp"

namespace vipl_test {

namespace {

SOCKET socket_of(int line)
{
    return static_cast<SOCKET>(line);
}

[[noreturn]] void fail(const char *call)
{
    throw Failure(std::string(call) + ": error " + std::to_string(WSAGetLastError()));
}

/** A socket that no child inherits. */
SOCKET open_socket()
{
    const SOCKET made = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, nullptr, 0,
                                   WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (made == INVALID_SOCKET) {
        fail("WSASocket()");
    }
    return made;
}

void send_at_once(SOCKET socket)
{
    const BOOL on = TRUE;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, reinterpret_cast<const char *>(&on), sizeof on);
}

bool wait_readable(SOCKET socket, unsigned long long end)
{
    const unsigned long long now = now_ms();
    const auto left = static_cast<long>(now < end ? std::min(end - now, 1000000ull) : 0);
    timeval time = {left / 1000, left % 1000 * 1000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(socket, &set);
    return select(0, &set, nullptr, nullptr, &time) > 0;
}

} // namespace

void start_sockets()
{
    static const bool started = [] {
        WSADATA data;
        return WSAStartup(MAKEWORD(2, 2), &data) == 0;
    }();
    if (!started) {
        throw Failure("WSAStartup() fails");
    }
}

LinePair::LinePair()
{
    start_sockets();
    const SOCKET listener = open_socket(), caller = open_socket();
    sockaddr_in here{};
    int length = sizeof here;
    auto *address = reinterpret_cast<sockaddr *>(&here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, address, &length) != 0 || connect(caller, address, length) != 0) {
        fail("connect()");
    }
    const SOCKET accepted = accept(listener, nullptr, nullptr);
    closesocket(listener);
    if (accepted == INVALID_SOCKET) {
        fail("accept()");
    }
    SetHandleInformation(reinterpret_cast<HANDLE>(accepted), HANDLE_FLAG_INHERIT, 0);
    send_at_once(accepted);
    send_at_once(caller);
    end[0] = static_cast<int>(accepted);
    end[1] = static_cast<int>(caller);
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
        if (!wait_readable(socket_of(line), end)) {
            throw Failure("the other side did not come to the same point in time");
        }
        const int got = recv(socket_of(line), next, static_cast<int>(size), 0);
        if (got <= 0) {
            return false;
        }
        next += got;
        size -= static_cast<size_t>(got);
    }
    return true;
}

bool line_write(int line, const void *data, size_t size)
{
    const auto *next = static_cast<const char *>(data);
    while (size > 0) {
        const int put = ::send(socket_of(line), next, static_cast<int>(size), 0);
        if (put <= 0) {
            return false;
        }
        next += put;
        size -= static_cast<size_t>(put);
    }
    return true;
}

void line_shut(int line)
{
    shutdown(socket_of(line), SD_BOTH);
}

void line_close(int line)
{
    closesocket(socket_of(line));
}

} // namespace vipl_test
