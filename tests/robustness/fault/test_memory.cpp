// SPDX-License-Identifier: MIT
//
// No memory: each call that allocates is repeated with its first, second, ... allocation failing
// until it succeeds. A failing attempt returns VIP_ERROR_RESOURCE, hands out nothing and changes
// nothing; what it was made of works afterwards. The address sanitizer sees that nothing is lost.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <vipl/posix.h>

#include "fault_scene.hpp"
#include "support/os_hooks.hpp"

extern "C" {
#include "os/os.h"
}

using namespace vipl_test;

namespace {

constexpr long kMost = 64; // no call allocates so often

/** Repeats the call, one allocation later each time; how many attempts failed, each as it
 * should. */
long failures(
    const std::function<VIP_RETURN()> &call, const std::function<void()> &unchanged = [] {})
{
    for (long count = 1; count < kMost; ++count) {
        vipl_alloc_fail_after(count);
        const VIP_RETURN rc = call();
        vipl_alloc_fail_after(-1);
        if (rc == VIP_SUCCESS) {
            return count - 1;
        }
        INFO("allocation " << count);
        REQUIRE_RC(VIP_ERROR_RESOURCE, rc);
        unchanged();
    }
    throw Failure("the call never succeeds");
}

/** Both ends still move a message. */
void moves(Memory &from, VIP_VI_HANDLE sender, Memory &to, VIP_VI_HANDLE receiver)
{
    const Work in = to.transfer(to.bytes(8));
    const Work out = from.transfer(from.text("message"));
    post_recv(receiver, in);
    post_send(sender, out);
    REQUIRE(sent(sender) == out.desc);
    REQUIRE(received(receiver) == in.desc);
    REQUIRE(in.buffer.text().substr(0, 7) == "message");
}

void VI_CALL note_vi(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
    static_cast<std::atomic<int> *>(context)->fetch_add(1);
}

void VI_CALL note_cq(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)
{
    static_cast<std::atomic<int> *>(context)->fetch_add(1);
}

void VI_CALL note_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *)
{
    static_cast<std::atomic<int> *>(context)->fetch_add(1);
}

/** Calls of a handler come within the time there is. */
void await(const std::atomic<int> &calls, int wanted)
{
    const unsigned long long end = now_ms() + patience();
    while (calls.load() < wanted && now_ms() < end) {
        give_way();
    }
    REQUIRE(calls.load() == wanted);
}

} // namespace

TEST_CASE("no memory: VipOpenNic", "[memory]")
{
    VIP_NIC_HANDLE handle = nullptr;
    const long failed = failures([&] { return VipOpenNic(device_under_test(), &handle); },
                                 [&] { REQUIRE(handle == nullptr); });
    CHECK(failed > 0);
    REQUIRE_VIP(VipCloseNic(handle));
    const EnvironmentSetting plan("VIPL_FAULTS", "drop=@3");
    CHECK(failures([&] { return VipOpenNic(device_under_test(), &handle); }) > 0);
    REQUIRE_VIP(VipCloseNic(handle));
}

TEST_CASE("no memory: VipCreatePtag", "[memory]")
{
    const Nic nic;
    std::vector<VIP_PROTECTION_HANDLE> tags(2000);
    for (VIP_PROTECTION_HANDLE &tag : tags) { // more than any pool has at hand
        failures([&] { return VipCreatePtag(nic, &tag); }, [&] { REQUIRE(tag == nullptr); });
    }
    for (const VIP_PROTECTION_HANDLE tag : tags) {
        REQUIRE_VIP(VipDestroyPtag(nic, tag));
    }
}

TEST_CASE("no memory: VipCreateCQ", "[memory]")
{
    const Nic nic;
    std::vector<VIP_CQ_HANDLE> queues(500);
    long failed = 0;
    for (VIP_CQ_HANDLE &queue : queues) {
        failed += failures([&] { return VipCreateCQ(nic, 4, &queue); }, [&] { REQUIRE(queue == nullptr); });
    }
    CHECK(failed > 0);
    for (const VIP_CQ_HANDLE queue : queues) {
        REQUIRE_VIP(VipDestroyCQ(queue));
    }
}

TEST_CASE("no memory: VipRegisterMem", "[memory]")
{
    const Nic nic;
    const Ptag tag(nic);
    alignas(64) static char bytes[64];
    std::vector<VIP_MEM_HANDLE> handles(500);
    VIP_MEM_ATTRIBUTES attributes = rdma_memory(tag);
    long failed = 0;
    for (VIP_MEM_HANDLE &handle : handles) {
        failed += failures([&] { return VipRegisterMem(nic, bytes, sizeof bytes, &attributes, &handle); },
                           [&] { REQUIRE(handle == 0); });
    }
    CHECK(failed > 0);
    for (const VIP_MEM_HANDLE handle : handles) {
        REQUIRE_VIP(VipDeregisterMem(nic, bytes, handle));
    }
}

