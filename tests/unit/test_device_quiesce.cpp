// SPDX-License-Identifier: MIT
//
// A device is quiesced before the program gets its memory back: once, with no lock held, by a
// thread that may block. What it reports meanwhile counts; what other threads do meanwhile waits or
// takes its turn.
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <future>

#include "card.hpp"
#include "support/begin_call.hpp"
#include "support/error_log.hpp"
#include "support/system.hpp"

using namespace unit;
using namespace vipl_test;

namespace {

constexpr VIP_UINT32 kFlushedRecv = VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR;
constexpr VIP_UINT32 kFlushedSend = VIP_STATUS_DONE | VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR;

/** A card, a VI on it that need not linger, and memory. */
struct Bench {
    explicit Bench(VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY)
        : memory(card.nic), vi(card.nic, vi_attributes(level))
    {
        card.core->linger_ms = 0;
    }
    Work receive()
    {
        const Work work = memory.transfer(memory.bytes(64));
        post_recv(vi, work);
        return work;
    }
    Work send()
    {
        const Work work = memory.transfer(memory.bytes(64));
        post_send(vi, work);
        return work;
    }
    std::vector<Work> receives(unsigned count)
    {
        std::vector<Work> works(count);
        std::generate(works.begin(), works.end(), [&] { return receive(); });
        return works;
    }
    std::vector<Work> sends(unsigned count)
    {
        std::vector<Work> works(count);
        std::generate(works.begin(), works.end(), [&] { return send(); });
        return works;
    }
    vipl_vi *inside() { return vi_of(vi); }
    bool has_free_locks()
    {
        return is_free(inside()->send.lock) && is_free(inside()->recv.lock) && is_free(card.core->lock) &&
               is_free(card.core->service.lock) && is_free(card.core->mem.changing);
    }

