// SPDX-License-Identifier: MIT
//
// What is refused: who is told what, and that not one byte moves.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

Bytes memory_of(Driver &driver, std::uint64_t at)
{
    return Bytes(driver.at(at), driver.at(at + Two::kBytes));
}

/** A connection is as good as new. */
void check_alive(Two &two)
{
    two.post_b(two.receive(64, 7777));
    two.post_a(two.send(9, 8888));
    CHECK(two.next_b().cookie == 7777);
    CHECK(two.next_a().cookie == 8888);
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CONNECTED);
    CHECK(two.state_of(two.b, two.pair->qp_b) == RNIC_QP_STATE_CONNECTED);
}

struct Case {
    const char *name;
    unsigned status; ///< of the receive
    unsigned error;  ///< at the receiver
};

} // namespace

TEST_CASE("a message that cannot be received is refused before a byte of it moves", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.two_cards = GENERATE(false, true);
    const std::uint32_t bytes = GENERATE(100u, 20000u);
    const unsigned which = GENERATE(0u, 1u, 2u, 3u, 4u, 5u);
    static const Case cases[] = {
        {"too long", RNIC_STATUS_LOCAL_LENGTH, RNIC_ERROR_RECV_LENGTH},
        {"no such tag", RNIC_STATUS_LOCAL_PROTECTION, RNIC_ERROR_RECV_PROTECTION},
        {"beyond the end", RNIC_STATUS_LOCAL_PROTECTION, RNIC_ERROR_RECV_PROTECTION},
        {"read only", RNIC_STATUS_LOCAL_PROTECTION, RNIC_ERROR_RECV_PROTECTION},
        {"marked invalid", RNIC_STATUS_LOCAL_FORMAT, RNIC_ERROR_RECV_FORMAT},
        {"another realm's", RNIC_STATUS_LOCAL_PROTECTION, RNIC_ERROR_RECV_PROTECTION},
    };
    Two two(setup);
    std::uint64_t other;
    Work receive = two.receive(65536, 1);
    if (which == 0) {
        receive.segments[0].length = bytes - 1;
    } else if (which == 1) {
        receive.segments[0].stag ^= 0x100;
    } else if (which == 2) {
        receive.segments = {two.in_b(0, 50), two.in_b(65536 - 10, 60000)};
    } else if (which == 3) {
        receive.segments[0].stag = two.b.memory(65536, &other, RNIC_RIGHT_LOCAL_READ_ONLY);
        receive.segments[0].address = other;
    } else if (which == 4) {
        receive.flags = RNIC_WORK_FLAG_INVALID;
    } else {
        receive.segments[0].stag = two.b.memory(65536, &other, 3, 2);
        receive.segments[0].address = other;
    }
    INFO(cases[which].name);
    const Bytes before = memory_of(two.b, two.mem_b);
    two.post_b(receive);
    two.post_a(two.send(bytes, 40));
    const Completion got = two.next_b();
    CHECK(got.cookie == 1);
    CHECK(got.status == cases[which].status);
    CHECK(got.length == 0);
    CHECK((memory_of(two.b, two.mem_b) == before));
    if (setup.level == RNIC_LEVEL_UNRELIABLE) {
        CHECK(two.next_a().status == RNIC_STATUS_OK);
        CHECK(Two::event_of(two.b).kind == 0);
        check_alive(two);
        return;
    }
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, cases[which].error);
    two.host.run_for(1000000);
    std::vector<Completion> sent = two.a.drain(two.pair->cq_a);
    if (setup.level == RNIC_LEVEL_RECEPTION) {
        REQUIRE(sent.size() == 2);
        CHECK(sent[0].cookie == 40);
        CHECK(sent[0].status == RNIC_STATUS_REMOTE_RECEIVE);
    }
    REQUIRE(!sent.empty());
    CHECK(sent.back().opcode == RNIC_WORK_DRAINED);
    CHECK(Two::event_of(two.a).code == RNIC_ERROR_REMOTE_RECEIVE);
}

