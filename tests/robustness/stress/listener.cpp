// SPDX-License-Identifier: MIT
//
// A listener that is there and does not answer, because its process is stopped: a request is told
// so.
#include "stress.hpp"

using namespace stress;

namespace {

struct Board {
    std::atomic<pid_t> listener;
};

void listen_for_ever(const Scene &scene, Line &line)
{
    shared<Board>().listener = getpid();
    const Nic nic;
    NetAddress local = nic.address(scene.name());
    for (;;) {
        NetAddress from;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        if (VipConnectWait(nic, local, patience(), from, &attributes, &connection) == VIP_SUCCESS) {
            VipConnectReject(connection);
        }
        if (from.discriminator() == "enough") {
            break;
        }
    }
    line.sync();
}

VIP_RETURN request_as(const Nic &nic, const Scene &scene, const char *me, VIP_VI_HANDLE vi, VIP_ULONG timeout)
{
    NetAddress local = nic.address(me), remote = nic.address(scene.name());
    return VipConnectRequest(vi, local, remote, timeout, nullptr);
}

} // namespace

TEST_CASE("a request to a listener whose process is stopped is VIP_TIMEOUT, and without it VIP_NO_MATCH",
          "[listener]")
{
    const Scene scene = make_scene();
    Child child(listen_for_ever, scene);
    const Nic nic;
    const Vi vi(nic);
    REQUIRE_RC(VIP_REJECT, request_as(nic, scene, "me", vi, patience()));
    REQUIRE(::kill(shared<Board>().listener, SIGSTOP) == 0);
    REQUIRE_RC(VIP_TIMEOUT, request_as(nic, scene, "me", vi, short_while()));
    REQUIRE_RC(VIP_TIMEOUT, request_as(nic, scene, "me", vi, 10 * short_while())); // many rounds
    REQUIRE(::kill(shared<Board>().listener, SIGCONT) == 0);
    REQUIRE_RC(VIP_REJECT, request_as(nic, scene, "me", vi, patience()));
    REQUIRE_RC(VIP_REJECT, request_as(nic, scene, "enough", vi, patience()));
    child.line.sync();
    child.finish();
    REQUIRE_RC(VIP_NO_MATCH, request_as(nic, scene, "me", vi, short_while()));
}
