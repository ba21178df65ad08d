// SPDX-License-Identifier: MIT
//
// TCP sockets on Windows, and how a set tells that they are ready.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "channels.hpp"

using namespace vipl_test;
using namespace windows_test;

namespace {

const vipl_socket_tuning kTuning = {10000, 20000, 0};

vipl_inet own_host(std::uint16_t port)
{
    vipl_inet inet{};
    const std::uint8_t host[] = {127, 0, 0, 1};
    std::memcpy(inet.host, host, sizeof host);
    inet.host_len = 4;
    inet.port = port;
    return inet;
}

/** A set that has one socket. */
struct Watched {
    Watched(int socket, bool readable, bool writable) : fd(socket)
    {
        REQUIRE(vipl_pollset_open(&set) == 0);
        REQUIRE(vipl_pollset_watch(&set, fd, this, true, readable, writable) == 0);
    }
    ~Watched() { vipl_pollset_close(&set); }
    Watched(const Watched &) = delete;
    Watched &operator=(const Watched &) = delete;
    vipl_ready wait()
    {
        vipl_ready ready{};
        vipl_pollset_wait(&set, std::uint64_t{kLong} * 1000000);
        EXPECT(vipl_pollset_ready(&set, &ready, 1) == 1);
        return ready;
    }
    bool is_quiet()
    {
        vipl_ready ready{};
        return vipl_pollset_ready(&set, &ready, 1) == 0;
    }
    int fd;
    vipl_pollset set{};
};

int receive(int fd, std::string &text)
{
    text.resize(1 << 16);
    const vipl_iov piece = {&text[0], text.size()};
    size_t n = 0;
    const int error = vipl_socket_receive(fd, &piece, 1, &n);
    text.resize(error == 0 ? n : 0);
    return error;
}

int send_text(int fd, const std::string &text)
{
    const vipl_iov pieces[] = {{nullptr, 0}, {const_cast<char *>(text.data()), text.size()}};
    size_t n = 0;
    const int error = vipl_socket_send(fd, pieces, 2, false, &n);
    return error == 0 && n != text.size() ? EIO : error;
}

/** Listens at a port that is free. */
int listen_somewhere(std::uint16_t &port)
{
    int fd = -1, error = EADDRINUSE;
    for (port = 20000; error == EADDRINUSE && port < 30000; ++port) {
        const vipl_inet inet = own_host(port);
        error = vipl_socket_listen(&inet, &kTuning, &fd);
    }
    --port;
    REQUIRE(error == 0);
    return fd;
}

int call(std::uint16_t port)
{
    const vipl_inet from = own_host(0), to = own_host(port);
    int fd = -1;
    EXPECT(vipl_socket_connect(&from, &to, &kTuning, &fd) == 0);
    return fd;
}

/** Takes a caller, as soon as there is one. */
int accept_one(int listener, Watched &callers)
{
    vipl_inet peer{};
    int fd = -1, error = EAGAIN;
    while ((error = vipl_socket_accept(listener, &kTuning, &fd, &peer)) == EAGAIN) {
        EXPECT(callers.wait().readable);
    }
    EXPECT(error == 0);
    return fd;
}

/** Two ends of a connection. */
struct Connection {
    Connection() : calling(-1), accepted(-1)
    {
        std::uint16_t port = 0;
        const End listener(listen_somewhere(port));
        Watched callers(listener.fd, true, false);
        calling.fd = call(port);
        accepted.fd = accept_one(listener.fd, callers);
    }
    End calling, accepted;
};

/** Sends until there is no room. Returns how many bytes have been sent. */
size_t fill(int fd)
{
    const std::string much(100000, 'x');
    const vipl_iov piece = {const_cast<char *>(much.data()), much.size()};
    size_t sent = 0, n = 0;
    int error = 0;
    while ((error = vipl_socket_send(fd, &piece, 1, false, &n)) == 0) {
        sent += n;
        REQUIRE(sent < 1000000000);
    }
    CHECK(error == EAGAIN);
    return sent;
}

/** Receives until there is nothing, or the stream ends. Returns why it has stopped; 0: the end. */
int drain(int fd, size_t &received)
{
    std::string text;
    int error = 0;
    while ((error = receive(fd, text)) == 0 && !text.empty()) {
        received += text.size();
    }
    return error;
}

} // namespace

