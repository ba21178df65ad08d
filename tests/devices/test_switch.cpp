// SPDX-License-Identifier: MIT
//
// The embedded switch: where frames go, in which order, what happens when a queue is full, and the
// bad wire in its way.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frames.hpp"

extern "C" {
#include "devices/rnic/efe/switch.h"
}

namespace {

using Bytes = std::vector<std::uint8_t>;

class Switch {
public:
    explicit Switch(const std::string &impair = "", std::uint32_t frames = 64, std::uint32_t mtu = 1500)
    {
        config_.functions = 4;
        config_.frames = frames;
        config_.mtu = mtu;
        config_.mac[0] = 2;
        char error[128];
        REQUIRE(rnic_impair_parse(impair.c_str(), &config_.impair, error, sizeof error));
        const std::size_t bytes = rnic_switch_bytes(&config_);
        REQUIRE(bytes % 64 == 0);
        area_.reset(new Line[bytes / 64]());
        static const rnic_switch_host host = {leaves, arrives};
        rnic_switch_init(&sw, area_.get(), &config_, &host, this);
    }
    /** A frame for this adapter's function, or for another adapter; its payload is one number. */
    static Bytes frame(bool local, std::uint16_t fn, std::uint8_t number, std::uint16_t bytes = 100)
    {
        efe_header header{};
        header.to_mac[0] = 2;
        header.to_mac[5] = local ? 0 : 1;
        header.from_mac[0] = 2;
        header.type = EFE_DATA;
        header.to_fn = fn;
        header.payload_bytes = bytes;
        return adapters::frame_of(header, {number});
    }
    bool send(std::uint64_t now, const Bytes &frame)
    {
        return rnic_switch_send(&sw, now, now, frame.data(), static_cast<std::uint32_t>(frame.size()));
    }
    const rnic_switch_counters &counted() const { return *rnic_switch_counted(&sw); }
    std::uint64_t deadline() const { return rnic_switch_deadline(&sw, true); }

    rnic_switch sw{};
    std::vector<Bytes> left, arrived;

private:
    struct alignas(64) Line {
        std::uint8_t bytes[64];
    };
    static void leaves(void *context, const std::uint8_t *frame, std::uint32_t bytes)
    {
        static_cast<Switch *>(context)->left.emplace_back(frame, frame + bytes);
    }
    static void arrives(void *context, const std::uint8_t *frame, std::uint32_t bytes)
    {
        static_cast<Switch *>(context)->arrived.emplace_back(frame, frame + bytes);
    }
    rnic_switch_config config_{};
    std::unique_ptr<Line[]> area_;
};

std::string numbers(const std::vector<Bytes> &frames)
{
    std::string text;
    for (const Bytes &frame : frames) {
        text += static_cast<char>(frame[EFE_PAYLOAD_AT]);
    }
    return text;
}

} // namespace

TEST_CASE("frames for other adapters leave at once, others wait for their function", "[switch]")
{
    Switch sw;
    const Bytes away = Switch::frame(false, 1, 'a'), here = Switch::frame(true, 1, 'b');
    CHECK(sw.deadline() == UINT64_MAX);
    CHECK(sw.send(5, away));
    CHECK(sw.left == std::vector<Bytes>{away});
    CHECK(sw.send(5, here));
    CHECK(sw.arrived.empty());
    CHECK(sw.deadline() == 0);
    CHECK(rnic_switch_advance(&sw.sw, 5, 10) == 1);
    CHECK(sw.arrived == std::vector<Bytes>{here});
    CHECK(sw.deadline() == UINT64_MAX);
    CHECK(sw.counted().left == 1);
    CHECK(sw.counted().local == 1);
}

TEST_CASE("functions take turns, each function's frames come in order", "[switch]")
{
    Switch sw;
    for (const char c : std::string("abcd")) {
        sw.send(0, Switch::frame(true, 0, static_cast<std::uint8_t>(c)));
    }
    sw.send(0, Switch::frame(true, 3, 'x'));
    sw.send(0, Switch::frame(true, 3, 'y'));
    sw.send(0, Switch::frame(true, EFE_ADAPTER, '1'));
    sw.send(0, Switch::frame(true, 77, '2')); // no such function: it is EFE that says so
    CHECK(rnic_switch_advance(&sw.sw, 0, 3) == 3);
    CHECK(numbers(sw.arrived) == "ax1");
    CHECK(rnic_switch_advance(&sw.sw, 0, 99) == 5);
    CHECK(numbers(sw.arrived) == "ax1by2cd");
    CHECK(rnic_switch_advance(&sw.sw, 0, 99) == 0);
}