TEST_CASE("a message waits for receives that the driver holds back", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    Two two(setup);
    const std::uint32_t held = RNIC_DB_QP + 64 * two.pair->qp_b + RNIC_QPDB_RQ_HELD;
    const auto hold = [&](std::uint32_t value) {
        two.b.store(held, value);
        two.b.hint(RNIC_DB_QP_HINTS, two.pair->qp_b);
    };
    hold(1);
    for (std::uint32_t i = 0; i < 3; ++i) {
        two.post_a(two.send(3000, 40 + i));
    }
    CHECK(two.quiet_b());
    CHECK(Two::event_of(two.b).kind == 0);
    for (std::uint32_t i = 0; i < 2; ++i) { // handed over one after the other
        two.post_b(two.receive(3000, 70 + i));
        const Completion got = two.next_b();
        CHECK(got.cookie == 70 + i);
        CHECK(got.status == RNIC_STATUS_OK);
        CHECK(two.quiet_b());
    }
    SECTION("the last of them comes, and no more is held")
    {
        two.post_b(two.receive(3000, 72));
        hold(0);
        CHECK(two.next_b().cookie == 72);
        for (std::uint32_t i = 0; i < 3; ++i) {
            CHECK(two.next_a().status == RNIC_STATUS_OK);
        }
        check_alive(two);
    }
    SECTION("there is none after all")
    {
        hold(0);
        two.host.run_for(10000000);
        CHECK(Two::event_of(two.b).code == RNIC_ERROR_RECV_EMPTY);
    }
}

TEST_CASE("a message that finds no receive", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    const bool immediate = GENERATE(false, true);
    const bool write = GENERATE(false, true);
    Two two(setup);
    Work work = write ? two.write(3000, 100) : two.send(3000);
    work.flags = immediate || write ? static_cast<unsigned>(RNIC_WORK_FLAG_IMMEDIATE) : 0u;
    two.post_a(work);
    if (setup.level == RNIC_LEVEL_UNRELIABLE) {
        CHECK(two.next_a().status == RNIC_STATUS_OK);
        CHECK(two.quiet_b());
        const Event event = Two::event_of(two.b);
        CHECK(event.kind == RNIC_EVENT_QP_ERROR);
        CHECK(event.object == two.pair->qp_b);
        CHECK(event.code == RNIC_ERROR_RECV_EMPTY);
        check_alive(two);
        return;
    }
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_RECV_EMPTY);
    const std::vector<Completion> sent = two.a.drain(two.pair->cq_a);
    REQUIRE(!sent.empty());
    if (setup.level == RNIC_LEVEL_RECEPTION) {
        CHECK(sent[0].status == RNIC_STATUS_REMOTE_RECEIVE);
    }
    CHECK(sent.back().opcode == RNIC_WORK_DRAINED);
    CHECK(Two::event_of(two.a).code == RNIC_ERROR_REMOTE_RECEIVE);
}

TEST_CASE("a receive whose doorbell nobody hinted at is found in time", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    two.b.post(two.pair->qp_b, two.receive(64, 5), false);
    two.b.store(RNIC_DB_QP + 64 * two.pair->qp_b + RNIC_QPDB_RQ, 1);
    two.post_a(two.send(8));
    CHECK(two.next_b().cookie == 5);
}

TEST_CASE("a receive that the bus brings until the next advance is found", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    two.b.post(two.pair->qp_b, two.receive(64, 5), false);
    two.post_a(two.send(8));
    rnic_card_advance(&two.host.card, two.host.now); // the message has come, and there is no receive
    rnic_card_bar_write(&two.host.card, 1, 2, RNIC_DB_QP + 64 * two.pair->qp_b + RNIC_QPDB_RQ, 4, 1);
    CHECK(two.next_b().cookie == 5);
    CHECK(two.next_a().status == RNIC_STATUS_OK);
}

TEST_CASE("when no receive is held any more, the bus has the same time to bring one", "[card]")
{
    Two two;
    const std::uint32_t doorbell = RNIC_DB_QP + 64 * two.pair->qp_b;
    two.b.post(two.pair->qp_b, two.receive(64, 5), false);
    two.post_a(two.send(8));
    for (const std::uint32_t held : {0u, 1u, 0u}) {
        two.b.store(doorbell + RNIC_QPDB_RQ_HELD, held);
        rnic_card_advance(&two.host.card, two.host.now); // the message has come, and there is no receive
    }
    rnic_card_bar_write(&two.host.card, 1, 2, doorbell + RNIC_QPDB_RQ, 4, 1);
    CHECK(two.next_b().cookie == 5);
}

