// SPDX-License-Identifier: MIT
//
// Making, asking, changing and destroying a VI, without traffic. The state machine's table is in
// test_states.cpp.
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** VipCreateVi with one attribute spoilt: the code must be this one, and the handle NULL. */
void refuse(VIP_RETURN code, const Nic &nic, VIP_VI_ATTRIBUTES attributes)
{
    int before = 0;
    VIP_VI_HANDLE vi = &before;
    REQUIRE_RC(code, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    EXPECT(vi == nullptr);
}

/** The same for VipSetViAttributes: the VI must keep what it had. */
void refuse_change(VIP_RETURN code, const Vi &vi, VIP_VI_ATTRIBUTES attributes)
{
    const VIP_VI_ATTRIBUTES before = vi.attributes();
    REQUIRE_RC(code, VipSetViAttributes(vi, &attributes));
    const VIP_VI_ATTRIBUTES after = vi.attributes();
    EXPECT_EQ(before.ReliabilityLevel, after.ReliabilityLevel);
    EXPECT_EQ(before.MaxTransferSize, after.MaxTransferSize);
    EXPECT(before.Ptag == after.Ptag);
}

/** Every way to spoil attributes, with the code that VipCreateVi and VipSetViAttributes have for
 * it. */
template <class Check>
void spoil_levels(Check check)
{
    for (const VIP_RELIABILITY_LEVEL level : {0, 3, 5, 6, 7, 8, 0x8000}) {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        attributes.ReliabilityLevel = level;
        check(VIP_INVALID_RELIABILITY_LEVEL, attributes);
    }
}

template <class Check>
void spoil_sizes(const Nic &nic, Check check)
{
    for (const VIP_ULONG size : {0ul, nic.attributes().MaxTransferSize + 1, ~0ul}) {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        attributes.MaxTransferSize = size;
        check(VIP_INVALID_MTU, attributes);
    }
}

template <class Check>
void spoil_qos(Check check)
{
    int anything = 0;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.QoS = &anything;
    check(VIP_INVALID_QOS, attributes);
}

template <class Check>
void spoil_tags(const Nic &nic, Check check)
{
    const Nic other;
    const Ptag foreign(other);
    VIP_PROTECTION_HANDLE stale = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &stale));
    REQUIRE_VIP(VipDestroyPtag(nic, stale));
    for (const VIP_PROTECTION_HANDLE tag :
         {stale, static_cast<VIP_PROTECTION_HANDLE>(foreign), nic.handle()}) {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        attributes.Ptag = tag;
        check(VIP_INVALID_PTAG, attributes);
    }
}

template <class Check>
void spoil_rdma_read(const Nic &nic, Check check)
{
    bool done = false;
    for (const VIP_RELIABILITY_LEVEL level : kLevels) {
        if ((nic.attributes().RDMAReadSupport & level) == 0) {
            check(VIP_INVALID_RDMAREAD, vi_attributes(level));
            done = true;
        }
    }
    if (!done) {
        throw NotApplicable("the device has RDMA Read at every level");
    }
}

} // namespace

TEST_CASE("VipCreateVi makes an idle VI with empty queues", "[VipCreateVi][early]")
{
    const Nic nic;
    const Vi vi(nic);
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    EXPECT(vi.send_queue_empty());
    EXPECT(vi.recv_queue_empty());
}

TEST_CASE("VipCreateVi takes every reliability level the device reports", "[VipCreateVi][early]")
{
    const Nic nic;
    for (const VIP_RELIABILITY_LEVEL level : kLevels) {
        if ((nic.attributes().ReliabilityLevelSupport & level) != 0) {
            const Vi vi(nic, vi_attributes(level));
            EXPECT_EQ(level, vi.attributes().ReliabilityLevel);
        } else {
            refuse(VIP_INVALID_RELIABILITY_LEVEL, nic, vi_attributes(level));
        }
    }
}

TEST_CASE("VipCreateVi takes either completion queue, both, or one for both", "[VipCreateVi][functional]")
{
    const Nic nic;
    const Cq first(nic), second(nic);
    const Vi sends(nic, vi_attributes(), first, nullptr), receives(nic, vi_attributes(), nullptr, second);
    const Vi both(nic, vi_attributes(), first, second), one(nic, vi_attributes(), first, first);
    EXPECT_EQ(VIP_STATE_IDLE, one.state());
}

TEST_CASE("VipCreateVi with other than exactly one level is VIP_INVALID_RELIABILITY_LEVEL",
          "[VipCreateVi][early]")
{
    const Nic nic;
    spoil_levels([&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse(code, nic, attributes); });
}

TEST_CASE("VipCreateVi with a MaxTransferSize of 0 or above the device's is VIP_INVALID_MTU",
          "[VipCreateVi][early]")
{
    const Nic nic;
    spoil_sizes(nic, [&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse(code, nic, attributes); });
    const Vi largest(nic, vi_attributes(VIP_SERVICE_UNRELIABLE, nic.attributes().MaxTransferSize));
    const Vi smallest(nic, vi_attributes(VIP_SERVICE_UNRELIABLE, 1));
}

