// SPDX-License-Identifier: MIT
//
// What a function answers over vfio-user: about itself, its registers, doorbells and interrupts.
#include "raw_client.hpp"

#include <sys/eventfd.h>

using namespace adapter_test;

namespace {

Bytes numbers(std::initializer_list<std::uint32_t> values)
{
    Bytes out;
    for (const std::uint32_t value : values) {
        put(out, value, 4);
    }
    return out;
}

Bytes region_question(unsigned index)
{
    return numbers({32, 0, index, 0, 0, 0, 0, 0});
}

bool is_readable(int fd, int ms)
{
    pollfd entry = {fd, POLLIN, 0};
    return poll(&entry, 1, ms) == 1;
}

} // namespace

TEST_CASE("the versions of vfio-user are agreed upon once, and first", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, R"({"capabilities":{"max_msg_fds":8,"write_multiple":true}})");
    CHECK(client.greeting == std::string(R"({"capabilities":{"max_msg_fds":16,"max_data_xfer_size":4096,)"
                                         R"("max_dma_maps":65535,"write_multiple":true}})") +
                                 '\0');
    CHECK(client.error_of(VFU_VERSION, {0, 0, 0, 0}) == EINVAL);
    Client plain(adapter.socket);
    CHECK(plain.greeting.find("write_multiple") == std::string::npos);
    Client other(adapter.socket, false);
    CHECK(other.error_of(VFU_VERSION, {1, 0, 0, 0}) == EINVAL); // another major version
    CHECK(other.error_of(VFU_VERSION, {0, 0, 0}) == EINVAL);
    CHECK(other.error_of(VFU_VERSION, {0, 0, 0, 0, '{'}) == EINVAL);
    CHECK(other.error_of(VFU_VERSION, {0, 0, 9, 0}) == 0); // a later minor one: ours is 0
    Client early(adapter.socket, false);
    early.send(VFU_GET_INFO, numbers({16, 0, 0, 0}));
    CHECK(early.receive().ended);
}

TEST_CASE("a function is a PCI device with four regions and MSI-X alone", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    CHECK(client.ask(VFU_GET_INFO, numbers({16, 0, 0, 0})).payload == numbers({16, 3, 9, 5}));
    for (unsigned index = 0; index < 9; ++index) {
        INFO(index);
        Message reply = client.ask(VFU_GET_REGION_INFO, region_question(index));
        const std::uint32_t bytes = index == 0   ? 0x200000
                                    : index == 2 ? 0x1000000
                                    : index == 4 ? kDeviceMemory
                                    : index == 7 ? 4096
                                                 : 0;
        const std::uint32_t flags = index == 2 || index == 4 ? 7 : bytes != 0 ? 3 : 0;
        CHECK(reply.payload == numbers({32, flags, index, 0, bytes, 0, 0, 0}));
        REQUIRE(reply.fds.size() == (index == 2 || index == 4 ? 1 : 0));
        for (const int fd : reply.fds) {
            vipl_fd_close(fd);
        }
    }
    CHECK(client.error_of(VFU_GET_REGION_INFO, region_question(9)) == EINVAL);
    CHECK(client.error_of(VFU_GET_REGION_INFO, {}) == EINVAL);
    for (unsigned index = 0; index < 5;
         ++index) { // flags: nothing but events; no pin, and vectors may be added one by one
        const std::uint32_t count = index == 2 ? RNIC_VECTORS : 0;
        CHECK(client.ask(VFU_GET_IRQ_INFO, numbers({16, 0, index, 0})).payload ==
              numbers({16, count > 0 ? 1u : 0u, index, count}));
    }
    CHECK(client.error_of(VFU_GET_IRQ_INFO, numbers({16, 0, 5, 0})) == EINVAL);
    CHECK(client.error_of(VFU_GET_REGION_IO_FDS, numbers({16, 0, 2, 0})) == ENOTSUP);
    CHECK(client.error_of(99, {}) == ENOTSUP);
}

