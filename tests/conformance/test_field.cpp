// SPDX-License-Identifier: MIT
//
// Section 5 of the contract, line by line: what programs of 1998-2005 rely on. A case's name begins
// with the number of its line.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "connect_roles.hpp"
#include "support/error_log.hpp"
#include "support/system.hpp"

namespace vipl_conformance {

bool fill_function_pointers();
bool use_function_pointers(const char *device);

} // namespace vipl_conformance

using namespace vipl_conformance;

// 5.1

TEST_CASE("5.1 descriptors in char[64], strided by 64, extra segments following", "[field][early]")
{
    EXPECT_EQ(64u, sizeof(VIP_DESCRIPTOR));
    ConnectedPair pair;
    const Span block = pair.client_memory.bytes(64 * 4), data = pair.client_memory.text("strided!");
    const Span inbox = pair.server_memory.bytes(64 * 4), landing = pair.server_memory.bytes(8);
    // Slot 0 is a plain descriptor; slots 1 and 2 are one descriptor with four segments.
    auto *plain = reinterpret_cast<VIP_DESCRIPTOR *>(inbox.data);
    plain->CS.SegCount = 1;
    plain->CS.Length = 8;
    plain->DS[0].Local.Data.Address = landing.data;
    plain->DS[0].Local.Handle = landing.handle;
    plain->DS[0].Local.Length = 8;
    auto *longer = reinterpret_cast<VIP_DESCRIPTOR *>(block.data + 64);
    longer->CS.SegCount = 4;
    longer->CS.Length = 8;
    auto *segments = reinterpret_cast<VIP_DATA_SEGMENT *>(block.data + 64 + sizeof(VIP_CONTROL_SEGMENT));
    for (unsigned i = 0; i < 4; ++i) {
        segments[i].Data.Address = data.data + 2 * i;
        segments[i].Handle = data.handle;
        segments[i].Length = 2;
    }
    REQUIRE_VIP(VipPostRecv(pair.server, plain, inbox.handle));
    REQUIRE_VIP(VipPostSend(pair.client, longer, block.handle));
    EXPECT(sent(pair.client) == longer);
    EXPECT(received(pair.server) == plain);
    EXPECT_EQ(std::string("strided!"), landing.text());
}

TEST_CASE("5.1 enum values index string tables", "[field][early]")
{
    static const char *const returns[] = {"success", "not done", "invalid parameter", "error resource",
                                          "timeout"};
    EXPECT_EQ(std::string("timeout"), std::string(returns[VIP_TIMEOUT]));
    static const char *const states[] = {"idle", "connected", "pending", "error"};
    EXPECT_EQ(std::string("error"), std::string(states[VIP_STATE_ERROR]));
}

TEST_CASE("5.1 a memory handle is never 0 and never 0xFFFFFFFF", "[field][early][private]")
{
    const Nic nic;
    static char bytes[500];
    for (char &byte : bytes) {
        VIP_MEM_HANDLE handle = 0;
        REQUIRE_VIP(VipRegisterMem(nic, &byte, 1, nullptr, &handle));
        EXPECT(handle != 0 && handle != 0xFFFFFFFFu);
    }
}

// 5.2

