// SPDX-License-Identifier: MIT
//
// Connections beside strangers, and on a card that is reset, pulled out, or takes nothing for a
// while. (The device rnic; see rnic_stranger.hpp.)
#include <chrono>
#include <random>
#include <vector>

#include "rnic_stranger.hpp"
#include "support/system.hpp"

using namespace unit;

TEST_CASE("a stranger's messages about a connection do not touch it", "[rnic_connected]")
{
    Connected pair;
    Stranger stranger;
    for (std::uint32_t qp = 0; qp < 8; ++qp) {
        for (const unsigned kind : {RNIC_CONTROL_ACCEPT, RNIC_CONTROL_REJECT, RNIC_CONTROL_READY,
                                    RNIC_CONTROL_DISCONNECT, RNIC_CONTROL_CANCEL, RNIC_CONTROL_REFUSED}) {
            cm_message m = {};
            m.kind = static_cast<std::uint8_t>(kind);
            m.reason = kind == RNIC_CONTROL_REJECT || kind == RNIC_CONTROL_REFUSED ? 1 : 0;
            m.source_qp = qp;
            m.destination_qp = qp;
            m.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
            stranger.send(0, m);
        }
    }
    pair.check_alive();
}

TEST_CASE("bytes that are no message cost nobody anything", "[rnic_connected]")
{
    Connected pair;
    Stranger stranger;
    std::mt19937 random(7);
    for (unsigned i = 0; i < 2000; ++i) {
        std::vector<std::uint8_t> bytes(16 + random() % 100);
        for (std::uint8_t &each : bytes) {
            each = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : random() % 5);
        }
        bytes[0] = static_cast<std::uint8_t>(3 + random() % 6); // what may go from function to function
        stranger.send_raw(0, bytes);
        pair.check_alive();
    }
}

TEST_CASE("a function that is reset while it exchanges is noticed within a second, and can be opened again",
          "[rnic_connected]")
{
    auto last = std::chrono::steady_clock::now();
    {
        vipl_test::set_environment("VIPL_RNIC_FAULTS", "reset=@2000");
        Connected pair;
        vipl_test::set_environment("VIPL_RNIC_FAULTS", nullptr);
        alignas(64) static VIP_DESCRIPTOR works[2];
        VIP_MEM_ATTRIBUTES memory = {};
        VIP_MEM_HANDLE tag = 0;
        REQUIRE(VipRegisterMem(pair.handle.nic, works, sizeof(works), &memory, &tag) == VIP_SUCCESS);
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN rc = VIP_SUCCESS;
        unsigned count = 0;
        for (; rc == VIP_SUCCESS && count < 5000; ++count) {
            last = std::chrono::steady_clock::now();
            for (VIP_DESCRIPTOR &each : works) {
                each = VIP_DESCRIPTOR{};
                each.CS.Control = VIP_CONTROL_OP_SENDRECV;
            }
            REQUIRE(VipPostRecv(pair.b, &works[0], tag) == VIP_SUCCESS);
            REQUIRE(VipPostSend(pair.a, &works[1], tag) == VIP_SUCCESS);
            const VIP_RETURN received = VipRecvWait(pair.b, 10000, &done),
                             sent = VipSendWait(pair.a, 10000, &done);
            rc = received != VIP_SUCCESS ? received : sent;
        }
        CHECK(rc == VIP_DESCRIPTOR_ERROR);
        CHECK(count > 10);
        CHECK(std::chrono::steady_clock::now() - last <
              std::chrono::seconds(3)); // one, and what a busy machine takes
        CHECK(Handle::state(pair.a) == VIP_STATE_ERROR);
        CHECK(Handle::state(pair.b) == VIP_STATE_ERROR);
        CHECK(VipDeregisterMem(pair.handle.nic, works, tag) == VIP_SUCCESS);
    }
    Connected again;
    again.check_alive();
}

TEST_CASE("a card that is pulled out is noticed by a program that only waits for a message",
          "[rnic_connected]")
{
    vipl_test::set_environment("VIPL_RNIC_FAULTS", "removed=@400");
    Connected pair;
    vipl_test::set_environment("VIPL_RNIC_FAULTS", nullptr);
    alignas(64) static VIP_DESCRIPTOR receive;
    VIP_MEM_ATTRIBUTES memory = {};
    VIP_MEM_HANDLE tag = 0;
    REQUIRE(VipRegisterMem(pair.handle.nic, &receive, sizeof(receive), &memory, &tag) == VIP_SUCCESS);
    receive = VIP_DESCRIPTOR{};
    receive.CS.Control = VIP_CONTROL_OP_SENDRECV;
    REQUIRE(VipPostRecv(pair.a, &receive, tag) == VIP_SUCCESS);
    Call wait([&] {
        VIP_DESCRIPTOR *done = nullptr;
        return VipRecvWait(pair.a, 10000, &done);
    });
    Stranger stranger;
    for (unsigned i = 0; i < 400 && !vipl_rnic_probe(stranger.rnic); ++i) {
    }
    const auto begun = std::chrono::steady_clock::now();
    CHECK(vipl_rnic_is_dead(stranger.rnic));
    CHECK(wait.join() == VIP_DESCRIPTOR_ERROR);
    CHECK(std::chrono::steady_clock::now() - begun <
          std::chrono::seconds(3)); // one, and what a busy machine takes
    CHECK(VipDeregisterMem(pair.handle.nic, &receive, tag) == VIP_SUCCESS);
}

