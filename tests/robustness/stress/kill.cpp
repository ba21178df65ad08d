// SPDX-License-Identifier: MIT
//
// Processes that share VIs are killed, one after the other, at 500 random points of their exchange,
// and replaced. Two of four post and reap sends, two wait on one completion queue for receives, on
// the same VIs. The survivors are never blocked for longer than a second, no completion is
// delivered twice, and in between everything is taken down, accounted for, and connected anew.
//
// What a process had in hand when it was killed is lost until then; what it posted is not. So the
// accounts, in memory that all share, are: a descriptor is never reaped more often than it was
// posted, no message comes twice, and what is missing in the end is not more than what the dead can
// have had in hand.
#include <vipl/posix.h>

#include "stress.hpp"

using namespace stress;

namespace {

constexpr unsigned kKills = 500, kKillsAnEpoch = 10;
constexpr unsigned kPairs = 3, kWorkers = 4, kSenders = 2;
constexpr unsigned kSends = 12; // of a pair
constexpr unsigned kReceives =
    kSends + kKillsAnEpoch + kWorkers; // each of the dead and living may have one in hand
constexpr unsigned kMessages = 1u << 24;

using Count = std::atomic<std::uint32_t>;

/** A descriptor and its bytes: a message is its number, and which send it is. */
struct Slot {
    alignas(64) VIP_DESCRIPTOR descriptor;
    std::uint32_t message, send;
    Count posts, reaps;
    Count owed; // a send's: 0 free, 1 claimed; 2 and 4: its completion and its receive's are still to come
};

struct alignas(64) Worker {
    Count beats;
    char problem[400];
};

struct World {
    Slot sends[kPairs][kSends];
    Slot receives[kPairs][kReceives];
    Worker workers[kWorkers];
    std::atomic<bool> quiet, stop; // nobody posts; everybody ends
    Count next_message, delivered;
    std::atomic<unsigned char> seen[kMessages]; // untouched memory costs nothing
};

/** Objects that all processes share, made before any of them. */
struct Shared {
    Shared()
    {
        VIP_PVOID memory = nullptr;
        REQUIRE_VIP(VipxAllocShared(sizeof(World), &memory));
        world = static_cast<World *>(memory);
        REQUIRE_VIP(VipRegisterMem(nic, world, sizeof(World), &attributes, &handle));
        for (unsigned i = 0; i < kPairs; ++i) {
            sending[i] = std::make_unique<Vi>(nic);
            receiving[i] = std::make_unique<Vi>(nic, vi_attributes(), nullptr, cq);
        }
    }
    ~Shared()
    {
        VipDeregisterMem(nic, world, handle);
        VipxFreeShared(world);
    }