TEST_CASE("5.2 structs go by their tags and callbacks by their typedefs", "[field][early]")
{
    struct _VIP_DESCRIPTOR descriptor = {};
    struct _VIP_NET_ADDRESS address = {};
    struct _VIP_NIC_ATTRIBUTES nic = {};
    struct _VIP_VI_ATTRIBUTES vi = {};
    struct _VIP_MEM_ATTRIBUTES memory = {};
    struct _VIP_ERROR_DESCRIPTOR error = {};
    VIP_ERROR_HANDLER on_error = [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {};
    VIP_VI_CALLBACK on_vi = NULL;
    VIP_CQ_CALLBACK on_cq = NULL;
    on_error(&descriptor, &error);
    EXPECT(on_vi == NULL && on_cq == NULL);
    EXPECT(address.HostAddressLen == 0 && nic.Name[0] == '\0' && vi.Ptag == NULL && memory.Ptag == NULL);
}

TEST_CASE("5.2 functions are found by their plain names", "[field][early]")
{
    if (!fill_function_pointers()) {
        throw NotApplicable("the library is linked statically: there are no symbols to look up");
    }
    EXPECT(use_function_pointers(device_under_test()));
    for (const char *name : {"VipOpenNic",         "VipCloseNic",        "VipQueryNic",
                             "VipCreatePtag",      "VipDestroyPtag",     "VipRegisterMem",
                             "VipDeregisterMem",   "VipQueryMem",        "VipSetMemAttributes",
                             "VipCreateVi",        "VipDestroyVi",       "VipQueryVi",
                             "VipSetViAttributes", "VipSetUserData",     "VipGetUserData",
                             "VipConnectWait",     "VipConnectAccept",   "VipConnectReject",
                             "VipConnectRequest",  "VipDisconnect",      "VipConnectPeerRequest",
                             "VipConnectPeerDone", "VipConnectPeerWait", "VipPostSend",
                             "VipPostRecv",        "VipSendDone",        "VipRecvDone",
                             "VipSendWait",        "VipRecvWait",        "VipSendNotify",
                             "VipRecvNotify",      "VipCreateCQ",        "VipDestroyCQ",
                             "VipResizeCQ",        "VipCQDone",          "VipCQWait",
                             "VipCQNotify",        "VipErrorCallback",   "VipQuerySystemManagementInfo",
                             "VipNSInit",          "VipNSGetHostByName", "VipNSGetHostByAddr",
                             "VipNSShutdown"}) {
        if (function_by_name(name) == nullptr) {
            throw Failure(std::string(name) + " is not exported");
        }
    }
}

// 5.3

TWO_ROLE_CASE_AT(VIP_SERVICE_RELIABLE_RECEPTION,
                 "5.3 a VI with a NULL tag accepts memory of any tag of its NIC handle", "[field][early]") = {
    [](Peer &peer) {
        const Ptag tag(peer.nic());
        Memory tagged(peer.nic(), 4096, {tag, VIP_TRUE, VIP_FALSE});
        Endpoint end(peer);
        const Work in = tagged.transfer(tagged.bytes(6));
        post_recv(end.vi, in);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(std::string("tagged"), in.buffer.text());
        const Span target = tagged.bytes(8);
        peer.send(target.remote());
        peer.sync();
        EXPECT_EQ(std::string("by RDMA!"), target.text());
        peer.sync();
    },
    [](Peer &peer) {
        const Ptag tag(peer.nic());
        Memory tagged(peer.nic(), 4096, {tag, VIP_FALSE, VIP_FALSE});
        Endpoint end(peer);
        end.connect();
        const Work out = tagged.transfer(tagged.text("tagged"));
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
        post_send(end.vi,
                  tagged.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), tagged.text("by RDMA!")));
        sent(end.vi);
        peer.sync(); // at this level a success means that the data is there
        peer.sync();
    },
};

TEST_CASE("5.3 NULL memory attributes mean the default tag", "[field][early][private]")
{
    ConnectedPair pair;
    alignas(64) static VIP_UINT8 block[256];
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_VIP(VipRegisterMem(pair.client_nic, block, sizeof block, nullptr, &handle));
    auto *descriptor = reinterpret_cast<VIP_DESCRIPTOR *>(block);
    std::memset(block, 0, sizeof block);
    Work out = {descriptor, handle, {}};
    out.local({block + 128, 10, handle});
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(10));
    post_recv(pair.server, in);
    post_send(pair.client, out);
    EXPECT(sent(pair.client) == descriptor);
    EXPECT(received(pair.server) == in.desc);
    REQUIRE_VIP(VipDeregisterMem(pair.client_nic, block, handle));
}

// 5.4

