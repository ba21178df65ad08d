// SPDX-License-Identifier: MIT
//
// Resets and catastrophes: what ends, and that nobody else notices more than that.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

void reset(Host &host, unsigned fn, unsigned how)
{
    if (how == 0) {
        host.set_reg(fn, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    } else if (how == 1) {
        rnic_card_config_write(&host.card, fn, 0x68, 2, 0x8000);
    } else {
        rnic_card_detach(&host.card, fn);
    }
}

/** Begins again after a reset, as a new driver does. */
void begin_again(Host &host, Driver &driver)
{
    rnic_card_attach(&host.card, driver.fn, host.bar2(driver.fn), host.bar4(driver.fn));
    driver.commands.index = driver.answers.index = driver.events.index = 0;
    std::memset(driver.at(driver.answers.base), 0, RNIC_COMPLETION_BYTES << driver.answers.log2);
    std::memset(driver.at(driver.events.base), 0, RNIC_EVENT_BYTES << driver.events.log2);
    driver.qps.clear();
    driver.cqs.clear();
    driver.arms.clear();
    driver.enable();
}

} // namespace

TEST_CASE("a reset ends everything of its function, and its peers hear of it", "[card]")
{
    const unsigned how = GENERATE(0u, 1u, 2u);
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    setup.level = GENERATE(0u, 2u);
    const unsigned phase = GENERATE(0u, 1u, 2u, 3u, 4u);
    Two two(setup);
    Host &host_b = two.other ? *two.other : two.host;
    REQUIRE(two.b.listen("d", 1).status == 0);
    two.post_a(two.write(0)); // drivers that connect have exchanged messages
    two.next_a();
    two.host.run_for(1000000);
    if (phase >= 1) {
        two.post_b(two.receive(65536));
        two.post_a(two.send(60000));
        rnic_card_advance(&two.host.card, two.host.now);
    }
    if (phase >= 2) {
        for (unsigned i = 0; i < 3 && !two.host.wire.empty(); ++i, two.host.wire.pop_front()) {
            rnic_card_receive(&host_b.card, two.host.wire.front().data(),
                              static_cast<std::uint32_t>(two.host.wire.front().size()));
        }
    }
    if (phase == 3) {
        two.host.run_for(1000000);
    }
    if (phase == 4) {
        two.b.post_command(two.b.command(RNIC_COMMAND_NOP));
        two.b.arm(two.pair->cq_b);
    }
    host_b.record = true;
    reset(host_b, two.b.fn, how);
    CHECK((host_b.reg(two.b.fn, RNIC_REG_STATUS) & RNIC_STATUS_READY) != 0);
    two.host.run_for(20000000);
    for (const Crossing &transaction : host_b.transactions) {
        const bool dma = transaction.kind == RNIC_TRANSACTION_DMA_READ ||
                         transaction.kind == RNIC_TRANSACTION_DMA_WRITE ||
                         transaction.kind == RNIC_TRANSACTION_INTERRUPT;
        CHECK_FALSE((dma && transaction.fn == two.b.fn && &host_b != &two.host));
    }
    two.a.drain(two.pair->cq_a);
    const Completion query = two.a.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_a);
    CHECK(query.info == RNIC_QP_STATE_ERROR);
    CHECK(query.length == RNIC_ERROR_CONNECTION_LOST);
    for (const std::uint32_t used :
         {RNIC_REG_QPS_USED, RNIC_REG_CQS_USED, RNIC_REG_STAGS_USED, RNIC_REG_PBL_USED}) {
        CHECK(host_b.reg(two.b.fn, used) == 0);
    }
    for (std::uint32_t at :
         {static_cast<std::uint32_t>(RNIC_DB_COMMAND_PRODUCER), static_cast<std::uint32_t>(RNIC_DB_ASLEEP),
          RNIC_DB_QP + 64 * two.pair->qp_b, RNIC_DB_QP + 64 * two.pair->qp_b + 4,
          RNIC_DB_CQ + 64 * two.pair->cq_b, RNIC_DB_CQ + 64 * two.pair->cq_b + 4}) {
        CHECK(two.b.load(at) == 0);
    }
    // A new life, beside stale doorbells of the old one.
    two.b.store(RNIC_DB_QP + 64 * 3, 12345);
    begin_again(host_b, two.b);
    two.tag_b = two.b.memory(4096, &two.mem_b);
    Pair again(two.a, two.b, 2);
    again.connect();
    Work work = two.receive(4096, 5);
    two.b.post(again.qp_b, work);
    two.a.post(again.qp_a, two.send(100, 6));
    two.host.run_for(10000000);
    Completion got;
    REQUIRE(two.b.poll(again.cq_b, &got));
    CHECK(got.cookie == 5);
    REQUIRE(two.a.poll(again.cq_a, &got));
    CHECK(got.cookie == 6);
}