TEST_CASE("registers are read and written, at any offset and length", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    CHECK(client.get(FAKE_ID) == RNIC_ID_VALUE);
    Bytes data;
    for (unsigned i = 0; i < 4096; ++i) {
        data.push_back(static_cast<std::uint8_t>(i * 7 + i / 256));
    }
    client.write(0, FAKE_BUFFER + 3, data);
    CHECK(client.read(0, FAKE_BUFFER + 3, 4096) == data);
    CHECK(client.read(0, FAKE_BUFFER, 3) == Bytes{0, 0, 0});
    client.write(0, FAKE_SCRATCH + 5, {1, 2, 3});
    CHECK(client.read(0, FAKE_SCRATCH + 4, 5) == Bytes{0, 1, 2, 3, 0});
    CHECK(client.read(0, FAKE_SCRATCH, 0).empty());
    for (const Bytes &bad : {Client::access(0, RNIC_BAR0_BYTES - 3, 4), Client::access(0, UINT64_MAX, 4),
                             Client::access(1, 0, 4), Client::access(8, 0, 1), Client::access(0, 0, 4097),
                             Client::access(7, 4096, 1)}) {
        CHECK(client.error_of(VFU_REGION_READ, bad) == EINVAL);
        CHECK(client.error_of(VFU_REGION_WRITE, bad) == EINVAL);
    }
    CHECK(client.error_of(VFU_REGION_WRITE, Client::access(0, FAKE_SCRATCH, 4)) ==
          EINVAL); // without its data
    CHECK(client.error_of(VFU_REGION_READ, {1, 2, 3}) == EINVAL);
}

TEST_CASE("configuration space tells sizes of BARs and its capabilities", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    CHECK(client.get(0, VFU_REGION_CONFIG) == (RNIC_PCI_DEVICE << 16 | RNIC_PCI_VENDOR));
    client.write(VFU_REGION_CONFIG, 0x10, {0xFF, 0xFF, 0xFF, 0xFF});
    CHECK(client.get(0x10, VFU_REGION_CONFIG) == ~(std::uint32_t{RNIC_BAR0_BYTES} - 1));
    CHECK(client.read(VFU_REGION_CONFIG, 0x3D, 1) == Bytes{0}); // no interrupt pin
    CHECK(client.read(VFU_REGION_CONFIG, 0, 4096).size() == 4096);
}

TEST_CASE("several stores in one message are made in their order", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    Bytes message;
    put(message, 200, 8);
    for (unsigned i = 0; i < 200; ++i) {
        const Bytes one = Client::write_message(0, FAKE_SCRATCH + i % 2 * 4, Client::number(i, 8));
        message.insert(message.end(), one.begin(), one.end());
        message[8 + 24 * i + 12] = 4; // bytes of it
    }
    CHECK(client.ask(VFU_REGION_WRITE_MULTI, message).payload == Client::number(200, 8));
    CHECK(client.get(FAKE_SCRATCH) == 198);
    CHECK(client.get(FAKE_SCRATCH + 4) == 199);
    message[8 + 24 * 199 + 12] = 9; // more than a store can have: none of them is made
    message[8 + 16] = 77;
    CHECK(client.error_of(VFU_REGION_WRITE_MULTI, message) == EINVAL);
    message[0] = 255; // more than there are
    CHECK(client.error_of(VFU_REGION_WRITE_MULTI, message) == EINVAL);
    CHECK(client.error_of(VFU_REGION_WRITE_MULTI, Client::number(UINT64_MAX, 8)) == EINVAL);
    CHECK(client.get(FAKE_SCRATCH) == 198);
}

TEST_CASE("what needs no reply gets none, not even an error", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    client.send(VFU_REGION_WRITE, Client::write_message(0, FAKE_SCRATCH, {9}), {}, VFU_NO_REPLY);
    client.send(VFU_REGION_WRITE, Client::access(1, 0, 4), {}, VFU_NO_REPLY);
    client.send(99, {}, {}, VFU_NO_REPLY);
    CHECK(client.get(FAKE_SCRATCH) == 9); // the next reply is this one's
}

