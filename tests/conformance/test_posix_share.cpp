// SPDX-License-Identifier: MIT
//
// POSIX extensions: objects that a process and its children share. What each may do with them, who gets
// a completion, and what is left when somebody drops a reference or dies.
#include <vipl/posix.h>

#include <atomic>
#include <vector>

#include "family.hpp"
#include "support/error_log.hpp"

using namespace vipl_conformance;

namespace {

/** A shareable VI here, connected with a private one, as with any other host's. */
struct Mixed {
    Mixed() { connect_pair(nic, server, own, client); }

    Work receive(size_t size = 64) { return post(server, memory, size); }
    Work client_receive(size_t size = 64) { return post(client, own_memory, size); }
    void client_says(const std::string &text)
    {
        post_send(client, own_memory.transfer(own_memory.text(text)));
        sent(client);
    }
    /** One message each way. */
    void exchange()
    {
        const Work in = receive();
        const Work back = client_receive();
        client_says("there");
        EXPECT(received(server) == in.desc);
        post_send(server, memory.transfer(memory.text("back")));
        sent(server);
        EXPECT(received(client) == back.desc);
    }

    Nic nic{device_under_test(), true};
    Nic own{device_under_test(), false};
    Memory memory{nic, 1 << 20, rdma_memory()};
    Memory own_memory{own};
    Vi server{nic}, client{own};

private:
    static Work post(VIP_VI_HANDLE vi, Memory &from, size_t size)
    {
        const Work work = from.transfer(from.bytes(size));
        post_recv(vi, work);
        return work;
    }
};

std::string said(const Work &work)
{
    return std::string(reinterpret_cast<const char *>(work.buffer.data), work.desc->CS.Length);
}

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

// --- one object ----------------------------------------------------------------------------------------

TEST_CASE("parent and child post, reap, wait and ask on one VI", "[sharing][posix]")
{
    Mixed world;
    const Work first = world.receive();
    const Work second = world.memory.transfer(world.memory.bytes(64));
    const Work answer = world.memory.transfer(world.memory.text("the child's"));
    const Gate posted;
    Fork child([&] {
        EXPECT_EQ(VIP_STATE_CONNECTED, world.server.state());
        EXPECT(received(world.server) == first.desc); // which the parent has posted
        EXPECT_EQ("to the child", said(first));
        post_recv(world.server, second);
        post_send(world.server, answer);
        posted.open();
    });
    const Work back = world.client_receive();
    world.client_says("to the child");
    posted.pass();
    EXPECT(sent(world.server) == answer.desc); // which the child has posted
    EXPECT(received(world.client) == back.desc);
    EXPECT_EQ("the child's", said(back));
    world.client_says("to the parent");
    EXPECT(received(world.server) == second.desc);
    EXPECT_EQ("to the parent", said(second));
    child.finish();
}

TEST_CASE("parent and child see the same attributes and user data", "[sharing][posix]")
{
    Mixed world;
    const Ptag tag(world.nic);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.Ptag = tag;
    const Vi tagged(world.nic, attributes);
    const VIP_NIC_ATTRIBUTES limits = world.nic.attributes();
    int here = 0;
    Fork child([&] {
        const VIP_NIC_ATTRIBUTES seen = world.nic.attributes();
        EXPECT_EQ(std::string(reinterpret_cast<const char *>(limits.Name)),
                  std::string(reinterpret_cast<const char *>(seen.Name)));
        EXPECT_EQ(limits.MaxVI, seen.MaxVI);
        EXPECT(tagged.attributes().Ptag == tag);
        VIP_MEM_ATTRIBUTES memory{};
        REQUIRE_VIP(VipQueryMem(world.nic, world.memory.data(), world.memory.handle(), &memory));
        EXPECT_EQ(VIP_TRUE, memory.EnableRdmaWrite);
        REQUIRE_VIP(VipSetUserData(tagged, &here));
        attributes.MaxTransferSize = 512;
        REQUIRE_VIP(VipSetViAttributes(tagged, &attributes));
        const Vi another(world.nic, attributes); // with the inherited tag
    });
    child.finish();
    EXPECT(VipGetUserData(tagged) == &here);
    EXPECT_EQ(512ul, tagged.attributes().MaxTransferSize);
}

TEST_CASE("a request that the parent has taken is the child's to accept", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Nic own(device_under_test(), false);
    const Vi server(nic), client(own);
    const std::string name = unique_discriminator();
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester([&] {
        NetAddress local = own.address(name + "c"), remote = own.address(name);
        requested = VipConnectRequest(client, local, remote, patience(), nullptr);
    });
    NetAddress listen = nic.address(name);
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    const VIP_RETURN taken = VipConnectWait(nic, listen, patience(), from, &attributes, &request);
    std::string problem;
    try {
        REQUIRE_VIP(taken);
        Fork child([&] { REQUIRE_VIP(VipConnectAccept(request, server)); });
        child.finish();
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(request, server)); // it is answered
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectReject(request));
    } catch (const std::exception &error) {
        problem = error.what();
    }
    requester.join();
    EXPECT_EQ(std::string(), problem);
    REQUIRE_VIP(requested);
    EXPECT_EQ(VIP_STATE_CONNECTED, server.state());
}

