// SPDX-License-Identifier: MIT
//
// POSIX extensions: objects that a process and its children share. What is left when somebody drops
// a reference, or ends.
#include <vipl/posix.h>

#include <future>
#include <memory>
#include <vector>

#include "mixed.hpp"
#include "support/error_log.hpp"
#include "support/held_thread.hpp"

using namespace vipl_conformance;
using namespace std::chrono_literals;

namespace {

/** No call knows this VI. */
void expect_no_vi(VIP_VI_HANDLE vi, const Work &work)
{
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_STATE state;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRecvDone(vi, &done));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSendDone(vi, &done));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRecvWait(vi, 0, &done));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSendWait(vi, 0, &done));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipPostRecv(vi, work.desc, work.handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipPostSend(vi, work.desc, work.handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetViAttributes(vi, &attributes));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDisconnect(vi));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyVi(vi));
}

void expect_no_cq(VIP_CQ_HANDLE cq)
{
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCQDone(cq, &vi, &recv));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCQWait(cq, 0, &vi, &recv));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
}

/** The client's peer is no more: it hears of it within a second. */
void expect_lost(Mixed &world, const ErrorLog &log, const Work &posted, unsigned long long since)
{
    EXPECT(receive_failed(world.client) == posted.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, posted.desc);
    EXPECT(now_ms() - since <= a_second());
    const_cast<ErrorLog &>(log).expect(world.client, VIP_ERROR_CONN_LOST);
    EXPECT_EQ(VIP_STATE_ERROR, world.client.state());
}

} // namespace

// --- references ----------------------------------------------------------------------------------

TEST_CASE("who destroys a connected VI drops it, and others go on", "[sharing][posix]")
{
    Mixed world;
    const Work spare = world.memory.transfer(world.memory.bytes(8));
    Fork child([&] {
        REQUIRE_VIP(VipDestroyVi(world.server));
        expect_no_vi(world.server, spare);
    });
    child.finish();
    world.exchange();
    REQUIRE_RC(VIP_INVALID_STATE, VipDestroyVi(world.server)); // the last one, as in 1.0
    EXPECT_EQ(VIP_STATE_CONNECTED, world.server.state());
    REQUIRE_VIP(VipDisconnect(world.server));
    REQUIRE_VIP(VipDestroyVi(world.server));
    expect_no_vi(world.server, spare);
}

TEST_CASE("who destroys a completion queue drops it, and others go on", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic), own_memory(own);
    VIP_CQ_HANDLE cq = nullptr;
    REQUIRE_VIP(VipCreateCQ(nic, 16, &cq));
    {
        const Vi server(nic, vi_attributes(), nullptr, cq), client(own);
        connect_pair(nic, server, own, client);
        Fork child([&] {
            REQUIRE_VIP(VipDestroyCQ(cq)); // though a VI reports to it
            expect_no_cq(cq);
            EXPECT_EQ(VIP_STATE_CONNECTED, server.state());
        });
        child.finish();
        const Work in = memory.transfer(memory.bytes(8));
        post_recv(server, in);
        post_send(client, own_memory.transfer(own_memory.text("there")));
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipCQWait(cq, patience(), &vi, &recv));
        REQUIRE_VIP(VipRecvDone(vi, &done));
        EXPECT(done == in.desc);
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyCQ(cq)); // the last one, as in 1.0
    }
    REQUIRE_VIP(VipDestroyCQ(cq));
    expect_no_cq(cq);
}

TEST_CASE("a completion queue that is refused its end, while another thread destroys its VI, ends after that",
          "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    for (int round = 0; round < 2000; ++round) {
        VIP_CQ_HANDLE cq = nullptr;
        REQUIRE_VIP(VipCreateCQ(nic, 16, &cq));
        VIP_VI_HANDLE vi = nullptr;
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        REQUIRE_VIP(VipCreateVi(nic, &attributes, cq, cq, &vi));
        std::future<VIP_RETURN> destroyed = std::async(std::launch::async, [&] { return VipDestroyVi(vi); });
        VIP_RETURN rc = VIP_ERROR_RESOURCE;
        while (rc == VIP_ERROR_RESOURCE && destroyed.wait_for(0s) != std::future_status::ready) {
            rc = VipDestroyCQ(cq);
        }
        REQUIRE_VIP(destroyed.get());
        REQUIRE_VIP(rc == VIP_ERROR_RESOURCE ? VipDestroyCQ(cq) : rc);
    }
}

