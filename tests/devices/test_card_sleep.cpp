// SPDX-License-Identifier: MIT
//
// Sleeping and waking: a post is never overlooked, in whatever order the two sides' steps come.
#include <catch2/catch.hpp>
#include <set>

#include "devices/two.hpp"

using namespace card;

namespace {

/** The protocol's shared words and both sides' places in it. Stores are seen at once: what fences
 * are for is below. */
struct World {
    bool doorbell = false, hint = false, asleep = false, wake = false;
    bool hint_pending = false, asleep_pending = false; ///< stores that have not left the processor's buffer
    unsigned driver = 0, device = 0;
    bool saw = false; ///< the device has the post
    auto key() const
    {
        return std::make_tuple(doorbell, hint, asleep, wake, hint_pending, asleep_pending, driver, device,
                               saw);
    }
    bool operator<(const World &other) const { return key() < other.key(); }
};

/** The driver: store doorbell; store hint; fence; load ASLEEP; if it is set, WAKE. */
bool step_driver(World &w, bool fences)
{
    switch (w.driver) {
    case 0:
        w.doorbell = true;
        ++w.driver;
        return true;
    case 1:
        (fences ? w.hint : w.hint_pending) =
            true; // without the fence the store may leave later than the load below
        ++w.driver;
        return true;
    case 2:
        w.wake = w.wake || w.asleep;
        ++w.driver;
        return true;
    default:
        return false;
    }
}

/** The device: store ASLEEP; fence; look at hints; if there is one, go on; else sleep until
 * WAKE. */
bool step_device(World &w, bool fences)
{
    switch (w.device) {
    case 0:
        (fences ? w.asleep : w.asleep_pending) = true;
        ++w.device;
        return true;
    case 1:
        w.saw = w.hint && w.doorbell;
        w.device = w.saw ? 3 : 2;
        return true;
    case 2: // asleep
        if (!w.wake) {
            return false;
        }
        w.asleep = false;
        w.saw = w.hint && w.doorbell;
        w.device = 3;
        return true;
    default:
        return false;
    }
}

/** Everything that can become of it; the worlds in which both sides have come to rest. */
std::set<World> all_ends(bool fences)
{
    std::set<World> seen, ends;
    std::vector<World> open = {World()};
    while (!open.empty()) {
        const World world = open.back();
        open.pop_back();
        if (!seen.insert(world).second) {
            continue;
        }
        bool any = false;
        for (unsigned what = 0; what < 4; ++what) {
            World next = world;
            bool moved = what == 0   ? step_driver(next, fences)
                         : what == 1 ? step_device(next, fences)
                                     : false;
            if (what == 2 && next.hint_pending) {
                next.hint_pending = false;
                moved = next.hint = true;
            } else if (what == 3 && next.asleep_pending) {
                next.asleep_pending = false;
                moved = next.asleep = true;
            }
            if (moved) {
                any = true;
                open.push_back(next);
            }
        }
        if (!any) {
            ends.insert(world);
        }
    }
    return ends;
}

bool loses(const std::set<World> &ends)
{
    for (const World &end : ends) {
        if (!end.saw) {
            return true;
        }
    }
    return false;
}

std::uint32_t asleep(Two &two)
{
    return two.a.load(RNIC_DB_ASLEEP);
}

} // namespace

TEST_CASE("the sleep protocol loses no post with its fences, and would without", "[card]")
{
    CHECK_FALSE(loses(all_ends(true)));
    CHECK(loses(all_ends(false)));
}

TEST_CASE("the card sleeps when there is nothing to do, and says so", "[card]")
{
    Two two;
    two.host.run_for(100000000);
    REQUIRE(rnic_card_sleep(&two.host.card));
    CHECK(asleep(two) == 1);
    CHECK(two.b.load(RNIC_DB_ASLEEP) == 1);
    rnic_card_wake(&two.host.card);
    CHECK(asleep(two) == 0);
    CHECK(two.b.load(RNIC_DB_ASLEEP) == 0);
}

TEST_CASE("a post of any kind keeps the card awake, and is found when it is woken", "[card]")
{
    Setup setup;
    setup.big_a = GENERATE(false, true);
    const unsigned what = GENERATE(0u, 1u, 2u, 3u, 4u);
    const bool before = GENERATE(false, true); // or while it sleeps
    Two two(setup);
    two.post_b(two.receive(64));
    two.host.run_for(100000000);
    rnic_card *const card = &two.host.card;
    if (!before) {
        REQUIRE(rnic_card_sleep(card));
        CHECK(asleep(two) == 1);
    }
    const std::uint32_t interrupts = two.host.interrupts[0][1];
    if (what == 0) {
        two.post_a(two.send(8));
    } else if (what == 1) {
        two.a.post_command(two.a.command(RNIC_COMMAND_NOP));
    } else if (what == 2) {
        two.post_a(two.write(8));
        two.host.run(); // something to be armed for
        two.a.arm(two.pair->cq_a);
    } else if (what == 3) {
        two.a.store(RNIC_DB_EVENT_CONSUMER, 3);
    } else {
        rnic_card_bar_write(card, 0, 2, RNIC_DB_QP + 64 * two.pair->qp_a, 4, 0); // by the bus: any access
    }
    if (before) {
        CHECK_FALSE(rnic_card_sleep(card));
        CHECK(asleep(two) == 0);
    } else {
        two.host.set_reg(0, RNIC_REG_WAKE, 1);
        rnic_card_wake(card);
        CHECK(two.host.reg(0, RNIC_REG_WAKES_LO) == 1);
    }
    two.host.run();
    Completion got;
    CHECK((what != 0 || two.b.poll(two.pair->cq_b, &got)));
    CHECK((what != 1 || two.a.answered(&got)));
    CHECK((what != 2 || two.host.interrupts[0][1] > interrupts));
}

TEST_CASE("a garbled ASLEEP hurts nobody", "[card]")
{
    Two two;
    two.a.store(RNIC_DB_ASLEEP, 0x12345678);
    two.post_b(two.receive(64));
    two.post_a(two.send(8));
    CHECK(two.next_b().status == 0);
}

TEST_CASE("a card that has more to do wants to be called at once, and does not sleep", "[card]")
{
    Two two;
    for (unsigned i = 0; i < 16; ++i) {
        two.a.post(two.pair->qp_a, two.write(65536), false);
    }
    two.a.ring(two.pair->qp_a);
    two.host.record = true;
    rnic_card_advance(&two.host.card, two.host.now);
    CHECK(two.host.transactions.size() < 3000); // a bounded amount of work
    CHECK(rnic_card_deadline(&two.host.card) <= two.host.now);
    CHECK_FALSE(rnic_card_sleep(&two.host.card));
    two.host.run_for(10000000);
    CHECK(two.a.drain(two.pair->cq_a).size() == 16);
}
