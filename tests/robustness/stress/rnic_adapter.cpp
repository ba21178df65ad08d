// SPDX-License-Identifier: MIT
//
// The adapter, which is a process, is killed while three programs exchange over it,
// VIPL_STRESS_ADAPTERS times. All of them see it within a second, whatever they wait for; every
// descriptor comes back; and with a new NIC handle they go on, over a new adapter. One that only
// does not run for a while, as on a machine that is too busy, costs them that time alone.
#include "exchange.hpp"

#include <chrono>
#include <ctime>
#include <functional>
#include <future>
#include <memory>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/un.h>

using namespace stress;

namespace {

constexpr unsigned kPrograms = 3, kTurnsBefore = 3;

/** What each program says of each round: its number, once that is reached. */
struct Program {
    std::atomic<unsigned> exchanges, lost, closed;
    std::atomic<pid_t> adapter; // that it has a connection to
};

struct Board {
    Program programs[kPrograms];
    std::atomic<unsigned> round;
    std::atomic<bool> stop;
};

/** The process at the other end of a UNIX socket of this one that is an adapter's; 0: there is
 * none. */
pid_t find_adapter()
{
    for (int fd = 0; fd < 1024; ++fd) {
        sockaddr_un name{};
        socklen_t name_bytes = sizeof name;
        ucred peer{};
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, reinterpret_cast<sockaddr *>(&name), &name_bytes) == 0 &&
            name.sun_family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
            peer.pid != getpid() &&
            std::string(name.sun_path + (name.sun_path[0] == '\0' ? 1 : 0)).find("rnic") !=
                std::string::npos) {
            return peer.pid;
        }
    }
    return 0;
}

/** Its exchanges with the two others, in one thread: numbers are those of programs. */
class Links {
public:
    Links(const Nic &nic, const Scene &scene, unsigned self, unsigned round)
    {
        for (unsigned other = 0; other < kPrograms; ++other) {
            if (other == self) {
                continue;
            }
            all_.push_back(std::make_unique<Exchange>(nic, 1 + self));
            const bool accepts = self < other;
            const std::string name =
                scene.name("r") + std::to_string(round % 8) + std::to_string(self + other);
            const Vi &vi = all_.back()->vi;
            REQUIRE_VIP(accepts ? accept_on(nic, name, vi) : request_to(nic, name, vi));
        }
        for (const auto &one : all_) {
            EXPECT(one->greet());
        }
    }

    bool turn()
    {
        for (const auto &one : all_) {
            one->post();
        }
        for (const auto &one : all_) {
            if (!one->collect()) {
                return false;
            }
        }
        return true;
    }

    /** Every VI is told that its connection is lost. */
    void expect_lost()
    {
        for (const auto &one : all_) {
            one->vi.await(VIP_STATE_ERROR);
            one->take_back();
        }
    }

private:
    std::vector<std::unique_ptr<Exchange>> all_;
};

/** A dead card keeps no thread busy: neither one that waits, nor the library's. */
void expect_idle(const Nic &nic)
{
    constexpr VIP_ULONG wait_ms = 400;
    const Cq cq(nic, 4);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN is_recv = VIP_FALSE;
    const std::clock_t before = std::clock();
    EXPECT_EQ(VIP_TIMEOUT, VipCQWait(cq, wait_ms, &vi, &is_recv));
    EXPECT((std::clock() - before) * 1000 / CLOCKS_PER_SEC < static_cast<long>(wait_ms / 20));
}

void one_life(const Scene &scene, Board &board, unsigned self, unsigned round)
{
    Program &program = board.programs[self];
    {
        const Nic nic;
        Links links(nic, scene, self, round);
        program.adapter = find_adapter();
        EXPECT(program.adapter != 0);
        program.exchanges = 0;
        while (links.turn()) {
            program.exchanges++;
        }
        program.lost = round;
        links.expect_lost();
        expect_idle(nic);
    }
    program.closed = round;
}

