// SPDX-License-Identifier: MIT
//
// POSIX fork, the objects: what becomes of each kind in the child, in the parent, and when both go
// on. The table in docs/use/fork.md has a cell for each case here.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include <unistd.h>

#include <vipl/posix.h>

#include "conformance/notify_log.hpp"
#include "support/dead_handles.hpp"
#include "support/forked.hpp"

using namespace vipl_conformance;

namespace {

/** A message from the client to the server of a pair. */
void ping(ConnectedPair &pair)
{
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(4));
    post_recv(pair.server, in);
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("ping")));
    EXPECT(received(pair.server) == in.desc);
    EXPECT_EQ(std::string("ping"), in.buffer.text());
    sent(pair.client);
}

/** A request that waits for its answer, taken by VipConnectWait. */
class PendingRequest {
public:
    explicit PendingRequest(const Nic &nic) : vi(nic)
    {
        const std::string name = unique_discriminator();
        local_ = nic.address(name + "c");
        remote_ = nic.address(name);
        caller_ = std::thread(
            [this] { result_ = VipConnectRequest(vi, local_, remote_, 2 * patience(), nullptr); });
        NetAddress listen = nic.address(name), from;
        VIP_VI_ATTRIBUTES attributes{};
        taken_ = VipConnectWait(nic, listen, patience(), from, &attributes, &connection);
    }
    ~PendingRequest()
    {
        VipConnectReject(connection);
        wait();
    }
    PendingRequest(const PendingRequest &) = delete;
    PendingRequest &operator=(const PendingRequest &) = delete;

    /** What the requester's call returned. */
    VIP_RETURN wait()
    {
        if (caller_.joinable()) {
            caller_.join();
        }
        return taken_ == VIP_SUCCESS ? result_ : taken_;
    }

    Vi vi;
    VIP_CONN_HANDLE connection = nullptr;

private:
    NetAddress local_, remote_;
    std::thread caller_;
    VIP_RETURN result_ = VIP_NOT_DONE, taken_ = VIP_NOT_DONE;
};

/** One live object of each kind. */
struct World {
    World() : tag(pair.server_nic), cq(pair.server_nic), request(pair.server_nic)
    {
        local = pair.server_nic.address("here");
        remote = pair.server_nic.address("there");
        work = pair.server_memory.transfer(pair.server_memory.bytes(64));
    }
    Handles handles()
    {
        return {pair.server_nic, tag,   work.buffer.data,   work.handle,
                pair.server,     cq,    request.connection, work.desc,
                local,           remote};
    }

    ConnectedPair pair;
    Ptag tag;
    Cq cq;
    PendingRequest request;
    NetAddress local, remote;
    Work work{};
};

constexpr unsigned kWatchdog = 5; // seconds for one call

void is_dead_in_child(const HandleCall &one)
{
    World world;
    const Handles handles = world.handles();
    Forked child(
        [&](const ParentLine &) {
            EXPECT_EQ(VIP_INVALID_PARAMETER, one.call(handles));
            const Nic nic; // handles of its own do not revive its parent's
            Memory memory(nic, 4096);
            const Ptag tag(nic);
            const Cq cq(nic);
            const Vi vi(nic);
            EXPECT_EQ(VIP_INVALID_PARAMETER, one.call(handles));
        },
        kWatchdog * timeout_scale());
    child.finish();
    ping(world.pair);
}

bool register_calls()
{
    for (const HandleCall &one : handle_calls()) {
        const std::string name = one.function;
        register_case(
            name + " with handles of the parent is VIP_INVALID_PARAMETER in a forked child, at once",
            "[" + name + "][fork][posix]", CATCH_INTERNAL_LINEINFO, [&one] { is_dead_in_child(one); });
    }
    return true;
}

[[maybe_unused]] const bool registered = register_calls();

/** A child that lives, with a NIC handle of its own, until it is told to end. */
class Sibling {
public:
    Sibling()
        : child_([](const ParentLine &parent) {
              const Nic nic;
              parent.tell();
              parent.await();
              exchange_within_this_process();
          })
    {
        child_.await();
    }
    void finish()
    {
        child_.tell();
        child_.finish();
    }

private:
    Forked child_;
};

} // namespace

TEST_CASE("a forked child opens a NIC handle, connects, exchanges and closes", "[VipOpenNic][fork][posix]")
{
    ConnectedPair pair;
    Forked child([](const ParentLine &) { exchange_within_this_process(); });
    child.finish();
    ping(pair);
}

TEST_CASE("a forked child opens a NIC handle where its parent had none", "[VipOpenNic][fork][posix]")
{
    Forked child([](const ParentLine &) { exchange_within_this_process(); });
    child.finish();
}

