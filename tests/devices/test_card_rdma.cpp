// SPDX-License-Identifier: MIT
//
// RDMA Writes and Reads.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

TEST_CASE("an RDMA Write lands where it says and tells nobody", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.two_cards = GENERATE(false, true);
    const std::uint32_t bytes = GENERATE(0u, 1u, 8u, 4000u, 60000u);
    const std::uint32_t offset = GENERATE(0u, 3u, 1001u);
    Two two(setup);
    const std::uint8_t before = *two.b.at(two.mem_b + offset + bytes);
    two.post_a(two.write(bytes, offset));
    const Completion done = two.next_a();
    CHECK(done.status == RNIC_STATUS_OK);
    CHECK(done.opcode == RNIC_WORK_WRITE);
    CHECK(done.length == bytes);
    two.host.run_for(1000000);
    CHECK(two.same(0, offset, bytes));
    CHECK(*two.b.at(two.mem_b + offset + bytes) == before);
    CHECK(two.quiet_b());
}

TEST_CASE("an RDMA Write with immediate data takes a receive and leaves its memory alone", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    const std::uint32_t bytes = GENERATE(0u, 3000u);
    Two two(setup);
    Work work = two.write(bytes, 30000);
    work.flags = RNIC_WORK_FLAG_IMMEDIATE;
    work.immediate = 77;
    Work receive = two.receive(10, 5);
    const Bytes before(two.b.at(two.mem_b), two.b.at(two.mem_b + 10));
    two.post_b(receive);
    two.post_a(work);
    const Completion got = two.next_b();
    CHECK(got.cookie == 5);
    CHECK(got.status == RNIC_STATUS_OK);
    CHECK(got.length == bytes);
    CHECK(got.flags == (RNIC_CQE_FLAG_IMMEDIATE | RNIC_CQE_FLAG_RDMA));
    CHECK(got.immediate == 77);
    CHECK(two.same(0, 30000, bytes));
    CHECK((Bytes(two.b.at(two.mem_b), two.b.at(two.mem_b + 10)) == before));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
}

TEST_CASE("an RDMA Read brings the peer's bytes", "[card]")
{
    Setup setup;
    setup.level = GENERATE(1u, 2u);
    setup.two_cards = GENERATE(false, true);
    const std::uint32_t bytes = GENERATE(0u, 1u, 1431u, 60000u);
    Two two(setup);
    Work work = two.read(bytes, 1000);
    if (bytes > 2) {
        work.segments = {two.in_a(0, 3), two.in_a(4000, bytes - 3 > 61000 ? 61000 : bytes - 3)};
    }
    two.post_a(work);
    const Completion done = two.next_a();
    CHECK(done.status == RNIC_STATUS_OK);
    CHECK(done.opcode == RNIC_WORK_READ);
    CHECK(done.length == bytes);
    if (bytes > 2) {
        CHECK(two.same(0, 1000, 3));
        CHECK(two.same(4000, 1003, bytes - 3));
    } else {
        CHECK(two.same(0, 1000, bytes));
    }
    CHECK(two.quiet_b());
}

TEST_CASE("more reads than slots wait for each other, and what is behind them waits too", "[card]")
{
    Two two;
    for (unsigned n = 0; n < 12; ++n) {
        Work work = two.read(8, 8 * n, n);
        work.segments = {two.in_a(1000 + 8 * n, 8)};
        two.a.post(two.pair->qp_a, work, false);
    }
    two.post_b(two.receive(64));
    two.a.post(two.pair->qp_a, two.send(8, 99));
    for (unsigned n = 0; n < 12; ++n) {
        const Completion done = two.next_a();
        CHECK(done.cookie == n);
        CHECK(done.status == RNIC_STATUS_OK);
    }
    CHECK(two.next_a().cookie == 99);
    CHECK(two.same(1008, 8, 88)); // the send has changed what the first one read
}

TEST_CASE("an entry with a fence begins when all reads before it are complete", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    const bool fence = GENERATE(false, true);
    Two two(setup);
    Work second = two.send(8, 2);
    second.flags = fence ? static_cast<unsigned>(RNIC_WORK_FLAG_FENCE) : 0u;
    two.post_b(two.receive(64));
    two.a.post(two.pair->qp_a, two.read(60000), false);
    two.host.record = true;
    two.post_a(second);
    CHECK(two.next_a().opcode == RNIC_WORK_READ);
    CHECK(two.next_a().cookie == 2);
    std::size_t sent = 0, placed = 0; // when the send left, and when the read's last bytes came
    for (std::size_t i = 0; i < two.host.transactions.size(); ++i) {
        const Crossing &transaction = two.host.transactions[i];
        const bool data = transaction.kind == RNIC_TRANSACTION_FRAME_SENT &&
                          (transaction.bytes_moved[14] & 15) == RNIC_EFE_TYPE_DATA;
        sent = data && (transaction.bytes_moved[63] & 15) == 3 ? i : sent;
        placed = transaction.kind == RNIC_TRANSACTION_DMA_WRITE && transaction.bytes > 64 ? i : placed;
    }
    REQUIRE(sent > 0);
    CHECK((sent > placed) == fence);
}

TEST_CASE("an RDMA Read beyond the peer's slots ends the connection", "[card]")
{
    Setup setup;
    setup.connected = false;
    setup.two_cards = true;
    Two two(setup);
    Modify to_a = towards(two.a, two.pair->qp_a);
    to_a.ird = 1;
    REQUIRE(two.b.modify(two.pair->qp_b, to_a).status == RNIC_STATUS_OK);
    REQUIRE(two.a.modify(two.pair->qp_a, towards(two.b, two.pair->qp_b)).status == RNIC_STATUS_OK);
    for (unsigned n = 0; n < 8; ++n) {
        Work work = two.read(7000, 0, n);
        work.segments = {two.in_a(7000 * n, 7000)};
        two.a.post(two.pair->qp_a, work, false);
    }
    two.a.ring(two.pair->qp_a);
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_READ_LIMIT);
    const Completion answer = two.a.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_a);
    CHECK(answer.info == RNIC_QP_STATE_ERROR);
    CHECK(answer.length == RNIC_ERROR_REMOTE_OTHER); // what the peer's Terminate told
}
