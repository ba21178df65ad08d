// SPDX-License-Identifier: MIT
//
// The driver's verbs: short messages that are copied to a window of the card.
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "opened_function.hpp"
#include "support/faults.hpp"
#include "support/system.hpp"

extern "C" {
#include "base/iov.h"
}

using namespace unit;

namespace {

constexpr std::uint32_t kWindow = 5;
constexpr std::uint32_t kStag = 0x01020304;

/** An opened function with windows, whose queue pair gets the window kWindow. */
struct Windowed : Opened {
    explicit Windowed(std::uint32_t most = RNIC_WINDOW_PAYLOAD, const CardMemory &memory = {})
        : Opened(true, 6, memory)
    {
        fake.answer = [this](const FakeFunction::Command &c) {
            return fake.u16(c, RNIC_CMD_OPCODE) == RNIC_COMMAND_ASSIGN_WINDOW ? assigned : obey(c);
        };
        vipl_rnic_set_windows(rnic, most);
        for (std::size_t i = 0; i < sizeof(bytes); ++i) {
            bytes[i] = static_cast<std::uint8_t>(1 + i % 251);
        }
    }
    /** Posts an entry of one segment, with the growth that this needs. */
    void put(std::uint32_t length, std::uint8_t opcode = RNIC_WORK_SEND, std::uint16_t segments = 1)
    {
        const vipl_rnic_segment list[2] = {{address, length, kStag}, {address, 1, kStag}};
        vipl_rnic_work work = {};
        work.opcode = opcode;
        work.segments = segments;
        work.flags = RNIC_WORK_FLAG_IMMEDIATE;
        work.cookie = posted;
        work.immediate = 0x10203040;
        work.remote_address = 0x1122334455667788;
        work.remote_stag = 0x55667788;
        work.segment = list;
        if (vipl_rnic_post_sq(&qp, &work) != 0) {
            REQUIRE(vipl_rnic_grow_queue(&qp, VIPL_RNIC_SQ) == 0);
            REQUIRE(vipl_rnic_post_sq(&qp, &work) == 0);
        }
        ++posted;
    }
    void finish(std::uint32_t index) // the entries before it are complete
    {
        complete(RNIC_WORK_SEND, index);
        REQUIRE(poll() == 1);
    }
    const std::uint8_t *slot(std::uint32_t number) const
    {
        return fake.bar2(RNIC_DB_WINDOWS + kWindow * RNIC_WINDOW_BYTES + number * RNIC_WINDOW_SLOT_BYTES);
    }
    std::uint32_t field(std::uint32_t number, unsigned at)
    {
        return rnic_get32(slot(number) + at, fake.big());
    }
    /** Whether the slot has the entry with this index behind it. */
    bool has(std::uint32_t number, std::uint32_t behind)
    {
        return field(number, RNIC_WINDOW_BEGIN) == behind && field(number, RNIC_WINDOW_END) == behind;
    }
    std::size_t assigns() const
    {
        return static_cast<std::size_t>(
            std::count_if(fake.commands.begin(), fake.commands.end(), [](const FakeFunction::Command &c) {
                return rnic_get16(c.data() + RNIC_CMD_OPCODE, false) == RNIC_COMMAND_ASSIGN_WINDOW ||
                       rnic_get16(c.data() + RNIC_CMD_OPCODE, true) == RNIC_COMMAND_ASSIGN_WINDOW;
            }));
    }

    Answer assigned = {RNIC_STATUS_OK, kWindow};
    std::uint8_t bytes[512];
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(bytes);
    std::uint32_t posted = 0;
};

} // namespace

TEST_CASE("a short message is in its slot and in the ring", "[verbs]")
{
    Windowed opened;
    const std::uint32_t length = GENERATE(1u, 2u, 3u, 4u, 101u, 463u, 464u);
    const std::uint8_t opcode = GENERATE(std::uint8_t{RNIC_WORK_SEND}, std::uint8_t{RNIC_WORK_WRITE});
    const bool big = opened.fake.big();
    opened.put(length, opcode);
    CHECK(opened.assigns() == 1);
    REQUIRE(opened.has(0, 1));
    const std::uint8_t *const slot = opened.slot(0);
    CHECK(rnic_get16(slot + RNIC_WINDOW_LENGTH, big) == length);
    CHECK(slot[RNIC_WINDOW_OPCODE] == opcode);
    CHECK(slot[RNIC_WINDOW_FLAGS] == RNIC_WORK_FLAG_IMMEDIATE);
    CHECK(opened.field(0, RNIC_WINDOW_COOKIE) == 0);
    CHECK(opened.field(0, RNIC_WINDOW_IMMEDIATE) == 0x10203040);
    CHECK(opened.field(0, RNIC_WINDOW_REMOTE_STAG) == 0x55667788);
    CHECK(rnic_get64(slot + RNIC_WINDOW_REMOTE_ADDRESS, big) == 0x1122334455667788);
    CHECK(rnic_get64(slot + RNIC_WINDOW_LOCAL_ADDRESS, big) == opened.address);
    CHECK(opened.field(0, RNIC_WINDOW_LOCAL_STAG) == kStag);
    CHECK(opened.field(0, RNIC_WINDOW_ZERO) == 0);
    CHECK(std::memcmp(slot + RNIC_WINDOW_HEADER, opened.bytes, length) == 0);
    CHECK(opened.field(1, RNIC_WINDOW_BEGIN) == 0); // nothing beyond the slot
    const std::uint8_t *const entry = opened.entry(VIPL_RNIC_SQ, 0);
    CHECK(entry[RNIC_WQE_OPCODE] == opcode);
    CHECK(rnic_get32(entry + RNIC_WQE_LENGTH, big) == length);
    CHECK(rnic_get64(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_ADDRESS, big) == opened.address);
}