TWO_PROCESS_CASE("a VI outlives its completion queue, which only ended processes held",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        EXPECT(setenv("VIPL_STRICT", "cq", 1) == 0); // so that it has room for no more than is said here
        const Nic nic(device_under_test(), true), own(device_under_test(), false);
        Memory memory(nic), own_memory(own);
        VIP_CQ_HANDLE cq = nullptr;
        REQUIRE_VIP(VipCreateCQ(nic, 2, &cq));
        const Vi server(nic, vi_attributes(), nullptr, cq), client(own);
        connect_pair(nic, server, own, client);
        const Gate end;
        Fork last([&] { end.pass(); }); // holds both until it ends
        REQUIRE_VIP(VipDestroyCQ(cq));
        end.open();
        last.finish();
        for (int n = 0; n < 5; ++n) { // more than the completion queue had room for
            const Cq other(nic, 2);
            const Work in = memory.transfer(memory.bytes(8));
            post_recv(server, in);
            post_send(client, own_memory.transfer(own_memory.text("there")));
            VIP_DESCRIPTOR *done = nullptr;
            const unsigned long long limit = now_ms() + patience();
            VIP_RETURN rc = VIP_NOT_DONE;
            while ((rc = VipRecvDone(server, &done)) == VIP_NOT_DONE && now_ms() < limit) {
                let_moments_pass(other, 1); // which is told of nothing
            }
            REQUIRE_VIP(rc);
            EXPECT(done == in.desc);
            sent(client);
        }
        EXPECT_EQ(VIP_STATE_CONNECTED, server.state());
    },
};

TEST_CASE("what a process that has ended held counts no more", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    VIP_CQ_HANDLE cq = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    REQUIRE_VIP(VipCreateCQ(nic, 16, &cq));
    REQUIRE_VIP(VipCreateVi(nic, &attributes, cq, cq, &vi));
    Gate known;
    Fork child([&] {
        REQUIRE_VIP(VipDestroyCQ(cq)); // but not the VI that reports to it
        known.open();
        pause();
    });
    known.pass();
    std::future<void> caller;
    {
        const HeldThread first(server()); // the one that sees a process end
        child.kill();
        begin_call(caller, [&] {
            REQUIRE_VIP(VipDestroyVi(vi));
            REQUIRE_VIP(VipDestroyCQ(cq)); // nothing reports to it: this process was the VI's last holder
        });
    }
    caller.get();
}

TEST_CASE("who destroys a tag or deregisters memory drops it, and others go on", "[sharing][posix]")
{
    Mixed world;
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(world.nic, &tag));
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.Ptag = tag;
    VIP_MEM_ATTRIBUTES memory{};
    Fork child([&] {
        REQUIRE_VIP(VipDestroyPtag(world.nic, tag));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyPtag(world.nic, tag));
        VIP_VI_HANDLE vi = nullptr;
        REQUIRE_RC(VIP_INVALID_PTAG, VipCreateVi(world.nic, &attributes, nullptr, nullptr, &vi));
        REQUIRE_VIP(VipDeregisterMem(world.nic, world.memory.data(), world.memory.handle()));
        REQUIRE_RC(VIP_INVALID_PARAMETER,
                   VipDeregisterMem(world.nic, world.memory.data(), world.memory.handle()));
        REQUIRE_RC(VIP_INVALID_PARAMETER,
                   VipQueryMem(world.nic, world.memory.data(), world.memory.handle(), &memory));
    });
    child.finish();
    {
        const Vi tagged(world.nic, attributes);
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyPtag(world.nic, tag)); // the last one, as in 1.0
    }
    REQUIRE_VIP(VipDestroyPtag(world.nic, tag));
    world.exchange();
}