TEST_CASE("5.4 a call that hands back nothing writes NULL, bad handles included", "[field][early]")
{
    const Nic nic;
    const Vi vi(nic);
    VIP_DESCRIPTOR stale{};
    for (const VIP_VI_HANDLE handle : {static_cast<VIP_VI_HANDLE>(vi), static_cast<VIP_VI_HANDLE>(nullptr)}) {
        VIP_DESCRIPTOR *done = &stale;
        VipSendDone(handle, &done);
        EXPECT(done == nullptr);
        done = &stale;
        VipRecvDone(handle, &done);
        EXPECT(done == nullptr);
        done = &stale;
        VipSendWait(handle, 0, &done);
        EXPECT(done == nullptr);
        done = &stale;
        VipRecvWait(handle, 0, &done);
        EXPECT(done == nullptr);
    }
}

TEST_CASE("5.4 a flushed descriptor comes back as VIP_DESCRIPTOR_ERROR with its pointer", "[field][early]")
{
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic);
    const Work work = memory.work();
    VIP_DESCRIPTOR *done = nullptr;
    post_send(vi, work);
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &done));
    EXPECT(done == work.desc);
}

// 5.5

TWO_ROLE_CASE("5.5 a post ignores stale Status; descriptors are reposted with only lengths changed",
              "[field][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.memory.transfer(end.memory.bytes(100));
        in.desc->CS.ImmediateData = 4711;
        end.connect();
        for (VIP_UINT32 size = 1; size <= 100; ++size) {
            in.desc->DS[0].Local.Length = in.desc->CS.Length = size; // nothing else is touched
            post_recv(end.vi, in);
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done)); // in spite of the old DONE bit
            peer.sync();
            EXPECT(received(end.vi) == in.desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, in.desc);
            EXPECT_EQ(size, in.desc->CS.Length);
            EXPECT_EQ(4711u, in.desc->CS.ImmediateData);
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work out = end.memory.transfer(end.memory.bytes(100));
        out.desc->CS.Status = 0xFFFFFFFF;
        end.connect();
        for (VIP_UINT32 size = 1; size <= 100; ++size) {
            out.desc->DS[0].Local.Length = out.desc->CS.Length = size;
            peer.sync();
            post_send(end.vi, out);
            EXPECT(sent(end.vi) == out.desc);
            EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
            EXPECT_EQ(1, out.desc->CS.SegCount);
            EXPECT_EQ(0, out.desc->CS.Control);
        }
        peer.sync();
    },
};

// 5.6

