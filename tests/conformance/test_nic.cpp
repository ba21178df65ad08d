// SPDX-License-Identifier: MIT
//
// Opening, querying and closing a device, and what happens on closing to everything that a NIC
// handle owns: objects, blocked calls, callbacks, peers.
#include <atomic>
#include <cstring>
#include <thread>

#include "support/error_log.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

TEST_CASE("VipOpenNic opens the device and hands back a handle", "[VipOpenNic][early]")
{
    VIP_NIC_HANDLE nic = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &nic));
    EXPECT(nic != nullptr);
    REQUIRE_VIP(VipCloseNic(nic));
}

TEST_CASE("VipOpenNic takes NULL for the default device", "[VipOpenNic][early]")
{
    const Nic nic(nullptr);
    EXPECT(nic.attributes().Name[0] != '\0');
}

TEST_CASE("VipOpenNic takes an empty name for the default device", "[VipOpenNic][early]")
{
    const Nic by_null(nullptr), by_empty("");
    EXPECT_EQ(std::string(by_null.attributes().Name), std::string(by_empty.attributes().Name));
}

TEST_CASE("VipOpenNic of an unknown device is VIP_ERROR_RESOURCE and hands back NULL", "[VipOpenNic][early]")
{
    VIP_NIC_HANDLE nic = &nic;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipOpenNic("no such device", &nic));
    EXPECT(nic == nullptr);
}

TEST_CASE("VipOpenNic without an out-pointer is VIP_INVALID_PARAMETER", "[VipOpenNic][early]")
{
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipOpenNic(device_under_test(), nullptr));
}

TEST_CASE("VipOpenNic twice gives two independent handles", "[VipOpenNic][early]")
{
    VIP_NIC_HANDLE first = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &first));
    const Nic second;
    EXPECT(first != second.handle());
    REQUIRE_VIP(VipCloseNic(first));
    EXPECT(second.attributes().Name[0] != '\0');
}

TEST_CASE("VipQueryNic reports limits at least as large as every backend must offer", "[VipQueryNic][early]")
{
    const Nic nic;
    const VIP_NIC_ATTRIBUTES limits = nic.attributes();
    EXPECT(limits.MaxTransferSize >= 1024 * 1024);
    EXPECT(limits.MaxSegmentsPerDesc >= 252);
    EXPECT(limits.MaxDescriptorsPerQueue >= 1024);
    EXPECT(limits.MaxVI >= 65536);
    EXPECT(limits.MaxCQEntries >= 65536);
    EXPECT(limits.MaxDiscriminatorLen >= 64);
    EXPECT(limits.MaxCQ >= 1 && limits.MaxPtags >= 1 && limits.NativeMTU >= 1);
    EXPECT(limits.MaxRegisterRegions >= 1);
    EXPECT(limits.MaxRegisterBlockBytes >= limits.MaxTransferSize);
    EXPECT(limits.MaxRegisterBytes >= limits.MaxRegisterBlockBytes);
}

TEST_CASE("VipQueryNic reports a name, an address and thread safety", "[VipQueryNic][early]")
{
    const Nic nic;
    const VIP_NIC_ATTRIBUTES attributes = nic.attributes();
    EXPECT(std::memchr(attributes.Name, '\0', sizeof attributes.Name) != nullptr);
    EXPECT(attributes.Name[0] != '\0');
    EXPECT(attributes.LocalNicAddress != nullptr);
    EXPECT(attributes.NicAddressLen == 6 || attributes.NicAddressLen == 16);
    EXPECT_EQ(VIP_TRUE, attributes.ThreadSafe);
}

TEST_CASE("VipQueryNic reports the same local address on every handle of a device", "[VipQueryNic][early]")
{
    const Nic first, second;
    EXPECT_EQ(first.address("").host(), second.address("").host());
}

TEST_CASE("VipQueryNic reports all three reliability levels, and RDMA Read on some", "[VipQueryNic][full]")
{
    const Nic nic;
    EXPECT_EQ(7, nic.attributes().ReliabilityLevelSupport);
    EXPECT((nic.attributes().RDMAReadSupport & ~7) == 0);
    EXPECT((nic.attributes().RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0);
    EXPECT((nic.attributes().RDMAReadSupport & VIP_SERVICE_RELIABLE_RECEPTION) != 0);
}

TEST_CASE("VipQueryNic without an out-pointer is VIP_INVALID_PARAMETER", "[VipQueryNic][early]")
{
    const Nic nic;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(nic, nullptr));
}

TEST_CASE("VipCloseNic ends the handle", "[VipCloseNic][early]")
{
    VIP_NIC_HANDLE nic = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &nic));
    REQUIRE_VIP(VipCloseNic(nic));
    VIP_NIC_ATTRIBUTES attributes{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCloseNic(nic));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(nic, &attributes));
}