TEST_CASE("a queue that is full refuses, and leaves room to the others", "[switch]")
{
    Switch sw("", 16);
    unsigned taken = 0;
    while (sw.send(0, Switch::frame(true, 0, 'a'))) {
        ++taken;
    }
    CHECK(taken == 8);
    CHECK(sw.counted().refused == 1);
    CHECK(sw.send(0, Switch::frame(true, 1, 'b')));
    CHECK(sw.send(0, Switch::frame(false, 0, 'c'))); // what leaves needs no room
    CHECK(rnic_switch_advance(&sw.sw, 0, 2) == 2);
    CHECK(numbers(sw.arrived) == "ab");
    CHECK(sw.send(0, Switch::frame(true, 0, 'd')));
    for (std::uint16_t fn = 0; fn < 5; ++fn) {
        while (sw.send(0, Switch::frame(true, fn, 'z'))) {
        }
    }
    CHECK(rnic_switch_advance(&sw.sw, 0, 99) == 16);
}

TEST_CASE("a wire's delay holds frames of both ways, in order of time", "[switch]")
{
    Switch sw("delay=10us");
    sw.send(1000, Switch::frame(false, 0, 'a'));
    sw.send(2000, Switch::frame(true, 0, 'b'));
    sw.send(2000, Switch::frame(false, 0, 'c'));
    sw.send(2000, Switch::frame(false, 0, 'd'));
    CHECK(sw.deadline() == 11000);
    CHECK(rnic_switch_advance(&sw.sw, 10999, 99) == 0);
    CHECK(sw.left.empty());
    rnic_switch_advance(&sw.sw, 11000, 99);
    CHECK(numbers(sw.left) == "a");
    CHECK(sw.deadline() == 12000);
    CHECK(rnic_switch_advance(&sw.sw, 99999, 99) == 1);
    CHECK(numbers(sw.left) == "acd");
    CHECK(numbers(sw.arrived) == "b");
    CHECK(sw.deadline() == UINT64_MAX);
}

TEST_CASE("what the wire does to frames is counted", "[switch]")
{
    Switch sw("loss=0.3,duplicate=0.3,corrupt=0.3,seed=2", 4096);
    const Bytes good = Switch::frame(true, 0, 'a');
    for (unsigned i = 0; i < 1000; ++i) {
        REQUIRE(sw.send(0, good));
    }
    rnic_switch_advance(&sw.sw, 0, 99999);
    std::uint64_t bad = 0;
    for (const Bytes &frame : sw.arrived) {
        bad += frame != good;
    }
    CHECK(sw.counted().lost > 200);
    CHECK(sw.counted().doubled > 100);
    CHECK(bad > 200);
    CHECK(sw.counted().corrupted == bad);
    CHECK(sw.arrived.size() == 1000 - sw.counted().lost + sw.counted().doubled);
    CHECK(sw.counted().local == sw.arrived.size());
}

TEST_CASE("a wire that holds more than there are buffers loses what leaves and refuses what stays",
          "[switch]")
{
    Switch sw("delay=1s", 16);
    for (unsigned i = 0; i < 20; ++i) {
        CHECK(sw.send(0, Switch::frame(false, 0, 'a')));
    }
    CHECK(sw.counted().overflow == 4);
    CHECK_FALSE(sw.send(0, Switch::frame(true, 0, 'b')));
    rnic_switch_advance(&sw.sw, 1000000000, 99);
    CHECK(sw.left.size() == 16);
    CHECK(sw.send(1000000000, Switch::frame(true, 0, 'b')));
}

TEST_CASE("the wire can change while frames are on it", "[switch]")
{
    Switch sw("delay=1ms");
    sw.send(0, Switch::frame(false, 0, 'a'));
    rnic_impair_config perfect{};
    rnic_switch_impair(&sw.sw, &perfect);
    sw.send(0, Switch::frame(false, 0, 'b'));
    CHECK(numbers(sw.left) == "b");
    rnic_switch_advance(&sw.sw, 1000000, 99);
    CHECK(numbers(sw.left) == "ba");
}

TEST_CASE("frames of impossible lengths are taken and go nowhere", "[switch]")
{
    Switch sw("", 16, 576);
    CHECK(sw.send(0, Bytes(EFE_PAYLOAD_AT - 1, 0)));
    CHECK(sw.send(0, Switch::frame(false, 0, 'a', 525))); // a byte more than the MTU
    CHECK(sw.counted().lost == 2);
    CHECK(sw.send(0, Switch::frame(false, 0, 'a', 524)));
    CHECK(sw.left.size() == 1);
}

TEST_CASE("a frame that is not ready yet leaves when it is, also by a perfect wire", "[switch]")
{
    Switch sw("");
    const Bytes out = Switch::frame(false, 0, 'a'), in = Switch::frame(true, 1, 'b');
    REQUIRE(rnic_switch_send(&sw.sw, 1000, 1500, out.data(), static_cast<std::uint32_t>(out.size())));
    REQUIRE(rnic_switch_send(&sw.sw, 1000, 1600, in.data(), static_cast<std::uint32_t>(in.size())));
    CHECK(sw.left.empty());
    CHECK(sw.deadline() == 1500);
    CHECK(rnic_switch_advance(&sw.sw, 1599, 9) == 0);
    CHECK(sw.left.size() == 1);
    CHECK(rnic_switch_advance(&sw.sw, 1600, 9) == 1);
}

