// SPDX-License-Identifier: MIT
//
// The driver's verbs against a function that remembers what is done to it: what they write, where,
// and in which order; what they make of its answers; and what is left when something is refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>

#include "opened_function.hpp"

using namespace unit;

namespace {

constexpr unsigned kFirstEntries = 16;

constexpr std::uint32_t kSqDoorbell = RNIC_DB_QP + 300 * 64, kRqDoorbell = kSqDoorbell + 4;
constexpr std::uint32_t kQpHint = RNIC_DB_QP_HINTS + 300 / 64;

} // namespace

TEST_CASE("open_rnic resets the function, gives it its rings and this processor's byte order, and enables it",
          "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    const std::uint16_t one = 1;
    const bool big = *reinterpret_cast<const std::uint8_t *>(&one) == 0;
    CHECK(fake.resets == 1);
    CHECK(fake.registers[RNIC_REG_CTRL] ==
          (RNIC_CTRL_ENABLE | unsigned{RNIC_CTRL_QUIET} | (big ? unsigned{RNIC_CTRL_BYTE_ORDER} : 0u)));
    for (const unsigned base : {RNIC_REG_COMMAND_BASE_LO, RNIC_REG_ANSWER_BASE_LO, RNIC_REG_EVENT_BASE_LO}) {
        CHECK(fake.base(base) % 64 == 0);
        CHECK(fake.base(base) > FakeFunction::kBus);
    }
    const vipl_rnic_caps &caps = *vipl_rnic_query(opened.rnic);
    const std::uint8_t mac[6] = {0x02, 0x22, 0x33, 0x44, 0x55, 0x66};
    CHECK(std::memcmp(caps.mac, mac, 6) == 0);
    CHECK(caps.function == 3);
    CHECK(caps.ird == 8);
    CHECK(caps.ord == 4);
    CHECK(vipl_rnic_has_link(opened.rnic));
}

TEST_CASE("open_rnic refuses what is no such card, and gives everything back", "[verbs]")
{
    FakeFunction fake;
    vipl_rnic *rnic = nullptr;
    SECTION("another card")
    {
        fake.registers[RNIC_REG_ID] = 1;
    }
    SECTION("another version")
    {
        fake.registers[RNIC_REG_VERSION] = 0x20000;
    }
    SECTION("a reset that does not end")
    {
        fake.registers[RNIC_REG_STATUS] = 0;
    }
    SECTION("more queue pairs than doorbells")
    {
        fake.registers[RNIC_REG_MAX_QPS] = 65537;
    }
    SECTION("no queue pairs")
    {
        fake.registers[RNIC_REG_MAX_QPS] = 0;
    }
    SECTION("no memory")
    {
        fake.max_slabs = 0;
    }
    CHECK(vipl_rnic_start(&fake, &rnic) != 0);
    CHECK(rnic == nullptr);
    CHECK(fake.slabs == 0);
    CHECK(fake.closes == 0); // the access to the bus stays the caller's
}

TEST_CASE("a command is written whole, rung by COMMAND_PRODUCER, and the card woken if it sleeps", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    const FakeFunction::Command &create = fake.last();
    CHECK(fake.u16(create, RNIC_CMD_OPCODE) == RNIC_COMMAND_CREATE_QP);
    CHECK(fake.u16(create, RNIC_CMD_QP_REALM) == opened.pd.realm);
    CHECK(fake.u32(create, RNIC_CMD_QP_DOMAIN) == 1);
    CHECK(create[RNIC_CMD_QP_LEVEL] == RNIC_LEVEL_DELIVERY);
    CHECK(create[RNIC_CMD_QP_RIGHTS] == RNIC_RIGHT_REMOTE_READ);
    CHECK(fake.u32(create, RNIC_CMD_QP_SEND_CQ) == 7);
    CHECK(fake.u32(create, RNIC_CMD_QP_RECV_CQ) == 7);
    CHECK(fake.doorbell(RNIC_DB_COMMAND_PRODUCER) == fake.commands.size());
    CHECK(fake.wakes == 0);
    fake.set_asleep(true);
    unsigned state, error;
    CHECK(vipl_rnic_query_qp(&opened.qp, &state, &error) == 0);
    CHECK(fake.wakes == 1);
}

TEST_CASE("commands go round their ring", "[verbs]")
{
    Opened opened;
    for (unsigned i = 0; i < 100; ++i) {
        vipl_rnic_mr mr;
        std::uint8_t byte;
        REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, &byte, 1, 0, &mr) == 0);
        REQUIRE(mr.stag == 0x00010203);
        REQUIRE(vipl_rnic_free_mr(opened.rnic, &mr) == 0);
    }
    CHECK(opened.fake.maps.empty());
}

