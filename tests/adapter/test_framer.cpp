// SPDX-License-Identifier: MIT
//
// The framer: messages into a stream whose peer does not read for a while.
#include "raw_client.hpp"

using namespace adapter_test;

namespace {

constexpr size_t kMessage = 1000, kKept = 3000;

/** A framer, and the other end of its stream. */
struct Ends {
    Ends()
    {
        int fds[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        peer = fds[1];
        REQUIRE(vipl_framer_open(&framer, fds[0], kMessage, kKept) == 0);
    }
    ~Ends()
    {
        vipl_framer_close(&framer);
        vipl_fd_close(peer);
    }
    Ends(const Ends &) = delete;
    Ends &operator=(const Ends &) = delete;

    /** Sends the next bytes of a sequence that has no period of a message's length. */
    int send(size_t bytes = kMessage)
    {
        const Bytes all = sequence(sent, bytes);
        const int error = vipl_framer_send(&framer, all.data(), 40, all.data() + 40, bytes - 40, nullptr, 0);
        sent += error == 0 ? bytes : 0;
        return error;
    }
    static Bytes sequence(size_t from, size_t count)
    {
        Bytes bytes(count);
        for (size_t i = 0; i < count; ++i) {
            bytes[i] = static_cast<std::uint8_t>((from + i) % 251);
        }
        return bytes;
    }
    /** Reads what there is, and checks that it is what comes next. */
    void read(size_t most)
    {
        Bytes bytes(most);
        const ssize_t count = ::read(peer, bytes.data(), most);
        REQUIRE(count > 0);
        bytes.resize(static_cast<size_t>(count));
        CHECK(bytes == sequence(received, bytes.size()));
        received += bytes.size();
    }

    vipl_framer framer{};
    int peer;
    size_t sent = 0, received = 0;
};

} // namespace

TEST_CASE("what is sent while bytes are kept comes behind them", "[framer]")
{
    Ends ends;
    while (ends.framer.out_bytes == 0) {
        REQUIRE(ends.send() == 0);
    }
    ends.read(50000); // there is room again, of which the framer has not heard
    REQUIRE(ends.send() == 0);
    while (ends.received < ends.sent) {
        const int error = vipl_framer_flush(&ends.framer);
        REQUIRE((error == 0 || error == EAGAIN));
        ends.read(7000);
    }
    CHECK(ends.framer.out_bytes == 0);
}

TEST_CASE("a peer that does not read ends what is sent to it, once too much is kept", "[framer]")
{
    Ends ends;
    int error = 0;
    while (error == 0) {
        REQUIRE(ends.framer.out_bytes <= kKept);
        error = ends.send();
    }
    CHECK(error == ENOBUFS);
    CHECK(ends.framer.out_bytes > kKept - kMessage);
}

TEST_CASE("a descriptor is sent with its message, and never kept", "[framer]")
{
    Ends ends;
    const Bytes bytes(40);
    REQUIRE(vipl_framer_send(&ends.framer, bytes.data(), 40, nullptr, 0, &ends.peer, 1) == 0);
    vipl_framer peer{};
    REQUIRE(vipl_framer_open(&peer, dup(ends.peer), kMessage, kKept) == 0);
    REQUIRE(vipl_framer_fill(&peer, 40) == 0);
    CHECK(peer.fd_count == 1);
    vipl_framer_next(&peer);
    CHECK((peer.fd_count == 0 && peer.received == 0));
    CHECK(vipl_framer_fill(&peer, 1) == EAGAIN);
    while (ends.framer.out_bytes == 0) {
        REQUIRE(ends.send() == 0);
    }
    CHECK(vipl_framer_send(&ends.framer, bytes.data(), 40, nullptr, 0, &ends.peer, 1) == ENOBUFS);
    vipl_framer_close(&peer);
}

TEST_CASE("a message is received in pieces, and the end of its stream is told", "[framer]")
{
    Ends ends;
    const Bytes first = Ends::sequence(0, 30), second = Ends::sequence(30, 30);
    REQUIRE(::write(ends.peer, first.data(), first.size()) == 30);
    CHECK(vipl_framer_fill(&ends.framer, 40) == EAGAIN);
    REQUIRE(::write(ends.peer, second.data(), second.size()) == 30);
    REQUIRE(vipl_framer_fill(&ends.framer, 40) == 0);
    CHECK(ends.framer.received == 40); // nothing of what comes behind
    CHECK(Bytes(ends.framer.in, ends.framer.in + 40) == Ends::sequence(0, 40));
    vipl_framer_next(&ends.framer);
    REQUIRE(vipl_framer_fill(&ends.framer, 20) == 0);
    CHECK(Bytes(ends.framer.in, ends.framer.in + 20) == Ends::sequence(40, 20));
    REQUIRE(shutdown(ends.peer, SHUT_WR) == 0);
    vipl_framer_next(&ends.framer);
    CHECK(vipl_framer_fill(&ends.framer, 1) == EPIPE);
}
