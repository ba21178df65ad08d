// SPDX-License-Identifier: MIT
//
// The bus protocol at a peer that sends anything. The first byte of the input chooses the end that
// is tested: the driver's, at a card that has said HELLO; or the adapter's, at a host. The rest is
// what the peer sends, in pieces: two bytes that say how many follow, and those.
#include "fuzz_adapter.hpp"

#include <algorithm>

#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include "bus/host.h"
}

namespace {

constexpr std::uint64_t kMemoryAt = 0x1000;

int pair(int *other)
{
    int fds[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    *other = fds[1];
    return fds[0];
}

void drain(int fd)
{
    std::uint8_t part[65536];
    while (read(fd, part, sizeof part) > 0) {
    }
}

/** Calls `turn` after each piece that has been sent to the peer of `fd`. */
template <class Turn>
void send_pieces(int fd, const std::uint8_t *data, std::size_t size, const Turn &turn)
{
    for (std::size_t at = 0; at + 2 <= size;) {
        const std::size_t length = std::min<std::size_t>(data[at] << 8 | data[at + 1], size - at - 2);
        (void)!send(fd, fuzz::exactly(data + at + 2, length).get(), length, MSG_NOSIGNAL);
        at += 2 + length;
        turn();
        drain(fd);
    }
}

/** The host's memory: a page, of which nothing beside may be touched. */
struct Memory {
    std::uint8_t before[64], bytes[4096], behind[64];

    std::uint8_t *at(std::uint64_t address, std::uint32_t count)
    {
        const std::uint64_t offset = address - kMemoryAt;
        return address >= kMemoryAt && offset <= sizeof bytes && count <= sizeof bytes - offset
                   ? bytes + offset
                   : nullptr;
    }
};

const rnic_bus_host_ops host_ops = {
    [](void *context, std::uint64_t address, void *out, std::uint32_t bytes) {
        const std::uint8_t *at = static_cast<Memory *>(context)->at(address, bytes);
        if (at != nullptr) {
            std::memcpy(out, at, bytes);
        }
        return at != nullptr;
    },
    [](void *context, std::uint64_t address, const void *in, std::uint32_t bytes) -> const char * {
        FUZZ_CHECK(bytes >= 1 && bytes <= BUS_MAX_DMA);
        std::uint8_t *at = static_cast<Memory *>(context)->at(address, bytes);
        if (at != nullptr) {
            std::memcpy(at, in, bytes);
        }
        return at != nullptr ? nullptr : "not there";
    },
    [](void *, std::uint64_t vector) { return vector < 16; }, [](void *) {}};

void test_host(const std::uint8_t *data, std::size_t size)
{
    static Memory memory;
    rnic_bus_host host;
    std::uint8_t hello[BUS_HEADER_BYTES + BUS_CARD_HELLO_BYTES] = {};
    rnic_bus_message m = {};
    m.bytes = sizeof hello;
    m.kind = BUS_HELLO;
    m.id = BUS_MAGIC;
    m.value = BUS_VERSION;
    rnic_bus_message_write(hello, &m);
    int card = -1;
    const int fd = pair(&card);
    FUZZ_CHECK(write(card, hello, sizeof hello) == sizeof hello);
    FUZZ_CHECK(rnic_bus_host_open(&host, fd, 1000, &host_ops, &memory) == 0);
    send_pieces(card, data, size, [&] {
        for (int i = 0; i < 4; ++i) {
            (void)rnic_bus_host_serve(&host);
        }
    });
    rnic_bus_host_close(&host);
    vipl_fd_close(card);
    for (const std::uint8_t *beside : {memory.before, memory.behind}) {
        FUZZ_CHECK(std::all_of(beside, beside + 64, [](std::uint8_t byte) { return byte == 0; }));
    }
}

void test_card(const std::uint8_t *data, std::size_t size)
{
    static const FuzzAdapter own; // what a host has done must not stay with the function
    const rnic_function &function = own.adapter->functions[0];
    int host = -1;
    const int fd = pair(&host);
    FUZZ_CHECK(rnic_function_attach(&own.adapter->functions[0], &rnic_bus_protocol, fd) == 0);
    const auto turns = [&] {
        for (int i = 0; i < 4; ++i) {
            rnic_adapter_turn(own.adapter);
        }
    };
    send_pieces(host, data, size, turns);
    vipl_fd_close(host);
    for (int i = 0; i < 1000 && function.channel.fd >= 0; ++i) { // it reads what is there before
        turns();
    }
    FUZZ_CHECK(function.channel.fd < 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size > 0) {
        (data[0] % 2 == 0 ? test_host : test_card)(data + 1, size - 1);
    }
    return 0;
}
