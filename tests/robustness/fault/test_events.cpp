// SPDX-License-Identifier: MIT
//
// Every VIP_ERROR_CODE reaches the program's error callback, one case each, named for the code: by
// its name and by its number; and the send that sets it off is not touched.
#include <condition_variable>
#include <mutex>

#include "fault_scene.hpp"

using namespace vipl_test;

namespace {

VIP_ERROR_DESCRIPTOR reported(const std::string &event, VIP_DESCRIPTOR **sent_descriptor,
                              bool send_cq = false)
{
    FaultyPair pair("event=" + event + "@2", VIP_SERVICE_RELIABLE_DELIVERY, send_cq);
    ErrorLog errors(pair.client_nic);
    for (int i = 0; i < 3; ++i) {
        pair.receive();
        const Work out = pair.send();
        *sent_descriptor = i == 1 ? out.desc : *sent_descriptor;
        if (send_cq) {
            pair.cq->expect(pair.client, VIP_FALSE);
        } else {
            CHECK(sent(pair.client) == out.desc);
        }
        received(pair.server);
    }
    const VIP_ERROR_DESCRIPTOR error = errors.next();
    CHECK(error.NicHandle == pair.client_nic.handle());
    const bool of_nic = error.ResourceCode == VIP_RESOURCE_NIC;
    CHECK(error.ViHandle == (of_nic ? nullptr : static_cast<VIP_VI_HANDLE>(pair.client)));
    CHECK(error.CQHandle == (send_cq ? static_cast<VIP_CQ_HANDLE>(*pair.cq) : nullptr));
    CHECK(pair.client.state() == VIP_STATE_CONNECTED);
    return error;
}

/** The code under both its spellings and as a number, with that resource. */
void reaches_callback(const std::string &name, VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource)
{
    for (const std::string &spelling : {name, "VIP_ERROR_" + name, std::to_string(static_cast<int>(code))}) {
        VIP_DESCRIPTOR *descriptor = nullptr;
        const VIP_ERROR_DESCRIPTOR error = reported(spelling, &descriptor);
        CHECK(show(error.ErrorCode) == show(code));
        CHECK(show(error.ResourceCode) == show(resource));
        CHECK(error.DescriptorPtr == (resource == VIP_RESOURCE_DESCRIPTOR ? descriptor : nullptr));
    }
}

} // namespace

TEST_CASE("0 VIP_ERROR_POST_DESC", "[event]")
{
    reaches_callback("POST_DESC", VIP_ERROR_POST_DESC, VIP_RESOURCE_DESCRIPTOR);
}

TEST_CASE("1 VIP_ERROR_CONN_LOST", "[event]")
{
    reaches_callback("CONN_LOST", VIP_ERROR_CONN_LOST, VIP_RESOURCE_VI);
}

TEST_CASE("2 VIP_ERROR_RECVQ_EMPTY", "[event]")
{
    reaches_callback("RECVQ_EMPTY", VIP_ERROR_RECVQ_EMPTY, VIP_RESOURCE_VI);
}

TEST_CASE("3 VIP_ERROR_VI_OVERRUN", "[event]")
{
    reaches_callback("VI_OVERRUN", VIP_ERROR_VI_OVERRUN, VIP_RESOURCE_VI);
}

TEST_CASE("4 VIP_ERROR_RDMAW_PROT", "[event]")
{
    reaches_callback("RDMAW_PROT", VIP_ERROR_RDMAW_PROT, VIP_RESOURCE_VI);
}

TEST_CASE("5 VIP_ERROR_RDMAW_DATA", "[event]")
{
    reaches_callback("RDMAW_DATA", VIP_ERROR_RDMAW_DATA, VIP_RESOURCE_VI);
}

TEST_CASE("6 VIP_ERROR_RDMAW_ABORT", "[event]")
{
    reaches_callback("RDMAW_ABORT", VIP_ERROR_RDMAW_ABORT, VIP_RESOURCE_VI);
}

TEST_CASE("7 VIP_ERROR_RDMAR_PROT", "[event]")
{
    reaches_callback("RDMAR_PROT", VIP_ERROR_RDMAR_PROT, VIP_RESOURCE_VI);
}

TEST_CASE("8 VIP_ERROR_COMP_PROT", "[event]")
{
    reaches_callback("COMP_PROT", VIP_ERROR_COMP_PROT, VIP_RESOURCE_DESCRIPTOR);
}

TEST_CASE("8 VIP_ERROR_COMP_PROT names the completion queue of the send queue", "[event]")
{
    VIP_DESCRIPTOR *descriptor = nullptr;
    const VIP_ERROR_DESCRIPTOR error = reported("COMP_PROT", &descriptor, true);
    CHECK(error.ErrorCode == VIP_ERROR_COMP_PROT);
    CHECK(error.ResourceCode == VIP_RESOURCE_CQ);
}

TEST_CASE("9 VIP_ERROR_RDMA_TRANSPORT", "[event]")
{
    reaches_callback("RDMA_TRANSPORT", VIP_ERROR_RDMA_TRANSPORT, VIP_RESOURCE_VI);
}

TEST_CASE("10 VIP_ERROR_CATASTROPHIC", "[event]")
{
    reaches_callback("CATASTROPHIC", VIP_ERROR_CATASTROPHIC, VIP_RESOURCE_NIC);
}

TEST_CASE("several events of one send", "[event]")
{
    FaultyPair pair("event=CATASTROPHIC@1,event=RDMAW_DATA@1");
    ErrorLog errors(pair.client_nic);
    pair.receive();
    pair.send();
    sent(pair.client);
    errors.expect(pair.client, VIP_ERROR_RDMAW_DATA);
    CHECK(errors.next().ErrorCode == VIP_ERROR_CATASTROPHIC);
}

namespace {

/** A handler that does not return until it may. */
struct SlowHandler {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned calls = 0;
    bool may_return = false;

    static void VI_CALL on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *)
    {
        auto *self = static_cast<SlowHandler *>(context);
        std::unique_lock<std::mutex> lock(self->mutex);
        self->calls++;
        self->changed.notify_all();
        self->changed.wait(lock, [self] { return self->may_return; });
    }
    /** Requires that many calls. */
    void await(unsigned wanted)
    {
        std::unique_lock<std::mutex> lock(mutex);
        CHECK(changed.wait_for(lock, std::chrono::milliseconds(patience()), [&] { return calls >= wanted; }));
    }
};

} // namespace

TEST_CASE("a handler that does not return does not make errors pile up without an end", "[event]")
{
    constexpr unsigned kErrors = 3000;
    FaultyPair pair("",
                    VIP_SERVICE_UNRELIABLE); // a message that finds no receive is an error of the server's
    SlowHandler handler;
    REQUIRE_VIP(VipErrorCallback(pair.server_nic, &handler, &SlowHandler::on_error));
    const Work out = pair.client_memory.transfer(pair.client_memory.text("nobody takes it"));
    for (unsigned i = 0; i < kErrors; ++i) {
        post_send(pair.client, out);
        sent(pair.client);
        if (i == 0) {
            handler.await(1);
        }
    }
    {
        const std::lock_guard<std::mutex> lock(handler.mutex);
        handler.may_return = true;
        handler.changed.notify_all();
    }
    handler.await(1025);
    pair.receive(); // those that there was no room for do not come any more
    pair.send();
    received(pair.server);
    const std::lock_guard<std::mutex> lock(handler.mutex);
    CHECK(handler.calls == 1025);
    REQUIRE_VIP(VipErrorCallback(pair.server_nic, nullptr, nullptr));
}