    Card card;
    Memory memory;
    Vi vi;
};

/** Somewhere that threads meet. */
class Gate {
public:
    void open() { promise_.set_value(); }
    void pass()
    {
        EXPECT(future_.wait_for(std::chrono::milliseconds(patience())) == std::future_status::ready);
    }

private:
    std::promise<void> promise_;
    std::shared_future<void> future_{promise_.get_future()};
};

bool is_over(const std::future<void> &call)
{
    return call.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void await_quiesces(const Card &card, unsigned count)
{
    const unsigned long long end = now_ms() + patience();
    while (card.quiesces < count) {
        EXPECT(now_ms() < end);
        give_way();
    }
}

} // namespace

TEST_CASE("a disconnect quiesces the device once, with no lock held, and then flushes what is left",
          "[device_quiesce]")
{
    Bench bench;
    const std::vector<Work> recvs = bench.receives(4);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    const std::vector<Work> sends = bench.sends(3);
    Work late_recv{}, late_send{};
    bool locks_free = false;
    bench.card.on_quiesce = [&](vipl_vi *vi) {
        locks_free = bench.has_free_locks();
        CHECK(bench.card.revokes == 1);
        CHECK(bench.card.disconnects == 0);
        CHECK(vi->holds != 0);
        CHECK(vi->state == VIP_STATE_CONNECTED);
        std::async(std::launch::async,
                   [&] { // another thread of the program
                       late_recv = bench.receive();
                       late_send = bench.send();
                   })
            .get();
        bench.card.finish(bench.vi, 0, 11); // what the device had done counts
        vipl_up_recv_resume(vi);
        vipl_up_send_done(vi, 0, 0, 64);
        vipl_up_send_resume(vi);
        EXPECT(recvs[0].status() != 0 && recvs[1].status() == 0 && sends[1].status() == 0);
    };
    unsigned offered_sends = 0;
    bench.card.on_send = [&](vipl_vi *, vipl_send *) {
        offered_sends++;
        return VIPL_POSTED_PENDING;
    };
    REQUIRE_VIP(VipDisconnect(bench.vi));
    CHECK(locks_free);
    CHECK(bench.card.quiesces == 1);
    CHECK(bench.card.revokes == 1);
    CHECK(bench.card.disconnects == 1);
    CHECK(offered_sends == 0);
    CHECK(bench.card.recvs_offered == 4);
    CHECK(bench.vi.state() == VIP_STATE_IDLE);
    CHECK(received(bench.vi) == recvs[0].desc);
    CHECK(recvs[0].desc->CS.Length == 11);
    CHECK(sent(bench.vi) == sends[0].desc);
    for (const Work &each : {recvs[1], recvs[2], recvs[3], late_recv}) {
        CHECK(receive_failed(bench.vi) == each.desc);
        CHECK(each.status() == kFlushedRecv);
    }
    for (const Work &each : {sends[1], sends[2], late_send}) {
        CHECK(send_failed(bench.vi) == each.desc);
        CHECK(each.status() == kFlushedSend);
    }
    CHECK_FALSE(vipl_up_has_failed(bench.inside()));
}

TEST_CASE("a failure quiesces the device once, and its receives that are done come before the flush",
          "[device_quiesce]")
{
    Bench bench;
    ErrorLog errors(bench.card.nic);
    const std::vector<Work> recvs = bench.receives(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bool locks_free = false;
    bench.card.on_quiesce = [&](vipl_vi *) {
        locks_free = bench.has_free_locks();
        bench.card.finish(bench.vi, 0, 3);
    };
    Card::fail(bench.inside(), VIP_ERROR_RDMAW_PROT);
    vipl_deferred_run();
    CHECK(locks_free);
    CHECK(bench.vi.state() == VIP_STATE_ERROR);
    CHECK(received(bench.vi) == recvs[0].desc);
    CHECK(receive_failed(bench.vi) == recvs[1].desc);
    errors.expect(bench.vi, VIP_ERROR_RDMAW_PROT);
    const Work flushed = bench.receive(); // in ERROR, as ever
    CHECK(receive_failed(bench.vi) == flushed.desc);
    REQUIRE_VIP(VipDisconnect(bench.vi));
    CHECK(bench.card.quiesces == 1);
    CHECK(bench.card.disconnects == 1);
    bench.card.on_quiesce = nullptr;
    REQUIRE_VIP(bench.card.connect(bench.vi)); // all is as new
    const Work again = bench.receive();
    bench.card.finish(bench.vi);
    CHECK(received(bench.vi) == again.desc);
}

TEST_CASE("a failure that is found while the VI disconnects is none any more", "[device_quiesce]")
{
    Bench bench;
    ErrorLog errors(bench.card.nic);
    const std::vector<Work> recvs = bench.receives(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.card.on_quiesce = [&](vipl_vi *vi) {
        Card::fail(vi);
        bench.card.finish(bench.vi, VIP_STATUS_TRANSPORT_ERROR);
        vipl_up_recv_missing(vi);
    };
    REQUIRE_VIP(VipDisconnect(bench.vi));
    CHECK(bench.vi.state() == VIP_STATE_IDLE);
    CHECK(bench.card.quiesces == 1);
    CHECK(receive_failed(bench.vi)->CS.Status ==
          (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_TRANSPORT_ERROR));
    CHECK(receive_failed(bench.vi)->CS.Status == kFlushedRecv);
    errors.expect_none();
    CHECK(bench.inside()->connections_lost == 0);
}

TEST_CASE("a disconnect beside a failure that was found just before comes second", "[device_quiesce]")
{
    Bench bench;
    ErrorLog errors(bench.card.nic);
    const std::vector<Work> recvs = bench.receives(1);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    std::future<void> disconnecting;
    Card::fail(bench.inside());
    begin_call(disconnecting, [&] { REQUIRE_VIP(VipDisconnect(bench.vi)); });
    CHECK_FALSE(is_over(disconnecting));
    CHECK(bench.card.quiesces == 0);
    vipl_deferred_run();
    disconnecting.get();
    CHECK(bench.card.quiesces == 1);
    CHECK(bench.vi.state() == VIP_STATE_IDLE);
    errors.expect(bench.vi, VIP_ERROR_CONN_LOST);
    CHECK(receive_failed(bench.vi) == recvs[0].desc);
}

TEST_CASE("calls that end the VI or change it wait until the device is quiesced", "[device_quiesce]")
{
    Bench bench;
    const std::vector<Work> recvs = bench.receives(3);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    Gate inside, go_on;
    std::future<void> disconnecting, other;
    bench.card.on_quiesce = [&](vipl_vi *) {
        inside.open();
        go_on.pass();
    };
    disconnecting = std::async(std::launch::async, [&] { REQUIRE_VIP(VipDisconnect(bench.vi)); });
    inside.pass();
    bool flushed = true;
    SECTION("VipDisconnect")
    {
        begin_call(other, [&] { REQUIRE_VIP(VipDisconnect(bench.vi)); });
    }
    SECTION("VipSetViAttributes")
    {
        begin_call(other, [&] {
            VIP_VI_ATTRIBUTES attributes = vi_attributes();
            REQUIRE_VIP(VipSetViAttributes(bench.vi, &attributes));
        });
    }
    SECTION("VipConnectRequest")
    {
        begin_call(other, [&] { REQUIRE_VIP(bench.card.connect(bench.vi)); });
    }
    SECTION("VipDestroyVi")
    {
        flushed = false;
        begin_call(other, [&] { REQUIRE_VIP(VipDestroyVi(bench.vi)); });
    }
    SECTION("VipCloseNic")
    {
        flushed = false;
        begin_call(other, [&] { REQUIRE_VIP(VipCloseNic(bench.card.nic)); });
    }
    CHECK_FALSE(is_over(other));
    CHECK_FALSE(is_over(disconnecting));
    CHECK(bench.card.destroyed == 0);
    for (const Work &each : recvs) {
        CHECK(each.status() == 0);
    }
    go_on.open();
    disconnecting.get();
    other.get();
    CHECK(bench.card.quiesces == 1);
    bench.card.on_quiesce = nullptr;
    for (const Work &each : recvs) { // the disconnect came first
        CHECK(each.status() == kFlushedRecv);
    }
    CHECK(bench.card.destroyed == (flushed ? 0u : 1u));
}

TEST_CASE("a thread that waits for a completion gets those found while the device is quiesced",
          "[device_quiesce]")
{
    Bench bench;
    const std::vector<Work> recvs = bench.receives(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    std::future<void> waiting;
    begin_call(waiting, [&] {
        EXPECT(received(bench.vi) == recvs[0].desc);
        EXPECT(receive_failed(bench.vi) == recvs[1].desc);
    });
    bench.card.on_quiesce = [&](vipl_vi *) { bench.card.finish(bench.vi); };
    REQUIRE_VIP(VipDisconnect(bench.vi));
    waiting.get();
}

TEST_CASE("receives of a connection that did not come about go back when the device has finished with them",
          "[device_quiesce]")
{
    Bench bench;
    bench.card.on_connect = [](vipl_vi *) { return VIP_SUCCESS; };
    const std::vector<Work> recvs = bench.receives(2);
    SECTION("a disconnect of a request under way")
    {
        REQUIRE_VIP(VipConnectPeerRequest(bench.vi, bench.card.nic.address("a"), bench.card.nic.address("b"),
                                          patience()));
        Work late{};
        bool locks_free = false;
        bench.card.on_quiesce = [&](vipl_vi *vi) {
            locks_free = bench.has_free_locks();
            CHECK(vi->holds != 0);
            CHECK(recvs[0].status() == 0);
            std::async(std::launch::async, [&] { late = bench.receive(); }).get();
        };
        REQUIRE_VIP(VipDisconnect(bench.vi));
        CHECK(bench.card.withdrawals == 1);
        CHECK(locks_free);
        CHECK(bench.card.quiesces == 1);
        for (const Work &each : {recvs[0], recvs[1], late}) {
            CHECK(receive_failed(bench.vi) == each.desc);
        }
        bench.card.on_quiesce = nullptr;
        REQUIRE_VIP(VipDisconnect(bench.vi));
    }
    SECTION("the VI is destroyed")
    {
        CHECK(bench.card.connect(bench.vi, 1) == VIP_TIMEOUT);
        CHECK(bench.card.withdrawals == 0);
        REQUIRE_VIP(VipDisconnect(bench.vi)); // changes nothing
        CHECK(bench.card.quiesces == 0);
        bench.card.on_quiesce = [&](vipl_vi *) {
            CHECK(bench.has_free_locks());
            CHECK(bench.card.destroyed == 0);
        };
        REQUIRE_VIP(VipDestroyVi(bench.vi));
        CHECK(bench.card.destroyed == 1);
        CHECK(recvs[0].status() == 0);
    }
    SECTION("the NIC handle is closed")
    {
        CHECK(bench.card.connect(bench.vi, 1) == VIP_TIMEOUT);
        bench.card.on_quiesce = [&](vipl_vi *) { CHECK(bench.card.destroyed == 0); };
        REQUIRE_VIP(VipCloseNic(bench.card.nic));
        CHECK(bench.card.destroyed == 1);
    }
    SECTION("the NIC handle is closed with a request under way")
    {
        REQUIRE_VIP(VipConnectPeerRequest(bench.vi, bench.card.nic.address("a"), bench.card.nic.address("b"),
                                          patience()));
        REQUIRE_VIP(VipCloseNic(bench.card.nic));
        CHECK(bench.card.destroyed == 1);
    }
    CHECK(bench.card.quiesces == 1);
}

TEST_CASE("two threads destroy a VI whose receives a device may still have", "[device_quiesce]")
{
    Bench bench;
    bench.card.on_connect = [](vipl_vi *) { return VIP_SUCCESS; };
    bench.receives(1);
    CHECK(bench.card.connect(bench.vi, 1) == VIP_TIMEOUT);
    Gate inside, go_on;
    bench.card.on_quiesce = [&](vipl_vi *) {
        inside.open();
        go_on.pass();
    };
    std::atomic<int> destroyed{0};
    const auto destroy = [&] { destroyed += VipDestroyVi(bench.vi) == VIP_SUCCESS ? 1 : 0; };
    std::future<void> first = std::async(std::launch::async, destroy), second;
    inside.pass();
    begin_call(second, destroy);
    CHECK_FALSE(is_over(second));
    go_on.open();
    first.get();
    second.get();
    CHECK(destroyed == 1);
    CHECK(bench.card.quiesces == 1);
    CHECK(bench.card.destroyed == 1);
}

TEST_CASE("a device that has no receives of an idle VI is not quiesced", "[device_quiesce]")
{
    Bench bench;
    bench.receives(1);
    SECTION("it never was given one")
    {
    }
    SECTION("it had no room")
    {
        bench.card.set_room(0);
        bench.card.on_connect = [](vipl_vi *) { return VIP_NOT_REACHABLE; };
        CHECK(bench.card.connect(bench.vi) == VIP_NOT_REACHABLE);
    }
    REQUIRE_VIP(VipDestroyVi(bench.vi));
    CHECK(bench.card.quiesces == 0);
    CHECK(bench.card.destroyed == 1);
}

TEST_CASE("an async-signal-safe function leaves it to the service thread to quiesce", "[device_quiesce]")
{
    Bench bench;
    ErrorLog errors(bench.card.nic);
    const std::vector<Work> recvs = bench.receives(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    Gate go_on;
    bench.card.on_quiesce = [&](vipl_vi *) { go_on.pass(); };
    VIP_DESCRIPTOR *out = nullptr;
    SECTION("VipRecvDone")
    {
        bench.card.fail_at_poll(bench.vi);
        CHECK(VipRecvDone(bench.vi, &out) == VIP_NOT_DONE);
    }
    SECTION("VipPostSend")
    {
        bench.card.on_send = [](vipl_vi *vi, vipl_send *) {
            vipl_up_fail(vi, VIP_ERROR_CONN_LOST);
            return VIPL_POSTED_PENDING;
        };
        bench.send();
    }
#if defined(SIGUSR1)
    SECTION("VipQueryVi, in a signal handler")
    {
        static Bench *self;
        self = &bench;
        bench.card.fail_at_poll(bench.vi);
        struct sigaction action {
        }, before{};
        action.sa_handler = [](int) {
            VIP_VI_STATE state{};
            VipQueryVi(self->vi, &state, nullptr, nullptr, nullptr);
        };
        sigaction(SIGUSR1, &action, &before);
        raise(SIGUSR1);
        sigaction(SIGUSR1, &before, nullptr);
    }
#endif
    await_quiesces(bench.card, 1);
    CHECK(bench.card.quiesced_by.load() != std::this_thread::get_id());
    CHECK(bench.vi.state() == VIP_STATE_CONNECTED);
    CHECK(VipRecvDone(bench.vi, &out) == VIP_NOT_DONE);
    go_on.open();
    bench.vi.await(VIP_STATE_ERROR);
    CHECK(receive_failed(bench.vi) == recvs[0].desc);
    errors.expect(bench.vi, VIP_ERROR_CONN_LOST);
    REQUIRE_VIP(VipDisconnect(bench.vi));
    CHECK(bench.card.quiesces == 1);
}

TEST_CASE("without a service thread each call quiesces itself", "[device_quiesce]")
{
    Bench bench;
    bench.card.core->progress_mode = VIPL_PROGRESS_INLINE;
    const std::vector<Work> recvs = bench.receives(1);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.card.on_quiesce = [&](vipl_vi *) { CHECK(bench.has_free_locks()); };
    bench.card.fail_at_poll(bench.vi);
    VIP_DESCRIPTOR *out = nullptr;
    CHECK(VipRecvDone(bench.vi, &out) == VIP_DESCRIPTOR_ERROR); // at once
    CHECK(out == recvs[0].desc);
    CHECK(bench.card.quiesced_by.load() == std::this_thread::get_id());
    CHECK(bench.vi.state() == VIP_STATE_ERROR);
}

TEST_CASE("a call that may block quiesces itself, also beside a service thread", "[device_quiesce]")
{
    Bench bench;
    const std::vector<Work> recvs = bench.receives(1);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.card.fail_at_poll(bench.vi);
    VIP_DESCRIPTOR *out = nullptr;
    CHECK(VipRecvWait(bench.vi, patience(), &out) == VIP_DESCRIPTOR_ERROR);
    CHECK(out == recvs[0].desc);
    CHECK(bench.card.quiesced_by.load() == std::this_thread::get_id());
}

TEST_CASE("a service thread that is in a handler of the program is not waited for", "[device_quiesce]")
{
    static Bench *self;
    static Gate *inside, *go_on;
    Bench bench;
    Gate inside_gate, go_on_gate;
    self = &bench;
    inside = &inside_gate;
    go_on = &go_on_gate;
    const std::vector<Work> recvs = bench.receives(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    VIP_DESCRIPTOR *out = nullptr;
    SECTION("by a thread that finds a failure")
    {
        REQUIRE_VIP(
            VipRecvNotify(bench.vi, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {
                inside->open();
                go_on->pass();
                VipDisconnect(self->vi); // nor does it wait for itself
            }));
        bench.card.finish(bench.vi);
        inside->pass();
        bench.card.fail_at_poll(bench.vi);
        CHECK(VipRecvDone(bench.vi, &out) == VIP_DESCRIPTOR_ERROR);
        CHECK(out == recvs[1].desc);
        CHECK(bench.card.quiesced_by.load() == std::this_thread::get_id());
        go_on->open();
    }
    SECTION("by itself, in that handler")
    {
        REQUIRE_VIP(VipRecvNotify(bench.vi, nullptr,
                                  [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *) {
                                      self->card.fail_at_poll(vi);
                                      VIP_DESCRIPTOR *flushed = nullptr;
                                      EXPECT(VipRecvDone(vi, &flushed) == VIP_DESCRIPTOR_ERROR);
                                      VipDisconnect(vi);
                                  }));
        bench.card.finish(bench.vi);
    }
    bench.vi.await(VIP_STATE_IDLE);
    CHECK(bench.card.quiesces == 1);
}

TEST_CASE("closing finishes what the service thread was about to do", "[device_quiesce]")
{
    Bench bench;
    ErrorLog errors(bench.card.nic);
    const std::vector<Work> recvs = bench.receives(1);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    Gate inside, go_on;
    bench.card.on_quiesce = [&](vipl_vi *) {
        inside.open();
        go_on.pass();
    };
    bench.card.fail_at_poll(bench.vi);
    VIP_DESCRIPTOR *out = nullptr;
    CHECK(VipRecvDone(bench.vi, &out) == VIP_NOT_DONE);
    inside.pass();
    std::future<void> closing;
    begin_call(closing, [&] { REQUIRE_VIP(VipCloseNic(bench.card.nic)); });
    CHECK(bench.card.destroyed == 0);
    CHECK(recvs[0].status() == 0);
    go_on.open();
    closing.get();
    CHECK(bench.card.quiesces == 1);
    CHECK(bench.card.destroyed == 1);
    CHECK(recvs[0].status() == kFlushedRecv);
}

TEST_CASE("the trace has what goes to a device with queues of its own", "[device_quiesce]")
{
    const std::string path = make_file();
    set_environment("VIPL_TRACE", path.c_str());
    {
        Bench bench;
        set_environment("VIPL_TRACE", nullptr);
        bench.receives(1);
        REQUIRE_VIP(bench.card.connect(bench.vi));
        bench.card.set_room(0);
        bench.receives(1);
        REQUIRE_VIP(VipDisconnect(bench.vi));
    }
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    file.close();
    std::remove(path.c_str());
    CHECK(text.find("post_recv ") != std::string::npos);
    CHECK(text.find("sequence=0 bytes=64 invalid=0 -> PENDING") != std::string::npos);
    CHECK(text.find("sequence=1 bytes=64 invalid=0 -> AGAIN") != std::string::npos);
    const auto revoke = text.find("revoke "), quiesce = text.find("quiesce "),
               gone = text.find("disconnect ");
    CHECK(revoke < quiesce);
    CHECK(quiesce < gone);
    CHECK(gone != std::string::npos);
}

TEST_CASE("threads post, disconnect, fail and connect again: each descriptor comes back once, in order",
          "[device_quiesce]")
{
    constexpr unsigned rounds = 150, depth = 8;
    Bench bench(GENERATE(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY));
    std::vector<Work> works;
    for (unsigned i = 0; i < depth; ++i) {
        works.push_back(bench.memory.transfer(bench.memory.bytes(64)));
    }
    std::atomic<bool> over{false};
    vipl_vi *const vi = bench.inside();
    std::mutex reporting; // the device has taken a receive, and has not reported it
    bench.card.on_quiesce = [&](vipl_vi *) {
        const std::lock_guard<std::mutex> lock(reporting);
        bench.card.forget(vi);
    };
    std::future<void> device =
        std::async(std::launch::async, [&] { // completes, refuses, and breaks connections
            for (unsigned i = 0; !over; ++i) {
                std::unique_lock<std::mutex> lock(reporting);
                Card::Given one{};
                if (bench.card.take(vi, &one)) {
                    vipl_up_recv_done(vi, one.sequence, i % 50 == 49 ? VIP_STATUS_TRANSPORT_ERROR : 0, 1,
                                      false, nullptr);
                }
                lock.unlock();
                if (i % 1000 == 999) {
                    Card::fail(vi);
                }
                vipl_deferred_run();
                std::this_thread::yield();
            }
        });
    std::future<void> program = std::async(std::launch::async, [&] {
        unsigned posted = 0, taken = 0;
        while (!over || posted != taken) {
            while (!over && posted - taken < depth) {
                post_recv(bench.vi, works[posted++ % depth]);
            }
            VIP_DESCRIPTOR *out = nullptr;
            if (VipRecvDone(bench.vi, &out) != VIP_NOT_DONE) {
                EXPECT(out == works[taken++ % depth].desc);
            } else if (over) {
                VipDisconnect(bench.vi);
            }
        }
    });
    for (unsigned i = 0; i < rounds; ++i) {
        const VIP_RETURN rc = bench.card.connect(bench.vi);
        EXPECT(rc == VIP_SUCCESS || rc == VIP_INVALID_STATE);
        give_way();
        std::future<void> other = std::async(std::launch::async, [&] { VipDisconnect(bench.vi); });
        VipDisconnect(bench.vi);
        other.get();
    }
    bench.card.connect(bench.vi);
    over = true;
    device.get();
    program.get();
    CHECK(bench.card.revokes == bench.card.quiesces);
    CHECK(bench.card.revokes == bench.card.disconnects);
    CHECK_FALSE(vi->unknown_done_logged);
}
