// SPDX-License-Identifier: MIT
//
// Every VIP_RETURN, one case each, named for the code: by a fault plan where the device has to
// fail, else by what earns it.
#include <atomic>
#include <csignal>
#include <thread>

#include <pthread.h>

#include "fault_scene.hpp"

using namespace vipl_test;

namespace {

/** What creating a VI with these attributes returns. */
VIP_RETURN create_vi(const Nic &nic, VIP_VI_ATTRIBUTES attributes)
{
    VIP_VI_HANDLE vi = nullptr;
    const VIP_RETURN rc = VipCreateVi(nic, &attributes, nullptr, nullptr, &vi);
    EXPECT_EQ(rc == VIP_SUCCESS, vi != nullptr);
    if (rc == VIP_SUCCESS) {
        REQUIRE_VIP(VipDestroyVi(vi));
    }
    return rc;
}

/** What a request to a discriminator that nobody waits for returns. */
VIP_RETURN request(const Nic &nic, const Vi &vi, VIP_ULONG timeout)
{
    NetAddress local = nic.address("me");
    NetAddress remote = nic.address(unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    return VipConnectRequest(vi, local, remote, timeout, &attributes);
}

} // namespace

TEST_CASE("0 VIP_SUCCESS: a plan that strikes nothing changes nothing", "[return]")
{
    FaultyPair pair("seed=7,drop=0,corrupt=@1000,resource=@1000");
    const Work in = pair.receive();
    const Work out = pair.send("hello");
    CHECK(sent(pair.client) == out.desc);
    CHECK(received(pair.server) == in.desc);
    CHECK(in.buffer.text().substr(0, 5) == "hello");
}

TEST_CASE("1 VIP_NOT_DONE: nothing is complete", "[return]")
{
    FaultyPair pair("delay");
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_NOT_DONE, VipSendDone(pair.client, &done));
    CHECK(done == nullptr);
}

TEST_CASE("2 VIP_INVALID_PARAMETER: no place for the handle", "[return]")
{
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipOpenNic(device_under_test(), nullptr));
}

TEST_CASE("3 VIP_ERROR_RESOURCE: each counted call in turn, and the next one works", "[return]")
{
    {
        const EnvironmentSetting plan("VIPL_FAULTS", "resource=@1");
        VIP_NIC_HANDLE handle = nullptr;
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipOpenNic(device_under_test(), &handle));
        CHECK(handle == nullptr);
    }
    alignas(64) static char bytes[64];
    VIP_MEM_HANDLE memory = 0;
    const auto second = nic_with_faults("resource=@2");
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRegisterMem(*second, bytes, sizeof bytes, nullptr, &memory));
    CHECK(memory == 0);
    REQUIRE_VIP(VipRegisterMem(*second, bytes, sizeof bytes, nullptr, &memory));
    CHECK(create_vi(*second, vi_attributes()) == VIP_SUCCESS);
    REQUIRE_VIP(VipDeregisterMem(*second, bytes, memory));

    const auto created = nic_with_faults("resource=@2");
    CHECK(create_vi(*created, vi_attributes()) == VIP_ERROR_RESOURCE);
    CHECK(create_vi(*created, vi_attributes()) == VIP_SUCCESS);
}

TEST_CASE("3 VIP_ERROR_RESOURCE: a region keeps its tag and rights, and the tag it did not get is free",
          "[return]")
{
    const auto nic = nic_with_faults("resource=@3");
    Memory memory(*nic, 64, rdma_memory());
    VIP_MEM_ATTRIBUTES before{};
    VIP_MEM_ATTRIBUTES after{};
    VIP_MEM_ATTRIBUTES wanted{};
    REQUIRE_VIP(VipQueryMem(*nic, memory.data(), memory.handle(), &before));
    {
        const Ptag tag(*nic);
        wanted.Ptag = tag;
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipSetMemAttributes(*nic, memory.data(), memory.handle(), &wanted));
        REQUIRE_VIP(VipQueryMem(*nic, memory.data(), memory.handle(), &after));
        CHECK(after.Ptag == before.Ptag);
        CHECK(after.EnableRdmaWrite == before.EnableRdmaWrite);
        CHECK(after.EnableRdmaRead == before.EnableRdmaRead);
    } // destroying the tag succeeds: no region uses it
    wanted.Ptag = before.Ptag;
    REQUIRE_VIP(VipSetMemAttributes(*nic, memory.data(), memory.handle(), &wanted));
    REQUIRE_VIP(VipQueryMem(*nic, memory.data(), memory.handle(), &after));
    CHECK(after.EnableRdmaWrite == VIP_FALSE);
}

