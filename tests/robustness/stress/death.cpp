// SPDX-License-Identifier: MIT
//
// The peer process is killed while it exchanges messages, writes and reads memory or connects.
// Within a second the survivor's VIs are in ERROR and its blocked waiters are back; afterwards
// nothing is left of the dead: no descriptor, no mapping, no socket. 50 rounds on NIC handles that
// live on. VIPL_TEST_DEVICE says on which device; mappings and names of sockets are the emulator's.
#include "stress.hpp"

#include "census.hpp"

using namespace stress;

namespace {

enum Mode : unsigned { kSmall, kLarge, kWrite, kRead, kConnect, kModes };
const char *const kModeNames[] = {"small", "large", "write", "read", "connect"};

constexpr unsigned kBatch = 8;
constexpr VIP_UINT32 kSmallBytes = 200, kLargeBytes = 64 * 1024;

/** One process's side: a VI that exchanges, one whose waiter waits for good, one before a CQ. */
struct Party {
    explicit Party(const Nic &nic)
        : memory(nic, (3 * kBatch + 1) * (kLargeBytes + 256), rdma_memory()), cq(nic), busy(nic), quiet(nic),
          queued(nic, vi_attributes(), nullptr, cq), window(memory.bytes(kLargeBytes))
    {
        window.fill(1);
        for (const Vi *vi : {&quiet, &queued}) {
            post_recv(*vi, memory.transfer(memory.bytes(64)));
        }
    }

    Memory memory;
    Cq cq;
    Vi busy, quiet, queued;
    Span window;
    std::atomic<unsigned> progress{0};
};

/** Whether it worked; false: the connection has ended. */
bool reap(VIP_RETURN (*wait)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR **), VIP_VI_HANDLE vi,
          VIP_DESCRIPTOR **out)
{
    const VIP_RETURN rc = wait(vi, patience(), out);
    if (rc != VIP_SUCCESS) {
        EXPECT_EQ(VIP_DESCRIPTOR_ERROR, rc);
    }
    return rc == VIP_SUCCESS;
}

/** Post the receives of exchange(), before the VI is connected. */
void prepare_messages(Party &party, VIP_UINT32 bytes)
{
    for (unsigned i = 0; i < 2 * kBatch; ++i) { // the peer may be one batch ahead
        post_recv(party.busy, party.memory.transfer(party.memory.bytes(bytes)));
    }
}

/** Batches of messages both ways, until the peer is no more. */
void exchange(Party &party, VIP_UINT32 bytes)
{
    Work sends[kBatch];
    for (Work &work : sends) {
        work = party.memory.transfer(party.window.part(0, bytes));
    }
    for (;;) {
        VIP_DESCRIPTOR *done = nullptr;
        for (const Work &work : sends) {
            work.desc->CS.Length = bytes;
            post_send(party.busy, work);
        }
        for (unsigned i = 0; i < kBatch; ++i) {
            if (!reap(VipRecvWait, party.busy, &done)) {
                return;
            }
            EXPECT_EQ(bytes, done->CS.Length);
            REQUIRE_VIP(VipPostRecv(party.busy, done, party.memory.handle()));
        }
        for (unsigned i = 0; i < kBatch; ++i) {
            if (!reap(VipSendWait, party.busy, &done)) {
                return;
            }
        }
        party.progress++;
    }
}

void access(Party &party, VIP_UINT16 op, RemoteSpan remote)
{
    Work works[kBatch];
    for (Work &work : works) {
        work = party.memory.rdma(op, remote, party.memory.bytes(kLargeBytes));
    }
    for (const Work &work : works) {
        post_send(party.busy, work);
    }
    VIP_DESCRIPTOR *done = nullptr;
    while (reap(VipSendWait, party.busy, &done)) {
        REQUIRE_VIP(VipPostSend(party.busy, done, party.memory.handle()));
        party.progress++;
    }
}

void work(Party &party, Mode mode, RemoteSpan remote)
{
    switch (mode) {
    case kSmall:
    case kLarge:
        return exchange(party, mode == kSmall ? kSmallBytes : kLargeBytes);
    case kWrite:
        return access(party, VIP_CONTROL_OP_RDMAWRITE, remote);
    default:
        return access(party, VIP_CONTROL_OP_RDMAREAD, remote);
    }
}

void prepare(Party &party, Mode mode)
{
    if (mode == kSmall || mode == kLarge) {
        prepare_messages(party, mode == kSmall ? kSmallBytes : kLargeBytes);
    }
}

void victim(const Scene &scene, Line &line)
{
    const Nic nic;
    Party party(nic);
    const auto mode = static_cast<Mode>(scene.seed % kModes);
    prepare(party, mode);
    REQUIRE_VIP(request_to(nic, scene.name(), party.quiet));
    REQUIRE_VIP(request_to(nic, scene.name(), party.queued));
    while (mode == kConnect) {
        if (request_to(nic, scene.name(), party.busy) == VIP_SUCCESS) {
            VipDisconnect(party.busy);
        }
    }
    REQUIRE_VIP(request_to(nic, scene.name(), party.busy));
    line.send(party.window.remote());
    work(party, mode, line.receive<RemoteSpan>());
}

/** Accept and drop connections until told to stop. */
void keep_accepting(const Nic &nic, const Scene &scene, Party &party, const std::atomic<bool> &stop)
{
    while (!stop) {
        const VIP_RETURN rc = accept_on(nic, scene.name(), party.busy, 50);
        EXPECT(rc == VIP_SUCCESS || rc == VIP_TIMEOUT || rc == VIP_ERROR_RESOURCE);
        REQUIRE_VIP(VipDisconnect(party.busy));
        party.progress++;
    }
}

