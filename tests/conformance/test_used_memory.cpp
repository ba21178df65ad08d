// SPDX-License-Identifier: MIT
//
// Memory that messages have used, and that ends or changes then: what was allowed a moment ago is
// not allowed any more, for descriptors and for data, at either end.
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

VIP_VI_ATTRIBUTES with_tag(VIP_PROTECTION_HANDLE tag)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE, 4096); // which outlives failures
    attributes.Ptag = tag;
    return attributes;
}

/** Two connected VIs of one tag, which have used `data`: for descriptors, for what is sent and for
 * what is received. */
struct Used {
    Used()
        : tag(nic), other_tag(nic), own(nic, 65536, rdma_memory(tag)), data(nic, 65536, rdma_memory(tag)),
          from(nic, with_tag(tag)), to(nic, with_tag(tag))
    {
        connect_pair(nic, to, nic, from);
        message_in_data();
        message_in_data(); // the second one finds what the first one has left behind
    }

    void message_in_data()
    {
        const Work in = data.transfer(data.bytes(8)), out = data.transfer(data.bytes(8));
        post_recv(to, in);
        post_send(from, out);
        EXPECT(received(to) == in.desc);
        EXPECT(sent(from) == out.desc);
    }

    /** Sends what is in `data`. */
    void expect_send_fails()
    {
        const Work out = own.transfer(data.bytes(8));
        post_send(from, out);
        EXPECT(send_failed(from) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR, out.desc);
    }

    /** Receives into `data`. */
    void expect_receive_fails()
    {
        const Work in = own.transfer(data.bytes(8)), out = own.transfer(own.bytes(8));
        post_recv(to, in);
        post_send(from, out);
        EXPECT(receive_failed(to) == in.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_PROTECTION_ERROR, in.desc);
        EXPECT(sent(from) == out.desc);
    }

    void change_tag()
    {
        VIP_MEM_ATTRIBUTES changed = rdma_memory(other_tag);
        REQUIRE_VIP(VipSetMemAttributes(nic, data.data(), data.handle(), &changed));
    }

    Nic nic;
    Ptag tag, other_tag;
    Memory own, data;
    Vi from, to;
};

/** A descriptor in memory that has ended is refused at once, or completes with FORMAT_ERROR. */
void expect_refused(VIP_VI_HANDLE vi, const Work &work)
{
    if (VipPostSend(vi, work.desc, work.handle) == VIP_SUCCESS) {
        EXPECT(send_failed(vi) == work.desc);
        EXPECT_EQ(static_cast<VIP_UINT32>(VIP_STATUS_FORMAT_ERROR), work.status() & VIP_STATUS_ERROR_MASK);
    } else {
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipPostSend(vi, work.desc, work.handle));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipPostRecv(vi, work.desc, work.handle));
    }
}

} // namespace

TEST_CASE("VipDeregisterMem ends memory for data that messages have used", "[VipDeregisterMem][full]")
{
    Used u;
    u.data.deregister();
    u.expect_send_fails();
    u.expect_receive_fails();
}

TEST_CASE("VipDeregisterMem ends memory for descriptors that messages have used", "[VipDeregisterMem][full]")
{
    Used u;
    const Work work = u.data.transfer(u.own.bytes(8));
    u.data.deregister();
    expect_refused(u.from, work);
}

TEST_CASE("VipSetMemAttributes takes memory that messages have used from VIs of the former tag",
          "[VipSetMemAttributes][full]")
{
    Used u;
    u.change_tag();
    u.expect_send_fails();
    u.expect_receive_fails();
    const Work work = u.data.transfer(u.own.bytes(8));
    post_send(u.from, work);
    EXPECT(send_failed(u.from) == work.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR, work.desc);
}

TEST_CASE("VipSetViAttributes takes a VI from memory of its former tag that it has used",
          "[VipSetViAttributes][full]")
{
    Used u;
    REQUIRE_VIP(VipDisconnect(u.from));
    u.to.await(VIP_STATE_ERROR);
    REQUIRE_VIP(VipDisconnect(u.to));
    VIP_VI_ATTRIBUTES attributes = u.from.attributes();
    attributes.Ptag = u.other_tag;
    REQUIRE_VIP(VipSetViAttributes(u.from, &attributes));
    REQUIRE_VIP(VipSetViAttributes(u.to, &attributes));
    connect_pair(u.nic, u.to, u.nic, u.from);
    const Work in = u.data.transfer(u.data.bytes(8)), out = u.data.transfer(u.data.bytes(8));
    post_recv(u.to, in);
    EXPECT(receive_failed(u.to) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_PROTECTION_ERROR, in.desc);
    post_send(u.from, out);
    EXPECT(send_failed(u.from) == out.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR, out.desc);
}