TEST_CASE("frames that came by the wire wait in their queues until the adapter takes them", "[switch]")
{
    Switch sw("", 16);
    const Bytes mine = Switch::frame(true, 1, 'a'), other = Switch::frame(false, 1, 'b');
    const auto take = [&sw](const Bytes &frame, std::size_t bytes) {
        return rnic_switch_take(&sw.sw, frame.data(), static_cast<std::uint32_t>(bytes));
    };
    CHECK(take(mine, mine.size()));
    CHECK(take(other, other.size())); // EFE counts it as not ours
    CHECK_FALSE(take(mine, EFE_PAYLOAD_AT - 1));
    const Bytes longest(EFE_ETHERNET_BYTES + 9001);
    CHECK_FALSE(take(longest, longest.size()));
    CHECK(rnic_switch_deadline(&sw.sw, true) == 0);
    CHECK(rnic_switch_deadline(&sw.sw, false) == UINT64_MAX);
    CHECK(rnic_switch_advance(&sw.sw, 0, 0) == 0);
    CHECK(rnic_switch_advance(&sw.sw, 0, 9) == 2);
    CHECK(sw.arrived == std::vector<Bytes>{mine, other});
    for (unsigned i = 0; i < 20; ++i) {
        CHECK(take(mine, mine.size()));
    }
    CHECK(sw.counted().overflow == 4);
}

namespace {

/** A frame that is not EFE's. */
Bytes raw_frame(bool local, std::uint32_t bytes, std::uint8_t fill)
{
    Bytes frame(bytes, fill);
    std::fill_n(frame.begin(), 12, std::uint8_t{0});
    frame[0] = 2;
    frame[5] = local ? 0 : 1;
    frame[12] = 0x81;
    frame[13] = 0;
    return frame;
}

bool send_raw(Switch &sw, std::uint64_t now, const Bytes &frame)
{
    return rnic_switch_send_raw(&sw.sw, now, now, frame.data(), static_cast<std::uint32_t>(frame.size()));
}

std::uint64_t room_for(const Switch &sw, const Bytes &frame)
{
    return rnic_switch_room(&sw.sw, frame.data(), static_cast<std::uint32_t>(frame.size()));
}

} // namespace

TEST_CASE("raw frames get half of the buffers, and are told when there is room again", "[switch]")
{
    Switch sw("delay=10us", 16);
    unsigned sent = 0;
    for (; sent < 100 && room_for(sw, raw_frame(false, 60, 1)) == 0; ++sent) {
        REQUIRE(send_raw(sw, 1000 + sent, raw_frame(false, 60, static_cast<std::uint8_t>(sent))));
    }
    CHECK(sent == 8);
    CHECK(room_for(sw, raw_frame(false, 60, 1)) == 11000); // when the first of them leaves
    for (unsigned i = 0; i < 8; ++i) {
        CHECK(sw.send(2000, Switch::frame(false, 1, 'a')));
    }
    CHECK(sw.counted().overflow == 0);
    rnic_switch_advance(&sw.sw, 1000000, 10);
    CHECK(sw.left.size() == 16);
    CHECK(room_for(sw, raw_frame(false, 60, 1)) == 0);

    Switch here("", 16);
    for (sent = 0; sent < 100 && room_for(here, raw_frame(true, 60, 1)) == 0; ++sent) {
        REQUIRE(send_raw(here, 1000, raw_frame(true, 60, 1)));
    }
    CHECK(sent == 8);
    CHECK(room_for(here, raw_frame(true, 60, 1)) == UINT64_MAX);
    CHECK(room_for(here, raw_frame(true, 60, 1)) == UINT64_MAX);
    rnic_switch_advance(&here.sw, 2000, 1);
    CHECK(room_for(here, raw_frame(true, 60, 1)) == 0);
}

TEST_CASE("the longest tagged frames keep their bytes, whatever the MTU", "[switch]")
{
    const std::uint32_t mtu = GENERATE(range(1520u, 1590u));
    Switch sw("delay=10us", 16, mtu);
    std::vector<Bytes> frames;
    for (unsigned i = 0; i < 4; ++i) {
        frames.push_back(raw_frame(false, mtu + 18, static_cast<std::uint8_t>(i + 1)));
        REQUIRE(send_raw(sw, 0, frames.back()));
    }
    REQUIRE(send_raw(sw, 0, Bytes(mtu + 19))); // longer and shorter ones are lost
    REQUIRE(send_raw(sw, 0, Bytes(13)));
    CHECK(sw.counted().lost == 2);
    rnic_switch_advance(&sw.sw, 10000, 10);
    CHECK(sw.left == frames);
}