TEST_CASE("what the card refuses is an error, and leaves nothing behind", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    std::uint8_t bytes[10];
    vipl_rnic_mr mr = {};
    fake.answer = [](const FakeFunction::Command &) { return Answer{RNIC_STATUS_NO_ROOM, 5}; };
    CHECK(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, bytes, 10, 0, &mr) == ENOSPC);
    CHECK(fake.maps.empty());
    CHECK(mr.stag == 0);
    vipl_rnic_cq *cq = nullptr;
    CHECK(vipl_rnic_create_cq(opened.rnic, 4, 1, &cq) == ENOSPC);
    CHECK(cq == nullptr);
    vipl_rnic_qp qp = {};
    const vipl_rnic_qp_attributes attributes = {opened.pd, 0, 0};
    for (unsigned i = 0; i < 20; ++i) { // the room for its completions comes back each time
        CHECK(vipl_rnic_create_qp(opened.rnic, opened.cq, &attributes, &qp) == ENOSPC);
    }
    CHECK(qp.rnic == nullptr);
    const struct {
        unsigned status;
        int error;
    } table[] = {{RNIC_STATUS_INVALID, EINVAL},       {RNIC_STATUS_NO_OBJECT, ENOENT},
                 {RNIC_STATUS_WRONG_STATE, EALREADY}, {RNIC_STATUS_BUSY, EBUSY},
                 {RNIC_STATUS_IN_USE, EADDRINUSE},    {RNIC_STATUS_DMA, EFAULT}};
    for (const auto &row : table) {
        fake.answer = [&row](const FakeFunction::Command &) {
            return Answer{static_cast<std::uint16_t>(row.status)};
        };
        CHECK(vipl_rnic_listen_for(opened.rnic, 1, "abc", 3) == row.error);
    }
}

TEST_CASE("a card that does not answer within a second is reset, and dead from then on", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    fake.stuck = true;
    unsigned state, error;
    CHECK(vipl_rnic_query_qp(&opened.qp, &state, &error) == ENODEV);
    CHECK(fake.resets == 2);
    CHECK(vipl_rnic_is_dead(opened.rnic));
    fake.stuck = false;
    const std::size_t before = fake.commands.size();
    CHECK(vipl_rnic_query_qp(&opened.qp, &state, &error) == ENODEV);
    CHECK(fake.commands.size() == before);
    CHECK(fake.resets == 2);
}

TEST_CASE("a card that is pulled out is dead at once", "[verbs]")
{
    Opened opened;
    CHECK_FALSE(vipl_rnic_probe(opened.rnic));
    SECTION("the access knows it")
    {
        opened.fake.gone = true;
    }
    SECTION("its registers are all ones")
    {
        opened.fake.registers[RNIC_REG_STATUS] = 0xFFFFFFFF;
    }
    SECTION("it has stopped")
    {
        opened.fake.registers[RNIC_REG_STATUS] |= RNIC_STATUS_CATASTROPHIC;
    }
    SECTION("it has been reset")
    {
        opened.fake.registers[RNIC_REG_STATUS] &= ~std::uint32_t{RNIC_STATUS_ENABLED};
    }
    CHECK(vipl_rnic_probe(opened.rnic));
    std::uint8_t byte;
    vipl_rnic_mr mr;
    CHECK(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, &byte, 1, 0, &mr) == ENODEV);
    CHECK(opened.fake.maps.empty());
}

TEST_CASE("realms are not given twice, until they are freed", "[verbs]")
{
    Opened opened;
    std::vector<bool> seen(65536);
    seen[opened.pd.realm] = true;
    vipl_rnic_pd pd = {};
    for (unsigned i = 1; i < 65536; ++i) {
        REQUIRE(vipl_rnic_allocate_pd(opened.rnic, &pd) == 0);
        REQUIRE_FALSE(seen[pd.realm]);
        seen[pd.realm] = true;
    }
    CHECK(vipl_rnic_allocate_pd(opened.rnic, &pd) == ENOSPC);
    const vipl_rnic_pd freed = {1234, 0};
    vipl_rnic_free_pd(opened.rnic, &freed);
    REQUIRE(vipl_rnic_allocate_pd(opened.rnic, &pd) == 0);
    CHECK(pd.realm == 1234);
}

