// SPDX-License-Identifier: MIT
//
// A stranger's answers to our requests: wrong, late, or taken back. (The device rnic; see
// rnic_stranger.hpp.)
#include "rnic_stranger.hpp"
#include "support/system.hpp"

using namespace unit;

TEST_CASE("an acceptance of what was not asked for, or is over, is answered", "[rnic_answers]")
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
    cm_message accept = stranger.acceptance(request);
    stranger.send(stranger.from, accept);
    CHECK(stranger.await(RNIC_CONTROL_DISCONNECT).serial == request.serial);
    CHECK(Handle::state(vi) == VIP_STATE_IDLE);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("an acceptance that does not fit the request ends it with the reason", "[rnic_answers]")
{
    Handle handle;
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "stranger", 8) == 0);
    const VIP_VI_HANDLE vi = handle.vi();
    NetAddress local = handle.address("x"), remote = handle.address("stranger");
    VIP_VI_ATTRIBUTES seen;
    Call connect([&] { return VipConnectRequest(vi, local, remote, kLong, &seen); });
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    cm_message accept = stranger.acceptance(request);
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

TEST_CASE("a requester that hears in one go that it was accepted and that this is over asks again",
          "[rnic_answers]")
{
    vipl_test::set_environment("VIPL_PROGRESS", "inline"); // no other thread hears of it
    Handle handle;
    vipl_test::set_environment("VIPL_PROGRESS", nullptr);
    Stranger stranger;
    REQUIRE(vipl_rnic_listen_for(stranger.rnic, 1, "a", 1) == 0);
    NetAddress local = handle.address("b"), remote = handle.address("a"); // the higher name requests
    const VIP_VI_HANDLE vi = handle.vi();
    VIP_VI_ATTRIBUTES seen;
    REQUIRE(VipConnectPeerRequest(vi, local, remote, kLong) == VIP_SUCCESS);
    const cm_message request = stranger.await(RNIC_CONTROL_REQUEST);
    cm_message accept = stranger.acceptance(request);
    stranger.send(stranger.from, accept);
    stranger.send(stranger.from,
                  stranger.about(request, RNIC_CONTROL_DISCONNECT)); // it was stopped for too long
    CHECK(VipConnectPeerDone(vi, &seen) == VIP_NOT_DONE);
    const cm_message again = stranger.await(RNIC_CONTROL_REQUEST);
    CHECK(again.serial != request.serial); // which nobody has claimed
    accept = stranger.acceptance(again);
    stranger.send(stranger.from, accept);
    CHECK(VipConnectPeerDone(vi, &seen) == VIP_SUCCESS);
    CHECK(stranger.await(RNIC_CONTROL_READY).serial == again.serial);
    CHECK(Handle::state(vi) == VIP_STATE_CONNECTED);
    CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("a connection that comes about and ends in the last moment of a peer's request does not hold up "
          "its thread",
          "[rnic_answers]")
{
    vipl_test::set_environment("VIPL_PROGRESS", "inline"); // no other thread hears of it
    Handle handle;
    vipl_test::set_environment("VIPL_PROGRESS", nullptr);
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
        // Nothing comes; but its time is up meanwhile, and it waits for the first word about the
        // request.
        (void)stranger.await(RNIC_CONTROL_CANCEL, 0, 50);
        cm_message accept = stranger.acceptance(request);
        stranger.send(stranger.from, accept);
        stranger.send(stranger.from, stranger.about(request, RNIC_CONTROL_DISCONNECT));
        const VIP_RETURN rc = result.join();
        CHECK((rc == VIP_SUCCESS || rc == VIP_TIMEOUT)); // on a busy machine that moment may be over
        CHECK(VipDisconnect(vi) == VIP_SUCCESS);
    }
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}
