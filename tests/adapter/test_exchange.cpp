// SPDX-License-Identifier: MIT
//
// Memory that the adapter cannot reach: the card's accesses are messages to the program, which
// answers them. The program here is QEMU as far as it matters: it may answer only when its own
// request has been answered.
#include "raw_client.hpp"

#include <atomic>
#include <chrono>

using namespace adapter_test;

namespace {

constexpr std::uint64_t kIova = 0x5000;

vfu_dma dma_of(const Message &m)
{
    vfu_dma dma{};
    REQUIRE(vfu_dma_read(m.payload.data(), m.payload.size(), &dma));
    return dma;
}

/** The next message, which must be this command of the card's. */
Message command(Client &client, unsigned wanted)
{
    Message m = client.receive();
    REQUIRE(!m.ended);
    REQUIRE(m.header.flags == 0);
    REQUIRE(m.header.command == wanted);
    return m;
}

void answer(Client &client, const Message &m, const Bytes &data)
{
    Bytes payload(m.payload.begin(), m.payload.begin() + VFU_DMA_BYTES);
    payload.insert(payload.end(), data.begin(), data.end());
    client.send(m.header.command, payload, {}, VFU_REPLY, m.header.id);
}

void refuse(Client &client, const Message &m)
{
    Bytes bytes(VFU_HEADER_BYTES);
    const vfu_header header = {m.header.id, m.header.command, VFU_HEADER_BYTES, VFU_REPLY | VFU_ERROR,
                               EFAULT};
    vfu_header_write(bytes.data(), &header);
    client.send_bytes(bytes);
}

/** The reply to a request that was sent before. */
Message reply_to(Client &client, std::uint16_t id)
{
    Message m = client.receive();
    REQUIRE(!m.ended);
    REQUIRE((m.header.flags & VFU_TYPE) == VFU_REPLY);
    REQUIRE(m.header.id == id);
    return m;
}

Bytes unmap_message(std::uint64_t iova, std::uint64_t bytes)
{
    Bytes payload(VFU_DMA_UNMAP_BYTES);
    const vfu_dma_unmap unmap = {0, iova, bytes};
    vfu_dma_unmap_write(payload.data(), &unmap);
    return payload;
}

} // namespace

TEST_CASE("memory without a descriptor is accessed by messages of 64 KiB at most", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    REQUIRE(client.map(kIova, 1 << 20, {}) == 0);
    client.begin(FAKE_DMA_READ, kIova, 100000);
    Message first = command(client, VFU_DMA_READ);
    CHECK((dma_of(first).address == kIova && dma_of(first).bytes == 65536));
    Bytes data(65536);
    for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<std::uint8_t>(i * 5);
    }
    answer(client, first, data);
    Message second = command(client, VFU_DMA_READ);
    CHECK((dma_of(second).address == kIova + 65536 && dma_of(second).bytes == 100000 - 65536));
    answer(client, second, Bytes(100000 - 65536, 0x77));
    CHECK(client.result() == 1);
    CHECK(client.read(0, FAKE_BUFFER + 65530, 8) ==
          Bytes{data[65530], data[65531], data[65532], data[65533], data[65534], data[65535], 0x77, 0x77});

    client.write(0, FAKE_BUFFER, {9, 8, 7, 6});
    client.begin(FAKE_DMA_WRITE, kIova + 3, 4);
    Message write = command(client, VFU_DMA_WRITE);
    CHECK((dma_of(write).address == kIova + 3 && dma_of(write).bytes == 4));
    CHECK(Bytes(write.payload.begin() + VFU_DMA_BYTES, write.payload.end()) == Bytes{9, 8, 7, 6});
    answer(client, write, {});
    CHECK(client.result() == 1);
}

TEST_CASE("a program that takes smaller messages gets them", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, R"({"capabilities":{"max_data_xfer_size":1000}})");
    REQUIRE(client.map(kIova, 1 << 20, {}) == 0);
    client.begin(FAKE_DMA_READ, kIova, 1500);
    for (const unsigned bytes : {1000u, 500u}) {
        Message m = command(client, VFU_DMA_READ);
        CHECK(dma_of(m).bytes == bytes);
        answer(client, m, Bytes(bytes, 1));
    }
    CHECK(client.result() == 1);
}

