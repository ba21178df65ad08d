// SPDX-License-Identifier: MIT
//
// Programs that sleep on descriptors of VipxGetFd and nowhere else: bursts of 1 to 64 messages and
// an answer, in one process and between two, by poll and by edges, from a work queue and from a
// completion queue. A wake-up that is missed leaves both asleep; one too many finds a descriptor
// readable with nothing to take. VIPL_STRESS_MESSAGES: how many in all (a million).
#include "stress.hpp"

#include <sys/epoll.h>

#include <vipl/posix.h>

using namespace stress;

namespace {

constexpr unsigned kMostInBurst = 64;

enum Mode : unsigned { kLevelQueue, kEdgeQueue, kLevelCq, kEdgeCq, kModes };

unsigned messages()
{
    return times("VIPL_STRESS_MESSAGES", 1000000);
}

bool is_readable(int fd, int timeout)
{
    pollfd entry = {fd, POLLIN, 0};
    const int ready = poll(&entry, 1, timeout);
    EXPECT(ready >= 0);
    return ready == 1;
}

/** Sleeps on a descriptor, by level or by edge. */
class Sleeper {
public:
    Sleeper(int fd, bool edge) : fd_(fd)
    {
        if (edge) {
            epoll_ = epoll_create1(EPOLL_CLOEXEC);
            epoll_event event = {};
            event.events = EPOLLIN | EPOLLET;
            EXPECT(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0);
        }
    }
    ~Sleeper()
    {
        if (epoll_ >= 0) {
            epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_, nullptr);
            close(epoll_);
        }
    }
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;

    void await_readable() const
    {
        const int limit = static_cast<int>(2 * patience()); // for ever, but that the test is to end
        epoll_event event = {};
        EXPECT(epoll_ >= 0 ? epoll_wait(epoll_, &event, 1, limit) == 1 : is_readable(fd_, limit));
    }
    bool is_quiet() const { return !is_readable(fd_, 0); }

private:
    int fd_, epoll_ = -1;
};

int fd_of(VIPX_FD_KIND kind, VIP_PVOID handle)
{
    int fd = -1;
    REQUIRE_VIP(VipxGetFd(kind, handle, &fd));
    return fd;
}

/** One side. */
class End {
public:
    explicit End(Mode mode)
        : memory_(nic), cq_(nic, 4 * kMostInBurst), reports_(mode >= kLevelCq),
          edge_(mode == kEdgeQueue || mode == kEdgeCq), vi(nic, vi_attributes(), nullptr, receive_cq()),
          receives_(reports_ ? fd_of(VIPX_FD_CQ, cq_) : fd_of(VIPX_FD_RECV, vi), edge_),
          sends_(fd_of(VIPX_FD_SEND, vi), false)
    {
        for (unsigned i = 0; i < 2 * kMostInBurst; ++i) {
            post_recv(vi, memory_.transfer(memory_.bytes(4)));
        }
        for (unsigned i = 0; i < kMostInBurst; ++i) {
            out_.push_back(memory_.transfer(memory_.bytes(4)));
        }
    }

    const Nic nic;

    void send_burst(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            std::memcpy(out_[i].buffer.data, &sent_, sizeof sent_);
            ++sent_;
            out_[i].desc->CS.Length = 4;
            post_send(vi, out_[i]);
        }
        VIP_DESCRIPTOR *done = nullptr;
        for (unsigned i = 0; i < count; ++i) {
            sends_.await_readable();
            REQUIRE_VIP(VipSendDone(vi, &done));
        }
        EXPECT(sends_.is_quiet());
    }

    /** Which may bring some of what comes after it too. */
    void receive_burst(unsigned count, Random &random)
    {
        while (ahead_ < count) {
            receives_.await_readable();
            const unsigned most = edge_ ? ~0u : 1 + static_cast<unsigned>(below(random, 8));
            for (unsigned i = 0; i < most && take(); ++i) {
                ++ahead_;
            }
        }
        ahead_ -= count;
    }

    void expect_nothing()
    {
        EXPECT_EQ(0u, ahead_);
        EXPECT(receives_.is_quiet());
        EXPECT(!take());
        EXPECT(receives_.is_quiet());
    }

