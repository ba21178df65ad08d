// SPDX-License-Identifier: MIT
//
// Plans and traces on the path that programs take: short messages and RDMA go to the device's
// send_short and rdma_short, and polls to its `poll_filter`, with a plan and a trace as without.
// What a plan strikes is as it is on the long way; what it does not strike goes the short one; each
// message has one number in the plan, and one line in the trace.
#include <array>
#include <thread>

#include "short_scene.hpp"
#include "support/portable.hpp"
#include "trace_file.hpp"

#define _Thread_local thread_local // vi.h

extern "C" {
#include "core/backend.h"
}

using namespace vipl_test;

namespace {

const vipl_backend *device; // the one that is open

bool refuses()
{
    const unsigned every = Device::refuses_every;
    return ++Device::tried % std::max(every, 1u) == 0 && every > 0;
}

bool send_short(vipl_be_nic *be, vipl_vi *vi, const void *from, size_t bytes, bool has_unreaped)
{
    const bool sent = !refuses() && device->send_short(be, vi, from, bytes, has_unreaped);
    Device::shorts += sent ? 1 : 0;
    return sent;
}

bool rdma_short(vipl_be_nic *be, vipl_vi *vi, const vipl_rdma *rdma)
{
    const bool moved = !refuses() && device->rdma_short(be, vi, rdma);
    Device::shorts += moved ? 1 : 0;
    return moved;
}

vipl_posted post_send(vipl_be_nic *be, vipl_vi *vi, vipl_send *send)
{
    ++Device::posts;
    return Device::full ? VIPL_POSTED_AGAIN : device->post_send(be, vi, send);
}

void poll(vipl_be_nic *be)
{
    ++Device::polls;
    device->poll(be);
}

} // namespace

extern "C" VIP_RETURN __real_vipl_hook_open(const vipl_backend *, vipl_nic *, const char *,
                                            const vipl_backend **, vipl_be_nic **);

namespace {

/** The device's table, with the functions above in it. */
vipl_backend counting(const vipl_backend *backend)
{
    vipl_backend counted = *backend;
    device = backend;
    Device::sends_short = backend->send_short != nullptr;
    Device::moves_short = backend->rdma_short != nullptr;
    counted.post_send = post_send;
    counted.poll = poll;
    counted.send_short = Device::sends_short ? send_short : nullptr;
    counted.rdma_short = Device::moves_short ? rdma_short : nullptr;
    return counted;
}

} // namespace

/** Puts the counting table between the hook and the device. */
extern "C" VIP_RETURN __wrap_vipl_hook_open(const vipl_backend *backend, vipl_nic *nic, const char *name,
                                            const vipl_backend **ops, vipl_be_nic **be)
{
    static const vipl_backend counted = counting(backend);
    EXPECT(backend == device); // there is one in a run
    return __real_vipl_hook_open(&counted, nic, name, ops, be);
}

namespace {

/** That so many messages have gone the short way, where the device has one, and `others` the long
 * one. */
void expect_paths(unsigned shorts, unsigned others, bool has_short = Device::sends_short)
{
    CHECK(Device::shorts == (has_short ? shorts : 0));
    if (has_short) {
        CHECK(Device::posts == others);
    } else { // some perhaps twice
        CHECK(Device::posts >= shorts + others);
    }
}

/** Whether RDMA to that peer goes the short way: to another process, only where its memory can be
 * reached. */
bool moves_short(Peer peer)
{
    return Device::moves_short && (peer == Peer::near || !device_is_loopback() || !library_is_portable());
}

constexpr unsigned kSends = 8, kStruck = 5; // of these; the sixth with the first of all

/** One of the sends is struck; what it does is as documented, and the others are sent the short
 * way. */
struct Strike {
    const char *fault;
    bool arrives;
    VIP_UINT32 status;
};
const Strike strikes[] = {{"drop=@6", false, 0},
                          {"corrupt=@6", false, VIP_STATUS_TRANSPORT_ERROR},
                          {"status=8@6", false, VIP_STATUS_LENGTH_ERROR},
                          {"delay=@6", true, 0},
                          {"event=RDMAW_DATA@6", true, 0}};

/** Sends "1", "2" and so on, each when the one before is complete. */
void send_all(ShortScene &scene, VIP_UINT32 status)
{
    for (unsigned i = 1; i <= kSends; ++i) {
        const Work out = scene.send(std::to_string(i));
        const bool fails = i == kStruck && status != 0;
        REQUIRE((fails ? send_failed(scene.vi) : sent(scene.vi)) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND | (fails ? status : 0), out.desc);
    }
}

/** Which of `count` sends fail, as a string of '.' and 'x'; in one piece each, or in two, which no
 * device sends the short way. */
std::string course(const std::string &plan, unsigned count, unsigned pieces)
{
    ShortScene scene(Peer::near, plan, VIP_SERVICE_UNRELIABLE, 0);
    std::string seen;
    for (unsigned i = 0; i < count; ++i) {
        const Work out = scene.send("message", pieces);
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(scene.vi, patience(), &done);
        CHECK(done == out.desc);
        seen += rc == VIP_SUCCESS ? '.' : 'x';
    }
    return seen;
}

} // namespace

