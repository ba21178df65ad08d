// SPDX-License-Identifier: MIT
//
// Commands: what they make, and what each refuses without changing anything.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

unsigned status_of(Driver &driver, Bytes entry)
{
    return driver.execute(entry).status;
}

Bytes with16(Driver &driver, Bytes entry, unsigned at, unsigned value)
{
    rnic_put16(&entry[at], static_cast<std::uint16_t>(value), driver.big);
    return entry;
}
Bytes with32(Driver &driver, Bytes entry, unsigned at, std::uint32_t value)
{
    rnic_put32(&entry[at], value, driver.big);
    return entry;
}
Bytes with64(Driver &driver, Bytes entry, unsigned at, std::uint64_t value)
{
    rnic_put64(&entry[at], value, driver.big);
    return entry;
}
Bytes with8(Bytes entry, unsigned at, unsigned value)
{
    entry[at] = static_cast<std::uint8_t>(value);
    return entry;
}

/** The registers that say how much of the card is in use. */
std::vector<std::uint32_t> used(Driver &driver)
{
    return {driver.host.reg(driver.fn, RNIC_REG_QPS_USED), driver.host.reg(driver.fn, RNIC_REG_CQS_USED),
            driver.host.reg(driver.fn, RNIC_REG_STAGS_USED), driver.host.reg(driver.fn, RNIC_REG_PBL_USED)};
}

} // namespace

TEST_CASE("commands are answered in their order, in either byte order", "[card]")
{
    const bool big = GENERATE(false, true);
    Host host;
    Driver driver(host, 2, big);
    driver.enable();
    for (unsigned round = 0; round < 5; ++round) {
        for (unsigned i = 0; i < 16; ++i) {
            driver.post_command(driver.command(i == 7 ? 999 : RNIC_COMMAND_NOP, 100 + i));
        }
        host.run();
        for (unsigned i = 0; i < 16; ++i) {
            Completion answer;
            REQUIRE(driver.answered(&answer));
            CHECK(answer.qp == 100 + i);
            CHECK(answer.cookie == 0xC0000000u + 16 * round + i);
            CHECK(answer.status == (i == 7 ? 16 : 0));
        }
    }
    CHECK(host.reg(2, RNIC_REG_COMMANDS_LO) == 80);
    CHECK(host.interrupts[2][0] == 80);
}

TEST_CASE("a completion queue", "[card]")
{
    const bool big = GENERATE(false, true);
    Host host;
    Driver driver(host, 0, big);
    driver.enable();
    const std::uint64_t base = driver.allocate(4096);
    CHECK(driver.try_create_cq(1, 1, base).status == RNIC_STATUS_INVALID);
    CHECK(driver.try_create_cq(21, 1, base).status == RNIC_STATUS_INVALID);
    CHECK(driver.try_create_cq(4, 0, base).status == RNIC_STATUS_INVALID);
    CHECK(driver.try_create_cq(4, 16, base).status == RNIC_STATUS_INVALID);
    CHECK(driver.try_create_cq(4, 1, base + 32).status == RNIC_STATUS_INVALID);
    CHECK(used(driver) == std::vector<std::uint32_t>{0, 0, 0, 0});
    const std::uint32_t cq = driver.create_cq(4, 15);
    CHECK(used(driver) == std::vector<std::uint32_t>{0, 1, 0, 0});
    Bytes resize = driver.command(RNIC_COMMAND_RESIZE_CQ, cq);
    resize = with16(driver, resize, RNIC_CMD_CQ_VECTOR, 1);
    resize = with64(driver, resize, RNIC_CMD_CQ_BASE, base);
    CHECK(status_of(driver, with16(driver, resize, RNIC_CMD_CQ_LOG2, 3)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with16(driver, with32(driver, resize, RNIC_CMD_OBJECT, cq + 1), RNIC_CMD_CQ_LOG2,
                                   5)) == RNIC_STATUS_NO_OBJECT);
    CHECK(status_of(driver, with16(driver, resize, RNIC_CMD_CQ_LOG2, 5)) == RNIC_STATUS_OK);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_CQ, cq + 1).status == RNIC_STATUS_NO_OBJECT);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_CQ, 0xFFFFFFFF).status == RNIC_STATUS_NO_OBJECT);
    const std::uint32_t qp = driver.create_qp(1, cq, cq);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_CQ, cq).status == RNIC_STATUS_BUSY);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_QP, qp).status == RNIC_STATUS_OK);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_CQ, cq).status == RNIC_STATUS_OK);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_CQ, cq).status == RNIC_STATUS_NO_OBJECT);
    CHECK(used(driver) == std::vector<std::uint32_t>{0, 0, 0, 0});
}

