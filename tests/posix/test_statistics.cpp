// SPDX-License-Identifier: MIT
//
// POSIX extensions: what a NIC handle and a VI have done, by VipQuerySystemManagementInfo.
#include <vipl/cache.h>
#include <vipl/posix.h>

#include <cstring>
#include <set>
#include <string>

#include "conformance/connect_roles.hpp"

using namespace vipl_conformance;

namespace {

VIPX_NIC_STATISTICS of_nic(VIP_NIC_HANDLE nic)
{
    VIPX_NIC_STATISTICS statistics;
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIPX_SMI_NIC_STATISTICS, &statistics));
    return statistics;
}

VIPX_VI_STATISTICS of_vi(VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi)
{
    VIPX_VI_STATISTICS statistics;
    statistics.ViHandle = vi;
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIPX_SMI_VI_STATISTICS, &statistics));
    EXPECT(statistics.ViHandle == vi);
    return statistics;
}

} // namespace

TWO_ROLE_CASE("statistics count messages and their bytes, of the VI and of its NIC handle",
              "[VipQuerySystemManagementInfo][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        for (int i = 0; i < 4; ++i) {
            end.receive(10);
        }
        end.connect();
        peer.sync();
        for (int i = 0; i < 3; ++i) {
            received(end.vi);
        }
        const VIPX_VI_STATISTICS vi = of_vi(peer.nic(), end.vi);
        EXPECT_EQ(3u, vi.Work.Receives);
        EXPECT_EQ(1u + 2u + 10u, vi.Work.ReceiveBytes);
        EXPECT_EQ(0u, vi.Work.ReceivesFailed);
        EXPECT_EQ(0u, vi.Work.Sends);
        EXPECT_EQ(1u, vi.Work.Connections);
        EXPECT_EQ(0u, vi.Work.ConnectionsLost);
        EXPECT_EQ(1u, vi.ReceivesPosted);
        EXPECT_EQ(0u, vi.SendsPosted);
        const VIPX_NIC_STATISTICS nic = of_nic(peer.nic());
        EXPECT_EQ(3u, nic.Work.Receives);
        EXPECT_EQ(13u, nic.Work.ReceiveBytes);
        EXPECT_EQ(1u, nic.Work.Connections);
        EXPECT_EQ(1u, nic.RequestsTaken);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        for (const VIP_UINT32 size : {1, 2, 10}) {
            end.send(end.memory.bytes(size));
            sent(end.vi);
        }
        const VIPX_VI_STATISTICS vi = of_vi(peer.nic(), end.vi);
        EXPECT_EQ(3u, vi.Work.Sends);
        EXPECT_EQ(13u, vi.Work.SendBytes);
        EXPECT_EQ(0u, vi.Work.SendsFailed);
        EXPECT_EQ(0u, vi.Work.RdmaWrites);
        EXPECT_EQ(1u, vi.Work.Connections);
        EXPECT_EQ(13u, of_nic(peer.nic()).Work.SendBytes);
        EXPECT_EQ(0u, of_nic(peer.nic()).RequestsTaken);
        peer.sync();
    },
};

TWO_ROLE_CASE("statistics count RDMA Writes and Reads apart, and receives that a write uses",
              "[VipQuerySystemManagementInfo][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(4);
        end.connect();
        peer.send(end.memory.bytes(100).remote());
        received(end.vi);
        EXPECT_EQ(1u, of_vi(peer.nic(), end.vi).Work.Receives);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const auto remote = peer.receive<RemoteSpan>();
        const Span bytes = end.memory.bytes(100);
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes));
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote, bytes.part(0, 40)));
        post_send(
            end.vi,
            end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes.part(0, 7)).op(VIP_CONTROL_IMMEDIATE));
        for (int i = 0; i < 3; ++i) {
            sent(end.vi);
        }
        const VIPX_VI_STATISTICS vi = of_vi(peer.nic(), end.vi);
        EXPECT_EQ(0u, vi.Work.Sends);
        EXPECT_EQ(2u, vi.Work.RdmaWrites);
        EXPECT_EQ(107u, vi.Work.RdmaWriteBytes);
        EXPECT_EQ(1u, vi.Work.RdmaReads);
        EXPECT_EQ(40u, vi.Work.RdmaReadBytes);
        peer.sync();
    },
};

TWO_ROLE_CASE("statistics count connections that are lost, and what they flush",
              "[VipQuerySystemManagementInfo][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(4);
        end.connect();
        peer.sync();
        end.vi.await(VIP_STATE_ERROR);
        const VIPX_VI_STATISTICS vi = of_vi(peer.nic(), end.vi);
        EXPECT_EQ(1u, vi.Work.ConnectionsLost);
        EXPECT_EQ(1u, vi.Work.ReceivesFailed);
        EXPECT_EQ(0u, vi.Work.Receives);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
        EXPECT_EQ(0u, of_vi(peer.nic(), end.vi).Work.ConnectionsLost); // it is ours
        peer.sync();
    },
};

