// SPDX-License-Identifier: MIT
//
// POSIX extensions: a wait for a completion queue that also watches descriptors of the program.
#include <algorithm>
#include <array>
#include <atomic>

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "conformance/signals.hpp"
#include "readiness.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

/** A pipe: its reading end is ready once something has been written. */
class Pipe {
public:
    Pipe() { EXPECT(pipe(ends_) == 0); }
    ~Pipe()
    {
        close(ends_[0]);
        close(ends_[1]);
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;

    pollfd watched() const { return {ends_[0], POLLIN, static_cast<short>(-1)}; }
    void write() const { EXPECT(::write(ends_[1], "x", 1) == 1); }

private:
    int ends_[2] = {-1, -1};
};

/** A connected pair whose server's receives report to a completion queue. */
struct QueuedPair {
    QueuedPair() { connect_pair(server_nic, server, client_nic, client); }

    void send()
    {
        post_recv(server, server_memory.transfer(server_memory.bytes(8)));
        post_send(client, client_memory.transfer(client_memory.text("message.")));
    }
    VIP_RETURN wait(pollfd *fds, VIP_ULONG count, VIP_ULONG timeout, const sigset_t *mask = nullptr)
    {
        return VipxCQWaitFds(cq, fds, count, timeout, mask, &vi, &is_recv);
    }
    void expect_entry()
    {
        EXPECT(vi == server);
        EXPECT_EQ(VIP_TRUE, is_recv);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(server, &done));
        EXPECT((done->CS.Status & VIP_STATUS_DONE) != 0);
    }

    Nic server_nic, client_nic;
    Memory server_memory{server_nic}, client_memory{client_nic};
    Cq cq{server_nic};
    Vi server{server_nic, vi_attributes(), nullptr, cq}, client{client_nic};
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN is_recv = VIP_FALSE;
};

} // namespace

TEST_CASE("an entry ends the wait, and no descriptor is reported", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe pipe;
    pollfd fd = pipe.watched();
    pair.send();
    REQUIRE_VIP(pair.wait(&fd, 1, patience()));
    pair.expect_entry();
    EXPECT_EQ(0, fd.revents);
}

TEST_CASE("an entry that is there comes before a descriptor that is ready", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe pipe;
    pollfd fd = pipe.watched();
    pair.send();
    expect_readable(fd_of(VIPX_FD_CQ, pair.cq)); // the message has come
    pipe.write();
    REQUIRE_VIP(pair.wait(&fd, 1, patience()));
    pair.expect_entry();
    EXPECT_EQ(0, fd.revents);
    REQUIRE_RC(VIP_NOT_DONE, pair.wait(&fd, 1, patience()));
    EXPECT_EQ(POLLIN, fd.revents);
    EXPECT(pair.vi == nullptr);
}

TEST_CASE("a descriptor that is ready ends the wait, at once or from the sleep", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe first, second;
    std::array<pollfd, 3> fds = {{first.watched(), {-1, POLLIN, -1}, second.watched()}};
    VIP_RETURN rc = VIP_SUCCESS;
    std::future<void> caller;
    begin_call(caller, [&] { rc = pair.wait(fds.data(), fds.size(), VIP_INFINITE); });
    second.write();
    caller.get();
    REQUIRE_RC(VIP_NOT_DONE, rc);
    EXPECT_EQ(0, fds[0].revents);
    EXPECT_EQ(0, fds[1].revents);
    EXPECT_EQ(POLLIN, fds[2].revents);
    fds[2].revents = 0;
    REQUIRE_RC(VIP_NOT_DONE, pair.wait(fds.data(), fds.size(), VIP_INFINITE)); // it is ready still
    EXPECT_EQ(POLLIN, fds[2].revents);
}

TEST_CASE("a message wakes a thread that watches descriptors", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe pipe;
    for (int round = 0; round < 20; ++round) {
        pollfd fd = pipe.watched();
        VIP_RETURN rc = VIP_NOT_DONE;
        std::future<void> caller;
        post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(8)));
        begin_call(caller, [&] { rc = pair.wait(&fd, 1, patience()); });
        post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("message.")));
        caller.get();
        REQUIRE_VIP(rc);
        pair.expect_entry();
        EXPECT_EQ(0, fd.revents);
        EXPECT(sent(pair.client) != nullptr);
    }
}

TEST_CASE("each of two threads of a NIC handle is woken by its own descriptor", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Cq other(pair.server_nic);
    const std::array<Pipe, 2> pipes;
    for (const unsigned first : {0U, 1U}) { // one leads, and the other follows
        std::array<std::future<void>, 2> callers;
        std::array<VIP_RETURN, 2> rc = {VIP_SUCCESS, VIP_SUCCESS};
        std::array<pollfd, 2> fds = {pipes[0].watched(), pipes[1].watched()};
        for (const unsigned i : {0U, 1U}) {
            begin_call(callers[i], [&, i] {
                VIP_VI_HANDLE vi = nullptr;
                VIP_BOOLEAN is_recv = VIP_FALSE;
                rc[i] =
                    VipxCQWaitFds(i == 0 ? pair.cq : other, &fds[i], 1, patience(), nullptr, &vi, &is_recv);
            });
        }
        for (const unsigned turn : {first, 1 - first}) {
            pipes[turn].write();
            callers[turn].get();
            REQUIRE_RC(VIP_NOT_DONE, rc[turn]);
            EXPECT_EQ(POLLIN, fds[turn].revents);
            char byte;
            EXPECT(read(fds[turn].fd, &byte, 1) == 1);
        }
    }
}

