// SPDX-License-Identifier: MIT
//
// POSIX extensions: what a process was in the middle of when it was killed. Nothing of it is left
// to stand in the way of the others: no silenced descriptor, no blocked call, no handler. And
// memory that only looks as if it were shared is refused.
#include <vipl/posix.h>

#include <atomic>

#include <sys/mman.h>

#include "family.hpp"
#include "readiness.hpp"

using namespace vipl_conformance;

namespace {

/** Shareable objects, and private ones to talk to them. */
struct World {
    World() { connect_pair(nic, server, own, client); }

    Work arrive()
    {
        const Work in = memory.transfer(memory.bytes(8));
        post_recv(server, in);
        post_send(client, own_memory.transfer(own_memory.text("x")));
        sent(client);
        return in;
    }

    explicit World(VIP_BOOLEAN) : server(nic, vi_attributes(), nullptr, cq)
    {
        connect_pair(nic, server, own, client);
    }

    Nic nic{device_under_test(), true}, own{device_under_test(), false};
    Memory memory{nic, 1 << 20}, own_memory{own};
    Cq cq{nic};
    Vi server{nic}, client{own};
};

/** A child that alone holds a connected VI, and is killed. When its peer sees that, all of the
 * child's is gone. */
class Victim {
public:
    Victim(World &world, const std::function<void(const Gate &)> &body) : peer_(world.own)
    {
        const std::string name = unique_discriminator();
        child_ = std::make_unique<Fork>([&, name] {
            const Vi last(world.nic);
            NetAddress listen = world.nic.address(name);
            NetAddress from;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE request = nullptr;
            REQUIRE_VIP(VipConnectWait(world.nic, listen, patience(), from, &attributes, &request));
            REQUIRE_VIP(VipConnectAccept(request, last));
            body(ready_);
        });
        NetAddress local = world.own.address(name + "c"), remote = world.own.address(name);
        VIP_RETURN rc;
        const unsigned long long end = now_ms() + patience();
        do { // until it listens
            rc = VipConnectRequest(peer_, local, remote, patience(), nullptr);
        } while (rc == VIP_NO_MATCH && now_ms() < end);
        REQUIRE_VIP(rc);
        ready_.pass();
    }

    void kill()
    {
        child_->kill();
        const unsigned long long start = now_ms();
        peer_.await(VIP_STATE_ERROR);
        EXPECT(now_ms() - start <= a_second());
    }

private:
    Vi peer_;
    Gate ready_;
    std::unique_ptr<Fork> child_;
};

[[noreturn]] void wait_for_the_end(const Gate &ready)
{
    ready.open();
    for (;;) {
        pause();
    }
}

/** What a process does that silences a descriptor, and then does not come to look again. */
void silence(int fd)
{
    std::uint64_t count = 0;
    EXPECT(is_readable(fd, patience()));
    EXPECT(read(fd, &count, sizeof count) > 0);
}

} // namespace

TEST_CASE("a queue's descriptor that a killed process has silenced is readable again within a second",
          "[sharing][posix]")
{
    World world;
    const int fd = fd_of(VIPX_FD_RECV, world.server);
    for (int round = 0; round < 3; ++round) {
        const Work in = world.arrive();
        Victim victim(world, [&](const Gate &ready) {
            silence(fd_of(VIPX_FD_RECV, world.server));
            wait_for_the_end(ready);
        });
        expect_quiet(fd);
        victim.kill();
        EXPECT(is_readable(fd, a_second()));
        EXPECT(received(world.server) == in.desc);
        expect_quiet(fd);
    }
}

TEST_CASE(
    "a completion queue's descriptor that a killed process has silenced is readable again within a second",
    "[sharing][posix]")
{
    World world(VIP_TRUE);
    const int fd = fd_of(VIPX_FD_CQ, world.cq);
    for (int round = 0; round < 3; ++round) {
        const Work in = world.arrive();
        Victim victim(world, [&](const Gate &ready) {
            silence(fd_of(VIPX_FD_CQ, world.cq));
            wait_for_the_end(ready);
        });
        expect_quiet(fd);
        victim.kill();
        EXPECT(is_readable(fd, a_second()));
        world.cq.expect(world.server, VIP_TRUE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(world.server, &done));
        EXPECT(done == in.desc);
        expect_quiet(fd);
    }
}

namespace {

using Block = void (*)(World &, const Gate &);

void killed_in(Block call)
{
    World world;
    Victim victim(world, [&](const Gate &ready) { call(world, ready); });
    let_a_moment_pass(); // it has begun to wait
    victim.kill();       // what it alone held is gone, though a call of its had no end
}

} // namespace

TEST_CASE("a process that is killed in VipConnectWait holds nothing after a second", "[sharing][posix]")
{
    killed_in([](World &world, const Gate &ready) {
        NetAddress listen = world.nic.address(unique_discriminator());
        NetAddress from;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        ready.open();
        VipConnectWait(world.nic, listen, VIP_INFINITE, from, &attributes, &request);
    });
}

TEST_CASE("a process that is killed in VipConnectPeerWait holds nothing after a second", "[sharing][posix]")
{
    killed_in([](World &world, const Gate &ready) {
        const Vi vi(world.nic);
        const std::string name = unique_discriminator();
        NetAddress local = world.nic.address(name + "a"), remote = world.nic.address(name + "b");
        VIP_VI_ATTRIBUTES attributes{};
        REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, VIP_INFINITE));
        ready.open();
        VipConnectPeerWait(vi, &attributes);
    });
}