TEST_CASE("what is not for a window is in the ring alone", "[verbs]")
{
    alignas(64) static std::uint8_t device[128]; // half of it is the card's
    const std::uint32_t most = GENERATE(464u, 100u);
    Windowed opened(most, {device, 64, 0, 64});
    opened.put(0);
    opened.put(most + 1);
    opened.put(8, RNIC_WORK_READ);
    opened.put(8, RNIC_WORK_SEND, 2);
    opened.address = reinterpret_cast<std::uintptr_t>(device);
    opened.put(8);
    for (std::uint32_t i = 0; i < opened.posted; ++i) {
        CHECK(opened.has(i, 0));
        CHECK(opened.cookie(VIPL_RNIC_SQ, i) == i);
    }
    opened.must_post(VIPL_RNIC_RQ, 1, 1); // nor is a receive
    CHECK(opened.has(0, 0));
    const std::uint32_t next = opened.posted;
    opened.address += 64; // the first byte behind the card's memory
    opened.put(8);
    CHECK(opened.has(next, next + 1));
    CHECK(opened.assigns() == 1);
}

/** Memory of which nothing can be read until it is read for the first time, at whose end memory
 * begins of which nothing can be read ever. */
class Guarded {
public:
    Guarded() : page_(vipl_page_bytes()), memory_(vipl_test::map_pages(2 * page_))
    {
        std::memset(memory_, 0x5A, page_);
        vipl_test::allow(memory_, 2 * page_, vipl_test::PageAccess::none);
        current = this;
    }
    ~Guarded() { vipl_test::unmap_pages(memory_, 2 * page_); }
    Guarded(const Guarded &) = delete;
    Guarded &operator=(const Guarded &) = delete;

    std::uint64_t last(std::uint32_t bytes) const
    {
        return reinterpret_cast<std::uintptr_t>(memory_) + page_ - bytes;
    }
    const std::uint8_t *watched = nullptr;            ///< a slot
    std::uint8_t at_first_read[RNIC_WINDOW_HEADER]{}; ///< its header then
    volatile std::sig_atomic_t reads = 0;

private:
    static void on_fault(void *)
    {
        Guarded &g = *current;
        if (g.reads == 0) {
            std::memcpy(g.at_first_read, g.watched, sizeof(g.at_first_read));
        } else if (g.reads == 2) {
            std::abort(); // something else was
        }
        g.reads = g.reads + 1; // 2: what lies behind was read
        vipl_test::allow(g.memory_, g.reads == 1 ? g.page_ : 2 * g.page_, vipl_test::PageAccess::read);
    }
    static Guarded *current;
    std::size_t page_;
    void *memory_;
    const vipl_test::FaultHandler handler_{on_fault};
};
Guarded *Guarded::current = nullptr;

TEST_CASE("a slot is begun before its payload is copied, and ended afterwards", "[verbs]")
{
    Windowed opened;
    const std::uint32_t length = GENERATE(1u, 4u, 7u, 464u);
    for (std::uint32_t i = 0; i < 8; ++i) {
        opened.put(8);
    }
    opened.finish(8);
    Guarded guarded;
    guarded.watched = opened.slot(0);
    opened.address = guarded.last(length);
    opened.put(length);
    REQUIRE(guarded.reads == 1);
    const bool big = opened.fake.big();
    CHECK(rnic_get32(guarded.at_first_read + RNIC_WINDOW_BEGIN, big) == 9);
    CHECK(rnic_get32(guarded.at_first_read + RNIC_WINDOW_END, big) == 1);
    CHECK(opened.has(0, 9));
}

