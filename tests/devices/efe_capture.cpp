// SPDX-License-Identifier: MIT
//
// Writes a capture of EFE's frames, as a wire between two adapters would carry them:
// vipl-efe-capture FILE. The data frames carry DDP segments of all operations; frames of all types
// are there, on a wire that loses, reorders and corrupts.
#include "adapters.hpp"

#include <cstdio>

extern "C" {
#include "iwarp/rdmap.h"
}

using namespace adapters;

namespace {

constexpr std::uint32_t kEthernetLeast = 60; // bytes of a frame: what is shorter is padded

vipl_ddp untagged(std::uint8_t op, std::uint32_t queue, std::uint32_t msn)
{
    vipl_ddp ddp{};
    ddp.last = true;
    ddp.op = op;
    ddp.queue = queue;
    ddp.msn = msn;
    return ddp;
}

vipl_ddp tagged(std::uint8_t op, std::uint32_t stag, std::uint64_t offset)
{
    vipl_ddp ddp{};
    ddp.tagged = true;
    ddp.last = true;
    ddp.op = op;
    ddp.stag = stag;
    ddp.offset = offset;
    return ddp;
}

std::uint32_t with_bytes(std::uint8_t *to, const vipl_ddp &ddp, std::uint32_t bytes)
{
    const std::size_t header = vipl_ddp_write(to, &ddp);
    for (std::uint32_t i = 0; i < bytes; ++i) {
        to[header + i] = static_cast<std::uint8_t>(i);
    }
    return static_cast<std::uint32_t>(header + bytes);
}

/** A segment of one of the operations in turn. */
std::uint32_t make_segment(std::uint64_t index, std::uint8_t *to)
{
    const auto number = static_cast<std::uint32_t>(index);
    switch (index % 6) {
    case 0:
        return with_bytes(to, tagged(VIPL_RDMAP_WRITE, 0xABCD0000 + number, 0x100000000 + index),
                          300 + number);
    case 1: {
        const vipl_rdmap_read read = {0x1111, 0x2222, 0x3333, 0x4444, 0x5555};
        const vipl_ddp ddp = untagged(VIPL_RDMAP_READ_REQUEST, VIPL_DDP_QUEUE_READ_REQUEST, number / 6 + 1);
        const std::uint32_t header = with_bytes(to, ddp, 0);
        vipl_rdmap_read_write(to + header, &read);
        return header + VIPL_RDMAP_READ_REQUEST_BYTES;
    }
    case 2:
        return with_bytes(to, tagged(VIPL_RDMAP_READ_RESPONSE, 0x1111, 0x2222), number);
    case 3: {
        vipl_rdmap_terminate terminate{};
        terminate.reason = VIPL_TERM_RDMAP_ACCESS;
        const std::uint32_t header =
            with_bytes(to, untagged(VIPL_RDMAP_TERMINATE, VIPL_DDP_QUEUE_TERMINATE, 1), 0);
        return header + static_cast<std::uint32_t>(vipl_rdmap_terminate_write(to + header, &terminate));
    }
    default:
        return with_bytes(to, untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, number), 64);
    }
}

void put(std::FILE *file, std::uint32_t value)
{
    const std::uint8_t bytes[4] = {static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(value >> 8),
                                   static_cast<std::uint8_t>(value >> 16),
                                   static_cast<std::uint8_t>(value >> 24)};
    std::fwrite(bytes, 1, sizeof bytes, file);
}

/** The old pcap format, nanoseconds, Ethernet. */
bool write_capture(const char *path, const std::vector<std::pair<std::uint64_t, Bytes>> &frames)
{
    std::FILE *file = std::fopen(path, "wb");
    if (file == nullptr) {
        return false;
    }
    for (const std::uint32_t word : {0xA1B23C4Du, 0x00040002u, 0u, 0u, 65535u, 1u}) {
        put(file, word);
    }
    for (const auto &frame : frames) {
        Bytes bytes = frame.second;
        bytes.resize(std::max<std::size_t>(bytes.size(), kEthernetLeast + bytes.size() % 3), 0);
        const auto length = static_cast<std::uint32_t>(bytes.size());
        for (const std::uint32_t word : {static_cast<std::uint32_t>(frame.first / second),
                                         static_cast<std::uint32_t>(frame.first % second), length, length}) {
            put(file, word);
        }
        std::fwrite(bytes.data(), 1, bytes.size(), file);
    }
    return std::fclose(file) == 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    World world;
    Settings settings;
    settings.impair = "loss=0.1,reorder=0.2,corrupt=0.05,delay=20us,seed=4";
    Adapter &a = world.add(settings), &b = world.add(settings);
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    world.passes = [&](const Bytes &frame) {
        frames.emplace_back(world.now, frame);
        return true;
    };
    a.judges = b.judges = [](const Ends &) { return false; };
    a.makes = b.makes = make_segment;
    a.send(0, b, 1, 300);
    b.send(1, a, 0, 100);
    a.send(3, b, EFE_ADAPTER, 3);
    b.stop(2);
    a.send(2, b, 2, 50);
    world.run_for(50 * ms);
    b.go_on(2);
    if (!world.run_until([&] { return world.is_done(); }, 10 * second)) {
        std::fprintf(stderr, "%s: not all frames have come\n", argv[0]);
        return 1;
    }
    a.reset(0);
    world.run_for(second);
    return write_capture(argv[1], frames) ? 0 : 1;
}