TEST_CASE("a function listens to nothing after a reset, and its places in the table are free", "[card]")
{
    const unsigned how = GENERATE(0u, 1u, 2u);
    Two two;
    const auto ask = [&](Driver &driver, unsigned opcode, std::uint32_t i) {
        std::uint8_t *const text = driver.at(0); // of no ring
        rnic_put32(text, i, true);
        Bytes entry = driver.command(opcode, i);
        rnic_put16(&entry[RNIC_CMD_LISTEN_LENGTH], 4, driver.big);
        rnic_put64(&entry[RNIC_CMD_LISTEN_ADDRESS], 0, driver.big);
        return driver.execute(entry).status;
    };
    const std::uint32_t most = two.host.reg(two.b.fn, RNIC_REG_MAX_LISTENS);
    unsigned wrong = ask(two.a, RNIC_COMMAND_LISTEN, 0) != RNIC_STATUS_OK;
    for (std::uint32_t i = 1; i < most; ++i) {
        wrong += ask(two.b, RNIC_COMMAND_LISTEN, i) != RNIC_STATUS_OK;
    }
    CHECK(wrong == 0);
    CHECK(ask(two.a, RNIC_COMMAND_LISTEN, most) == RNIC_STATUS_NO_ROOM);
    reset(two.host, two.b.fn, how);
    two.host.run_for(20000000);
    begin_again(two.host, two.b);
    for (const std::uint32_t i : {std::uint32_t{1}, most / 2, most - 1}) {
        CHECK(ask(two.b, RNIC_COMMAND_UNLISTEN, i) == RNIC_STATUS_NO_OBJECT);
    }
    for (std::uint32_t i = 1; i < most; ++i) {
        wrong += ask(two.a, RNIC_COMMAND_LISTEN, i) != RNIC_STATUS_OK;
    }
    CHECK(wrong == 0);
    CHECK(ask(two.a, RNIC_COMMAND_UNLISTEN, 0) == RNIC_STATUS_OK); // the other function's had stayed
}

TEST_CASE("a send that is complete is placed, whatever becomes of its sender", "[card]")
{
    const unsigned how = GENERATE(0u, 1u, 2u);
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    Two two(setup);
    Host &host_b = two.other ? *two.other : two.host;
    const std::uint32_t held = RNIC_DB_QP + 64 * two.pair->qp_b + RNIC_QPDB_RQ_HELD;
    const auto hold = [&](std::uint32_t value) {
        two.b.store(held, value);
        two.b.hint(RNIC_DB_QP_HINTS, two.pair->qp_b);
    };
    hold(1); // the driver of b has receives for which its ring has no room
    constexpr std::uint32_t kMessages = 10, kBytes = 100;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        Work work = two.send(kBytes, 40 + i);
        work.segments[0].address += 1000 + i;
        two.post_a(work);
    }
    for (std::uint32_t i = 0; i < kMessages; ++i) { // so says the card of a
        const Completion done = two.next_a();
        REQUIRE(done.cookie == 40 + i);
        REQUIRE(done.status == RNIC_STATUS_OK);
    }
    reset(two.host, two.a.fn, how);
    two.host.run_for(20000000);
    CHECK(two.state_of(two.b, two.pair->qp_b) == RNIC_QP_STATE_CONNECTED);

    SECTION("it is received")
    {
        for (std::uint32_t i = 0; i < kMessages; ++i) {
            Work work = two.receive(kBytes, 70 + i);
            work.segments[0].address += i * kBytes;
            two.post_b(work);
        }
        hold(0);
        for (std::uint32_t i = 0; i < kMessages; ++i) {
            const Completion got = two.next_b();
            CHECK(got.cookie == 70 + i);
            CHECK(got.status == RNIC_STATUS_OK);
            CHECK(got.length == kBytes);
            CHECK(two.same(1000 + i, i * kBytes, kBytes));
        }
        check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_CONNECTION_LOST);
    }
    SECTION("other connections with the function's next life do not wait for it")
    {
        begin_again(two.host, two.a);
        two.tag_a = two.a.memory(4096, &two.mem_a);
        Pair again(two.a, two.b, setup.level);
        again.connect();
        two.b.post(again.qp_b, two.receive(4096, 5));
        two.a.post(again.qp_a, two.send(100, 6));
        two.host.run_for(10000000);
        Completion got;
        REQUIRE(two.b.poll(again.cq_b, &got));
        CHECK(got.cookie == 5);
        CHECK(got.status == RNIC_STATUS_OK);
    }
    SECTION("a queue pair that ends takes it along")
    {
        REQUIRE(two.b.modify(two.pair->qp_b, towards(two.a, 0, RNIC_QP_STATE_ERROR)).status == 0);
        const Completion last = two.next_b();
        CHECK(last.opcode == RNIC_WORK_DRAINED);
        two.host.run_for(10000000);
        REQUIRE(two.b.simple(RNIC_COMMAND_DESTROY_QP, two.pair->qp_b).status == 0);
        CHECK(host_b.reg(two.b.fn, RNIC_REG_ERROR_COUNT) == 0);
    }
}

