// SPDX-License-Identifier: MIT
//
// The device rnic beside a driver that does what it likes: a second function of the same card sends control messages that are wrong, late,
// repeated, or of connections that are not its own. A program's connections stay, and its calls end.
#include <catch2/catch.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "clock.hpp"
#include "support/net_address.hpp"
#include "support/objects.hpp"

#define _Static_assert static_assert
extern "C" {
#include "backends/rnic/cm.h"
#include "backends/rnic/verbs.h"
#include "os/os.h"
}

using namespace vipl_test;

namespace {

constexpr const char *kDevice = "rnic:inproc";
constexpr VIP_ULONG kLong = 5000, kShort = 100;

cm_discriminator named(const std::string &text)
{
    cm_discriminator out = {};
    out.length = static_cast<std::uint16_t>(text.size());
    std::memcpy(out.bytes, text.data(), text.size());
    return out;
}

/** A NIC handle on the card, without the test's usual device. */
struct Handle {
    Handle() { REQUIRE(VipOpenNic(const_cast<char *>(kDevice), &nic) == VIP_SUCCESS); }
    ~Handle() { VipCloseNic(nic); }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;

    VIP_VI_HANDLE vi(VIP_USHORT level = VIP_SERVICE_RELIABLE_DELIVERY, VIP_ULONG most = 4096)
    {
        VIP_VI_ATTRIBUTES attributes = {};
        attributes.ReliabilityLevel = level;
        attributes.MaxTransferSize = most;
        VIP_VI_HANDLE out = nullptr;
        REQUIRE(VipCreateVi(nic, &attributes, nullptr, nullptr, &out) == VIP_SUCCESS);
        return out;
    }
    NetAddress address(const std::string &discriminator) const
    {
        VIP_NIC_ATTRIBUTES attributes;
        REQUIRE(VipQueryNic(nic, &attributes) == VIP_SUCCESS);
        return NetAddress(
            std::string(reinterpret_cast<const char *>(attributes.LocalNicAddress), attributes.NicAddressLen),
            discriminator);
    }
    static VIP_VI_STATE state(VIP_VI_HANDLE vi)
    {
        VIP_VI_STATE state = VIP_STATE_ERROR;
        VIP_VI_ATTRIBUTES attributes;
        VIP_BOOLEAN send, recv;
        REQUIRE(VipQueryVi(vi, &state, &attributes, &send, &recv) == VIP_SUCCESS);
        return state;
    }
    VIP_NIC_HANDLE nic = nullptr;
};

/** The other driver: a function with one queue pair, and messages by hand. */
struct Stranger {
    explicit Stranger(std::uint8_t level = RNIC_LEVEL_DELIVERY)
    {
        REQUIRE(vipl_rnic_open("inproc", &rnic) == 0);
        REQUIRE(vipl_rnic_allocate_pd(rnic, &pd) == 0);
        REQUIRE(vipl_rnic_create_cq(rnic, 6, 1, &cq) == 0);
        const vipl_rnic_qp_attributes attributes = {pd, level, 0};
        REQUIRE(vipl_rnic_create_qp(rnic, cq, &attributes, &qp) == 0);
    }
    ~Stranger()
    {
        vipl_rnic_modify_qp(&qp, RNIC_QP_STATE_ERROR, nullptr);
        vipl_rnic_destroy_qp(&qp);
        vipl_rnic_destroy_cq(cq);
        vipl_rnic_close(rnic);
    }
    Stranger(const Stranger &) = delete;
    Stranger &operator=(const Stranger &) = delete;