TEST_CASE("a child connects and disconnects a VI of its parent's", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Nic own(device_under_test(), false);
    const Vi requesting(nic), accepting(own);
    for (int round = 0; round < 3; ++round) {
        const std::string name = unique_discriminator();
        Fork child([&] {
            NetAddress local = nic.address(name + "c"), remote = nic.address(name);
            REQUIRE_VIP(VipConnectRequest(requesting, local, remote, patience(), nullptr));
        });
        NetAddress listen = own.address(name);
        NetAddress from;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        REQUIRE_VIP(VipConnectWait(own, listen, patience(), from, &attributes, &request));
        REQUIRE_VIP(VipConnectAccept(request, accepting));
        child.finish();
        EXPECT_EQ(VIP_STATE_CONNECTED, requesting.state()); // the child's end does not disconnect it
        Fork other([&] { REQUIRE_VIP(VipDisconnect(requesting)); });
        other.finish();
        EXPECT_EQ(VIP_STATE_IDLE, requesting.state());
        accepting.await(VIP_STATE_ERROR);
        REQUIRE_VIP(VipDisconnect(accepting));
    }
}

// --- completions -----------------------------------------------------------------------------------------

namespace {

constexpr unsigned kMessages = 240, kReapers = 4;

/** How often each of many receives was reaped, where all see it. */
struct Tally {
    explicit Tally(Memory &memory)
        : total(reinterpret_cast<std::atomic<unsigned> *>(memory.bytes(sizeof(unsigned)).data)),
          times(reinterpret_cast<std::atomic<unsigned> *>(memory.bytes(kMessages * sizeof(unsigned)).data))
    {
    }
    void note(const std::vector<Work> &works, const VIP_DESCRIPTOR *done) const
    {
        unsigned i = 0;
        while (i < kMessages && works[i].desc != done) {
            ++i;
        }
        EXPECT(i < kMessages);
        times[i]++;
        (*total)++;
    }
    void expect_each_once() const
    {
        for (unsigned i = 0; i < kMessages; ++i) {
            EXPECT_EQ(1u, times[i].load());
        }
    }

    std::atomic<unsigned> *total, *times;
};

} // namespace

TEST_CASE("of processes that reap one VI each completion reaches exactly one", "[sharing][posix]")
{
    Mixed world;
    const Tally tally(world.memory);
    std::vector<Work> works;
    for (unsigned i = 0; i < kMessages; ++i) {
        works.push_back(world.receive(8));
    }
    const auto reap = [&] {
        const unsigned long long end = now_ms() + patience();
        while (*tally.total < kMessages && now_ms() < end) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipRecvWait(world.server, kMoment, &done);
            if (rc != VIP_TIMEOUT) {
                REQUIRE_VIP(rc);
                tally.note(works, done);
            }
        }
    };
    std::vector<std::unique_ptr<Fork>> reapers;
    for (unsigned i = 0; i < kReapers; ++i) {
        reapers.push_back(std::make_unique<Fork>(reap));
    }
    const Work message = world.own_memory.transfer(world.own_memory.text("message"));
    for (unsigned i = 0; i < kMessages; ++i) {
        post_send(world.client, message);
        sent(world.client);
    }
    reap();
    for (const auto &reaper : reapers) {
        reaper->finish();
    }
    EXPECT_EQ(kMessages, tally.total->load());
    tally.expect_each_once();
}