TEST_CASE("a plan that strikes one send lets the others go the short way", "[short]")
{
    for (const Peer peer : peers()) {
        for (const Strike &strike : strikes) {
            INFO(strike.fault << (peer == Peer::far ? ", between processes" : ""));
            ShortScene scene(peer, strike.fault);
            ErrorLog errors(scene.nic);
            send_all(scene, strike.status);
            CHECK(scene.received_by_peer(strike.arrives ? kSends : kSends - 1) ==
                  (strike.arrives ? "12345678" : "1234678"));
            expect_paths(kSends - 1, strike.arrives ? 1 : 0);
            if (std::strncmp(strike.fault, "event", 5) == 0) {
                errors.expect(scene.vi, VIP_ERROR_RDMAW_DATA);
            }
            CHECK(scene.vi.state() == VIP_STATE_CONNECTED);
        }
    }
}

TEST_CASE("a plan that breaks a reliable connection does so on the short way", "[short]")
{
    for (const Peer peer : peers()) {
        for (const char *fault : {"drop=@4", "corrupt=@4", "status=40@4"}) {
            INFO(fault);
            ShortScene scene(peer, fault, VIP_SERVICE_RELIABLE_DELIVERY);
            for (const char *text : {"1", "2"}) {
                const Work out = scene.send(text);
                REQUIRE(sent(scene.vi) == out.desc);
            }
            const Work out = scene.send("3");
            REQUIRE(send_failed(scene.vi) == out.desc);
            EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_TRANSPORT_ERROR, out.desc);
            scene.vi.await(VIP_STATE_ERROR);
            expect_paths(2, 0);
        }
    }
}

TEST_CASE("disconnect strikes on the short way: the message arrives, and the connection ends", "[short]")
{
    for (const Peer peer : peers()) {
        ShortScene scene(peer, "disconnect=@4");
        ErrorLog errors(scene.nic);
        for (const char *text : {"1", "2", "3"}) {
            const Work out = scene.send(text);
            REQUIRE(sent(scene.vi) == out.desc);
        }
        errors.expect(scene.vi, VIP_ERROR_CONN_LOST);
        CHECK(scene.vi.state() == VIP_STATE_ERROR);
        CHECK(scene.received_by_peer(3) == "123");
        expect_paths(2, 1);
    }
}

