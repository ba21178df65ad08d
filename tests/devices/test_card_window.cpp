// SPDX-License-Identifier: MIT
//
// Windows: entries that the driver has copied to BAR2. In each case the memory that an entry names
// has other bytes than its window, so that what arrives says where it came from.
#include <algorithm>
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

constexpr std::uint32_t kLength = 200;
constexpr std::uint8_t kOfWindow = 0xC3;

/** A pair of which a's queue pair has a window. */
struct Windowed : Two {
    explicit Windowed(const Setup &setup = {}) : Two(setup)
    {
        const Completion answer = a.simple(RNIC_COMMAND_ASSIGN_WINDOW, pair->qp_a);
        REQUIRE(answer.status == RNIC_STATUS_OK);
        window = answer.info;
    }
    /** The slot of the entry that is posted next. */
    std::uint8_t *slot()
    {
        return host.bar2(a.fn) + RNIC_DB_WINDOWS + window * std::size_t{RNIC_WINDOW_BYTES} +
               a.qps[pair->qp_a].sq.index % RNIC_WINDOW_SLOTS * std::size_t{RNIC_WINDOW_SLOT_BYTES};
    }
    std::uint32_t behind() { return a.qps[pair->qp_a].sq.index + 1; }
    /** Posts an entry with a copy in its window; `spoil` may change the copy. */
    void post(
        const Work &work, const std::function<void(std::uint8_t *slot)> &spoil = [](std::uint8_t *) {})
    {
        std::uint8_t *const to = slot();
        const Segment &segment = work.segments.front();
        rnic_put32(to + RNIC_WINDOW_BEGIN, behind(), a.big);
        rnic_put32(to + RNIC_WINDOW_END, behind(), a.big);
        rnic_put16(to + RNIC_WINDOW_LENGTH, static_cast<std::uint16_t>(segment.length), a.big);
        to[RNIC_WINDOW_OPCODE] = static_cast<std::uint8_t>(work.opcode);
        to[RNIC_WINDOW_FLAGS] = static_cast<std::uint8_t>(work.flags);
        rnic_put32(to + RNIC_WINDOW_COOKIE, work.cookie, a.big);
        rnic_put32(to + RNIC_WINDOW_IMMEDIATE, work.immediate, a.big);
        rnic_put32(to + RNIC_WINDOW_REMOTE_STAG, work.remote_stag, a.big);
        rnic_put64(to + RNIC_WINDOW_REMOTE_ADDRESS, work.remote_address, a.big);
        rnic_put64(to + RNIC_WINDOW_LOCAL_ADDRESS, segment.address, a.big);
        rnic_put32(to + RNIC_WINDOW_LOCAL_STAG, segment.stag, a.big);
        std::fill_n(to + RNIC_WINDOW_HEADER, RNIC_WINDOW_PAYLOAD, kOfWindow);
        spoil(to);
        post_a(work);
    }
    /** Whether so many bytes of b's memory are the window's. */
    bool came_by_window(std::uint32_t offset, std::uint32_t bytes)
    {
        return std::count(b.at(mem_b) + offset, b.at(mem_b) + offset + bytes, kOfWindow) ==
               std::ptrdiff_t(bytes);
    }

    std::uint32_t window = 0;
};

unsigned reads_of(const Host &host, unsigned fn)
{
    return static_cast<unsigned>(
        std::count_if(host.transactions.begin(), host.transactions.end(), [fn](const Crossing &each) {
            return each.kind == RNIC_TRANSACTION_DMA_READ && each.fn == fn;
        }));
}

} // namespace

TEST_CASE("an entry in a window is sent from there, without a DMA", "[card]")
{
    Setup setup;
    setup.big_a = GENERATE(false, true);
    setup.level = GENERATE(0u, 2u); // Unreliable, Reliable Reception
    Windowed two(setup);
    const std::uint32_t length = GENERATE(1u, 3u, 8u, 463u, 464u);
    two.host.record = true;
    two.post(two.write(length, 1000, 51));
    Completion done = two.next_a();
    CHECK(done.status == RNIC_STATUS_OK);
    CHECK(done.cookie == 51);
    CHECK(done.info == 1);
    CHECK(two.came_by_window(1000, length));
    CHECK(two.b.at(two.mem_b)[1000 + length] != kOfWindow);
    CHECK(reads_of(two.host, two.a.fn) == 0);
    const auto is_window = [](const Crossing &each) { return each.kind == RNIC_TRANSACTION_WINDOW; };
    const auto header = std::find_if(two.host.transactions.begin(), two.host.transactions.end(), is_window);
    REQUIRE(header != two.host.transactions.end());
    CHECK(header->bytes == RNIC_WINDOW_HEADER);
    CHECK(header->value == 1);
    const auto payload = std::find_if(header + 1, two.host.transactions.end(), is_window);
    REQUIRE(payload != two.host.transactions.end());
    CHECK(payload->address == header->address + RNIC_WINDOW_HEADER);
    CHECK(payload->bytes_moved == Bytes(length, kOfWindow));

    Work send = two.send(length, 41);
    send.flags = RNIC_WORK_FLAG_IMMEDIATE;
    send.immediate = 0x12345678;
    two.post_b(two.receive(length));
    two.post(send);
    CHECK(two.next_a().cookie == 41);
    done = two.next_b();
    CHECK(done.status == RNIC_STATUS_OK);
    CHECK(done.immediate == 0x12345678);
    CHECK(done.length == length);
    CHECK(two.came_by_window(0, length));
    CHECK(reads_of(two.host, two.a.fn) == 0);
}

