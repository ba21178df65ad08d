// SPDX-License-Identifier: MIT
//
// Receives that a device takes when they are posted: when it gets which, what it is told of them,
// what becomes of them when it reports them done, and that it gives them up when a connection does
// not come about.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <future>

#include "card.hpp"
#include "support/begin_call.hpp"
#include "support/error_log.hpp"
#include "support/stderr_of.hpp"

using namespace unit;
using namespace vipl_test;

namespace {

using Numbers = std::vector<std::uint32_t>;

/** A card, a VI on it, and memory. */
struct Bench {
    explicit Bench(VIP_RELIABILITY_LEVEL level = VIP_SERVICE_UNRELIABLE, bool with_cq = false)
        : memory(card.nic), cq(card.nic),
          vi(card.nic, vi_attributes(level), nullptr, with_cq ? VIP_CQ_HANDLE(cq) : nullptr)
    {
    }

    std::vector<Work> post(unsigned count, std::size_t bytes = 64)
    {
        std::vector<Work> works;
        for (unsigned i = 0; i < count; ++i) {
            works.push_back(memory.transfer(memory.bytes(bytes)));
            post_recv(vi, works.back());
        }
        return works;
    }
    void done(std::uint32_t sequence, std::uint32_t status = 0, std::uint32_t length = 0, bool rdma = false,
              const std::uint32_t *immediate = nullptr)
    {
        vipl_up_recv_done(vi_of(vi), sequence, status, length, rdma, immediate);
        vipl_deferred_run(); // as behind a poll
    }
    void missing()
    {
        vipl_up_recv_missing(vi_of(vi));
        vipl_deferred_run();
    }
    /** What has come back: NULL if nothing has. */
    VIP_DESCRIPTOR *reap(VIP_RETURN expected = VIP_SUCCESS)
    {
        VIP_DESCRIPTOR *out = nullptr;
        const VIP_RETURN rc = VipRecvDone(vi, &out);
        CHECK(rc == (out == nullptr ? VIP_NOT_DONE : expected));
        return out;
    }

    Card card;
    Memory memory;
    Cq cq;
    Vi vi;
};

} // namespace

TEST_CASE("receives go to the device when the VI begins to connect, in order, and then as they are posted",
          "[device_receives]")
{
    Bench bench;
    std::vector<Work> works = bench.post(3);
    CHECK(bench.card.given().empty());
    Numbers before_connect;
    bench.card.on_connect = [&](vipl_vi *) {
        before_connect = bench.card.sequences();
        return VIP_SUCCESS;
    };
    REQUIRE_VIP(VipConnectPeerRequest(bench.vi, bench.card.nic.address("a"), bench.card.nic.address("b"),
                                      patience()));
    CHECK(before_connect == Numbers{0, 1, 2});
    works.push_back(bench.post(1)[0]); // while it connects
    vipl_vi_params params;
    vipl_up_vi_params(vi_of(bench.vi), &params);
    REQUIRE(vipl_up_connected(vi_of(bench.vi), &params));
    works.push_back(bench.post(1)[0]);
    const auto given = bench.card.given();
    REQUIRE(given.size() == 5);
    for (unsigned i = 0; i < 5; ++i) {
        CHECK(given[i].vi == vi_of(bench.vi));
        CHECK(given[i].sequence == i);
        CHECK_FALSE(given[i].invalid);
        CHECK(given[i].pieces == std::vector<Piece>{piece(works[i].buffer)});
    }
    CHECK(bench.card.recvs_offered == 5);
}

TEST_CASE("a VI that accepts has handed its receives over before", "[device_receives]")
{
    Bench bench(VIP_SERVICE_RELIABLE_DELIVERY);
    bench.post(2);
    const VIP_CONN_HANDLE conn = bench.card.request("listening");
    Numbers before;
    SECTION("and keeps them when it fails")
    {
        bench.card.on_accept = [&](vipl_vi *) {
            before = bench.card.sequences();
            bench.card.forget(vi_of(bench.vi));
            return VIP_ERROR_RESOURCE;
        };
        CHECK(VipConnectAccept(conn, bench.vi) == VIP_ERROR_RESOURCE);
        CHECK(before == Numbers{0, 1});
        CHECK(bench.vi.state() == VIP_STATE_IDLE);
        bench.done(0, 0, 5);
        CHECK(bench.reap() == nullptr);
        bench.card.on_accept = nullptr;
    }
    SECTION("and the device completes them")
    {
    }
    REQUIRE_VIP(VipConnectAccept(conn, bench.vi));
    CHECK(bench.card.sequences() == Numbers{0, 1});
    bench.card.finish(bench.vi, 0, 10);
    CHECK(bench.reap()->CS.Length == 10);
}