TEST_CASE("the card asks for memory only after the reply to the store that made it ask", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    client.set(FAKE_IOVA, kIova, 8);
    client.set(FAKE_BYTES, 4);
    for (int i = 0; i < 200; ++i) {
        const std::uint16_t id = client.send(
            VFU_REGION_WRITE, Client::write_message(0, FAKE_COMMAND, Client::number(FAKE_DMA_READ, 4)));
        reply_to(client, id); // and nothing before it
        Message m = command(
            client,
            VFU_DMA_READ); // it is asked although nothing is mapped: other devices' memory is not announced
        answer(client, m, {1, 2, 3, 4});
        REQUIRE(client.result() == 1);
    }
}

TEST_CASE("registers are read and stored to while the card waits for memory", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    client.set(FAKE_SCRATCH, 5);
    client.begin(FAKE_DMA_READ, kIova, 4);
    Message m = command(client, VFU_DMA_READ);
    CHECK(client.get(FAKE_SCRATCH) == 5); // as QEMU, which answers only then
    CHECK(client.get(FAKE_RESULT) == 0);
    CHECK(client.get(0, VFU_REGION_CONFIG) == (RNIC_PCI_DEVICE << 16 | RNIC_PCI_VENDOR));
    const int memory = memory_file(4096, true);
    CHECK(client.map(0x100000, 4096, {memory}) == 0);
    CHECK(client.unmap(0x100000, 4096) == 0);
    client.set(FAKE_SCRATCH, 6); // answered, and made later
    answer(client, m, {1, 2, 3, 4});
    CHECK(client.get(FAKE_SCRATCH) == 6);
    CHECK(client.result() == 1);
    close(memory);
}

TEST_CASE("registers of another function are read while the card waits for memory", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket), other(adapter.socket), third(adapter.socket);
    client.begin(FAKE_DMA_READ, kIova, 4);
    Message m = command(client, VFU_DMA_READ);
    CHECK(other.get(FAKE_ID) == RNIC_ID_VALUE); // as QEMU, which has both functions, and answers only then
    other.set(FAKE_SCRATCH, 6);                 // answered, and made later
    const std::uint16_t later = other.send(VFU_REGION_READ, Client::access(0, FAKE_SCRATCH, 4));
    CHECK(third.get(FAKE_ID) == RNIC_ID_VALUE); // that one has to wait, others need not
    pollfd none = {other.fd, POLLIN, 0};
    CHECK(poll(&none, 1, 0) == 0);
    answer(client, m, {1, 2, 3, 4});
    CHECK(client.result() == 1);
    Message read = reply_to(other, later);
    CHECK(read.payload[VFU_ACCESS_BYTES] == 6);
}

TEST_CASE("a read that must not overtake a store ends the access, and sees the store", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    client.begin(FAKE_DMA_READ, kIova, 4);
    Message m = command(client, VFU_DMA_READ);
    client.set(FAKE_SCRATCH, 6);
    CHECK(client.get(FAKE_SCRATCH) == 6); // without an answer to the card
    CHECK(client.result() == 2);
    answer(client, m, {1, 2, 3, 4}); // too late, which nobody minds
    client.begin(FAKE_DMA_READ, kIova, 4);
    m = command(client, VFU_DMA_READ);
    answer(client, m, {4, 3, 2, 1});
    CHECK(client.result() == 1);
    CHECK(client.read(0, FAKE_BUFFER, 4) == Bytes{4, 3, 2, 1});
}

TEST_CASE("a reset, an unmap of what is accessed and too many stores end the access too", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    REQUIRE(client.map(kIova, 4096, {}) == 0);
    client.begin(FAKE_DMA_READ, kIova, 4);
    Message m = command(client, VFU_DMA_READ);
    CHECK(client.error_of(VFU_DMA_UNMAP, unmap_message(kIova, 4096)) == 0);
    answer(client, m, {1, 2, 3, 4}); // of memory that is not the card's any more
    CHECK(client.result() == 2);

    client.begin(FAKE_DMA_READ, kIova, 4);
    m = command(client, VFU_DMA_READ);
    CHECK(client.error_of(VFU_RESET, {}) == 0);
    CHECK(client.get(FAKE_ATTACHES) == 2);
    answer(client, m, {1, 2, 3, 4});

    client.begin(FAKE_DMA_READ, kIova, 4);
    m = command(client, VFU_DMA_READ);
    for (std::uint32_t i = 0; i <= RNIC_MAX_KEPT; ++i) {
        client.set(FAKE_SCRATCH, i);
    }
    CHECK(client.get(FAKE_SCRATCH) == RNIC_MAX_KEPT);
    CHECK(client.result() == 2);
    answer(client, m, {1, 2, 3, 4});
    CHECK(client.get(FAKE_ID) == RNIC_ID_VALUE);
}

