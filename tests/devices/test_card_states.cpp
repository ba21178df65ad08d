// SPDX-License-Identifier: MIT
//
// The states of a queue pair, and its end.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

Modify to(unsigned state)
{
    Modify what;
    what.state = state;
    return what;
}

} // namespace

TEST_CASE("in RECEIVE messages are received and none are sent", "[card]")
{
    Setup setup;
    setup.connected = false;
    Two two(setup);
    two.post_b(two.receive(64, 1));
    Work answer = two.receive(0);
    answer.opcode = RNIC_WORK_SEND;
    answer.segments = {two.in_b(0, 4)};
    two.post_b(answer);
    Work receive = two.send(0);
    receive.opcode = RNIC_WORK_RECEIVE;
    receive.segments = {two.in_a(100, 50)};
    two.post_a(receive);
    REQUIRE(two.b.modify(two.pair->qp_b, towards(two.a, two.pair->qp_a, RNIC_QP_STATE_RECEIVE)).status == 0);
    CHECK(two.state_of(two.b, two.pair->qp_b) == RNIC_QP_STATE_RECEIVE);
    REQUIRE(two.a.modify(two.pair->qp_a, towards(two.b, two.pair->qp_b)).status == 0);
    two.post_a(two.send(9));
    CHECK(two.next_b().length == 9);
    CHECK(two.next_a().opcode == RNIC_WORK_SEND);
    CHECK(two.quiet_a());
    REQUIRE(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_CONNECTED)).status == 0);
    CHECK(two.next_a().length == 4);
    CHECK(two.next_b().opcode == RNIC_WORK_SEND);
}

TEST_CASE("what is posted before the connection is executed after it", "[card]")
{
    Setup setup;
    setup.connected = false;
    Two two(setup);
    two.post_a(two.send(3, 1));
    two.post_b(two.receive(64, 2));
    CHECK(two.quiet_a());
    two.pair->connect();
    CHECK(two.next_b().cookie == 2);
    CHECK(two.next_a().cookie == 1);
}

TEST_CASE("ERROR by command: nothing is completed but DRAINED, then the queues begin again", "[card]")
{
    const unsigned level = GENERATE(0u, 1u, 2u);
    Setup setup;
    setup.level = level;
    Two two(setup);
    for (unsigned i = 0; i < 5; ++i) {
        two.post_b(two.receive(64, i));
    }
    REQUIRE(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_ERROR)).status == 0);
    Completion got;
    REQUIRE(two.b.poll(two.pair->cq_b, &got));
    CHECK(got.opcode == RNIC_WORK_DRAINED);
    CHECK(got.qp == two.pair->qp_b);
    CHECK(two.quiet_b());
    CHECK(Two::event_of(two.b).kind == 0); // the driver knows
    CHECK(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_RECEIVE)).status == RNIC_STATUS_WRONG_STATE);
    CHECK(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_ERROR)).status == 0);
    CHECK(two.quiet_b());
    two.post_a(two.send(8)); // to one that is in ERROR: dropped
    two.host.run_for(1000000);
    CHECK(two.quiet_b());
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CONNECTED);
    two.a.drain(two.pair->cq_a);
    REQUIRE(two.a.modify(two.pair->qp_a, to(RNIC_QP_STATE_ERROR)).status == 0);
    REQUIRE(two.a.poll(two.pair->cq_a, &got));
    CHECK(got.opcode == RNIC_WORK_DRAINED);

    two.b.post(two.pair->qp_b, two.receive(64, 900)); // still in ERROR: given up
    REQUIRE(two.a.modify(two.pair->qp_a, to(RNIC_QP_STATE_IDLE)).status == 0);
    REQUIRE(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_IDLE)).status == 0);
    two.pair->connect();
    two.post_b(two.receive(64, 1000));
    two.post_a(two.send(8, 41));
    const Completion received = two.next_b();
    CHECK(received.cookie == 1000);
    CHECK(received.info == 7);
    CHECK(two.next_a().cookie == 41);
}

TEST_CASE("two completion queues get DRAINED each", "[card]")
{
    Host host;
    Driver driver(host, 0);
    driver.enable();
    const std::uint32_t send = driver.create_cq(), receive = driver.create_cq();
    const std::uint32_t qp = driver.create_qp(1, send, receive);
    REQUIRE(driver.modify(qp, to(RNIC_QP_STATE_ERROR)).status == 0);
    Completion got;
    for (const std::uint32_t cq : {send, receive}) {
        REQUIRE(driver.poll(cq, &got));
        CHECK(got.opcode == RNIC_WORK_DRAINED);
        CHECK_FALSE(driver.poll(cq, &got));
    }
    CHECK(driver.simple(RNIC_COMMAND_DESTROY_QP, qp).status == RNIC_STATUS_OK);
    CHECK(driver.simple(RNIC_COMMAND_QUERY_QP, qp).status == RNIC_STATUS_NO_OBJECT);
}