TEST_CASE("3 VIP_ERROR_RESOURCE: connecting, and the same VI connects afterwards", "[return]")
{
    const auto client_nic = nic_with_faults("resource=@3");
    const auto server_nic = nic_with_faults("resource=@3,resource=@5");
    const Vi client(*client_nic);
    const Vi server(*server_nic);
    CHECK(request(*client_nic, client, 0) == VIP_ERROR_RESOURCE);
    CHECK(client.state() == VIP_STATE_IDLE);

    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    const std::string name = unique_discriminator();
    NetAddress listen = server_nic->address(name);
    const auto wait = [&] {
        return VipConnectWait(*server_nic, listen, patience(), from, &attributes, &connection);
    };
    REQUIRE_RC(VIP_ERROR_RESOURCE, wait());
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester([&] {
        NetAddress local = client_nic->address("me");
        VIP_VI_ATTRIBUTES other{};
        requested = VipConnectRequest(client, local, listen, patience(), &other);
    });
    const VIP_RETURN waited = wait();
    const VIP_RETURN first = VipConnectAccept(connection, server);
    const VIP_VI_STATE between = server.state();
    const VIP_RETURN second = VipConnectAccept(connection, server);
    requester.join();
    REQUIRE_VIP(waited);
    REQUIRE_RC(VIP_ERROR_RESOURCE, first);
    CHECK(between == VIP_STATE_IDLE);
    REQUIRE_VIP(second);
    REQUIRE_VIP(requested);
}

TEST_CASE("4 VIP_TIMEOUT: nothing comes", "[return]")
{
    FaultyPair pair("drop", VIP_SERVICE_UNRELIABLE);
    pair.receive();
    pair.send();
    sent(pair.client);
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.server, kMoment, &done));
    CHECK(done == nullptr);
}

TEST_CASE("5 VIP_REJECT: the listener says no", "[return]")
{
    const Nic server_nic, client_nic;
    const Vi client(client_nic);
    NetAddress listen = server_nic.address(unique_discriminator());
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester([&] {
        NetAddress local = client_nic.address("me");
        VIP_VI_ATTRIBUTES other{};
        requested = VipConnectRequest(client, local, listen, patience(), &other);
    });
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    const VIP_RETURN waited = VipConnectWait(server_nic, listen, patience(), from, &attributes, &connection);
    const VIP_RETURN rejected = VipConnectReject(connection);
    requester.join();
    REQUIRE_VIP(waited);
    REQUIRE_VIP(rejected);
    REQUIRE_RC(VIP_REJECT, requested);
}

TEST_CASE("6 VIP_INVALID_RELIABILITY_LEVEL: two levels at once", "[return]")
{
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY;
    REQUIRE_RC(VIP_INVALID_RELIABILITY_LEVEL, create_vi(nic, attributes));
}

TEST_CASE("7 VIP_INVALID_MTU: more than the device moves", "[return]")
{
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.MaxTransferSize = nic.attributes().MaxTransferSize + 1;
    REQUIRE_RC(VIP_INVALID_MTU, create_vi(nic, attributes));
}

TEST_CASE("8 VIP_INVALID_QOS: a quality of service that nobody gave out", "[return]")
{
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.QoS = &attributes;
    REQUIRE_RC(VIP_INVALID_QOS, create_vi(nic, attributes));
}

TEST_CASE("9 VIP_INVALID_PTAG: a tag of another NIC handle", "[return]")
{
    const Nic nic, other;
    const Ptag tag(other);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.Ptag = tag;
    REQUIRE_RC(VIP_INVALID_PTAG, create_vi(nic, attributes));
}

