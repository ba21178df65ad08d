// SPDX-License-Identifier: MIT
//
// A stranger's requests: repeated, withdrawn, too many, never finished. (The device rnic; see rnic_stranger.hpp.)
#include "clock.hpp"
#include "rnic_stranger.hpp"

using namespace unit;

TEST_CASE("a request that is withdrawn is gone, in every step", "[rnic_requests]")
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

TEST_CASE("a requester that does not answer the acceptance is given up, and told", "[rnic_requests]")
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

TEST_CASE("repeated requests, acceptances and words of readiness count once", "[rnic_requests]")
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

TEST_CASE("a request that is repeated when it has been rejected is rejected again", "[rnic_requests]")
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

TEST_CASE("more requests than a NIC handle keeps are told to try again", "[rnic_requests]")
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

TEST_CASE("a request that is repeated stays, however long it takes, and an older one's end does not touch it",
          "[rnic_requests]")
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

TEST_CASE("a requester that has several acceptances keeps the one that it names", "[rnic_requests]")
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