private:
    bool take()
    {
        VIP_DESCRIPTOR *done = nullptr;
        VIP_VI_HANDLE which = nullptr;
        VIP_BOOLEAN receive = VIP_FALSE;
        if (reports_) {
            const VIP_RETURN rc = VipCQDone(cq_, &which, &receive);
            if (rc == VIP_NOT_DONE) {
                return false;
            }
            REQUIRE_VIP(rc);
        }
        const VIP_RETURN rc = VipRecvDone(vi, &done);
        if (rc == VIP_NOT_DONE && !reports_) {
            return false;
        }
        REQUIRE_VIP(rc);
        EXPECT(std::memcmp(done->DS[0].Local.Data.Address, &received_, sizeof received_) == 0);
        ++received_;
        done->CS.Length = 4;
        REQUIRE_VIP(VipPostRecv(vi, done, memory_.handle()));
        return true;
    }

    VIP_CQ_HANDLE receive_cq() const { return reports_ ? static_cast<VIP_CQ_HANDLE>(cq_) : nullptr; }

    Memory memory_;
    Cq cq_;
    bool reports_, edge_; // receives to the completion queue; by edges

public:
    const Vi vi;

private:
    const Sleeper receives_, sends_;
    std::vector<Work> out_;
    std::uint32_t sent_ = 0, received_ = 0;
    unsigned ahead_ = 0;
};

/** Both sides draw the same numbers: who bursts next, and how many. */
void talk(End &end, bool first, std::uint64_t seed, unsigned long total)
{
    Random plan(seed), own(seed + (first ? 1 : 2));
    for (unsigned long done = 0; done < total;) {
        const bool first_bursts = below(plan, 2) == 0;
        const unsigned count = 1 + static_cast<unsigned>(below(plan, kMostInBurst));
        if (first == first_bursts) {
            end.send_burst(count);
            end.receive_burst(1, own);
        } else {
            end.receive_burst(count, own);
            end.expect_nothing(); // the other side waits for the answer
            end.send_burst(1);
        }
        done += count + 1;
    }
}

struct Order {
    Mode mode;
    unsigned long total;
};

void caller(const Scene &scene, Line &line)
{
    const auto order = line.receive<Order>();
    End end(order.mode);
    line.sync(); // the other side has a descriptor for requests
    REQUIRE_VIP(request_to(end.nic, scene.name(), end.vi));
    talk(end, false, scene.seed, order.total);
    line.sync(); // both have everything
}

/** Accepts, asleep on a descriptor too. */
void accept(const End &end, const Scene &scene, Line &line)
{
    const Sleeper requests(fd_of(VIPX_FD_CONNECT, end.nic), false);
    EXPECT_EQ(VIP_TIMEOUT, accept_on(end.nic, scene.name(), end.vi, 0));
    line.sync();
    requests.await_readable();
    REQUIRE_VIP(accept_on(end.nic, scene.name(), end.vi, 0));
    EXPECT(requests.is_quiet());
}

} // namespace

TEST_CASE("no wake-up is missed between two processes", "[fd]")
{
    for (unsigned mode = 0; mode < kModes; ++mode) {
        const Order order = {static_cast<Mode>(mode), messages() / (2 * kModes)};
        const Scene scene = make_scene();
        Child child(caller, scene);
        child.line.send(order);
        End end(order.mode);
        accept(end, scene, child.line);
        talk(end, true, scene.seed, order.total);
        child.line.sync();
        child.finish();
    }
}

TEST_CASE("no wake-up is missed in one process", "[fd]")
{
    for (unsigned mode = 0; mode < kModes; ++mode) {
        End first(static_cast<Mode>(mode)), second(static_cast<Mode>(mode));
        connect_pair(first.nic, first.vi, second.nic, second.vi);
        Crew crew;
        crew.add([&] { talk(first, true, seed(), messages() / (2 * kModes)); });
        crew.add([&] { talk(second, false, seed(), messages() / (2 * kModes)); });
        crew.join();
    }
}