TEST_CASE("another function's objects are not there", "[card]")
{
    Two two;
    Driver &b = two.b;
    const std::uint32_t qp = two.pair->qp_a, cq = two.pair->cq_a;
    CHECK(b.simple(RNIC_COMMAND_DESTROY_CQ, cq).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_RESIZE_CQ, cq).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_DESTROY_QP, qp).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_QUERY_QP, qp).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_MODIFY_QP, qp).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_SET_RING, qp).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_INVALIDATE, two.tag_a).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.simple(RNIC_COMMAND_CHANGE_MR, two.tag_a).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.try_create_qp(1, cq, two.pair->cq_b).status == RNIC_STATUS_NO_OBJECT);
    CHECK(b.try_create_qp(1, two.pair->cq_b, cq).status == RNIC_STATUS_NO_OBJECT);
    Work work = two.receive(100, 1);
    work.segments[0] = two.in_a(0, 100); // a's memory in b's receive
    two.post_b(work);
    two.post_a(two.send(10));
    CHECK(two.next_b().status == RNIC_STATUS_LOCAL_PROTECTION);
}

TEST_CASE("a queue pair's commands refuse what is not allowed", "[card]")
{
    Host host;
    Driver driver(host, 0);
    driver.enable();
    const std::uint32_t cq = driver.create_cq();
    CHECK(driver.try_create_qp(3, cq, cq).status == RNIC_STATUS_INVALID);
    CHECK(driver.try_create_qp(1, cq, cq, 4).status == RNIC_STATUS_INVALID);
    const std::uint32_t qp = driver.try_create_qp(1, cq, cq).info;
    Bytes ring = driver.command(RNIC_COMMAND_SET_RING, qp);
    ring = with64(driver, ring, RNIC_CMD_RING_BASE, driver.allocate(1 << 16));
    ring = with16(driver, ring, RNIC_CMD_RING_LOG2, 4);
    CHECK(status_of(driver, with16(driver, ring, RNIC_CMD_OBJECT_KIND, 2)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with16(driver, ring, RNIC_CMD_RING_LOG2, 1)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with16(driver, ring, RNIC_CMD_RING_LOG2, 17)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with64(driver, ring, RNIC_CMD_RING_BASE, 32)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, ring) == RNIC_STATUS_OK);
    CHECK(status_of(driver, with16(driver, ring, RNIC_CMD_RING_LOG2, 3)) == RNIC_STATUS_INVALID);

    Bytes modify = driver.command(RNIC_COMMAND_MODIFY_QP, qp);
    modify[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_RECEIVE;
    CHECK(status_of(driver, with8(modify, RNIC_CMD_QP_STATE, 5)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with8(modify, RNIC_CMD_QP_CHANGE, 8)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with8(modify, RNIC_CMD_QP_IRD, 9)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with8(modify, RNIC_CMD_QP_ORD, 9)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with32(driver, modify, RNIC_CMD_QP_PEER_QP, 65536)) == RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with16(driver, modify, RNIC_CMD_QP_PEER_FUNCTION, 0xFFFF)) ==
          RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with32(driver, modify, RNIC_CMD_QP_MAX_MESSAGE, 0x40000001)) ==
          RNIC_STATUS_INVALID);
    CHECK(status_of(driver, with8(modify, RNIC_CMD_QP_STATE, RNIC_QP_STATE_CLOSING)) ==
          RNIC_STATUS_WRONG_STATE);
    CHECK(status_of(driver, with8(modify, RNIC_CMD_QP_STATE, RNIC_QP_STATE_IDLE)) == RNIC_STATUS_WRONG_STATE);
    Bytes change = with8(modify, RNIC_CMD_QP_STATE, RNIC_QP_STATE_CLOSING);
    change = with8(with8(change, RNIC_CMD_QP_CHANGE, 7), RNIC_CMD_QP_LEVEL, 2);
    CHECK(status_of(driver, change) == RNIC_STATUS_WRONG_STATE);
    CHECK(driver.simple(RNIC_COMMAND_QUERY_QP, qp).info == RNIC_QP_STATE_IDLE);
    CHECK(status_of(driver, modify) == RNIC_STATUS_OK);
    CHECK(status_of(driver, with8(with8(modify, RNIC_CMD_QP_STATE, 255), RNIC_CMD_QP_CHANGE, 4)) ==
          RNIC_STATUS_INVALID); // the level, when the peer is known
    CHECK(status_of(driver, modify) == RNIC_STATUS_WRONG_STATE);
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_QP, qp).status == RNIC_STATUS_BUSY);
}