TEST_CASE("a set tells of callers, bytes, room and the end of a socket", "[windows][sockets]")
{
    std::uint16_t port = 0;
    const End listener(listen_somewhere(port));
    const vipl_inet taken = own_host(port);
    int fd = -1;
    CHECK(vipl_socket_listen(&taken, &kTuning, &fd) == EADDRINUSE);
    Watched callers(listener.fd, true, false);
    vipl_inet peer{};
    for (int i = 0; i < 30; ++i) { // also after a call that has found nobody
        CHECK(vipl_socket_accept(listener.fd, &kTuning, &fd, &peer) == EAGAIN);
        CHECK(callers.is_quiet());
        End calling(call(port));
        CHECK(callers.wait().readable);
        REQUIRE(vipl_socket_accept(listener.fd, &kTuning, &fd, &peer) == 0);
        const End accepted(fd);
        CHECK(peer.host_len == 4);
        Watched room(calling.fd, false, true);
        CHECK(room.wait().writable);
        CHECK(vipl_socket_connect_result(calling.fd) == 0);
        Watched bytes(accepted.fd, true, false);
        std::string text;
        CHECK(receive(accepted.fd, text) == EAGAIN);
        CHECK(bytes.is_quiet());
        REQUIRE(send_text(calling.fd, "some bytes") == 0);
        CHECK(bytes.wait().readable);
        CHECK(receive(accepted.fd, text) == 0);
        CHECK(text == "some bytes");
        CHECK(receive(accepted.fd, text) == EAGAIN);
        CHECK(bytes.is_quiet());
        vipl_socket_finish(calling.fd);
        CHECK(bytes.wait().readable);
        CHECK(receive(accepted.fd, text) == 0);
        CHECK(text.empty());
        CHECK(bytes.wait().readable); // and it stays so
    }
}

TEST_CASE("a listener tells of each caller, whenever it comes", "[windows][sockets]")
{
    std::uint16_t port = 0;
    const End listener(listen_somewhere(port));
    std::vector<End> ends;
    ends.emplace_back(call(port)); // before anyone watches
    Watched callers(listener.fd, true, false);
    for (int i = 0; i < 20; ++i) {
        CHECK(callers.wait().readable);
        ends.emplace_back(call(port)); // between the mark and the call
        ends.emplace_back(accept_one(listener.fd, callers));
        ends.emplace_back(call(port));
        ends.emplace_back(accept_one(listener.fd, callers));
    }
    ends.emplace_back(accept_one(listener.fd, callers));
    vipl_inet peer{};
    int fd = -1;
    CHECK(vipl_socket_accept(listener.fd, &kTuning, &fd, &peer) == EAGAIN);
    CHECK(callers.is_quiet());
}

TEST_CASE("a listener tells of all callers of another thread, between looks that find nobody",
          "[windows][sockets]")
{
    constexpr int kCallers = 100;
    std::uint16_t port = 0;
    const End listener(listen_somewhere(port));
    Watched callers(listener.fd, true, false);
    std::vector<End> calling;
    std::thread thread([&] {
        for (int i = 0; i < kCallers; ++i) {
            calling.emplace_back(call(port));
        }
    });
    std::vector<End> accepted;
    for (int i = 0; i < kCallers; ++i) {
        accepted.emplace_back(accept_one(listener.fd, callers));
    }
    thread.join();
    CHECK(accepted.size() == calling.size());
}

TEST_CASE("what a thread has asked for is told when that thread has ended", "[windows][sockets]")
{
    Connection c;
    std::string text;
    std::thread thread([&] { EXPECT(receive(c.accepted.fd, text) == EAGAIN); });
    thread.join();
    Watched bytes(c.accepted.fd, true, false);
    CHECK(bytes.is_quiet());
    REQUIRE(send_text(c.calling.fd, "late") == 0);
    CHECK(bytes.wait().readable);
    CHECK(receive(c.accepted.fd, text) == 0);
    CHECK(text == "late");
}

TEST_CASE("an end that has finished still receives", "[windows][sockets]")
{
    Connection c;
    Watched at_accepted(c.accepted.fd, true, false), at_calling(c.calling.fd, true, false);
    std::string text;
    REQUIRE(send_text(c.calling.fd, "last words") == 0);
    vipl_socket_finish(c.calling.fd);
    CHECK(at_accepted.wait().readable);
    CHECK(receive(c.accepted.fd, text) == 0);
    CHECK(text == "last words");
    vipl_ready ready = at_accepted.wait();
    CHECK(ready.readable);
    CHECK(!ready.broken);
    CHECK(receive(c.accepted.fd, text) == 0);
    CHECK(text.empty());
    CHECK(receive(c.calling.fd, text) == EAGAIN);
    CHECK(at_calling.is_quiet());
    REQUIRE(send_text(c.accepted.fd, "the answer") == 0);
    CHECK(at_calling.wait().readable);
    CHECK(receive(c.calling.fd, text) == 0);
    CHECK(text == "the answer");
    CHECK(send_text(c.calling.fd, "too late") == EPIPE);
}