TEST_CASE("RDMA goes the short way under a plan, and is struck there", "[short]")
{
    for (const Peer peer : peers()) {
        ShortScene scene(peer, "corrupt=@4/3", VIP_SERVICE_UNRELIABLE);
        const Span before = scene.memory.text("first one"), after = scene.memory.text("later one");
        for (int i = 0; i < 2; ++i) {
            const Work write = scene.rdma(VIP_CONTROL_OP_RDMAWRITE, before);
            REQUIRE(sent(scene.vi) == write.desc);
        }
        const Work struck = scene.rdma(VIP_CONTROL_OP_RDMAWRITE, after);
        REQUIRE(send_failed(scene.vi) == struck.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_TRANSPORT_ERROR, struck.desc);
        scene.send("all of it"); // it overtakes no write
        sent(scene.vi);
        CHECK(scene.received_by_peer(1) == "all of it");
        CHECK(scene.written() == "first one");
        CHECK(Device::shorts == (moves_short(peer) ? 2u : 0u) + (Device::sends_short ? 1u : 0u));
        CHECK((Device::shorts + Device::posts == 3 || !Device::sends_short));
    }
    for (const Peer peer : peers()) {
        ShortScene scene(peer, "corrupt=@4", VIP_SERVICE_RELIABLE_DELIVERY);
        const Span bytes = scene.memory.bytes(9);
        for (int i = 0; i < 2; ++i) {
            const Work read = scene.rdma(VIP_CONTROL_OP_RDMAREAD, bytes);
            REQUIRE(sent(scene.vi) == read.desc);
            CHECK(bytes.text() == Receiver::kWindow);
        }
        bytes.fill(7);
        const Work struck = scene.rdma(VIP_CONTROL_OP_RDMAREAD, bytes);
        REQUIRE(send_failed(scene.vi) == struck.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RDMA_READ | VIP_STATUS_TRANSPORT_ERROR, struck.desc);
        CHECK(bytes.holds(7));
        expect_paths(2, 0, moves_short(peer));
    }
}

TEST_CASE("a message that the device refuses to send the short way keeps its number", "[short]")
{
    ShortScene scene(Peer::near, "status=8@6/3");
    for (Device::refuses_every = 1; Device::refuses_every <= 3; ++Device::refuses_every) {
        Device::reset();
        for (unsigned i = 1; i <= 3; ++i) { // of a plan's turn
            const Work out = scene.send("message");
            const bool struck = i == 2 && Device::refuses_every > 1;
            REQUIRE((struck ? send_failed(scene.vi) : sent(scene.vi)) == out.desc);
        }
        CHECK(
            (!Device::sends_short || Device::shorts + Device::posts == (Device::refuses_every > 1 ? 2 : 3)));
        CHECK(Device::tried == (!Device::sends_short ? 0 : Device::refuses_every > 1 ? 2 : 3));
    }
    Device::refuses_every = 0;
    const std::string whole = course("status=8@5/3", 12, 2);
    CHECK(whole == "....x..x..x.");
    for (const unsigned every : {1u, 2u, 3u}) {
        Device::refuses_every = every;
        CHECK(course("status=8@5/3", 12, 1) == whole);
    }
    Device::refuses_every = 0;
}

TEST_CASE("the same seed strikes the same messages on the short way and on the long one", "[short]")
{
    const std::string plan = "seed=7,corrupt=0.2,delay=0.2";
    const std::string whole = course(plan, 200, 2);
    CHECK(std::count(whole.begin(), whole.end(), 'x') > 20);
    CHECK(course(plan, 200, 1) == whole);
    Device::refuses_every = 2;
    CHECK(course(plan, 200, 1) == whole);
    Device::refuses_every = 0;
}

namespace {

/** Two pairs of VIs; the first two are of one NIC handle, which has the plan. */
struct TwoPairs {
    explicit TwoPairs(const std::string &plan)
        : nic(nic_with_faults(plan)), memory(*nic), one(*nic, vi_attributes(VIP_SERVICE_UNRELIABLE)),
          two(*nic, vi_attributes(VIP_SERVICE_UNRELIABLE)),
          to_one(other, vi_attributes(VIP_SERVICE_UNRELIABLE)),
          to_two(other, vi_attributes(VIP_SERVICE_UNRELIABLE))
    {
        connect_pair(other, to_one, *nic, one);
        connect_pair(other, to_two, *nic, two);
    }
    Work send(const Vi &vi)
    {
        const Work work = memory.transfer(memory.text("message"));
        post_send(vi, work);
        return work;
    }