TEST_CASE("registering refuses what cannot be memory", "[card]")
{
    Host host;
    Driver driver(host, 0);
    driver.enable();
    const std::uint64_t base = driver.allocate(8192);
    CHECK(driver.register_linear(base, 0, base).status == RNIC_STATUS_INVALID);
    CHECK(driver.register_linear(base, 10, base, 3, 1, 0).status == RNIC_STATUS_INVALID);
    CHECK(driver.register_linear(base, 10, base, 4).status == RNIC_STATUS_INVALID);
    CHECK(driver.register_linear(UINT64_MAX - 5, 10, base).status == RNIC_STATUS_INVALID);
    CHECK(driver.register_linear(base, 10, UINT64_MAX - 5).status == RNIC_STATUS_INVALID);
    CHECK(used(driver) == std::vector<std::uint32_t>{0, 0, 0, 0});
    const Completion good = driver.register_linear(base, 10, base);
    CHECK(good.status == RNIC_STATUS_OK);
    CHECK(used(driver) == std::vector<std::uint32_t>{0, 0, 1, 0});
    CHECK(driver.simple(RNIC_COMMAND_INVALIDATE, good.info ^ 1).status == RNIC_STATUS_NO_OBJECT);
    CHECK(driver.simple(RNIC_COMMAND_INVALIDATE, good.info ^ 0x100).status == RNIC_STATUS_NO_OBJECT);
    CHECK(driver.simple(RNIC_COMMAND_INVALIDATE, good.info).status == RNIC_STATUS_OK);
    CHECK(driver.simple(RNIC_COMMAND_INVALIDATE, good.info).status == RNIC_STATUS_NO_OBJECT);
    CHECK(used(driver) == std::vector<std::uint32_t>{0, 0, 0, 0});
}

TEST_CASE("a tag is never used twice in 256 lives of its index, nor is it 0 or all ones", "[card]")
{
    rnic_card_config config = small_config();
    config.stags = 1;
    config.seed = GENERATE(1u, 2u, 3u);
    Host host(config);
    Driver driver(host, 0);
    driver.enable();
    const std::uint64_t base = driver.allocate(8192);
    std::uint32_t before = 0;
    unsigned same = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        const std::uint32_t tag = driver.register_linear(base, 10, base).info;
        REQUIRE(tag != 0);
        REQUIRE(tag != 0xFFFFFFFF);
        REQUIRE(tag >> 16 == 0);
        REQUIRE((tag >> 8) == ((before >> 8) + 1) % 256);
        same += (tag & 255) == (before & 255);
        CHECK(driver.register_linear(base, 10, base).status == RNIC_STATUS_NO_ROOM);
        REQUIRE(driver.simple(RNIC_COMMAND_INVALIDATE, tag).status == RNIC_STATUS_OK);
        before = tag;
    }
    CHECK(same < 30);
}

TEST_CASE("freed numbers are used again oldest first", "[card]")
{
    rnic_card_config config = small_config();
    config.cqs = 4;
    Host host(config);
    Driver driver(host, 0);
    driver.enable();
    std::uint32_t cqs[4];
    for (std::uint32_t &cq : cqs) {
        cq = driver.create_cq(2);
    }
    CHECK(driver.try_create_cq(2, 1, 4096).status == RNIC_STATUS_NO_ROOM);
    for (const unsigned i : {2u, 0u, 3u}) {
        REQUIRE(driver.simple(RNIC_COMMAND_DESTROY_CQ, cqs[i]).status == RNIC_STATUS_OK);
    }
    CHECK(driver.create_cq(2) == cqs[2]);
    CHECK(driver.create_cq(2) == cqs[0]);
    CHECK(driver.create_cq(2) == cqs[3]);
}