TEST_CASE("a device without room gets the rest later, in order", "[device_receives]")
{
    Bench bench;
    bench.card.set_room(2);
    const std::vector<Work> works = bench.post(4);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    CHECK(bench.card.sequences() == Numbers{0, 1});
    bench.post(1); // not past those that wait
    CHECK(bench.card.sequences() == Numbers{0, 1});
    vipl_up_recv_resume(vi_of(bench.vi)); // there is still no room
    CHECK(bench.card.sequences() == Numbers{0, 1});
    bench.card.finish(bench.vi);
    vipl_up_recv_resume(vi_of(bench.vi));
    CHECK(bench.card.sequences() == Numbers{1, 2});
    bench.card.set_room(10);
    vipl_up_recv_resume(vi_of(bench.vi));
    CHECK(bench.card.sequences() == Numbers{1, 2, 3, 4});
    CHECK(bench.reap() == works[0].desc);
    CHECK(bench.reap() == nullptr);
}

TEST_CASE("resuming an idle VI, or one that has failed, hands nothing over", "[device_receives]")
{
    Bench bench;
    bench.card.set_room(0);
    bench.post(2);
    vipl_up_recv_resume(vi_of(bench.vi));
    CHECK(bench.card.recvs_offered == 0);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    CHECK(bench.card.recvs_offered == 1);
    bench.card.set_room(10);
    Card::fail(vi_of(bench.vi));
    vipl_up_recv_resume(vi_of(bench.vi));
    CHECK(bench.card.recvs_offered == 1);
    vipl_deferred_run();
    CHECK(bench.vi.state() == VIP_STATE_ERROR);
    vipl_up_recv_resume(vi_of(bench.vi));
    CHECK(bench.card.recvs_offered == 1);
    REQUIRE_VIP(VipDisconnect(bench.vi));
    CHECK(bench.vi.state() == VIP_STATE_IDLE);
}

TEST_CASE("a receive that the device has done is as any other", "[device_receives]")
{
    Bench bench(VIP_SERVICE_RELIABLE_DELIVERY);
    const std::vector<Work> works = bench.post(4);
    const std::uint32_t immediate = 0x1234;
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.done(0, 0, 60);
    bench.done(1, 0, 20, false, &immediate);
    bench.done(2, 0, 5000, true, &immediate);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(bench.reap() == works[i].desc);
    }
    CHECK(works[0].status() == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE));
    CHECK(works[0].desc->CS.Length == 60);
    CHECK(works[1].status() == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
    CHECK(works[1].desc->CS.ImmediateData == immediate);
    CHECK(works[2].status() == (VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE));
    CHECK(works[2].desc->CS.Length == 5000);
    CHECK(works[3].status() == 0);
    const vipl_queue &q = vi_of(bench.vi)->recv;
    CHECK(q.done[VIP_CONTROL_OP_SENDRECV].works == 3);
    CHECK(q.done[VIP_CONTROL_OP_SENDRECV].bytes == 5080);
    CHECK(bench.reap() == nullptr);
}

TEST_CASE("completion queues, waiting threads and handlers hear of what a device has done",
          "[device_receives]")
{
    SECTION("a completion queue")
    {
        Bench bench(VIP_SERVICE_UNRELIABLE, true);
        bench.post(1);
        REQUIRE_VIP(bench.card.connect(bench.vi));
        bench.card.finish(bench.vi);
        bench.cq.expect(bench.vi, VIP_TRUE);
    }
    SECTION("a thread")
    {
        Bench bench;
        bench.post(1);
        REQUIRE_VIP(bench.card.connect(bench.vi));
        std::future<void> waiting;
        begin_call(waiting, [&] {
            VIP_DESCRIPTOR *out = nullptr;
            REQUIRE_VIP(VipRecvWait(bench.vi, patience(), &out));
        });
        bench.card.finish(bench.vi);
        waiting.get();
    }
    SECTION("a handler")
    {
        Bench bench;
        std::promise<VIP_DESCRIPTOR *> heard;
        const std::vector<Work> works = bench.post(1);
        REQUIRE_VIP(bench.card.connect(bench.vi));
        REQUIRE_VIP(VipRecvNotify(bench.vi, &heard,
                                  [](VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *done) {
                                      static_cast<std::promise<VIP_DESCRIPTOR *> *>(context)->set_value(done);
                                  }));
        bench.card.finish(bench.vi);
        CHECK(heard.get_future().get() == works[0].desc);
    }
}