namespace {

/** Each role: a request by a VI of a completion queue, and the calls that wait for its end. */
void peer_request_of_queue(Peer &peer, VIP_ULONG transfer_size, VIP_RETURN expected)
{
    const Cq cq(peer.nic());
    const Vi vi(peer.nic(), vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY, transfer_size), nullptr, cq);
    const Pipe pipe;
    NetAddress server = peer.server_address(), client = peer.client_address();
    NetAddress &local = peer.is_server() ? server : client, &remote = peer.is_server() ? client : server;
    pollfd fd = pipe.watched();
    VIP_VI_HANDLE of = nullptr;
    VIP_BOOLEAN is_recv = VIP_FALSE;
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, VIP_INFINITE));
    REQUIRE_RC(VIP_NOT_DONE, VipxCQWaitFds(cq, &fd, 1, patience(), nullptr, &of, &is_recv));
    EXPECT_EQ(0, fd.revents);
    EXPECT(of == nullptr);
    REQUIRE_RC(VIP_TIMEOUT, VipxCQWaitFds(cq, &fd, 1, 0, nullptr, &of, &is_recv)); // it returns once
    REQUIRE_RC(expected, VipConnectPeerDone(vi, nullptr));
    peer.sync();
}

} // namespace

TWO_ROLE_CASE("a peer-to-peer request that is done ends the wait, once", "[VipxCQWaitFds][posix]") = {
    [](Peer &peer) { peer_request_of_queue(peer, kTransferSize, VIP_SUCCESS); },
    [](Peer &peer) { peer_request_of_queue(peer, kTransferSize, VIP_SUCCESS); },
};

TWO_ROLE_CASE("a peer-to-peer request that has failed ends the wait", "[VipxCQWaitFds][posix]") = {
    [](Peer &peer) { peer_request_of_queue(peer, kTransferSize, VIP_INVALID_MTU); },
    [](Peer &peer) { peer_request_of_queue(peer, kTransferSize - 1, VIP_INVALID_MTU); },
};

TEST_CASE("a peer-to-peer request that was done before hides no descriptor that is ready",
          "[VipxCQWaitFds][posix]")
{
    const Nic nic, other;
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), nullptr, cq), peer(other);
    const Pipe pipe;
    pollfd fd = pipe.watched();
    VIP_VI_HANDLE of = nullptr;
    VIP_BOOLEAN is_recv = VIP_FALSE;
    const std::string one = unique_discriminator(), two = unique_discriminator();
    REQUIRE_VIP(VipConnectPeerRequest(vi, nic.address(one), nic.address(two), patience()));
    REQUIRE_VIP(VipConnectPeerRequest(peer, other.address(two), other.address(one), patience()));
    REQUIRE_VIP(VipConnectPeerWait(vi, nullptr));
    REQUIRE_VIP(VipConnectPeerWait(peer, nullptr));
    pipe.write();
    REQUIRE_RC(VIP_NOT_DONE, VipxCQWaitFds(cq, &fd, 1, 0, nullptr, &of, &is_recv));
    EXPECT_EQ(POLLIN, fd.revents);
}

TEST_CASE("a peer-to-peer request that is done wakes a thread that follows another one",
          "[VipxCQWaitFds][posix]")
{
    const Nic nic, other;
    const Cq cq(nic), unused(nic);
    const Vi vi(nic, vi_attributes(), nullptr, cq), peer(other);
    const Pipe pipe;
    pollfd fd = pipe.watched();
    VIP_RETURN rc = VIP_SUCCESS, led = VIP_SUCCESS;
    std::future<void> leader, caller;
    const std::string one = unique_discriminator(), two = unique_discriminator();
    REQUIRE_VIP(VipConnectPeerRequest(vi, nic.address(one), nic.address(two), VIP_INFINITE));
    begin_call(leader, [&] {
        VIP_VI_HANDLE of = nullptr;
        VIP_BOOLEAN is_recv = VIP_FALSE;
        led = VipxCQWaitFds(unused, &fd, 1, patience(), nullptr, &of, &is_recv);
    });
    begin_call(caller, [&] {
        VIP_VI_HANDLE of = nullptr;
        VIP_BOOLEAN is_recv = VIP_FALSE;
        rc = VipxCQWaitFds(cq, nullptr, 0, patience(), nullptr, &of, &is_recv);
    });
    REQUIRE_VIP(VipConnectPeerRequest(peer, other.address(two), other.address(one), patience()));
    REQUIRE_VIP(VipConnectPeerWait(peer, nullptr));
    caller.get();
    REQUIRE_RC(VIP_NOT_DONE, rc);
    REQUIRE_VIP(VipConnectPeerDone(vi, nullptr));
    pipe.write();
    leader.get();
    REQUIRE_RC(VIP_NOT_DONE, led);
    EXPECT_EQ(POLLIN, fd.revents);
}

