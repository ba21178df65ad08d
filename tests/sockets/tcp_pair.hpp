// SPDX-License-Identifier: MIT
//
// Two ends of a TCP connection of this process, which knows nothing of VIPL. The tests are run with
// libvipl-sockets.so loaded before the C library, and once without it: what they expect is what the
// kernel does.
#ifndef VIPL_SOCKETS_TCP_PAIR_HPP
#define VIPL_SOCKETS_TCP_PAIR_HPP

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/environment.hpp"

namespace sockets_test {

/** Whether connections are to be moved: the library is loaded. */
inline bool moves()
{
    return getenv("TEST_MOVES") != nullptr;
}

/** For threads and children, where Catch2 may not be called. */
inline void must(bool holds, const char *what = "a socket has not done what it must")
{
    if (!holds) {
        throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    }
}

/** A descriptor. */
class Fd {
public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd &&other) noexcept : fd_(other.release()) {}
    Fd &operator=(Fd &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Fd() { close(); }
    operator int() const { return fd_; } // NOLINT: as the system's calls want it
    int release() { return std::exchange(fd_, -1); }
    void close()
    {
        if (fd_ >= 0) {
            ::close(release());
        }
    }

private:
    int fd_;
};

/** A listening socket on a port of 127.0.0.1 that the system chooses. */
struct Listener {
    Fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address = {};

    Listener()
    {
        socklen_t length = sizeof(address);
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        must(bind(fd, reinterpret_cast<sockaddr *>(&address), length) == 0, "bind");
        must(listen(fd, 64) == 0, "listen");
        must(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length) == 0, "getsockname");
    }
    Fd connect(int flags = 0) const
    {
        Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
        const int rc = ::connect(client, reinterpret_cast<const sockaddr *>(&address), sizeof(address));
        must(rc == 0 || errno == EINPROGRESS, "connect");
        return client;
    }
    Fd accept(int flags = 0) const
    {
        Fd server(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | flags));
        must(server >= 0, "accept");
        return server;
    }
};

inline void set_nonblocking(int fd, bool on)
{
    const int flags = fcntl(fd, F_GETFL);
    must(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

/** The bytes that the kernel has received for a socket. */
inline uint64_t kernel_received(int fd)
{
    tcp_info info = {};
    socklen_t length = sizeof(info);
    must(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0, "TCP_INFO");
    return info.tcpi_bytes_received;
}

/** What each end receives in the handshake: a message and a byte. */
constexpr uint64_t kHandshake = 128 + 1;

/** Whether nothing but the handshake has come to an end over TCP, and that whole. */
inline bool is_moved(int fd)
{
    return kernel_received(fd) == kHandshake;
}

/** Lets an end go on with the handshake. No byte of the program is there yet. */
inline bool has_nothing_to_read(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN;
}

/** Waits until something holds. */
template <typename Holds>
bool eventually(Holds holds)
{
    const auto end = vipl_test::now_ms() + vipl_test::patience();
    for (unsigned turn = 0; !holds(); turn++) {
        if (vipl_test::now_ms() > end) {
            return false;
        }
        vipl_test::give_way(turn);
    }
    return true;
}

/** Both ends, blocking, after the handshake. */
struct Pair {
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();

    Pair()
    {
        if (moves()) {
            must(eventually([&] {
                     must(has_nothing_to_read(server) && has_nothing_to_read(client));
                     return is_moved(server) && is_moved(client);
                 }),
                 "the connection has not been moved");
            must(has_nothing_to_read(server) && has_nothing_to_read(client));
        }
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;
    /** Whether the program's bytes have gone where they should have. */
    bool has_stayed_moved() const { return !moves() || (is_moved(server) && is_moved(client)); }
};

/** Bytes that tell where they come from. */
inline std::string pattern(size_t bytes, unsigned seed = 1)
{
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; i++) {
        text[i] = static_cast<char>((i * 2654435761u + seed) >> 11);
    }
    return text;
}

inline void send_all(int fd, const std::string &text)
{
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
        must(n > 0, "send");
        done += static_cast<size_t>(n);
    }
}

/** Receives a number of bytes, fewer at the end of the stream. */
inline std::string receive(int fd, size_t most)
{
    std::string text(most, '\0');
    size_t done = 0;
    while (done < most) {
        const ssize_t n = recv(fd, &text[done], most - done, 0);
        must(n >= 0, "recv");
        if (n == 0) {
            break;
        }
        done += static_cast<size_t>(n);
    }
    text.resize(done);
    return text;
}

/** The result of a call that fails: its errno value; 0: it has not failed. */
inline int error_of(ssize_t result)
{
    return result < 0 ? errno : 0;
}

inline int socket_error(int fd)
{
    int error = -1;
    socklen_t length = sizeof(error);
    must(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    return error;
}

inline void set_timeout(int fd, int name, int ms)
{
    const timeval time = {ms / 1000, ms % 1000 * 1000};
    must(setsockopt(fd, SOL_SOCKET, name, &time, sizeof(time)) == 0);
}

} // namespace sockets_test

#endif