void program(const Scene &scene, Line &line)
{
    Board &board = shared<Board>();
    const auto self = line.receive<unsigned>();
    for (unsigned round = 1; !board.stop; ++round) {
        await([&] { return board.round >= round || board.stop; });
        if (!board.stop) {
            one_life(scene, board, self, round);
        }
    }
    line.sync();
}

class Director {
public:
    Director() : scene_(make_scene()), board_(*new (g_shared) Board()), random_(scene_.random())
    {
        for (unsigned i = 0; i < kPrograms; ++i) {
            programs_[i] = std::make_unique<Child>(program, scene_);
            programs_[i]->line.send(i);
        }
    }

    void kill_adapter()
    {
        for (Program &one : board_.programs) {
            one.exchanges = 0;
            one.adapter = 0;
        }
        const unsigned round = ++board_.round;
        const unsigned turns = kTurnsBefore + static_cast<unsigned>(below(random_, 30));
        await_all([&](const Program &one) { return one.adapter != 0 && one.exchanges >= turns; },
                  2 * patience());
        const pid_t adapter = board_.programs[0].adapter;
        for (const Program &one : board_.programs) {
            EXPECT_EQ(adapter, one.adapter.load());
        }
        EXPECT(adapter != last_);
        last_ = adapter;
        EXPECT(kill(adapter, SIGKILL) == 0);
        const unsigned long long killed = now_ms();
        await_all([&](const Program &one) { return one.lost == round; }, a_second());
        worst_ = std::max(worst_, now_ms() - killed);
        await_all([&](const Program &one) { return one.closed == round; }, 2 * patience());
    }

    void finish()
    {
        board_.stop = true;
        for (const auto &one : programs_) {
            EXPECT_EQ('S', one->line.receive<char>());
            one->line.send('S');
            one->finish();
        }
        std::cout << board_.round << " adapters killed, seen by all within " << worst_ << " ms" << std::endl;
    }

private:
    template <class Condition>
    void await_all(const Condition &condition, unsigned long long limit)
    {
        const unsigned long long end = now_ms() + limit;
        for (const Program &one : board_.programs) {
            while (!condition(one)) {
                if (now_ms() > end) {
                    throw Failure("program " + std::to_string(&one - board_.programs) +
                                  " does not come so far in time");
                }
                give_way();
            }
        }
    }

    Scene scene_;
    Board &board_;
    Random random_;
    std::unique_ptr<Child> programs_[kPrograms];
    pid_t last_ = 0;
    unsigned long long worst_ = 0;
};

/** Something that is done again and again by a thread of its own, until it is told to stop. */
class Busy {
public:
    explicit Busy(std::function<void()> turn)
    {
        end_ = std::async(std::launch::async, [this, turn = std::move(turn)] {
            while (!stop_) {
                turn();
                ++turns_;
            }
        });
    }
    ~Busy() { stop_ = true; }
    Busy(const Busy &) = delete;
    Busy &operator=(const Busy &) = delete;

    void await_turns(unsigned count) const
    {
        const unsigned enough = turns_ + count;
        await([&] { return has_failed() || turns_ >= enough; });
    }
    bool has_failed() const { return end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    void finish()
    {
        stop_ = true;
        end_.get();
    }

private:
    std::atomic<bool> stop_{false};
    std::atomic<unsigned> turns_{0};
    std::future<void> end_; // waited for first
};

/** A message to the other VI. */
void pass_on(Work &receive, Work &send, VIP_VI_HANDLE from, VIP_VI_HANDLE to)
{
    VIP_DESCRIPTOR *done = nullptr;
    post_recv(to, receive);
    post_send(from, send);
    REQUIRE_VIP(VipRecvWait(to, 2 * patience(), &done));
    REQUIRE_VIP(VipSendWait(from, 2 * patience(), &done));
}

void outlast_a_pause()
{
    constexpr unsigned long long kPause =
        7000; // a card that runs has five seconds for an answer, and so have peers
    const Nic nic;
    Memory memory(nic);
    const Vi from(nic, vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY)),
        to(nic, vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY));
    connect_pair(nic, from, nic, to);
    Work receive = memory.transfer(memory.bytes(64)), send = memory.transfer(memory.bytes(64));
    Busy messages([&] { pass_on(receive, send, from, to); });
    Busy commands([&] { const Memory other(nic, 4096); });
    messages.await_turns(10);
    commands.await_turns(10);
    const pid_t adapter = find_adapter();
    EXPECT(kill(adapter, SIGSTOP) == 0);
    const unsigned long long end = now_ms() + kPause;
    await([&] { return messages.has_failed() || commands.has_failed() || now_ms() >= end; });
    EXPECT(kill(adapter, SIGCONT) == 0);
    messages.await_turns(10);
    commands.await_turns(10);
    messages.finish();
    commands.finish();
    EXPECT_EQ(VIP_STATE_CONNECTED, from.state());
}