TEST_CASE("a store to a mapped doorbell is seen without a message", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    Message reply = client.ask(VFU_GET_REGION_INFO, region_question(2));
    REQUIRE(reply.fds.size() == 1);
    vipl_shm bar2{};
    REQUIRE(vipl_shm_attach(&bar2, reply.fds[0], RNIC_BAR2_BYTES, true) == 0); // refused unless it is sealed
    auto *base = static_cast<std::uint8_t *>(bar2.base);
    auto *asleep = reinterpret_cast<std::uint32_t *>(base + RNIC_DB_ASLEEP);
    for (std::uint32_t round = 1; round < 2000; ++round) {
        const Bytes value = Client::number(round, 4);
        std::uint32_t word;
        std::memcpy(&word, value.data(), 4);
        __atomic_store_n(reinterpret_cast<std::uint32_t *>(base + RNIC_DB_QP), word, __ATOMIC_RELEASE);
        __atomic_store_n(base + RNIC_DB_QP_HINTS, 1, __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(asleep, __ATOMIC_RELAXED) != 0) {
            client.set(RNIC_REG_WAKE, 1);
        }
        while (__atomic_load_n(base + RNIC_DB_QP_HINTS, __ATOMIC_ACQUIRE) != 0) {
        }
    }
    while (client.get(FAKE_DOORBELL) != 1999) {
    }
    client.write(VFU_REGION_BAR0 + 2, RNIC_DB_QP, Client::number(77777, 4)); // the same by a message
    while (client.get(FAKE_DOORBELL) != 77777) {
    }
    CHECK(base[RNIC_DB_QP] == (77777 & 0xFF));
    vipl_shm_release(&bar2);
}

TEST_CASE("device memory is mapped, reached by messages, and zero after a reset", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket), other(adapter.socket);
    Message reply = client.ask(VFU_GET_REGION_INFO, region_question(4));
    REQUIRE(reply.fds.size() == 1);
    vipl_shm bar4{};
    REQUIRE(vipl_shm_attach(&bar4, reply.fds[0], kDeviceMemory, true) == 0);
    auto *base = static_cast<std::uint8_t *>(bar4.base);
    base[5] = 77;
    CHECK(client.get(4, VFU_REGION_BAR0 + 4) == 77 << 8);
    client.write(VFU_REGION_BAR0 + 4, kDeviceMemory - 4, Client::number(0x01020304, 4));
    CHECK(client.get(kDeviceMemory - 4, VFU_REGION_BAR0 + 4) == 0x01020304);
    CHECK(base[kDeviceMemory - 4] == 4);
    CHECK(other.get(4, VFU_REGION_BAR0 + 4) == 0); // each program has its own
    for (const std::uint64_t at : {std::uint64_t{kDeviceMemory} - 3, UINT64_MAX - 3, UINT64_MAX / 2}) {
        Bytes access(VFU_ACCESS_BYTES);
        const vfu_access beyond = {at, VFU_REGION_BAR0 + 4, 4};
        vfu_access_write(access.data(), &beyond);
        CHECK(client.error_of(VFU_REGION_READ, access) == EINVAL);
        access.resize(VFU_ACCESS_BYTES + 4);
        CHECK(client.error_of(VFU_REGION_WRITE, access) == EINVAL);
    }
    CHECK(client.error_of(VFU_RESET, {}) == 0);
    CHECK(base[5] == 0);
    CHECK(base[kDeviceMemory - 4] == 0);
    vipl_shm_release(&bar4);
}

TEST_CASE("an adapter without anything to do sleeps, and says so in the doorbells", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    Message reply = client.ask(VFU_GET_REGION_INFO, region_question(2));
    vipl_shm bar2{};
    REQUIRE(vipl_shm_attach(&bar2, reply.fds.at(0), RNIC_BAR2_BYTES, true) == 0);
    auto *asleep = static_cast<std::uint32_t *>(bar2.base);
    while (__atomic_load_n(asleep, __ATOMIC_ACQUIRE) == 0) {
        vipl_test::give_way(); // CTest's time limit ends this
    }
    const std::uint32_t sleeps = client.get(FAKE_SLEEPS);
    CHECK_FALSE(is_readable(client.fd, vipl_test::kMoment)); // it says nothing either
    CHECK(client.get(FAKE_SLEEPS) <= sleeps + 2);            // it did not wake in between
    vipl_shm_release(&bar2);
}

