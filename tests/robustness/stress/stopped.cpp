// SPDX-License-Identifier: MIT
//
// A process that is stopped and continued (SIGSTOP, SIGCONT), or that a debugger attaches to and
// leaves, while it is in each of the waits: it goes on waiting, as if nothing had been. What comes
// in the meantime is not lost; a timeout stays one; and its peer keeps the connection. No handler
// runs, so no call ends with VIP_INTERRUPTED.
#include "stress.hpp"

#include <memory>
#include <optional>

#include <sys/syscall.h>

#include <vipl/posix.h>

#include "good.hpp"
#include "support/held_thread.hpp"

using namespace stress;

namespace {

// --- how a process is disturbed ------------------------------------------------------------------

/** A thread of a process. */
std::string task_of(pid_t process, pid_t thread)
{
    return std::to_string(process) + "/task/" + std::to_string(thread);
}

/** A process that does not run, for the life of the object. A debugger that asks for its first
 * thread has that one only. */
class Held {
public:
    Held(pid_t process, bool by_debugger) : process_(by_debugger ? 0 : process)
    {
        if (by_debugger) {
            debugged_.emplace(process);
        } else {
            EXPECT(kill(process, SIGSTOP) == 0);
            await_state(task_of(process, process), 'T');
        }
    }
    ~Held()
    {
        if (process_ != 0) {
            kill(process_, SIGCONT);
        }
    }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;

private:
    std::optional<HeldThread> debugged_;
    pid_t process_; // that was sent a signal; or 0
};

// --- what it waits for ---------------------------------------------------------------------------

/** One side: a connection, and what is needed for another. */
struct Side {
    Side()
        : cq(nic), memory(nic, 64 * 1024), vi(nic, vi_attributes(VIP_SERVICE_RELIABLE_RECEPTION)),
          reported(nic, vi_attributes(), nullptr, cq), spare(std::make_unique<Vi>(nic))
    {
        for (const Vi *each : {&vi, &reported}) {
            for (unsigned i = 0; i < 16; ++i) {
                post_recv(*each, memory.transfer(memory.bytes(8)));
            }
        }
    }

    const Nic nic;
    const Cq cq;
    Memory memory;
    const Vi vi, reported; // the second one's receives go to the completion queue
    std::unique_ptr<Vi> spare;
    std::string name;
};

void send(Side &side, const Vi &vi)
{
    VIP_DESCRIPTOR *done = nullptr;
    post_send(vi, side.memory.transfer(side.memory.bytes(8)));
    REQUIRE_VIP(VipSendWait(vi, patience(), &done));
}

void renew(Side &side)
{
    VipDisconnect(*side.spare);
    side.spare = std::make_unique<Vi>(side.nic);
}

VIP_RETURN receive(Side &side, VIP_ULONG timeout)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipRecvWait(side.vi, timeout, &done);
}

VIP_RETURN receive_masked(Side &side, VIP_ULONG timeout)
{
    VIP_DESCRIPTOR *done = nullptr;
    sigset_t none;
    sigemptyset(&none);
    return VipxRecvWaitMask(side.vi, timeout, &none, &done);
}

VIP_RETURN look_at_cq(Side &side, VIP_ULONG timeout)
{
    VIP_VI_HANDLE found = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = VipCQWait(side.cq, timeout, &found, &queue);
    return rc == VIP_SUCCESS ? VipRecvDone(found, &done) : rc;
}

/** A send that the receiver has to take before it is done. */
VIP_RETURN finish_send(Side &side, VIP_ULONG timeout)
{
    VIP_DESCRIPTOR *done = nullptr;
    if (timeout == patience()) {
        post_send(side.vi, side.memory.transfer(side.memory.bytes(8)));
    }
    return VipSendWait(side.vi, timeout, &done);
}

VIP_RETURN listen(Side &side, VIP_ULONG timeout)
{
    return accept_on(side.nic, side.name + "l", *side.spare, timeout);
}

VIP_RETURN request(Side &side, VIP_ULONG timeout)
{
    const VIP_RETURN rc = request_to(side.nic, side.name + "r", *side.spare, timeout);
    return rc == VIP_NO_MATCH ? VIP_TIMEOUT : rc; // of one that nobody waits for
}