TEST_CASE("a report of a receive that the device does not have changes nothing, and is logged once",
          "[device_receives]")
{
    set_environment("VIPL_LOG", nullptr);
    Bench bench;
    const std::vector<Work> works = bench.post(3);
    const std::string idle = stderr_of([&] { bench.done(0); }); // it has none yet
    CHECK(std::count(idle.begin(), idle.end(), '\n') == 1);
    bench.card.set_room(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    const std::string log = stderr_of([&] {
        for (const std::uint32_t wrong : {2u, 3u, 0xFFFFFFFFu}) {
            bench.done(wrong);
        }
        bench.done(0, 0, 1);
        bench.done(0, 0, 2);
    });
    CHECK(log.empty()); // once for a VI
    CHECK(bench.reap() == works[0].desc);
    CHECK(works[0].desc->CS.Length == 1);
    CHECK(bench.reap() == nullptr);
    CHECK(bench.vi.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("receives that are reported out of order come back in order", "[device_receives]")
{
    Bench bench;
    const std::vector<Work> works = bench.post(3);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.done(2);
    bench.done(1);
    CHECK(bench.reap() == nullptr);
    bench.done(0);
    for (const Work &each : works) {
        CHECK(bench.reap() == each.desc);
    }
}

TEST_CASE("a receive that failed ends the connection of a reliable VI, and of no other", "[device_receives]")
{
    const VIP_RELIABILITY_LEVEL level =
        GENERATE(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION);
    Bench bench(level);
    ErrorLog errors(bench.card.nic);
    const std::vector<Work> works = bench.post(2);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.done(0, VIP_STATUS_LENGTH_ERROR, 4000);
    CHECK(bench.reap(VIP_DESCRIPTOR_ERROR) == works[0].desc);
    CHECK(works[0].status() == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR));
    CHECK(works[0].desc->CS.Length == 0);
    if (level == VIP_SERVICE_UNRELIABLE) {
        CHECK(bench.vi.state() == VIP_STATE_CONNECTED);
        bench.done(1);
        CHECK(bench.reap() == works[1].desc);
        errors.expect_none();
    } else {
        bench.vi.await(VIP_STATE_ERROR);
        errors.expect(bench.vi, VIP_ERROR_CONN_LOST);
        CHECK(bench.reap(VIP_DESCRIPTOR_ERROR) == works[1].desc);
        CHECK(works[1].status() == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR));
    }
}

TEST_CASE("a message that finds no receive is reported, and ends the connection of a reliable VI",
          "[device_receives]")
{
    const VIP_RELIABILITY_LEVEL level = GENERATE(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY);
    Bench bench(level);
    ErrorLog errors(bench.card.nic);
    bench.missing(); // an idle VI gets no messages
    errors.expect_none();
    REQUIRE_VIP(bench.card.connect(bench.vi));
    bench.missing();
    if (level != VIP_SERVICE_UNRELIABLE) {
        bench.vi.await(VIP_STATE_ERROR);
    }
    errors.expect(bench.vi, VIP_ERROR_RECVQ_EMPTY);
    CHECK(bench.vi.state() == (level == VIP_SERVICE_UNRELIABLE ? VIP_STATE_CONNECTED : VIP_STATE_ERROR));
    if (level != VIP_SERVICE_UNRELIABLE) {
        bench.missing();
        errors.expect_none();
    }
}

TEST_CASE("a malformed receive fails whatever message finds it, but for an RDMA Write", "[device_receives]")
{
    Bench bench;
    const Span span = bench.memory.bytes(64);
    Work wrong_op = bench.memory.transfer(span).op(VIP_CONTROL_OP_RDMAREAD);
    Work wrong_too = bench.memory.transfer(span).op(VIP_CONTROL_OP_RDMAREAD);
    Work written = bench.memory.transfer(span).op(VIP_CONTROL_OP_RDMAWRITE);
    post_recv(bench.vi, wrong_op);
    post_recv(bench.vi, wrong_too);
    post_recv(bench.vi, written);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    for (const Card::Given &each : bench.card.given()) {
        CHECK(each.invalid);
        CHECK(each.pieces.empty());
    }
    bench.done(0, VIP_STATUS_LENGTH_ERROR, 64);
    CHECK(bench.reap(VIP_DESCRIPTOR_ERROR) == wrong_op.desc);
    CHECK(wrong_op.status() == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_FORMAT_ERROR));
    bench.done(1); // a device that has not looked
    CHECK((bench.reap(VIP_DESCRIPTOR_ERROR)->CS.Status & VIP_STATUS_FORMAT_ERROR) != 0);
    const std::uint32_t immediate = 9;
    bench.done(2, 0, 4000, true, &immediate);
    CHECK(bench.reap() == written.desc);
}