TEST_CASE("a slot that has not the whole entry is not used", "[card]")
{
    Windowed two;
    const auto put32 = [](unsigned at, std::uint32_t value) {
        return [=](std::uint8_t *slot) { rnic_put32(slot + at, value, false); };
    };
    const auto put8 = [](unsigned at, unsigned value) {
        return [=](std::uint8_t *slot) { slot[at] = static_cast<std::uint8_t>(value); };
    };
    const auto put_length = [](unsigned length) {
        return [=](std::uint8_t *slot) {
            rnic_put16(slot + RNIC_WINDOW_LENGTH, static_cast<std::uint16_t>(length), false);
        };
    };
    const std::vector<std::function<void(std::uint8_t *)>> spoils = {
        put32(RNIC_WINDOW_BEGIN, 0),
        put32(RNIC_WINDOW_END, 0),
        put32(RNIC_WINDOW_BEGIN, 9), // the next one of the slot is being stored
        put32(RNIC_WINDOW_END, 9),
        put8(RNIC_WINDOW_OPCODE, RNIC_WORK_READ),
        put8(RNIC_WINDOW_OPCODE, RNIC_WORK_RECEIVE),
        put8(RNIC_WINDOW_OPCODE, 0),
        put8(RNIC_WINDOW_FLAGS, RNIC_WORK_FLAG_LIST),
        put8(RNIC_WINDOW_FLAGS, RNIC_WORK_FLAG_INVALID),
        put8(RNIC_WINDOW_FLAGS, 0x80),
        put_length(0),
        put_length(465),
        put_length(0xFFFF)};
    for (std::size_t i = 0; i < spoils.size(); ++i) {
        INFO(i);
        const std::uint32_t at = static_cast<std::uint32_t>(i) * 512;
        two.post(two.write(kLength, at), spoils[i]);
        REQUIRE(two.next_a().status == RNIC_STATUS_OK);
        CHECK(two.same(0, at, kLength));
        two.post(two.write(kLength, at)); // and one that is whole
        REQUIRE(two.next_a().status == RNIC_STATUS_OK);
        CHECK(two.came_by_window(at, kLength));
    }
}

TEST_CASE("an entry whose slot is stored to while it waits is read from memory", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Windowed two(setup);
    const bool torn = GENERATE(true, false);
    Work fenced = two.write(kLength, 1000, 61);
    fenced.flags = RNIC_WORK_FLAG_FENCE;
    two.a.post(two.pair->qp_a, two.read(8, 3000, 60), false);
    std::uint8_t *const slot = two.slot();
    const std::uint32_t behind = two.behind();
    two.host.moved = [&](unsigned, std::uint64_t iova, std::uint32_t, bool write) {
        if (write && iova == two.mem_a) { // the read has come, and the fenced entry has begun before
            rnic_put32(slot + (torn ? RNIC_WINDOW_BEGIN : RNIC_WINDOW_END), behind + 8, false);
        }
    };
    two.post(fenced);
    CHECK(two.next_a().cookie == 60);
    CHECK(two.next_a().cookie == 61);
    CHECK(two.same(0, 1000, 8)); // which the read has placed there before
    CHECK_FALSE(two.came_by_window(1000, 1));
}

TEST_CASE("fault window_lost: an entry, or its payload, is read from memory", "[card]")
{
    Windowed two;
    const bool payload = GENERATE(false, true);
    char error[100];
    REQUIRE(
        rnic_card_faults(&two.host.card, payload ? "window_lost=@2" : "window_lost=@1", error, sizeof error));
    two.host.record = true;
    two.post(two.write(kLength, 1000, 51));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(two.same(0, 1000, kLength));
    CHECK(reads_of(two.host, two.a.fn) == (payload ? 1 : 2));
    two.post(two.write(kLength, 2000, 52));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(two.came_by_window(2000, kLength));
}

TEST_CASE("a message of more than one frame is read from memory", "[card]")
{
    Setup setup;
    setup.config.mtu = 300;
    Windowed two(setup);
    two.post(two.write(464, 1000));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(two.same(0, 1000, 464));
}

