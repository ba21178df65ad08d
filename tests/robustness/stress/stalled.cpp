// SPDX-License-Identifier: MIT
//
// One of three programs is stopped (SIGSTOP) for VIPL_STRESS_STOP_SECONDS while both others write
// much more to it than a device can hold for it. What the others exchange with each other does not
// become slower by more than VIPL_STRESS_SLOWER percent, compared with the same time just before;
// and when it goes on everything that was sent to it is there.
//
// The machine may be busy: a device that makes others wait does so each time, so one good
// measurement in three will do.
#include "steady.hpp"

#include "partner.hpp"

using namespace stress;

namespace {

constexpr unsigned kWrites = 400; // of each sender to the one that is stopped: about 5 MB
constexpr VIP_UINT32 kBytes = 12000, kSlots = 8;
constexpr unsigned kAttempts = 3;

struct Board {
    Steady steady;
    std::atomic<unsigned> burst;       // the senders' next one may begin
    std::atomic<unsigned> posted[2];   // bursts that each sender has posted
    std::atomic<unsigned> complete[2]; // and that have arrived, and were confirmed
    std::atomic<bool> stop;
};

unsigned stop_seconds()
{
    return setting("VIPL_STRESS_STOP_SECONDS", 2);
}

VIP_ULONG long_wait()
{
    return 2 * patience() + stop_seconds() * 1000;
}

std::string place(const Scene &scene, unsigned sender)
{
    return scene.name(sender == 0 ? "zx" : "zy");
}

/** A message that must come before the other side could have noticed that this one has stopped. */
VIP_DESCRIPTOR *take(VIP_VI_HANDLE vi, VIP_RETURN(VI_CALL *wait)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR **))
{
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_VIP(wait(vi, long_wait(), &done));
    return done;
}

// --- the senders ---------------------------------------------------------------------------------

struct Sender {
    explicit Sender(const Nic &nic)
        : memory(nic, (kSlots + 1) * (kBytes + 64) + kWrites * 128 + 4096, rdma_memory()), vi(nic)
    {
        in = memory.transfer(memory.bytes(sizeof(RemoteSpan)));
        post_recv(vi, in);
        for (Span &slot : slots) {
            slot = memory.bytes(kBytes);
        }
        for (Work &write : writes) {
            write = memory.work();
        }
        end = memory.work();
    }

    Memory memory;
    Work in, writes[kWrites], end;
    Span slots[kSlots];
    const Vi vi;
};

void send_burst(Sender &sender, RemoteSpan window, unsigned number, unsigned burst)
{
    for (unsigned slot = 0; slot < kSlots; ++slot) {
        sender.slots[slot].fill(burst * 100 + number * 50 + slot);
    }
    for (unsigned i = 0; i < kWrites; ++i) {
        Work &work = sender.writes[i];
        std::memset(work.desc, 0, sizeof(VIP_CONTROL_SEGMENT));
        work.op(VIP_CONTROL_OP_RDMAWRITE)
            .remote(window + VIP_UINT64{i % kSlots} * kBytes)
            .local(sender.slots[i % kSlots]);
        post_send(sender.vi, work);
    }
    std::memset(sender.end.desc, 0, sizeof(VIP_CONTROL_SEGMENT));
    post_send(sender.vi, sender.end.immediate(burst));
}

void reap_burst(Sender &sender)
{
    for (const Work &work : sender.writes) {
        EXPECT(take(sender.vi, VipSendWait) == work.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE, work.desc);
    }
    EXPECT(take(sender.vi, VipSendWait) == sender.end.desc);
    EXPECT(take(sender.vi, VipRecvWait) == sender.in.desc); // it has looked
    post_recv(sender.vi, sender.in);
}

void write_to_stopped(const Nic &nic, const Scene &scene, Board &board, unsigned number)
{
    Sender sender(nic);
    REQUIRE_VIP(request_to(nic, place(scene, number), sender.vi));
    take(sender.vi, VipRecvWait);
    RemoteSpan window;
    std::memcpy(&window, sender.in.buffer.data, sizeof window);
    post_recv(sender.vi, sender.in);
    const Cq idle(nic);
    for (unsigned burst = 1; !board.stop;) {
        if (board.burst < burst) {
            let_moments_pass(idle, 1); // it must not take the others' time
            continue;
        }
        send_burst(sender, window, number, burst);
        board.posted[number] = burst;
        reap_burst(sender);
        board.complete[number] = burst++;
    }
}

void sender(const Scene &scene, Line &line)
{
    Board &board = shared<Board>();
    const auto number = line.receive<unsigned>();
    const Nic nic;
    Crew crew;
    crew.add(or_end([&] { exchange_steadily(nic, scene.name(), board.steady, number, long_wait()); }));
    crew.add(or_end([&] { write_to_stopped(nic, scene, board, number); }));
    crew.join();
    line.sync();
}

// --- the one that is stopped ---------------------------------------------------------------------