TEST_CASE("VipCloseNic destroys what is left", "[VipCloseNic][early]")
{
    VIP_NIC_HANDLE nic = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &nic));
    VIP_PROTECTION_HANDLE tag = nullptr;
    VIP_CQ_HANDLE cq = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_MEM_HANDLE memory = 0;
    char bytes[64];
    VIP_MEM_ATTRIBUTES memory_attributes{};
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_UNRELIABLE, 1024, nullptr, nullptr, VIP_FALSE, VIP_FALSE};
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    REQUIRE_VIP(VipCreateCQ(nic, 4, &cq));
    REQUIRE_VIP(VipRegisterMem(nic, bytes, sizeof bytes, &memory_attributes, &memory));
    REQUIRE_VIP(VipCreateVi(nic, &attributes, cq, cq, &vi));
    REQUIRE_VIP(VipCloseNic(nic));

    const Nic other; // the freed slots may be in use again: old handles must still be dead
    const Cq new_cq(other);
    const Vi new_vi(other);
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyVi(vi));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCQDone(cq, &vi, &queue));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(other, bytes, memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyPtag(other, tag));
}

TWO_ROLE_CASE("VipCloseNic disconnects the VIs it closes", "[VipCloseNic][functional]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        peer.sync();
        errors.expect(end.vi, VIP_ERROR_CONN_LOST);
        end.vi.await(VIP_STATE_ERROR);
    },
    [](Peer &peer) {
        Nic closing;
        VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
        VIP_VI_HANDLE vi = nullptr;
        REQUIRE_VIP(VipCreateVi(closing, &attributes, nullptr, nullptr, &vi));
        NetAddress local = peer.client_address(), remote = peer.server_address();
        REQUIRE_VIP(VipConnectRequest(vi, local, remote, patience(), &attributes));
        peer.sync();
        REQUIRE_VIP(VipCloseNic(closing));
    },
};

namespace {

/** Run a blocking call in a thread, close its NIC handle under it, and return what the call
 * said. */
template <class Call>
VIP_RETURN closed_under(VIP_NIC_HANDLE nic, Call call)
{
    std::atomic<bool> started{false};
    VIP_RETURN returned = VIP_SUCCESS;
    std::thread waiter([&] {
        started.store(true, std::memory_order_release);
        returned = call();
    });
    while (!started.load(std::memory_order_acquire)) {
        give_way();
    }
    let_a_moment_pass(); // so that the call blocks; had it not started yet, it must answer the same
    const VIP_RETURN closed = VipCloseNic(nic);
    waiter.join();
    REQUIRE_VIP(closed);
    return returned;
}

} // namespace

TEST_CASE("VipCloseNic ends a blocked VipRecvWait with VIP_INVALID_PARAMETER", "[VipCloseNic][full]")
{
    const Nic nic;
    const Vi vi(nic);
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               closed_under(nic, [&] { return VipRecvWait(vi, VIP_INFINITE, &done); }));
}

TEST_CASE("VipCloseNic ends a blocked VipSendWait with VIP_INVALID_PARAMETER", "[VipCloseNic][full]")
{
    const Nic nic;
    const Vi vi(nic);
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               closed_under(nic, [&] { return VipSendWait(vi, VIP_INFINITE, &done); }));
}

TEST_CASE("VipCloseNic ends a blocked VipCQWait with VIP_INVALID_PARAMETER", "[VipCloseNic][full]")
{
    const Nic nic;
    const Cq cq(nic);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               closed_under(nic, [&] { return VipCQWait(cq, VIP_INFINITE, &vi, &queue); }));
}

TEST_CASE("VipCloseNic ends a blocked VipConnectWait with VIP_INVALID_PARAMETER", "[VipCloseNic][full]")
{
    const Nic nic;
    NetAddress local = nic.address(unique_discriminator());
    NetAddress remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE_RC(VIP_INVALID_PARAMETER, closed_under(nic, [&] {
                   return VipConnectWait(nic, local, VIP_INFINITE, remote, &attributes, &connection);
               }));
}

TEST_CASE("VipCloseNic ends a blocked VipConnectRequest with VIP_INVALID_PARAMETER", "[VipCloseNic][full]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address("x"), remote = nic.address(unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, closed_under(nic, [&] {
                   return VipConnectRequest(vi, local, remote, VIP_INFINITE, &attributes);
               }));
}