VIP_RETURN meet(Side &side, const std::string &mine, const std::string &theirs, VIP_ULONG timeout)
{
    NetAddress local = side.nic.address(mine), remote = side.nic.address(theirs);
    REQUIRE_VIP(VipConnectPeerRequest(*side.spare, local, remote, timeout));
    const VIP_RETURN rc = VipConnectPeerWait(*side.spare, nullptr);
    return rc == VIP_NO_MATCH ? VIP_TIMEOUT : rc;
}

/** A wait, and what the other process does that ends it. */
struct Wait {
    const char *name;
    VIP_RETURN (*call)(Side &, VIP_ULONG timeout);
    void (*let)(Side &);
};

const Wait kWaits[] = {
    {"VipRecvWait", receive, [](Side &side) { send(side, side.vi); }},
    {"VipxRecvWaitMask", receive_masked, [](Side &side) { send(side, side.vi); }},
    {"VipCQWait", look_at_cq, [](Side &side) { send(side, side.reported); }},
    {"VipSendWait", finish_send, [](Side &side) { REQUIRE_VIP(receive(side, patience())); }},
    {"VipConnectWait", listen,
     [](Side &side) { REQUIRE_VIP(request_to(side.nic, side.name + "l", *side.spare)); }},
    {"VipConnectRequest", request,
     [](Side &side) { REQUIRE_VIP(accept_on(side.nic, side.name + "r", *side.spare)); }},
    {"VipConnectPeerWait",
     [](Side &side, VIP_ULONG timeout) { return meet(side, side.name + "a", side.name + "b", timeout); },
     [](Side &side) { REQUIRE_VIP(meet(side, side.name + "b", side.name + "a", patience())); }},
};
constexpr unsigned kWaitsCount = std::size(kWaits);

/** What the child is to do: wait, or (at the end of the list) no more. */
struct Order {
    unsigned wait;
    VIP_ULONG timeout;
};

struct Identity {
    pid_t process, thread;
};

void connect_side(Side &side, const Scene &scene, bool is_server)
{
    side.name = scene.name();
    for (const Vi *each : {&side.vi, &side.reported}) {
        REQUIRE_VIP(is_server ? accept_on(side.nic, side.name, *each)
                              : request_to(side.nic, side.name, *each));
    }
}

/** The process that is disturbed: waits as it is told to and says how that ended. */
void waiter(const Scene &scene, Line &line)
{
    Side side;
    connect_side(side, scene, false);
    line.send(Identity{getpid(), static_cast<pid_t>(syscall(SYS_gettid))});
    for (;;) {
        const auto order = line.receive<Order>(10 * patience());
        if (order.wait == kWaitsCount) {
            return;
        }
        line.send('W');
        line.send(kWaits[order.wait].call(side, order.timeout));
        renew(side);
    }
}

/** A child that waits, and whoever disturbs it. */
class Scenery {
public:
    explicit Scenery(bool by_debugger)
        : scene_(make_scene()), child_(waiter, scene_), by_debugger_(by_debugger)
    {
        connect_side(side, scene_, true);
        who_ = child_.line.receive<Identity>();
    }

    /** The child is told to wait, and it does. */
    void begin(unsigned wait, VIP_ULONG timeout)
    {
        child_.line.send(Order{wait, timeout});
        EXPECT_EQ('W', child_.line.receive<char>());
        await_state(task_of(who_.process, who_.thread), 'S');
    }

    void disturb() { const Held held(who_.process, by_debugger_); }

    /** While the child is held the other side does its part, as far as it can. */
    void disturb_during(Crew &crew, const Wait &wait)
    {
        const Held held(who_.process, by_debugger_);
        crew.add([this, &wait] { wait.let(side); });
        let_a_moment_pass();
    }

    VIP_RETURN answer() { return child_.line.receive<VIP_RETURN>(); }

    void finish()
    {
        child_.line.send(Order{kWaitsCount, 0});
        child_.finish();
    }

    Side side;

private:
    Scene scene_;
    Child child_;
    Identity who_{};
    bool by_debugger_;
};

