// SPDX-License-Identifier: MIT
//
// Arming, MSI-X, masks, moderation.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

/** One message to b, whose completion queue may fire vector 1. */
void send_one(Two &two)
{
    two.post_b(two.receive(64));
    two.post_a(two.send(8));
    two.host.run_for(100);
}

unsigned fired(Two &two, unsigned vector = 1)
{
    return two.host.interrupts[two.b.fn][vector];
}

} // namespace

TEST_CASE("an armed queue fires once", "[card]")
{
    Two two;
    send_one(two);
    CHECK(fired(two) == 0);
    two.b.drain(two.pair->cq_b);
    two.b.arm(two.pair->cq_b);
    two.host.run();
    CHECK(fired(two) == 0);
    send_one(two);
    CHECK(fired(two) == 1);
    send_one(two);
    CHECK(fired(two) == 1);
    two.b.arm(two.pair->cq_b); // entries that were not taken: at once
    two.host.run();
    CHECK(fired(two) == 2);
    two.b.drain(two.pair->cq_b);
    two.b.hint(RNIC_DB_CQ_HINTS, two.pair->cq_b); // the counter has not changed
    two.host.run();
    send_one(two);
    CHECK(fired(two) == 2);
    CHECK((two.host.reg(1, RNIC_REG_INT_CAUSE) & 2) == 2);
    two.host.set_reg(1, RNIC_REG_INT_CAUSE, 2);
    CHECK((two.host.reg(1, RNIC_REG_INT_CAUSE) & 2) == 0);
}

TEST_CASE("a queue is armed by another counter, not by a larger one", "[card]")
{
    Two two;
    for (const std::uint32_t counter : {0xFFFFFFFFu, 0u, 7u, 3u}) { // it wraps around
        const unsigned before = fired(two);
        two.b.arms[two.pair->cq_b] = counter - 1;
        two.b.arm(two.pair->cq_b);
        two.host.run();
        send_one(two);
        CHECK(fired(two) == before + 1);
        two.b.drain(two.pair->cq_b);
        two.b.hint(RNIC_DB_CQ_HINTS, two.pair->cq_b);
        two.host.run();
    }
}

TEST_CASE("a resized queue fires the vector that it was given then", "[card]")
{
    Two two;
    const std::uint64_t base = two.b.allocate(RNIC_COMPLETION_BYTES << 7);
    Bytes resize = two.b.command(RNIC_COMMAND_RESIZE_CQ, two.pair->cq_b);
    rnic_put16(&resize[RNIC_CMD_CQ_LOG2], 7, false);
    rnic_put16(&resize[RNIC_CMD_CQ_VECTOR], 9, false);
    rnic_put64(&resize[RNIC_CMD_CQ_BASE], base, false);
    REQUIRE(two.b.execute(resize).status == 0);
    two.b.arm(two.pair->cq_b);
    two.host.run();
    send_one(two);
    CHECK(fired(two, 9) == 1);
    CHECK(fired(two, 1) == 0);
}

TEST_CASE("a masked vector is pending and fires when it is unmasked", "[card]")
{
    Two two;
    rnic_card *const card = &two.host.card;
    const unsigned how = GENERATE(0u, 1u, 2u, 3u);
    two.b.arm(two.pair->cq_b);
    two.host.run();
    if (how == 0) {
        two.host.set_reg(1, RNIC_REG_INT_MASK, 2);
    } else if (how == 1) {
        two.host.set_reg(1, RNIC_MSIX_TABLE + 16 + 12, 1);
    } else if (how == 2) {
        rnic_card_config_write(card, 1, 0x42, 2, 0xC000);
    } else {
        rnic_card_config_write(card, 1, 0x42, 2, 0);
    }
    send_one(two);
    CHECK(fired(two) == 0);
    CHECK(two.host.reg(1, RNIC_MSIX_PBA) == 2);
    CHECK((two.host.reg(1, RNIC_REG_INT_CAUSE) & 2) == 2);
    two.host.set_reg(1, RNIC_REG_INT_MASK, 0);
    two.host.set_reg(1, RNIC_MSIX_TABLE + 16 + 12, 0);
    rnic_card_config_write(card, 1, 0x42, 2, 0x8000);
    CHECK(fired(two) == 1);
    CHECK(two.host.reg(1, RNIC_MSIX_PBA) == 0);
}