/** Blocked until the peer dies; then what was posted comes back. */
void wait_for_the_end(Party &party, bool queued)
{
    VIP_DESCRIPTOR *done = nullptr;
    if (queued) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN receive = VIP_FALSE;
        REQUIRE_VIP(VipCQWait(party.cq, 2 * patience(), &vi, &receive));
        EXPECT(vi == party.queued);
        REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &done));
    } else {
        REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvWait(party.quiet, 2 * patience(), &done));
    }
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, done);
}

void kill_at_some_point(Child &child, const Party &party, Random &random, const Crew &crew)
{
    const unsigned steps = static_cast<unsigned>(below(random, 30));
    const unsigned long long end = now_ms() + patience();
    while (party.progress < steps && !crew.failed()) {
        EXPECT(now_ms() < end);
        give_way();
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(below(random, 3000));
    while (std::chrono::steady_clock::now() < until) {
        give_way();
    }
    child.kill();
}

void one_round(const Nic &nic, Scene scene, Random &random, unsigned round)
{
    const auto mode = static_cast<Mode>(round % kModes);
    scene.seed = mode;
    Child child(victim, scene);
    Party party(nic);
    prepare(party, mode);
    REQUIRE_VIP(accept_on(nic, scene.name(), party.quiet));
    REQUIRE_VIP(accept_on(nic, scene.name(), party.queued));
    RemoteSpan remote{};
    if (mode != kConnect) {
        REQUIRE_VIP(accept_on(nic, scene.name(), party.busy));
        remote = child.line.receive<RemoteSpan>();
        child.line.send(party.window.remote());
    }
    std::atomic<bool> stop{false};
    Crew crew;
    crew.add([&] { wait_for_the_end(party, false); });
    crew.add([&] { wait_for_the_end(party, true); });
    crew.add([&] {
        if (mode == kConnect) {
            keep_accepting(nic, scene, party, stop);
        } else {
            work(party, mode, remote);
        }
    });
    try {
        kill_at_some_point(child, party, random, crew);
    } catch (...) {
        child.kill();
        stop = true;
        crew.join();
        throw;
    }
    const unsigned long long killed = now_ms();
    stop = true;
    crew.join();
    const unsigned long long took = now_ms() - killed;
    EXPECT(took <= 1000ull * timeout_scale());
    for (const Vi *vi : {&party.quiet, &party.queued}) {
        EXPECT_EQ(VIP_STATE_ERROR, vi->state());
    }
    EXPECT_EQ(mode == kConnect ? VIP_STATE_IDLE : VIP_STATE_ERROR, party.busy.state());
    child.finish(true);
}

/** What all VIs of the dead must report, and how many have. */
struct Reports {
    std::atomic<unsigned> lost{0}, others{0};

    static void VI_CALL note(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
    {
        auto &reports = *static_cast<Reports *>(context);
        (error->ErrorCode == VIP_ERROR_CONN_LOST ? reports.lost : reports.others)++;
    }
    void expect(unsigned least) const
    {
        const unsigned long long end = now_ms() + patience();
        while (lost < least && now_ms() < end) {
            give_way();
        }
        EXPECT(lost >= least);
        EXPECT_EQ(0u, others.load());
    }
};

/** Let the dead peer's link go. The one mapping that stays is the window. */
template <class Progress>
Census rest_and_count(Progress progress)
{
    const unsigned long long end = now_ms() + patience();
    Census settled = take_census();
    while (settled.mappings != 1 && now_ms() < end) {
        progress();
        settled = take_census();
    }
    EXPECT_EQ(1u, settled.mappings);
    return settled;
}

void kill_peers(const char *pull)
{
    constexpr unsigned kRounds = 25;
    use_pull(pull);
    let_a_moment_pass();       // this thread's own ready_fd exists from here on,
    std::thread([] {}).join(); // and so does a sanitizer's own thread
    const Census before = take_census();
    const Scene scene = make_scene(pull);
    Random random = scene.random();
    Reports reports;
    {
        const Nic nic;
        const Cq cq(nic);
        REQUIRE_VIP(VipErrorCallback(nic, &reports, Reports::note));
        const auto progress = [&cq] {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            VipCQWait(cq, 1, &vi, &receive);
        };
        one_round(nic, scene, random, kWrite); // what a NIC handle makes once, it has made now
        reports.expect(3);
        const Census settled = device_is_loopback() ? rest_and_count(progress) : take_census();
        for (unsigned round = 0; round < kRounds; ++round) {
            INFO("round " << round << ", " << kModeNames[round % kModes] << ", pull " << pull);
            CHECK_NOTHROW(one_round(nic, scene, random, round));
            CHECK_NOTHROW(expect_census(settled, progress));
        }
        REQUIRE_NOTHROW(reports.expect(3 + kRounds * 2)); // who only connects may have no third
        if (device_is_loopback()) {
            REQUIRE(count_sockets(scene.name()) == 1);
        }
    }
    expect_census(before, [] {});
    REQUIRE(count_sockets(scene.name()) == 0);
}

} // namespace

TEST_CASE("a killed peer is noticed within a second and leaves nothing behind", "[death]")
{
    kill_peers("auto");
}

TEST_CASE("a killed peer is noticed within a second and leaves nothing behind, through the rings", "[death]")
{
    kill_peers("off");
}