/** The path that an adapter serves, held as by one that has been killed and is not quite gone, or
 * that does not serve yet. */
class HeldPath {
public:
    HeldPath() : fd_(open((std::string(std::getenv("VIPL_RNIC")) + ".lock").c_str(), O_RDWR | O_CREAT, 0600))
    {
        await([this] { return flock(fd_, LOCK_EX | LOCK_NB) == 0; }); // the last one is gone
    }
    ~HeldPath() { close(fd_); }
    HeldPath(const HeldPath &) = delete;
    HeldPath &operator=(const HeldPath &) = delete;

private:
    int fd_;
};

/** An adapter has been here, and was killed. */
void kill_one()
{
    const Nic nic;
    const pid_t adapter = find_adapter();
    EXPECT(adapter != 0);
    EXPECT(kill(adapter, SIGKILL) == 0);
}

VIP_RETURN open_and_close()
{
    VIP_NIC_HANDLE nic = nullptr;
    const VIP_RETURN rc = VipOpenNic(device_under_test(), &nic);
    return rc == VIP_SUCCESS ? VipCloseNic(nic) : rc;
}

} // namespace

TEST_CASE(
    "a program waits for an adapter that has its path and does not serve: it will, or it is about to end",
    "[adapter]")
{
    kill_one();
    auto held = std::make_unique<HeldPath>();
    auto opened = std::async(std::launch::async, open_and_close);
    CHECK(opened.wait_for(std::chrono::seconds(1)) == std::future_status::timeout); // nothing to be seen
    held.reset();
    CHECK(opened.get() == VIP_SUCCESS);
}

TEST_CASE("an adapter that does not run for some seconds costs that time alone", "[adapter]")
{
    REQUIRE_NOTHROW(outlast_a_pause());
}

TEST_CASE("a program that waits for something sleeps, also when the adapter has been killed", "[adapter]")
{
    constexpr VIP_ULONG kWait = 2000;
    const Nic nic;
    const Cq cq(nic, 4);
    const pid_t adapter = find_adapter();
    REQUIRE(adapter != 0);
    rusage before{}, after{};
    REQUIRE(getrusage(RUSAGE_THREAD, &before) == 0);
    REQUIRE(kill(adapter, SIGKILL) == 0);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN is_recv = VIP_FALSE;
    CHECK(VipCQWait(cq, kWait, &vi, &is_recv) == VIP_TIMEOUT);
    REQUIRE(getrusage(RUSAGE_THREAD, &after) == 0);
    const auto ms = [](const rusage &used) {
        return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
               (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
    };
    CHECK(ms(after) - ms(before) < static_cast<long>(kWait) / 10);
}

TEST_CASE("the adapter is killed: all programs see it within a second, and go on over a new one", "[adapter]")
{
    const unsigned kills = times("VIPL_STRESS_ADAPTERS", 5);
    Director director;
    for (unsigned i = 0; i < kills; ++i) {
        INFO("adapter " << i);
        REQUIRE_NOTHROW(director.kill_adapter());
    }
    REQUIRE_NOTHROW(director.finish());
}