TEST_CASE("no memory: VipCreateVi; its tag and queues are free again", "[memory]")
{
    const Nic nic;
    std::vector<VIP_VI_HANDLE> vis(200);
    VIP_PROTECTION_HANDLE tag = nullptr;
    VIP_CQ_HANDLE queue = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    REQUIRE_VIP(VipCreateCQ(nic, 4, &queue));
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.Ptag = tag;
    long failed = 0;
    for (VIP_VI_HANDLE &vi : vis) {
        failed += failures([&] { return VipCreateVi(nic, &attributes, queue, queue, &vi); },
                           [&] { REQUIRE(vi == nullptr); });
    }
    CHECK(failed > 0);
    for (const VIP_VI_HANDLE vi : vis) {
        REQUIRE_VIP(VipDestroyVi(vi));
    }
    REQUIRE_VIP(VipDestroyCQ(queue)); // no use of a failed attempt is left
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
}

TEST_CASE("no memory: the first posts of a VI, and those that make its queues longer", "[memory]")
{
    FaultyPair pair("seed=1");
    for (int i = 0; i < 40; ++i) {
        const Work in = pair.server_memory.transfer(pair.server_memory.bytes(8));
        failures([&] { return VipPostRecv(pair.server, in.desc, in.handle); },
                 [&] { REQUIRE(pair.server.recv_queue_empty() == (i == 0)); });
    }
    for (int i = 0; i < 40; ++i) {
        const Work out = pair.client_memory.transfer(pair.client_memory.text("x"));
        failures([&] { return VipPostSend(pair.client, out.desc, out.handle); },
                 [&] { REQUIRE(pair.client.state() == VIP_STATE_CONNECTED); });
    }
    for (int i = 0; i < 40; ++i) {
        EXPECT_STATUS(VIP_STATUS_OP_SEND, sent(pair.client));
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, received(pair.server));
    }
}

TEST_CASE("no memory: VipConnectRequest; the VI stays idle and connects afterwards", "[memory]")
{
    const Nic server_nic, client_nic;
    Memory server_memory(server_nic), client_memory(client_nic);
    const Vi server(server_nic), client(client_nic);
    NetAddress local = client_nic.address("me");
    NetAddress nobody = client_nic.address(unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    for (long count = 1, failed = 1; failed != 0; ++count) { // nobody listens: success is VIP_NO_MATCH
        REQUIRE(count < kMost);
        vipl_alloc_fail_after(count);
        const VIP_RETURN rc = VipConnectRequest(client, local, nobody, kMoment, &attributes);
        vipl_alloc_fail_after(-1);
        failed = rc == VIP_NO_MATCH ? 0 : 1;
        REQUIRE((rc == VIP_NO_MATCH || rc == VIP_ERROR_RESOURCE));
        REQUIRE(client.state() == VIP_STATE_IDLE);
    }
    connect_pair(server_nic, server, client_nic, client);
    moves(client_memory, client, server_memory, server);
}

TEST_CASE("no memory: VipConnectPeerRequest", "[memory]")
{
    const Nic nic;
    Memory memory(nic);
    const Vi one(nic), other(nic);
    NetAddress address = nic.address(unique_discriminator());
    const auto idle = [&](const Vi &vi) { return [&vi] { REQUIRE(vi.state() == VIP_STATE_IDLE); }; };
    CHECK(failures([&] { return VipConnectPeerRequest(one, address, address, patience()); }, idle(one)) > 0);
    CHECK(failures([&] { return VipConnectPeerRequest(other, address, address, patience()); }, idle(other)) >
          0);
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipConnectPeerWait(one, &attributes));
    REQUIRE_VIP(VipConnectPeerWait(other, &attributes));
    moves(memory, one, memory, other);
}

TEST_CASE("no memory: VipConnectWait and VipConnectAccept", "[memory]")
{
    const Nic server_nic, client_nic;
    Memory server_memory(server_nic), client_memory(client_nic);
    const Vi server(server_nic), client(client_nic);
    NetAddress listen = server_nic.address(unique_discriminator());
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    for (long count = 1;; ++count) { // no request yet: success is VIP_TIMEOUT
        REQUIRE(count < kMost);
        vipl_alloc_fail_after(count);
        const VIP_RETURN rc = VipConnectWait(server_nic, listen, 0, from, &attributes, &connection);
        vipl_alloc_fail_after(-1);
        REQUIRE(connection == nullptr);
        if (rc == VIP_TIMEOUT) {
            break;
        }
        REQUIRE_RC(VIP_ERROR_RESOURCE, rc);
    }
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester([&] {
        NetAddress local = client_nic.address("me");
        VIP_VI_ATTRIBUTES other{};
        NetAddress nobody = client_nic.address(unique_discriminator());
        VipConnectRequest(client, local, nobody, 1, &other); // what waiting needs is there from now on
        requested = VipConnectRequest(client, local, listen, patience(), &other);
    });
    VIP_RETURN waited = VipConnectWait(server_nic, listen, patience(), from, &attributes, &connection);
    VIP_RETURN accepted = VIP_ERROR_RESOURCE;
    bool unchanged = true;
    for (long count = 1; waited == VIP_SUCCESS && accepted == VIP_ERROR_RESOURCE && count < kMost; ++count) {
        vipl_alloc_fail_after(count);
        accepted = VipConnectAccept(connection, server);
        vipl_alloc_fail_after(-1);
        unchanged &= accepted == VIP_SUCCESS || server.state() == VIP_STATE_IDLE;
    }
    requester.join();
    REQUIRE_VIP(waited);
    REQUIRE_VIP(accepted);
    REQUIRE_VIP(requested);
    CHECK(unchanged);
    moves(client_memory, client, server_memory, server);
}