TEST_CASE("memory in pages is read and written page by page", "[card]")
{
    const bool big_b = GENERATE(false, true);
    Setup setup;
    setup.big_b = big_b;
    Two two(setup);
    Driver &b = two.b;
    constexpr unsigned kPages = 5;
    const std::uint64_t pages = b.allocate(16 * 4096, 4096);
    const std::uint64_t list = b.allocate(8 * kPages);
    const unsigned order[kPages] = {7, 2, 9, 8, 0};
    for (unsigned i = 0; i < kPages; ++i) {
        rnic_put64(b.at(list + 8 * i), pages + 4096 * order[i], big_b);
    }
    const std::uint64_t address = 0x7000000000000000 + 100; // an address that is nowhere on the bus
    Bytes entry = b.command(RNIC_COMMAND_REGISTER);
    entry = with16(b, entry, RNIC_CMD_MR_REALM, 1);
    entry[RNIC_CMD_MR_RIGHTS] = 3;
    entry[RNIC_CMD_MR_PAGE_SHIFT] = 12;
    entry = with32(b, entry, RNIC_CMD_MR_DOMAIN, 1);
    entry = with32(b, entry, RNIC_CMD_MR_PAGES, kPages);
    entry = with64(b, entry, RNIC_CMD_MR_VIRTUAL, address);
    entry = with64(b, entry, RNIC_CMD_MR_LENGTH, 4096 * 4 + 2000);
    entry = with64(b, entry, RNIC_CMD_MR_IOVA, list);
    CHECK(status_of(b, with32(b, entry, RNIC_CMD_MR_PAGES, 4)) == RNIC_STATUS_INVALID);
    CHECK(status_of(b, with32(b, entry, RNIC_CMD_MR_PAGES, 6)) == RNIC_STATUS_INVALID);
    CHECK(status_of(b, with8(entry, RNIC_CMD_MR_PAGE_SHIFT, 11)) == RNIC_STATUS_INVALID);
    CHECK(status_of(b, with8(entry, RNIC_CMD_MR_PAGE_SHIFT, 31)) == RNIC_STATUS_INVALID);
    rnic_put64(b.at(list + 16), pages + 2048, big_b); // no page's address
    CHECK(status_of(b, entry) == RNIC_STATUS_INVALID);
    rnic_put64(b.at(list + 16), pages + 4096 * order[2], big_b);
    CHECK(status_of(b, with64(b, entry, RNIC_CMD_MR_IOVA, Host::kMemory)) == RNIC_STATUS_DMA);
    CHECK(used(b) == std::vector<std::uint32_t>{1, 1, 1, 0});
    const Completion tag = b.execute(entry);
    REQUIRE(tag.status == RNIC_STATUS_OK);
    CHECK(used(b) == std::vector<std::uint32_t>{1, 1, 2, 8});

    Work work = two.write(15000);
    work.remote_stag = tag.info;
    work.remote_address = address + 700;
    two.post_a(work);
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    unsigned wrong = 0;
    for (unsigned i = 0; i < 15000; ++i) {
        const unsigned at = 800 + i;
        wrong += *b.at(pages + 4096 * order[at / 4096] + at % 4096) != *two.a.at(two.mem_a + i);
    }
    CHECK(wrong == 0);
    work = two.read(15000);
    work.segments = {two.in_a(20000, 15000)};
    work.remote_stag = tag.info;
    work.remote_address = address + 700;
    two.post_a(work);
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    CHECK(std::memcmp(two.a.at(two.mem_a), two.a.at(two.mem_a + 20000), 15000) == 0);
    CHECK(b.simple(RNIC_COMMAND_INVALIDATE, tag.info).status == RNIC_STATUS_OK);
    CHECK(used(b) == std::vector<std::uint32_t>{1, 1, 1, 0});
}

TEST_CASE("the list table is given back whole, in whatever order", "[card]")
{
    rnic_card_config config = small_config();
    config.pbl_entries = 1000;
    Host host(config);
    Driver driver(host, 0);
    driver.enable();
    const std::uint64_t list = driver.allocate(8 * 1024); // all pages at 0, which nobody touches
    const auto make = [&](std::uint32_t pages) {
        Bytes entry = driver.command(RNIC_COMMAND_REGISTER);
        entry[RNIC_CMD_MR_PAGE_SHIFT] = 12;
        entry = with32(driver, entry, RNIC_CMD_MR_DOMAIN, 1);
        entry = with32(driver, entry, RNIC_CMD_MR_PAGES, pages);
        entry = with64(driver, entry, RNIC_CMD_MR_LENGTH, 4096ull * pages);
        return driver.execute(with64(driver, entry, RNIC_CMD_MR_IOVA, list));
    };
    std::uint32_t seed = 5;
    for (unsigned round = 0; round < 5; ++round) {
        std::vector<std::uint32_t> tags;
        for (;;) {
            seed = seed * 1103515245 + 12345;
            const Completion answer = make(1 + (seed >> 16) % 100);
            if (answer.status != RNIC_STATUS_OK) {
                REQUIRE(answer.status == RNIC_STATUS_NO_ROOM);
                break;
            }
            tags.push_back(answer.info);
        }
        CHECK(host.reg(0, RNIC_REG_PBL_USED) > 500);
        while (!tags.empty()) {
            seed = seed * 1103515245 + 12345;
            const std::size_t i = (seed >> 16) % tags.size();
            REQUIRE(driver.simple(RNIC_COMMAND_INVALIDATE, tags[i]).status == RNIC_STATUS_OK);
            tags.erase(tags.begin() + static_cast<std::ptrdiff_t>(i));
        }
        CHECK(host.reg(0, RNIC_REG_PBL_USED) == 0);
        const Completion largest = make(512);
        REQUIRE(largest.status == RNIC_STATUS_OK);
        CHECK(make(512).status == RNIC_STATUS_NO_ROOM);
        REQUIRE(driver.simple(RNIC_COMMAND_INVALIDATE, largest.info).status == RNIC_STATUS_OK);
    }
}