TEST_CASE("without time the queue and the descriptors are looked at once", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe pipe;
    pollfd fd = pipe.watched();
    REQUIRE_RC(VIP_TIMEOUT, pair.wait(&fd, 1, 0));
    EXPECT_EQ(0, fd.revents);
    REQUIRE_RC(VIP_TIMEOUT, pair.wait(nullptr, 0, 0));
    REQUIRE_RC(VIP_TIMEOUT, pair.wait(&fd, 1, kMoment));
    pipe.write();
    REQUIRE_RC(VIP_NOT_DONE, pair.wait(&fd, 1, 0));
    EXPECT_EQ(POLLIN, fd.revents);
}

TEST_CASE("a descriptor that is not open is ready, as poll() has it", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const int closed = dup(STDERR_FILENO);
    close(closed);
    pollfd fd = {closed, POLLIN, 0};
    REQUIRE_RC(VIP_NOT_DONE, pair.wait(&fd, 1, VIP_INFINITE));
    EXPECT_EQ(POLLNVAL, fd.revents);
}

TEST_CASE("thousands of descriptors are watched, up to the system's limit", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe pipe;
    struct rlimit before = {};
    EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const struct rlimit few = {std::min<rlim_t>(before.rlim_cur, 1024), before.rlim_max};
    std::vector<pollfd> fds(few.rlim_cur, pollfd{-1, POLLIN, -1});
    fds[fds.size() - 8] = pipe.watched();
    fds.resize(fds.size() - 4); // room for the library's own
    REQUIRE_RC(VIP_TIMEOUT, pair.wait(fds.data(), static_cast<VIP_ULONG>(fds.size()), kMoment));
    pipe.write();
    REQUIRE_RC(VIP_NOT_DONE, pair.wait(fds.data(), static_cast<VIP_ULONG>(fds.size()), VIP_INFINITE));
    EXPECT_EQ(1, std::count_if(fds.begin(), fds.end(), [](const pollfd &fd) { return fd.revents != 0; }));
    EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    fds.resize(2 * few.rlim_cur, pollfd{-1, POLLIN, 0});
    const VIP_RETURN rc = pair.wait(fds.data(), static_cast<VIP_ULONG>(fds.size()), kMoment);
    EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE_RC(VIP_INVALID_PARAMETER, rc);
    pair.send(); // and the queue is as it was
    REQUIRE_VIP(pair.wait(fds.data(), 1, patience()));
    pair.expect_entry();
}

TEST_CASE("a signal ends the wait", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    const Pipe pipe;
    const Handler handler(0);
    pollfd fd = pipe.watched();
    REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return pair.wait(&fd, 1, patience()); }));
    EXPECT_EQ(0, fd.revents);
}

TEST_CASE("a signal is kept out by the mask, and comes when the wait has ended",
          "[VipxCQWaitFds][posix][mask]")
{
    QueuedPair pair;
    const Pipe pipe;
    const Handler handler(0);
    pollfd fd = pipe.watched();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    VIP_RETURN rc = VIP_SUCCESS;
    std::atomic<pthread_t> thread{};
    std::future<void> caller;
    begin_call(caller, [&] {
        thread = pthread_self();
        rc = pair.wait(&fd, 1, patience(), &set);
    });
    pthread_kill(thread, SIGUSR1);
    pipe.write();
    caller.get();
    REQUIRE_RC(VIP_NOT_DONE, rc);
    EXPECT_EQ(1, static_cast<int>(Handler::calls));
}

TEST_CASE("what VipxCQWaitFds is given is checked", "[VipxCQWaitFds][posix]")
{
    QueuedPair pair;
    pollfd fd = {-1, POLLIN, 0};
    REQUIRE_RC(VIP_INVALID_PARAMETER, pair.wait(nullptr, 1, 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, pair.wait(&fd, ~VIP_ULONG(0), 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               pair.wait(&fd, sizeof(VIP_ULONG) > 4 ? (VIP_ULONG(1) << 31) << 1 : ~VIP_ULONG(0), 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxCQWaitFds(nullptr, &fd, 1, 0, nullptr, &pair.vi, &pair.is_recv));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxCQWaitFds(pair.cq, &fd, 1, 0, nullptr, nullptr, &pair.is_recv));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxCQWaitFds(pair.cq, &fd, 1, 0, nullptr, &pair.vi, nullptr));
    REQUIRE_RC(VIP_TIMEOUT, pair.wait(&fd, 1, 0));
}