TEST_CASE("remote access that is not allowed moves nothing and is named on both sides", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.two_cards = GENERATE(false, true);
    const bool read = GENERATE(false, true);
    const unsigned which = GENERATE(0u, 1u, 2u, 3u, 4u, 5u);
    if (read && setup.level == RNIC_LEVEL_UNRELIABLE) {
        return;
    }
    setup.rights = which != 0 ? 3u : read ? 1u : 2u;
    Two two(setup);
    Work work = read ? two.read(5000, 100) : two.write(5000, 100);
    std::uint64_t other = 0;
    if (which == 1) {
        work.remote_stag =
            two.b.memory(8192, &other, read ? RNIC_RIGHT_REMOTE_WRITE : RNIC_RIGHT_REMOTE_READ);
        work.remote_address = other;
    } else if (which == 2) {
        work.remote_stag ^= 1;
    } else if (which == 3) {
        work.remote_address = two.mem_b + Two::kBytes - 4999;
    } else if (which == 4) {
        work.remote_address = UINT64_MAX - 100;
    } else if (which == 5) {
        work.remote_stag = two.b.memory(8192, &other, 3, 1, 2);
        work.remote_address = other;
    }
    const Bytes before = memory_of(two.b, two.mem_b);
    const Bytes mine = memory_of(two.a, two.mem_a);
    two.post_a(work);
    const unsigned error = read ? RNIC_ERROR_READ_DENIED : RNIC_ERROR_WRITE_DENIED;
    if (setup.level == RNIC_LEVEL_UNRELIABLE) {
        CHECK(two.next_a().status == RNIC_STATUS_OK);
        two.host.run_for(1000000);
        CHECK(Two::event_of(two.b).code == error);
        CHECK((memory_of(two.b, two.mem_b) == before));
        check_alive(two);
        return;
    }
    const Completion got = two.next_a();
    CHECK(got.status == RNIC_STATUS_REMOTE_ACCESS);
    CHECK(got.opcode == work.opcode);
    CHECK(got.length == 0);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_REMOTE_ACCESS);
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, error);
    CHECK((memory_of(two.b, two.mem_b) == before));
    CHECK((memory_of(two.a, two.mem_a) == mine));
}

TEST_CASE("an access of no bytes names no memory", "[card]")
{
    Two two;
    Work work = GENERATE(false, true) ? two.read(0) : two.write(0);
    work.remote_stag = 0x12345678;
    work.segments = {{1, 0, 99}};
    two.post_a(work);
    CHECK(two.next_a().status == RNIC_STATUS_OK);
}

TEST_CASE("a queue pair without a domain uses any memory of its realm", "[card]")
{
    Two two;
    const unsigned realm = GENERATE(1u, 2u);
    std::uint64_t other;
    const std::uint32_t tag = two.b.memory(4096, &other, 3, realm, 9);
    Modify any;
    any.change = 2;
    REQUIRE(two.b.modify(two.pair->qp_b, any).status == RNIC_STATUS_OK);
    Work work = two.write(100);
    work.remote_stag = tag;
    work.remote_address = other;
    two.post_a(work);
    CHECK(two.next_a().status == (realm == 1 ? static_cast<unsigned>(RNIC_STATUS_OK)
                                             : static_cast<unsigned>(RNIC_STATUS_REMOTE_ACCESS)));
}

