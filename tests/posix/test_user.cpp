// SPDX-License-Identifier: MIT
//
// POSIX, another user: a process gives up its rights while it is connected, as servers do. What is
// under way arrives, once and in order, and so does what follows, though neither process may look
// into the other's memory any more.
#include <memory>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "family.hpp"

using namespace vipl_conformance;

namespace {

constexpr unsigned kMessages = 24;
constexpr VIP_UINT32 kLarge = 60000, kSmall = 100;

void must_be_root()
{
    if (geteuid() != 0) {
        throw NotApplicable("only root may become another user");
    }
}

void become_nobody()
{
    constexpr uid_t kNobody = 65534;
    EXPECT_EQ(0, setgid(kNobody));
    EXPECT_EQ(0, setuid(kNobody));
    EXPECT_EQ(0, prctl(PR_SET_DUMPABLE, 0)); // nor may root look, unless it traces
}

/** No RDMA: then no thread of the library's fetches what the program has not called for. */
VIP_VI_ATTRIBUTES plain(const Peer &peer)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE;
    return attributes;
}

/** One stream of messages each way: large ones, with small ones between, with immediate data. */
class Stream {
public:
    explicit Stream(Peer &peer) : end_(peer, plain(peer), (2 * kMessages + 2) * (kLarge + 256))
    {
        end_.connect();
    }

    void post_receives()
    {
        receives_.clear();
        for (unsigned i = 0; i < kMessages; ++i) {
            receives_.push_back(buffer(2 * i).local(buffer_of(2 * i)));
            post_recv(end_.vi, receives_.back());
        }
    }
    void post_sends(unsigned seed)
    {
        for (unsigned i = 0; i < kMessages; ++i) {
            Span bytes = buffer_of(2 * i + 1).part(0, size_of(i));
            bytes.fill(seed + i);
            post_send(end_.vi, buffer(2 * i + 1).immediate(seed + i).local(bytes));
        }
    }
    void reap(unsigned seed)
    {
        for (unsigned i = 0; i < kMessages; ++i) {
            EXPECT(received(end_.vi) == receives_[i].desc);
            EXPECT_EQ(size_of(i), static_cast<VIP_UINT32>(receives_[i].desc->CS.Length));
            EXPECT_EQ(seed + i, static_cast<unsigned>(receives_[i].desc->CS.ImmediateData));
            EXPECT(buffer_of(2 * i).part(0, size_of(i)).holds(seed + i));
            sent(end_.vi);
        }
    }

private:
    static VIP_UINT32 size_of(unsigned i) { return i % 3 == 1 ? kSmall : kLarge; }
    Span buffer_of(unsigned i)
    {
        while (spans_.size() <= i) {
            spans_.push_back(end_.memory.bytes(kLarge));
        }
        return spans_[i];
    }
    Work buffer(unsigned i)
    {
        while (works_.size() <= i) {
            works_.push_back(end_.memory.work(2));
        }
        Work work = works_[i];
        *work.desc = VIP_DESCRIPTOR{};
        return work;
    }

    Endpoint end_;
    std::vector<Span> spans_;
    std::vector<Work> works_, receives_;
};

void exchange_under_way(Peer &peer, bool drops)
{
    must_be_root();
    Stream stream(peer);
    const unsigned own = drops ? 1000 : 2000, other = drops ? 2000 : 1000;
    stream.post_receives();
    peer.sync();
    stream.post_sends(own);
    peer.sync(); // all are under way
    if (drops) {
        become_nobody();
    }
    peer.sync();
    stream.reap(other);
    peer.sync();
    stream.post_receives();
    peer.sync();
    stream.post_sends(own + 100);
    stream.reap(other + 100);
    peer.sync();
}

/** Writes and reads of the other's memory. */
void reach_across(Peer &peer, bool drops)
{
    must_be_root();
    if (!peer.reliable()) {
        throw NotApplicable("RDMA Read wants a reliable level");
    }
    Endpoint end(peer);
    end.connect();
    Memory memory(peer.nic(), 4 * kLarge, rdma_memory());
    const Span window = memory.bytes(kLarge), copy = memory.bytes(kLarge), out = memory.bytes(kLarge);
    peer.send(window.remote());
    const RemoteSpan theirs = peer.receive<RemoteSpan>();
    if (drops) {
        become_nobody();
    }
    for (unsigned round = 0; round < 3; ++round) {
        const unsigned own = (drops ? 10 : 20) + round, other = (drops ? 20 : 10) + round;
        peer.sync();
        out.fill(own);
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, theirs, out));
        sent(end.vi);
        peer.sync();
        EXPECT(window.holds(other));
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, theirs, copy));
        sent(end.vi);
        EXPECT(copy.holds(own));
    }
    peer.sync();
}

constexpr unsigned kConnections = 14, kEach = 20; // more messages than a link answers for at once