    Nic nic{device_under_test(), true};
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE handle = 0;
    World *world = nullptr;
    Cq cq{nic, 4096};
    std::unique_ptr<Vi> sending[kPairs], receiving[kPairs];
};

void describe(const Shared &shared, Slot &slot)
{
    std::memset(&slot.descriptor, 0, sizeof slot.descriptor);
    slot.descriptor.CS.SegCount = 1;
    slot.descriptor.CS.Length = 2 * sizeof slot.message;
    slot.descriptor.DS[0].Local.Data.Address = &slot.message;
    slot.descriptor.DS[0].Local.Handle = shared.handle;
    slot.descriptor.DS[0].Local.Length = 2 * sizeof slot.message;
}

Slot &slot_of(VIP_DESCRIPTOR *descriptor)
{
    return *reinterpret_cast<Slot *>(descriptor); // its first member
}

/** Note that a descriptor was reaped: it must have been posted, and not reaped since. */
void account(Slot &slot)
{
    const std::uint32_t reaps = ++slot.reaps;
    EXPECT(reaps <= slot.posts);
}

/** One of the two completions that a send's slot waits for; with the second, it is free. */
void note_end(Slot &slot, std::uint32_t bit)
{
    const std::uint32_t before = slot.owed.fetch_and(~bit);
    EXPECT((before & bit) != 0);
    if ((before & ~bit) == 1) {
        slot.owed = 0;
    }
}

void post_receive(const Shared &shared, unsigned pair, Slot &slot)
{
    describe(shared, slot);
    ++slot.posts;
    REQUIRE_VIP(VipPostRecv(*shared.receiving[pair], &slot.descriptor, shared.handle));
}

// --- workers -------------------------------------------------------------------------------------

/** Post a message, if a descriptor is free: its number, or 0. */
std::uint32_t post_one(Shared &shared, Random &random, unsigned pair)
{
    World &world = *shared.world;
    const unsigned from = static_cast<unsigned>(below(random, kSends));
    for (unsigned i = 0; i < kSends; ++i) {
        const unsigned number = (from + i) % kSends;
        Slot &slot = world.sends[pair][number];
        std::uint32_t free = 0;
        if (!slot.owed.compare_exchange_strong(free, 1 | 2 | 4)) {
            continue;
        }
        describe(shared, slot);
        slot.message = ++world.next_message;
        EXPECT(slot.message < kMessages);
        const std::uint32_t message = slot.message;
        slot.send = number;
        ++slot.posts;
        REQUIRE_VIP(VipPostSend(*shared.sending[pair], &slot.descriptor, shared.handle));
        return message;
    }
    return 0;
}

void reap_sends(Shared &shared, unsigned pair, bool wait)
{
    VIP_DESCRIPTOR *done = nullptr;
    VIP_RETURN rc =
        wait ? VipSendWait(*shared.sending[pair], 5, &done) : VipSendDone(*shared.sending[pair], &done);
    while (rc == VIP_SUCCESS) {
        account(slot_of(done));
        note_end(slot_of(done), 2);
        rc = VipSendDone(*shared.sending[pair], &done);
    }
    if (rc == VIP_DESCRIPTOR_ERROR) {
        throw Failure("a send failed: " + status_text(done->CS.Status));
    }
    if (rc != VIP_TIMEOUT && !(rc == VIP_INTERRUPTED && shared.world->stop)) {
        REQUIRE_RC(VIP_NOT_DONE, rc);
    }
}

void send_for_ever(Shared &shared, Worker &self, Random random)
{
    while (!shared.world->stop) {
        const unsigned pair = static_cast<unsigned>(below(random, kPairs));
        if (!shared.world->quiet) {
            post_one(shared, random, pair);
        }
        reap_sends(shared, pair, below(random, 4) == 0);
        self.beats++;
    }
}

void take_receive(Shared &shared, VIP_VI_HANDLE vi)
{
    World &world = *shared.world;
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = VipRecvDone(vi, &done);
    if (rc == VIP_NOT_DONE) { // somebody died, and it was announced to two
        return;
    }
    REQUIRE_VIP(rc);
    unsigned pair = 0;
    while (pair < kPairs && *shared.receiving[pair] != vi) {
        ++pair;
    }
    EXPECT(pair < kPairs);
    Slot &slot = slot_of(done);
    account(slot);
    EXPECT(slot.send < kSends);
    EXPECT_EQ(0u, static_cast<unsigned>(world.seen[slot.message].fetch_or(1)));
    note_end(world.sends[pair][slot.send], 4);
    world.delivered++;
    post_receive(shared, pair, slot);
}

/** Between two calls, now and then for longer: that is where a death is to be hit, too. */
void dawdle(Random &random)
{
    const unsigned long long end = now_ms() + 20; // on a busy machine one turn may take as long
    for (unsigned turns = below(random, 4) == 0 ? 200 : 0; turns > 0 && now_ms() < end; --turns) {
        std::this_thread::yield();
    }
}

void receive_for_ever(Shared &shared, Worker &self, Random random)
{
    while (!shared.world->stop) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        const VIP_RETURN rc = VipCQWait(shared.cq, VIP_INFINITE, &vi, &recv);
        if (shared.world->stop) { // woken by the signal for it
            return;
        }
        REQUIRE_VIP(rc);
        EXPECT_EQ(VIP_TRUE, recv);
        dawdle(random); // told of one, not taken yet
        take_receive(shared, vi);
        self.beats++;
    }
}

