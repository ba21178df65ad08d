// SPDX-License-Identifier: MIT
//
// A program that connects for each request: its connections to a port stay with TCP after a while,
// and those are moved that carry much, or to a server that speaks first.
#include <string>
#include <thread>

#include "sockets/tcp_pair.hpp"

using namespace sockets_test;

namespace {

constexpr unsigned kConnections = 60;
constexpr uint64_t kAtOnce = 16;     // that may be moved in vain
constexpr uint64_t kAnotherMs = 200; // after which one more may

/** A server with a thread: serves one connection after the other. */
template <typename Serve>
class Server {
public:
    explicit Server(Serve serve)
        : thread_([this, serve] {
              for (unsigned i = 0; i < kConnections; i++) {
                  const Fd one = listener.accept();
                  serve(one);
              }
          })
    {
    }
    ~Server() { thread_.join(); }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    Listener listener; // before the thread, which uses it

private:
    std::thread thread_;
};

/** Echoes what comes, until the end. */
void echo(int fd)
{
    char bytes[64];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        send_all(fd, std::string(bytes, static_cast<size_t>(n)));
    }
}

/** The short connections that may have been moved since then, one that is under way included. */
uint64_t most_since(uint64_t begin)
{
    return kAtOnce + 1 + (static_cast<uint64_t>(vipl_test::now_ms()) - begin) / kAnotherMs;
}

/** Whether so many were moved that short ones cannot have been. A machine that is slow may keep one
 * or the other from being moved, and gives short ones time. */
bool is_more_than_short(uint64_t moved, uint64_t begin)
{
    return !moves() ? moved == 0 : moved > most_since(begin) || most_since(begin) > kConnections / 2;
}

/** Returns whether the answers are right. */
bool asks(int fd, unsigned times)
{
    bool is_right = true;
    for (unsigned i = 0; i < times; i++) {
        const std::string text = pattern(20, i);
        send_all(fd, text);
        is_right = receive(fd, text.size()) == text && is_right;
    }
    return is_right;
}

} // namespace

TEST_CASE("connections for one request each stay with TCP after some")
{
    const Server server(echo);
    const auto begin = vipl_test::now_ms();
    uint64_t moved = 0;
    for (unsigned i = 0; i < kConnections; i++) {
        const Fd client = server.listener.connect();
        REQUIRE(asks(client, 1));
        moved += is_moved(client) ? 1 : 0;
    }
    if (moves()) {
        CHECK(moved > kAtOnce);
        CHECK(moved <= most_since(begin));
    } else {
        CHECK(moved == 0);
    }
}

TEST_CASE("connections for many requests each are moved, however many there are")
{
    const Server server(echo);
    const auto begin = vipl_test::now_ms();
    uint64_t moved = 0;
    for (unsigned i = 0; i < kConnections; i++) {
        const Fd client = server.listener.connect();
        REQUIRE(asks(client, 40));
        moved += is_moved(client) ? 1 : 0;
    }
    CHECK(is_more_than_short(moved, begin));
}

TEST_CASE("short connections to a server that speaks first are moved: it would wait for HELLO")
{
    const Server server([](int fd) {
        send_all(fd, "220 ready");
        echo(fd);
    });
    const auto begin = vipl_test::now_ms();
    uint64_t moved = 0;
    for (unsigned i = 0; i < kConnections; i++) {
        const Fd client = server.listener.connect();
        REQUIRE(receive(client, 9) == "220 ready");
        REQUIRE(asks(client, 1));
        moved += is_moved(client) ? 1 : 0;
    }
    CHECK(is_more_than_short(moved, begin));
}

TEST_CASE("connections that are closed at once stay with TCP after some")
{
    const Server server(echo);
    const auto begin = vipl_test::now_ms();
    for (unsigned i = 0; i + 1 < kConnections; i++) {
        server.listener.connect().close();
    }
    const Fd client = server.listener.connect();
    REQUIRE(asks(client, 1));
    CHECK((!is_moved(client) || most_since(begin) >= kConnections));
}