TEST_CASE("an entry that is wrong completes so, behind those before it", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    const unsigned which = GENERATE(0u, 1u, 2u, 3u, 4u, 5u);
    Two two(setup);
    Work bad = two.send(100, 2);
    unsigned status = RNIC_STATUS_LOCAL_FORMAT;
    if (which == 0) {
        bad.opcode = 9;
    } else if (which == 1) {
        bad.flags = 0x40;
    } else if (which == 2) {
        bad.opcode = RNIC_WORK_READ;
        bad.flags = RNIC_WORK_FLAG_IMMEDIATE;
    } else if (which == 3) {
        bad.segments[0].stag ^= 1;
        status = RNIC_STATUS_LOCAL_PROTECTION;
    } else if (which == 4) {
        bad.segments = {two.in_a(0, 10), two.in_a(65530, 10)};
        status = RNIC_STATUS_LOCAL_PROTECTION;
    } else {
        bad.segments.assign(RNIC_SEGMENT_LIMIT + 1, two.in_a(0, 1));
    }
    two.post_b(two.receive(6400, 1));
    two.post_b(two.receive(6400, 2));
    two.a.post(two.pair->qp_a, two.send(6000, 1), false);
    two.a.post(two.pair->qp_a, bad, false);
    two.a.post(two.pair->qp_a, two.send(8, 3));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    const Completion failed = two.next_a();
    CHECK(failed.cookie == 2);
    CHECK(failed.status == status);
    CHECK(failed.length == 0);
    CHECK(two.next_b().length == 6000);
    if (setup.level == RNIC_LEVEL_UNRELIABLE) {
        CHECK(two.next_a().cookie == 3);
        const Completion got = two.next_b();
        CHECK(got.cookie == 2);
        CHECK(got.length == 8);
        check_alive(two);
        return;
    }
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a,
                status == RNIC_STATUS_LOCAL_FORMAT ? RNIC_ERROR_SEND_FORMAT : RNIC_ERROR_SEND_PROTECTION);
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_TERMINATED);
}

TEST_CASE("a read whose own memory is gone when the answer comes", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    two.post_a(two.read(100));
    rnic_card_advance(&two.host.card, two.host.now); // the request leaves
    REQUIRE(two.host.wire.size() > 0);
    const Bytes end = two.a.command(RNIC_COMMAND_INVALIDATE, two.tag_a);
    two.a.post_command(end);
    rnic_card_advance(&two.host.card, two.host.now);
    const Bytes before = memory_of(two.a, two.mem_a);
    const Completion got = two.next_a();
    CHECK(got.status == RNIC_STATUS_LOCAL_PROTECTION);
    CHECK(got.opcode == RNIC_WORK_READ);
    Completion answer;
    REQUIRE(two.a.answered(&answer));
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_SEND_PROTECTION);
    CHECK((memory_of(two.a, two.mem_a) == before));
}

TEST_CASE("memory that ends in the middle of a peer's message takes no byte after that", "[card]")
{
    Setup setup;
    setup.level = GENERATE(1u, 2u);
    setup.two_cards = true;
    const bool change = GENERATE(false, true);
    Two two(setup);
    two.post_a(two.write(60000));
    bool answered = false;
    std::uint64_t last = 0;
    unsigned after = 0;
    two.other->moved = [&](unsigned, std::uint64_t iova, std::uint32_t, bool write) {
        const bool payload = write && iova >= two.mem_b && iova < two.mem_b + Two::kBytes;
        last = payload && !answered ? iova : last;
        after += payload && answered;
    };
    rnic_card_advance(&two.host.card, two.host.now);
    for (unsigned i = 0; i < 3 && !two.host.wire.empty(); ++i, two.host.wire.pop_front()) {
        rnic_card_receive(&two.other->card, two.host.wire.front().data(),
                          static_cast<std::uint32_t>(two.host.wire.front().size()));
    }
    Bytes end = two.b.command(change ? RNIC_COMMAND_CHANGE_MR : RNIC_COMMAND_INVALIDATE, two.tag_b);
    rnic_put32(&end[RNIC_CMD_MR_DOMAIN], 1, false);
    two.b.post_command(end);
    rnic_card_advance(&two.other->card, two.host.now);
    Completion answer;
    REQUIRE(two.b.answered(&answer));
    REQUIRE(answer.status == RNIC_STATUS_OK);
    answered = true;
    CHECK(last > 0);
    CHECK(two.next_a().status == RNIC_STATUS_REMOTE_ACCESS);
    CHECK(after == 0);
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_WRITE_DENIED);
}

TEST_CASE("a new queue pair holds no receives, whatever its doorbell had before", "[card]")
{
    Two two;
    for (std::uint32_t qp = two.pair->qp_b + 1; qp < two.pair->qp_b + 4; ++qp) {
        two.b.store(RNIC_DB_QP + 64 * qp + RNIC_QPDB_RQ_HELD, 1);
    }
    Pair fresh(two.a, two.b, RNIC_LEVEL_DELIVERY);
    fresh.connect();
    two.a.post(fresh.qp_a, two.send(8)); // does not wait for a receive
    check_error(two, two.b, fresh.qp_b, fresh.cq_b, RNIC_ERROR_RECV_EMPTY);
}