/** Connections of one NIC handle, each with messages under way. */
struct Bundle {
    explicit Bundle(Peer &peer) : memory(peer.nic(), 512 * 1024), bytes(memory.bytes(kLarge))
    {
        for (unsigned i = 0; i < kConnections; ++i) {
            vis.push_back(std::make_unique<Vi>(peer.nic(), plain(peer)));
            const std::string suffix = std::to_string(i);
            if (peer.is_server()) {
                accept_one(peer, suffix, *vis.back());
            } else {
                NetAddress from = peer.client_address(suffix), to = peer.server_address(suffix);
                VIP_VI_ATTRIBUTES attributes{};
                REQUIRE_VIP(VipConnectRequest(*vis.back(), from, to, patience(), &attributes));
            }
        }
    }
    static void accept_one(Peer &peer, const std::string &suffix, VIP_VI_HANDLE vi)
    {
        NetAddress local = peer.server_address(suffix), remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        REQUIRE_VIP(VipConnectWait(peer.nic(), local, patience(), remote, &attributes, &request));
        REQUIRE_VIP(VipConnectAccept(request, vi));
    }
    void post(bool receive)
    {
        for (const auto &vi : vis) {
            for (unsigned i = 0; i < kEach; ++i) {
                const Work work = memory.transfer(bytes);
                receive ? post_recv(*vi, work) : post_send(*vi, work);
            }
        }
    }

    Memory memory;
    Span bytes;
    std::vector<std::unique_ptr<Vi>> vis;
};

/** All but one are given up while the other side asks for their messages again: the last one is not
 * disturbed. */
void leave_in_the_middle(Peer &peer, bool drops)
{
    must_be_root();
    Bundle bundle(peer);
    const VIP_VI_HANDLE last = *bundle.vis.back();
    if (drops) {
        bundle.post(true);
    }
    peer.sync();
    if (!drops) {
        bundle.post(false);
    }
    peer.sync();
    VIP_DESCRIPTOR *done = nullptr;
    if (drops) {
        become_nobody();
        for (unsigned i = 0; i + 1 < kConnections; ++i) { // which looks at what is there for all
            VipRecvDone(*bundle.vis[i], &done);
        }
    }
    peer.sync();
    for (unsigned i = 0; i + 1 < kConnections; ++i) {
        if (drops) {
            bundle.vis[i]->await(VIP_STATE_ERROR);
        } else {
            REQUIRE_VIP(VipDisconnect(*bundle.vis[i]));
        }
        while (VipRecvDone(*bundle.vis[i], &done) != VIP_NOT_DONE ||
               VipSendDone(*bundle.vis[i], &done) != VIP_NOT_DONE) {
        }
    }
    bundle.vis.erase(bundle.vis.begin(), bundle.vis.end() - 1);
    for (unsigned i = 0; i < kEach; ++i) {
        drops ? received(last) : sent(last);
    }
    peer.sync();
}

/** Where requests came from the former user's programs, they come from the new user's now. */
void be_found_again()
{
    must_be_root();
    if (device_is_rnic()) {
        throw NotApplicable("each user has a card, and so an address, of its own");
    }
    expect_fresh(); // else the suite's processes share, and stay who they are
    const Nic nic;
    const std::string name = unique_discriminator();
    NetAddress local = nic.address(name), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, 0, remote, &attributes, &request));
    become_nobody();
    Fork child([&] {
        const Nic own;
        Vi vi(own);
        NetAddress from = own.address(name + "c"), to = own.address(name);
        REQUIRE_VIP(VipConnectRequest(vi, from, to, patience(), nullptr));
    });
    Vi vi(nic);
    REQUIRE_VIP(VipConnectWait(nic, local, patience(), remote, &attributes, &request));
    REQUIRE_VIP(VipConnectAccept(request, vi));
    child.finish();
}

} // namespace

TWO_PROCESS_CASE("a program that becomes another user and listens on is found by that user's programs",
                 "[VipConnectWait][posix][user]") = {
    nobody,
    [](Peer &) { be_found_again(); },
};

VIPL_TEST_ROLES("connections that end while their messages are sent again disturb no other",
                "[VipDisconnect][posix][user]", two_processes_only(), reliable_levels()) = {
    [](Peer &peer) { leave_in_the_middle(peer, false); },
    [](Peer &peer) { leave_in_the_middle(peer, true); },
};

VIPL_TEST_ROLES("messages under way arrive, and others after them, when one side becomes another user",
                "[VipPostSend][posix][user]", two_processes_only(), all_levels()) = {
    [](Peer &peer) { exchange_under_way(peer, false); },
    [](Peer &peer) { exchange_under_way(peer, true); },
};

VIPL_TEST_ROLES("RDMA goes on, both ways, when one side becomes another user", "[VipPostSend][posix][user]",
                two_processes_only(), reliable_levels()) = {
    [](Peer &peer) { reach_across(peer, false); },
    [](Peer &peer) { reach_across(peer, true); },
};