TEST_CASE("a neighbour's garbage and resets do not touch a function", "[card]")
{
    Two two;
    Driver bad(two.host, 2);
    std::uint32_t seed = GENERATE(1u, 2u, 3u);
    const auto dice = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 8; };
    std::vector<std::uint32_t> before(two.a.events.index, 0);
    for (unsigned round = 0; round < 300; ++round) {
        if (round % 25 == 0) {
            reset(two.host, 2, dice() % 2);
            bad.commands.index = bad.answers.index = 0;
            bad.enable();
        }
        Bytes entry(RNIC_COMMAND_BYTES);
        for (std::uint8_t &byte : entry) {
            byte = dice() % 3 == 0 ? static_cast<std::uint8_t>(dice()) : 0;
        }
        entry[0] = static_cast<std::uint8_t>(dice() % 16);
        entry[1] = 0;
        entry[RNIC_CMD_OBJECT] = static_cast<std::uint8_t>(dice() % 4);
        entry[RNIC_CMD_OBJECT + 1] = entry[RNIC_CMD_OBJECT + 2] = entry[RNIC_CMD_OBJECT + 3] = 0;
        bad.post_command(entry);
        bad.store(RNIC_DB_QP + 64 * (dice() % 4) + 4 * (dice() % 2), dice());
        bad.store(RNIC_DB_CQ + 64 * (dice() % 4) + 4 * (dice() % 2), dice());
        bad.hint(RNIC_DB_QP_HINTS, 0);
        bad.hint(RNIC_DB_CQ_HINTS, 0);
        two.host.run();
        if (round % 3 == 0) {
            two.post_b(two.receive(65536, round));
            two.post_a(two.send(round * 100, round));
            REQUIRE(two.next_b().cookie == round);
            REQUIRE(two.next_a().cookie == round);
        }
    }
    CHECK(Two::event_of(two.a).kind == 0);
    CHECK(Two::event_of(two.b).kind == 0);
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CONNECTED);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_COUNT) == 0);
    CHECK(two.host.reg(1, RNIC_REG_ERROR_COUNT) == 0);
}