    void send(std::uint16_t function, const cm_message &m)
    {
        std::uint8_t bytes[CM_MOST_BYTES];
        const std::size_t length = vipl_rnic_cm_write(&m, bytes);
        REQUIRE(vipl_rnic_send_control(rnic, vipl_rnic_query(rnic)->mac, function, bytes, length) == 0);
    }
    void send_raw(std::uint16_t function, const std::vector<std::uint8_t> &bytes)
    {
        REQUIRE(vipl_rnic_send_control(rnic, vipl_rnic_query(rnic)->mac, function, bytes.data(),
                                       bytes.size()) == 0);
    }
    cm_message request(const std::string &to, std::uint32_t serial) const
    {
        cm_message m = {};
        m.kind = RNIC_CONTROL_REQUEST;
        m.source_qp = qp.number;
        m.serial = serial;
        m.to = named(to);
        m.from = named("stranger");
        m.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
        m.params.max_transfer_size = 4096;
        m.ird = m.ord = 8;
        return m;
    }
    cm_message about(const cm_message &got, std::uint8_t kind) const
    {
        cm_message m = {};
        m.kind = kind;
        m.source_qp = qp.number;
        m.destination_qp = got.source_qp;
        m.serial = got.serial;
        return m;
    }
    /** The next control message of that kind; kind 0 in it: none came. */
    cm_message await(std::uint8_t kind, std::uint8_t reason = 0, unsigned ms = 5000)
    {
        const std::uint64_t end = vipl_now_ns() + std::uint64_t{ms} * 1000000;
        vipl_rnic_event event;
        cm_message m = {};
        do {
            vipl_rnic_progress(rnic);
            while (vipl_rnic_next_event(rnic, &event)) {
                from = event.function;
                if (event.kind == RNIC_EVENT_CONTROL && vipl_rnic_cm_read(event.message, event.length, &m) &&
                    m.kind == kind && m.reason == reason) {
                    return m;
                }
            }
        } while (vipl_now_ns() < end);
        return cm_message{};
    }
    vipl_rnic *rnic = nullptr;
    vipl_rnic_pd pd = {};
    vipl_rnic_cq *cq = nullptr;
    vipl_rnic_qp qp = {};
    /** The queue pair meets the one that a message is from. */
    void meet(const cm_message &got, unsigned state)
    {
        vipl_rnic_qp_connection connection = {{{}, from, got.source_qp}, 8, 8, 0};
        std::memcpy(connection.peer.mac, vipl_rnic_query(rnic)->mac, sizeof(connection.peer.mac));
        REQUIRE(vipl_rnic_modify_qp(&qp, state, &connection) == 0);
    }
    /** A message of no bytes, or room for one. */
    void post(unsigned which)
    {
        vipl_rnic_work work = {};
        work.opcode = which == VIPL_RNIC_RQ ? RNIC_WORK_RECEIVE : RNIC_WORK_SEND;
        const auto post_one = which == VIPL_RNIC_RQ ? vipl_rnic_post_rq : vipl_rnic_post_sq;
        REQUIRE(post_one(&qp, &work) == EAGAIN); // it has no ring yet
        REQUIRE(vipl_rnic_grow_queue(&qp, which) == 0);
        REQUIRE(post_one(&qp, &work) == 0);
    }
    std::uint16_t from = 0;
};

/** Memory with a descriptor of no bytes. */
struct Descriptor {
    explicit Descriptor(VIP_NIC_HANDLE handle) : nic(handle)
    {
        VIP_MEM_ATTRIBUTES attributes = {};
        work.CS.Control = VIP_CONTROL_OP_SENDRECV;
        REQUIRE(VipRegisterMem(nic, &work, sizeof(work), &attributes, &tag) == VIP_SUCCESS);
    }
    ~Descriptor() { VipDeregisterMem(nic, &work, tag); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;

    alignas(64) VIP_DESCRIPTOR work = {};
    VIP_NIC_HANDLE nic;
    VIP_MEM_HANDLE tag = 0;
};

/** The result of a call in a thread of its own. */
struct Call {
    explicit Call(std::function<VIP_RETURN()> f) : thread([this, f] { rc = f(); }) {}
    VIP_RETURN join()
    {
        thread.join();
        return rc;
    }
    VIP_RETURN rc = VIP_NOT_DONE;
    std::thread thread;
};

/** Two VIs of one NIC handle that are connected. */
struct Connected {
    Connected() : a(handle.vi()), b(handle.vi())
    {
        NetAddress local = handle.address("pair"), from = handle.address("");
        Call accept([&] {
            VIP_VI_ATTRIBUTES attributes;
            VIP_CONN_HANDLE conn;
            const VIP_RETURN rc = VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn);
            return rc != VIP_SUCCESS ? rc : VipConnectAccept(conn, b);
        });
        NetAddress own = handle.address("x"), remote = handle.address("pair");
        VIP_VI_ATTRIBUTES seen;
        const VIP_RETURN rc = VipConnectRequest(a, own, remote, kLong, &seen);
        REQUIRE(accept.join() == VIP_SUCCESS);
        REQUIRE(rc == VIP_SUCCESS);
    }
    ~Connected()
    {
        VipDisconnect(a);
        VipDisconnect(b);
        VipDestroyVi(a);
        VipDestroyVi(b);
    }
    void check_alive()
    {
        CHECK(Handle::state(a) == VIP_STATE_CONNECTED);
        CHECK(Handle::state(b) == VIP_STATE_CONNECTED);
    }
    Handle handle;
    VIP_VI_HANDLE a, b;
};

} // namespace