TEST_CASE("no memory: Notify of queues and completion queues", "[memory]")
{
    std::atomic<int> sends{0}, receives{0}, entries{0};
    FaultyPair pair("seed=1");
    CHECK(failures([&] { return VipSendNotify(pair.client, &sends, note_vi); }) > 0);
    CHECK(failures([&] { return VipRecvNotify(pair.server, &receives, note_vi); }) > 0);
    pair.receive();
    pair.send();
    await(sends, 1);
    await(receives, 1);

    FaultyPair queued("seed=1", VIP_SERVICE_RELIABLE_DELIVERY, true);
    CHECK(failures([&] { return VipCQNotify(*queued.cq, &entries, note_cq); }) > 0);
    queued.receive();
    queued.send();
    await(entries, 1);
}

TEST_CASE("no memory: VipErrorCallback; an error without memory is logged, not lost in a crash", "[memory]")
{
    std::atomic<int> errors{0};
    FaultyPair pair("event=CATASTROPHIC", VIP_SERVICE_UNRELIABLE);
    failures([&] { return VipErrorCallback(pair.client_nic, &errors, note_error); });
    pair.receive();
    pair.send();
    sent(pair.client);
    received(pair.server);
    await(errors, 1);
    const Work in = pair.receive();
    const Work out = pair.client_memory.transfer(pair.client_memory.text("x"));
    vipl_alloc_fail_after(1);
    const VIP_RETURN rc = VipPostSend(pair.client, out.desc, out.handle);
    vipl_alloc_fail_after(-1);
    REQUIRE_VIP(rc);
    CHECK(sent(pair.client) == out.desc);
    CHECK(received(pair.server) == in.desc);
    REQUIRE_VIP(VipErrorCallback(pair.client_nic, nullptr, nullptr));
    CHECK(errors.load() == 1);
}

TEST_CASE("no memory: VipQuerySystemManagementInfo", "[memory]")
{
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list{};
    CHECK(failures([&] { return VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list); },
                   [&] { REQUIRE(list.NumAdAddrs == 0); }) > 0);
    CHECK(list.NumAdAddrs > 0);
}

TEST_CASE("no memory, or no descriptors: VipxGetFd; those there are stay", "[memory]")
{
    const Nic nic;
    const Vi vi(nic);
    int send = 0, receive = 0;
    CHECK(failures([&] { return VipxGetFd(VIPX_FD_SEND, vi, &send); }, [&] { REQUIRE(send == -1); }) > 0);

    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none = {0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    int again = 0;
    const VIP_RETURN known = VipxGetFd(VIPX_FD_SEND, vi, &again);
    const VIP_RETURN rc = VipxGetFd(VIPX_FD_RECV, vi, &receive);
    setrlimit(RLIMIT_NOFILE, &before);
    REQUIRE_VIP(known);
    CHECK(again == send);
    REQUIRE_RC(VIP_ERROR_RESOURCE, rc);
    CHECK(receive == -1);
    REQUIRE_VIP(VipxGetFd(VIPX_FD_RECV, vi, &receive));
    CHECK(receive >= 0);
}

/* An address that there is no memory to keep is waited for as without the descriptor. */
TEST_CASE("no memory: VipConnectWait of a NIC handle with a descriptor for requests", "[memory]")
{
    const Nic nic;
    int fd = -1;
    REQUIRE_VIP(VipxGetFd(VIPX_FD_CONNECT, nic, &fd));
    NetAddress local = nic.address("none"), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    for (long count = 1; count < kMost; ++count) {
        vipl_alloc_fail_after(count);
        const VIP_RETURN rc = VipConnectWait(nic, local, 0, remote, &attributes, &connection);
        vipl_alloc_fail_after(-1);
        CHECK((rc == VIP_TIMEOUT || rc == VIP_ERROR_RESOURCE));
    }
}