TEST_CASE("who closes a NIC handle drops all that is on it, and others go on", "[sharing][posix]")
{
    Mixed world;
    const Cq cq(world.nic);
    const Work spare = world.memory.transfer(world.memory.bytes(8));
    Fork child([&] {
        REQUIRE_VIP(VipCloseNic(world.nic));
        expect_no_vi(world.server, spare);
        expect_no_cq(cq);
        VIP_NIC_ATTRIBUTES attributes{};
        VIP_VI_ATTRIBUTES of_vi = vi_attributes();
        VIP_VI_HANDLE vi = nullptr;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(world.nic, &attributes));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(world.nic, &of_vi, nullptr, nullptr, &vi));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipCloseNic(world.nic));
    });
    child.finish();
    world.exchange();
}

TEST_CASE("accept in the parent, fork, drop in the parent: the child serves", "[sharing][posix]")
{
    constexpr int kClients = 3;
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic), own_memory(own);
    std::vector<std::unique_ptr<Fork>> servers;
    for (int i = 0; i < kClients; ++i) {
        const Vi client(own);
        const Work in = memory.transfer(memory.bytes(64));
        const Work answer = memory.transfer(memory.text("answer"));
        {
            const Vi server(nic);
            post_recv(server, in);
            connect_pair(nic, server, own, client);
            servers.push_back(std::make_unique<Fork>([&] {
                for (int n = 0; n < 20; ++n) {
                    EXPECT(received(server) == in.desc);
                    in.desc->CS.Length = in.buffer.size;
                    post_recv(server, in);
                    post_send(server, answer);
                    sent(server);
                }
                receive_failed(server); // the client has gone
            }));
            REQUIRE_VIP(VipDestroyVi(server)); // its destructor then finds none
        }
        for (int n = 0; n < 20; ++n) {
            const Work back = own_memory.transfer(own_memory.bytes(16));
            post_recv(client, back);
            post_send(client, own_memory.transfer(own_memory.text("question")));
            sent(client);
            EXPECT(received(client) == back.desc);
            EXPECT_EQ("answer", said(back));
        }
        REQUIRE_VIP(VipDisconnect(client));
        servers.back()->finish();
    }
}

TEST_CASE("the last of a line of descendants still serves", "[sharing][posix]")
{
    Mixed world;
    const ErrorLog log(world.own);
    const Work in = world.receive();
    const Work answer = world.memory.transfer(world.memory.text("grandchild"));
    const Gate dropped, go, gone;
    Fork child([&] {
        Fork grandchild([&] {
            Fork last([&] {
                go.pass();
                EXPECT(received(world.server) == in.desc);
                post_send(world.server, answer);
                sent(world.server);
                gone.pass();
            });
            REQUIRE_VIP(VipDestroyVi(world.server));
            dropped.open();
            last.finish();
        });
        REQUIRE_VIP(VipDestroyVi(world.server));
        dropped.open();
        grandchild.finish();
    });
    REQUIRE_VIP(VipDestroyVi(world.server));
    dropped.pass();
    dropped.pass();
    go.open();
    const Work back = world.client_receive();
    world.client_says("question");
    EXPECT(received(world.client) == back.desc);
    EXPECT_EQ("grandchild", said(back));
    const Work left = world.client_receive();
    const unsigned long long start = now_ms();
    gone.open();
    expect_lost(world, log, left, start);
    child.finish();
}

TEST_CASE("the parent dies and the child goes on alone", "[sharing][posix]")
{
    Mixed world;
    const ErrorLog log(world.own);
    const Work in = world.receive();
    const Work answer = world.memory.transfer(world.memory.text("orphan"));
    const Gate started, go, gone, never;
    Fork parent([&] {
        Fork::orphan([&] {
            started.open();
            go.pass();
            EXPECT(received(world.server) == in.desc);
            post_send(world.server, answer);
            sent(world.server);
            gone.pass();
        });
        never.pass();
    });
    started.pass();
    REQUIRE_VIP(VipDestroyVi(world.server));
    parent.kill();
    const Work back = world.client_receive();
    const Work left = world.client_receive();
    go.open();
    world.client_says("question");
    EXPECT(received(world.client) == back.desc);
    EXPECT_EQ("orphan", said(back));
    const unsigned long long start = now_ms();
    gone.open();
    expect_lost(world, log, left, start);
}

