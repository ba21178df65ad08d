// SPDX-License-Identifier: MIT
//
// Two processes that wait by themselves, and sleep for each message: VIPL_STRESS_WAKES messages go
// to and fro. Each side sleeps on its completion queue and a descriptor of its own, which stays
// quiet, so that a message whose wake-up is lost waits until the time is over. A random moment
// before each sleep has the mark of the sleeper meet the message.
#include <poll.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "partner.hpp"
#include "stress.hpp"

using namespace stress;

namespace {

/** A descriptor that is never ready. */
class Quiet {
public:
    Quiet() { EXPECT(pipe(ends_) == 0); }
    ~Quiet()
    {
        close(ends_[0]);
        close(ends_[1]);
    }
    Quiet(const Quiet &) = delete;
    Quiet &operator=(const Quiet &) = delete;

    pollfd watched() const { return {ends_[0], POLLIN, 0}; }

private:
    int ends_[2] = {-1, -1};
};

class Side {
public:
    explicit Side(Random random) : random_(random) {}

    void prepare() { post_recv(vi, in_); }

    /** Answer or begin that number of messages. */
    void exchange(unsigned messages, bool begins)
    {
        for (unsigned i = 0; i < messages; ++i) {
            if (begins) {
                send(i);
            }
            await(i);
            if (!begins) {
                send(i);
            }
        }
    }

    const Nic nic{device_under_test(), Nic::Flags{VIPX_INLINE}};

private:
    void send(std::uint32_t number)
    {
        std::memcpy(to_.data, &number, sizeof number);
        post_send(vi, out_);
        EXPECT(sent(vi) == out_.desc);
        out_.desc->CS.Status = 0;
    }
    void await(std::uint32_t number)
    {
        VIP_VI_HANDLE whose = nullptr;
        VIP_BOOLEAN is_recv = VIP_FALSE;
        pollfd fd = quiet_.watched();
        some_moment();
        REQUIRE_VIP(VipxCQWaitFds(cq_, &fd, 1, patience(), nullptr, &whose, &is_recv));
        EXPECT(whose == vi && is_recv == VIP_TRUE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(vi, &done));
        EXPECT(done == in_.desc);
        std::uint32_t received;
        std::memcpy(&received, from_.data, sizeof received);
        EXPECT_EQ(number, received);
        done->CS.Status = 0;
        post_recv(vi, in_); // before the answer: the next message comes after it
    }
    /** At once, as the message comes, or when the other side sleeps. */
    void some_moment()
    {
        const std::uint64_t kind = below(random_, 8);
        const auto time = std::chrono::nanoseconds(kind < 3   ? 0
                                                   : kind < 6 ? below(random_, 2000)
                                                              : below(random_, 20000));
        const auto end = std::chrono::steady_clock::now() + time;
        while (kind >= 3 && std::chrono::steady_clock::now() < end) {
        }
    }

    Random random_;
    Quiet quiet_;
    Memory memory_{nic};
    Cq cq_{nic};

public:
    const Vi vi{nic, vi_attributes(), nullptr, cq_};

private:
    Span to_ = memory_.bytes(sizeof(std::uint32_t)), from_ = memory_.bytes(sizeof(std::uint32_t));
    const Work out_ = memory_.transfer(to_), in_ = memory_.transfer(from_);
};

unsigned messages()
{
    return times("VIPL_STRESS_WAKES", 100000);
}

void other_side(const Scene &scene, Line &line)
{
    Side side(scene.random());
    side.prepare();
    REQUIRE_VIP(accept_on(side.nic, scene.name(), side.vi));
    side.exchange(line.receive<unsigned>(), false);
    line.sync();
}

} // namespace

TEST_CASE("no wake-up is lost between processes that sleep for each message", "[wakes][procs]")
{
    const Scene scene = make_scene();
    Partner partner(Where::process, other_side, scene);
    Side side(Random(scene.seed + 1));
    side.prepare();
    REQUIRE_VIP(request_to(side.nic, scene.name(), side.vi));
    const unsigned count = messages();
    partner.line().send(count);
    side.exchange(count, true);
    EXPECT_EQ('S', partner.line().receive<char>());
    partner.line().send('S');
    partner.finish();
}