TEST_CASE("the memory of an entry in a window is checked as that of any", "[card]")
{
    Windowed two;
    Work work = two.write(kLength);
    SECTION("its tag")
    {
        work.segments[0].stag ^= 1;
    }
    SECTION("its bounds")
    {
        work.segments[0].address = two.mem_a + Two::kBytes - kLength + 1;
    }
    two.post(work);
    CHECK(two.next_a().status == RNIC_STATUS_LOCAL_PROTECTION);
    CHECK_FALSE(two.came_by_window(0, 1));
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_SEND_PROTECTION);
}

TEST_CASE("a peer's tag is checked for an entry of a window, too", "[card]")
{
    Windowed two;
    Work work = two.write(kLength);
    work.remote_stag ^= 1;
    two.post(work);
    CHECK(two.next_a().status == RNIC_STATUS_REMOTE_ACCESS);
    CHECK_FALSE(two.came_by_window(0, 1));
}

TEST_CASE("windows are given, kept, and taken back", "[card]")
{
    Setup setup;
    setup.config.qps = 2048;
    Windowed two(setup);
    const auto assign = [&two](std::uint32_t qp) { return two.a.simple(RNIC_COMMAND_ASSIGN_WINDOW, qp); };
    CHECK(assign(two.pair->qp_b).status == RNIC_STATUS_NO_OBJECT); // another function's
    CHECK(assign(99999).status == RNIC_STATUS_NO_OBJECT);
    CHECK(assign(two.pair->qp_a).info == two.window);
    std::vector<bool> seen(RNIC_WINDOWS);
    seen[two.window] = true;
    std::uint32_t last = 0, last_window = 0;
    for (unsigned i = 1; i < RNIC_WINDOWS; ++i) {
        last = two.a.try_create_qp(RNIC_LEVEL_DELIVERY, two.pair->cq_a, two.pair->cq_a).info;
        const Completion answer = assign(last);
        REQUIRE(answer.status == RNIC_STATUS_OK);
        REQUIRE(answer.info < RNIC_WINDOWS);
        REQUIRE_FALSE(seen[answer.info]);
        seen[answer.info] = true;
        last_window = answer.info;
    }
    const std::uint32_t more = two.a.try_create_qp(RNIC_LEVEL_DELIVERY, two.pair->cq_a, two.pair->cq_a).info;
    CHECK(assign(more).status == RNIC_STATUS_NO_ROOM);
    CHECK(two.b.simple(RNIC_COMMAND_ASSIGN_WINDOW, two.pair->qp_b).status ==
          RNIC_STATUS_OK); // it has its own
    CHECK(two.a.simple(RNIC_COMMAND_DESTROY_QP, last).status == RNIC_STATUS_OK);
    CHECK(assign(more).info == last_window);
}

TEST_CASE("what is left in a window from a former life is not sent", "[card]")
{
    Windowed two;
    const bool by_reset = GENERATE(false, true);
    std::uint8_t *const slot = two.slot();
    two.post(two.write(kLength, 4000));
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    CHECK(rnic_get32(slot + RNIC_WINDOW_END, false) == 1);
    if (by_reset) {
        two.host.set_reg(two.a.fn, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    }
    Host &host = two.host;
    Driver next(host, by_reset ? two.a.fn : 2);
    next.enable();
    if (!by_reset) { // another function's window is not this one's
        const std::uint32_t cq = next.create_cq();
        const Completion answer =
            next.simple(RNIC_COMMAND_ASSIGN_WINDOW, next.create_qp(RNIC_LEVEL_DELIVERY, cq, cq));
        CHECK(answer.info == 0);
        CHECK(rnic_get32(slot + RNIC_WINDOW_END, false) == 1);
        return;
    }
    const std::uint32_t cq = next.create_cq();
    const Completion answer =
        next.simple(RNIC_COMMAND_ASSIGN_WINDOW, next.create_qp(RNIC_LEVEL_DELIVERY, cq, cq));
    CHECK(answer.info == two.window); // all were free again
    CHECK(rnic_get32(slot + RNIC_WINDOW_BEGIN, false) == 0);
    CHECK(rnic_get32(slot + RNIC_WINDOW_END, false) == 0);
    CHECK(slot[RNIC_WINDOW_HEADER] == kOfWindow);
}

TEST_CASE("the bus carries stores to windows", "[card]")
{
    Host host;
    for (const std::uint64_t at : {std::uint64_t{RNIC_DB_WINDOWS}, std::uint64_t{RNIC_BAR2_BYTES} - 4}) {
        rnic_card_bar_write(&host.card, 1, 2, at, 4, 0x11223344);
        CHECK(rnic_card_bar_read(&host.card, 1, 2, at, 4) == 0x11223344);
        CHECK(host.bar2(1)[at] == 0x44);
    }
    rnic_card_bar_write(&host.card, 1, 2, RNIC_BAR2_BYTES - 2, 4, 0xFFFFFFFF); // beyond the end: not at all
    CHECK(host.bar2(1)[RNIC_BAR2_BYTES - 1] == 0x11);
}