TEST_CASE("CLOSING sends what was posted before, and nothing that is posted later", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.two_cards = true;
    Two two(setup);
    for (unsigned i = 0; i < 4; ++i) {
        two.post_b(two.receive(65536, i));
        two.a.post(two.pair->qp_a, two.send(30000, i), i == 3);
    }
    REQUIRE(two.a.modify(two.pair->qp_a, to(RNIC_QP_STATE_CLOSING)).status == 0);
    two.post_a(two.send(8, 99));
    for (unsigned i = 0; i < 4; ++i) {
        CHECK(two.next_b().cookie == i);
        const Completion sent = two.next_a();
        CHECK(sent.cookie == i);
        CHECK(sent.status == 0);
    }
    CHECK(two.next_a().opcode == RNIC_WORK_DRAINED);
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_ERROR);
    CHECK(two.quiet_a());
    CHECK(two.quiet_b());
    CHECK(Two::event_of(two.a).kind == 0);
}

TEST_CASE("CLOSING acknowledges what was received before", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    two.post_b(two.receive(100, 1));
    two.host.run();
    two.a.post(two.pair->qp_a, two.send(8, 2));
    rnic_card_advance(&two.host.card, two.host.now);
    for (; !two.host.wire.empty(); two.host.wire.pop_front()) {
        rnic_card_receive(&two.other->card, two.host.wire.front().data(),
                          static_cast<std::uint32_t>(two.host.wire.front().size()));
    }
    REQUIRE(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_CLOSING)).status == 0);
    CHECK(two.next_b().cookie == 1);
    const Completion sent = two.next_a();
    CHECK(sent.cookie == 2);
    CHECK(sent.status == 0);
    CHECK(two.next_b().opcode == RNIC_WORK_DRAINED);
}

TEST_CASE("CLOSING answers RDMA Reads that came before", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    two.host.run();
    two.a.post(two.pair->qp_a, two.read(30000, 0, 2));
    rnic_card_advance(&two.host.card, two.host.now);
    for (; !two.host.wire.empty(); two.host.wire.pop_front()) {
        rnic_card_receive(&two.other->card, two.host.wire.front().data(),
                          static_cast<std::uint32_t>(two.host.wire.front().size()));
    }
    REQUIRE(two.b.modify(two.pair->qp_b, to(RNIC_QP_STATE_CLOSING)).status == 0);
    const Completion read = two.next_a();
    CHECK(read.cookie == 2);
    CHECK(read.status == 0);
    CHECK(two.next_b().opcode == RNIC_WORK_DRAINED);
}

TEST_CASE("CLOSING takes a second at most", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    two.post_b(two.receive(65536, 0));
    two.post_a(two.send(8));
    two.host.peer = nullptr; // the wire is cut
    REQUIRE(two.a.modify(two.pair->qp_a, to(RNIC_QP_STATE_CLOSING)).status == 0);
    two.host.run_for(990000000);
    Completion got;
    CHECK_FALSE(two.a.poll(two.pair->cq_a, &got));
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CLOSING);
    two.host.run_for(20000000);
    REQUIRE(two.a.poll(two.pair->cq_a, &got));
    CHECK(got.opcode == RNIC_WORK_DRAINED);
}

TEST_CASE("a silent peer is lost after five seconds, and every queue pair hears of it", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    Pair second(two.a, two.b, 2);
    second.connect();
    two.post_a(two.send(8));
    two.host.peer = nullptr;
    two.host.run_for(4500000000);
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CONNECTED);
    two.host.run_for(2000000000);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_CONNECTION_LOST);
    check_error(two, two.a, second.qp_a, second.cq_a, RNIC_ERROR_CONNECTION_LOST);
}

TEST_CASE("frames for a queue pair that does not know the peer end the peer's connection", "[card]")
{
    const unsigned what = GENERATE(0u, 1u, 2u);
    Setup setup;
    setup.level = 2;
    setup.connected = false;
    Two two(setup);
    if (what == 1) { // it has another peer
        REQUIRE(two.b.modify(two.pair->qp_b, towards(two.a, two.pair->qp_a + 7)).status == 0);
    } else if (what == 2) { // it is gone
        REQUIRE(two.b.simple(RNIC_COMMAND_DESTROY_QP, two.pair->qp_b).status == 0);
    }
    REQUIRE(two.a.modify(two.pair->qp_a, towards(two.b, two.pair->qp_b)).status == 0);
    two.post_a(two.send(8));
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_CONNECTION_LOST);
    CHECK(two.quiet_b());
    CHECK(two.host.reg(1, RNIC_REG_DROPPED_LO) == 1);
}