TEST_CASE("a forked child and its parent connect to each other and exchange",
          "[VipConnectRequest][fork][posix]")
{
    ConnectedPair pair;
    const std::string name = unique_discriminator();
    Forked child([&](const ParentLine &) {
        const Nic nic;
        Memory memory(nic, 4096);
        const Vi vi(nic);
        const Work in = memory.transfer(memory.bytes(9));
        post_recv(vi, in);
        NetAddress local = nic.address(name + "c"), remote = nic.address(name);
        REQUIRE_VIP(VipConnectRequest(vi, local, remote, patience(), nullptr));
        post_send(vi, memory.transfer(memory.text("to parent")));
        EXPECT(received(vi) == in.desc);
        EXPECT_EQ(std::string("to child!"), in.buffer.text());
        sent(vi);
    });
    const Vi vi(pair.server_nic);
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(9));
    post_recv(vi, in);
    NetAddress listen = pair.server_nic.address(name), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE_VIP(VipConnectWait(pair.server_nic, listen, patience(), from, &attributes, &connection));
    REQUIRE_VIP(VipConnectAccept(connection, vi));
    EXPECT(received(vi) == in.desc);
    EXPECT_EQ(std::string("to parent"), in.buffer.text());
    post_send(vi, pair.server_memory.transfer(pair.server_memory.text("to child!")));
    sent(vi);
    child.finish();
    ping(pair);
}

TEST_CASE("a NIC handle goes on in the parent while a forked child has its own", "[VipQueryNic][fork][posix]")
{
    const Nic nic;
    Sibling sibling;
    EXPECT(nic.attributes().MaxVI > 0);
    REQUIRE_VIP(VipxSetRestart(nic, VIP_FALSE));
    const Ptag tag(nic);
    const Cq cq(nic);
    ConnectedPair pair; // new ones, too
    ping(pair);
    sibling.finish();
}

TEST_CASE("a protection tag and its memory go on in the parent after fork", "[VipRegisterMem][fork][posix]")
{
    const Nic nic;
    const Ptag tag(nic);
    Memory memory(nic, 4096, rdma_memory(tag));
    const Span span = memory.bytes(64); // its beginning
    Sibling sibling;
    VIP_MEM_ATTRIBUTES seen{};
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag)); // it is in use
    Memory another(nic, 4096, rdma_memory(tag));
    REQUIRE_VIP(VipQueryMem(nic, span.data, span.handle, &seen));
    EXPECT(seen.Ptag == static_cast<VIP_PROTECTION_HANDLE>(tag));
    sibling.finish();
}

TEST_CASE("a VI and what is posted on it are the parent's after fork", "[VipPostRecv][fork][posix]")
{
    ConnectedPair pair;
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(4));
    post_recv(pair.server, in);
    Forked child([&](const ParentLine &parent) {
        parent.await(); // the message has come
        EXPECT_EQ(0u, in.desc->CS.Status);
        EXPECT_EQ(std::string(4, '\0'), in.buffer.text()); // a snapshot
    });
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("mine")));
    EXPECT(received(pair.server) == in.desc);
    EXPECT_EQ(std::string("mine"), in.buffer.text());
    sent(pair.client);
    child.tell();
    child.finish();
    ping(pair);
}

TEST_CASE("a completion queue tells the parent alone after fork", "[VipCQWait][fork][posix]")
{
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    const Vi server(pair.server_nic, vi_attributes(), nullptr, cq), client(pair.client_nic);
    connect_pair(pair.server_nic, server, pair.client_nic, client);
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(4));
    post_recv(server, in);
    Sibling sibling;
    post_send(client, pair.client_memory.transfer(pair.client_memory.text("once")));
    cq.expect(server, VIP_TRUE);
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_VIP(VipRecvDone(server, &done));
    EXPECT(done == in.desc);
    sibling.finish();
}

TEST_CASE("a request taken before fork is answered by the parent", "[VipConnectAccept][fork][posix]")
{
    World world;
    const Vi vi(world.pair.server_nic);
    const VIP_CONN_HANDLE connection = world.request.connection;
    Forked child([&](const ParentLine &) {
        EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectReject(connection));
        const Nic nic;
        const Vi own(nic);
        EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectAccept(connection, own));
    });
    child.finish();
    REQUIRE_VIP(VipConnectAccept(connection, vi));
    REQUIRE_VIP(world.request.wait());
    EXPECT_EQ(VIP_STATE_CONNECTED, vi.state());
}