TEST_CASE("a completion queue that overflows is a catastrophe of its function alone", "[card]")
{
    Two two;
    const std::uint32_t small = two.b.create_cq(2);
    const std::uint32_t qp = two.b.create_qp(0, small, small),
                        peer = two.a.create_qp(0, two.pair->cq_a, two.pair->cq_a);
    REQUIRE(two.b.modify(qp, towards(two.a, peer)).status == 0);
    REQUIRE(two.a.modify(peer, towards(two.b, qp)).status == 0);
    for (unsigned i = 0; i < 5; ++i) {
        two.b.post(qp, two.receive(64, i));
        two.a.post(peer, two.send(8));
    }
    two.host.run_for(1000000);
    CHECK((two.host.reg(1, RNIC_REG_STATUS) & RNIC_STATUS_CATASTROPHIC) != 0);
    CHECK(two.host.reg(1, RNIC_REG_ERROR_CODE) == RNIC_ERROR_CQ_OVERRUN);
    CHECK(two.host.reg(1, RNIC_REG_ERROR_OBJECT) == small);
    CHECK(Two::event_of(two.b).kind == RNIC_EVENT_CATASTROPHIC);
    CHECK(two.b.drain(small).size() == 4);
    two.b.post_command(two.b.command(RNIC_COMMAND_NOP));
    two.host.run_for(1000000);
    Completion got;
    CHECK_FALSE(two.b.answered(&got)); // only a reset helps
    two.a.drain(two.pair->cq_a);
    CHECK(two.a.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_a).length == RNIC_ERROR_CONNECTION_LOST);
    begin_again(two.host, two.b);
    CHECK((two.host.reg(1, RNIC_REG_STATUS) & RNIC_STATUS_CATASTROPHIC) == 0);
    CHECK(two.b.simple(RNIC_COMMAND_NOP, 0).status == 0);
}

TEST_CASE("room that the driver has told of late is found before an overflow is declared", "[card]")
{
    Two two;
    const std::uint32_t small = two.b.create_cq(2);
    const std::uint32_t qp = two.b.create_qp(0, small, small),
                        peer = two.a.create_qp(0, two.pair->cq_a, two.pair->cq_a);
    REQUIRE(two.b.modify(qp, towards(two.a, peer)).status == 0);
    REQUIRE(two.a.modify(peer, towards(two.b, qp)).status == 0);
    Completion got;
    for (unsigned i = 0; i < 20; ++i) { // CQ_CONSUMER is stored, and no hint is set
        two.b.post(qp, two.receive(64, i));
        two.a.post(peer, two.send(8));
        two.host.run_for(1000);
        REQUIRE(two.b.poll(small, &got));
        CHECK(got.cookie == i);
    }
}

TEST_CASE("DMA that fails costs the queue pair, or where nothing could be told the function", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    const unsigned where = GENERATE(0u, 1u, 2u, 3u, 4u, 5u);
    Two two(setup);
    const std::uint64_t places[] = {two.mem_a + 3000,                  // a send's memory
                                    two.mem_b + 3000,                  // a receive's memory
                                    two.a.qps[two.pair->qp_a].sq.base, // rings
                                    two.b.qps[two.pair->qp_b].rq.base,
                                    two.a.cqs[two.pair->cq_a].base,
                                    two.b.commands.base + (two.b.commands.index % 16) * RNIC_COMMAND_BYTES};
    const unsigned whose[] = {0, 1, 0, 1, 0, 1};
    const bool function = where >= 4;
    Bytes nop = two.b.command(RNIC_COMMAND_NOP);
    two.host.allows = [&](unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool) {
        return fn != whose[where] || places[where] < iova || places[where] >= iova + bytes;
    };
    two.post_b(two.receive(65536, 70));
    two.post_a(two.send(20000, 40));
    if (where == 5) {
        two.b.post_command(nop);
    }
    two.host.run_for(20000000);
    Driver &hurt = whose[where] == 0 ? two.a : two.b;
    Driver &well = whose[where] == 0 ? two.b : two.a;
    CHECK(two.host.reg(hurt.fn, RNIC_REG_ERROR_CODE) == RNIC_ERROR_DMA);
    CHECK(two.host.reg(hurt.fn, RNIC_REG_DMA_FAILED_LO) >= 1);
    CHECK(two.host.reg(well.fn, RNIC_REG_ERROR_COUNT) == 0);
    CHECK(((two.host.reg(hurt.fn, RNIC_REG_STATUS) & RNIC_STATUS_CATASTROPHIC) != 0) == function);
    if (function) {
        return;
    }
    two.host.allows = nullptr;
    const bool a_hurt = whose[where] == 0;
    const std::uint32_t qp = a_hurt ? two.pair->qp_a : two.pair->qp_b;
    const std::vector<Completion> done = hurt.drain(a_hurt ? two.pair->cq_a : two.pair->cq_b);
    if (where < 2) {
        REQUIRE(done.size() == 2);
        CHECK(done[0].status == RNIC_STATUS_LOCAL_PROTECTION);
        CHECK(done[0].cookie == (a_hurt ? 40u : 70u));
    }
    CHECK(done.back().opcode == RNIC_WORK_DRAINED);
    const Event event = Two::event_of(hurt);
    CHECK(event.object == qp);
    CHECK(event.code ==
          (where < 2 ? static_cast<unsigned>(RNIC_ERROR_DMA) : static_cast<unsigned>(RNIC_ERROR_RING_DMA)));
    CHECK(well.simple(RNIC_COMMAND_QUERY_QP, a_hurt ? two.pair->qp_b : two.pair->qp_a).info ==
          RNIC_QP_STATE_ERROR);
    Pair again(two.a, two.b, setup.level); // the functions are unharmed
    again.connect();
    two.b.post(again.qp_b, two.receive(64, 3));
    two.a.post(again.qp_a, two.send(8, 4));
    two.host.run_for(10000000);
    Completion got;
    REQUIRE(two.b.poll(again.cq_b, &got));
    CHECK(got.cookie == 3);
}

