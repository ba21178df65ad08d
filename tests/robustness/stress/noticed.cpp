// SPDX-License-Identifier: MIT
//
// The peer dies while this program makes no call. The first call of whatever kind that it makes a
// second later notices, and nothing that it posts succeeds any more; also if it polled as fast as
// it could until then. There is no service thread that could notice for it.
#include "stress.hpp"

#include <vipl/posix.h>

using namespace stress;

namespace {

constexpr VIP_UINT32 kBytes = 64;
constexpr unsigned kFast = 30000; // polls, among which a millisecond passes many times

enum Call : unsigned { kRecvDone, kCqDone, kQuery, kSend, kWrite, kRead, kCalls };
const char *const kCallNames[] = {"VipRecvDone", "VipCQDone",     "VipQueryVi",
                                  "a send",      "an RDMA write", "an RDMA read"};

/** Nobody may access this side's memory: then it has no service thread. */
VIP_VI_ATTRIBUTES without_service()
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE;
    return attributes;
}

void victim(const Scene &scene, Line &line)
{
    const Nic nic;
    Memory memory(nic, 4096, rdma_memory());
    const Span window = memory.bytes(kBytes);
    const Vi vi(nic);
    for (unsigned i = 0; i < 8; ++i) {
        post_recv(vi, memory.transfer(window));
    }
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    line.send(window.remote());
    line.receive<char>(); // which does not come
}

struct Party {
    Party(const Nic &nic, bool queued)
        : memory(nic, 16384), cq(nic),
          vi(nic, without_service(), nullptr, queued ? cq.operator VIP_CQ_HANDLE() : nullptr)
    {
        post_recv(vi, memory.transfer(memory.bytes(kBytes)));
    }

    Work operation(Call call, RemoteSpan remote)
    {
        const Span bytes = memory.bytes(kBytes);
        return call == kSend
                   ? memory.transfer(bytes)
                   : memory.rdma(call == kWrite ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD, remote,
                                 bytes);
    }

    /** Whether an operation succeeds. */
    bool succeeds(const Work &work)
    {
        VIP_DESCRIPTOR *done = nullptr;
        post_send(vi, work);
        return VipSendWait(vi, 2 * patience(), &done) == VIP_SUCCESS;
    }

    Memory memory;
    Cq cq;
    Vi vi;
};

/** Whether the end of the connection is noticed by this call. */
bool notices(Party &party, Call call, RemoteSpan remote)
{
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN receive = VIP_FALSE;
    switch (call) {
    case kRecvDone:
        return VipRecvDone(party.vi, &done) == VIP_DESCRIPTOR_ERROR;
    case kCqDone:
        return VipCQDone(party.cq, &vi, &receive) == VIP_SUCCESS;
    case kQuery:
        return party.vi.state() == VIP_STATE_ERROR;
    default:
        return !party.succeeds(party.operation(call, remote));
    }
}

void die_unseen(Call call, bool fast)
{
    const Scene scene = make_scene();
    Child child(victim, scene);
    const Nic elsewhere("loopback", false), nic;
    const Cq empty(elsewhere);
    Party party(nic, call == kCqDone);
    REQUIRE_VIP(accept_on(nic, scene.name(), party.vi));
    const auto remote = child.line.receive<RemoteSpan>();
    EXPECT(call < kSend || !notices(party, call, remote)); // it goes well while the peer lives
    VIP_DESCRIPTOR *done = nullptr;
    for (unsigned i = 0; fast && i < kFast; ++i) {
        EXPECT(call != kRecvDone ? VipSendDone(party.vi, &done) == VIP_NOT_DONE
                                 : !notices(party, call, remote));
    }
    child.kill();
    child.finish(true);
    let_moments_pass(empty, 1000 / kMoment + 1);
    EXPECT(notices(party, call, remote));
    EXPECT(!party.succeeds(party.operation(kSend, remote)));
    EXPECT_EQ(VIP_STATE_ERROR, party.vi.state());
}

} // namespace

TEST_CASE("the first call a second after the peer's death notices it", "[noticed]")
{
    for (unsigned call = 0; call < kCalls; ++call) {
        for (const bool fast : {false, true}) {
            INFO(kCallNames[call] << (fast ? ", after polling fast" : ""));
            CHECK_NOTHROW(die_unseen(static_cast<Call>(call), fast));
        }
    }
}