TEST_CASE("a stranger's messages about a connection do not touch it", "[rnic_hostile]")
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

TEST_CASE("bytes that are no message cost nobody anything", "[rnic_hostile]")
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

TEST_CASE("a request that is withdrawn is gone, in every step", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) ==
            VIP_TIMEOUT); // it listens from now on
    const cm_message request = stranger.request("here", 5);
    cm_message cancel = request;
    cancel.kind = RNIC_CONTROL_CANCEL;
    stranger.send(RNIC_FUNCTION_ADAPTER, request);
    const VIP_VI_HANDLE vi = handle.vi();
    SECTION("before a program takes it")
    {
        (void)VipConnectWait(handle.nic, handle.address("elsewhere"), 0, from, &attributes,
                             &conn); // the driver looks
        CHECK(stranger.await(RNIC_CONTROL_REJECT, CM_PENDING).serial == 5);
        stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(VipConnectWait(handle.nic, local, kShort, from, &attributes, &conn) == VIP_TIMEOUT);
    }
    SECTION("before it is accepted")
    {
        REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
        stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(VipConnectAccept(conn, vi) == VIP_TIMEOUT);
    }
    SECTION("while it is accepted")
    {
        REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
        Call accept([&] { return VipConnectAccept(conn, vi); });
        CHECK(stranger.await(RNIC_CONTROL_ACCEPT).serial == 5);
        stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(accept.join() == VIP_TIMEOUT);
    }
    SECTION("by another attempt of the same queue pair")
    {
        stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 6));
        REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
        Call accept([&] { return VipConnectAccept(conn, vi); });
        CHECK(stranger.await(RNIC_CONTROL_ACCEPT).serial == 6);
        stranger.send(stranger.from, stranger.about(stranger.request("here", 6), RNIC_CONTROL_DISCONNECT));
        (void)accept.join();
        CHECK(VipConnectWait(handle.nic, local, kShort, from, &attributes, &conn) == VIP_TIMEOUT);
    }
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a request of a function that has ended is gone", "[rnic_hostile]")
{
    Handle handle;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    {
        Stranger stranger;
        stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
        (void)VipConnectWait(handle.nic, handle.address("elsewhere"), 0, from, &attributes,
                             &conn); // the driver looks
        CHECK(stranger.await(RNIC_CONTROL_REJECT, CM_PENDING).serial == 5);
    }
    CHECK(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
}

TEST_CASE("a request that is not repeated is dropped after a while", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), elsewhere = handle.address("elsewhere"),
               from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
    CHECK(VipConnectWait(handle.nic, elsewhere, 2500, from, &attributes, &conn) == VIP_TIMEOUT);
    CHECK(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5)); // it lives after all
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    CHECK(VipConnectReject(conn) == VIP_SUCCESS);
}

