// SPDX-License-Identifier: MIT
//
// In which order the card touches memory, and how.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

bool is_in(const Crossing &transaction, std::uint64_t at, std::uint64_t bytes)
{
    return transaction.address >= at && transaction.address < at + bytes;
}

/** The DMA writes and interrupts of one function. */
std::vector<Crossing> writes_of(const Host &host, unsigned fn)
{
    std::vector<Crossing> all;
    for (const Crossing &transaction : host.transactions) {
        if (transaction.fn == fn && (transaction.kind == RNIC_TRANSACTION_DMA_WRITE ||
                                     transaction.kind == RNIC_TRANSACTION_INTERRUPT)) {
            all.push_back(transaction);
        }
    }
    return all;
}

} // namespace

TEST_CASE("payload, entry, OWNER, interrupt, in this order", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.big_b = GENERATE(false, true);
    const unsigned kind = GENERATE(0u, 1u, 2u);
    Two two(setup);
    two.b.arm(two.pair->cq_b);
    two.host.run();
    two.host.record = true;
    two.post_b(two.receive(5000));
    Work work = kind == 2 ? two.write(4000) : two.send(4000);
    work.flags = kind == 0 ? 0u : static_cast<unsigned>(RNIC_WORK_FLAG_IMMEDIATE);
    two.post_a(work);
    two.next_b();
    const std::vector<Crossing> all = writes_of(two.host, two.b.fn);
    REQUIRE(all.size() >= 4);
    const std::size_t n = all.size();
    for (std::size_t i = 0; i + 3 < n; ++i) {
        CHECK(is_in(all[i], two.mem_b, 4000));
    }
    const std::uint64_t entry = two.b.cqs[two.pair->cq_b].base;
    CHECK(all[n - 3].address == entry);
    CHECK(all[n - 3].bytes == RNIC_CQE_OWNER);
    CHECK(all[n - 2].address == entry + RNIC_CQE_OWNER);
    CHECK(all[n - 2].bytes == 4);
    CHECK(rnic_get32(all[n - 2].bytes_moved.data(), setup.big_b) == 1);
    CHECK(all[n - 1].kind == RNIC_TRANSACTION_INTERRUPT);
    CHECK(all[n - 1].value == 1);
}

TEST_CASE("tagged data lands in the order of addresses, and aligned items are never cut", "[card]")
{
    const std::uint32_t offset = GENERATE(0u, 1u, 3u, 4u, 7u, 12u);
    const std::uint32_t bytes = GENERATE(3000u, 20001u);
    Setup setup;
    setup.config.mtu = GENERATE(576u, 1500u, 9000u);
    Two two(setup);
    two.host.record = true;
    two.post_a(two.write(bytes, offset));
    two.next_a();
    std::uint64_t next = two.mem_b + offset;
    const std::uint64_t end = next + bytes;
    for (const Crossing &transaction : writes_of(two.host, two.b.fn)) {
        REQUIRE(transaction.address == next);
        next += transaction.bytes;
        CHECK((next % 8 == 0 || next == end));
    }
    CHECK(next == end);
}

TEST_CASE("what a send completes for has been received", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    two.host.record = true;
    two.post_b(two.receive(5000));
    two.post_a(two.send(4000));
    two.next_a();
    std::size_t received = 0, sent = 0;
    for (std::size_t i = 0; i < two.host.transactions.size(); ++i) {
        const Crossing &transaction = two.host.transactions[i];
        if (transaction.kind == RNIC_TRANSACTION_DMA_WRITE && transaction.bytes == 4) {
            (transaction.fn == 1 ? received : sent) = i;
        }
    }
    CHECK(received > 0);
    CHECK(received < sent);
}

TEST_CASE("a ring's entry is copied once", "[card]")
{
    Two two;
    two.host.record = true;
    two.post_b(two.receive(20000));
    two.post_a(two.send(20000));
    two.next_b();
    two.next_a();
    unsigned reads[2] = {0, 0};
    for (const Crossing &transaction : two.host.transactions) {
        const bool sq = transaction.fn == 0 && is_in(transaction, two.a.qps[two.pair->qp_a].sq.base, 1024);
        const bool rq = transaction.fn == 1 && is_in(transaction, two.b.qps[two.pair->qp_b].rq.base, 1024);
        reads[0] += transaction.kind == RNIC_TRANSACTION_DMA_READ && sq;
        reads[1] += transaction.kind == RNIC_TRANSACTION_DMA_READ && rq;
    }
    CHECK(reads[0] == 1);
    CHECK(reads[1] == 1);
}

TEST_CASE("no DMA and no interrupt while Bus Master Enable is clear", "[card]")
{
    Two two;
    two.post_b(two.receive(64));
    two.host.run();
    rnic_card_config_write(&two.host.card, 1, 4, 2, 2);
    two.host.record = true;
    two.post_a(two.send(8));
    two.host.run_for(1000000);
    for (const Crossing &transaction : writes_of(two.host, 1)) {
        CHECK(transaction.failed);
        CHECK(transaction.kind == RNIC_TRANSACTION_DMA_WRITE);
    }
    CHECK((two.host.reg(1, RNIC_REG_STATUS) & RNIC_STATUS_CATASTROPHIC) != 0);
}