TEST_CASE("allocate_mr maps memory for what the card may do, and describes it as one range", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    std::uint8_t bytes[100];
    vipl_rnic_mr mr;
    const vipl_rnic_pd pd = {opened.pd.realm, 55};
    REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &pd, bytes, 100, RNIC_RIGHT_REMOTE_WRITE, &mr) == 0);
    CHECK(fake.maps[mr.iova].access == (RNIC_PCI_READ | RNIC_PCI_WRITE));
    CHECK(fake.u16(fake.last(), RNIC_CMD_MR_REALM) == pd.realm);
    CHECK(fake.u32(fake.last(), RNIC_CMD_MR_DOMAIN) == 55);
    CHECK(fake.last()[RNIC_CMD_MR_RIGHTS] == RNIC_RIGHT_REMOTE_WRITE);
    CHECK(fake.last()[RNIC_CMD_MR_PAGE_SHIFT] == 0);
    CHECK(fake.u32(fake.last(), RNIC_CMD_MR_PAGES) == 0);
    CHECK(fake.u64(fake.last(), RNIC_CMD_MR_VIRTUAL) == reinterpret_cast<std::uintptr_t>(bytes));
    CHECK(fake.u64(fake.last(), RNIC_CMD_MR_LENGTH) == 100);
    CHECK(fake.u64(fake.last(), RNIC_CMD_MR_IOVA) == mr.iova);
    vipl_rnic_mr fixed;
    REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &pd, bytes + 50, 10, RNIC_RIGHT_LOCAL_READ_ONLY, &fixed) == 0);
    CHECK(fake.maps[fixed.iova].access == RNIC_PCI_READ);
    REQUIRE(vipl_rnic_change_mr(opened.rnic, &mr, 56, RNIC_RIGHT_REMOTE_READ) == 0);
    CHECK(fake.u32(fake.last(), RNIC_CMD_OBJECT) == mr.stag);
    CHECK(fake.u32(fake.last(), RNIC_CMD_MR_DOMAIN) == 56);
    CHECK(fake.last()[RNIC_CMD_MR_RIGHTS] == RNIC_RIGHT_REMOTE_READ);
    fake.answer = [](const FakeFunction::Command &) { return Answer{RNIC_STATUS_NO_OBJECT}; };
    CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == ENOENT); // the card may have it still: it stays mapped
    CHECK(fake.maps.count(mr.iova) == 1);
    fake.answer = [](const FakeFunction::Command &) { return Answer{}; };
    CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == 0);
    CHECK(vipl_rnic_free_mr(opened.rnic, &fixed) == 0);
    CHECK(fake.maps.empty());
}

TEST_CASE("get_pbl puts pages together to the largest power of two", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    vipl_rnic_pbl pbl;
    const auto list = [&](std::uint64_t address, std::size_t bytes) {
        REQUIRE(vipl_rnic_get_pbl(opened.rnic, reinterpret_cast<void *>(address), bytes, &pbl) == 0);
        std::vector<std::uint64_t> out;
        for (std::size_t i = 0; i < pbl.count; ++i) {
            out.push_back(rnic_get64(FakeFunction::at(pbl.iova) + 8 * i, fake.big()));
        }
        vipl_rnic_free_pbl(opened.rnic, &pbl);
        return out;
    };
    using List = std::vector<std::uint64_t>;
    fake.page_list = {0x10000, 0x11000, 0x12000, 0x13000};
    CHECK(list(0x40000, 0x4000) == List{0x10000});
    CHECK(pbl.page_shift == 14);
    fake.page_list = {0x10000, 0x11000, 0x22000, 0x23000}; // two runs
    CHECK(list(0x40000, 0x4000) == List{0x10000, 0x22000});
    CHECK(pbl.page_shift == 13);
    fake.page_list = {0x11000, 0x22000, 0x23000}; // it begins with the second half of a larger page
    CHECK(list(0x41004, 0x2000) == List{0x10000, 0x22000});
    CHECK(pbl.page_shift == 13);
    fake.page_list = {0x10000, 0x11000}; // where it lies on the bus does not fit where it lies in the program
    CHECK(list(0x41000, 0x2000) == List{0x10000, 0x11000});
    CHECK(pbl.page_shift == 12);
    fake.page_list = {0x10000, 0x12000};
    CHECK(list(0x40000, 0x2000) == List{0x10000, 0x12000});
    CHECK(pbl.page_shift == 12);
    fake.page_list = {0x13000,
                      0x12000}; // second half of a larger page, then first half of one: it is the same one
    CHECK(list(0x41000, 0x2000) == List{0x12000, 0x12000});
    CHECK(pbl.page_shift == 13);
    fake.page_list = {0x40000000, 0x40200000};
    fake.page_bytes = 0x200000; // of 2 MiB to begin with
    CHECK(list(0x80000000, 0x400000) == List{0x40000000});
    CHECK(pbl.page_shift == 22);
    fake.page_bytes = 5000;
    CHECK(vipl_rnic_get_pbl(opened.rnic, nullptr, 10000, &pbl) == EINVAL);
}