TEST_CASE("a register is read while the card waits for memory, also behind a store that only rings",
          "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    client.begin(FAKE_DMA_READ, kIova, 4);
    const Message m = command(client, VFU_DMA_READ);
    client.set(RNIC_REG_WAKE, 1);
    CHECK(client.get(FAKE_ID) == RNIC_ID_VALUE);
    answer(client, m, {1, 2, 3, 4});
    CHECK(client.result() == 1);
}

TEST_CASE("memory that the program refuses is a failed access", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    for (const unsigned what : {FAKE_DMA_READ, FAKE_DMA_WRITE}) {
        client.begin(what, kIova, 4);
        Message m = client.receive();
        refuse(client, m);
        CHECK(client.result() == 2);
    }
}

TEST_CASE("a program that does not answer delays the card once, for a second", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket), other(adapter.socket);
    client.begin(FAKE_DMA_READ, kIova, 4);
    Message m = command(client, VFU_DMA_READ);
    const auto before = std::chrono::steady_clock::now();
    other.set(FAKE_SCRATCH, 7); // which changes the card, and what is read behind it shows that
    CHECK(other.get(FAKE_SCRATCH) == 7);
    const auto waited = std::chrono::steady_clock::now() - before;
    CHECK(waited > std::chrono::milliseconds(500));
    CHECK(waited < std::chrono::seconds(1) * vipl_test::timeout_scale() + std::chrono::milliseconds(500));
    CHECK(client.result() == 2);
    CHECK_FALSE(client.run(FAKE_DMA_READ, kIova, 4)); // without another message
    answer(client, m, {1, 2, 3, 4});
    client.begin(FAKE_DMA_READ, kIova, 4); // it answers again: so is it asked
    m = command(client, VFU_DMA_READ);
    answer(client, m, {4, 3, 2, 1});
    CHECK(client.result() == 1);
}

TEST_CASE("a program that never ceases to ask, and does not answer, has no more time than that", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket), other(adapter.socket);
    Bytes requests;
    const Bytes read = Client::access(0, FAKE_BUFFER, 4096);
    for (int i = 0; i < 1000; ++i) { // which need no reply, so that nothing holds them up
        Bytes bytes(VFU_HEADER_BYTES);
        const vfu_header header = {7, VFU_REGION_READ, VFU_HEADER_BYTES + VFU_ACCESS_BYTES, VFU_NO_REPLY, 0};
        vfu_header_write(bytes.data(), &header);
        requests.insert(requests.end(), bytes.begin(), bytes.end());
        requests.insert(requests.end(), read.begin(), read.end());
    }
    client.begin(FAKE_DMA_READ, kIova, 4);
    command(client, VFU_DMA_READ);
    std::atomic<bool> enough{false};
    std::thread flood([&] {
        while (!enough) { // blocking; without a check, of which only one thread may make one at a time
            (void)::send(client.fd, requests.data(), requests.size(), MSG_NOSIGNAL);
        }
    });
    const int id = other.send(VFU_REGION_READ, Client::access(0, FAKE_ID, 4));
    pollfd reply = {other.fd, POLLIN, 0};
    CHECK(poll(&reply, 1, wait_ms()) == 1);
    enough = true;
    flood.join();
    CHECK(other.receive().header.id == id);
    CHECK(client.result() == 2);
}

TEST_CASE("a reply that is too short, or to nothing, ends the connection", "[exchange]")
{
    const Adapter adapter;
    {
        Client client(adapter.socket);
        client.begin(FAKE_DMA_READ, kIova, 4);
        answer(client, command(client, VFU_DMA_READ), {1, 2, 3});
        CHECK(client.receive().ended);
    }
    {
        Client client(adapter.socket);
        client.send(VFU_DMA_READ, Bytes(20), {}, VFU_REPLY, 1);
        CHECK(client.receive().ended);
    }
    Client client(adapter.socket);
    client.begin(FAKE_DMA_READ, kIova, 4);
    command(client, VFU_DMA_READ);
    client.hang_up(); // while it is asked
    Client next(adapter.socket);
    CHECK(next.get(FAKE_ID) == RNIC_ID_VALUE);
}

TEST_CASE("a program of this library is not asked for what it has not mapped", "[exchange]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, R"({"capabilities":{"vipl_memory_file":true}})");
    CHECK_FALSE(client.run(FAKE_DMA_READ, kIova, 4));
    REQUIRE(client.map(kIova, 4096, {}) == 0);
    client.begin(FAKE_DMA_READ, kIova + 4094, 4);
    answer(client, command(client, VFU_DMA_READ), {1, 2});
    CHECK(client.result() == 2); // the other two bytes are not mapped
}