TWO_ROLE_CASE("statistics count requests that are taken, rejected and refused",
              "[VipQuerySystemManagementInfo][posix]") = {
    [](Peer &peer) {
        for (int i = 0; i < 2; ++i) {
            REQUIRE_VIP(VipConnectReject(wait_for_request(peer.nic(), peer.server_address()).connection));
        }
        const VIPX_NIC_STATISTICS nic = of_nic(peer.nic());
        EXPECT_EQ(2u, nic.RequestsTaken);
        EXPECT_EQ(2u, nic.RequestsRejected);
        EXPECT_EQ(0u, nic.RequestsWaiting);
        EXPECT_EQ(0u, nic.Work.RequestsRefused);
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        for (int i = 0; i < 2; ++i) {
            REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address(), peer.server_address()));
        }
        EXPECT_EQ(2u, of_vi(peer.nic(), vi).Work.RequestsRefused);
        EXPECT_EQ(0u, of_vi(peer.nic(), vi).Work.Connections);
        peer.sync();
    },
};

TEST_CASE("statistics of a NIC handle keep what destroyed VIs have done",
          "[VipQuerySystemManagementInfo][posix]")
{
    const Nic nic;
    Memory memory(nic);
    for (VIP_UINT64 i = 0; i < 3; ++i) {
        const Vi vi(nic);
        EXPECT_EQ(0u, of_vi(nic, vi).Work.SendsFailed); // a new one begins at 0
        post_send(vi, memory.transfer(memory.text("m")));
        EXPECT_EQ(1u, of_vi(nic, vi).Work.SendsFailed); // IDLE: flushed
        EXPECT_EQ(1u, of_vi(nic, vi).SendsPosted);
        EXPECT_EQ(i + 1, of_nic(nic).Work.SendsFailed);
        EXPECT_EQ(i + 1, of_nic(nic).VisCreated);
        EXPECT_EQ(1u, of_nic(nic).Vis);
    }
    EXPECT_EQ(3u, of_nic(nic).Work.SendsFailed);
    EXPECT_EQ(3u, of_nic(nic).VisCreated);
    EXPECT_EQ(0u, of_nic(nic).Vis);
    EXPECT_EQ(0u, of_nic(Nic()).Work.SendsFailed); // a new handle begins at 0
}

TEST_CASE("statistics count what there is", "[VipQuerySystemManagementInfo][posix]")
{
    const Nic nic;
    const VIPX_NIC_STATISTICS before = of_nic(nic);
    EXPECT_EQ(0u, before.Regions);
    EXPECT_EQ(0u, before.RegisteredBytes);
    EXPECT_EQ(0u, before.CompletionQueues);
    {
        const Memory one(nic, 4096), two(nic, 64);
        const Cq cq(nic);
        const Ptag tag(nic);
        const VIPX_NIC_STATISTICS now = of_nic(nic);
        EXPECT_EQ(2u, now.Regions);
        EXPECT_EQ(4096u + 64u, now.RegisteredBytes);
        EXPECT_EQ(1u, now.CompletionQueues);
        EXPECT_EQ(before.ProtectionTags + 1, now.ProtectionTags);
    }
    EXPECT_EQ(0u, of_nic(nic).Regions);
    EXPECT_EQ(0u, of_nic(nic).RegisteredBytes);
    EXPECT_EQ(0u, of_nic(nic).CompletionQueues);
    EXPECT_EQ(before.ProtectionTags, of_nic(nic).ProtectionTags);
}

TEST_CASE("the properties of a device have names, each once, and the rest of the list is cleared",
          "[VipQuerySystemManagementInfo][posix][private]")
{
    const Nic nic(device_under_test(), false);
    std::set<std::string> names;
    VIPX_DEVICE_PROPERTIES properties;
    std::memset(&properties, 0xA5, sizeof properties);
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIPX_SMI_DEVICE_PROPERTIES, &properties));
    const std::size_t most = sizeof properties.Property / sizeof *properties.Property;
    REQUIRE(properties.Count <= most);
    for (std::size_t i = 0; i < most; ++i) {
        const VIPX_PROPERTY &each = properties.Property[i];
        const std::string name(each.Name, strnlen(each.Name, sizeof each.Name));
        EXPECT(name.size() < sizeof each.Name);
        EXPECT(strnlen(each.Text, sizeof each.Text) < sizeof each.Text);
        if (i < properties.Count) {
            EXPECT(!name.empty());
            EXPECT(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
            EXPECT(names.insert(name).second);
        } else {
            EXPECT(name.empty());
            EXPECT_EQ(0u, each.Number);
        }
    }
}

TEST_CASE("statistics check their arguments", "[VipQuerySystemManagementInfo][posix]")
{
    const Nic nic, other;
    const Vi vi(nic);
    VIPX_VI_STATISTICS statistics;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, VIPX_SMI_NIC_STATISTICS, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, VIPX_SMI_VI_STATISTICS, nullptr));
    statistics.ViHandle = nullptr;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, VIPX_SMI_VI_STATISTICS, &statistics));
    statistics.ViHandle = vi;
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               VipQuerySystemManagementInfo(other, VIPX_SMI_VI_STATISTICS, &statistics));
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               VipQuerySystemManagementInfo(nullptr, VIPX_SMI_VI_STATISTICS, &statistics));
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED,
               VipQuerySystemManagementInfo(nic, VIPX_SMI_CACHE_STATISTICS + 1, &statistics));
}