struct Target {
    explicit Target(const Nic &nic)
        : memory(nic, kSlots * kBytes + 4096, rdma_memory()), window(memory.bytes(kSlots * kBytes)), vi(nic)
    {
        out = memory.transfer(memory.bytes(sizeof(RemoteSpan)));
        in = memory.transfer(memory.bytes(64));
        const RemoteSpan where = window.remote();
        std::memcpy(out.buffer.data, &where, sizeof where);
        post_recv(vi, in);
    }

    void tell()
    {
        post_send(vi, out);
        EXPECT(take(vi, VipSendWait) == out.desc);
    }

    Memory memory;
    Span window;
    Work out, in;
    const Vi vi;
};

void look_at_bursts(Target &target, unsigned number, const Board &board)
{
    for (unsigned burst = 1; !board.stop;) {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipRecvWait(target.vi, 100, &done);
        if (rc == VIP_TIMEOUT ||
            (rc == VIP_DESCRIPTOR_ERROR && board.stop)) { // nothing yet; the sender has left
            continue;
        }
        REQUIRE_VIP(rc);
        EXPECT_EQ(burst, done->CS.ImmediateData);
        for (unsigned slot = 0; slot < kSlots; ++slot) {
            EXPECT(target.window.part(slot * kBytes, kBytes).holds(burst * 100 + number * 50 + slot));
        }
        post_recv(target.vi, target.in);
        target.tell();
        ++burst;
    }
}

void stopped(const Scene &scene, Line &line)
{
    const Board &board = shared<Board>();
    const Nic nic;
    Target targets[2] = {Target(nic), Target(nic)};
    line.send(getpid());
    Crew crew;
    for (unsigned i = 0; i < 2; ++i) {
        crew.add(or_end([&, i] {
            REQUIRE_VIP(accept_on(nic, place(scene, i), targets[i].vi));
            targets[i].tell();
            look_at_bursts(targets[i], i, board);
        }));
    }
    crew.join();
    line.sync();
}

// --- who stops it --------------------------------------------------------------------------------

class Director {
public:
    Director()
        : board_(*new (g_shared) Board()), scene_(make_scene()), idle_(nic_),
          stopped_(std::make_unique<Child>(stopped, scene_)), victim_(stopped_->line.receive<pid_t>())
    {
        for (unsigned i = 0; i < 2; ++i) {
            senders_[i] = std::make_unique<Child>(sender, scene_);
            senders_[i]->line.send(i);
        }
        await([&] { return board_.steady.turns[0] > 0; });
        burst(); // everything has been used once
    }

    ~Director() { kill(victim_, SIGCONT); }

    /** Percent that the others become slower by while the third is stopped; below 0: faster. */
    double stop_once()
    {
        const double before = rate();
        EXPECT(kill(victim_, SIGSTOP) == 0);
        await_state(std::to_string(victim_), 'T');
        const unsigned number = ++board_.burst;
        for (unsigned i = 0; i < 2; ++i) {
            await([&] { return board_.posted[i] == number; });
        }
        const double during = rate();
        EXPECT(board_.complete[0] < number && board_.complete[1] < number);
        EXPECT(kill(victim_, SIGCONT) == 0);
        await_complete(number);
        std::cout << static_cast<unsigned>(before) << " turns a second before, "
                  << static_cast<unsigned>(during) << " while it is stopped" << std::endl;
        return 100 * (1 - during / before);
    }

    void finish()
    {
        board_.stop = board_.steady.stop = true;
        for (Child *const child : {senders_[0].get(), senders_[1].get(), stopped_.get()}) {
            EXPECT_EQ('S', child->line.receive<char>());
        }
        for (Child *const child : {senders_[0].get(), senders_[1].get(), stopped_.get()}) {
            child->line.send('S');
            child->finish();
        }
    }

private:
    void burst() { await_complete(++board_.burst); }

    void await_complete(unsigned number)
    {
        for (unsigned i = 0; i < 2; ++i) {
            await([&] { return board_.complete[i] == number; });
        }
    }

    /** Turns a second of the two, over as long as the third is to be stopped. */
    double rate()
    {
        const unsigned first = board_.steady.turns[0];
        const unsigned long long start = now_ms();
        let_moments_pass(idle_, stop_seconds() * 1000 / kMoment);
        return 1000.0 * (board_.steady.turns[0] - first) / static_cast<double>(now_ms() - start);
    }

    Board &board_;
    Scene scene_;
    Nic nic_;
    Cq idle_;
    std::unique_ptr<Child> stopped_, senders_[2];
    pid_t victim_;
};

} // namespace

TEST_CASE("a program that is stopped slows no other down and loses nothing", "[stalled]")
{
    const double allowed = setting("VIPL_STRESS_SLOWER", 50);
    Director director;
    double slower = 100;
    for (unsigned i = 0; i < kAttempts && slower > allowed; ++i) {
        INFO("attempt " << i);
        REQUIRE_NOTHROW(slower = director.stop_once());
    }
    CHECK(slower <= allowed);
    REQUIRE_NOTHROW(director.finish());
}
