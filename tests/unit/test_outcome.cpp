// SPDX-License-Identifier: MIT
//
// The order in which a descriptor's outcome is stored. A program may spin on Status, so that comes
// last. Where the first store goes is seen by having it fault: the descriptor's page is read-only
// until then.
#include <catch2/catch.hpp>

#include <cstring>

#include "internal.hpp"
#include "support/error_log.hpp"
#include "support/faults.hpp"
#include "support/system.hpp"

extern "C" {
#include "core/backend_up.h"
}

using namespace vipl_test;

namespace {

constexpr size_t kPage = 65536; // or a multiple of one
unsigned char *page;
unsigned char *volatile stored_first;

void on_fault(void *address)
{
    stored_first = static_cast<unsigned char *>(address);
    allow(page, kPage, PageAccess::write);
}

/** The offset in the descriptor of the first store to it, when a message fills it. */
size_t first_store(bool immediate)
{
    ConnectedPair pair;
    page = static_cast<unsigned char *>(map_pages(kPage));
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_VIP(VipRegisterMem(pair.server_nic, page, kPage, nullptr, &handle));
    Work in{reinterpret_cast<VIP_DESCRIPTOR *>(page + 64), handle, {}};
    post_recv(pair.server, in.local(pair.server_memory.bytes(10)));
    Work out = pair.client_memory.transfer(pair.client_memory.text("text"));
    if (immediate) {
        out.immediate(77);
    }
    stored_first = nullptr;
    {
        const FaultHandler handler(on_fault);
        allow(page, kPage, PageAccess::read);
        post_send(pair.client, out);
        received(pair.server);
    }
    REQUIRE(in.desc->CS.Length == 4);
    REQUIRE((!immediate || in.desc->CS.ImmediateData == 77));
    const auto offset = static_cast<size_t>(stored_first - (page + 64));
    REQUIRE_VIP(VipDeregisterMem(pair.server_nic, page, handle));
    VipDisconnect(pair.server); // before its memory goes
    unmap_pages(page, kPage);
    return offset;
}

} // namespace

TEST_CASE("Status is stored after ImmediateData and Length", "[outcome]")
{
    const size_t plain = first_store(false);
    if (plain >= kPage) {
        return; // a machine that says of a fault no more than its page
    }
    CHECK(plain == offsetof(VIP_CONTROL_SEGMENT, Length));
    CHECK(first_store(true) == offsetof(VIP_CONTROL_SEGMENT, ImmediateData));
}

TEST_CASE("a denied RDMA Read on an Unreliable VI is reported", "[outcome]")
{
    ConnectedPair pair(VIP_SERVICE_UNRELIABLE);
    ErrorLog errors(pair.server_nic);
    auto *vi = static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, pair.server));
    REQUIRE(vi != nullptr);
    for (const bool write : {false, true}) { // a peer asks for what it could not post itself
        vipl_up_recv_lock(vi);
        const bool allowed = vipl_up_rdma_allowed(vi, write, 77, 4096, 8);
        const bool failed = vipl_up_has_failed(vi);
        vipl_up_recv_unlock(vi);
        REQUIRE_FALSE(allowed);
        REQUIRE_FALSE(failed);
        errors.expect(pair.server, write ? VIP_ERROR_RDMAW_PROT : VIP_ERROR_RDMAR_PROT);
    }
}
