// SPDX-License-Identifier: MIT
//
// Sends: from an entry in one function's ring to bytes in another's memory.
#include <catch2/catch.hpp>
#include <cstring>

#include "devices/host.hpp"

using namespace card;

namespace {

struct Two {
    Two(unsigned level, bool big_a, bool big_b) : a(host, 0, big_a), b(host, 1, big_b)
    {
        a.enable();
        b.enable();
        pair = std::make_unique<Pair>(a, b, level);
        from_tag = a.memory(65536, &from);
        to_tag = b.memory(65536, &to);
        for (unsigned i = 0; i < 65536; ++i) {
            a.at(from)[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
        }
    }
    Host host;
    Driver a, b;
    std::unique_ptr<Pair> pair;
    std::uint64_t from = 0, to = 0;
    std::uint32_t from_tag = 0, to_tag = 0;
};

Work receive(const Two &two, std::uint32_t length, std::uint32_t cookie)
{
    Work work;
    work.opcode = RNIC_WORK_RECEIVE;
    work.cookie = cookie;
    work.segments = {{two.to, length, two.to_tag}};
    return work;
}

Work send(const Two &two, std::uint32_t length, std::uint32_t cookie)
{
    Work work;
    work.cookie = cookie;
    work.segments = {{two.from, length, two.from_tag}};
    return work;
}

} // namespace

TEST_CASE("a send fills the oldest receive of the peer and both complete", "[card]")
{
    const unsigned level = GENERATE(0u, 1u, 2u);
    const bool big_a = GENERATE(false, true), big_b = GENERATE(false, true);
    const std::uint32_t bytes = GENERATE(0u, 1u, 1000u, 1500u, 65536u);
    Two two(level, big_a, big_b);
    two.pair->connect();
    two.b.post(two.pair->qp_b, receive(two, 65536, 71));
    two.a.post(two.pair->qp_a, send(two, bytes, 41));
    two.host.run();
    Completion got;
    REQUIRE(two.b.poll(two.pair->cq_b, &got));
    CHECK(got.status == RNIC_STATUS_OK);
    CHECK(got.opcode == RNIC_WORK_RECEIVE);
    CHECK(got.qp == two.pair->qp_b);
    CHECK(got.cookie == 71);
    CHECK(got.length == bytes);
    CHECK(got.flags == 0);
    CHECK(got.info == 1);
    CHECK(std::memcmp(two.a.at(two.from), two.b.at(two.to), bytes) == 0);
    two.host.run_for(10000000);
    REQUIRE(two.a.poll(two.pair->cq_a, &got));
    CHECK(got.status == RNIC_STATUS_OK);
    CHECK(got.opcode == RNIC_WORK_SEND);
    CHECK(got.cookie == 41);
    CHECK(got.length == bytes);
    CHECK(got.info == 1);
    CHECK_FALSE(two.a.poll(two.pair->cq_a, &got));
    CHECK_FALSE(two.b.poll(two.pair->cq_b, &got));
}
