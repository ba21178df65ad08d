// SPDX-License-Identifier: MIT
//
// 64 VIs between two sides, all operations at once, at both levels that guarantee delivery:
// VIPL_STRESS_TURNS turns of exchange.hpp. What the wire loses, doubles, changes or reorders, if it
// does, is seen by nobody.
#include "exchange.hpp"

#include <memory>

#include "partner.hpp"

using namespace stress;

namespace {

constexpr unsigned kVis = 64;
constexpr VIP_RELIABILITY_LEVEL kGuaranteed[] = {VIP_SERVICE_RELIABLE_DELIVERY,
                                                 VIP_SERVICE_RELIABLE_RECEPTION};

using Exchanges = std::vector<std::unique_ptr<Exchange>>;

/** VIs of both levels by turns. Each side's numbers are its own. */
Exchanges make_exchanges(const Nic &nic, unsigned first)
{
    Exchanges all;
    for (unsigned i = 0; i < kVis; ++i) {
        all.push_back(std::make_unique<Exchange>(nic, first + i, kGuaranteed[i % 2]));
    }
    return all;
}

void take_turns(const Exchanges &all)
{
    for (const auto &one : all) {
        EXPECT(one->greet());
    }
    const unsigned turns = times("VIPL_STRESS_TURNS", 100);
    for (unsigned turn = 0; turn < turns; ++turn) {
        for (const auto &one : all) {
            one->post();
        }
        for (const auto &one : all) {
            EXPECT(one->collect());
        }
    }
}

void other_side(const Scene &scene, Line &line)
{
    const Nic nic;
    const Exchanges all = make_exchanges(nic, 1000);
    for (const auto &one : all) {
        REQUIRE_VIP(request_to(nic, scene.name(), one->vi));
    }
    take_turns(all);
    line.sync();
}

void exchange_all(Where where)
{
    const Scene scene = make_scene();
    Partner partner(where, other_side, scene);
    const Nic nic;
    const Exchanges all = make_exchanges(nic, 1);
    for (const auto &one : all) {
        REQUIRE_VIP(accept_on(nic, scene.name(), one->vi));
    }
    take_turns(all);
    partner.line().sync();
    partner.finish();
    std::cout << kVis << " VIs, " << all.front()->turns() << " turns each" << std::endl;
}

} // namespace

TEST_CASE("64 VIs exchange everything in one process, and every byte is right", "[exchange][inproc]")
{
    exchange_all(Where::thread);
}

TEST_CASE("64 VIs exchange everything between processes, and every byte is right", "[exchange][procs]")
{
    exchange_all(Where::process);
}