    const EnvironmentSetting linger{"VIPL_LINGER", "0"};
    std::unique_ptr<Nic> nic;
    Nic other;
    Memory memory;
    Vi one, two, to_one, to_two;
};

} // namespace

TEST_CASE("a message that a device has no room for keeps its number: a part of it may be sent", "[short]")
{
    TwoPairs pairs("status=8@2");
    Device::full = true;
    const Work first = pairs.send(pairs.one);
    Device::full = false;
    const Work struck = pairs.send(pairs.two);
    CHECK(send_failed(pairs.two) == struck.desc);
    const Work next = pairs.send(pairs.one); // with which core offers the first again
    CHECK(sent(pairs.one) == first.desc);
    CHECK(sent(pairs.one) == next.desc);
}

TEST_CASE("a message that is flushed before the device had room for it is not counted", "[short]")
{
    TwoPairs pairs("status=8@2");
    Device::full = true;
    const Work flushed = pairs.send(pairs.one);
    REQUIRE_VIP(VipDisconnect(pairs.one));
    CHECK(send_failed(pairs.one) == flushed.desc);
    Device::full = false;
    const Work first = pairs.send(pairs.two);
    CHECK(sent(pairs.two) == first.desc);
    const Work struck = pairs.send(pairs.two);
    CHECK(send_failed(pairs.two) == struck.desc);
}