TEST_CASE("of processes that wait on one completion queue each completion reaches exactly one",
          "[sharing][posix]")
{
    constexpr unsigned kVis = 8;
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic, 1 << 20), own_memory(own);
    const Tally tally(memory);
    const Cq cq(nic, kMessages);
    std::vector<std::unique_ptr<Vi>> servers, clients;
    std::vector<Work> works;
    for (unsigned i = 0; i < kVis; ++i) {
        servers.push_back(std::make_unique<Vi>(nic, vi_attributes(), nullptr, cq));
        clients.push_back(std::make_unique<Vi>(own));
        for (unsigned j = 0; j < kMessages / kVis; ++j) {
            works.push_back(memory.transfer(memory.bytes(8)));
            post_recv(*servers[i], works.back());
        }
        connect_pair(nic, *servers[i], own, *clients[i]);
    }
    const auto reap = [&] {
        const unsigned long long end = now_ms() + patience();
        while (*tally.total < kMessages && now_ms() < end) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipCQWait(cq, kMoment, &vi, &recv);
            if (rc != VIP_TIMEOUT) {
                REQUIRE_VIP(rc);
                EXPECT_EQ(VIP_TRUE, recv);
                REQUIRE_VIP(VipRecvDone(vi, &done)); // who is told has one
                tally.note(works, done);
            }
        }
    };
    std::vector<std::unique_ptr<Fork>> reapers;
    for (unsigned i = 0; i < kReapers; ++i) {
        reapers.push_back(std::make_unique<Fork>(reap));
    }
    const Work message = own_memory.transfer(own_memory.text("message"));
    for (unsigned i = 0; i < kMessages; ++i) {
        post_send(*clients[i % kVis], message);
        sent(*clients[i % kVis]);
    }
    reap();
    for (const auto &reaper : reapers) {
        reaper->finish();
    }
    EXPECT_EQ(kMessages, tally.total->load());
    tally.expect_each_once();
}

// --- references ------------------------------------------------------------------------------------------

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
    const Gate go, gone;
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
            last.finish();
        });
        REQUIRE_VIP(VipDestroyVi(world.server));
        grandchild.finish();
    });
    REQUIRE_VIP(VipDestroyVi(world.server));
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

// --- ends ------------------------------------------------------------------------------------------------

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

// --- waking ----------------------------------------------------------------------------------------------

TEST_CASE("what a killed process was told of and did not take is told to another", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic), own_memory(own);
    const Cq cq(nic);
    const Vi server(nic, vi_attributes(), nullptr, cq), client(own);
    connect_pair(nic, server, own, client);
    for (int round = 0; round < 20; ++round) {
        const Work in = memory.transfer(memory.bytes(8));
        post_recv(server, in);
        const Gate told;
        Fork child([&] {
            cq.expect(server, VIP_TRUE);
            told.open();
            for (;;) { // between VipCQWait() and VipRecvDone()
                pause();
            }
        });
        post_send(client, own_memory.transfer(own_memory.text("x")));
        sent(client);
        told.pass();
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &recv)); // the child was told
        child.kill();
        within_a_second([&] { return VipCQWait(cq, patience(), &vi, &recv); });
        EXPECT(vi == server);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(vi, &done));
        EXPECT(done == in.desc);
        REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &recv));
    }
}

TEST_CASE("all processes that wait are woken, one for each completion", "[sharing][posix]")
{
    Mixed world;
    const Gate ready, took;
    std::vector<std::unique_ptr<Fork>> waiters;
    for (unsigned i = 0; i < kReapers; ++i) {
        world.receive(8);
        waiters.push_back(std::make_unique<Fork>([&] {
            ready.open();
            received(world.server);
            took.open();
        }));
        ready.pass();
    }
    for (unsigned i = 0; i < kReapers; ++i) {
        world.client_says("one");
        within_a_second([&] {
            took.pass();
            return true;
        });
    }
    for (const auto &waiter : waiters) {
        waiter->finish();
    }
}