TEST_CASE("a producer index that is more than a ring ahead", "[card]")
{
    const unsigned queue = GENERATE(0u, 4u);
    Two two;
    two.a.store(RNIC_DB_QP + 64 * two.pair->qp_a + queue, 17);
    two.a.hint(RNIC_DB_QP_HINTS, two.pair->qp_a);
    two.host.run();
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_RING_INDEX);
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_TERMINATED);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_CODE) == RNIC_ERROR_RING_INDEX);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_OBJECT) == two.pair->qp_a);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_COUNT) == 1);
    two.host.set_reg(0, RNIC_REG_ERROR_COUNT, 1);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_CODE) == 0);
    CHECK(two.host.reg(0, RNIC_REG_ERROR_COUNT) == 0);
}

TEST_CASE("entries that were posted before there was a ring are found with it", "[card]")
{
    Setup setup;
    setup.connected = false;
    Two two(setup);
    two.pair->qp_a = two.a.try_create_qp(1, two.pair->cq_a, two.pair->cq_a).info;
    two.pair->connect();
    two.a.store(RNIC_DB_QP + 64 * two.pair->qp_a, 1);
    two.a.hint(RNIC_DB_QP_HINTS, two.pair->qp_a);
    two.host.run();
    CHECK(two.quiet_a());
    two.post_b(two.receive(64));
    two.a.qps[two.pair->qp_a].sq = {two.a.allocate(1024), 4, 0};
    two.a.post(two.pair->qp_a, two.send(5), false);
    Bytes ring = two.a.command(RNIC_COMMAND_SET_RING, two.pair->qp_a);
    rnic_put16(&ring[RNIC_CMD_RING_LOG2], 4, false);
    rnic_put64(&ring[RNIC_CMD_RING_BASE], two.a.qps[two.pair->qp_a].sq.base, false);
    CHECK(two.a.execute(ring).status == 0);
    CHECK(two.next_b().length == 5);
}

TEST_CASE("rights and domain change while a queue pair is connected", "[card]")
{
    Two two;
    Modify none = to(RNIC_QP_STATE_KEEP);
    none.change = 1;
    none.rights = 0;
    two.post_a(two.write(8));
    CHECK(two.next_a().status == 0);
    REQUIRE(two.b.modify(two.pair->qp_b, none).status == 0);
    two.post_a(two.write(8));
    CHECK(two.next_a().status == RNIC_STATUS_REMOTE_ACCESS);
}

TEST_CASE("a frame for nobody that could not be answered for want of room is answered when it is repeated",
          "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    Pair first(two.a, two.b, RNIC_LEVEL_RECEPTION), second(two.a, two.b, RNIC_LEVEL_RECEPTION);
    REQUIRE(two.a.modify(first.qp_a, towards(two.b, first.qp_b)).status == 0); // b's are IDLE
    REQUIRE(two.a.modify(second.qp_a, towards(two.b, second.qp_b)).status == 0);
    const Bytes message(16, RNIC_CONTROL_READY);
    for (unsigned i = 0; i < 9; ++i) { // a's event ring is full: it takes nothing of b any more
        REQUIRE(two.b.send_control(message, towards(two.a, 0).mac.data(), 0).status == 0);
        two.host.run_for(10000);
    }
    two.a.post(first.qp_a, two.send(8));
    two.host.run_for(10000);
    two.a.post(second.qp_a, two.send(8)); // b has a frame for a already that it cannot send
    two.host.run_for(10000);
    CHECK(two.state_of(two.a, first.qp_a) == RNIC_QP_STATE_CONNECTED);
    for (Event event; two.a.event(&event); two.host.run_for(1000000)) {
    }
    CHECK(two.state_of(two.a, first.qp_a) == RNIC_QP_STATE_ERROR);
    two.a.post(second.qp_a, two.send(8));
    two.host.run_for(1000000);
    CHECK(two.a.simple(RNIC_COMMAND_QUERY_QP, second.qp_a).length == RNIC_ERROR_CONNECTION_LOST);
}

TEST_CASE("a queue pair hears its peer alone, not another function's queue pair of the same number", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    Driver third(*two.other, 1); // beside b
    third.enable();
    const std::uint32_t cq = third.create_cq(), same = third.create_qp(1, cq, cq);
    std::unique_ptr<Pair> pair;
    do {
        pair = std::make_unique<Pair>(two.a, two.b, RNIC_LEVEL_DELIVERY);
    } while (pair->qp_a < same);
    REQUIRE(pair->qp_a == same);
    pair->connect();
    std::uint64_t place = 0;
    Work work;
    work.segments = {{place, 8, third.memory(64, &place)}};
    work.segments[0].address = place;
    two.b.post(pair->qp_b, two.receive(64, 1));
    REQUIRE(third.modify(same, towards(two.b, pair->qp_b)).status == 0);
    third.post(same, work);
    two.host.run_for(1000000);
    CHECK(third.simple(RNIC_COMMAND_QUERY_QP, same).length == RNIC_ERROR_CONNECTION_LOST);
    Completion got;
    CHECK_FALSE(two.b.poll(pair->cq_b, &got));
    two.a.post(pair->qp_a, two.send(9));
    two.host.run_for(1000000);
    REQUIRE(two.b.poll(pair->cq_b, &got));
    CHECK(got.length == 9);
}