pid_t start_worker(Shared &shared, unsigned number, std::uint64_t seed)
{
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child > 0) {
        return child;
    }
    alarm(300 * timeout_scale());
    Worker &self = shared.world->workers[number];
    try {
        if (number < kSenders) {
            send_for_ever(shared, self, Random(seed));
        } else {
            receive_for_ever(shared, self, Random(seed));
        }
    } catch (const std::exception &error) {
        std::snprintf(self.problem, sizeof self.problem, "worker %u: %s", number, error.what());
        _exit(1);
    }
    _exit(0);
}

// --- the master ----------------------------------------------------------------------------------

class Master {
public:
    explicit Master(Shared &shared) : shared_(shared), random_(seed()) {}
    ~Master()
    {
        for (pid_t &worker : workers_) {
            if (worker > 0) {
                kill(worker, SIGKILL);
                waitpid(worker, nullptr, 0);
            }
        }
    }

    void epoch(unsigned number)
    {
        connect_all();
        shared_.world->quiet = shared_.world->stop = false;
        for (unsigned i = 0; i < kWorkers; ++i) {
            start(i);
        }
        for (unsigned i = 0; i < kKillsAnEpoch; ++i) {
            INFO("epoch " << number << ", kill " << i);
            kill_one();
        }
        finish();
        take_down();
    }

private:
    void start(unsigned worker) { workers_[worker] = start_worker(shared_, worker, random_()); }

    void complain() const
    {
        for (const Worker &worker : shared_.world->workers) {
            if (worker.problem[0] != '\0') {
                throw Failure(worker.problem);
            }
        }
    }

    void connect_all()
    {
        World &world = *shared_.world;
        for (unsigned pair = 0; pair < kPairs; ++pair) {
            for (Slot &slot : world.sends[pair]) {
                slot.posts = slot.reaps = slot.owed = 0;
            }
            for (Slot &slot : world.receives[pair]) {
                slot.posts = slot.reaps = 0;
                post_receive(shared_, pair, slot);
            }
            connect_pair(shared_.nic, *shared_.receiving[pair], shared_.nic, *shared_.sending[pair]);
        }
    }

    void expect_sender_beats() { expect_beats(kWorkers, kSenders); }

    /** The first so many workers, but one, if it is one of them, do something within a second, and
     * what a busy machine adds to it. */
    void expect_beats(unsigned but, unsigned count = kWorkers)
    {
        std::uint32_t before[kWorkers];
        for (unsigned i = 0; i < kWorkers; ++i) {
            before[i] = shared_.world->workers[i].beats;
        }
        const unsigned long long end = now_ms() + a_second();
        for (unsigned i = 0; i < count; ++i) {
            while (i != but && shared_.world->workers[i].beats == before[i]) {
                complain();
                if (now_ms() > end) {
                    throw Failure("worker " + std::to_string(i) + " does nothing for a second");
                }
                give_way();
            }
        }
    }

    void kill_one()
    {
        const unsigned victim = static_cast<unsigned>(below(random_, kWorkers));
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(below(random_, 4000));
        while (std::chrono::steady_clock::now() < until) {
            give_way();
        }
        kill(workers_[victim], SIGKILL);
        reap(victim, true);
        complain();
        expect_beats(victim);
        start(victim);
    }

