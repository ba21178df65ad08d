// SPDX-License-Identifier: MIT
//
// Two processes wait for one discriminator now and then, so that a request moves from one that has stopped waiting
// to one that waits. Whatever the moment: one of them gets it, and what that one says is what the requester hears.
#include "stress.hpp"

using namespace stress;

namespace {

struct Board {
    std::atomic<unsigned> rejected, accepted, late;
    std::atomic<VIP_RETURN> late_code;
    std::atomic<bool> stop;
};

void answer_now_and_then(const Scene &scene, Line &line)
{
    Board &ring = shared<Board>();
    Random random = scene.random();
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address(scene.name());
    NetAddress from;
    line.sync();
    while (!ring.stop) {
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        if (VipConnectWait(nic, local, static_cast<VIP_ULONG>(below(random, 3)), from, &attributes,
                           &connection) == VIP_SUCCESS) {
            if (below(random, 2) == 0) {
                ring.rejected++;
                REQUIRE_VIP(VipConnectReject(connection));
            } else {
                const VIP_RETURN rc = VipConnectAccept(connection, vi);
                (rc == VIP_SUCCESS ? ring.accepted : ring.late)++;
                ring.late_code = rc == VIP_SUCCESS ? ring.late_code.load() : rc;
                REQUIRE_VIP(VipDisconnect(vi));
            }
        } else if (below(random, 2) == 0) {
            poll(nullptr, 0, static_cast<int>(below(random, 3)));
        }
    }
    line.sync();
}

} // namespace

TEST_CASE("a request that several processes could have is answered by the one that took it", "[taken]")
{
    Board &ring = shared<Board>();
    ring.rejected = ring.accepted = ring.late = 0;
    ring.stop = false;
    Scene scene = make_scene();
    Child first(answer_now_and_then, scene);
    scene.seed++;
    Child second(answer_now_and_then, scene);
    scene.seed++;
    Child third(answer_now_and_then, scene);
    for (Child *child : {&first, &second, &third}) {
        child->line.sync();
    }
    const Nic nic;
    unsigned rejected = 0, accepted = 0;
    const unsigned long long end = now_ms() + 1000ull * std::min(seconds(), 4u);
    while (now_ms() < end) {
        const Vi vi(nic);
        const VIP_RETURN rc = request_to(nic, scene.name(), vi, 10 * patience());
        EXPECT(rc == VIP_REJECT || rc == VIP_SUCCESS);
        (rc == VIP_REJECT ? rejected : accepted)++;
        REQUIRE_VIP(VipDisconnect(vi));
    }
    ring.stop = true;
    for (Child *child : {&first, &second, &third}) {
        child->line.sync();
        child->finish();
    }
    std::cout << accepted << " connections, " << rejected << " rejections; said: " << ring.accepted << ", "
              << ring.rejected << ", too late " << ring.late << " (" << ring.late_code << ")" << std::endl;
    CHECK(ring.rejected == rejected);
    CHECK(ring.accepted == accepted);
    CHECK(ring.late == 0);
}
