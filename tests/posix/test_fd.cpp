// SPDX-License-Identifier: MIT
//
// POSIX extensions: descriptors for event loops are readable exactly while there is something to
// take.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/select.h>

#include "conformance/notify_log.hpp"
#include "readiness.hpp"

using namespace vipl_conformance;

namespace {

VIP_DESCRIPTOR *take_receive(VIP_VI_HANDLE vi, VIP_RETURN expected = VIP_SUCCESS)
{
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(expected, VipRecvDone(vi, &done));
    return done;
}

void expect_nothing_received(VIP_VI_HANDLE vi)
{
    EXPECT(take_receive(vi, VIP_NOT_DONE) == nullptr);
}

/** The client connects and sends so many messages of a byte each, once the server is ready. */
template <int Messages>
void sender(Peer &peer)
{
    Endpoint end(peer);
    end.connect();
    peer.sync();
    for (int i = 0; i < Messages; ++i) {
        end.send("m");
        sent(end.vi);
    }
    peer.sync();
}

/** Returns false if the name has no port: the few that it may have are others' of the test. */
bool listens_for(const Nic &nic, NetAddress local)
{
    Incoming incoming;
    const VIP_RETURN rc =
        VipConnectWait(nic, local, 0, incoming.from, &incoming.attributes, &incoming.connection);
    EXPECT(rc == VIP_TIMEOUT || (rc == VIP_ERROR_RESOURCE && device_is_tcp()));
    return rc == VIP_TIMEOUT;
}

} // namespace

// --- work queues ---

TWO_ROLE_CASE_EACH_LEVEL("a receive makes the descriptor readable, until it is taken",
                         "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work first = end.receive(1), second = end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        expect_quiet(fd);
        end.connect();
        expect_quiet(fd);
        peer.sync();
        expect_readable(fd); // with no call of ours
        EXPECT(take_receive(end.vi) == first.desc);
        expect_readable(fd); // the second
        EXPECT(take_receive(end.vi) == second.desc);
        expect_quiet(fd);
        expect_nothing_received(end.vi);
        expect_quiet(fd);
        EXPECT_EQ(fd, fd_of(VIPX_FD_RECV, end.vi));
        peer.sync();
    },
    sender<2>,
};

TWO_ROLE_CASE("completed sends make the descriptor readable, until they are taken", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer, 256 * 1024);
        end.receive(1);
        end.receive(200 * 1024);
        end.connect();
        received(end.vi);
        received(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer, 256 * 1024);
        const Span large = end.memory.bytes(200 * 1024);
        const int fd = fd_of(VIPX_FD_SEND, end.vi);
        end.connect();
        expect_quiet(fd);
        for (const Work &work : {end.memory.transfer(end.memory.text("m")), end.memory.transfer(large)}) {
            post_send(end.vi, work);
            expect_readable(fd);
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(VipSendDone(end.vi, &done));
            EXPECT(done == work.desc);
            expect_quiet(fd);
            REQUIRE_RC(VIP_NOT_DONE, VipSendDone(end.vi, &done));
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("a descriptor asked for late is readable at once", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(1);
        end.connect();
        peer.sync();
        peer.sync(); // it is sent
        const unsigned long long stop = now_ms() + patience();
        while ((in.poll() & VIP_STATUS_DONE) == 0 && now_ms() < stop) {
            end.vi.state(); // any call makes progress
        }
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        EXPECT(is_readable(fd));
        EXPECT(take_receive(end.vi) == in.desc);
        expect_quiet(fd);
    },
    sender<1>,
};

TEST_CASE("what a disconnect flushes makes both descriptors readable", "[VipxGetFd][posix]")
{
    ConnectedPair pair;
    const int receives = fd_of(VIPX_FD_RECV, pair.server);
    const int sends = fd_of(VIPX_FD_SEND, pair.server);
    for (int i = 0; i < 3; ++i) {
        post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(4)));
    }
    expect_quiet(receives);
    REQUIRE_VIP(VipDisconnect(pair.server));
    for (int i = 0; i < 3; ++i) {
        EXPECT(is_readable(receives));
        take_receive(pair.server, VIP_DESCRIPTOR_ERROR);
    }
    expect_quiet(receives);
    expect_quiet(sends);
    post_send(pair.server, pair.server_memory.transfer(pair.server_memory.text("m"))); // IDLE: flushed
    EXPECT(is_readable(sends));
    send_failed(pair.server);
    expect_quiet(sends);
}