TEST_CASE("a requester that does not answer the acceptance is given up, and told", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    const VIP_VI_HANDLE vi = handle.vi();
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    CHECK(VipConnectAccept(conn, vi) == VIP_TIMEOUT);
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    const cm_message accept = stranger.await(RNIC_CONTROL_ACCEPT);
    CHECK(accept.serial == 5);
    CHECK(stranger.await(RNIC_CONTROL_DISCONNECT).serial == 5);
    stranger.send(stranger.from, stranger.about(accept, RNIC_CONTROL_READY)); // late
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("repeated requests, acceptances and words of readiness count once", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr, other = nullptr;
    const VIP_VI_HANDLE vi = handle.vi();
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    for (unsigned i = 0; i < 3; ++i) {
        stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
    }
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    CHECK(VipConnectWait(handle.nic, local, kShort, from, &attributes, &other) == VIP_TIMEOUT);
    Call accept([&] { return VipConnectAccept(conn, vi); });
    const cm_message accepted = stranger.await(RNIC_CONTROL_ACCEPT);
    REQUIRE(accepted.serial == 5);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
    for (unsigned i = 0; i < 3; ++i) {
        stranger.send(stranger.from, stranger.about(accepted, RNIC_CONTROL_READY));
    }
    CHECK(accept.join() == VIP_SUCCESS);
    CHECK(Handle::state(vi) == VIP_STATE_CONNECTED);
    CHECK(stranger.await(RNIC_CONTROL_DISCONNECT, 0, 100).kind == 0);
    cm_message wrong = stranger.about(accepted, RNIC_CONTROL_DISCONNECT);
    wrong.serial++;
    stranger.send(stranger.from, wrong);
    CHECK(Handle::state(vi) == VIP_STATE_CONNECTED);
    stranger.send(stranger.from, stranger.about(accepted, RNIC_CONTROL_DISCONNECT));
    for (const std::uint64_t end = vipl_now_ns() + 5000000000;
         Handle::state(vi) != VIP_STATE_ERROR && vipl_now_ns() < end;) {
        give_way();
    }
    CHECK(Handle::state(vi) == VIP_STATE_ERROR);
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(stranger.await(RNIC_CONTROL_DISCONNECT, 0, 100).kind == 0); // it has said so itself
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a request that is repeated when it has been rejected is rejected again", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    CHECK(VipConnectReject(conn) == VIP_SUCCESS);
    CHECK(stranger.await(RNIC_CONTROL_REJECT, CM_REJECTED).serial == 5);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5)); // it was on its way
    CHECK(VipConnectWait(handle.nic, local, kShort, from, &attributes, &conn) == VIP_TIMEOUT);
    CHECK(stranger.await(RNIC_CONTROL_REJECT, CM_REJECTED).serial == 5);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 6)); // another one
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    CHECK(VipConnectReject(conn) == VIP_SUCCESS);
}

TEST_CASE("an acceptance of what was not asked for, or is over, is answered", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "stranger", 8) == 0);
    const VIP_VI_HANDLE vi = handle.vi();
    NetAddress local = handle.address("x"), remote = handle.address("stranger");
    VIP_VI_ATTRIBUTES seen;
    CHECK(VipConnectRequest(vi, local, remote, kShort, &seen) ==
          VIP_TIMEOUT); // it was heard, and not answered
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    REQUIRE(request.kind == RNIC_CONTROL_REQUEST);
    cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
    accept.params = request.params;
    stranger.send(stranger.from, accept);
    CHECK(stranger.await(RNIC_CONTROL_DISCONNECT).serial == request.serial);
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("an acceptance that does not fit the request ends it with the reason", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "stranger", 8) == 0);
    const VIP_VI_HANDLE vi = handle.vi();
    NetAddress local = handle.address("x"), remote = handle.address("stranger");
    VIP_VI_ATTRIBUTES seen;
    Call connect([&] { return VipConnectRequest(vi, local, remote, kLong, &seen); });
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
    accept.params = request.params;
    VIP_RETURN expected = VIP_SUCCESS;
    SECTION("another transfer size")
    {
        accept.params.max_transfer_size++;
        expected = VIP_INVALID_MTU;
    }
    SECTION("another level")
    {
        accept.params.reliability = VIP_SERVICE_UNRELIABLE;
        expected = VIP_INVALID_RELIABILITY_LEVEL;
    }
    SECTION("a queue pair that no card has")
    {
        accept.source_qp = 0x10000000;
        expected = VIP_ERROR_RESOURCE;
    }
    SECTION("a rejection with a code that is none")
    {
        accept.kind = RNIC_CONTROL_REJECT;
        accept.reason = CM_DISAGREES;
        accept.code = 12345;
        expected = VIP_REJECT;
    }
    stranger.send(stranger.from, accept);
    CHECK(connect.join() == expected);
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("more requests than a NIC handle keeps are told to try again", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    constexpr unsigned kMost = 1024, kSent = 1100;
    unsigned full = 0;
    {
        const unit::StoppedClock clock; // a request that is not repeated is over after 2 s
        for (std::uint32_t qp = 0; qp < kSent; ++qp) {
            cm_message m = stranger.request("here", 1);
            m.source_qp = qp;
            stranger.send(RNIC_FUNCTION_ADAPTER, m);
            (void)VipConnectWait(handle.nic, handle.address("elsewhere"), 0, from, &attributes, &conn);
            full += stranger.await(RNIC_CONTROL_REJECT, CM_FULL, 0).kind != 0 ? 1 : 0;
        }
    }
    while (full < kSent - kMost && stranger.await(RNIC_CONTROL_REJECT, CM_FULL).kind != 0) {
        ++full;
    }
    CHECK(full == kSent - kMost);
    CHECK(stranger.await(RNIC_CONTROL_REJECT, CM_FULL, 0).kind == 0);
}