TWO_ROLE_CASE_ONE_NIC("5.6 several VIs may have the same addresses, and a requester's may be the listener's",
                      "[field][early]") = {
    [](Peer &peer) {
        Endpoint one(peer), two(peer);
        const Work first = one.receive(1), second = two.receive(1);
        for (Endpoint *end : {&one, &two}) {
            Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
            EXPECT_EQ(peer.server_address().discriminator(), incoming.from.discriminator());
            REQUIRE_VIP(VipConnectAccept(incoming.connection, end->vi));
        }
        EXPECT(received(one.vi) == first.desc);
        EXPECT(received(two.vi) == second.desc);
        EXPECT_EQ(std::string("12"), first.buffer.text() + second.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint one(peer), two(peer);
        for (Endpoint *end : {&one, &two}) {
            REQUIRE_VIP(request(end->vi, peer.server_address(), peer.server_address()));
        }
        one.send("1");
        two.send("2");
        sent(one.vi);
        sent(two.vi);
        peer.sync();
    },
};

namespace {

/** Both peers name one address as local and as remote. */
void same_name_peer(Peer &peer)
{
    if (!peer.one_address()) {
        throw NotApplicable("the sides are on two hosts: an address is one host's");
    }
    Endpoint end(peer);
    const Work in = end.receive(2);
    NetAddress local = peer.server_address(), remote = peer.server_address();
    REQUIRE_VIP(VipConnectPeerRequest(end.vi, local, remote, patience()));
    REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
    end.send("hi");
    sent(end.vi);
    EXPECT(received(end.vi) == in.desc);
    peer.sync();
}

} // namespace

TWO_ROLE_CASE_ONE_NIC("5.6 two peers that name the same address as local and remote are each other's match",
                      "[field][functional]") = {same_name_peer, same_name_peer};

// 5.7

TWO_ROLE_CASE("5.7 VipConnectWait fills RemoteAddr with the requester's LocalAddr, whatever was in it",
              "[field][early]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        for (const unsigned garbage : {0u, 7u, 0xFFFFu}) {
            NetAddress expected = peer.client_address(), local = peer.server_address();
            // Exactly the room needed: what is written beyond it is seen.
            NetAddress from(expected.host().size() + expected.discriminator().size(),
                            static_cast<VIP_UINT16>(garbage), static_cast<VIP_UINT16>(garbage));
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            REQUIRE_VIP(VipConnectWait(peer.nic(), local, patience(), from, &attributes, &connection));
            EXPECT_EQ(expected.host(), from.host());
            EXPECT_EQ(expected.discriminator(), from.discriminator());
            EXPECT(from.guard_intact());
            REQUIRE_VIP(VipConnectReject(connection));
        }
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        for (int i = 0; i < 3; ++i) {
            REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address(), peer.server_address()));
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("5.7 LocalAddr is a name: any discriminator, none, or of MaxDiscriminatorLen bytes",
              "[field][early]") = {
    [](Peer &peer) {
        for (const size_t length : {size_t{0}, size_t{1}, size_t{4}, size_t{16}, size_t{64}}) {
            Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
            EXPECT_EQ(std::string(length, 'n'), incoming.from.discriminator());
            EXPECT_EQ(peer.host(Side::client), incoming.from.host());
            REQUIRE_VIP(VipConnectReject(incoming.connection));
        }
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        for (const size_t length : {size_t{0}, size_t{1}, size_t{4}, size_t{16}, size_t{64}}) {
            REQUIRE_RC(VIP_REJECT,
                       request(vi, peer.nic().address(std::string(length, 'n')), peer.server_address()));
        }
        peer.sync();
    },
};

// 5.8

TWO_ROLE_CASE("5.8 a request waits for its listener, and may be made again by the same VI",
              "[field][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        peer.sync(); // the first request is over: nobody waited
        let_a_moment_pass();
        end.connect(); // the second was there before
        end.send("late");
        sent(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(4);
        REQUIRE_RC(VIP_NO_MATCH,
                   request(end.vi, peer.client_address(), peer.server_address(), answer_time()));
        EXPECT(!end.vi.recv_queue_empty());
        peer.sync();
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        peer.sync();
    },
};

// 5.9