TEST_CASE("threads that send at the same time lose no number, and use none twice", "[short]")
{
    constexpr unsigned kThreads = 4, kEach = 500, kEvery = 7;
    const auto nic = nic_with_faults("status=8@1/" + std::to_string(kEvery));
    const Nic other;
    const Memory receives(other);
    std::array<std::unique_ptr<Vi>, kThreads> from, to;
    for (unsigned i = 0; i < kThreads; ++i) {
        from[i] = std::make_unique<Vi>(*nic, vi_attributes(VIP_SERVICE_UNRELIABLE));
        to[i] = std::make_unique<Vi>(other, vi_attributes(VIP_SERVICE_UNRELIABLE));
        connect_pair(other, *to[i], *nic, *from[i]);
    }
    Device::refuses_every = 3;
    std::atomic<unsigned> struck{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, vi = static_cast<VIP_VI_HANDLE>(*from[i])] {
            Memory memory(*nic, 4096);
            const Work out = memory.transfer(memory.text("message"));
            for (unsigned k = 0; k < kEach; ++k) {
                VIP_DESCRIPTOR *done = nullptr;
                post_send(vi, out);
                struck += VipSendWait(vi, patience(), &done) == VIP_SUCCESS ? 0 : 1;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    Device::refuses_every = 0;
    CHECK(struck == (kThreads * kEach + kEvery - 1) / kEvery);
}

TEST_CASE("a program that only polls sees a delayed send go on, and then polls as before", "[short]")
{
    constexpr unsigned kPolls = 100; // far more than the longest delay
    for (const Peer peer : peers()) {
        for (const bool through_cq : {false, true}) {
            const EnvironmentSetting setting("VIPL_PROGRESS", "inline"); // no thread that would do it
            ShortScene scene(peer, "delay=@4", VIP_SERVICE_UNRELIABLE, Receiver::kReceives, through_cq);
            VIP_DESCRIPTOR *done = nullptr;
            const auto poll = [&] {
                VIP_VI_HANDLE which = nullptr;
                VIP_BOOLEAN receive = VIP_FALSE;
                const VIP_RETURN rc = through_cq ? VipCQDone(scene.cq, &which, &receive) : VIP_SUCCESS;
                return rc == VIP_SUCCESS ? VipSendDone(scene.vi, &done) : rc;
            };
            for (const char *text : {"1", "2", "3", "4"}) {
                const Work out = scene.send(text);
                unsigned polls = 0;
                while (poll() == VIP_NOT_DONE && polls < kPolls) {
                    ++polls;
                }
                INFO(text << (through_cq ? ", through a CQ" : ""));
                REQUIRE(done == out.desc);
                const bool delayed = *text == '3';
                CHECK((delayed ? polls > 0 : polls == 0 || !Device::sends_short));
            }
            CHECK(scene.received_by_peer(4) == "1234");
            Device::reset();
            for (unsigned i = 0; i < kPolls; ++i) {
                REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(scene.vi, &done));
            }
            CHECK(Device::polls <
                  (Device::sends_short ? kPolls / 2 : kPolls + 1)); // those have `poll_filter`
        }
    }
}

TEST_CASE("a trace has a line for each message that goes the short way", "[short]")
{
    for (const Peer peer : peers()) {
        const TraceFile file;
        unsigned shorts = 0;
        {
            std::unique_ptr<ShortScene> scene;
            {
                const EnvironmentSetting setting("VIPL_TRACE", file.path());
                scene = std::make_unique<ShortScene>(peer, "", VIP_SERVICE_RELIABLE_DELIVERY);
            }
            for (const char *text : {"a", "bb", "ccc"}) {
                scene->send(text);
                sent(scene->vi);
            }
            scene->rdma(VIP_CONTROL_OP_RDMAWRITE, scene->memory.text("dddd"));
            sent(scene->vi);
            scene->rdma(VIP_CONTROL_OP_RDMAREAD, scene->memory.bytes(5));
            sent(scene->vi);
            scene->send("ffffff", 2); // the long way
            sent(scene->vi);
            CHECK(scene->received_by_peer(4) == "abbcccffffff");
            shorts = Device::shorts;
        }
        CHECK(shorts == (Device::sends_short ? 3u : 0u) + (moves_short(peer) ? 2u : 0u));
        const char *const ops[] = {"send", "send", "send", "send", "rdma_write", "rdma_read", "send"};
        const unsigned bytes[] = {1, 1, 2, 3, 4, 5, 6};
        unsigned next = 0, again = 0;
        for (const std::string &line : file.lines()) {
            if (operation(line) != "post_send") {
                continue;
            }
            if (line.find(" -> AGAIN ") != std::string::npos) {
                ++again;
                continue;
            }
            INFO(line);
            REQUIRE(next < 7);
            const bool moved = next == 4 || next == 5;
            const bool is_short = next > 0 && next < 6 && (moved ? moves_short(peer) : Device::sends_short);
            char about[128];
            std::snprintf(about, sizeof about, " op=%s sequence=%u bytes=%u -> %s", ops[next], next,
                          bytes[next], is_short ? "DONE status=0x0" : "");
            CHECK(line.find(about) != std::string::npos);
            char handle[64];
            unsigned end = 0;
            CHECK(std::sscanf(line.c_str(), "%*u.%*u %*d.%*u post_send nic=%*s vi=0x%*x handle=%63s op=%n",
                              handle, &end) == 1);
            ++next;
        }
        CHECK(next == 7);
        CHECK((again == 0 || !Device::sends_short));
    }
}

TEST_CASE("a trace says what a plan did on the short way", "[short]")
{
    const TraceFile file;
    {
        std::unique_ptr<ShortScene> scene;
        {
            const EnvironmentSetting setting("VIPL_TRACE", file.path());
            scene = std::make_unique<ShortScene>(Peer::near, "status=40@3,delay=@4");
        }
        for (int i = 0; i < 4; ++i) {
            scene->send("message");
            i == 1 ? send_failed(scene->vi) : sent(scene->vi);
        }
    }
    std::string outcomes;
    for (const std::string &line : file.lines()) {
        if (operation(line) == "post_send") {
            outcomes += line.substr(line.find(" sequence=") + 10, 1) +
                        (line.find("status=0x40") != std::string::npos ? "x"
                         : line.find(" AGAIN ") != std::string::npos   ? "~"
                                                                       : ".");
        }
    }
    const size_t first =
        outcomes.find("1."); // what is before is of the first message, which a device may put off
    REQUIRE(first != std::string::npos);
    outcomes = outcomes.substr(first);
    while (outcomes.find("3~3~") != std::string::npos) {
        outcomes.erase(outcomes.find("3~3~"), 2);
    }
    CHECK(outcomes == "1.2x3~3.4.");
}