TEST_CASE("the processor reads no payload that may be missing", "[verbs]")
{
    Windowed opened;
    vipl_iov_safe = 1; // as with VIPL_SAFE_COPY
    opened.put(8);
    vipl_iov_safe = 0;
    CHECK(opened.has(0, 0));
    opened.put(8);
    CHECK(opened.has(1, 2));
}

TEST_CASE("a slot is stored to again when its entry is complete, and not before", "[verbs]")
{
    Windowed opened;
    for (std::uint32_t i = 0; i < 10; ++i) {
        opened.put(8);
    }
    CHECK(opened.has(0, 1));
    CHECK(opened.has(1, 2));
    CHECK(opened.has(7, 8));
    opened.finish(8);
    opened.put(8); // behind it: 11
    CHECK(opened.has(2, 11));
    CHECK(opened.has(0, 1));
    opened.finish(11);
    for (std::uint32_t i = 11; i < 18; ++i) {
        opened.put(8);
    }
    CHECK(opened.has(0, 17));
    CHECK(opened.has(1, 18));
}

TEST_CASE("an entry that passes a slot leaves no index there that a later entry could have", "[verbs]")
{
    Windowed opened;
    opened.put(8);
    opened.put(8);
    for (std::uint32_t i = 2; i < 8; ++i) {
        opened.put(500);
    }
    opened.finish(1);
    opened.put(500); // passes slot 0, whose entry is complete
    opened.put(500); // and slot 1, whose entry is not
    CHECK(opened.field(0, RNIC_WINDOW_END) == 0);
    CHECK(opened.has(1, 2));
    opened.finish(10);
    for (std::uint32_t i = 10; i < 18; ++i) {
        opened.put(500);
    }
    CHECK(opened.field(1, RNIC_WINDOW_END) == 0);
    opened.finish(18);
    for (std::uint32_t i = 18; i < 26; ++i) {
        opened.put(8);
    }
    CHECK(opened.has(0, 25));
    CHECK(opened.has(1, 26));
}

TEST_CASE("windows are used when indices begin again, but for the entry with 0 behind it", "[verbs]")
{
    Windowed opened;
    opened.put(500);
    opened.finish(1);
    vipl_rnic_queue &queue = opened.qp.queues[VIPL_RNIC_SQ];
    queue.producer = queue.consumer = 0xFFFFFFF8;
    for (std::uint32_t i = 0; i < 9; ++i) {
        opened.put(8);
    }
    CHECK(opened.has(0, 0xFFFFFFF9));
    CHECK(opened.has(6, 0xFFFFFFFF));
    CHECK(opened.has(7, 0));
    CHECK(rnic_get16(opened.slot(7) + RNIC_WINDOW_LENGTH, opened.fake.big()) == 0);
    opened.finish(1);
    opened.put(8);
    CHECK(opened.has(1, 2));
    opened.put(500);
    opened.put(500);
    CHECK(opened.field(2, RNIC_WINDOW_END) == 0);
}

TEST_CASE("a queue pair without a window posts as well", "[verbs]")
{
    Windowed opened;
    opened.assigned = {RNIC_STATUS_NO_ROOM};
    opened.put(8);
    opened.put(8);
    CHECK(opened.assigns() == 1); // it is not asked for again
    CHECK(opened.qp.window == nullptr);
    CHECK(opened.cookie(VIPL_RNIC_SQ, 1) == 1);
    CHECK_FALSE(vipl_rnic_is_dead(opened.rnic));
}

TEST_CASE("a card that numbers a window wrongly is dead", "[verbs]")
{
    Windowed opened;
    opened.assigned = {RNIC_STATUS_OK, RNIC_WINDOWS};
    opened.put(8);
    CHECK(opened.qp.window == nullptr);
    CHECK(vipl_rnic_is_dead(opened.rnic));
}

TEST_CASE("there are no windows that the driver does not want, the card does not have or no mapping reaches",
          "[verbs]")
{
    Opened unmapped(false);
    vipl_rnic_set_windows(unmapped.rnic, 464);
    CHECK(vipl_rnic_windows(unmapped.rnic) == 0);
    FakeFunction older;
    older.registers[RNIC_REG_CAPS] = 0;
    vipl_rnic *rnic = nullptr;
    REQUIRE(vipl_rnic_start(&older, &rnic) == 0);
    vipl_rnic_set_windows(rnic, 464);
    CHECK(vipl_rnic_windows(rnic) == 0);
    vipl_rnic_close(rnic);
    Windowed opened(0);
    opened.put(8);
    CHECK(opened.assigns() == 0);
    vipl_rnic_set_windows(opened.rnic, 1000);
    CHECK(vipl_rnic_windows(opened.rnic) == RNIC_WINDOW_PAYLOAD);
}