TEST_CASE("10 VIP_INVALID_RDMAREAD: a device without RDMA Read", "[return]")
{
    const auto nic = nic_with_faults("rdmaread=off");
    CHECK(nic->attributes().RDMAReadSupport == 0);
    REQUIRE_RC(VIP_INVALID_RDMAREAD, create_vi(*nic, vi_attributes()));
    alignas(64) static char bytes[64];
    VIP_MEM_ATTRIBUTES readable = {nullptr, VIP_FALSE, VIP_TRUE};
    VIP_MEM_HANDLE memory = 0;
    REQUIRE_RC(VIP_INVALID_RDMAREAD, VipRegisterMem(*nic, bytes, sizeof bytes, &readable, &memory));

    FaultyPair pair("rdmaread=off");
    const Work read = pair.client_memory.rdma(VIP_CONTROL_OP_RDMAREAD, pair.server_memory.bytes(8).remote(),
                                              pair.client_memory.bytes(8));
    post_send(pair.client, read);
    CHECK(send_failed(pair.client) == read.desc);
    CHECK((read.status() & VIP_STATUS_ERROR_MASK) == VIP_STATUS_FORMAT_ERROR);
}

TEST_CASE("11 VIP_DESCRIPTOR_ERROR: a send that the transport damages", "[return]")
{
    FaultyPair pair("corrupt=@3", VIP_SERVICE_UNRELIABLE);
    for (int i = 1; i <= 4; ++i) {
        const Work out = pair.send();
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(pair.client, patience(), &done);
        CHECK(done == out.desc);
        REQUIRE_RC(i == 3 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS, rc);
    }
}

TEST_CASE("12 VIP_INVALID_STATE: a connected VI is not destroyed", "[return]")
{
    FaultyPair pair("delay");
    REQUIRE_RC(VIP_INVALID_STATE, VipDestroyVi(pair.client));
}

TEST_CASE("13 VIP_ERROR_NAMESERVICE: no names", "[return]")
{
    const auto nic = nic_with_faults("names");
    REQUIRE_VIP(VipNSInit(*nic, nullptr));
    NetAddress found;
    char name[] = "localhost";
    REQUIRE_RC(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(*nic, name, found, 0));
    char text[256];
    VIP_ULONG length = sizeof text;
    NetAddress own = nic->address("");
    REQUIRE_RC(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(*nic, own, text, &length));
    REQUIRE_VIP(VipNSShutdown(*nic));
}

TEST_CASE("14 VIP_NO_MATCH: nobody waits on that discriminator", "[return]")
{
    const Nic nic;
    const Vi vi(nic);
    REQUIRE_RC(VIP_NO_MATCH, request(nic, vi, kMoment));
}

TEST_CASE("15 VIP_NOT_REACHABLE: the first request, in both connection models", "[return]")
{
    const auto nic = nic_with_faults("reach=@1/2");
    const Vi vi(*nic);
    REQUIRE_RC(VIP_NOT_REACHABLE, request(*nic, vi, patience()));
    CHECK(vi.state() == VIP_STATE_IDLE);
    REQUIRE_RC(VIP_NO_MATCH, request(*nic, vi, kMoment));
    NetAddress local = nic->address(unique_discriminator());
    REQUIRE_RC(VIP_NOT_REACHABLE, VipConnectPeerRequest(vi, local, local, patience()));
    CHECK(vi.state() == VIP_STATE_IDLE);
}

TEST_CASE("16 VIP_ERROR_NOT_SUPPORTED: information that there is not", "[return]")
{
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list{};
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY + 76, &list));
}

TEST_CASE("17 VIP_INTERRUPTED: a signal handler runs in a waiting thread", "[return]")
{
    FaultyPair pair("delay");
    struct sigaction action {
    }, before{};
    action.sa_handler = [](int) {};
    REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
    std::atomic<bool> over{false};
    const pthread_t waiting = pthread_self();
    std::thread caller([&] {
        while (!over.load()) { // until one of them finds it asleep
            pthread_kill(waiting, SIGUSR1);
            give_way();
        }
    });
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = VipRecvWait(pair.server, patience(), &done);
    over.store(true);
    caller.join();
    sigaction(SIGUSR1, &before, nullptr);
    REQUIRE_RC(VIP_INTERRUPTED, rc);
}