TEST_CASE("a function that is reset while it exchanges is noticed within a second, and can be opened again",
          "[rnic_hostile]")
{
    auto last = std::chrono::steady_clock::now();
    {
        setenv("VIPL_RNIC_FAULTS", "reset=@2000", 1);
        Connected pair;
        unsetenv("VIPL_RNIC_FAULTS");
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

TEST_CASE("a card that is pulled out is noticed by a program that only waits for a message", "[rnic_hostile]")
{
    setenv("VIPL_RNIC_FAULTS", "removed=@400", 1);
    Connected pair;
    unsetenv("VIPL_RNIC_FAULTS");
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
          "[rnic_hostile]")
{
    setenv("VIPL_RNIC_FAULTS", "removed=@400", 1);
    Connected pair;
    unsetenv("VIPL_RNIC_FAULTS");
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
          "[rnic_hostile]")
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
    // Readiness would be behind the message. So the acceptor gives up; until then nothing is refused.
    CHECK(accept.join() == VIP_TIMEOUT);
    vipl_rnic_event event;
    vipl_rnic_progress(stranger.rnic);
    while (vipl_rnic_next_event(stranger.rnic, &event)) {
        CHECK(event.kind != RNIC_EVENT_QP_ERROR);
    }
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("what was posted before a disconnect is sent, also if an attempt to connect had failed before",
          "[rnic_hostile]")
{
    setenv("VIPL_LINGER", "0", 1);
    Handle handle;
    unsetenv("VIPL_LINGER");
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
    cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
    accept.params = request.params;
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
          "[rnic_hostile]")
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
        cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
        accept.params = request.params;
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

TEST_CASE("a requester that hears in one go that it was accepted and that this is over asks again",
          "[rnic_hostile]")
{
    setenv("VIPL_PROGRESS", "inline", 1); // no other thread hears of it
    Handle handle;
    unsetenv("VIPL_PROGRESS");
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "a", 1) == 0);
    NetAddress local = handle.address("b"), remote = handle.address("a"); // the higher name requests
    const VIP_VI_HANDLE vi = handle.vi();
    VIP_VI_ATTRIBUTES seen;
    REQUIRE(VipConnectPeerRequest(vi, local, remote, kLong) == VIP_SUCCESS);
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
    accept.params = request.params;
    stranger.send(stranger.from, accept);
    stranger.send(stranger.from,
                  stranger.about(request, RNIC_CONTROL_DISCONNECT)); // it was stopped for too long
    CHECK(VipConnectPeerDone(vi, &seen) == VIP_NOT_DONE);
    CHECK(stranger.await(RNIC_CONTROL_REQUEST).serial == request.serial);
    stranger.send(stranger.from, accept);
    CHECK(VipConnectPeerDone(vi, &seen) == VIP_SUCCESS);
    CHECK(stranger.await(RNIC_CONTROL_READY).serial == request.serial);
    CHECK(Handle::state(vi) == VIP_STATE_CONNECTED);
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a connection that comes about and ends in the last moment of a peer's request does not hold up "
          "its thread",
          "[rnic_hostile]")
{
    setenv("VIPL_PROGRESS", "inline", 1); // no other thread hears of it
    Handle handle;
    unsetenv("VIPL_PROGRESS");
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "a", 1) == 0);
    NetAddress local = handle.address("b"), remote = handle.address("a"); // the higher name requests
    const VIP_VI_HANDLE vi = handle.vi();
    const bool waits = GENERATE(false, true);
    for (unsigned i = 0; i < 5; ++i) {
        VIP_VI_ATTRIBUTES seen;
        REQUIRE(VipConnectPeerRequest(vi, local, remote, 0) == VIP_SUCCESS);
        const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
        REQUIRE(request.kind == RNIC_CONTROL_REQUEST);
        Call result([&] { return waits ? VipConnectPeerWait(vi, &seen) : VipConnectPeerDone(vi, &seen); });
        // Nothing comes; but its time is up meanwhile, and it waits for the first word about the request.
        (void)stranger.await(RNIC_CONTROL_CANCEL, 0, 50);
        cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
        accept.params = request.params;
        stranger.send(stranger.from, accept);
        stranger.send(stranger.from, stranger.about(request, RNIC_CONTROL_DISCONNECT));
        const VIP_RETURN rc = result.join();
        CHECK((rc == VIP_SUCCESS || rc == VIP_TIMEOUT)); // on a busy machine that moment may be over
        CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    }
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("what is posted is the card's when the call returns, also where a ring has to be made first",
          "[rnic_hostile]")
{
    setenv("VIPL_PROGRESS", "inline", 1); // no other thread makes the room
    Handle handle;
    unsetenv("VIPL_PROGRESS");
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
    cm_message accept = stranger.about(request, RNIC_CONTROL_ACCEPT);
    accept.params = request.params;
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

TEST_CASE("a request that is repeated stays, however long it takes, and an older one's end does not touch it",
          "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), elsewhere = handle.address("elsewhere"),
               from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    cm_message cancel = stranger.request("here", 4);
    cancel.kind = RNIC_CONTROL_CANCEL;
    for (unsigned i = 0; i < 4; ++i) {
        stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
        stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(VipConnectWait(handle.nic, elsewhere, 700, from, &attributes, &conn) == VIP_TIMEOUT);
    }
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_SUCCESS);
    CHECK(VipConnectReject(conn) == VIP_SUCCESS);
    CHECK(stranger.await(RNIC_CONTROL_REJECT, CM_REJECTED).serial == 5);
}

TEST_CASE("a requester that has several acceptances keeps the one that it names", "[rnic_hostile]")
{
    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE conn = nullptr;
    const VIP_VI_HANDLE vi = handle.vi();
    const bool is_named = GENERATE(false, true);
    REQUIRE(VipConnectWait(handle.nic, local, 0, from, &attributes, &conn) == VIP_TIMEOUT);
    stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", 5));
    REQUIRE(VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn) == VIP_SUCCESS);
    Call accept([&] { return VipConnectAccept(conn, vi); });
    const cm_message accepted = stranger.await(RNIC_CONTROL_ACCEPT);
    cm_message cancel = stranger.request("here", 5);
    cancel.kind = RNIC_CONTROL_CANCEL;
    cancel.reason = CM_ELSEWHERE;
    cancel.destination_qp = accepted.source_qp + (is_named ? 0 : 1);
    stranger.send(stranger.from, cancel);
    stranger.send(stranger.from, stranger.about(accepted, RNIC_CONTROL_READY));
    CHECK(accept.join() == (is_named ? VIP_SUCCESS : VIP_TIMEOUT));
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}
