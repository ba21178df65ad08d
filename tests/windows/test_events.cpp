// SPDX-License-Identifier: MIT
//
// Events in the place of descriptors: of the system layer's descriptors, and of a program's objects
// (vipl/windows.h).
#include "ends.hpp"

#include <set>

#include <vipl/windows.h>

#include "support/os_hooks.hpp"

extern "C" {
#include "os/event.h"
#include "os/windows/descriptor.h"
}

using namespace windows_test;

namespace {

bool is_set(HANDLE event)
{
    return WaitForSingleObject(event, 0) == WAIT_OBJECT_0;
}

bool is_set_soon(HANDLE event)
{
    return WaitForSingleObject(event, kLong) == WAIT_OBJECT_0;
}

HANDLE event_of(VIPX_FD_KIND kind, VIP_PVOID handle)
{
    HANDLE event = nullptr;
    REQUIRE(VipxGetEvent(kind, handle, &event) == VIP_SUCCESS);
    REQUIRE(event != nullptr);
    HANDLE again = nullptr;
    REQUIRE(VipxGetEvent(kind, handle, &again) == VIP_SUCCESS);
    CHECK(again == event);
    return event;
}

} // namespace

TEST_CASE("a descriptor's event is set while it is readable", "[windows]")
{
    vipl_waker waker{};
    REQUIRE(vipl_waker_open(&waker) == 0);
    void *event = nullptr, *later = nullptr;
    REQUIRE(vipl_fd_event(waker.fd, &event) == 0);
    CHECK_FALSE(is_set(event));
    std::thread thread([&] { vipl_waker_signal(&waker); });
    CHECK(is_set_soon(event));
    thread.join();
    CHECK(is_set(event)); // until it is reset
    REQUIRE(vipl_fd_event(waker.fd, &later) == 0);
    CHECK(later == event);
    vipl_waker_reset(&waker);
    CHECK_FALSE(is_set(event));
    vipl_waker_close(&waker);
    CHECK(vipl_fd_event(waker.fd, &later) == EBADF);

    REQUIRE(vipl_waker_open(&waker) == 0);
    (void)vipl_resource_fail_after(1); // the system has no more
    CHECK(vipl_fd_event(waker.fd, &later) == EMFILE);
    (void)vipl_resource_fail_after(-1);
    CHECK(vipl_fd_event(waker.fd, &later) == 0);
    vipl_waker_close(&waker);

    REQUIRE(vipl_waker_open(&waker) == 0); // ready before anybody asks
    vipl_waker_signal(&waker);
    REQUIRE(vipl_fd_event(waker.fd, &event) == 0);
    CHECK(is_set(event));
    vipl_waker_close(&waker);
}

TEST_CASE("events of queues and requests are set while there is something to take", "[windows]")
{
    Endpoint server, client;
    VIP_CQ_HANDLE cq = nullptr;
    REQUIRE(VipCreateCQ(server.nic, 16, &cq) == VIP_SUCCESS);
    HANDLE received = event_of(VIPX_FD_RECV, server.vi), sent = event_of(VIPX_FD_SEND, client.vi);
    HANDLE of_cq = event_of(VIPX_FD_CQ, cq), asked = event_of(VIPX_FD_CONNECT, server.nic);
    CHECK(std::set<HANDLE>{received, sent, of_cq, asked}.size() == 4);
    for (HANDLE each : {received, sent, of_cq, asked}) {
        CHECK_FALSE(is_set(each));
    }

    REQUIRE(VipPostRecv(server.vi, server.fill(0, ""), server.memory) == VIP_SUCCESS);
    std::vector<char> here = server.address("events"), peer(256);
    auto *address = reinterpret_cast<VIP_NET_ADDRESS *>(here.data());
    auto *from = reinterpret_cast<VIP_NET_ADDRESS *>(peer.data());
    VIP_VI_ATTRIBUTES theirs{};
    VIP_CONN_HANDLE request;
    REQUIRE(VipConnectWait(server.nic, address, 0, from, &theirs, &request) == VIP_TIMEOUT);
    VIP_RETURN connected = VIP_TIMEOUT;
    std::thread thread([&] { connected = request_from(client, "events"); });
    CHECK(is_set_soon(asked));
    CHECK(is_set(asked)); // nothing has taken the request yet
    REQUIRE(VipConnectWait(server.nic, address, 0, from, &theirs, &request) == VIP_SUCCESS);
    CHECK_FALSE(is_set(asked));
    REQUIRE(VipConnectAccept(request, server.vi) == VIP_SUCCESS);
    thread.join();
    REQUIRE(connected == VIP_SUCCESS);

    for (int i = 0; i < 50; ++i) {
        VIP_DESCRIPTOR *done = nullptr;
        std::thread sender([&] { (void)VipPostSend(client.vi, client.fill(1, "a message"), client.memory); });
        HANDLE both[] = {received, sent};
        CHECK(WaitForMultipleObjects(2, both, TRUE, kLong) == WAIT_OBJECT_0);
        sender.join();
        REQUIRE(VipRecvDone(server.vi, &done) == VIP_SUCCESS);
        CHECK_FALSE(is_set(received));
        CHECK(is_set(sent));
        REQUIRE(VipSendDone(client.vi, &done) == VIP_SUCCESS);
        CHECK_FALSE(is_set(sent));
        REQUIRE(VipPostRecv(server.vi, server.fill(0, ""), server.memory) == VIP_SUCCESS);
    }
    REQUIRE(VipDestroyCQ(cq) == VIP_SUCCESS);
}

TEST_CASE("what has no event has its error, and a descriptor is nothing for Windows", "[windows]")
{
    Endpoint end;
    int fd = 7;
    void *event = &fd;
    CHECK(VipxGetFd(VIPX_FD_RECV, end.vi, &fd) == VIP_ERROR_NOT_SUPPORTED);
    CHECK(fd == -1);
    CHECK(VipxGetFd(VIPX_FD_RECV, end.vi, nullptr) == VIP_INVALID_PARAMETER);
    CHECK(VipxGetEvent(VIPX_FD_RECV, end.vi, nullptr) == VIP_INVALID_PARAMETER);
    CHECK(VipxGetEvent(VIPX_FD_RECV, end.nic, &event) == VIP_INVALID_PARAMETER);
    CHECK(event == nullptr);
    CHECK(VipxGetEvent(static_cast<VIPX_FD_KIND>(77), end.vi, &event) == VIP_INVALID_PARAMETER);
    CHECK(VipxGetEvent(VIPX_FD_CQ, nullptr, &event) == VIP_INVALID_PARAMETER);
    VIP_CQ_HANDLE cq = nullptr;
    REQUIRE(VipCreateCQ(end.nic, 16, &cq) == VIP_SUCCESS);
    VIP_VI_ATTRIBUTES ours{};
    ours.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    ours.MaxTransferSize = 64;
    VIP_VI_HANDLE on_cq = nullptr;
    REQUIRE(VipCreateVi(end.nic, &ours, nullptr, cq, &on_cq) == VIP_SUCCESS);
    CHECK(VipxGetEvent(VIPX_FD_RECV, on_cq, &event) == VIP_ERROR_RESOURCE); // its queue reports there
    CHECK(VipxGetEvent(VIPX_FD_SEND, on_cq, &event) == VIP_SUCCESS);
}