TEST_CASE("handlers of a killed process take nothing from the others", "[sharing][posix]")
{
    World world;
    for (int round = 0; round < 3; ++round) {
        Victim victim(world, [&](const Gate &ready) {
            REQUIRE_VIP(VipRecvNotify(world.server, nullptr,
                                      [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
            wait_for_the_end(ready);
        });
        victim.kill();
        const Work in = world.arrive();
        EXPECT(received(world.server) == in.desc);
    }
}

TEST_CASE("handlers of a killed process take nothing from a completion queue", "[sharing][posix]")
{
    static std::atomic<unsigned> calls;
    World world(VIP_TRUE);
    calls = 0;
    for (unsigned round = 0; round < 3; ++round) {
        Victim victim(world, [&](const Gate &ready) {
            REQUIRE_VIP(
                VipCQNotify(world.cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}));
            wait_for_the_end(ready);
        });
        victim.kill();
        const Gate end_of_successor;
        Fork successor([&] { end_of_successor.pass(); }); // which has the place of the dead one
        const Work in = world.arrive();
        world.cq.expect(world.server, VIP_TRUE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(world.server, &done));
        EXPECT(done == in.desc);
        REQUIRE_VIP(VipCQNotify(world.cq, nullptr, // nor is it in the way of another handler
                                [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) { calls++; }));
        world.arrive();
        const unsigned long long end = now_ms() + patience();
        while (calls == round && now_ms() < end) {
            give_way();
        }
        EXPECT_EQ(round + 1, calls.load());
        REQUIRE_VIP(VipRecvDone(world.server, &done));
        end_of_successor.open();
        successor.finish();
    }
}

TEST_CASE("an error handler of a killed process is not that of its successor", "[sharing][posix]")
{
    static std::atomic<int> calls;
    World world;
    for (int round = 0; round < 3; ++round) {
        Victim victim(world, [&](const Gate &ready) {
            REQUIRE_VIP(
                VipErrorCallback(world.nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) { calls++; }));
            wait_for_the_end(ready);
        });
        victim.kill();
        const Gate ready, lost;
        calls = 0;
        const Vi shared(world.nic);
        Fork successor([&] {                           // in the place of the dead one
            REQUIRE_VIP(VipRecvNotify(shared, nullptr, // for the thread that calls handlers
                                      [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
            ready.open();
            lost.pass();
            let_a_moment_pass();
            EXPECT_EQ(0, calls.load());
        });
        ready.pass();
        {
            const Vi other(world.own);
            connect_pair(world.nic, shared, world.own, other);
        }
        shared.await(VIP_STATE_ERROR);
        lost.open();
        successor.finish();
        REQUIRE_VIP(VipDisconnect(shared));
    }
}

// --- memory ---

namespace {

constexpr size_t kPage = 65536;

void *map(int flags, void *at = nullptr)
{
    void *const page = mmap(at, kPage, PROT_READ | PROT_WRITE, flags, -1, 0);
    EXPECT(page != MAP_FAILED);
    return page;
}

VIP_RETURN register_page(const Nic &nic, void *page)
{
    VIP_MEM_HANDLE region = 0;
    const VIP_RETURN rc = VipRegisterMem(nic, page, kPage, nullptr, &region);
    if (rc == VIP_SUCCESS) {
        VipDeregisterMem(nic, page, region);
    }
    return rc;
}

alignas(65536) char of_the_program[kPage];

} // namespace

TWO_PROCESS_CASE("of mappings only those are shared memory that are shared, and were there first",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        if (objects_are_shareable()) {
            throw NotApplicable("the first to share must be this case");
        }
        void *const good = map(MAP_SHARED | MAP_ANONYMOUS);
        void *const other = map(MAP_SHARED | MAP_ANONYMOUS);
        void *const replaced_by_private = map(MAP_SHARED | MAP_ANONYMOUS);
        void *const replaced_by_shared = map(MAP_SHARED | MAP_ANONYMOUS);
        void *const private_before = map(MAP_PRIVATE | MAP_ANONYMOUS);
        FILE *const file = std::tmpfile();
        EXPECT(file != nullptr && ftruncate(fileno(file), 2 * kPage) == 0);
        void *const file_before = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
        void *const file_shared = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        void *const file_moved = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        EXPECT(file_before != MAP_FAILED && file_shared != MAP_FAILED && file_moved != MAP_FAILED);
        const Nic nic(device_under_test(), true);
        REQUIRE_VIP(register_page(nic, good));
        REQUIRE_VIP(register_page(nic, other));
        REQUIRE_VIP(register_page(nic, file_shared));
        const auto refused = [&](void *page) { REQUIRE_RC(VIP_INVALID_PARAMETER, register_page(nic, page)); };
        refused(private_before);
        refused(file_before);
        refused(of_the_program);
        refused(map(MAP_SHARED | MAP_ANONYMOUS)); // which the server does not have
        refused(
            map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, replaced_by_private)); // it has another one there
        refused(map(MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, replaced_by_shared));
        EXPECT(mmap(file_moved, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileno(file), kPage) ==
               file_moved);
        refused(file_moved); // of the same file, but another part of it
        EXPECT(mprotect(other, kPage, PROT_READ) == 0);
        refused(other);
        std::fclose(file);
    },
};
