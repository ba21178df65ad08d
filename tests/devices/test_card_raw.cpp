// SPDX-License-Identifier: MIT
//
// Raw queue pairs: whole Ethernet frames out and in, when they leave, that a wire without room
// loses none of them, and that a driver's mistakes cost its own queue alone.
#include <algorithm>
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

constexpr std::uint32_t kSlot = 2048; // of a driver's memory, a frame each
constexpr std::uint8_t kStranger[6] = {0x02, 9, 9, 9, 9, 9};
constexpr std::uint8_t kGroup[6] = {0x01, 0, 0x5E, 0, 0, 1};
constexpr unsigned kIp = 0x0800;

rnic_card_config raw_config()
{
    rnic_card_config config = small_config();
    config.raw[0] = 3; // functions 0 and 1
    return config;
}

/** A driver with a raw queue pair. */
struct Raw {
    Raw(Host &host, unsigned fn, unsigned filter = 0, bool big = false, unsigned log2 = Driver::kRingLog2)
        : driver(host, fn, big)
    {
        driver.enable();
        tag = driver.memory((std::uint64_t{1} << log2) * kSlot, &memory);
        cq = driver.create_cq(log2 + 2);
        qp = driver.try_create_qp(RNIC_LEVEL_RAW, cq, cq, filter).info;
        REQUIRE(driver.set_ring(qp, 0, log2).status == RNIC_STATUS_OK);
        slots = 1u << log2;
    }
    void receive_ring() { REQUIRE(driver.set_ring(qp, 1, Driver::kRingLog2).status == RNIC_STATUS_OK); }
    unsigned go(unsigned state = RNIC_QP_STATE_CONNECTED)
    {
        Modify what;
        what.state = state;
        return driver.modify(qp, what).status;
    }
    Segment slot(std::uint32_t number, std::uint32_t length) const
    {
        return {memory + number % slots * kSlot, length, tag};
    }
    std::uint8_t *bytes(std::uint32_t number) { return driver.at(memory + number % slots * kSlot); }
    /** A frame in a slot. */
    Work frame(std::uint32_t number, std::uint32_t length, std::uint64_t launch = 0,
               const std::uint8_t *to = kStranger, unsigned type = kIp)
    {
        std::uint8_t *const at = bytes(number);
        for (std::uint32_t i = 0; i < length; ++i) {
            at[i] = static_cast<std::uint8_t>(number * 17 + i * 3);
        }
        std::copy_n(to, 6, at);
        at[12] = static_cast<std::uint8_t>(type >> 8);
        at[13] = static_cast<std::uint8_t>(type);
        Work work;
        work.cookie = number;
        work.segments = {slot(number, length)};
        work.remote_address = launch;
        return work;
    }
    void send(const Work &work) { driver.post(qp, work); }
    void receive(std::uint32_t number, std::uint32_t length)
    {
        Work work;
        work.opcode = RNIC_WORK_RECEIVE;
        work.cookie = 100 + number;
        work.segments = {slot(number, length)};
        driver.post(qp, work);
    }
    std::vector<Completion> drain() { return driver.drain(cq); }
    Completion only()
    {
        const std::vector<Completion> all = drain();
        REQUIRE(all.size() == 1);
        return all[0];
    }
    std::uint64_t missed() { return driver.host.reg(driver.fn, RNIC_REG_RAW_MISSED_LO); }

    Driver driver;
    std::uint64_t memory = 0;
    std::uint32_t tag = 0, cq = 0, qp = 0, slots = 0;
};

/** A frame that comes by the wire. */
Bytes from_wire(const std::uint8_t *to, std::uint32_t length, unsigned type = kIp)
{
    Bytes frame(length);
    for (std::uint32_t i = 0; i < length; ++i) {
        frame[i] = static_cast<std::uint8_t>(i * 5 + 1);
    }
    std::copy_n(to, 6, frame.begin());
    frame[12] = static_cast<std::uint8_t>(type >> 8);
    frame[13] = static_cast<std::uint8_t>(type);
    return frame;
}

void arrive(Host &host, const Bytes &frame)
{
    rnic_card_receive(&host.card, frame.data(), static_cast<std::uint32_t>(frame.size()));
    host.run();
}

std::vector<std::uint64_t> sent_at(const Host &host)
{
    std::vector<std::uint64_t> times;
    for (const Crossing &each : host.transactions) {
        if (each.kind == RNIC_TRANSACTION_FRAME_SENT) {
            times.push_back(each.time);
        }
    }
    return times;
}