TEST_CASE("allocate_mr gives the card the list of pages where memory is not linear", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    fake.linear = false;
    fake.page_list = {0x7000, 0x9000};
    std::vector<std::uint64_t> seen;
    fake.answer = [&](const FakeFunction::Command &c) {
        if (fake.u16(c, RNIC_CMD_OPCODE) == RNIC_COMMAND_REGISTER) {
            const std::uint8_t *list = FakeFunction::at(fake.u64(c, RNIC_CMD_MR_IOVA));
            seen = {rnic_get64(list, fake.big()), rnic_get64(list + 8, fake.big())};
        }
        return opened.obey(c);
    };
    std::uint8_t bytes[100];
    vipl_rnic_mr mr;
    REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, bytes, 100, 0, &mr) == 0);
    CHECK(seen == std::vector<std::uint64_t>{0x7000, 0x9000});
    CHECK(fake.last()[RNIC_CMD_MR_PAGE_SHIFT] == 12);
    CHECK(fake.u32(fake.last(), RNIC_CMD_MR_PAGES) == 2);
    CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == 0);
}

TEST_CASE("a queue has no ring until something is posted; then 16 entries, at their running indices",
          "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    CHECK(opened.post(VIPL_RNIC_SQ, 100) == EAGAIN);
    CHECK(opened.post(VIPL_RNIC_SQ, 100) == EAGAIN);
    CHECK(opened.rings[0] == 0);
    REQUIRE(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_SQ) == 0);
    CHECK(opened.entries[0] == kFirstEntries);
    CHECK(opened.rings[0] % 64 == 0);
    CHECK(fake.doorbell(kSqDoorbell) == 0);
    CHECK(opened.rings[1] == 0);
    REQUIRE(opened.post(VIPL_RNIC_SQ, 100, 2) == 0);
    CHECK(fake.doorbell(kSqDoorbell) == 1);
    CHECK(fake.byte(kQpHint) == 1);
    const std::uint8_t *entry = opened.entry(0, 0);
    CHECK(entry[RNIC_WQE_OPCODE] == RNIC_WORK_SEND);
    CHECK(entry[RNIC_WQE_FLAGS] == 0);
    CHECK(rnic_get16(entry + RNIC_WQE_SEGMENTS, fake.big()) == 2);
    CHECK(rnic_get32(entry + RNIC_WQE_COOKIE, fake.big()) == 100);
    CHECK(rnic_get32(entry + RNIC_WQE_LENGTH, fake.big()) == 21);
    CHECK(rnic_get64(entry + RNIC_WQE_SEGMENT1 + RNIC_SEG_ADDRESS, fake.big()) == 0x1001);
    CHECK(rnic_get32(entry + RNIC_WQE_SEGMENT1 + RNIC_SEG_LENGTH, fake.big()) == 11);
    CHECK(rnic_get32(entry + RNIC_WQE_SEGMENT1 + RNIC_SEG_STAG, fake.big()) == 0x77);
    fake.clear_hint(kQpHint);
    fake.set_asleep(true);
    REQUIRE(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_RQ) == 0); // nobody asked for it
    CHECK(opened.rings[1] == 0);
    opened.must_post(VIPL_RNIC_RQ, 1);
    CHECK(fake.doorbell(kRqDoorbell) == 1);
    CHECK(fake.byte(kQpHint) == 1);
    CHECK(fake.wakes > 0);
}

