// SPDX-License-Identifier: MIT
//
// Several processes wait for one discriminator, now and then or all the time, and some are killed.
// Whatever the moment: one of them gets the request, and what that one says is what the requester
// hears.
#include "stress.hpp"

#include "census.hpp"

using namespace stress;

namespace {

struct Board {
    std::atomic<unsigned> rejected, accepted, late;
    std::atomic<VIP_RETURN> late_code;
    std::atomic<bool> stop;
    std::atomic<pid_t> holder; // has the request of the case, and does not answer
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

/** Take a request and keep it, to be killed with it. */
void hold_a_request(const Scene &scene, Line &line)
{
    const Nic nic;
    NetAddress local = nic.address(scene.name());
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    line.sync();
    REQUIRE_VIP(VipConnectWait(nic, local, 10 * patience(), from, &attributes, &connection));
    shared<Board>().holder = getpid();
    line.sync(); // which never comes
}

/** Reject every request that comes, but for those that another process gets, until it is told to
 * stop. */
void reject_all(const Scene &scene, Line &line)
{
    Board &ring = shared<Board>();
    const Nic nic;
    NetAddress local = nic.address(scene.name());
    NetAddress from;
    line.sync();
    while (!ring.stop) {
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        if (VipConnectWait(nic, local, short_while(), from, &attributes, &connection) == VIP_SUCCESS) {
            ring.rejected++;
            REQUIRE_VIP(VipConnectReject(connection));
        }
    }
    line.sync();
}

/** Look once, when it is told to, and reject what is there. */
void look_once(const Scene &scene, Line &line)
{
    const Nic nic;
    NetAddress local = nic.address(scene.name());
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    line.sync();
    REQUIRE_VIP(VipConnectWait(nic, local, 0, from, &attributes, &connection));
    REQUIRE_VIP(VipConnectReject(connection));
    line.sync();
}

Board &fresh_board()
{
    Board &ring = shared<Board>();
    ring.rejected = ring.accepted = ring.late = 0;
    ring.stop = false;
    ring.holder = 0;
    return ring;
}

} // namespace

TEST_CASE("a request whose program was killed is rejected by the next one", "[taken]")
{
    Board &ring = fresh_board();
    const Scene scene = make_scene();
    Child holder(hold_a_request, scene);
    holder.line.sync();
    const Nic nic;
    const Vi vi(nic);
    VIP_RETURN rc = VIP_NOT_DONE;
    std::thread requester([&] { rc = request_to(nic, scene.name(), vi, 10 * patience()); });
    await([&] { return ring.holder != 0; });
    Child next(reject_all, scene);
    next.line.sync(); // it waits, but does not get what another has
    CHECK(ring.rejected == 0);
    holder.kill();
    requester.join();
    CHECK(rc == VIP_REJECT);
    CHECK(ring.rejected == 1);
    ring.stop = true;
    next.line.sync();
    next.finish();
}

TEST_CASE("of two processes that wait all the time one gets each request", "[taken]")
{
    Board &ring = fresh_board();
    const Scene scene = make_scene();
    Child first(reject_all, scene), second(reject_all, scene);
    first.line.sync();
    second.line.sync();
    const Nic nic;
    const Vi vi(nic);
    unsigned rounds = 0;
    const unsigned long long end = now_ms() + 1000ull * 20;
    for (; rounds < 1000 && now_ms() < end; ++rounds) {
        REQUIRE_RC(VIP_REJECT, request_to(nic, scene.name(), vi, 10 * patience()));
    }
    ring.stop = true;
    for (Child *child : {&first, &second}) {
        child->line.sync();
        child->finish();
    }
    std::cout << rounds << " rounds" << std::endl;
    CHECK(ring.rejected == rounds);
}

TEST_CASE("a process that looks for the first time finds a request that is there, with timeout 0", "[taken]")
{
    const Scene scene = make_scene();
    Child looker(look_once, scene);
    const Nic nic;
    const Vi vi(nic);
    VIP_RETURN rc = VIP_NOT_DONE;
    std::thread requester([&] { rc = request_to(nic, scene.name(), vi, 10 * patience()); });
    await([&] { return count_sockets(scene.name()) > 0; }); // it has a pending socket
    looker.line.sync();
    looker.line.sync();
    looker.finish();
    requester.join();
    CHECK(rc == VIP_REJECT);
}

TEST_CASE("a request that several processes could have is answered by the one that took it", "[taken]")
{
    Board &ring = fresh_board();
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