TWO_ROLE_CASE("the peer's disconnect makes the descriptor readable, whose receives are flushed",
              "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work first = end.receive(1), second = end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        end.connect();
        peer.sync();
        expect_readable(fd);
        EXPECT(take_receive(end.vi, VIP_DESCRIPTOR_ERROR) == first.desc);
        EXPECT(take_receive(end.vi, VIP_DESCRIPTOR_ERROR) == second.desc);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        expect_quiet(fd);
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
};

TWO_PROCESS_CASE("a peer process that dies makes the descriptor readable", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        end.connect();
        peer.sync();
        expect_readable(fd);
        EXPECT(take_receive(end.vi, VIP_DESCRIPTOR_ERROR) == in.desc);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        expect_quiet(fd);
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        peer.die();
    },
};

TWO_ROLE_CASE_RELIABLE("a message that does not fit makes the descriptor readable", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(1);
        end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        end.connect();
        peer.sync();
        expect_readable(fd);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR,
                      take_receive(end.vi, VIP_DESCRIPTOR_ERROR));
        expect_readable(fd); // the connection ends, and the other one is flushed
        take_receive(end.vi, VIP_DESCRIPTOR_ERROR);
        expect_quiet(fd);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        end.send("too long");
        peer.sync();
    },
};

TWO_ROLE_CASE("what another thread takes is not readable any more", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        end.connect();
        peer.sync();
        expect_readable(fd);
        std::thread([&] { EXPECT(received(end.vi) == in.desc); }).join();
        expect_quiet(fd);
        peer.sync();
    },
    sender<1>,
};

TWO_ROLE_CASE("what a handler takes is not readable", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        const Work first = end.receive(1), second = end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        REQUIRE_VIP(VipRecvNotify(end.vi, log.context(), NotifyLog::vi_handler));
        end.connect();
        peer.sync();
        EXPECT(log.call(0).descriptor == first.desc);
        expect_readable(fd); // the second
        REQUIRE_VIP(VipRecvNotify(end.vi, log.context(1), NotifyLog::vi_handler));
        EXPECT(log.call(1).descriptor == second.desc);
        expect_quiet(fd);
        peer.sync();
    },
    sender<2>,
};

TWO_ROLE_CASE("VipRecvWait and the descriptor may be used by turns", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        for (int i = 0; i < 40; ++i) {
            end.receive(1);
        }
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        end.connect();
        peer.sync();
        for (int i = 0; i < 20; ++i) {
            expect_readable(fd);
            take_receive(end.vi);
            received(end.vi);
        }
        expect_quiet(fd);
        peer.sync();
    },
    sender<40>,
};

TWO_ROLE_CASE("select sees the descriptor too", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(1);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        end.connect();
        peer.sync();
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        timeval timeout = {static_cast<time_t>(patience() / 1000), 0};
        EXPECT_EQ(1, select(fd + 1, &set, nullptr, nullptr, &timeout));
        take_receive(end.vi);
        timeout = {0, 0};
        FD_SET(fd, &set);
        EXPECT_EQ(0, select(fd + 1, &set, nullptr, nullptr, &timeout));
        peer.sync();
    },
    sender<1>,
};

// --- completion queues ---

TWO_ROLE_CASE("entries of any VI make a completion queue's descriptor readable", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        const Cq cq(peer.nic());
        Endpoint end(peer, kTransferSize, cq, cq);
        const Vi other(peer.nic(), vi_attributes(), cq, cq);
        end.receive(1);
        const int fd = fd_of(VIPX_FD_CQ, cq);
        expect_quiet(fd);
        post_send(other, end.memory.transfer(end.memory.text("m"))); // IDLE: flushed
        EXPECT(is_readable(fd));
        cq.expect(other, VIP_FALSE);
        expect_quiet(fd); // the entry is taken, the descriptor is not
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipSendDone(other, &done));
        expect_quiet(fd);
        end.connect();
        peer.sync();
        expect_readable(fd);
        take_receive(end.vi); // the entry goes with its descriptor
        expect_quiet(fd);
        EXPECT_EQ(fd, fd_of(VIPX_FD_CQ, cq));
        peer.sync();
    },
    sender<1>,
};

