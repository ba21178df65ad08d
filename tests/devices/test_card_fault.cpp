// SPDX-License-Identifier: MIT
//
// Cards that fail on command: what each fault looks like from the driver's side.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

bool plan(Two &two, const std::string &text)
{
    char error[200] = "";
    return rnic_card_faults(&two.host.card, text.c_str(), error, sizeof error);
}

void send_one(Two &two, std::uint32_t cookie = 1)
{
    two.post_b(two.receive(6000, cookie));
    two.post_a(two.send(5000, cookie));
}

std::uint64_t late(std::uint32_t ms)
{
    return ms * 1000000ull;
}

} // namespace

TEST_CASE("plans of faults that are none are refused and change nothing", "[card]")
{
    Two two;
    REQUIRE(plan(two, "dma_fail=@1"));
    for (const char *text :
         {"x", "dma_fail=", "dma_fail=2", "dma_fail=1.5", "dma_fail=@0", "dma_fail=@1/0", "dma_fail=@",
          "dma_fail=@1x", "dma_fail @1", ",", "dma_fail,,reset", "late=", "late=x", "late=4294967296", "seed",
          "DMA_FAIL", "dma_fail=-1", "dma_fail=0.5.5",
          "reset=@1234567890123456789012345678901234567890123456789012345678901234567890"}) {
        INFO(text);
        char error[200] = "";
        CHECK_FALSE(rnic_card_faults(&two.host.card, text, error, sizeof error));
        CHECK(std::string(error).find("character") == 0);
    }
    std::string many = "reset=@999";
    for (unsigned i = 0; i < 16; ++i) {
        many += ",reset=@999";
    }
    CHECK_FALSE(plan(two, many));
    CHECK(plan(
        two, "seed=7,late=5,dma_fail=0.5,dma_poison=.25,interrupt_lost=@3/4,reset=0,removed=0,link_down=@7"));
    CHECK(plan(two, ""));
    send_one(two);
    CHECK(two.next_b().status == 0);
}

TEST_CASE("fault dma_fail: the chosen DMA is refused", "[card]")
{
    Two two;
    REQUIRE(plan(two, "dma_fail=@3")); // 1: the send's entry; 2, 3: its memory, a frame each
    send_one(two);
    const Completion got = two.next_a();
    CHECK(got.status == RNIC_STATUS_LOCAL_PROTECTION);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_DMA);
    CHECK(two.host.reg(0, RNIC_REG_DMA_FAILED_LO) == 1);
}

TEST_CASE("fault dma_poison: wrong bytes come", "[card]")
{
    Two two;
    REQUIRE(plan(two, "dma_poison=@2"));
    send_one(two);
    CHECK(two.next_b().status == 0);
    CHECK_FALSE(two.same(0, 0, 1400));
    CHECK(two.same(1500, 1500, 3500));
}

TEST_CASE("faults dma_late and doorbell_late: the function is late, its neighbours are not", "[card]")
{
    Two two;
    Pair other(two.b, two.b, 1);
    other.connect();
    const bool doorbell = GENERATE(false, true);
    REQUIRE(plan(two, doorbell ? "doorbell_late=@1,late=50000" : "dma_late=@1,late=50000"));
    two.post_a(two.write(5000));
    two.host.run_for(late(1));
    two.b.post(other.qp_a, two.write(0, 0, 3));
    two.host.run_for(late(40));
    Completion got;
    CHECK(two.b.poll(other.cq_a, &got));
    CHECK_FALSE(two.a.poll(two.pair->cq_a, &got));
    two.host.run_for(late(20));
    REQUIRE(two.a.poll(two.pair->cq_a, &got));
    CHECK(got.status == 0);
}

TEST_CASE("fault completion_late: the entry comes late, and those behind it do not overtake it", "[card]")
{
    Two two;
    two.b.arm(two.pair->cq_b);
    two.host.run();
    REQUIRE(plan(two, "completion_late=@1,late=30000"));
    for (std::uint32_t i = 0; i < 3; ++i) {
        send_one(two, i);
    }
    two.host.run_for(late(29));
    Completion got;
    CHECK_FALSE(two.b.poll(two.pair->cq_b, &got));
    CHECK(two.host.interrupts[1][1] == 0);
    two.host.run_for(late(2));
    const std::vector<Completion> all = two.b.drain(two.pair->cq_b);
    REQUIRE(all.size() == 3);
    for (std::uint32_t i = 0; i < 3; ++i) {
        CHECK(all[i].cookie == i);
    }
    CHECK(two.host.interrupts[1][1] == 1);
}

TEST_CASE("faults of interrupts: lost, late, spurious", "[card]")
{
    Two two;
    two.b.arm(two.pair->cq_b);
    two.host.run();
    const unsigned which = GENERATE(0u, 1u, 2u);
    const char *const names[] = {"interrupt_lost=@1", "interrupt_late=@1,late=20000",
                                 "interrupt_spurious=@1"};
    REQUIRE(plan(two, names[which]));
    send_one(two);
    two.host.run_for(late(10));
    CHECK(two.host.interrupts[1][1] == (which == 2 ? 2u : 0u));
    CHECK((two.host.reg(1, RNIC_REG_INT_CAUSE) & 2) == 2);
    two.host.run_for(late(15));
    CHECK(two.host.interrupts[1][1] == (which == 2 ? 2u : which));
}