TEST_CASE("an end whose peer closes with bytes unread hears of it", "[windows][sockets]")
{
    Connection c;
    Watched bytes(c.calling.fd, true, false), unread(c.accepted.fd, true, false);
    std::string text;
    REQUIRE(send_text(c.calling.fd, "nobody reads this") == 0);
    CHECK(unread.wait().readable);
    CHECK(receive(c.calling.fd, text) == EAGAIN);
    c.accepted.close();
    const vipl_ready ready = bytes.wait();
    CHECK(ready.readable);
    CHECK(ready.hangup);
    const int error = receive(c.calling.fd, text); // Wine finishes the stream before it resets it
    CHECK((error == ECONNRESET || (error == 0 && text.empty())));
    const int sending = send_text(c.calling.fd, "nobody is there");
    CHECK(sending != 0);
    CHECK(sending != EAGAIN);
}

TEST_CASE("a socket that has no room is ready when there is some again", "[windows][sockets]")
{
    Connection c;
    const size_t sent = fill(c.accepted.fd);
    Watched room(c.accepted.fd, false, true), bytes(c.calling.fd, true, false);
    CHECK(room.is_quiet());
    size_t received = 0;
    while (received < sent) {
        CHECK(bytes.wait().readable);
        CHECK(drain(c.calling.fd, received) == EAGAIN);
    }
    CHECK(room.wait().writable);
    CHECK(received == sent);
}

TEST_CASE("a large write goes out in pieces, and comes whole", "[windows][sockets]")
{
    Connection c;
    std::string much(8 << 20, ' '), all;
    for (size_t i = 0; i < much.size(); ++i) {
        much[i] = static_cast<char>(i * 2654435761U >> 24);
    }
    Watched room(c.calling.fd, false, true), bytes(c.accepted.fd, true, false);
    std::thread thread([&] {
        std::string text;
        int error = 0;
        while ((error = receive(c.accepted.fd, text)) == EAGAIN || !text.empty()) {
            all += text;
            if (error == EAGAIN) {
                EXPECT(bytes.wait().readable);
            }
        }
        EXPECT(error == 0);
    });
    size_t at = 0;
    while (at < much.size()) {
        const vipl_iov pieces[] = {{&much[at], (much.size() - at) / 2},
                                   {&much[at + (much.size() - at) / 2], (much.size() - at + 1) / 2}};
        size_t n = 0;
        const int error = vipl_socket_send(c.calling.fd, pieces, 2, false, &n);
        at += n;
        if (error != 0) {
            EXPECT(error == EAGAIN);
            EXPECT(room.wait().writable);
        }
    }
    vipl_socket_finish(c.calling.fd);
    thread.join();
    CHECK((all == much));
}

TEST_CASE("a set tells of a hundred sockets, and of each by its tag", "[windows][sockets]")
{
    constexpr size_t kMany = 100;
    std::uint16_t port = 0;
    const End listener(listen_somewhere(port));
    Watched callers(listener.fd, true, false);
    std::vector<End> calling, accepted;
    vipl_ready ready[kMany]; // the address of each is a tag, too
    vipl_pollset set{};
    REQUIRE(vipl_pollset_open(&set) == 0);
    std::string text;
    for (size_t i = 0; i < kMany; ++i) {
        calling.emplace_back(call(port));
        accepted.emplace_back(accept_one(listener.fd, callers));
        CHECK(receive(accepted[i].fd, text) == EAGAIN);
        REQUIRE(vipl_pollset_add(&set, accepted[i].fd, &ready[i]) == 0);
    }
    CHECK(vipl_pollset_ready(&set, ready, kMany) == 0);
    for (size_t i = kMany; i-- > 0;) {
        REQUIRE(send_text(calling[i].fd, "x") == 0);
        vipl_pollset_wait(&set, std::uint64_t{kLong} * 1000000);
        REQUIRE(vipl_pollset_ready(&set, ready, kMany) == 1);
        CHECK(ready[0].tag == &ready[i]);
        CHECK(receive(accepted[i].fd, text) == 0);
        CHECK(receive(accepted[i].fd, text) == EAGAIN);
    }
    vipl_pollset_close(&set);
}

TEST_CASE("a socket that is closed ends the sleep for it, and its number is used again", "[windows][sockets]")
{
    for (int i = 0; i < 30; ++i) {
        Connection c;
        const int fd = c.accepted.fd;
        std::string text;
        CHECK(receive(fd, text) == EAGAIN);
        std::thread sleeper([&] { EXPECT(vipl_poll(&fd, 1, kLong, nullptr) == 0); });
        std::thread closer([&] { c.accepted.close(); });
        closer.join();
        sleeper.join();
        Watched end(c.calling.fd, true, false);
        CHECK(end.wait().readable);
        CHECK(receive(c.calling.fd, text) == 0);
        CHECK(receive(fd, text) != 0);
    }
}

TEST_CASE("a call to a port that nobody listens at is refused", "[windows][sockets]")
{
    std::uint16_t port = 0;
    {
        const End listener(listen_somewhere(port));
    }
    const End calling(call(port));
    Watched outcome(calling.fd, false, true);
    CHECK(outcome.wait().broken);
    CHECK(vipl_socket_connect_result(calling.fd) == ECONNREFUSED);
}
