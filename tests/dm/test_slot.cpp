// SPDX-License-Identifier: MIT
//
// Slots that are blocks: files of them are read back by the reader of recordings.
#include "recordings.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

extern "C" {
#include "dm/bytes.h"
#include "dm/section.h"
#include "dm/slot.h"
}

using namespace dm_test;

namespace {

const bool is_big = [] {
    const std::uint16_t one = 1;
    std::uint8_t first;
    std::memcpy(&first, &one, 1);
    return first == 0;
}();

const dm_section section = {"eth0", "nobody's", 1518};

/** A file of these packets, as slots are: each is in memory of its own, full of other bytes. */
Bytes file_of(const std::vector<Bytes> &packets, std::uint32_t snaplen)
{
    const std::uint32_t slot_bytes = dm_slot_bytes(snaplen);
    Bytes file(DM_HEAD_ROOM, 0xEE);
    file.resize(dm_section_head(&section, slot_bytes, file.data()));
    std::uint64_t time = 1700000000123456789;
    for (const Bytes &packet : packets) {
        Bytes slot(slot_bytes, 0xEE);
        dm_slot_prepare(slot.data(), slot_bytes);
        std::memcpy(slot.data() + DM_SLOT_HEADROOM, packet.data(), packet.size());
        const dm_arrival arrival = {time++, static_cast<std::uint32_t>(packet.size()),
                                    static_cast<std::uint32_t>(packet.size()) + 1};
        dm_slot_fill(slot.data(), slot_bytes, &arrival);
        file.insert(file.end(), slot.begin(), slot.end());
    }
    Bytes tail(DM_TAIL_ROOM, 0xEE);
    const dm_statistics statistics = {5, 6, 10, 1, 2, 7};
    tail.resize(dm_section_tail(&statistics, slot_bytes, tail.data()));
    file.insert(file.end(), tail.begin(), tail.end());
    return file;
}

/** Every block of a file, by its lengths at both ends: their types. */
std::vector<std::uint32_t> blocks_of(const Bytes &file)
{
    std::vector<std::uint32_t> types;
    std::size_t at = 0;
    while (at < file.size()) {
        const std::uint32_t length = dm_get32(file.data() + at + 4, is_big);
        REQUIRE(length % 4 == 0);
        REQUIRE(length >= 12);
        REQUIRE(length <= file.size() - at);
        REQUIRE(dm_get32(file.data() + at + length - 4, is_big) == length);
        types.push_back(dm_get32(file.data() + at, is_big));
        at += length;
    }
    return types;
}

} // namespace

TEST_CASE("slots one after another are a file of pcapng, for packets of every length", "[dm_slot]")
{
    for (std::uint32_t snaplen : {1u, 60u, 372u, 373u, 376u, 377u, 1518u, 9018u, 65400u}) {
        std::vector<Bytes> packets;
        for (std::uint32_t length = 1; length <= snaplen; length += snaplen > 2000 ? 997 : 1) {
            packets.push_back(frame(length, length));
        }
        packets.push_back(frame(3, snaplen));
        const Bytes file = file_of(packets, snaplen);
        const std::vector<std::uint32_t> types = blocks_of(file);
        REQUIRE(types.size() == packets.size() + 3);
        CHECK(types[0] == 0x0A0D0D0A);
        CHECK(types[1] == 1);
        CHECK(types.back() == 5);
        const Reading r = read(file);
        INFO(r.why);
        REQUIRE(r.error == ENODATA);
        REQUIRE(r.packets.size() == packets.size());
        for (std::size_t i = 0; i < packets.size(); ++i) {
            REQUIRE(r.packets[i].bytes == packets[i].size());
            REQUIRE(r.packets[i].original == packets[i].size() + 1);
            REQUIRE(r.packets[i].time == UINT64_C(1700000000123456789) + i);
            REQUIRE(std::memcmp(file.data() + r.packets[i].offset, packets[i].data(), packets[i].size()) ==
                    0);
        }
    }
}

TEST_CASE("the options of every block end where the block ends", "[dm_slot]")
{
    const Bytes file = file_of({frame(1, 60), frame(2, 61), frame(3, 1518)}, 1518);
    std::size_t at = 0;
    unsigned blocks = 0;
    while (at < file.size()) {
        const std::uint32_t type = dm_get32(file.data() + at, is_big);
        const std::uint32_t length = dm_get32(file.data() + at + 4, is_big);
        std::size_t option = at + (type == 0x0A0D0D0A ? 24 : type == 1 ? 16 : type == 5 ? 20 : 28);
        if (type == 6) {
            option += (dm_get32(file.data() + at + 20, is_big) + 3) / 4 * 4;
        }
        std::uint32_t code = 1;
        while (code != 0) {
            REQUIRE(option + 4 <= at + length - 4);
            code = dm_get16(file.data() + option, is_big);
            option += 4 + (dm_get16(file.data() + option + 2, is_big) + 3u) / 4 * 4;
        }
        CHECK(option == at + length - 4);
        at += length;
        ++blocks;
    }
    CHECK(blocks == 6);
}

TEST_CASE("a file without packets is whole", "[dm_slot]")
{
    const Bytes file = file_of({}, 1518);
    CHECK(blocks_of(file) == std::vector<std::uint32_t>{0x0A0D0D0A, 1, 5});
    CHECK(read(file).error == ENODATA);
    CHECK_FALSE(read(file).is_cut);
}

TEST_CASE("slots are compacted where they are, and nothing of other packets stays", "[dm_slot]")
{
    const std::uint32_t slot_bytes = dm_slot_bytes(1518);
    std::vector<Bytes> packets;
    for (std::uint32_t i = 0; i < 64; ++i) {
        packets.push_back(frame(i, 14 + i * 23));
    }
    Bytes chunk(packets.size() * slot_bytes, 0xEE);
    std::uint32_t dense = 0;
    for (std::size_t i = 0; i < packets.size(); ++i) {
        std::uint8_t *slot = chunk.data() + i * slot_bytes;
        std::memcpy(slot + DM_SLOT_HEADROOM, packets[i].data(), packets[i].size());
        const dm_arrival arrival = {i, static_cast<std::uint32_t>(packets[i].size()), 1518};
        dense += dm_slot_compact(slot, &arrival, chunk.data() + dense);
    }
    Bytes file(512);
    file.resize(dm_section_compact_head(&section, file.data()));
    file.insert(file.end(), chunk.begin(), chunk.begin() + dense);
    CHECK(blocks_of(file).size() == packets.size() + 2);
    const Reading r = read(file);
    REQUIRE(r.packets.size() == packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
        REQUIRE(r.packets[i].bytes == packets[i].size());
        REQUIRE(std::memcmp(file.data() + r.packets[i].offset, packets[i].data(), packets[i].size()) == 0);
        for (std::size_t pad = packets[i].size(); pad % 4 != 0; ++pad) {
            REQUIRE(file[r.packets[i].offset + pad] == 0);
        }
    }
}