rnic_card_config simulated(rnic_card_profile profile)
{
    rnic_card_config config = raw_config();
    config.profile = profile;
    config.simulated = true;
    return config;
}

} // namespace

TEST_CASE("a raw queue pair sends whole frames, and no others", "[card]")
{
    Host host(raw_config());
    Raw raw(host, 0, 0, GENERATE(false, true));
    CHECK((host.reg(0, RNIC_REG_CAPS) & RNIC_CAPS_RAW) != 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    struct {
        std::uint32_t length;
        unsigned type;
        bool good;
    } const frames[] = {{14, kIp, true},      {60, kIp, true},       {1514, kIp, true},
                        {1515, kIp, false},   {13, kIp, false},      {1518, 0x8100, true},
                        {1518, 0x88A8, true}, {1519, 0x8100, false}, {100, 0x88B5, false},
                        {0, kIp, false},      {61, 0x8100, true}};
    std::uint32_t number = 0;
    for (const auto &each : frames) {
        INFO(each.length << " " << each.type);
        const Work work = raw.frame(number, each.length, 0, kStranger, each.type);
        host.wire.clear();
        host.now += 1000;
        raw.send(work);
        host.run();
        const Completion done = raw.only();
        CHECK(done.status == (each.good ? RNIC_STATUS_OK : RNIC_STATUS_LOCAL_FORMAT));
        CHECK(done.cookie == number);
        CHECK(done.info == number + 1);
        CHECK(done.opcode == RNIC_WORK_SEND);
        CHECK(done.length == (each.good ? each.length : 0));
        CHECK(done.time == host.now);
        REQUIRE(host.wire.size() == (each.good ? 1 : 0));
        if (each.good) {
            CHECK(host.wire[0] == Bytes(raw.bytes(number), raw.bytes(number) + each.length));
        }
        ++number;
    }
    CHECK(host.reg(0, RNIC_REG_TX_FRAMES_LO) == 6);
    CHECK(host.reg(0, RNIC_REG_TX_BYTES_LO) == 14 + 60 + 1514 + 1518 + 1518 + 61);
}

TEST_CASE("what a raw entry must not be is completed as such, and the next one is sent", "[card]")
{
    Host host(raw_config());
    Raw raw(host, 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    Work bad = raw.frame(0, 100);
    unsigned status = RNIC_STATUS_LOCAL_FORMAT;
    SECTION("an RDMA Write")
    {
        bad.opcode = RNIC_WORK_WRITE;
    }
    SECTION("with a fence")
    {
        bad.flags = RNIC_WORK_FLAG_FENCE;
    }
    SECTION("with immediate data")
    {
        bad.flags = RNIC_WORK_FLAG_IMMEDIATE;
    }
    SECTION("of memory that is not its own")
    {
        bad.segments[0].stag ^= 1;
        status = RNIC_STATUS_LOCAL_PROTECTION;
    }
    raw.send(bad);
    raw.send(raw.frame(1, 100));
    host.run();
    const std::vector<Completion> done = raw.drain();
    REQUIRE(done.size() == 2);
    CHECK(done[0].status == status);
    CHECK(done[0].length == 0);
    CHECK(done[1].status == RNIC_STATUS_OK);
    REQUIRE(host.wire.size() == 1);
    CHECK(host.wire[0][20] == raw.bytes(1)[20]);
}

TEST_CASE("a frame is gathered from several segments", "[card]")
{
    Host host(raw_config());
    Raw raw(host, 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    Work work = raw.frame(0, 300);
    work.segments = {
        {raw.memory, 7, raw.tag}, {raw.memory + 7, 100, raw.tag}, {raw.memory + 107, 193, raw.tag}};
    raw.send(work);
    host.run();
    CHECK(raw.only().status == RNIC_STATUS_OK);
    REQUIRE(host.wire.size() == 1);
    CHECK(host.wire[0] == Bytes(raw.bytes(0), raw.bytes(0) + 300));
}

TEST_CASE("raw queue pairs are for functions that may have them, and so many", "[card]")
{
    Host host(raw_config());
    Driver other(host, 2);
    other.enable();
    CHECK((host.reg(2, RNIC_REG_CAPS) & RNIC_CAPS_RAW) == 0);
    const std::uint32_t its_cq = other.create_cq();
    CHECK(other.try_create_qp(RNIC_LEVEL_RAW, its_cq, its_cq, 0).status == RNIC_STATUS_INVALID);
    Raw raw(host, 1);
    CHECK(raw.driver.try_create_qp(RNIC_LEVEL_RAW + 1, raw.cq, raw.cq, 0).status == RNIC_STATUS_INVALID);
    CHECK(raw.driver.try_create_qp(RNIC_LEVEL_RAW, raw.cq, raw.cq, 4).status == RNIC_STATUS_INVALID);
    CHECK(raw.driver.simple(RNIC_COMMAND_ASSIGN_WINDOW, raw.qp).status == RNIC_STATUS_INVALID);
    const std::uint32_t plain = raw.driver.create_qp(RNIC_LEVEL_DELIVERY, raw.cq, raw.cq);
    Modify what;
    what.change = 4;
    what.level = RNIC_LEVEL_RAW;
    CHECK(raw.driver.modify(plain, what).status == RNIC_STATUS_INVALID);
    CHECK(raw.driver.modify(raw.qp, what).status == RNIC_STATUS_OK); // which it is
    what.level = RNIC_LEVEL_DELIVERY;
    CHECK(raw.driver.modify(raw.qp, what).status == RNIC_STATUS_INVALID);

    Modify go;
    go.state = RNIC_QP_STATE_CONNECTED;
    std::vector<std::uint32_t> qps;
    for (unsigned i = 0; i < 16; ++i) {
        qps.push_back(raw.driver.try_create_qp(RNIC_LEVEL_RAW, raw.cq, raw.cq, 0).info);
        REQUIRE(raw.driver.modify(qps.back(), go).status == RNIC_STATUS_OK);
    }
    CHECK(raw.go() == RNIC_STATUS_NO_ROOM);
    go.state = RNIC_QP_STATE_ERROR;
    CHECK(raw.driver.modify(qps[5], go).status == RNIC_STATUS_OK);
    CHECK(raw.go() == RNIC_STATUS_OK);
}

TEST_CASE("a raw queue pair takes the frames of its filter", "[card]")
{
    rnic_card_config config = GENERATE(raw_config(), simulated(RNIC_PROFILE_MODERN));
    Host host(config);
    const unsigned filter = GENERATE(0u, 1u, 2u, 3u);
    Raw raw(host, 1, filter, filter == 1);
    raw.receive_ring();
    REQUIRE(raw.go(GENERATE(unsigned{RNIC_QP_STATE_RECEIVE}, unsigned{RNIC_QP_STATE_CONNECTED})) ==
            RNIC_STATUS_OK);
    const auto takes = [&](const std::uint8_t *to) {
        const std::uint64_t missed = raw.missed();
        raw.receive(0, kSlot);
        host.now += 1000000;
        const Bytes frame = from_wire(to, 60);
        arrive(host, frame);
        const std::uint64_t came = host.now;
        host.run_for(1000000);
        const std::vector<Completion> done = raw.drain();
        CHECK(raw.missed() == missed);
        if (done.empty()) { // the receive that was not taken
            --raw.driver.qps[raw.qp].rq.index;
            return false;
        }
        CHECK(done[0].status == RNIC_STATUS_OK);
        CHECK(done[0].opcode == RNIC_WORK_RECEIVE);
        CHECK(done[0].length == 60);
        CHECK(done[0].time == came);
        CHECK(Bytes(raw.bytes(0), raw.bytes(0) + 60) == frame);
        return true;
    };
    CHECK(takes(config.mac));
    CHECK(takes(kGroup) == (filter != 0));
    CHECK(takes(kStranger) == (filter >= 2));
    CHECK(host.reg(1, RNIC_REG_RX_FRAMES_LO) == (filter >= 2 ? 3u : filter != 0 ? 2u : 1u));
}

TEST_CASE("a frame that finds no receive is missed, and one that is too long is cut", "[card]")
{
    Host host(raw_config());
    Raw raw(host, 0), sender(host, 1);
    REQUIRE(sender.go() == RNIC_STATUS_OK); // it has no receive ring: it misses nothing
    raw.receive_ring();
    const rnic_card_config config = raw_config();
    const std::uint8_t *const mac = config.mac;
    const Bytes frame = from_wire(mac, 1000);
    arrive(host, frame); // IDLE
    CHECK(raw.missed() == 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    arrive(host, frame);
    arrive(host, frame);
    CHECK(raw.missed() == 2);
    CHECK(sender.missed() == 0);
    raw.receive(0, 999);
    raw.bytes(0)[999] = 0xEE;
    arrive(host, frame);
    Completion done = raw.only();
    CHECK(done.status == RNIC_STATUS_LOCAL_LENGTH);
    CHECK(done.length == 999);
    CHECK(Bytes(raw.bytes(0), raw.bytes(0) + 999) == Bytes(frame.begin(), frame.end() - 1));
    CHECK(raw.bytes(0)[999] == 0xEE);
    arrive(host, from_wire(mac, 1000, 0x88B5)); // EFE's are not shown, valid or not
    arrive(host, Bytes(13));
    CHECK(raw.missed() == 2);
    Work bad;
    bad.opcode = RNIC_WORK_RECEIVE;
    bad.segments = {{raw.memory, 500, raw.tag}, {raw.memory, 1500, raw.tag ^ 1}};
    raw.bytes(0)[0] = 0xDD; // and no part of it is stored
    raw.driver.post(raw.qp, bad);
    raw.receive(1, kSlot);
    arrive(host, frame);
    CHECK(raw.only().status == RNIC_STATUS_LOCAL_PROTECTION);
    CHECK(raw.bytes(0)[0] == 0xDD);
    arrive(host, frame);
    CHECK(raw.only().status == RNIC_STATUS_OK);
}

TEST_CASE("frames for the card itself come to its own raw queue pairs", "[card]")
{
    Host host(GENERATE(raw_config(), simulated(RNIC_PROFILE_MODERN)));
    Raw a(host, 0), b(host, 1);
    b.receive_ring();
    REQUIRE(a.go() == RNIC_STATUS_OK);
    REQUIRE(b.go() == RNIC_STATUS_OK);
    b.receive(3, kSlot);
    a.send(a.frame(0, 1514, 0, raw_config().mac));
    host.run_for(1000000);
    CHECK(a.only().status == RNIC_STATUS_OK);
    const Completion done = b.only();
    CHECK(done.length == 1514);
    CHECK(std::equal(b.bytes(3), b.bytes(3) + 1514, a.bytes(0)));
    CHECK(host.wire.empty());
}

TEST_CASE("frames leave at their launch times, over weeks", "[card]")
{
    const rnic_card_profile profile =
        GENERATE(RNIC_PROFILE_NONE, RNIC_PROFILE_MODERN, RNIC_PROFILE_CAPTURE_2020);
    Host host(simulated(profile));
    Raw raw(host, 0, 0, false, 6);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    host.run_for(1000000);
    host.record = true;
    // Gaps of 20 us to six days: a month in all.
    std::vector<std::uint64_t> due;
    std::uint64_t time = host.now + 5000;
    for (unsigned i = 0; i < 64; ++i) {
        due.push_back(time);
        raw.send(raw.frame(i, 60 + i * 20, time));
        time += i % 13 == 12 ? std::uint64_t{6} * 86400 * 1000000000 + i : 20000 + i * 7;
    }
    host.run_for(time - host.now);
    CHECK(sent_at(host) == due);
    const std::vector<Completion> done = raw.drain();
    REQUIRE(done.size() == 64);
    for (unsigned i = 0; i < 64; ++i) {
        CHECK(done[i].time == due[i]);
        CHECK(done[i].cookie == i);
    }
    CHECK(host.wire.size() == 64);
}

TEST_CASE("launch times that have passed do not hold a frame up, and order stays", "[card]")
{
    Host host(simulated(RNIC_PROFILE_NONE));
    Raw raw(host, 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    host.record = true;
    const std::uint64_t start = host.now;
    raw.send(raw.frame(0, 100, start + 1000));
    raw.send(raw.frame(1, 100, start + 400)); // behind the first
    raw.send(raw.frame(2, 100, 1));
    raw.send(raw.frame(3, 100, start + 2000));
    host.run_for(999);
    CHECK(host.wire.empty());
    host.run_for(2000);
    const std::vector<std::uint64_t> times = {start + 1000, start + 1000, start + 1000, start + 2000};
    CHECK(sent_at(host) == times);
    REQUIRE(host.wire.size() == 4);
    for (unsigned i = 0; i < 4; ++i) {
        CHECK(host.wire[i][30] == raw.bytes(i)[30]);
    }
}

TEST_CASE("a wire without room holds raw frames back, and loses none", "[card]")
{
    rnic_card_config config = raw_config();
    config.frames = GENERATE(16u, 1024u); // the switch's frames, or the wire's queue, are the limit
    Host host(config);
    char error[100];
    REQUIRE(rnic_card_impair(&host.card, "rate=10G,queue=100K,delay=5us", error, sizeof error));
    Raw raw(host, 0, 0, false, 8);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    constexpr unsigned kFrames = 4000;
    unsigned posted = 0, completed = 0;
    host.record = true;
    while (completed < kFrames) {
        for (; posted < kFrames && posted < completed + 256; ++posted) {
            raw.driver.post(raw.qp, raw.frame(posted, 1514), false);
        }
        raw.driver.ring(raw.qp);
        host.run_for(10000);
        for (const Completion &done : raw.drain()) {
            REQUIRE(done.status == RNIC_STATUS_OK);
            REQUIRE(done.cookie == completed++);
        }
        REQUIRE(host.now < 1000000000);
    }
    host.run_for(10000000);
    REQUIRE(host.wire.size() == kFrames);
    for (unsigned i = 0; i < kFrames; ++i) {
        REQUIRE(host.wire[i][30] == static_cast<std::uint8_t>(i * 17 + 90));
    }
    const double took = static_cast<double>(host.left.back() - host.left.front());
    CHECK(took == Approx((kFrames - 1) * 1514 * 8 / 10.0).epsilon(0.001)); // 10 Gb/s, all the time
}

TEST_CASE("a receiver's queue on the card holds raw frames back, and loses none", "[card]")
{
    rnic_card_config config = raw_config();
    config.frames = 16;
    config.profile = RNIC_PROFILE_CAPTURE_2020;
    config.simulated = GENERATE(false, true);
    Host host(config);
    char error[100];
    REQUIRE(rnic_card_impair(&host.card, "", error, sizeof error));
    Raw a(host, 0, 0, false, 7), b(host, 1, 0, false, 7);
    REQUIRE(b.driver.set_ring(b.qp, 1, 7).status == RNIC_STATUS_OK);
    REQUIRE(a.go() == RNIC_STATUS_OK);
    REQUIRE(b.go() == RNIC_STATUS_OK);
    for (unsigned i = 0; i < 128; ++i) {
        Work work;
        work.opcode = RNIC_WORK_RECEIVE;
        work.segments = {b.slot(i, 20), b.slot(i, 1500)}; // more to do than for the sender
        b.driver.post(b.qp, work, i == 127);
        a.driver.post(a.qp, a.frame(i, 100, 0, config.mac), false);
    }
    a.driver.ring(a.qp);
    host.run_for(100000000);
    CHECK(a.drain().size() == 128);
    CHECK(b.drain().size() == 128);
    CHECK(b.missed() == 0);
}

TEST_CASE("a hostile raw queue costs itself alone", "[card]")
{
    Host host(raw_config());
    Raw good(host, 0), bad(host, 1);
    bad.receive_ring();
    good.receive_ring();
    REQUIRE(good.go() == RNIC_STATUS_OK);
    REQUIRE(bad.go() == RNIC_STATUS_OK);
    unsigned code = 0;
    SECTION("a launch time that never comes")
    {
        bad.send(bad.frame(0, 100, UINT64_MAX));
    }
    SECTION("a producer index that is too far ahead")
    {
        bad.driver.qps[bad.qp].sq.index = 0x80000000;
        bad.driver.ring(bad.qp);
        code = RNIC_ERROR_RING_INDEX;
    }
    SECTION("a frame that the bus refuses")
    {
        bad.send(bad.frame(0, 100));
        host.allows = [&](unsigned fn, std::uint64_t iova, std::uint32_t, bool) {
            return fn != 1 || iova != bad.memory;
        };
        code = RNIC_ERROR_DMA;
    }
    SECTION("a ring that the bus refuses")
    {
        const std::uint64_t ring = bad.driver.qps[bad.qp].sq.base;
        bad.send(bad.frame(0, 100));
        host.allows = [ring](unsigned fn, std::uint64_t iova, std::uint32_t, bool) {
            return fn != 1 || iova != ring;
        };
        code = RNIC_ERROR_RING_DMA;
    }
    SECTION("a receive that the bus refuses")
    {
        bad.receive(0, 1500);
        host.allows = [&](unsigned fn, std::uint64_t iova, std::uint32_t, bool) {
            return fn != 1 || iova != bad.memory;
        };
        code = RNIC_ERROR_DMA;
    }
    good.receive(1, kSlot);
    host.run();
    arrive(host, from_wire(raw_config().mac, 100));
    for (unsigned i = 0; i < 8; ++i) {
        good.send(good.frame(i, 100));
        host.run();
    }
    CHECK(host.wire.size() == 8);
    CHECK(good.drain().size() == 9);
    CHECK((host.reg(1, RNIC_REG_STATUS) & RNIC_STATUS_CATASTROPHIC) == 0);
    const Completion state = bad.driver.simple(RNIC_COMMAND_QUERY_QP, bad.qp);
    CHECK(state.info == (code == 0 ? RNIC_QP_STATE_CONNECTED : RNIC_QP_STATE_ERROR));
    CHECK(state.length == code);
    CHECK(bad.go(RNIC_QP_STATE_ERROR) == RNIC_STATUS_OK);
    const std::vector<Completion> rest = bad.drain();
    REQUIRE_FALSE(rest.empty());
    CHECK(rest.back().opcode == RNIC_WORK_DRAINED);
    CHECK(bad.driver.simple(RNIC_COMMAND_DESTROY_QP, bad.qp).status == RNIC_STATUS_OK);
    CHECK(rnic_card_deadline(&host.card) >
          host.now + 1000000000); // nothing of it waits for its time any more
}

TEST_CASE("a raw queue pair that closes sends what was posted before", "[card]")
{
    Host host(raw_config());
    Raw raw(host, 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    raw.send(raw.frame(0, 100));
    raw.send(raw.frame(1, 100, host.now + 1000000));
    raw.driver.ring(raw.qp);
    REQUIRE(raw.go(RNIC_QP_STATE_CLOSING) == RNIC_STATUS_OK);
    raw.send(raw.frame(2, 100));
    CHECK(host.wire.size() == 1);
    host.run_for(2000000);
    CHECK(host.wire.size() == 2);
    const std::vector<Completion> done = raw.drain();
    REQUIRE(done.size() == 3);
    CHECK(done[1].cookie == 1);
    CHECK(done[2].opcode == RNIC_WORK_DRAINED);
    Modify what;
    what.state = RNIC_QP_STATE_IDLE; // and from there again
    CHECK(raw.driver.modify(raw.qp, what).status == RNIC_STATUS_OK);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    raw.send(raw.frame(3, 100));
    host.run();
    CHECK(host.wire.size() == 3);
    CHECK(raw.only().cookie == 3);
}

TEST_CASE("a reset drops what a raw queue pair has not sent", "[card]")
{
    Host host(raw_config());
    Raw raw(host, 0);
    REQUIRE(raw.go() == RNIC_STATUS_OK);
    raw.send(raw.frame(0, 100, host.now + 1000000));
    host.run();
    CHECK(rnic_card_deadline(&host.card) == host.now + 1000000);
    host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    host.run_for(2000000);
    CHECK(host.wire.empty());
    CHECK(rnic_card_deadline(&host.card) > host.now + 1000000000);
}

TEST_CASE("raw queue pairs and connections share the card", "[card]")
{
    Setup setup;
    setup.config = simulated(RNIC_PROFILE_MODERN);
    setup.two_cards = true;
    Two two(setup);
    const std::uint32_t raw_cq = two.a.create_cq(8);
    const std::uint32_t raw_qp = two.a.try_create_qp(RNIC_LEVEL_RAW, raw_cq, raw_cq, 0).info;
    REQUIRE(two.a.set_ring(raw_qp, 0, 7).status == RNIC_STATUS_OK);
    Modify go;
    go.state = RNIC_QP_STATE_CONNECTED;
    REQUIRE(two.a.modify(raw_qp, go).status == RNIC_STATUS_OK);
    for (unsigned i = 0; i < 100; ++i) {
        two.a.post(raw_qp, two.send(1000), false);
    }
    two.host.record = true;
    two.a.ring(raw_qp);
    two.post_a(two.write(50000)); // 34 frames
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    two.host.run_for(10000000);
    CHECK(two.a.drain(raw_cq).size() == 100);
    unsigned of_write = 0, raw_before_it = 0; // frames
    for (const Crossing &each : two.host.transactions) {
        const bool sent = each.kind == RNIC_TRANSACTION_FRAME_SENT;
        const bool is_data = sent && each.bytes_moved[12] == 0x88 && each.bytes > 500;
        of_write += is_data;
        raw_before_it += sent && !is_data && each.bytes == 1000 && of_write < 34;
    }
    CHECK(of_write >= 34);
    CHECK(raw_before_it >= 25); // neither waits for the other
    CHECK(raw_before_it <= 50);
    CHECK(two.same(0, 0, 50000));
}