TEST_CASE("VipCreateVi with a quality of service is VIP_INVALID_QOS", "[VipCreateVi][early]")
{
    const Nic nic;
    spoil_qos([&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse(code, nic, attributes); });
}

TEST_CASE("VipCreateVi with a stale, foreign or made-up tag is VIP_INVALID_PTAG", "[VipCreateVi][early]")
{
    const Nic nic;
    spoil_tags(nic, [&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse(code, nic, attributes); });
}

TEST_CASE("VipCreateVi with RDMA Read at a level that has none is VIP_INVALID_RDMAREAD",
          "[VipCreateVi][full]")
{
    const Nic nic;
    spoil_rdma_read(nic,
                    [&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse(code, nic, attributes); });
}

TEST_CASE("VipCreateVi without attributes or out-pointer is VIP_INVALID_PARAMETER", "[VipCreateVi][early]")
{
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = &attributes;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(nic, nullptr, nullptr, nullptr, &vi));
    EXPECT(vi == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, nullptr, nullptr, nullptr));
}

TEST_CASE("VipCreateVi with a stale, foreign or made-up completion queue is VIP_INVALID_PARAMETER",
          "[VipCreateVi][functional]")
{
    const Nic nic, other;
    const Cq foreign(other), good(nic);
    VIP_CQ_HANDLE stale = nullptr;
    REQUIRE_VIP(VipCreateCQ(nic, 4, &stale));
    REQUIRE_VIP(VipDestroyCQ(stale));
    int made_up = 0;
    for (const VIP_CQ_HANDLE bad :
         {stale, static_cast<VIP_CQ_HANDLE>(foreign), static_cast<VIP_CQ_HANDLE>(&made_up), nic.handle()}) {
        VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE);
        attributes.EnableRdmaRead = VIP_FALSE;
        VIP_VI_HANDLE vi = &made_up;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, bad, good, &vi));
        EXPECT(vi == nullptr);
        vi = &made_up;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, good, bad, &vi));
        EXPECT(vi == nullptr);
    }
}

TEST_CASE("VipDestroyVi ends an idle VI", "[VipDestroyVi][early]")
{
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_STATE state = VIP_STATE_IDLE;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    REQUIRE_VIP(VipDestroyVi(vi));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyVi(vi));
}

TEST_CASE("VipDestroyVi forgets queued descriptors and does not touch their memory", "[VipDestroyVi][early]")
{
    const Nic nic;
    Memory memory(nic);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = nullptr;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    const Work receive = memory.transfer(memory.bytes(100));
    post_recv(vi, receive);
    receive.desc->CS.Status = 0x5A5A5A5A; // written after the post: whoever writes later shows
    REQUIRE_VIP(VipDestroyVi(vi));
    EXPECT_EQ(0x5A5A5A5Au, receive.desc->CS.Status);
    EXPECT(receive.buffer.all(0));
}

TEST_CASE("VipDestroyVi forgets completed descriptors that were not reaped", "[VipDestroyVi][early]")
{
    const Nic nic;
    Memory memory(nic);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = nullptr;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    post_send(vi, memory.work()); // an idle VI flushes it at once
    REQUIRE_VIP(VipDestroyVi(vi));
}

TEST_CASE("VipDestroyVi takes its entries out of the completion queues", "[VipDestroyVi][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const Vi stays(nic, vi_attributes(), cq, cq);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE goes = nullptr;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, cq, cq, &goes));
    post_send(goes, memory.work());
    post_send(stays, memory.work());
    post_send(goes, memory.work());
    REQUIRE_VIP(VipDestroyVi(goes));
    cq.expect(stays, VIP_FALSE);
    VIP_VI_HANDLE vi = goes;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &queue));
    EXPECT(vi == nullptr);
}

TEST_CASE("VipQueryVi reads back the attributes", "[VipQueryVi][early]")
{
    const Nic nic;
    const Ptag tag(nic);
    VIP_VI_ATTRIBUTES given = vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY, 12345);
    given.Ptag = tag;
    given.EnableRdmaWrite = VIP_FALSE;
    const Vi vi(nic, given);
    const VIP_VI_ATTRIBUTES seen = vi.attributes();
    EXPECT_EQ(VIP_SERVICE_RELIABLE_DELIVERY, seen.ReliabilityLevel);
    EXPECT_EQ(12345ul, seen.MaxTransferSize);
    EXPECT(seen.QoS == nullptr);
    EXPECT(seen.Ptag == static_cast<void *>(tag));
    EXPECT_EQ(VIP_FALSE, seen.EnableRdmaWrite);
}