    void reap(unsigned worker, bool killed)
    {
        int status = 0;
        EXPECT(waitpid(workers_[worker], &status, 0) == workers_[worker]);
        workers_[worker] = 0;
        complain();
        if (killed) {
            EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        } else {
            EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }

    /**
     * Everything that has arrived is told to somebody, what the dead were told of too: nobody posts
     * any more, then one message comes to each VI. Who is told of it takes the oldest, which is
     * that one if nothing was left lying.
     */
    void expect_nothing_left()
    {
        World &world = *shared_.world;
        world.quiet = true;
        expect_sender_beats();
        expect_sender_beats();
        for (unsigned pair = 0; pair < kPairs; ++pair) {
            const unsigned long long end = now_ms() + a_second();
            std::uint32_t message = 0;
            while ((message = post_one(shared_, random_, pair)) == 0) {
                complain();
                EXPECT(now_ms() < end);
                give_way();
            }
            expect_seen(message, end);
        }
    }

    void expect_seen(std::uint32_t message, unsigned long long end)
    {
        while (shared_.world->seen[message] == 0) {
            complain();
            if (now_ms() > end) {
                throw Failure("a completion is told to nobody");
            }
            give_way();
        }
    }

    /** The workers end by themselves; who waits for receives is interrupted. */
    void finish()
    {
        expect_nothing_left();
        shared_.world->stop = true;
        for (unsigned i = 0; i < kWorkers; ++i) {
            const unsigned long long end = now_ms() + 2 * patience();
            siginfo_t info{};
            for (;;) { // a signal that comes before the wait has no effect, so it is sent again
                info.si_pid = 0;
                EXPECT(waitid(P_PID, static_cast<id_t>(workers_[i]), &info, WEXITED | WNOHANG | WNOWAIT) ==
                       0);
                if (info.si_pid != 0) {
                    break;
                }
                EXPECT(now_ms() < end);
                kill(workers_[i], SIGUSR1);
                give_way();
            }
            reap(i, false);
        }
    }

    static unsigned drain(VIP_VI_HANDLE vi, VIP_RETURN(VI_CALL *done_on)(VIP_VI_HANDLE, VIP_DESCRIPTOR **))
    {
        unsigned count = 0;
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN rc;
        while ((rc = done_on(vi, &done)) == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR) {
            account(slot_of(done));
            ++count;
        }
        REQUIRE_RC(VIP_NOT_DONE, rc);
        return count;
    }

    /** What is lost: posted or about to be, and never reaped. */
    template <size_t N>
    static unsigned missing(const Slot (&slots)[N])
    {
        unsigned count = 0;
        for (const Slot &slot : slots) {
            EXPECT(slot.reaps <= slot.posts);
            count += slot.posts - slot.reaps;
        }
        return count;
    }

    void take_down()
    {
        unsigned lost = 0;
        for (unsigned pair = 0; pair < kPairs; ++pair) {
            EXPECT_EQ(VIP_STATE_CONNECTED, shared_.sending[pair]->state());
            EXPECT_EQ(VIP_STATE_CONNECTED, shared_.receiving[pair]->state());
            REQUIRE_VIP(VipDisconnect(*shared_.sending[pair]));
            REQUIRE_VIP(VipDisconnect(*shared_.receiving[pair]));
            drain(*shared_.sending[pair], VipSendDone);
            drain(*shared_.receiving[pair], VipRecvDone);
            lost += missing(shared_.world->sends[pair]) + missing(shared_.world->receives[pair]);
        }
        EXPECT(lost <= kKillsAnEpoch);
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        VIP_RETURN rc;
        while ((rc = VipCQDone(shared_.cq, &vi, &recv)) == VIP_SUCCESS) {
        }
        REQUIRE_RC(VIP_NOT_DONE, rc);
    }

    Shared &shared_;
    Random random_;
    pid_t workers_[kWorkers] = {};
};

} // namespace

TEST_CASE("processes that share VIs are killed at 500 points, and the others go on", "[kill]")
{
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    Shared shared;
    Master master(shared);
    for (unsigned number = 0; number < kKills / kKillsAnEpoch; ++number) {
        REQUIRE_NOTHROW(master.epoch(number));
    }
    std::cout << kKills << " kills, " << shared.world->delivered << " messages" << std::endl;
    REQUIRE(shared.world->delivered > kKills);
}