TEST_CASE("faults of commands: one fails, one is never answered", "[card]")
{
    Two two;
    REQUIRE(plan(two, "command_fail=@1,command_timeout=@3"));
    CHECK(two.a.simple(RNIC_COMMAND_NOP, 0).status == RNIC_STATUS_DMA);
    CHECK(two.a.simple(RNIC_COMMAND_NOP, 0).status == 0);
    two.a.post_command(two.a.command(RNIC_COMMAND_NOP));
    two.a.post_command(two.a.command(RNIC_COMMAND_NOP));
    two.host.run_for(late(2000));
    Completion got;
    CHECK_FALSE(two.a.answered(&got));
    CHECK(two.b.simple(RNIC_COMMAND_NOP, 0).status == 0);
    two.host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    two.a.commands.index = two.a.answers.index = 0;
    std::memset(two.a.at(two.a.answers.base), 0, 16 * RNIC_COMPLETION_BYTES);
    two.a.enable();
    CHECK(two.a.simple(RNIC_COMMAND_NOP, 0).status == 0);
}

TEST_CASE("fault removed: registers read all ones, and nothing happens any more", "[card]")
{
    Two two;
    REQUIRE(plan(two, "removed=@2"));
    CHECK(two.host.reg(0, RNIC_REG_ID) == RNIC_ID_VALUE);
    CHECK(two.host.reg(0, RNIC_REG_ID) == 0xFFFFFFFF);
    CHECK(two.host.reg(1, RNIC_REG_STATUS) == 0xFFFFFFFF);
    CHECK(rnic_card_config_read(&two.host.card, 0, 0, 4) == 0xFFFFFFFF);
    CHECK(rnic_card_bar_read(&two.host.card, 0, 0, 0, 8) == UINT64_MAX);
    CHECK(rnic_card_bar_read(&two.host.card, 0, 2, 0, 2) == 0xFFFF);
    two.host.record = true;
    send_one(two);
    two.host.run_for(late(100));
    CHECK(two.host.transactions.empty());
    CHECK(rnic_card_deadline(&two.host.card) == UINT64_MAX);
}

TEST_CASE("who looks at a card from outside makes no fault happen, and does not get into the log", "[card]")
{
    Two two;
    REQUIRE(plan(two, "removed=@1"));
    two.host.record = true;
    CHECK(rnic_card_look(&two.host.card, 0, RNIC_REG_ID) == RNIC_ID_VALUE);
    CHECK(two.host.transactions.empty());
    CHECK(two.host.reg(0, RNIC_REG_ID) == 0xFFFFFFFF); // the first read
    CHECK(rnic_card_look(&two.host.card, 0, RNIC_REG_ID) == 0xFFFFFFFF);
}

TEST_CASE("fault reset: the function is as after a reset, its peer has lost it", "[card]")
{
    Two two;
    two.post_a(two.write(8));
    two.next_a();
    REQUIRE(plan(two, "reset=@2"));
    send_one(two);
    two.host.run_for(late(10));
    CHECK((two.host.reg(0, RNIC_REG_STATUS) & RNIC_STATUS_ENABLED) == 0);
    CHECK(two.host.reg(0, RNIC_REG_QPS_USED) == 0);
    CHECK(rnic_card_has_lost(&two.host.card, 0));
    CHECK_FALSE(rnic_card_has_lost(&two.host.card, 1));
    CHECK(rnic_card_has_lost_any(&two.host.card));
    two.host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    CHECK_FALSE(rnic_card_has_lost_any(&two.host.card));
    const std::vector<Completion> rest = two.b.drain(two.pair->cq_b);
    REQUIRE(!rest.empty());
    CHECK(rest.back().opcode == RNIC_WORK_DRAINED);
    CHECK(two.b.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_b).length == RNIC_ERROR_CONNECTION_LOST);
}

TEST_CASE("fault link_down: drivers are told twice, and nothing is lost", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    REQUIRE(plan(two, "link_down=@2,late=30000"));
    send_one(two);
    two.host.run_for(late(5));
    CHECK((two.host.reg(0, RNIC_REG_STATUS) & RNIC_STATUS_LINK_UP) == 0);
    CHECK(Two::event_of(two.a).kind == RNIC_EVENT_LINK);
    CHECK(two.next_b().length == 5000);
    CHECK(two.next_a().status == 0);
    two.host.run_for(late(100));
    CHECK((two.host.reg(0, RNIC_REG_STATUS) & RNIC_STATUS_LINK_UP) != 0);
    CHECK(Two::event_of(two.a).kind == RNIC_EVENT_LINK);
    CHECK(two.host.reg(0, RNIC_REG_RESENT_LO) > 0);
}

TEST_CASE("fault removed: frames that come find no card", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    const Bytes before(two.b.at(two.mem_b), two.b.at(two.mem_b + 8));
    char error[200] = "";
    REQUIRE(rnic_card_faults(&two.other->card, "removed=@1", error, sizeof error));
    REQUIRE(two.other->reg(0, RNIC_REG_ID) == 0xFFFFFFFF);
    two.other->record = true;
    two.post_a(two.write(8));
    two.host.run_for(late(100));
    CHECK((Bytes(two.b.at(two.mem_b), two.b.at(two.mem_b + 8)) == before));
    CHECK(two.other->transactions.empty());
    CHECK(two.other->wire.empty());
}