TEST_CASE("a card that is pulled out breaks connections within a second, and ends what waits",
          "[rnic_connected]")
{
    vipl_test::set_environment("VIPL_RNIC_FAULTS", "removed=@400");
    Connected pair;
    vipl_test::set_environment("VIPL_RNIC_FAULTS", nullptr);
    VIP_VI_HANDLE waiting = pair.handle.vi();
    NetAddress local = pair.handle.address("x"), remote = pair.handle.address("nobody");
    VIP_VI_ATTRIBUTES seen;
    std::chrono::steady_clock::time_point begun;
    Call connect([&] { return VipConnectRequest(waiting, local, remote, 60000, &seen); });
    {
        Stranger stranger;
        REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "nobody", 6) == 0);
        REQUIRE(stranger.await(RNIC_CONTROL_REQUEST).kind == RNIC_CONTROL_REQUEST); // it is under way
        for (unsigned i = 0; i < 400 && !vipl_rnic_probe(stranger.rnic); ++i) {
        }
        begun = std::chrono::steady_clock::now();
        CHECK(vipl_rnic_is_dead(stranger.rnic));
    }
    CHECK(connect.join() == VIP_NOT_REACHABLE);
    while (Handle::state(pair.a) != VIP_STATE_ERROR &&
           std::chrono::steady_clock::now() - begun < std::chrono::seconds(10)) {
        give_way();
    }
    CHECK(std::chrono::steady_clock::now() - begun <
          std::chrono::seconds(3)); // one, and what a busy machine takes
    CHECK(Handle::state(pair.a) == VIP_STATE_ERROR);
    CHECK(Handle::state(pair.b) == VIP_STATE_ERROR);
    CHECK(VipDestroyVi(waiting) == VIP_SUCCESS);
}