TEST_CASE("interrupts signal the program's events, those it has named", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    const int first = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), second = eventfd(0, EFD_CLOEXEC);
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 3, 2}), {first, second}) == 0);
    client.run(FAKE_INTERRUPT, 0, 4);
    CHECK(is_readable(second, wait_ms()));
    CHECK_FALSE(is_readable(first, 0));
    client.run(FAKE_INTERRUPT, 0, 2);                                          // nobody has named it
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 4, 1})) == 0); // not any more
    std::uint64_t count = 0;
    REQUIRE(read(second, &count, 8) == 8);
    client.run(FAKE_INTERRUPT, 0, 4);
    client.run(FAKE_INTERRUPT, 0, 3);
    CHECK(is_readable(first, wait_ms()));
    CHECK_FALSE(is_readable(second, 0));
    REQUIRE(read(first, &count, 8) == 8);
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x21, 2, 3, 1})) == 0); // a test of the wiring
    CHECK(is_readable(first, wait_ms()));
    REQUIRE(read(first, &count, 8) == 8);
    Bytes truth = numbers({22, 0x22, 2, 2, 2});
    truth.insert(truth.end(), {1, 0});
    REQUIRE(client.error_of(VFU_SET_IRQS, truth) == 0);
    CHECK_FALSE(is_readable(first, 0));
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x21, 2, 0, 0})) == 0); // all of them off
    client.run(FAKE_INTERRUPT, 0, 3);
    CHECK_FALSE(is_readable(first, 0));
    close(first);
    close(second);
}

TEST_CASE("vectors that have events are open, also after a reset", "[requests]")
{
    const auto masked = [](Client &client) {
        std::string mask;
        for (std::uint32_t i = 0; i < RNIC_VECTORS; i++) {
            mask += client.get(RNIC_MSIX_TABLE + i * 16 + 12) == 0 ? '.' : 'm';
        }
        return mask;
    };
    const Adapter adapter;
    Client client(adapter.socket);
    CHECK(masked(client) == "mmmmmmmmmmmmmmmm");
    const int event = eventfd(0, EFD_CLOEXEC);
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 1, 2}), {event, event}) == 0);
    CHECK(masked(client) == "m..mmmmmmmmmmmmm");
    client.write(VFU_REGION_CONFIG, 0x48, {0, 0x80}); // a function-level reset
    CHECK(masked(client) == "m..mmmmmmmmmmmmm");
    REQUIRE(client.error_of(VFU_RESET, {}) == 0);
    CHECK(masked(client) == "m..mmmmmmmmmmmmm");
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 2, 1})) == 0);
    CHECK(masked(client) == "m.mmmmmmmmmmmmmm");
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x21, 2, 0, 0})) == 0);
    CHECK(masked(client) == "mmmmmmmmmmmmmmmm");
    close(event);
}

TEST_CASE("events that could block the adapter are refused", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const int event = eventfd(0, EFD_CLOEXEC);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 0, 1}), {ends[1]}) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 0, 2}), {event, ends[1]}) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 0, 2}), {event}) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 15, 2}), {event, event}) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, UINT32_MAX, 1}), {event}) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 0, 0, 1}), {event}) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x22, 2, 0, 1})) == EINVAL);
    CHECK(client.error_of(VFU_SET_IRQS, numbers({20, 0x0C, 2, 0, 1}), {event}) == EINVAL);
    client.run(FAKE_INTERRUPT, 0, 0);
    CHECK_FALSE(is_readable(event, 0));
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 0, 1}), {event}) == 0);
    const std::uint64_t full = UINT64_MAX - 1;
    REQUIRE(write(event, &full, 8) == 8);
    client.run(FAKE_INTERRUPT, 0, 0); // full: it would block
    const int flags = fcntl(event, F_GETFL);
    REQUIRE(fcntl(event, F_SETFL, flags & ~O_NONBLOCK) == 0);
    client.run(FAKE_INTERRUPT, 0, 0);
    CHECK(client.get(FAKE_ID) == RNIC_ID_VALUE);
    for (const int fd : {ends[0], ends[1], event}) {
        close(fd);
    }
}

TEST_CASE("a reset keeps the connection, its memory and its events, and forgets all else", "[requests]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), memory = memory_file(4096, true);
    REQUIRE(client.error_of(VFU_SET_IRQS, numbers({20, 0x24, 2, 0, 1}), {event}) == 0);
    REQUIRE(client.map(0x10000, 4096, {memory}) == 0);
    client.set(FAKE_SCRATCH, 5);
    client.write(2, RNIC_DB_QP + 64, {1, 2, 3, 4});
    REQUIRE(client.error_of(VFU_RESET, {}) == 0);
    CHECK(client.get(FAKE_SCRATCH) == 0);
    CHECK(client.get(RNIC_DB_QP + 64, 2) == 0);
    CHECK(client.run(FAKE_DMA_READ, 0x10000, 16));
    CHECK(client.run(FAKE_INTERRUPT, 0, 0));
    CHECK(is_readable(event, wait_ms()));
    close(event);
    close(memory);
}