TEST_CASE("the name service goes on in the parent, and a child has its own",
          "[VipNSGetHostByName][fork][posix]")
{
    const Nic nic;
    char name[] = "localhost";
    NetAddress address;
    REQUIRE_VIP(VipNSInit(nic, nullptr));
    Forked child([&](const ParentLine &) {
        const Nic own;
        REQUIRE_VIP(VipNSInit(own, nullptr));
        REQUIRE_VIP(VipNSGetHostByName(own, name, address, 0));
        REQUIRE_VIP(VipNSShutdown(own));
    });
    child.finish();
    REQUIRE_VIP(VipNSGetHostByName(nic, name, address, 0));
    REQUIRE_VIP(VipNSShutdown(nic));
}

TEST_CASE("a callback registered before fork is called in the parent alone",
          "[VipRecvNotify][fork][posix][tasks]")
{
    ConnectedPair pair;
    static volatile std::sig_atomic_t calls; // of this process
    calls = 0;
    const auto handler = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {
        calls = calls + 1;
    };
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(4));
    post_recv(pair.server, in);
    REQUIRE_VIP(VipRecvNotify(pair.server, nullptr, handler));
    Forked child([](const ParentLine &parent) {
        parent.tell();
        parent.await(); // the parent's was called
        exchange_within_this_process();
        EXPECT_EQ(0, static_cast<int>(calls));
        EXPECT_EQ(1u, count_entries_of("/proc/self/task")); // and nobody is there to call
    });
    child.await();
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("call")));
    for (const unsigned long long end = now_ms() + patience(); calls == 0 && now_ms() < end;) {
        give_way();
    }
    EXPECT_EQ(1, static_cast<int>(calls));
    child.tell();
    child.finish();
    EXPECT_EQ(1, static_cast<int>(calls));
}

// --- registered memory ---------------------------------------------------------------------------

namespace {

/** Two pages of one's own; the region ends in the middle of the second. */
struct HalfRegistered {
    explicit HalfRegistered(const Nic &nic) : nic_(nic)
    {
        VIP_MEM_ATTRIBUTES rights = rdma_memory();
        EXPECT(bytes != nullptr);
        std::fill(bytes.get(), bytes.get() + 2 * page, VIP_UINT8{'.'});
        REQUIRE_VIP(VipRegisterMem(nic, bytes.get(), page + page / 2, &rights, &handle));
    }
    ~HalfRegistered() { VipDeregisterMem(nic_, bytes.get(), handle); }
    RemoteSpan remote() const { return {reinterpret_cast<uintptr_t>(bytes.get()), handle}; }
    bool is(size_t from, size_t count, char value) const
    {
        return std::all_of(&bytes[from], &bytes[from] + count, [&](VIP_UINT8 b) { return b == value; });
    }

    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::unique_ptr<VIP_UINT8[], void (*)(void *)> bytes{
        static_cast<VIP_UINT8 *>(std::aligned_alloc(page, 2 * page)), std::free};
    VIP_MEM_HANDLE handle = 0;

private:
    VIP_NIC_HANDLE nic_;
};

constexpr VIP_UINT32 kWritten = 512;

} // namespace

TWO_PROCESS_CASE("memory registered before fork is written by the peer, the parent and the child",
                 "[VipRegisterMem][fork][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const auto remote = peer.receive<RemoteSpan>();
        const Span bytes = end.memory.bytes(kWritten);
        std::fill(bytes.data, bytes.data + kWritten, VIP_UINT8{'S'});
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes));
        sent(end.vi);
        peer.sync();
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        HalfRegistered memory(peer.nic());
        const size_t page = memory.page;
        end.connect();
        Forked child([&](const ParentLine &parent) {
            peer.leave_line_to_parent();
            std::fill(&memory.bytes[page / 2], &memory.bytes[2 * page], VIP_UINT8{'C'}); // neighbours as well
            parent.tell();
            parent.await(); // peer and parent have written
            EXPECT(memory.is(0, page / 2, '.'));
            EXPECT(memory.is(page / 2, page + page / 2, 'C'));
        });
        child.await();
        std::fill(&memory.bytes[page], &memory.bytes[2 * page], VIP_UINT8{'P'});
        peer.send(memory.remote());
        peer.sync(); // written, as the peer knows; and it lasts
        for (const unsigned long long last = now_ms() + patience();
             !memory.is(0, kWritten, 'S') && now_ms() < last;) {
            VIP_DESCRIPTOR *none = nullptr;
            VipRecvDone(end.vi, &none);
        }
        EXPECT(memory.is(0, kWritten, 'S'));
        EXPECT(memory.is(kWritten, page - kWritten, '.'));
        EXPECT(memory.is(page, page, 'P'));
        child.tell();
        child.finish();
        peer.sync();
    },
};