TEST_CASE("a ring that is full is doubled with its entries, up to the card's largest", "[verbs]")
{
    Opened opened;
    for (std::uint32_t i = 0; i < 10; ++i) { // so that the entries wrap around the first ring
        opened.must_post(VIPL_RNIC_RQ, i);
        opened.complete(RNIC_WORK_RECEIVE, i + 1);
        REQUIRE(opened.poll() == 1);
    }
    REQUIRE(vipl_rnic_grow_cq(opened.cq) == 0);
    opened.switch_at = opened.completed;
    std::uint32_t posted = 10;
    while (posted < 10 + kFirstEntries) {
        const int error = opened.post(VIPL_RNIC_RQ, posted);
        REQUIRE((error == 0 || vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_RQ) == 0));
        posted += error == 0 ? 1 : 0;
    }
    CHECK(opened.entries[1] == kFirstEntries);
    CHECK(opened.post(VIPL_RNIC_RQ, posted) == EAGAIN);
    const std::uint64_t first_ring = opened.rings[1];
    REQUIRE(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_RQ) == 0);
    CHECK(opened.rings[1] != first_ring);
    CHECK(opened.entries[1] == 2 * kFirstEntries);
    CHECK(opened.fake.doorbell(kRqDoorbell) == posted); // it is not moved
    for (std::uint32_t i = 10; i < posted; ++i) {
        CHECK(opened.cookie(1, i) == i);
    }
    opened.must_post(VIPL_RNIC_RQ, posted);
    CHECK(opened.cookie(1, posted) == posted);
}

TEST_CASE("the card's largest ring is full until something completes", "[verbs]")
{
    Opened opened(true, 4);
    REQUIRE(vipl_rnic_grow_cq(opened.cq) == 0);
    for (std::uint32_t i = 0; i < 16; ++i) {
        opened.must_post(VIPL_RNIC_SQ, i);
    }
    CHECK(opened.post(VIPL_RNIC_SQ, 16) == EAGAIN);
    CHECK(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_SQ) == EAGAIN);
    CHECK(opened.post(VIPL_RNIC_SQ, 16) == EAGAIN);
    opened.complete(RNIC_WORK_SEND, 1);
    REQUIRE(opened.poll() == 1);
    REQUIRE(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_SQ) == 0);
    CHECK(opened.post(VIPL_RNIC_SQ, 16) == 0);
    CHECK(opened.entries[0] == 16);
}

TEST_CASE("a ring that the card refuses leaves the old one, and posts find no room", "[verbs]")
{
    Opened opened;
    opened.refuse_rings = true;
    CHECK(opened.post(VIPL_RNIC_SQ, 1) == EAGAIN);
    CHECK(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_SQ) == ENOSPC);
    CHECK(opened.post(VIPL_RNIC_SQ, 1) == EAGAIN);
    opened.refuse_rings = false;
    REQUIRE(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_SQ) == 0);
    CHECK(opened.post(VIPL_RNIC_SQ, 1) == 0);
}

TEST_CASE("more than two segments lie in a list of their own, which is free when the entry is complete",
          "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    std::uint64_t first = 0;
    for (std::uint32_t i = 0; i < 300; ++i) {
        opened.must_post(VIPL_RNIC_SQ, i, 252);
        const std::uint8_t *entry = opened.entry(0, i);
        REQUIRE(entry[RNIC_WQE_FLAGS] == RNIC_WORK_FLAG_LIST);
        const std::uint64_t list = rnic_get64(entry + RNIC_WQE_SEGMENT0, fake.big());
        first = i == 0 ? list : first;
        REQUIRE(list == first); // the one before has come back
        REQUIRE(rnic_get64(FakeFunction::at(list) + std::size_t{251} * 16 + RNIC_SEG_ADDRESS, fake.big()) ==
                0x1000 + 251);
        opened.complete(RNIC_WORK_SEND, i + 1);
        REQUIRE(opened.poll() == 1);
    }
    CHECK(fake.slabs == 1);
}

TEST_CASE("lists move with their entries when the ring is doubled", "[verbs]")
{
    Opened opened;
    REQUIRE(vipl_rnic_grow_cq(opened.cq) == 0);
    for (std::uint32_t i = 0; i < 17; ++i) {
        opened.must_post(VIPL_RNIC_SQ, i, 3);
    }
    CHECK(opened.entries[0] == 32);
    std::vector<std::uint64_t> lists;
    for (std::uint32_t i = 0; i < 17; ++i) {
        lists.push_back(rnic_get64(opened.entry(0, i) + RNIC_WQE_SEGMENT0, opened.fake.big()));
    }
    std::sort(lists.begin(), lists.end());
    CHECK(std::adjacent_find(lists.begin(), lists.end()) == lists.end());
    opened.complete(RNIC_WORK_SEND, 17); // all at once
    CHECK(opened.poll() == 1);
    for (std::uint32_t i = 17; i < 34; ++i) {
        opened.must_post(VIPL_RNIC_SQ, i, 3);
        CHECK(std::binary_search(lists.begin(), lists.end(),
                                 rnic_get64(opened.entry(0, i) + RNIC_WQE_SEGMENT0, opened.fake.big())));
    }
}

