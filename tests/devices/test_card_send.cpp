// SPDX-License-Identifier: MIT
//
// Sends: from an entry in one function's ring to bytes in another's memory.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

TEST_CASE("a send fills the oldest receive of the peer and both complete", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.big_a = GENERATE(false, true);
    setup.big_b = GENERATE(false, true);
    setup.two_cards = GENERATE(false, true);
    const std::uint32_t bytes = GENERATE(0u, 1u, 1430u, 1431u, 65536u);
    Two two(setup);
    two.post_b(two.receive(65536, 71));
    two.post_a(two.send(bytes, 41));
    const Completion received = two.next_b();
    CHECK(received.status == RNIC_STATUS_OK);
    CHECK(received.opcode == RNIC_WORK_RECEIVE);
    CHECK(received.qp == two.pair->qp_b);
    CHECK(received.cookie == 71);
    CHECK(received.length == bytes);
    CHECK(received.flags == 0);
    CHECK(received.info == 1);
    CHECK(two.same(0, 0, bytes));
    const Completion sent = two.next_a();
    CHECK(sent.status == RNIC_STATUS_OK);
    CHECK(sent.opcode == RNIC_WORK_SEND);
    CHECK(sent.qp == two.pair->qp_a);
    CHECK(sent.cookie == 41);
    CHECK(sent.length == bytes);
    CHECK(sent.info == 1);
    CHECK(two.quiet_a());
    CHECK(two.quiet_b());
}

TEST_CASE("immediate data comes with its message in one completion", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    const std::uint32_t bytes = GENERATE(0u, 5000u);
    Two two(setup);
    Work work = two.send(bytes);
    work.flags = RNIC_WORK_FLAG_IMMEDIATE;
    work.immediate = 0xDEADBEEF;
    two.post_b(two.receive(65536, 1));
    two.post_b(two.receive(65536, 2));
    two.post_a(work);
    two.post_a(two.send(8));
    const Completion first = two.next_b();
    CHECK(first.cookie == 1);
    CHECK(first.length == bytes);
    CHECK(first.flags == RNIC_CQE_FLAG_IMMEDIATE);
    CHECK(first.immediate == 0xDEADBEEF);
    const Completion second = two.next_b();
    CHECK(second.cookie == 2);
    CHECK(second.length == 8);
    CHECK(second.flags == 0);
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(two.next_a().status == RNIC_STATUS_OK);
}

TEST_CASE("many segments are gathered and scattered in their order", "[card]")
{
    Setup setup;
    setup.big_a = GENERATE(false, true);
    setup.big_b = GENERATE(false, true);
    Two two(setup);
    Work gather = two.send(0);
    Work scatter = two.receive(0);
    gather.segments.clear();
    scatter.segments.clear();
    Bytes expected;
    for (std::uint32_t i = 0; i < RNIC_SEGMENT_LIMIT; ++i) {
        const std::uint32_t length = i % 3 == 2 ? 0 : 5 + i % 40;
        gather.segments.push_back(two.in_a(60000 - 200 * i, length));
        expected.insert(expected.end(), two.a.at(two.mem_a + 60000 - 200 * i),
                        two.a.at(two.mem_a + 60000 - 200 * i + length));
        scatter.segments.push_back(two.in_b(i * 100, i % 2 == 0 ? 17 : 40));
    }
    two.post_b(scatter);
    two.post_a(gather);
    REQUIRE(two.next_b().length == expected.size());
    Bytes got;
    for (const Segment &segment : scatter.segments) {
        got.insert(got.end(), two.b.at(segment.address), two.b.at(segment.address + segment.length));
    }
    got.resize(expected.size());
    CHECK(got == expected);
}

TEST_CASE("messages of one queue pair arrive in their order, and those of many take turns", "[card]")
{
    Two two;
    std::vector<std::unique_ptr<Pair>> pairs;
    for (unsigned i = 0; i < 8; ++i) {
        pairs.push_back(std::make_unique<Pair>(two.a, two.b, RNIC_LEVEL_RECEPTION));
        pairs.back()->connect();
        for (unsigned n = 0; n < 8; ++n) {
            Work receive = two.receive(100, 100 * i + n);
            two.b.post(pairs[i]->qp_b, receive);
        }
    }
    for (unsigned i = 0; i < 8; ++i) {
        for (unsigned n = 0; n < 8; ++n) {
            two.a.post(pairs[i]->qp_a, two.send(n, 100 * i + n), false);
        }
    }
    two.host.record = true;
    for (unsigned i = 0; i < 8; ++i) {
        two.a.ring(pairs[i]->qp_a);
    }
    two.host.run_for(10000000);
    for (unsigned i = 0; i < 8; ++i) {
        for (unsigned n = 0; n < 8; ++n) {
            Completion got;
            REQUIRE(two.b.poll(pairs[i]->cq_b, &got));
            CHECK(got.cookie == 100 * i + n);
            CHECK(got.length == n);
            REQUIRE(two.a.poll(pairs[i]->cq_a, &got));
            CHECK(got.cookie == 100 * i + n);
        }
    }
    std::vector<unsigned> order; // of the queue pairs whose data frames left
    for (const Crossing &transaction : two.host.transactions) {
        if (transaction.kind == RNIC_TRANSACTION_FRAME_SENT && transaction.fn == 0 &&
            (transaction.bytes_moved[14] & 15) == 1) {
            order.push_back(rnic_get16(&transaction.bytes_moved[14 + RNIC_EFE_SOURCE_QP], true));
        }
    }
    REQUIRE(order.size() == 64);
    for (unsigned i = 0; i < 64; ++i) {
        CHECK(order[i] == pairs[i % 8]->qp_a);
    }
}

TEST_CASE("a ring that wraps around goes on, and a larger one takes its entries over", "[card]")
{
    Two two;
    for (std::uint32_t n = 0; n < 50; ++n) {
        two.post_b(two.receive(64, n));
        two.post_a(two.send(8, n));
        CHECK(two.next_b().cookie == n);
        CHECK(two.next_a().info == n + 1);
    }
    for (std::uint32_t n = 0; n < 16; ++n) {
        two.post_b(two.receive(64, 1000 + n));
    }
    REQUIRE(two.b.set_ring(two.pair->qp_b, 1, 6).status == RNIC_STATUS_OK);
    REQUIRE(two.a.set_ring(two.pair->qp_a, 0, 6).status == RNIC_STATUS_OK);
    for (std::uint32_t n = 16; n < 40; ++n) {
        two.post_b(two.receive(64, 1000 + n));
    }
    for (std::uint32_t n = 0; n < 40; ++n) {
        two.post_a(two.send(8, n));
        CHECK(two.next_b().cookie == 1000 + n);
        CHECK(two.next_a().cookie == n);
    }
}