TWO_ROLE_CASE_EACH_LEVEL("5.9 RDMA Write data becomes visible in address order, the tail last",
                         "[field][functional]") = {
    [](Peer &peer) {
        constexpr VIP_UINT32 words = 1024;
        Endpoint end(peer);
        const Span target = end.memory.bytes(words * 8);
        auto *data = reinterpret_cast<VIP_UINT32 *>(target.data);
        end.connect();
        for (VIP_UINT32 round = 1; round <= 50; ++round) {
            peer.send(target.remote());
            const unsigned long long stop = now_ms() + patience();
            while (target.poll_last() != round) { // spins on the tail
                EXPECT(now_ms() < stop);
            }
            for (VIP_UINT32 i = 0; i < 2 * words; ++i) {
                EXPECT_EQ(round * 0x01010101u, data[i]);
            }
        }
        peer.sync();
    },
    [](Peer &peer) {
        constexpr VIP_UINT32 words = 1024;
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(words * 8);
        auto *data = reinterpret_cast<VIP_UINT32 *>(bytes.data);
        const Work work = end.memory.work();
        end.connect();
        for (VIP_UINT32 round = 1; round <= 50; ++round) {
            for (VIP_UINT32 i = 0; i < 2 * words; ++i) {
                data[i] = round * 0x01010101u;
            }
            work.desc->CS = {};
            Work again = work;
            again.op(VIP_CONTROL_OP_RDMAWRITE).remote(peer.receive<RemoteSpan>()).local(bytes);
            post_send(end.vi, again);
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("5.9 an aligned 4- or 8-byte item of an RDMA Write appears whole", "[field][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(8);
        auto *item = reinterpret_cast<VIP_UINT32 *>(target.data);
        end.connect();
        peer.send(target.remote());
        VIP_UINT32 seen = 0;
        const unsigned long long stop = now_ms() + patience();
        while (seen != 0xFEFEFEFEu) {
            seen = __atomic_load_n(item, __ATOMIC_ACQUIRE);
            const VIP_UINT32 byte = seen & 0xFF;
            EXPECT_EQ(byte * 0x01010101u, seen); // never half of one value and half of another
            EXPECT(now_ms() < stop);
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(8);
        const Work work = end.memory.work();
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        for (unsigned value = 1; value <= 0xFE; ++value) {
            std::memset(bytes.data, static_cast<int>(value), 8);
            work.desc->CS = {};
            Work again = work;
            again.op(VIP_CONTROL_OP_RDMAWRITE)
                .remote(target)
                .local(value % 2 == 0 ? bytes : bytes.part(0, 4));
            post_send(end.vi, again);
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("5.9 RDMA Write with immediate consumes a receive of any size and leaves its buffer alone",
              "[field][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work none = end.memory.work();
        post_recv(end.vi, none);
        const Work tiny = end.receive(1), large = end.receive(4000);
        const Span target = end.memory.bytes(500);
        end.connect();
        peer.send(target.remote());
        for (const Work *work : {&none, &tiny, &large}) {
            EXPECT(received(end.vi) == work->desc);
            EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, work->desc);
            EXPECT_EQ(500u, work->desc->CS.Length);
        }
        EXPECT(tiny.buffer.all(0) && large.buffer.all(0));
        EXPECT(target.holds(1));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(500);
        bytes.fill(1);
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        for (VIP_UINT32 i = 0; i < 3; ++i) {
            post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, target, bytes).immediate(i));
            sent(end.vi);
        }
        peer.sync();
    },
};

// 5.10

TEST_CASE("5.10 VipDisconnect succeeds on an idle VI and on one disconnected already", "[field][early]")
{
    ConnectedPair pair;
    const Vi idle(pair.client_nic);
    REQUIRE_VIP(VipDisconnect(idle));
    REQUIRE_VIP(VipDisconnect(pair.client));
    REQUIRE_VIP(VipDisconnect(pair.client));
    REQUIRE_VIP(VipDisconnect(pair.server));
    REQUIRE_VIP(VipDisconnect(pair.server));
}

TWO_ROLE_CASE(
    "5.10 a remote disconnect moves the VI out of CONNECTED and is reported as exactly one CONN_LOST",
    "[field][functional]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        peer.sync();
        errors.expect(end.vi,
                      VIP_ERROR_CONN_LOST); // no local call about this VI in between
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        errors.expect_none();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
};

// 5.11

namespace {

Endpoint *g_abandoned; // reachable to the end: left behind, not leaked

} // namespace

TWO_PROCESS_CASE("5.11 a program may exit with nothing torn down", "[field][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        peer.sync();
        end.vi.await(VIP_STATE_ERROR);
    },
    [](Peer &peer) {
        Endpoint *const end = g_abandoned = new Endpoint(peer); // never destroyed
        for (int i = 0; i < 10; ++i) {
            end->receive(10);
        }
        end->connect();
        REQUIRE_VIP(VipRecvNotify(end->vi, nullptr,
                                  [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
        end->send("bye!");
        sent(end->vi);
        peer.will_exit(7);
        peer.sync();
        std::exit(7);
    },
};

TEST_CASE("5.11 registered memory may be freed before VipCloseNic", "[field][early]")
{
    const Nic other;
    const Vi other_vi(other);
    VIP_NIC_HANDLE nic = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &nic));
    {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        VIP_VI_HANDLE vi = nullptr;
        REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
        void *block = allocate_aligned(64, 4096);
        std::memset(block, 0, 4096);
        VIP_MEM_HANDLE handle = 0;
        REQUIRE_VIP(VipRegisterMem(nic, block, 4096, nullptr, &handle));
        Work receive = {static_cast<VIP_DESCRIPTOR *>(block), handle, {}};
        receive.local({static_cast<VIP_UINT8 *>(block) + 1024, 1000, handle});
        post_recv(vi, receive);
        free_aligned(block);
    }
    REQUIRE_VIP(VipCloseNic(nic)); // a sanitizer or a checking allocator sees a touch
}

TWO_ROLE_CASE("5.11 descriptors may be freed after disconnect and destroy, while the peer still sends",
              "[field][early]") = {
    [](Peer &peer) {
        auto memory = std::make_unique<Memory>(peer.nic(), 65536);
        {
            const Vi vi(peer.nic(), vi_attributes(peer.level()));
            for (int i = 0; i < 20; ++i) {
                post_recv(vi, memory->transfer(memory->bytes(1000)));
            }
            const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
            REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(VipRecvWait(vi, patience(), &done));
        }
        memory.reset();
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work out = end.memory.transfer(end.memory.bytes(1000));
        end.connect();
        VIP_RETURN rc = VIP_SUCCESS;
        while (rc == VIP_SUCCESS) { // until the disconnect arrives, or the receives run out
            post_send(end.vi, out);
            VIP_DESCRIPTOR *done = nullptr;
            rc = VipSendWait(end.vi, patience(), &done);
            EXPECT(done == out.desc);
        }
        EXPECT_EQ(VIP_DESCRIPTOR_ERROR, rc);
        peer.sync();
    },
};

// 5.12

TEST_CASE("5.12 a completion queue of one entry serves many completions", "[field][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic, 1);
    const Vi vi(nic, vi_attributes(), cq, cq);
    for (int i = 0; i < 30; ++i) {
        post_send(vi, memory.work());
    }
    for (int i = 0; i < 30; ++i) {
        cq.expect(vi, VIP_FALSE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &done));
    }
}

TWO_ROLE_CASE("5.12 a completion queue hit on a queue that another thread drained is VIP_NOT_DONE",
              "[field][functional]") = {
    [](Peer &peer) {
        const Cq cq(peer.nic());
        Endpoint end(peer, kTransferSize, cq, cq);
        end.receive(4);
        const Work last = end.receive(4);
        end.connect();
        cq.expect(end.vi, VIP_TRUE);
        VIP_RETURN drained = VIP_NOT_DONE;
        std::thread other([&] {
            VIP_DESCRIPTOR *done = nullptr;
            drained = VipRecvDone(end.vi, &done);
        });
        other.join();
        REQUIRE_VIP(drained);
        VIP_DESCRIPTOR *done = last.desc;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        EXPECT(done == nullptr);
        peer.sync();
        cq.expect(end.vi, VIP_TRUE); // no harm: the next one comes as usual
        REQUIRE_VIP(VipRecvDone(end.vi, &done));
        EXPECT(done == last.desc);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        end.send("one");
        sent(end.vi);
        peer.sync();
        end.send("two");
        sent(end.vi);
        peer.sync();
    },
};

// 5.13

TWO_ROLE_CASE_AT(VIP_SERVICE_UNRELIABLE,
                 "5.13 Unreliable VIs lose nothing on one host while receives are posted",
                 "[field][full]") = {
    [](Peer &peer) {
        if (!device_is_loopback() && peer.in_other_process()) {
            throw NotApplicable("whether both ends are on one host is known on loopback only");
        }
        constexpr unsigned batch = 100;
        Endpoint end(peer);
        std::vector<Work> works;
        for (unsigned i = 0; i < batch; ++i) {
            works.push_back(end.memory.transfer(end.memory.bytes(600)));
        }
        end.connect();
        for (unsigned round = 0; round < 10; ++round) {
            for (const Work &work : works) {
                work.desc->CS.Length = 600;
                post_recv(end.vi, work);
            }
            peer.sync();
            for (unsigned i = 0; i < batch; ++i) {
                EXPECT(received(end.vi) == works[i].desc);
                EXPECT(works[i].buffer.holds(round * batch + i));
            }
        }
        peer.sync();
    },
    [](Peer &peer) {
        if (!device_is_loopback() && peer.in_other_process()) {
            throw NotApplicable("whether both ends are on one host is known on loopback only");
        }
        constexpr unsigned batch = 100;
        Endpoint end(peer);
        const Work out = end.memory.transfer(end.memory.bytes(600));
        end.connect();
        for (unsigned round = 0; round < 10; ++round) {
            peer.sync();
            for (unsigned i = 0; i < batch; ++i) {
                out.buffer.fill(round * batch + i);
                post_send(end.vi, out);
                EXPECT(sent(end.vi) == out.desc);
            }
        }
        peer.sync();
    },
};

// 5.14

TEST_CASE("5.14 enumerating VINIC0, VINIC1, ... ends with VIP_ERROR_RESOURCE", "[field][early]")
{
    int found = 0;
    VIP_RETURN rc = VIP_SUCCESS;
    while (found < 100) {
        VIP_NIC_HANDLE nic = nullptr;
        rc = VipOpenNic(("VINIC" + std::to_string(found)).c_str(), &nic);
        if (rc != VIP_SUCCESS) {
            EXPECT(nic == nullptr);
            break;
        }
        REQUIRE_VIP(VipCloseNic(nic));
        ++found;
    }
    EXPECT(found >= 1);
    EXPECT_EQ(VIP_ERROR_RESOURCE, rc);
}

TEST_CASE("5.14 the known spellings open the default device", "[field][early]")
{
    const Nic standard(nullptr);
    for (const char *name : {"VINIC", "VINIC0", "nic0", "/dev/via_lo", "/etc/via_lo", "/dev/clanvi0"}) {
        const Nic nic(name);
        EXPECT_EQ(standard.address("").host(), nic.address("").host());
    }
}

TEST_CASE("5.14 unknown device names fail cleanly", "[field][early]")
{
    for (const std::string &name :
         {std::string("eth0"), std::string("/dev/nothing"), std::string("VINIC99"), std::string("loopbac"),
          std::string("loopback2"), std::string(5000, 'x')}) {
        int anything = 0;
        VIP_NIC_HANDLE nic = &anything;
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipOpenNic(name.c_str(), &nic));
        EXPECT(nic == nullptr);
    }
}

// 5.15

TEST_CASE("5.15 VipNSGetHostByName works before, without and after VipNSInit, into a zeroed address",
          "[field][functional]")
{
    const Nic nic;
    std::string name = host_name();
    for (int round = 0; round < 3; ++round) {
        NetAddress found(6 + 64);
        std::memset(found.get(), 0, sizeof(VIP_NET_ADDRESS));
        REQUIRE_VIP(VipNSGetHostByName(nic, name.data(), found, 0));
        EXPECT_EQ(nic.attributes().NicAddressLen, found.get()->HostAddressLen);
        REQUIRE_VIP(VipNSInit(nic, nullptr));
    }
}

TEST_CASE("5.15 host names without a domain are found", "[field][functional]")
{
    const Nic nic;
    const std::string whole = host_name();
    std::string name = whole.substr(0, whole.find('.'));
    NetAddress found;
    REQUIRE_VIP(VipNSGetHostByName(nic, name.data(), found, 0));
}