TEST_CASE("other rights of a tag take effect at once", "[card]")
{
    Two two;
    Bytes change = two.b.command(RNIC_COMMAND_CHANGE_MR, two.tag_b);
    change[RNIC_CMD_MR_RIGHTS] = RNIC_RIGHT_REMOTE_READ;
    CHECK(status_of(two.b, change) == RNIC_STATUS_INVALID); // domain 0
    change = with32(two.b, change, RNIC_CMD_MR_DOMAIN, 1);
    CHECK(status_of(two.b, with8(change, RNIC_CMD_MR_RIGHTS, 4)) == RNIC_STATUS_INVALID);
    two.post_a(two.write(8));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(status_of(two.b, change) == RNIC_STATUS_OK);
    two.post_a(two.read(8));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    two.post_a(two.write(8));
    CHECK(two.next_a().status == RNIC_STATUS_REMOTE_ACCESS);
}

TEST_CASE("a resized completion queue goes on where its answer says", "[card]")
{
    Two two;
    two.a.cqs.clear();
    const std::uint32_t cq = two.a.create_cq(2);
    const std::uint32_t qp = two.a.create_qp(1, cq, cq),
                        peer = two.b.create_qp(1, two.pair->cq_b, two.pair->cq_b);
    REQUIRE(two.b.modify(peer, towards(two.a, qp)).status == RNIC_STATUS_OK);
    REQUIRE(two.a.modify(qp, towards(two.b, peer)).status == RNIC_STATUS_OK);
    Completion got;
    std::uint32_t expected = 0;
    for (unsigned i = 0; i < 9; ++i) { // the ring is not at its beginning
        two.a.post(qp, two.write(8, 0, i));
        two.host.run_for(1000000);
        REQUIRE(two.a.poll(cq, &got));
        CHECK(got.cookie == expected++);
    }
    two.a.post(qp, two.write(8, 0, 9));
    two.a.post(qp, two.write(8, 0, 10));
    two.host.run_for(1000000);
    const std::uint64_t base = two.a.allocate(RNIC_COMPLETION_BYTES << 4);
    for (unsigned i = 0; i < 16; ++i) {
        rnic_put32(two.a.at(base + i * RNIC_COMPLETION_BYTES + RNIC_CQE_OWNER), two.a.cqs[cq].index, false);
    }
    Bytes resize = two.a.command(RNIC_COMMAND_RESIZE_CQ, cq);
    resize = with16(two.a, resize, RNIC_CMD_CQ_LOG2, 4);
    resize = with16(two.a, resize, RNIC_CMD_CQ_VECTOR, 1);
    const Completion answer = two.a.execute(with64(two.a, resize, RNIC_CMD_CQ_BASE, base));
    REQUIRE(answer.status == RNIC_STATUS_OK);
    CHECK(answer.info == 11);
    REQUIRE(two.a.poll(cq, &got));
    CHECK(got.cookie == 9);
    REQUIRE(two.a.poll(cq, &got));
    CHECK(got.cookie == 10);
    two.a.cqs[cq].base = base;
    two.a.cqs[cq].log2 = 4;
    for (unsigned i = 11; i < 23; ++i) {
        two.a.post(qp, two.write(8, 0, i));
    }
    two.host.run_for(1000000);
    for (unsigned i = 11; i < 23; ++i) {
        REQUIRE(two.a.poll(cq, &got));
        CHECK(got.cookie == i);
    }
}