TEST_CASE("poll_cq takes what is there, in order and once, and tells the card", "[verbs]")
{
    Opened opened;
    for (std::uint32_t i = 0; i < 3; ++i) {
        opened.must_post(VIPL_RNIC_SQ, i);
    }
    CHECK(opened.poll() == 0);
    for (std::uint32_t i = 0; i < 3; ++i) {
        opened.complete(RNIC_WORK_SEND, i + 1);
    }
    REQUIRE(opened.poll(2) == 2);
    CHECK(opened.taken[1].qp == 300);
    CHECK(opened.taken[1].cookie == 9);
    CHECK(opened.taken[1].length == 8);
    CHECK(opened.taken[1].immediate == 7);
    CHECK(opened.taken[1].opcode == RNIC_WORK_SEND);
    CHECK(opened.taken[1].flags == RNIC_CQE_FLAG_IMMEDIATE);
    CHECK(opened.taken[1].status == RNIC_STATUS_REMOTE_RECEIVE);
    CHECK(opened.taken[1].index == 2);
    CHECK(opened.fake.doorbell(RNIC_DB_CQ + 7 * 64) == 2);
    CHECK(opened.poll() == 1);
    CHECK(opened.poll() == 0);
}

TEST_CASE("arm_cq tells what has been taken, and counts", "[verbs]")
{
    Opened opened;
    opened.must_post(VIPL_RNIC_SQ, 0);
    opened.complete(RNIC_WORK_SEND, 1);
    REQUIRE(opened.poll() == 1);
    opened.fake.clear_hint(RNIC_DB_CQ_HINTS);
    vipl_rnic_arm_cq(opened.cq);
    CHECK(opened.fake.doorbell(RNIC_DB_CQ + 7 * 64) == 1);
    CHECK(opened.fake.doorbell(RNIC_DB_CQ + 7 * 64 + RNIC_CQDB_ARM) == 1);
    CHECK(opened.fake.byte(RNIC_DB_CQ_HINTS) == 1);
    opened.fake.set_asleep(true);
    const unsigned before = opened.fake.wakes;
    vipl_rnic_arm_cq(opened.cq);
    CHECK(opened.fake.doorbell(RNIC_DB_CQ + 7 * 64 + RNIC_CQDB_ARM) == 2);
    CHECK(opened.fake.wakes == before + 1);
}

TEST_CASE("the card has no more entries than there is room for completions, which grows", "[verbs]")
{
    Opened opened;
    const unsigned room = 16 - 2; // of the queue pair itself
    for (std::uint32_t i = 0; i < room; ++i) {
        opened.must_post(VIPL_RNIC_SQ, i);
    }
    CHECK(opened.post(VIPL_RNIC_SQ, room) == EAGAIN);
    CHECK(opened.fake.doorbell(kSqDoorbell) == room);
    const std::uint64_t old_ring = opened.cq_ring;
    opened.complete(RNIC_WORK_SEND, 1);
    opened.complete(RNIC_WORK_SEND, 2);
    opened.switch_at = 3; // the card writes one more into the old ring
    REQUIRE(vipl_rnic_grow_queue(&opened.qp, VIPL_RNIC_SQ) == 0);
    CHECK(opened.cq_log2 == 5);
    CHECK(opened.post(VIPL_RNIC_SQ, room) == 0);
    const std::uint64_t new_ring = opened.cq_ring;
    opened.cq_ring = old_ring;
    opened.cq_log2 = 4;
    opened.complete(RNIC_WORK_SEND, 3);
    opened.cq_ring = new_ring;
    opened.cq_log2 = 5;
    CHECK(vipl_rnic_grow_cq(opened.cq) == EAGAIN); // it is not through with the old ring
    CHECK(opened.poll() == 3);
    CHECK(opened.poll() == 0);
    opened.complete(RNIC_WORK_SEND, 4);
    CHECK(opened.poll() == 1);
    opened.switch_at = 4;
    CHECK(vipl_rnic_grow_cq(opened.cq) == 0);
}