void goes_on_waiting(bool by_debugger)
{
    Scenery scenery(by_debugger);
    for (unsigned i = 0; i < kWaitsCount; ++i) {
        INFO(kWaits[i].name);
        scenery.begin(i, patience());
        for (unsigned n = 0; n < 5; ++n) {
            scenery.disturb();
        }
        REQUIRE_NOTHROW(kWaits[i].let(scenery.side));
        REQUIRE(scenery.answer() == VIP_SUCCESS);
        renew(scenery.side);
    }
    scenery.finish();
}

void misses_nothing(bool by_debugger)
{
    Scenery scenery(by_debugger);
    for (unsigned i = 0; i < kWaitsCount; ++i) {
        INFO(kWaits[i].name);
        Crew crew;
        scenery.begin(i, patience());
        scenery.disturb_during(crew, kWaits[i]);
        REQUIRE(scenery.answer() == VIP_SUCCESS);
        REQUIRE_NOTHROW(crew.join());
        renew(scenery.side);
    }
    scenery.finish();
}

void times_out(bool by_debugger)
{
    constexpr VIP_ULONG kTimeout = 300;
    Scenery scenery(by_debugger);
    for (unsigned i = 0; i < kWaitsCount; ++i) {
        INFO(kWaits[i].name);
        const unsigned long long start = now_ms();
        scenery.begin(i, kTimeout);
        for (unsigned n = 0; n < 5; ++n) {
            scenery.disturb();
        }
        REQUIRE(scenery.answer() == VIP_TIMEOUT);
        REQUIRE(now_ms() - start + 1 >= kTimeout);
    }
    REQUIRE(scenery.side.vi.state() == VIP_STATE_CONNECTED);
    scenery.finish();
}

} // namespace

TEST_CASE("a process that is stopped and continued goes on waiting, in every wait", "[stopped]")
{
    goes_on_waiting(false);
}

TEST_CASE("what comes for a process that is stopped is there when it continues", "[stopped]")
{
    misses_nothing(false);
}

TEST_CASE("a wait whose process was stopped ends with VIP_TIMEOUT, not earlier", "[stopped]")
{
    times_out(false);
}

TEST_CASE("a process that a debugger attaches to and leaves goes on waiting, in every wait", "[stopped]")
{
    goes_on_waiting(true);
}

TEST_CASE("what comes for a process that a debugger holds is there when it goes on", "[stopped]")
{
    misses_nothing(true);
}

TEST_CASE("a wait that a debugger came to ends with VIP_TIMEOUT, not earlier", "[stopped]")
{
    times_out(true);
}

namespace {

/** As be_good(), once it has said who it is. */
void be_good_and_known(const Scene &scene, Line &line)
{
    line.send(getpid());
    be_good(scene, line);
}

} // namespace

TEST_CASE("a peer that is stopped and continued again and again loses no message and no connection",
          "[stopped]")
{
    const Scene scene = make_scene();
    Child good(be_good_and_known, scene);
    const auto process = good.line.receive<pid_t>();
    const Nic nic;
    Peers peers(nic);
    Crew crew;
    crew.add([&] {
        VIP_RETURN rc =
            VIP_TIMEOUT; // as it is if the requester is held for a second just when it is accepted
        for (unsigned i = 0; i < 3 && rc == VIP_TIMEOUT; ++i) {
            rc = accept_on(nic, scene.name(), peers.vi);
        }
        REQUIRE_VIP(rc);
        echo(peers);
    });
    const Cq idle(nic); // a NIC handle for each moment would take longer than the moment
    const auto hold = [&](bool by_debugger, unsigned moments) {
        const Held held(process, by_debugger);
        let_moments_pass(idle, moments);
        REQUIRE(peers.vi.state() != VIP_STATE_ERROR);
    };
    hold(false, 25); // for longer than a second, while it connects or later
    await([&] { return peers.vi.state() == VIP_STATE_CONNECTED || crew.failed(); });
    for (unsigned i = 0; i < 20; ++i) {
        hold(i % 2 == 1, 1);
    }
    good.line.send('E');
    REQUIRE(good.line.receive<unsigned>() > 0); // each number was checked
    good.finish();
    REQUIRE_NOTHROW(crew.join());
}
