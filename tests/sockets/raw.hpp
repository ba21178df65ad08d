// SPDX-License-Identifier: MIT
//
// Calls that the library does not see.
#ifndef VIPL_SOCKETS_RAW_HPP
#define VIPL_SOCKETS_RAW_HPP

#include <sys/syscall.h>

#include "tcp_pair.hpp"

namespace sockets_test {

inline ssize_t raw_send(int fd, const std::string &bytes)
{
    return syscall(SYS_sendto, fd, bytes.data(), bytes.size(), MSG_NOSIGNAL, nullptr, 0);
}

inline std::string raw_receive(int fd, size_t most)
{
    std::string text(most, '\0');
    size_t done = 0;
    while (done < most) {
        const ssize_t n = syscall(SYS_recvfrom, fd, &text[done], most - done, 0, nullptr, nullptr);
        if (n <= 0) {
            break;
        }
        done += static_cast<size_t>(n);
    }
    text.resize(done);
    return text;
}

inline Fd raw_connect(const Listener &listener)
{
    Fd client(static_cast<int>(syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    must(syscall(SYS_connect, int(client), &listener.address, sizeof(listener.address)) == 0, "connect");
    return client;
}

// --- messages of the handshake, and where their fields are ---

enum { kKind = 16, kVersion = 17, kHostLength = 18, kMessages = 20, kDevice = 60 };

/** HELLO of this library, with a nonce that no other has. */
inline std::string hello()
{
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();
    const std::string bytes = raw_receive(server, 128);
    must(bytes.size() == 128 && bytes.compare(1, 4, "VIPL") == 0, "HELLO");
    return bytes;
}

/** Has the server go on with the handshake until it has replied something. */
inline std::string reply_of(int server, int client, size_t bytes)
{
    must(eventually([&] {
        must(has_nothing_to_read(server));
        char byte;
        return syscall(SYS_recvfrom, client, &byte, 1, MSG_PEEK | MSG_DONTWAIT, nullptr, nullptr) == 1;
    }));
    return raw_receive(client, bytes);
}

} // namespace sockets_test

#endif