// --- ends ----------------------------------------------------------------------------------------

namespace {

void by_exit_function()
{
    _exit(0);
}
void by_kill()
{
    ::kill(getpid(), SIGKILL);
}
void by_abort()
{
    signal(SIGABRT, SIG_DFL);
    abort();
}
void by_quick_exit()
{
    std::_Exit(7);
}
void by_exec()
{
    execl("/bin/sh", "sh", "-c", "exec sleep 30", static_cast<char *>(nullptr));
    _exit(1);
}

/** The last holder ends in some way: its peer notices within a second. */
void last_holder_ends(void (*end)())
{
    Mixed world;
    const ErrorLog log(world.own);
    const Gate ready, go;
    Fork child([&] {
        ready.open();
        go.pass();
        end();
    });
    REQUIRE_VIP(VipDestroyVi(world.server));
    ready.pass();
    const Work left = world.client_receive();
    const unsigned long long start = now_ms();
    go.open();
    expect_lost(world, log, left, start);
}

/** One of two holders ends in that way: nothing happens to what they share. */
void one_holder_ends(void (*end)())
{
    Mixed world;
    const Gate go;
    Fork child([&] {
        go.pass();
        end();
    });
    world.exchange();
    go.open();
    world.exchange();
    if (end != by_exec) { // that one goes on, without VIPL
        expect_end_of(child.pid());
    }
    world.exchange();
    EXPECT_EQ(VIP_STATE_CONNECTED, world.server.state());
}

bool register_ends()
{
    struct Entry {
        const char *name;
        void (*end)();
    };
    static const Entry entries[] = {{"calls _exit", by_exit_function},
                                    {"is killed", by_kill},
                                    {"aborts", by_abort},
                                    {"calls _Exit", by_quick_exit},
                                    {"executes another program", by_exec}};
    for (const Entry &entry : entries) {
        const std::string who = entry.name;
        register_case("the last holder " + who + ": the peer notices within a second", "[sharing][posix]",
                      CATCH_INTERNAL_LINEINFO, [&entry] { last_holder_ends(entry.end); });
        register_case("one holder " + who + ": the others go on", "[sharing][posix]", CATCH_INTERNAL_LINEINFO,
                      [&entry] { one_holder_ends(entry.end); });
    }
    return true;
}

[[maybe_unused]] const bool ends_registered = register_ends();

using Blocking = void (*)(Mixed &, VIP_CQ_HANDLE);

void killed_while(Blocking call)
{
    Mixed world;
    const Cq cq(world.nic);
    const Vi quiet(world.nic, vi_attributes(), nullptr, cq);
    for (int round = 0; round < 5; ++round) {
        const Gate ready;
        Fork child([&] {
            ready.open();
            call(world, cq);
        });
        ready.pass();
        child.kill();
        within_a_second([&] {
            world.exchange();
            return true;
        });
    }
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &recv));
}

} // namespace

TEST_CASE("a process is killed while it waits for a receive: the others go on", "[sharing][posix]")
{
    killed_while([](Mixed &world, VIP_CQ_HANDLE) {
        VIP_DESCRIPTOR *done = nullptr;
        VipRecvWait(world.server, VIP_INFINITE, &done);
    });
}

TEST_CASE("a process is killed while it waits on a completion queue: the others go on", "[sharing][posix]")
{
    killed_while([](Mixed &, VIP_CQ_HANDLE cq) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        VipCQWait(cq, VIP_INFINITE, &vi, &recv);
    });
}

TEST_CASE("a process is killed while it waits for a request: the others go on", "[sharing][posix]")
{
    killed_while([](Mixed &world, VIP_CQ_HANDLE) {
        NetAddress listen = world.nic.address(unique_discriminator());
        NetAddress from;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        VipConnectWait(world.nic, listen, VIP_INFINITE, from, &attributes, &request);
    });
}

TEST_CASE("a process is killed while it asks without end: the others go on", "[sharing][posix]")
{
    killed_while([](Mixed &world, VIP_CQ_HANDLE) {
        for (;;) {
            world.server.state();
        }
    });
}