TEST_CASE("a function in a catastrophe fetches and sends nothing more", "[card]")
{
    Two two;
    const std::uint32_t small = two.a.create_cq(2);
    const std::uint32_t qp = two.a.create_qp(0, small, small),
                        peer = two.b.create_qp(0, two.pair->cq_b, two.pair->cq_b);
    REQUIRE(two.b.modify(peer, towards(two.a, qp)).status == 0);
    REQUIRE(two.a.modify(qp, towards(two.b, peer)).status == 0);
    std::uint64_t fetched = 0;
    const std::uint64_t ring = two.a.qps[qp].sq.base;
    two.host.moved = [&](unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool write) {
        fetched += fn == 0 && !write && bytes == RNIC_WORK_BYTES && iova >= ring && iova < ring + 1024;
    };
    for (unsigned i = 0; i < 10; ++i) {
        two.a.post(qp, two.send(8, i), false);
    }
    two.a.ring(qp);
    two.host.run_for(1000000);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_CODE) == RNIC_ERROR_CQ_OVERRUN);
    CHECK(fetched == 5); // the fifth has no place
}

TEST_CASE("DMA that fails for a receive ends the connection, and the peer is told why", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    const bool list = GENERATE(false, true); // of the receive's segments; or the receive queue's ring
    Two two(setup);
    Work receive = two.receive(0);
    receive.segments = {two.in_b(0, 8), two.in_b(8, 8), two.in_b(16, 8)};
    two.post_b(receive);
    const std::uint64_t entry = two.b.qps[two.pair->qp_b].rq.base;
    const std::uint64_t place = list ? rnic_get64(two.b.at(entry + RNIC_WQE_SEGMENT0), false) : entry;
    two.host.allows = [&](unsigned fn, std::uint64_t iova, std::uint32_t, bool) {
        return fn != 1 || iova != place;
    };
    two.post_a(two.send(20, 40));
    two.host.run_for(10000000);
    if (list) {
        const Completion got = two.next_b();
        CHECK(got.status == RNIC_STATUS_LOCAL_PROTECTION);
        CHECK(got.opcode == RNIC_WORK_RECEIVE);
    }
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, list ? RNIC_ERROR_DMA : RNIC_ERROR_RING_DMA);
    CHECK(two.a.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_a).length ==
          (list ? static_cast<unsigned>(RNIC_ERROR_REMOTE_RECEIVE)
                : static_cast<unsigned>(RNIC_ERROR_TERMINATED)));
}

TEST_CASE("a reset zeroes the doorbells of the function's page and all hints", "[card]")
{
    const unsigned how = GENERATE(0u, 1u, 2u);
    Host host;
    Driver driver(host, 0);
    driver.enable();
    const std::uint32_t words[] = {RNIC_DB_COMMAND_PRODUCER, RNIC_DB_EVENT_CONSUMER};
    const std::uint32_t hints[] = {RNIC_DB_QP_HINTS, RNIC_DB_QP_HINTS + 1023, RNIC_DB_CQ_HINTS,
                                   RNIC_DB_CQ_HINTS + 1023};
    for (const std::uint32_t word : words) {
        driver.store(word, 3);
    }
    for (const std::uint32_t hint : hints) {
        host.bar2(0)[hint] = 1;
    }
    reset(host, 0, how);
    for (const std::uint32_t word : words) {
        CHECK(driver.load(word) == 0);
    }
    for (const std::uint32_t hint : hints) {
        CHECK(host.bar2(0)[hint] == 0);
    }
}
