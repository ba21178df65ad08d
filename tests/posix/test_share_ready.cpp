// SPDX-License-Identifier: MIT
//
// POSIX extensions: a descriptor of something shared is readable while there is something to take,
// and not when the call has returned that took the last of it, whichever process made that call.
#include <vipl/posix.h>

#include <atomic>

#include "family.hpp"
#include "readiness.hpp"

using namespace vipl_conformance;

namespace {

/** A shareable VI, with a completion queue or without, which a private one sends to. */
struct Sink {
    explicit Sink(bool with_cq)
        : cq(std::make_unique<Cq>(nic)),
          server(nic, vi_attributes(), nullptr, with_cq ? VIP_CQ_HANDLE(*cq) : nullptr)
    {
        connect_pair(nic, server, own, client);
    }

    void arrive()
    {
        last = memory.transfer(memory.bytes(8));
        post_recv(server, last);
        post_send(client, own_memory.transfer(own_memory.text("x")));
        sent(client);
    }

    Nic nic{device_under_test(), true}, own{device_under_test(), false};
    Memory memory{nic, 1 << 20}, own_memory{own, 1 << 20};
    std::unique_ptr<Cq> cq;
    Vi server, client{own};
    Work last;

    /** The last receive can be taken. */
    void await_last() const
    {
        while ((last.poll() & VIP_STATUS_DONE) == 0) {
        }
        EXPECT_EQ(VIP_STATE_CONNECTED, server.state()); // a call: what was complete before it is published
    }
};

void take(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_VIP(VipRecvDone(vi, &done));
}

} // namespace

TEST_CASE("a shared descriptor is quiet when another process has taken what there was", "[sharing][posix]")
{
    Sink sink(false);
    const Gate arrived, taken;
    Fork child([&] { // which has not asked for the descriptor, nor could inherit it
        for (int round = 0; round < 10; ++round) {
            arrived.pass();
            take(sink.server);
            taken.open();
        }
        arrived.pass();
    });
    const int fd = fd_of(VIPX_FD_RECV, sink.server);
    expect_quiet(fd);
    for (int round = 0; round < 5; ++round) {
        sink.arrive();
        expect_readable(fd);
        sink.arrive();
        sink.await_last();
        arrived.open();
        taken.pass();
        expect_readable(fd);
        arrived.open();
        taken.pass();
        expect_quiet(fd);
    }
    arrived.open();
    child.finish();
}

TEST_CASE("a shared completion queue's descriptor is quiet when another process has been told of all",
          "[sharing][posix]")
{
    Sink sink(true);
    const int fd = fd_of(VIPX_FD_CQ, *sink.cq);
    expect_quiet(fd);
    const Gate told, end;
    sink.arrive();
    expect_readable(fd);
    Fork child([&] {
        sink.cq->expect(sink.server, VIP_TRUE);
        told.open();
        end.pass();
    });
    told.pass();
    expect_quiet(fd);
    take(sink.server);
    sink.arrive();
    expect_readable(fd);
    take(sink.server); // without having been told: there is nothing more to be told of
    expect_quiet(fd);
    sink.arrive();
    expect_readable(fd);
    end.open();
    child.finish();
}

TEST_CASE("a shared descriptor is not readable for what a handler was told of", "[sharing][posix]")
{
    static std::atomic<int> calls;
    for (const bool with_cq : {false, true}) {
        calls = 0;
        Sink sink(with_cq);
        const int fd = with_cq ? fd_of(VIPX_FD_CQ, *sink.cq) : fd_of(VIPX_FD_RECV, sink.server);
        if (with_cq) {
            REQUIRE_VIP(VipCQNotify(*sink.cq, nullptr,
                                    [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) { calls++; }));
        } else {
            REQUIRE_VIP(
                VipRecvNotify(sink.server, nullptr,
                              [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) { calls++; }));
        }
        sink.arrive();
        const unsigned long long end = now_ms() + patience();
        while (calls == 0 && now_ms() < end) {
            give_way();
        }
        EXPECT_EQ(1, calls.load());
        let_a_moment_pass();
        expect_quiet(fd);
        if (with_cq) {
            take(sink.server);
        }
        sink.arrive();
        expect_readable(fd); // that was for one
    }
}

TEST_CASE("a process that ends makes no shared descriptor readable", "[sharing][posix]")
{
    Sink sink(true);
    const Vi plain(sink.nic);
    const int fds[] = {fd_of(VIPX_FD_RECV, plain), fd_of(VIPX_FD_SEND, plain), fd_of(VIPX_FD_CQ, *sink.cq)};
    for (int round = 0; round < 3; ++round) {
        const Vi peer(sink.own);
        const Gate connected, never;
        const std::string name = unique_discriminator();
        Fork child([&] {
            const Vi last(sink.nic); // nobody else holds it: its peer sees that the server has dropped all
            NetAddress listen = sink.nic.address(name);
            NetAddress from;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE request = nullptr;
            REQUIRE_VIP(VipConnectWait(sink.nic, listen, patience(), from, &attributes, &request));
            REQUIRE_VIP(VipConnectAccept(request, last));
            connected.open();
            never.pass();
        });
        NetAddress local = sink.own.address(name + "c"), remote = sink.own.address(name);
        VIP_RETURN rc;
        const unsigned long long end = now_ms() + patience();
        do { // until it listens
            rc = VipConnectRequest(peer, local, remote, patience(), nullptr);
        } while (rc == VIP_NO_MATCH && now_ms() < end);
        REQUIRE_VIP(rc);
        connected.pass();
        child.kill();
        peer.await(VIP_STATE_ERROR);
        for (const int fd : fds) {
            expect_quiet(fd);
        }
    }
}

TEST_CASE("a shared descriptor is never quiet with something to take", "[sharing][posix]")
{
    constexpr unsigned kMessages = 4000, kAhead = 32;
    Sink sink(false);
    const int fd = fd_of(VIPX_FD_RECV, sink.server);
    std::vector<Work> works;
    for (unsigned i = 0; i < kAhead; ++i) {
        works.push_back(sink.memory.transfer(sink.memory.bytes(8)));
        post_recv(sink.server, works.back());
    }
    std::atomic<unsigned> posted{kAhead};
    const auto reap = [&](unsigned count) {
        while (count > 0) {
            if (!is_readable(fd, patience())) {
                throw Failure("quiet with " + std::to_string(count) + " to come");
            }
            VIP_DESCRIPTOR *done = nullptr;
            VIP_RETURN rc;
            while ((rc = VipRecvDone(sink.server, &done)) ==
                   VIP_SUCCESS) { // until the descriptor is silenced
                --count;
                done->CS.Length = 8;
                done->CS.Status = 0;
                REQUIRE_VIP(VipPostRecv(sink.server, done, works[0].handle));
                posted++;
            }
            REQUIRE_RC(VIP_NOT_DONE, rc);
        }
    };
    std::string problem;
    std::thread reaper([&] {
        try {
            reap(kMessages);
        } catch (const std::exception &error) {
            problem = error.what();
        }
    });
    const unsigned long long end = now_ms() + patience();
    const Work out = sink.own_memory.transfer(sink.own_memory.text("x"));
    try {
        for (unsigned i = 0; i < kMessages && problem.empty(); ++i) {
            while (posted <= i && now_ms() < end) {
            }
            post_send(sink.client, out);
            sent(sink.client);
        }
    } catch (const std::exception &error) {
        problem += error.what();
    }
    reaper.join();
    EXPECT_EQ(std::string(), problem);
}