TEST_CASE("VipCloseNic ends a blocked VipConnectPeerWait with VIP_INVALID_PARAMETER", "[VipCloseNic][full]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address("x"), remote = nic.address(unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, VIP_INFINITE));
    REQUIRE_RC(VIP_INVALID_PARAMETER, closed_under(nic, [&] { return VipConnectPeerWait(vi, &attributes); }));
}

TEST_CASE("VipCloseNic may be called from within a callback", "[VipCloseNic][full]")
{
    struct Closing {
        std::atomic<int> result{-1};
        static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
        {
            static_cast<Closing *>(context)->result.store(VipCloseNic(nic), std::memory_order_release);
        }
    } closing;
    VIP_NIC_HANDLE handle = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &handle));
    const Nic other; // not the one that closes: memory outlives it
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = nullptr;
    REQUIRE_VIP(VipCreateVi(handle, &attributes, nullptr, nullptr, &vi));
    alignas(64) VIP_DESCRIPTOR descriptor{};
    VIP_MEM_HANDLE memory = 0;
    REQUIRE_VIP(VipRegisterMem(handle, &descriptor, sizeof descriptor, nullptr, &memory));
    REQUIRE_VIP(VipSendNotify(vi, &closing, &Closing::handler));
    REQUIRE_VIP(VipPostSend(vi, &descriptor, memory)); // an idle VI flushes it: that completes it
    const unsigned long long end = now_ms() + patience();
    while (closing.result.load(std::memory_order_acquire) < 0 && now_ms() < end) {
        give_way();
    }
    EXPECT_EQ(static_cast<int>(VIP_SUCCESS), closing.result.load(std::memory_order_acquire));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCloseNic(handle));
}

TEST_CASE("VipCloseNic waits for a callback that is running", "[VipCloseNic][full]")
{
    struct Slow {
        std::atomic<bool> entered{false}, left{false};
        static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
        {
            auto *slow = static_cast<Slow *>(context);
            slow->entered.store(true, std::memory_order_release);
            const unsigned long long end = now_ms() + kMoment;
            while (now_ms() < end) {
                give_way();
            }
            slow->left.store(true, std::memory_order_release);
        }
    } slow;
    VIP_NIC_HANDLE handle = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &handle));
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = nullptr;
    REQUIRE_VIP(VipCreateVi(handle, &attributes, nullptr, nullptr, &vi));
    alignas(64) VIP_DESCRIPTOR descriptor{};
    VIP_MEM_HANDLE memory = 0;
    REQUIRE_VIP(VipRegisterMem(handle, &descriptor, sizeof descriptor, nullptr, &memory));
    REQUIRE_VIP(VipSendNotify(vi, &slow, &Slow::handler));
    REQUIRE_VIP(VipPostSend(vi, &descriptor, memory));
    while (!slow.entered.load(std::memory_order_acquire)) {
        give_way();
    }
    REQUIRE_VIP(VipCloseNic(handle));
    EXPECT(slow.left.load(std::memory_order_acquire));
}

TEST_CASE("VipQuerySystemManagementInfo lists the reachable addresses",
          "[VipQuerySystemManagementInfo][functional]")
{
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list = {1, nullptr, 0};
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    EXPECT(list.NumAdAddrs >= 1);
    EXPECT(list.ADAddrArray != nullptr);
    const std::string own = nic.address("").host();
    bool own_found = false;
    for (VIP_ULONG i = 0; i < list.NumAdAddrs; ++i) {
        const VIP_NET_ADDRESS *address = list.ADAddrArray[i];
        EXPECT(address != nullptr);
        own_found = own_found || (address->HostAddressLen == own.size() &&
                                  std::memcmp(address->HostAddress, own.data(), own.size()) == 0);
    }
    EXPECT(own_found || !device_is_loopback());
}

TEST_CASE("VipQuerySystemManagementInfo's addresses may be asked for again",
          "[VipQuerySystemManagementInfo][functional]")
{
    const Nic nic;
    VIP_AUTODISCOVERY_LIST first = {1, nullptr, 0}, second = {0, nullptr, 0};
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &first));
    const VIP_UINT16 length = first.ADAddrArray[0]->HostAddressLen;
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &second));
    EXPECT_EQ(length, first.ADAddrArray[0]->HostAddressLen); // the first answer is valid until the close
}

TEST_CASE("VipQuerySystemManagementInfo of an unknown type is VIP_ERROR_NOT_SUPPORTED",
          "[VipQuerySystemManagementInfo][functional]")
{
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list = {1, nullptr, 0};
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, 0x7FFFFFF0, &list));
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, 0, &list));
}

TEST_CASE("VipQuerySystemManagementInfo without an out-pointer is VIP_INVALID_PARAMETER",
          "[VipQuerySystemManagementInfo][functional]")
{
    const Nic nic;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, nullptr));
}
