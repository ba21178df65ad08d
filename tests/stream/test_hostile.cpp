// SPDX-License-Identifier: MIT
//
// A peer that sends what no peer may send: its own stream is reset, and no other one.
#include <algorithm>
#include <cerrno>
#include <random>

#include "raw_peer.hpp"

extern "C" {
#include "stream/endpoint.h"
}

using namespace stream_test;

namespace {

/** A stream with such a peer, beside a pair that must not notice. */
struct Attacked {
    explicit Attacked(vipl_stream_window window = vipl_stream_own_window())
    {
        connect(device, vipl_stream_vi(stream), peer.device, peer.vi);
        vipl_stream_begin(stream, window);
    }
    ~Attacked()
    {
        bystander.one.send("as before");
        CHECK(bystander.two.receive(9) == "as before");
    }
    void expect_reset() const
    {
        int error = 0;
        CHECK(stream.receive(1, &error).empty());
        CHECK(error == ECONNRESET);
        CHECK((stream.events() & VIPL_STREAM_BROKEN) != 0);
        CHECK(stream.try_send("x") == -ECONNRESET);
    }

    Pair bystander;
    Device device;
    Stream stream{device};
    RawPeer peer;
};

} // namespace

TEST_CASE("messages that no peer may send reset the stream")
{
    struct {
        uint32_t type, credits;
        size_t bytes;
    } const wrong[] = {{0, 0, 0},
                       {8, 0, 1},
                       {200, 0, 0},
                       {VIPL_STREAM_DATA, 0, 0},
                       {VIPL_STREAM_DATA, 1, 1},
                       {VIPL_STREAM_DATA, 0xFFFFFF, 1},
                       {VIPL_STREAM_CREDIT, 0, 0},
                       {VIPL_STREAM_CREDIT, 1, 0},
                       {VIPL_STREAM_FIN, 0, 5},
                       {VIPL_STREAM_CLOSE, 0, 5},
                       {VIPL_STREAM_ACK, 0, 0},
                       {VIPL_STREAM_DONE, 0, 0},
                       {VIPL_STREAM_RTS, 0, 3},
                       {VIPL_STREAM_RTS, 0, 24}};
    for (const auto &one : wrong) {
        INFO("type " << one.type << ", " << one.credits << " credits, " << one.bytes << " bytes");
        Attacked attacked;
        REQUIRE(attacked.peer.send(one.type, one.credits, std::string(one.bytes, '\xFF')));
        attacked.expect_reset();
    }
}

TEST_CASE("a message without immediate data, and one that is too long, reset the stream")
{
    {
        Attacked attacked;
        REQUIRE(attacked.peer.send(nullptr, "hello"));
        attacked.expect_reset();
    }
    Attacked attacked;
    attacked.peer.send(VIPL_STREAM_DATA, 0, std::string(vipl_stream_own_window().bytes + 1, 'x'));
    attacked.expect_reset();
}

TEST_CASE("what came before the breach is received first")
{
    Attacked attacked;
    REQUIRE(attacked.peer.send(VIPL_STREAM_DATA, 0, "good"));
    REQUIRE(attacked.peer.send(99, 0, ""));
    CHECK(attacked.stream.receive(4) == "good");
    attacked.expect_reset();
}

TEST_CASE("offered memory that is not there resets the stream")
{
    Attacked attacked;
    uint8_t offer[VIPL_STREAM_OFFER_BYTES];
    vipl_stream_offer_encode({0x1000, 4096, 0x7FFFFFFF}, offer);
    REQUIRE(attacked.peer.send(VIPL_STREAM_RTS, 0, std::string(offer, offer + sizeof(offer))));
    attacked.expect_reset();
}

TEST_CASE("a peer that never acknowledges the end is waited for a limited time")
{
    Pair bystander;
    Device device;
    RawPeer peer;
    Stream stream{device};
    const uint64_t s = 1000000000;
    connect(device, vipl_stream_vi(stream), peer.device, peer.vi);
    vipl_stream_begin(stream, vipl_stream_own_window());
    stream.send("taken, and not acknowledged");
    const uint64_t before = vipl_now_ns();
    stream.close();
    const uint64_t after = vipl_now_ns();
    peer.drain();
    vipl_stream_look_after(before + VIPL_STREAM_LINGER_S * s);
    CHECK_FALSE(vipl_stream_drain(0));
    CHECK(peer.send(VIPL_STREAM_DATA, 0, "as if it did not know")); // which buys it no time
    vipl_stream_look_after(after + VIPL_STREAM_LINGER_S * s + 1);
    CHECK(vipl_stream_drain(0));
    for (const uint64_t end = in_time(); peer.send(VIPL_STREAM_ACK, 0, "");) {
        REQUIRE(vipl_now_ns() < end); // its connection ends
    }
    bystander.one.send("as before");
    CHECK(bystander.two.receive(9) == "as before");
}

TEST_CASE("a peer that posts fewer receives than it said loses its connection")
{
    Attacked attacked({4096, 65536});
    const std::string text = pattern(100000);
    size_t sent = 0;
    long n = 0;
    const uint64_t end = in_time();
    while (n >= 0 || n == -EAGAIN) {
        n = attacked.stream.try_send(text);
        sent += n > 0 ? static_cast<size_t>(n) : 0;
        REQUIRE(vipl_now_ns() < end);
    }
    CHECK(sent > 0);
    attacked.expect_reset();
}

TEST_CASE("any messages at all leave the process and its other streams alone")
{
    std::mt19937 random(7);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    for (int round = 0; round < 60; round++) {
        Attacked attacked;
        bool connected = true;
        for (int i = 0; connected && i < 100; i++) {
            const uint32_t type = below(10) == 0 ? below(256) : 1 + below(7);
            const uint32_t credits = below(20) == 0 ? below(0x1000000) : below(2);
            const uint32_t bytes = type == VIPL_STREAM_DATA                    ? 1 + below(200)
                                   : type == VIPL_STREAM_RTS || below(20) == 0 ? below(25)
                                                                               : 0;
            std::string payload(bytes, '\0'), got;
            std::generate(payload.begin(), payload.end(), [&] { return static_cast<char>(random()); });
            connected = attacked.peer.send(type, credits, payload);
            attacked.peer.drain();
            attacked.stream.try_send("answer");
            attacked.stream.try_receive(got, 1 + below(300));
            connected = connected && (attacked.stream.events() & VIPL_STREAM_BROKEN) == 0;
        }
    }
}