TEST_CASE("a receive longer than any message is given as far as a message may reach", "[device_receives]")
{
    Bench bench;
    const Span span = bench.memory.bytes(kTransferSize + 64);
    Work long_one = bench.memory.transfer(span);
    Work pieces = bench.memory.work(4);
    pieces.local(span.part(0, 100)).local(span.part(100, kTransferSize - 50)).local(span.part(0, 100));
    Work beyond = bench.memory.work(2); // and what comes behind that need not be the VI's
    beyond.local(span.part(0, kTransferSize)).local({span.data, 8, 77});
    for (const Work *work : {&long_one, &pieces, &beyond}) {
        post_recv(bench.vi, *work);
    }
    REQUIRE_VIP(bench.card.connect(bench.vi));
    for (const Card::Given &each : bench.card.given()) {
        CHECK(!each.invalid);
        std::size_t sum = 0;
        for (const auto &piece : each.pieces) {
            sum += piece.bytes;
        }
        CHECK(sum == kTransferSize);
    }
    bench.done(0, 0, kTransferSize);
    CHECK(bench.reap() == long_one.desc);
    bench.done(1, 0, 8);
    CHECK(bench.reap() == pieces.desc);
    bench.done(2, VIP_STATUS_LENGTH_ERROR, kTransferSize + 8); // longer than any message is
    CHECK((bench.reap(VIP_DESCRIPTOR_ERROR)->CS.Status & VIP_STATUS_LENGTH_ERROR) != 0);
}

TEST_CASE("a receive that reaches beyond its memory is good for messages that do not", "[device_receives]")
{
    Bench bench;
    Memory small(bench.card.nic, 4096);
    const Span good = bench.memory.bytes(100);
    const Span end{small.data() + 4096 - 10, 30, small.handle()}; // 10 bytes of it are there
    const Span behind = bench.memory.bytes(50);
    const auto receive = [&] {
        Work work = bench.memory.work(3);
        work.local(good).local(end).local(behind);
        post_recv(bench.vi, work);
        return work;
    };
    const std::vector<Work> works = {receive(), receive(), receive()};
    Work nowhere = bench.memory.transfer({small.data(), 16, 0x7777});
    post_recv(bench.vi, nowhere);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    const auto given = bench.card.given();
    REQUIRE(given.size() == 4);
    CHECK_FALSE(given[0].invalid);
    CHECK(given[0].pieces == std::vector<Piece>{piece(good), {end.data, 10, end.handle}});
    CHECK_FALSE(given[3].invalid);
    CHECK(given[3].pieces.empty());
    bench.done(0, 0, 110);
    CHECK(bench.reap() == works[0].desc);
    bench.done(1, VIP_STATUS_LENGTH_ERROR, 111); // into memory that is not there
    CHECK(bench.reap(VIP_DESCRIPTOR_ERROR)->CS.Status ==
          (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_PROTECTION_ERROR));
    bench.done(2, VIP_STATUS_LENGTH_ERROR, 181); // longer than the receive
    CHECK(bench.reap(VIP_DESCRIPTOR_ERROR)->CS.Status ==
          (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR));
    bench.done(3); // a message without data
    CHECK(bench.reap() == nowhere.desc);
}

TEST_CASE("memory of another tag is not the VI's", "[device_receives]")
{
    Bench bench;
    const Ptag mine(bench.card.nic), other(bench.card.nic);
    VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE);
    attributes.Ptag = mine;
    const Vi vi(bench.card.nic, attributes);
    Memory own(bench.card.nic, 4096, {mine, VIP_FALSE, VIP_FALSE});
    Memory foreign(bench.card.nic, 4096, {other, VIP_FALSE, VIP_FALSE});
    const Span a = own.bytes(8), b = foreign.bytes(8);
    Work work = own.transfer(a);
    work.local(b);
    post_recv(vi, work);
    REQUIRE_VIP(bench.card.connect(vi));
    CHECK(bench.card.given().at(0).pieces == std::vector<Piece>{piece(a)});
    bench.card.finish(vi, VIP_STATUS_LENGTH_ERROR, 16);
    CHECK((receive_failed(vi)->CS.Status & VIP_STATUS_PROTECTION_ERROR) != 0);
}