namespace {

/** A thread waits, then the process drops what it waits for: it comes back within a second. */
template <class Wait, class Drop>
void woken_by_drop(bool last, Wait wait, Drop drop)
{
    const Gate ended;
    std::unique_ptr<Fork> other;
    if (!last) {
        other = std::make_unique<Fork>([&] { ended.pass(); });
    }
    VIP_RETURN returned = VIP_SUCCESS;
    std::atomic<bool> back{false};
    std::thread waiter([&] {
        returned = wait();
        back = true;
    });
    let_a_moment_pass();
    const unsigned long long start = now_ms();
    VIP_RETURN dropped = VIP_SUCCESS;
    try {
        dropped = drop();
    } catch (...) {
    }
    waiter.join();
    const unsigned long long took = now_ms() - start;
    ended.open();
    if (other != nullptr) {
        other->finish();
    }
    REQUIRE_VIP(dropped);
    REQUIRE_RC(VIP_INVALID_PARAMETER, returned);
    EXPECT(took <= a_second());
}

void vi_waiter_is_woken(bool last)
{
    const Nic nic(device_under_test(), true);
    const Vi vi(nic);
    woken_by_drop(
        last,
        [&] {
            VIP_DESCRIPTOR *done = nullptr;
            return VipRecvWait(vi, patience(), &done);
        },
        [&] { return VipDestroyVi(vi); });
}

void cq_waiter_is_woken(bool last)
{
    const Nic nic(device_under_test(), true);
    const Cq cq(nic);
    woken_by_drop(
        last,
        [&] {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            return VipCQWait(cq, patience(), &vi, &recv);
        },
        [&] { return VipDestroyCQ(cq); });
}

} // namespace

TEST_CASE("who waits is woken when the process drops the VI, the last to hold it", "[sharing][posix]")
{
    vi_waiter_is_woken(true);
}

TEST_CASE("who waits is woken when the process drops the VI that others hold", "[sharing][posix]")
{
    vi_waiter_is_woken(false);
}

TEST_CASE("who waits is woken when the process drops the completion queue, the last to hold it",
          "[sharing][posix]")
{
    cq_waiter_is_woken(true);
}

TEST_CASE("who waits is woken when the process drops the completion queue that others hold",
          "[sharing][posix]")
{
    cq_waiter_is_woken(false);
}

// --- beside private objects, and what is refused ------------------------------------------------------------

TEST_CASE("private objects beside shared ones stay the parent's", "[sharing][posix]")
{
    Mixed world;
    const Cq own_cq(world.own);
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(world.nic, &attributes, nullptr, own_cq, &vi));
    const Cq shared_cq(world.nic);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(world.own, &attributes, nullptr, shared_cq, &vi));
    Fork child([&] {
        VIP_NIC_ATTRIBUTES limits{};
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(world.own, &limits));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipRecvDone(world.client, &done));
        REQUIRE_VIP(VipQueryNic(world.nic, &limits));
        Mixed of_child; // both kinds, made afresh
        of_child.exchange();
    });
    child.finish();
    world.exchange();
}

TEST_CASE("memory that is not shared is refused on a shareable NIC handle", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Memory memory(nic, 65536);
    alignas(64) static char elsewhere[4096];
    VIP_MEM_HANDLE handle = 0;
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, elsewhere, sizeof elsewhere, &attributes, &handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               VipRegisterMem(nic, memory.data(), ~VIP_ULONG(0), &attributes, &handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, nullptr, 64, &attributes, &handle));
    REQUIRE_VIP(VipRegisterMem(nic, memory.data() + 64, 64, &attributes, &handle));
    REQUIRE_VIP(VipDeregisterMem(nic, memory.data() + 64, handle));
}

