// SPDX-License-Identifier: MIT
//
// Sockets that move one byte at a time, or a few: set-up, messages of all sizes, RDMA both ways and
// the end of a connection are as ever.
#include <string>
#include <vector>

#include "fault_scene.hpp"
#include "support/os_hooks.hpp"

extern "C" {
#include "os/os.h"
}

using namespace vipl_test;

namespace {

/** With immediate data, or plain. */
void send_across(ConnectedPair &pair, VIP_UINT32 bytes, unsigned seed, bool immediate)
{
    const Span from = pair.client_memory.bytes(bytes + 1).part(0, bytes);
    const Span to = pair.server_memory.bytes(bytes + 1).part(0, bytes);
    from.fill(seed);
    Work in = pair.server_memory.transfer(to), out = pair.client_memory.transfer(from);
    if (immediate) {
        out.immediate(seed);
    }
    post_recv(pair.server, in);
    post_send(pair.client, out);
    REQUIRE(received(pair.server) == in.desc);
    REQUIRE(sent(pair.client) == out.desc);
    CHECK(in.desc->CS.Length == bytes);
    if (immediate) {
        CHECK(in.desc->CS.ImmediateData == seed);
    }
    CHECK(to.holds(seed));
}

void write_and_read(ConnectedPair &pair, const Span &window, VIP_UINT32 bytes, unsigned seed)
{
    const Span from = pair.client_memory.bytes(bytes), copy = pair.client_memory.bytes(bytes);
    from.fill(seed);
    const Work write = pair.client_memory.rdma(VIP_CONTROL_OP_RDMAWRITE, window.remote(), from);
    post_send(pair.client, write);
    REQUIRE(sent(pair.client) == write.desc);
    const Work read = pair.client_memory.rdma(VIP_CONTROL_OP_RDMAREAD, window.remote(), copy);
    post_send(pair.client, read);
    REQUIRE(sent(pair.client) == read.desc);
    CHECK(copy.holds(seed));
}

void exchange(std::uint32_t few, VIP_RELIABILITY_LEVEL level)
{
    const FewBytes set_up(0, few); // what is said then fits into a buffer that is empty
    ConnectedPair pair(level);
    const FewBytes limit(few, few);
    unsigned seed = 0;
    for (const VIP_UINT32 bytes : {0u, 1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u, 1000u, 3001u}) {
        send_across(pair, bytes, ++seed, true);
        send_across(pair, bytes, ++seed, false);
    }
    if (level != VIP_SERVICE_UNRELIABLE) {
        const Memory memory(pair.server_nic, 8192, rdma_memory());
        const Span window = const_cast<Memory &>(memory).bytes(4096);
        for (const VIP_UINT32 bytes : {1u, 7u, 1023u, 2999u}) {
            write_and_read(pair, window, bytes, ++seed);
        }
    }
    REQUIRE_VIP(VipDisconnect(pair.client));
    pair.server.await(VIP_STATE_ERROR);
}

void exchange_at_all_levels(const char *crc)
{
    const EnvironmentSetting setting("VIPL_MPA_CRC", crc);
    for (const VIP_RELIABILITY_LEVEL level :
         {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}) {
        for (const std::uint32_t few : {1u, 3u, 17u}) {
            INFO(level_name(level) << ", " << few << " bytes at a time");
            exchange(few, level);
        }
    }
}

} // namespace

TEST_CASE("a read behind a burst that leaves in two parts is complete when its data is there", "[bytes]")
{
    ConnectedPair pair(VIP_SERVICE_RELIABLE_DELIVERY);
    const Memory memory(pair.server_nic, 8192, rdma_memory());
    const Span window = const_cast<Memory &>(memory).bytes(4096);
    std::vector<Work> sends;
    for (const VIP_UINT32 bytes : {8u, 1400u, 1400u, 1400u, 1400u, 1400u, 1400u, 1400u, 1200u}) {
        post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(bytes)));
        sends.push_back(pair.client_memory.transfer(pair.client_memory.bytes(bytes)));
    }
    sends.back().immediate(1); // the burst is full: a read does not fit any more
    window.fill(1);
    const Span copy = pair.client_memory.bytes(4096);
    const Work read = pair.client_memory.rdma(VIP_CONTROL_OP_RDMAREAD, window.remote(), copy);
    const FewBytes limit(6000, 0);
    for (const Work &send : sends) {
        post_send(pair.client, send);
    }
    post_send(pair.client, read);
    for (const Work &send : sends) {
        REQUIRE(sent(pair.client) == send.desc);
    }
    REQUIRE(sent(pair.client) == read.desc);
    CHECK(copy.holds(1));
}

TEST_CASE("a few bytes at a time: connections work, with CRC", "[bytes]")
{
    exchange_at_all_levels("on");
}

TEST_CASE("a few bytes at a time: connections work, without CRC", "[bytes]")
{
    exchange_at_all_levels("off");
}
