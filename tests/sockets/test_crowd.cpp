// SPDX-License-Identifier: MIT
//
// More connections at once than VIs may be connected at once, between two processes of one thread
// each: none stays with TCP for that, and no end waits for the other one while that waits for it.
// The test's environment has the two ends wait for each other as long as a busy machine may take.
#include <string>
#include <vector>

#include "children.hpp"
#include "raw.hpp"

using namespace sockets_test;

namespace {

constexpr size_t kCrowd = 400;

/** Replies to a byte of each connection. The last ones are looked at first. */
void serve_backwards(const Listener &listener)
{
    std::vector<Fd> left;
    while (left.size() < kCrowd) {
        left.push_back(listener.accept());
    }
    for (unsigned turn = 0; !left.empty(); vipl_test::give_way(turn++)) {
        for (size_t i = left.size(); i-- > 0;) {
            char byte;
            const ssize_t n = recv(left[i], &byte, 1, MSG_DONTWAIT);
            must(n == 1 || (n == -1 && errno == EAGAIN), "a byte of a client");
            if (n == 1) {
                send_all(left[i], std::string(1, byte));
                must(receive(left[i], 1).empty(), "the client's end");
                left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
            }
        }
    }
}

/** In a process that has no listener: what it waits for is another process's. */
void ask_forwards(Listener &listener)
{
    listener.fd.close();
    std::vector<Fd> clients;
    while (clients.size() < kCrowd) {
        clients.push_back(listener.connect());
    }
    for (Fd &client : clients) {
        send_all(client, "x");
        must(receive(client, 1) == "x", "the reply");
        must(!moves() || is_moved(client), "the connection has not been moved");
        client.close();
    }
}

} // namespace

TEST_CASE("a crowd of connections, of which each end begins with other ones, is moved")
{
    Listener listener;
    must(listen(listener.fd, kCrowd) == 0, "listen");
    CHECK(in_child([&] { ask_forwards(listener); }, [&] { serve_backwards(listener); }) == 0);
}

TEST_CASE("connections that are being made when the process forks are the child's, too, however many")
{
    constexpr size_t kMany = 100;
    Listener listener;
    must(listen(listener.fd, kMany) == 0, "listen");
    std::vector<Fd> clients;
    while (clients.size() < kMany) {
        clients.push_back(listener.connect());
    }
    const int status = in_child(
        [&] {
            for (const Fd &client : clients) {
                send_all(client, "child");
            }
        },
        [&] {
            for (size_t i = 0; i < kMany; ++i) {
                const Fd server = listener.accept();
                CHECK(receive(server, 5) == "child");
            }
        });
    CHECK(status == 0);
}

TEST_CASE("a client that comes while many VIs are being connected waits until there is a place", "[hostile]")
{
    if (!moves()) {
        return;
    }
    constexpr size_t kMost = 192; // that a server answers at once
    const std::string welcome = hello().replace(kKind, 1, "\2").substr(0, kHostLength);
    Listener listener;
    std::vector<Fd> clients, servers;
    const auto next = [&] {
        clients.push_back(raw_connect(listener));
        servers.push_back(listener.accept());
        must(raw_send(clients.back(), hello()) == 128, "HELLO");
    };
    while (clients.size() < kMost) {
        next();
        CHECK((reply_of(servers.back(), clients.back(), 128).substr(0, kHostLength) == welcome));
    }
    next();
    char byte;
    CHECK(has_nothing_to_read(servers.back()));
    CHECK(syscall(SYS_recvfrom, int(clients.back()), &byte, 1, MSG_PEEK | MSG_DONTWAIT, nullptr, nullptr) ==
          -1);
    clients.front().close(); // its place is the next one's
    CHECK(!has_nothing_to_read(servers.front()));
    CHECK((reply_of(servers.back(), clients.back(), 128).substr(0, kHostLength) == welcome));
}