TEST_CASE("a receive that is refused when it is posted does not go to the device", "[device_receives]")
{
    Bench bench;
    const std::vector<Work> first = bench.post(1);
    Work unaligned = bench.memory.work(4);
    unaligned.desc = reinterpret_cast<VIP_DESCRIPTOR *>(reinterpret_cast<char *>(unaligned.desc) + 16);
    post_recv(bench.vi, unaligned);
    const std::vector<Work> last = bench.post(1);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    CHECK(bench.card.sequences() == Numbers{0, 2});
    bench.done(2);
    bench.done(1);
    CHECK(bench.reap() == nullptr);
    bench.done(0);
    CHECK(bench.reap() == first[0].desc);
    CHECK(bench.reap(VIP_DESCRIPTOR_ERROR) == unaligned.desc);
    CHECK(bench.reap() == last[0].desc);
}

TEST_CASE("when a request fails the receives are core's again, and go to the device at the next one",
          "[device_receives]")
{
    Bench bench;
    bench.card.set_room(3);
    const std::vector<Work> works = bench.post(4);
    vipl_vi *const vi = vi_of(bench.vi);
    const auto give_up = [&](vipl_vi *which) { bench.card.forget(which); };
    VIP_RETURN expected = VIP_SUCCESS;
    bench.card.on_cancel = [&](vipl_vi *which) {
        give_up(which);
        return VIP_NO_MATCH;
    };
    VIP_ULONG timeout = patience();
    SECTION("the request cannot be made")
    {
        expected = VIP_NOT_REACHABLE;
        bench.card.on_connect = [&](vipl_vi *which) {
            bench.done(0, 0, 33); // a message came early
            give_up(which);
            return VIP_NOT_REACHABLE;
        };
    }
    SECTION("it is rejected")
    {
        expected = VIP_REJECT;
        bench.card.on_connect = [&](vipl_vi *which) {
            bench.done(0, 0, 33);
            give_up(which);
            vipl_up_connect_failed(which, VIP_REJECT);
            return VIP_SUCCESS;
        };
    }
    SECTION("its time is up")
    {
        expected = VIP_NO_MATCH;
        timeout = 1;
        bench.card.on_connect = [&](vipl_vi *) {
            bench.done(0, 0, 33);
            return VIP_SUCCESS;
        };
    }
    CHECK(bench.card.connect(bench.vi, timeout) == expected);
    CHECK(bench.vi.state() == VIP_STATE_IDLE);
    CHECK(bench.reap() == works[0].desc);
    bench.done(1); // too late
    CHECK(bench.reap() == nullptr);
    CHECK(bench.card.quiesces == 0); // the program gets nothing back
    bench.card.on_connect = nullptr;
    bench.card.set_room(10);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    CHECK(bench.card.sequences() == Numbers{1, 2, 3});
    for (unsigned i = 1; i < 4; ++i) {
        bench.card.finish(bench.vi, 0, i);
        CHECK(bench.reap() == works[i].desc);
        CHECK(works[i].desc->CS.Length == i);
    }
    CHECK(vi->recv.executed == vi->recv.posted);
}

TEST_CASE("the hook has only those operations that the backend has", "[device_receives]")
{
    const Card with, without(Card::Hook::around, false);
    CHECK(with.core->ops->post_recv != nullptr);
    CHECK(with.core->ops->quiesce != nullptr);
    CHECK(with.core->ops->chooses_handles);
    CHECK(without.core->ops->post_recv == nullptr);
    CHECK(without.core->ops->quiesce == nullptr);
    const Nic software("loopback", false);
    const auto *core = static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, software.handle()));
    CHECK(core->ops->post_recv == nullptr);
    CHECK(core->ops->quiesce == nullptr);
    CHECK_FALSE(core->ops->chooses_handles);
}

TEST_CASE("the device completes receives while the program posts and takes them", "[device_receives]")
{
    constexpr unsigned count = 2000, depth = 16;
    Bench bench(VIP_SERVICE_RELIABLE_DELIVERY);
    bench.card.set_room(depth / 2); // some wait for room
    std::vector<Work> works = bench.post(depth);
    REQUIRE_VIP(bench.card.connect(bench.vi));
    std::atomic<bool> over{false};
    std::future<void> device = std::async(std::launch::async, [&] {
        for (std::uint32_t i = 0; !over;) {
            Card::Given one{};
            if (bench.card.take(vi_of(bench.vi), &one)) {
                EXPECT_EQ(i, one.sequence);
                bench.done(one.sequence, 0, i++ % 64);
                vipl_up_recv_resume(one.vi);
            }
        }
    });
    for (unsigned i = 0; i < count; ++i) {
        VIP_DESCRIPTOR *const out = received(bench.vi);
        EXPECT(out == works[i % depth].desc);
        EXPECT_EQ(i % 64, out->CS.Length);
        out->CS.Length = 0;
        post_recv(bench.vi, works[i % depth]);
    }
    over = true;
    device.get();
}