TEST_CASE("a resized completion queue does not take what was in its memory before for entries", "[verbs]")
{
    Opened opened;
    for (std::uint32_t round = 0; round < 40; ++round) {
        opened.must_post(VIPL_RNIC_SQ, round);
        opened.complete(RNIC_WORK_SEND, round + 1);
        REQUIRE(opened.poll() == 1);
    }
    opened.switch_at = 40;
    REQUIRE(vipl_rnic_grow_cq(opened.cq) == 0);
    CHECK(opened.poll() == 0);
    const std::uint8_t *ring = FakeFunction::at(opened.cq_ring);
    for (unsigned i = 0; i < 32; ++i) {
        CHECK(rnic_get32(ring + i * std::size_t{32} + RNIC_CQE_OWNER, opened.fake.big()) == 40);
    }
}

TEST_CASE("a card that completes what was not posted is dead", "[verbs]")
{
    Opened opened;
    opened.must_post(VIPL_RNIC_SQ, 0);
    const std::uint32_t index = GENERATE(0u, 2u, 0xFFFFFFFFu);
    opened.complete(RNIC_WORK_SEND, index);
    vipl_rnic_completion taken;
    REQUIRE(vipl_rnic_poll_cq(opened.cq, &taken, 1) == 1);
    CHECK_FALSE(vipl_rnic_retire(&opened.qp, &taken));
    CHECK(vipl_rnic_is_dead(opened.rnic));
}

TEST_CASE("modify_qp names the peer", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    const vipl_rnic_qp_connection connection = {{{1, 2, 3, 4, 5, 6}, 77, 88}, 3, 4, 5000};
    REQUIRE(vipl_rnic_modify_qp(&opened.qp, RNIC_QP_STATE_RECEIVE, &connection) == 0);
    CHECK(fake.u16(fake.last(), RNIC_CMD_OPCODE) == RNIC_COMMAND_MODIFY_QP);
    CHECK(fake.u32(fake.last(), RNIC_CMD_OBJECT) == 300);
    CHECK(fake.last()[RNIC_CMD_QP_STATE] == RNIC_QP_STATE_RECEIVE);
    CHECK(fake.last()[RNIC_CMD_QP_CHANGE] == 0);
    CHECK(fake.last()[RNIC_CMD_QP_IRD] == 3);
    CHECK(fake.last()[RNIC_CMD_QP_ORD] == 4);
    CHECK(std::memcmp(fake.last().data() + RNIC_CMD_QP_PEER_MAC, connection.peer.mac, 6) == 0);
    CHECK(fake.u16(fake.last(), RNIC_CMD_QP_PEER_FUNCTION) == 77);
    CHECK(fake.u32(fake.last(), RNIC_CMD_QP_PEER_QP) == 88);
    CHECK(fake.u32(fake.last(), RNIC_CMD_QP_MAX_MESSAGE) == 5000);
    const vipl_rnic_qp_attributes attributes = {{opened.pd.realm, 9}, RNIC_LEVEL_RECEPTION, 3};
    REQUIRE(vipl_rnic_set_qp(&opened.qp, &attributes) == 0);
    CHECK(fake.last()[RNIC_CMD_QP_STATE] == RNIC_QP_STATE_KEEP);
    CHECK(fake.last()[RNIC_CMD_QP_CHANGE] == 7);
    CHECK(fake.last()[RNIC_CMD_QP_LEVEL] == RNIC_LEVEL_RECEPTION);
    CHECK(fake.u32(fake.last(), RNIC_CMD_QP_DOMAIN) == 9);
}

TEST_CASE("a renewed queue pair has lost what was posted, and its room is there again", "[verbs]")
{
    Opened opened;
    for (unsigned round = 0; round < 10; ++round) {
        for (std::uint32_t i = 0; i < 7; ++i) {
            opened.must_post(VIPL_RNIC_SQ, i, 3);
            opened.must_post(VIPL_RNIC_RQ, i, 3);
        }
        REQUIRE(vipl_rnic_renew_qp(&opened.qp) == 0);
        CHECK(opened.fake.last()[RNIC_CMD_QP_STATE] == RNIC_QP_STATE_IDLE);
        CHECK(opened.fake.doorbell(kSqDoorbell) == 7 * (round + 1));
    }
}

TEST_CASE("events are taken once, in order, and their places given back", "[verbs]")
{
    Opened opened;
    vipl_rnic_event event;
    CHECK_FALSE(vipl_rnic_next_event(opened.rnic, &event));
    for (std::uint16_t i = 0; i < 600; ++i) { // the ring has 256
        opened.fake.event(RNIC_EVENT_QP_ERROR, i, 1000u + i);
        if (i % 2 == 1) {
            REQUIRE(vipl_rnic_next_event(opened.rnic, &event));
            CHECK(event.code == i - 1);
            REQUIRE(vipl_rnic_next_event(opened.rnic, &event));
            CHECK(event.kind == RNIC_EVENT_QP_ERROR);
            CHECK(event.object == 1000u + i);
            CHECK_FALSE(vipl_rnic_next_event(opened.rnic, &event));
            CHECK(opened.fake.doorbell(RNIC_DB_EVENT_CONSUMER) == i + 1u);
        }
    }
}