TWO_ROLE_CASE("a handler takes a completion queue's entry before the descriptor shows it",
              "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        NotifyLog log;
        const Cq cq(peer.nic());
        Endpoint end(peer, kTransferSize, nullptr, cq);
        end.receive(1);
        end.receive(1);
        const int fd = fd_of(VIPX_FD_CQ, cq);
        REQUIRE_VIP(VipCQNotify(cq, log.context(), NotifyLog::cq_handler));
        end.connect();
        peer.sync();
        EXPECT(log.call(0).vi == static_cast<VIP_VI_HANDLE>(end.vi));
        expect_readable(fd);
        REQUIRE_VIP(VipCQNotify(cq, log.context(1), NotifyLog::cq_handler));
        EXPECT(log.call(1).vi == static_cast<VIP_VI_HANDLE>(end.vi));
        expect_quiet(fd);
        peer.sync();
    },
    sender<2>,
};

TEST_CASE("a destroyed VI's entries are not readable", "[VipxGetFd][posix]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const int fd = fd_of(VIPX_FD_CQ, cq);
    {
        const Vi vi(nic, vi_attributes(), cq, cq);
        post_send(vi, memory.transfer(memory.text("m")));
        EXPECT(is_readable(fd));
    }
    expect_quiet(fd);
}

TEST_CASE("a queue that reports to a completion queue has no descriptor", "[VipxGetFd][posix]")
{
    const Nic nic;
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), nullptr, cq);
    int fd = 0;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipxGetFd(VIPX_FD_RECV, vi, &fd));
    EXPECT_EQ(-1, fd);
    fd_of(VIPX_FD_SEND, vi);
}

// --- connection requests ---

TWO_ROLE_CASE("a connection request makes the descriptor readable, until it is taken",
              "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const int fd = fd_of(VIPX_FD_CONNECT, peer.nic());
        expect_no_request(peer.nic(), peer.server_address(), 0);
        expect_quiet(fd);
        peer.sync();
        for (int i = 0; i < 2; ++i) {
            expect_readable(fd);
            const Incoming incoming = wait_for_request(peer.nic(), peer.server_address(), 0);
            expect_quiet(fd);
            if (i == 0) {
                REQUIRE_VIP(VipConnectReject(incoming.connection));
            } else {
                REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
            }
        }
        expect_no_request(peer.nic(), peer.server_address(), 0);
        expect_quiet(fd);
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address(), peer.server_address()));
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

TWO_ROLE_CASE("a connection request that is withdrawn is not readable any more", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        const int fd = fd_of(VIPX_FD_CONNECT, peer.nic());
        expect_no_request(peer.nic(), peer.server_address(), 0);
        peer.sync();
        expect_readable(fd);
        peer.sync(); // it has timed out
        const unsigned long long stop = now_ms() + patience();
        while (is_readable(fd) && now_ms() < stop) {
            give_way();
        }
        expect_quiet(fd);
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        const VIP_RETURN rc = request(vi, peer.client_address(), peer.server_address(), short_while());
        EXPECT(rc == VIP_NO_MATCH || rc == VIP_TIMEOUT);
        peer.sync();
    },
};

TWO_ROLE_CASE("an address stays waited for, other NIC handles do not get its requests",
              "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const int fd = fd_of(VIPX_FD_CONNECT, peer.nic());
        expect_no_request(peer.nic(), peer.server_address(), 0);
        int listening = 0;
        for (int i = 0; i < 70; ++i) {
            listening += listens_for(peer.nic(), peer.server_address("n" + std::to_string(i))) ? 1 : 0;
        }
        EXPECT(listening > 64); // more than idle listeners there may be without the descriptor
        peer.sync();
        expect_readable(fd);
        expect_no_request(peer.nic(), peer.server_address("n1"),
                          short_while()); // it waits for another address
        EXPECT(is_readable(fd));
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address(), 0);
        expect_quiet(
            fd); // it came once, although its sender had the time to try other ports that we listen on
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        expect_quiet(fd);
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

// --- threads and the end ---