TEST_CASE("shared memory is cleared, aligned, and at one address in all processes", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Gate made;
    VIP_PVOID first = nullptr;
    REQUIRE_VIP(VipxAllocShared(1, &first)); // so that the child before has something, too
    std::memset(first, 1, 1);
    Fork before([&] {
        VIP_PVOID where[2] = {first, nullptr};
        made.pass();
        std::memcpy(&where[1], first, sizeof where[1]);
        const auto *bytes = static_cast<unsigned char *>(where[1]);
        EXPECT_EQ(7, bytes[0]);
        EXPECT_EQ(7, bytes[199999]);
    });
    VIP_PVOID second = nullptr;
    REQUIRE_VIP(VipxAllocShared(200000, &second));
    EXPECT_EQ(0u, static_cast<unsigned>(reinterpret_cast<uintptr_t>(second) % 65536));
    auto *bytes = static_cast<unsigned char *>(second);
    for (size_t i = 0; i < 200000; ++i) {
        EXPECT(bytes[i] == 0);
        bytes[i] = 7;
    }
    std::memcpy(first, &second, sizeof second);
    made.open();
    before.finish();
    REQUIRE_VIP(VipxFreeShared(second));
    REQUIRE_VIP(VipxFreeShared(first));
    VIP_PVOID again = nullptr;
    REQUIRE_VIP(VipxAllocShared(400000, &again));
    bytes = static_cast<unsigned char *>(again);
    for (size_t i = 0; i < 400000; ++i) {
        EXPECT(bytes[i] == 0);
    }
    REQUIRE_VIP(VipxFreeShared(again));
}

TEST_CASE("shared memory is given back by the last that holds it", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    VIP_PVOID memory = nullptr;
    REQUIRE_VIP(VipxAllocShared(4096, &memory));
    const Gate go, done;
    Fork child([&] {
        go.pass();
        EXPECT_EQ(42, static_cast<int>(*static_cast<unsigned char *>(memory)));
        REQUIRE_VIP(VipxFreeShared(memory));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(memory));
        done.open();
    });
    *static_cast<unsigned char *>(memory) = 42;
    REQUIRE_VIP(VipxFreeShared(memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(memory));
    for (int i = 0; i < 50; ++i) { // the child has it: nobody else gets it
        VIP_PVOID other = nullptr;
        REQUIRE_VIP(VipxAllocShared(4096, &other));
        EXPECT(other != memory);
        REQUIRE_VIP(VipxFreeShared(other));
    }
    go.open();
    done.pass();
    child.finish();
}

TEST_CASE("VipxAllocShared and VipxFreeShared refuse what is none", "[VipxAllocShared][posix]")
{
    const Nic nic(device_under_test(), true);
    VIP_PVOID memory = &memory;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocShared(0, &memory));
    EXPECT(memory == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocShared(64, nullptr));
    memory = &memory;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocShared(~VIP_ULONG(0), &memory));
    EXPECT(memory == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(&memory));
    REQUIRE_VIP(VipxAllocShared(100000, &memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(static_cast<char *>(memory) + 64));
    REQUIRE_VIP(VipxFreeShared(memory));
}

TEST_CASE("VipxOpenNic refuses what it does not know", "[VipxOpenNic][posix]")
{
    VIP_NIC_HANDLE nic = nullptr;
    for (const VIP_ULONG flags : {VIP_ULONG(2), VIP_ULONG(3), ~VIP_ULONG(0)}) {
        nic = &nic;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxOpenNic(device_under_test(), flags, &nic));
        EXPECT(nic == nullptr);
    }
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxOpenNic(device_under_test(), VIPX_SHAREABLE, nullptr));
    const VIP_RETURN strange = VipOpenNic("no such device", &nic);
    REQUIRE_RC(strange, VipxOpenNic("no such device", VIPX_SHAREABLE, &nic));
    EXPECT(nic == nullptr);
    REQUIRE_VIP(VipxOpenNic(device_under_test(), 0, &nic));
    Fork child([&] { // a private one
        VIP_NIC_ATTRIBUTES attributes{};
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(nic, &attributes));
    });
    child.finish();
    REQUIRE_VIP(VipCloseNic(nic));
}
