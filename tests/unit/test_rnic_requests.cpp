// SPDX-License-Identifier: MIT
//
// A stranger's requests: repeated, withdrawn, too many, never finished. (The device rnic; see
// rnic_stranger.hpp.)
#include "clock.hpp"
#include "rnic_stranger.hpp"

using namespace unit;

namespace {

/** A NIC handle that listens for "here", and a stranger to ask it. */
struct Asked {
    Asked() { REQUIRE(wait(0) == VIP_TIMEOUT); }

    VIP_RETURN wait(VIP_ULONG timeout)
    {
        return VipConnectWait(handle.nic, local, timeout, from, &attributes, &conn);
    }
    void ask(std::uint32_t serial) { stranger.send(RNIC_FUNCTION_ADAPTER, stranger.request("here", serial)); }

    Handle handle;
    Stranger stranger;
    NetAddress local = handle.address("here"), from = handle.address("");
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE conn = nullptr;
};

} // namespace

TEST_CASE("a request that is withdrawn is gone, in every step", "[rnic_requests]")
{
    Asked s;
    const cm_message request = s.stranger.request("here", 5);
    cm_message cancel = request;
    cancel.kind = RNIC_CONTROL_CANCEL;
    s.stranger.send(RNIC_FUNCTION_ADAPTER, request);
    const VIP_VI_HANDLE vi = s.handle.vi();
    SECTION("before a program takes it")
    {
        (void)VipConnectWait(s.handle.nic, s.handle.address("elsewhere"), 0, s.from, &s.attributes,
                             &s.conn); // the driver looks
        CHECK(s.stranger.await(RNIC_CONTROL_REJECT, CM_PENDING).serial == 5);
        s.stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(s.wait(kShort) == VIP_TIMEOUT);
    }
    SECTION("before it is accepted")
    {
        REQUIRE(s.wait(kLong) == VIP_SUCCESS);
        s.stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(VipConnectAccept(s.conn, vi) == VIP_TIMEOUT);
    }
    SECTION("while it is accepted")
    {
        REQUIRE(s.wait(kLong) == VIP_SUCCESS);
        Call accept([&] { return VipConnectAccept(s.conn, vi); });
        CHECK(s.stranger.await(RNIC_CONTROL_ACCEPT).serial == 5);
        s.stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(accept.join() == VIP_TIMEOUT);
    }
    SECTION("by another attempt of the same queue pair")
    {
        s.ask(6);
        REQUIRE(s.wait(kLong) == VIP_SUCCESS);
        Call accept([&] { return VipConnectAccept(s.conn, vi); });
        CHECK(s.stranger.await(RNIC_CONTROL_ACCEPT).serial == 6);
        s.stranger.send(s.stranger.from,
                        s.stranger.about(s.stranger.request("here", 6), RNIC_CONTROL_DISCONNECT));
        (void)accept.join();
        CHECK(s.wait(kShort) == VIP_TIMEOUT);
    }
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a request of a function that has ended is gone", "[rnic_requests]")
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

TEST_CASE("a request that is not repeated is dropped after a while", "[rnic_requests]")
{
    Asked s;
    NetAddress elsewhere = s.handle.address("elsewhere");
    s.ask(5);
    CHECK(VipConnectWait(s.handle.nic, elsewhere, 2500, s.from, &s.attributes, &s.conn) == VIP_TIMEOUT);
    CHECK(s.wait(0) == VIP_TIMEOUT);
    s.ask(5); // it lives after all
    REQUIRE(s.wait(kLong) == VIP_SUCCESS);
    CHECK(VipConnectReject(s.conn) == VIP_SUCCESS);
}

TEST_CASE("a requester that does not answer the acceptance is given up, and told", "[rnic_requests]")
{
    Asked s;
    const VIP_VI_HANDLE vi = s.handle.vi();
    s.ask(5);
    REQUIRE(s.wait(kLong) == VIP_SUCCESS);
    CHECK(VipConnectAccept(s.conn, vi) == VIP_TIMEOUT);
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    const cm_message accept = s.stranger.await(RNIC_CONTROL_ACCEPT);
    CHECK(accept.serial == 5);
    CHECK(s.stranger.await(RNIC_CONTROL_DISCONNECT).serial == 5);
    s.stranger.send(s.stranger.from, s.stranger.about(accept, RNIC_CONTROL_READY)); // late
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("repeated requests, acceptances and words of readiness count once", "[rnic_requests]")
{
    Asked s;
    VIP_CONN_HANDLE other = nullptr;
    const VIP_VI_HANDLE vi = s.handle.vi();
    for (unsigned i = 0; i < 3; ++i) {
        s.ask(5);
    }
    REQUIRE(s.wait(kLong) == VIP_SUCCESS);
    CHECK(VipConnectWait(s.handle.nic, s.local, kShort, s.from, &s.attributes, &other) == VIP_TIMEOUT);
    Call accept([&] { return VipConnectAccept(s.conn, vi); });
    const cm_message accepted = s.stranger.await(RNIC_CONTROL_ACCEPT);
    REQUIRE(accepted.serial == 5);
    s.ask(5);
    for (unsigned i = 0; i < 3; ++i) {
        s.stranger.send(s.stranger.from, s.stranger.about(accepted, RNIC_CONTROL_READY));
    }
    CHECK(accept.join() == VIP_SUCCESS);
    CHECK(Handle::state(vi) == VIP_STATE_CONNECTED);
    CHECK(s.stranger.await(RNIC_CONTROL_DISCONNECT, 0, 100).kind == 0);
    cm_message wrong = s.stranger.about(accepted, RNIC_CONTROL_DISCONNECT);
    wrong.serial++;
    s.stranger.send(s.stranger.from, wrong);
    CHECK(Handle::state(vi) == VIP_STATE_CONNECTED);
    s.stranger.send(s.stranger.from, s.stranger.about(accepted, RNIC_CONTROL_DISCONNECT));
    for (const std::uint64_t end = vipl_now_ns() + 5000000000;
         Handle::state(vi) != VIP_STATE_ERROR && vipl_now_ns() < end;) {
        give_way();
    }
    CHECK(Handle::state(vi) == VIP_STATE_ERROR);
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(s.stranger.await(RNIC_CONTROL_DISCONNECT, 0, 100).kind == 0); // it has said so itself
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a request that is repeated when it has been rejected is rejected again", "[rnic_requests]")
{
    Asked s;
    s.ask(5);
    REQUIRE(s.wait(kLong) == VIP_SUCCESS);
    CHECK(VipConnectReject(s.conn) == VIP_SUCCESS);
    CHECK(s.stranger.await(RNIC_CONTROL_REJECT, CM_REJECTED).serial == 5);
    s.ask(5); // it was on its way
    CHECK(s.wait(kShort) == VIP_TIMEOUT);
    CHECK(s.stranger.await(RNIC_CONTROL_REJECT, CM_REJECTED).serial == 5);
    s.ask(6); // another one
    REQUIRE(s.wait(kLong) == VIP_SUCCESS);
    CHECK(VipConnectReject(s.conn) == VIP_SUCCESS);
}

TEST_CASE("more requests than a NIC handle keeps are told to try again", "[rnic_requests]")
{
    Asked s;
    constexpr unsigned kMost = 1024, kSent = 1100;
    unsigned full = 0;
    {
        const unit::StoppedClock clock; // a request that is not repeated is over after 2 s
        for (std::uint32_t qp = 0; qp < kSent; ++qp) {
            cm_message m = s.stranger.request("here", 1);
            m.source_qp = qp;
            s.stranger.send(RNIC_FUNCTION_ADAPTER, m);
            (void)VipConnectWait(s.handle.nic, s.handle.address("elsewhere"), 0, s.from, &s.attributes,
                                 &s.conn);
            full += s.stranger.await(RNIC_CONTROL_REJECT, CM_FULL, 0).kind != 0 ? 1 : 0;
        }
    }
    while (full < kSent - kMost && s.stranger.await(RNIC_CONTROL_REJECT, CM_FULL).kind != 0) {
        ++full;
    }
    CHECK(full == kSent - kMost);
    CHECK(s.stranger.await(RNIC_CONTROL_REJECT, CM_FULL, 0).kind == 0);
}

TEST_CASE("a request that is repeated stays, however long it takes, and an older one's end does not touch it",
          "[rnic_requests]")
{
    Asked s;
    NetAddress elsewhere = s.handle.address("elsewhere");
    cm_message cancel = s.stranger.request("here", 4);
    cancel.kind = RNIC_CONTROL_CANCEL;
    for (unsigned i = 0; i < 4; ++i) {
        s.ask(5);
        s.stranger.send(RNIC_FUNCTION_ADAPTER, cancel);
        CHECK(VipConnectWait(s.handle.nic, elsewhere, 700, s.from, &s.attributes, &s.conn) == VIP_TIMEOUT);
    }
    REQUIRE(s.wait(0) == VIP_SUCCESS);
    CHECK(VipConnectReject(s.conn) == VIP_SUCCESS);
    CHECK(s.stranger.await(RNIC_CONTROL_REJECT, CM_REJECTED).serial == 5);
}

TEST_CASE("a requester that has several acceptances keeps the one that it names", "[rnic_requests]")
{
    Asked s;
    const VIP_VI_HANDLE vi = s.handle.vi();
    const bool is_named = GENERATE(false, true);
    s.ask(5);
    REQUIRE(s.wait(kLong) == VIP_SUCCESS);
    Call accept([&] { return VipConnectAccept(s.conn, vi); });
    const cm_message accepted = s.stranger.await(RNIC_CONTROL_ACCEPT);
    cm_message cancel = s.stranger.request("here", 5);
    cancel.kind = RNIC_CONTROL_CANCEL;
    cancel.reason = CM_ELSEWHERE;
    cancel.destination_qp = accepted.source_qp + (is_named ? 0 : 1);
    s.stranger.send(s.stranger.from, cancel);
    s.stranger.send(s.stranger.from, s.stranger.about(accepted, RNIC_CONTROL_READY));
    CHECK(accept.join() == (is_named ? VIP_SUCCESS : VIP_TIMEOUT));
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}