TWO_ROLE_CASE("threads that sleep on one descriptor take each message once", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        constexpr int kMessages = 200;
        Endpoint end(peer);
        for (int i = 0; i < kMessages; ++i) {
            end.receive(1);
        }
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        std::atomic<int> taken{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t) {
            threads.emplace_back([&] {
                const unsigned long long stop = now_ms() + patience();
                VIP_DESCRIPTOR *done = nullptr;
                while (taken < kMessages && now_ms() < stop) {
                    if (is_readable(fd, 20) && VipRecvDone(end.vi, &done) == VIP_SUCCESS) {
                        ++taken;
                    }
                }
            });
        }
        end.connect();
        peer.sync();
        for (std::thread &thread : threads) {
            thread.join();
        }
        EXPECT_EQ(kMessages, taken.load());
        expect_quiet(fd);
        peer.sync();
    },
    sender<200>,
};

/* The library's thread steps back while a program is active, but not from one that has a
 * descriptor. */
TWO_ROLE_CASE("an answer does not wait for the library's thread to come back", "[VipxGetFd][posix]") = {
    [](Peer &peer) {
        constexpr int kRounds = 200;
        Endpoint end(peer);
        const int fd = fd_of(VIPX_FD_RECV, end.vi);
        for (int i = 0; i < kRounds; ++i) {
            end.receive(1);
        }
        end.connect();
        peer.sync();
        std::vector<unsigned long long> waits;
        for (int i = 0; i < kRounds; ++i) {
            const unsigned long long start = now_ms();
            end.send("m");
            sent(end.vi);
            end.vi.state(); // this makes progress: the program is active
            expect_readable(fd);
            waits.push_back(now_ms() - start);
            take_receive(end.vi);
        }
        std::nth_element(waits.begin(), waits.begin() + kRounds / 2, waits.end());
        EXPECT(waits[kRounds / 2] < 4 * slowness()); // it would come back in 5
        peer.sync();
    },
    [](Peer &peer) {
        constexpr int kRounds = 200;
        Endpoint end(peer);
        for (int i = 0; i < kRounds; ++i) {
            end.receive(1);
        }
        end.connect();
        peer.sync();
        for (int i = 0; i < kRounds; ++i) {
            received(end.vi);
            end.send("m");
            sent(end.vi);
        }
        peer.sync();
    },
};

TEST_CASE("descriptors are closed with their objects, and by exec", "[VipxGetFd][posix]")
{
    int fds[4] = {-1, -1, -1, -1};
    {
        const Nic nic;
        {
            const Cq cq(nic);
            const Vi vi(nic);
            fds[0] = fd_of(VIPX_FD_SEND, vi);
            fds[1] = fd_of(VIPX_FD_RECV, vi);
            fds[2] = fd_of(VIPX_FD_CQ, cq);
            fds[3] = fd_of(VIPX_FD_CONNECT, nic);
            for (const int fd : fds) {
                EXPECT((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
                EXPECT_EQ(1, std::count(std::begin(fds), std::end(fds), fd));
            }
        }
        for (int i = 0; i < 3; ++i) {
            EXPECT(fcntl(fds[i], F_GETFD) == -1 && errno == EBADF);
        }
        EXPECT(fcntl(fds[3], F_GETFD) != -1);
    }
    EXPECT(fcntl(fds[3], F_GETFD) == -1 && errno == EBADF);
}

TEST_CASE("VipxGetFd checks its arguments", "[VipxGetFd][posix]")
{
    const Nic nic;
    const Vi vi(nic);
    const Cq cq(nic);
    int fd = 0;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(VIPX_FD_RECV, vi, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(static_cast<VIPX_FD_KIND>(99), vi, &fd));
    EXPECT_EQ(-1, fd);
    for (const VIPX_FD_KIND kind : {VIPX_FD_SEND, VIPX_FD_RECV}) {
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(kind, nullptr, &fd));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(kind, cq, &fd));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(kind, nic.handle(), &fd));
    }
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(VIPX_FD_CQ, vi, &fd));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(VIPX_FD_CONNECT, vi, &fd));
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE stale = nullptr;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &stale));
    REQUIRE_VIP(VipDestroyVi(stale));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxGetFd(VIPX_FD_RECV, stale, &fd));
}

TWO_PROCESS_CASE_WITH("VIPL_PROGRESS=inline", "VIPL_PROGRESS=inline forbids VipxGetFd",
                      "[VipxGetFd][posix]") = {
    [](Peer &peer) { peer.sync(); },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        int fd = 0;
        REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipxGetFd(VIPX_FD_RECV, vi, &fd));
        EXPECT_EQ(-1, fd);
        REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipxGetFd(VIPX_FD_CONNECT, peer.nic(), &fd));
        peer.sync();
    },
};