TEST_CASE("a message that comes before the word of readiness waits, also after an attempt that failed",
          "[rnic_connected]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    Descriptor receive(handle.nic);
    const VIP_VI_HANDLE vi = handle.vi();
    REQUIRE(VipPostRecv(vi, &receive.work, receive.tag) == VIP_SUCCESS);
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    const unsigned attempts = GENERATE(0u, 1u, 2u);
    for (std::uint32_t serial = 1; serial <= attempts; ++serial) {
        stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", serial));
        REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
        Call accept([&] { return VipConnectAccept(conn, vi); });
        stranger.send(stranger.from,
                      stranger.about(stranger.await(RNIC_CONTROL_ACCEPT), RNIC_CONTROL_DISCONNECT));
        REQUIRE(accept.join() == VIP_TIMEOUT);
    }
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 9));
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    Call accept([&] { return VipConnectAccept(conn, vi); });
    const cm_message accepted = stranger.await(RNIC_CONTROL_ACCEPT);
    REQUIRE(accepted.serial == 9);
    stranger.meet(accepted, RNIC_QP_STATE_CONNECTED);
    stranger.post(VIPL_RNIC_SQ);
    // Readiness would be behind the message. So the acceptor gives up; until then nothing is
    // refused.
    CHECK(accept.join() == VIP_TIMEOUT);
    vipl_rnic_event event;
    vipl_rnic_progress(stranger.rnic);
    while (vipl_rnic_next_event(stranger.rnic, &event)) {
        CHECK(event.kind != RNIC_EVENT_QP_ERROR);
    }
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("what was posted before a disconnect is sent, also if an attempt to connect had failed before",
          "[rnic_connected]")
{
    vipl_test::set_environment("VIPL_LINGER", "0");
    Handle handle;
    vipl_test::set_environment("VIPL_LINGER", nullptr);
    Stranger stranger(RNIC_LEVEL_RECEPTION); // a send is complete when its message has been taken
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "stranger", 8) == 0);
    Descriptor send(handle.nic);
    const VIP_VI_HANDLE vi = handle.vi(VIP_SERVICE_RELIABLE_RECEPTION);
    NetAddress local = handle.address("x"), remote = handle.address("stranger"),
               nobody = handle.address("nobody");
    VIP_VI_ATTRIBUTES seen;
    const bool failed_before = GENERATE(false, true);
    if (failed_before) {
        REQUIRE(VipConnectRequest(vi, local, nobody, 0, &seen) == VIP_NO_MATCH);
    }
    Call connect([&] { return VipConnectRequest(vi, local, remote, kLong, &seen); });
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    REQUIRE(request.kind == RNIC_CONTROL_REQUEST);
    stranger.meet(request, RNIC_QP_STATE_RECEIVE);
    vipl_rnic_hold_rq(&stranger.qp, true); // the message waits
    cm_message accept = stranger.acceptance(request);
    stranger.send(stranger.from, accept);
    REQUIRE(connect.join() == VIP_SUCCESS);
    REQUIRE(VipPostSend(vi, &send.work, send.tag) == VIP_SUCCESS);

    Call disconnect([&] { return VipDisconnect(vi); });
    for (const std::uint64_t end = vipl_now_ns() + kShort * UINT64_C(1000000);
         Handle::state(vi) == VIP_STATE_CONNECTED && vipl_now_ns() < end;) {
        give_way();
    }
    stranger.post(VIPL_RNIC_RQ);
    vipl_rnic_hold_rq(&stranger.qp, false);
    CHECK(disconnect.join() == VIP_SUCCESS);
    VIP_DESCRIPTOR *done = nullptr;
    CHECK(VipSendDone(vi, &done) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a peer whose function takes nothing for a while hears of a disconnect afterwards",
          "[rnic_connected]")
{
    constexpr VIP_ULONG kBig = 4 << 20; // more than is under way at once
    Handle handle;
    Stranger stranger(RNIC_LEVEL_RECEPTION);
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "stranger", 8) == 0);
    std::vector<std::uint8_t> data(kBig);
    VIP_MEM_ATTRIBUTES memory = {};
    VIP_MEM_HANDLE tag = 0;
    REQUIRE(VipRegisterMem(handle.nic, data.data(), kBig, &memory, &tag) == VIP_SUCCESS);
    Descriptor send(handle.nic);
    send.work.CS.SegCount = 1;
    send.work.CS.Length = kBig;
    send.work.DS[0].Local.Data.Address = data.data();
    send.work.DS[0].Local.Handle = tag;
    send.work.DS[0].Local.Length = kBig;
    NetAddress local = handle.address("x"), remote = handle.address("stranger");
    std::uint32_t serial = 0;
    VIP_VI_HANDLE vis[2];
    for (VIP_VI_HANDLE &vi : vis) { // only the first one has a queue pair at the other end
        VIP_VI_ATTRIBUTES seen;
        vi = handle.vi(VIP_SERVICE_RELIABLE_RECEPTION, kBig);
        Call connect([&] { return VipConnectRequest(vi, local, remote, kLong, &seen); });
        const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
        REQUIRE(request.kind == RNIC_CONTROL_REQUEST);
        cm_message accept = stranger.acceptance(request);
        accept.source_qp += &vi == vis ? 0 : 1000;
        if (&vi == vis) {
            stranger.meet(request, RNIC_QP_STATE_RECEIVE);
            vipl_rnic_hold_rq(&stranger.qp, true);
        }
        stranger.send(stranger.from, accept);
        REQUIRE(connect.join() == VIP_SUCCESS);
        serial = request.serial;
    }
    REQUIRE(VipPostSend(vis[0], &send.work, send.tag) == VIP_SUCCESS); // the function takes nothing behind it
    CHECK(VipDisconnect(vis[1]) == VIP_SUCCESS);
    vipl_rnic_hold_rq(&stranger.qp, false);
    cm_message heard;
    do {
        heard = stranger.await(RNIC_CONTROL_DISCONNECT);
    } while (heard.kind != 0 && heard.serial != serial);
    CHECK(heard.serial == serial);
    CHECK(VipDisconnect(vis[0]) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vis[0]) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vis[1]) == VIP_SUCCESS);
    CHECK(VipDeregisterMem(handle.nic, data.data(), tag) == VIP_SUCCESS);
}

TEST_CASE("what is posted is the card's when the call returns, also where a ring has to be made first",
          "[rnic_connected]")
{
    vipl_test::set_environment("VIPL_PROGRESS", "inline"); // no other thread makes the room
    Handle handle;
    vipl_test::set_environment("VIPL_PROGRESS", nullptr);
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "stranger", 8) == 0);
    Descriptor send(handle.nic);
    const VIP_VI_HANDLE vi = handle.vi();
    NetAddress local = handle.address("x"), remote = handle.address("stranger");
    VIP_VI_ATTRIBUTES seen;
    Call connect([&] { return VipConnectRequest(vi, local, remote, kLong, &seen); });
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    REQUIRE(request.kind == RNIC_CONTROL_REQUEST);
    stranger.meet(request, RNIC_QP_STATE_RECEIVE);
    stranger.post(VIPL_RNIC_RQ);
    cm_message accept = stranger.acceptance(request);
    stranger.send(stranger.from, accept);
    REQUIRE(connect.join() == VIP_SUCCESS);
    REQUIRE(VipPostSend(vi, &send.work, send.tag) == VIP_SUCCESS);
    vipl_rnic_completion first = {};
    for (const std::uint64_t end = vipl_now_ns() + kLong * UINT64_C(1000000);
         vipl_rnic_poll_cq(stranger.cq, &first, 1) == 0 && vipl_now_ns() < end;) {
        vipl_rnic_progress(stranger.rnic);
    }
    CHECK(first.opcode == RNIC_WORK_RECEIVE);
    CHECK(first.status == RNIC_STATUS_OK);
    VIP_DESCRIPTOR *done = nullptr;
    CHECK(VipSendWait(vi, kLong, &done) == VIP_SUCCESS);
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}