TEST_CASE("VipQueryVi tells whether descriptors are posted and not reaped", "[VipQueryVi][early]")
{
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic);
    post_recv(vi, memory.transfer(memory.bytes(10)));
    EXPECT(!vi.recv_queue_empty());
    EXPECT(vi.send_queue_empty());
    post_send(vi, memory.work());
    EXPECT(!vi.send_queue_empty()); // complete, not reaped
    EXPECT_STATUS(VIP_STATUS_DESC_FLUSHED_ERROR, send_failed(vi));
    EXPECT(vi.send_queue_empty());
}

TEST_CASE("VipQueryVi needs only the state's out-pointer", "[VipQueryVi][early]")
{
    const Nic nic;
    const Vi vi(nic);
    VIP_VI_STATE state = VIP_STATE_ERROR;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN empty = VIP_FALSE;
    REQUIRE_VIP(VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
    EXPECT_EQ(VIP_STATE_IDLE, state);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryVi(vi, nullptr, &attributes, &empty, &empty));
}

TEST_CASE("VipSetViAttributes changes an idle VI", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Ptag tag(nic);
    const Vi vi(nic);
    VIP_VI_ATTRIBUTES next = vi_attributes(VIP_SERVICE_UNRELIABLE, 2000);
    next.Ptag = tag;
    next.EnableRdmaWrite = next.EnableRdmaRead = VIP_FALSE;
    REQUIRE_VIP(VipSetViAttributes(vi, &next));
    const VIP_VI_ATTRIBUTES seen = vi.attributes();
    EXPECT_EQ(VIP_SERVICE_UNRELIABLE, seen.ReliabilityLevel);
    EXPECT_EQ(2000ul, seen.MaxTransferSize);
    EXPECT(seen.Ptag == static_cast<void *>(tag));
    EXPECT_EQ(VIP_FALSE, seen.EnableRdmaWrite);
    EXPECT_EQ(VIP_FALSE, seen.EnableRdmaRead);
}

TEST_CASE("VipSetViAttributes frees the tag that the VI leaves", "[VipSetViAttributes][full]")
{
    const Nic nic;
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.Ptag = tag;
    const Vi vi(nic, attributes);
    attributes = vi.attributes();
    attributes.Ptag = nullptr;
    REQUIRE_VIP(VipSetViAttributes(vi, &attributes));
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
}

TEST_CASE("VipSetViAttributes has VipCreateVi's error for a reliability level", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Vi vi(nic);
    spoil_levels([&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse_change(code, vi, attributes); });
}

TEST_CASE("VipSetViAttributes has VipCreateVi's error for a transfer size", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Vi vi(nic);
    spoil_sizes(nic,
                [&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse_change(code, vi, attributes); });
}

TEST_CASE("VipSetViAttributes has VipCreateVi's error for a quality of service", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Vi vi(nic);
    spoil_qos([&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse_change(code, vi, attributes); });
}

TEST_CASE("VipSetViAttributes has VipCreateVi's error for a tag", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Vi vi(nic);
    spoil_tags(nic,
               [&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse_change(code, vi, attributes); });
}

TEST_CASE("VipSetViAttributes has VipCreateVi's error for RDMA Read", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Vi vi(nic);
    spoil_rdma_read(
        nic, [&](VIP_RETURN code, VIP_VI_ATTRIBUTES attributes) { refuse_change(code, vi, attributes); });
}

TEST_CASE("VipSetViAttributes without attributes is VIP_INVALID_PARAMETER", "[VipSetViAttributes][full]")
{
    const Nic nic;
    const Vi vi(nic);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetViAttributes(vi, nullptr));
}

TEST_CASE("VipGetUserData gives what VipSetUserData attached, and NULL before",
          "[VipGetUserData][functional]")
{
    const Nic nic;
    const Vi first(nic), second(nic);
    int one = 0, two = 0;
    EXPECT(VipGetUserData(first) == nullptr);
    REQUIRE_VIP(VipSetUserData(first, &one));
    REQUIRE_VIP(VipSetUserData(second, &two));
    EXPECT(VipGetUserData(first) == &one);
    EXPECT(VipGetUserData(second) == &two);
    REQUIRE_VIP(VipSetUserData(first, nullptr));
    EXPECT(VipGetUserData(first) == nullptr);
}

TEST_CASE("VipSetUserData keeps its pointer through a connection", "[VipSetUserData][functional]")
{
    ConnectedPair pair;
    int mine = 0;
    REQUIRE_VIP(VipSetUserData(pair.server, &mine));
    REQUIRE_VIP(VipDisconnect(pair.server));
    EXPECT(VipGetUserData(pair.server) == &mine);
}

TEST_CASE("VipGetUserData of a bad handle is NULL", "[VipGetUserData][functional]")
{
    const Nic nic;
    EXPECT(VipGetUserData(nullptr) == nullptr);
    EXPECT(VipGetUserData(nic) == nullptr);
}