TEST_CASE("a message longer than any is none", "[verbs]")
{
    Opened opened;
    vipl_rnic_event event;
    opened.fake.event(RNIC_EVENT_CONTROL, 0, 4, std::vector<std::uint8_t>(464, 7));
    REQUIRE(vipl_rnic_next_event(opened.rnic, &event));
    CHECK(event.length == 464);
    CHECK(event.message[463] == 7);
    opened.fake.event(RNIC_EVENT_CONTROL, 0, 4, std::vector<std::uint8_t>(465, 7));
    REQUIRE(vipl_rnic_next_event(opened.rnic, &event));
    CHECK(event.length == 0);
}

TEST_CASE("control messages and discriminators are where the command says", "[verbs]")
{
    Opened opened;
    FakeFunction &fake = opened.fake;
    const std::uint8_t mac[6] = {9, 8, 7, 6, 5, 4};
    const std::uint8_t message[20] = {RNIC_CONTROL_REQUEST, 0, 0, 4};
    REQUIRE(vipl_rnic_send_control(opened.rnic, mac, RNIC_FUNCTION_ADAPTER, message, 20) == 0);
    CHECK(fake.u16(fake.last(), RNIC_CMD_CONTROL_LENGTH) == 20);
    CHECK(fake.u16(fake.last(), RNIC_CMD_CONTROL_PEER_FUNCTION) == RNIC_FUNCTION_ADAPTER);
    CHECK(std::memcmp(fake.last().data() + RNIC_CMD_CONTROL_PEER_MAC, mac, 6) == 0);
    CHECK(std::memcmp(FakeFunction::at(fake.u64(fake.last(), RNIC_CMD_CONTROL_ADDRESS)), message, 20) == 0);
    const std::size_t sent = fake.commands.size();
    CHECK(vipl_rnic_send_control(opened.rnic, mac, 1, message, 465) == EINVAL);
    CHECK(vipl_rnic_listen_for(opened.rnic, 1, message, 65) == EINVAL);
    CHECK(fake.commands.size() == sent);
    REQUIRE(vipl_rnic_listen_for(opened.rnic, 99, "name", 4) == 0);
    CHECK(fake.u16(fake.last(), RNIC_CMD_OPCODE) == RNIC_COMMAND_LISTEN);
    CHECK(fake.u32(fake.last(), RNIC_CMD_OBJECT) == 99);
    CHECK(fake.u16(fake.last(), RNIC_CMD_LISTEN_LENGTH) == 4);
    CHECK(std::memcmp(FakeFunction::at(fake.u64(fake.last(), RNIC_CMD_LISTEN_ADDRESS)), "name", 4) == 0);
    REQUIRE(vipl_rnic_listen_end(opened.rnic, 99, "name", 4) == 0);
    CHECK(fake.u16(fake.last(), RNIC_CMD_OPCODE) == RNIC_COMMAND_UNLISTEN);
}

TEST_CASE("hold_rq tells that receives are held back", "[verbs]")
{
    Opened opened;
    vipl_rnic_hold_rq(&opened.qp, true);
    CHECK(opened.fake.doorbell(kSqDoorbell + RNIC_QPDB_RQ_HELD) == 1);
    CHECK(opened.fake.byte(kQpHint) == 1);
    vipl_rnic_hold_rq(&opened.qp, false);
    CHECK(opened.fake.doorbell(kSqDoorbell + RNIC_QPDB_RQ_HELD) == 0);
}

TEST_CASE("doorbells that cannot be mapped are written as registers", "[verbs]")
{
    Opened opened(false);
    opened.must_post(VIPL_RNIC_SQ, 5);
    CHECK(opened.fake.doorbell(kSqDoorbell) == 1);
    CHECK(opened.fake.byte(kQpHint) == 0); // implied
    CHECK(opened.fake.wakes == 0);
    vipl_rnic_arm_cq(opened.cq);
    CHECK(opened.fake.doorbell(RNIC_DB_CQ + 7 * 64 + RNIC_CQDB_ARM) == 1);
}