TEST_CASE("moderation delays, and loses nothing", "[card]")
{
    Two two;
    const unsigned count = GENERATE(0u, 3u);
    two.host.set_reg(1, RNIC_REG_INT_DELAY_US, 1000);
    two.host.set_reg(1, RNIC_REG_INT_COUNT, count);
    const auto round = [&] {
        two.b.arm(two.pair->cq_b);
        two.host.run();
        send_one(two);
        two.b.drain(two.pair->cq_b);
    };
    round();
    CHECK(fired(two) == 1);
    round();
    round();
    CHECK(fired(two) == 1);
    round();
    CHECK(fired(two) == (count == 0 ? 1u : 2u));
    two.host.run_for(2000000);
    CHECK(fired(two) == 2);
    round();
    CHECK(fired(two) == 3);
}

TEST_CASE("each event fires vector 0", "[card]")
{
    Two two;
    const unsigned before = fired(two, 0);
    two.post_a(two.send(8)); // no receive
    two.host.run_for(1000000);
    CHECK(fired(two, 0) == before + 1);
    CHECK(Two::event_of(two.b).kind == RNIC_EVENT_QP_ERROR);
}

TEST_CASE("answers to commands fire vector 0, unless the driver looks by itself", "[card]")
{
    const bool quiet = GENERATE(false, true);
    Host host;
    Driver driver(host, 0), other(host, 1);
    driver.enable(quiet ? std::uint32_t{RNIC_CTRL_QUIET} : 0);
    other.enable();
    CHECK(((host.reg(0, RNIC_REG_CTRL) & RNIC_CTRL_QUIET) != 0) == quiet);
    CHECK(driver.simple(RNIC_COMMAND_NOP, 0).status == RNIC_STATUS_OK);
    CHECK(driver.listen("d", 1).status == RNIC_STATUS_OK);
    CHECK(host.interrupts[0][0] == (quiet ? 0u : 2u));
    Bytes request(17);
    request[RNIC_CTL_KIND] = RNIC_CONTROL_REQUEST;
    request[RNIC_CTL_DISCRIMINATOR_LENGTH + 1] = 1;
    request[16] = 'd';
    REQUIRE(other.send_control(request, towards(driver, 0).mac.data(), RNIC_FUNCTION_ADAPTER).status == 0);
    host.run_for(1000000);
    CHECK(host.interrupts[0][0] == (quiet ? 1u : 3u)); // events do
    host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);  // too late
    CHECK(((host.reg(0, RNIC_REG_CTRL) & RNIC_CTRL_QUIET) != 0) == quiet);
    host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    CHECK(host.reg(0, RNIC_REG_CTRL) == 0);
}

TEST_CASE("the MSI-X table keeps what the system writes", "[card]")
{
    Host host;
    for (unsigned i = 0; i < RNIC_VECTORS; ++i) {
        const std::uint32_t at = RNIC_MSIX_TABLE + 16 * i;
        CHECK(host.reg(0, at + 12) == 1);
        host.set_reg(0, at, 0xFEE00003 + i);
        host.set_reg(0, at + 4, 7 * i);
        host.set_reg(0, at + 8, 0x4000 + i);
        host.set_reg(0, at + 12, 0xFFFFFFFE);
        CHECK(host.reg(0, at) == ((0xFEE00003 + i) & ~3u));
        CHECK(host.reg(0, at + 4) == 7 * i);
        CHECK(host.reg(0, at + 8) == 0x4000 + i);
        CHECK(host.reg(0, at + 12) == 0);
        CHECK(rnic_card_bar_read(&host.card, 0, 0, at, 8) ==
              (static_cast<std::uint64_t>(7 * i) << 32 | ((0xFEE00003 + i) & ~3u)));
    }
    host.set_reg(0, RNIC_MSIX_PBA, 0xFFFF);
    CHECK(host.reg(0, RNIC_MSIX_PBA) == 0);
    host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    CHECK(host.reg(0, RNIC_MSIX_TABLE + 8) == 0x4000); // only a function-level reset clears it
    rnic_card_config_write(&host.card, 0, 0x68, 2, 0x8000);
    CHECK(host.reg(0, RNIC_MSIX_TABLE + 8) == 0);
    CHECK(host.reg(0, RNIC_MSIX_TABLE + 12) == 1);
}
