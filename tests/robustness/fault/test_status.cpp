// SPDX-License-Identifier: MIT
//
// Every bit that a descriptor's Status may have, one case each, named for the bit: errors by the
// fault plan, at a level where the connection stays and at one where it breaks; operations and
// IMMEDIATE by what earns them.
#include "fault_scene.hpp"

using namespace vipl_test;

namespace {

const char *hex(VIP_UINT32 bits)
{
    static char text[16];
    std::snprintf(text, sizeof text, "%x", static_cast<unsigned>(bits));
    return text;
}

/** The second of three sends fails with these bits, and nothing of it arrives. */
void fails_alone(VIP_UINT32 bits)
{
    FaultyPair pair(std::string("status=") + hex(bits) + "@2", VIP_SERVICE_UNRELIABLE);
    const Work in[2] = {pair.receive(), pair.receive()};
    const Work out[3] = {pair.send("1"), pair.send("2"), pair.send("3")};
    CHECK(sent(pair.client) == out[0].desc);
    CHECK(send_failed(pair.client) == out[1].desc);
    CHECK(sent(pair.client) == out[2].desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND | bits, out[1].desc);
    CHECK(out[1].desc->CS.Length == 0);
    CHECK(received(pair.server) == in[0].desc);
    CHECK(received(pair.server) == in[1].desc);
    CHECK(in[1].buffer.data[0] == '3');
    CHECK(pair.client.state() == VIP_STATE_CONNECTED);
}

/** The first send fails with these bits; the connection ends, and what else was posted is
 * flushed. */
void breaks_connection(VIP_UINT32 bits)
{
    FaultyPair pair(std::string("status=0x") + hex(bits) + "@1");
    ErrorLog client_errors(pair.client_nic);
    ErrorLog server_errors(pair.server_nic);
    const Work in = pair.receive();
    const Work out = pair.send();
    CHECK(send_failed(pair.client) == out.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND | bits, out.desc);
    CHECK(receive_failed(pair.server) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, in.desc);
    client_errors.expect(pair.client, VIP_ERROR_CONN_LOST);
    server_errors.expect(pair.server, VIP_ERROR_CONN_LOST);
    CHECK(pair.client.state() == VIP_STATE_ERROR);
    CHECK(pair.server.state() == VIP_STATE_ERROR);
}

void fails(VIP_UINT32 bits)
{
    fails_alone(bits);
    breaks_connection(bits);
}

} // namespace

TEST_CASE("0x2 VIP_STATUS_FORMAT_ERROR", "[status]")
{
    fails(VIP_STATUS_FORMAT_ERROR);
}

TEST_CASE("0x4 VIP_STATUS_PROTECTION_ERROR", "[status]")
{
    fails(VIP_STATUS_PROTECTION_ERROR);
}

TEST_CASE("0x8 VIP_STATUS_LENGTH_ERROR", "[status]")
{
    fails(VIP_STATUS_LENGTH_ERROR);
}

TEST_CASE("0x10 VIP_STATUS_PARTIAL_ERROR", "[status]")
{
    fails(VIP_STATUS_PARTIAL_ERROR);
}

TEST_CASE("0x20 VIP_STATUS_DESC_FLUSHED_ERROR", "[status]")
{
    fails(VIP_STATUS_DESC_FLUSHED_ERROR);
}

TEST_CASE("0x40 VIP_STATUS_TRANSPORT_ERROR", "[status]")
{
    fails(VIP_STATUS_TRANSPORT_ERROR);
}

TEST_CASE("0x80 VIP_STATUS_RDMA_PROT_ERROR", "[status]")
{
    fails(VIP_STATUS_RDMA_PROT_ERROR);
}

TEST_CASE("0x100 VIP_STATUS_REMOTE_DESC_ERROR", "[status]")
{
    fails(VIP_STATUS_REMOTE_DESC_ERROR);
}

TEST_CASE("several error bits at once", "[status]")
{
    fails(VIP_STATUS_PARTIAL_ERROR | VIP_STATUS_TRANSPORT_ERROR);
    fails(VIP_STATUS_ERROR_MASK);
}

TEST_CASE("0x0 VIP_STATUS_OP_SEND and 0x10000 VIP_STATUS_OP_RECEIVE", "[status]")
{
    FaultyPair pair("seed=1");
    const Work in = pair.receive();
    const Work out = pair.send();
    CHECK(sent(pair.client) == out.desc);
    CHECK(received(pair.server) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, in.desc);
}

TEST_CASE("0x20000 VIP_STATUS_OP_RDMA_WRITE, and its damage", "[status]")
{
    FaultyPair pair("corrupt=@2");
    const Span there = pair.server_memory.bytes(8);
    const Work write =
        pair.client_memory.rdma(VIP_CONTROL_OP_RDMAWRITE, there.remote(), pair.client_memory.text("written"));
    post_send(pair.client, write);
    CHECK(sent(pair.client) == write.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE, write.desc);
    const Work again =
        pair.client_memory.rdma(VIP_CONTROL_OP_RDMAWRITE, there.remote(), pair.client_memory.text("damaged"));
    post_send(pair.client, again);
    CHECK(send_failed(pair.client) == again.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_TRANSPORT_ERROR, again.desc);
    CHECK(there.text().substr(0, 7) == "written");
}

TEST_CASE("0x30000 VIP_STATUS_OP_REMOTE_RDMA_WRITE and 0x80000 VIP_STATUS_IMMEDIATE", "[status]")
{
    FaultyPair pair("seed=1");
    const Work in = pair.receive();
    const Span there = pair.server_memory.bytes(8);
    Work write =
        pair.client_memory.rdma(VIP_CONTROL_OP_RDMAWRITE, there.remote(), pair.client_memory.text("written"));
    write.immediate(77);
    post_send(pair.client, write);
    CHECK(sent(pair.client) == write.desc);
    CHECK(received(pair.server) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, in.desc);
    CHECK(in.desc->CS.ImmediateData == 77);
}

TEST_CASE("0x40000 VIP_STATUS_OP_RDMA_READ, and its damage", "[status]")
{
    FaultyPair pair("corrupt=@2");
    const Memory readable(pair.server_nic, 64, rdma_memory());
    const RemoteSpan there = {reinterpret_cast<uintptr_t>(readable.data()), readable.handle()};
    readable.data()[0] = 'r';
    const Span here = pair.client_memory.bytes(8);
    const Work read = pair.client_memory.rdma(VIP_CONTROL_OP_RDMAREAD, there, here);
    post_send(pair.client, read);
    CHECK(sent(pair.client) == read.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_READ, read.desc);
    CHECK(here.data[0] == 'r');
    readable.data()[0] = 'x';
    const Work again = pair.client_memory.rdma(VIP_CONTROL_OP_RDMAREAD, there, here);
    post_send(pair.client, again);
    CHECK(send_failed(pair.client) == again.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_READ | VIP_STATUS_TRANSPORT_ERROR, again.desc);
    CHECK(here.data[0] == 'r');
}
