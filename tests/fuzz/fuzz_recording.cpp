// SPDX-License-Identifier: MIT
//
// Recordings and indexes of libvipldm, which come from anywhere. The first byte chooses: a
// recording, or the file of an index.
#include "fuzz.hpp"

extern "C" {
#include "dm/index.h"
}

namespace {

struct Input {
    const std::uint8_t *bytes;
    std::size_t size;
};

std::int64_t read_input(void *context, std::uint64_t offset, std::uint8_t *to, std::uint32_t bytes)
{
    const Input &input = *static_cast<const Input *>(context);
    FUZZ_CHECK(offset <= input.size);
    const std::size_t rest = input.size - static_cast<std::size_t>(offset);
    const std::size_t count = bytes < rest ? bytes : rest;
    if (count > 0) {
        std::memcpy(to, input.bytes + offset, count);
    }
    return static_cast<std::int64_t>(count);
}

/** What an index that was let through promises: a sender reads no byte outside of the store. */
void check_entries(const dm_index &index)
{
    std::uint64_t packets = 0;
    std::uint64_t gaps = 0;
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < index.entries; ++i) {
        dm_entry entry{};
        dm_index_get(&index, i, &entry);
        if (entry.bytes == 0) {
            gaps = dm_add_time(gaps, entry.offset);
            continue;
        }
        gaps = dm_add_time(gaps, entry.gap);
        FUZZ_CHECK(entry.bytes >= DM_MIN_PACKET && entry.bytes <= index.longest &&
                   index.longest <= DM_MAX_PACKET);
        FUZZ_CHECK(entry.offset >= end && entry.offset + entry.bytes <= index.store_bytes);
        end = entry.offset + entry.bytes;
        packets++;
    }
    FUZZ_CHECK(packets == index.packets);
    static_cast<void>(gaps);
}

void make(const std::uint8_t *bytes, std::size_t size)
{
    Input input = {bytes, size};
    const dm_source source = {read_input, &input, size};
    dm_index index{};
    vipl_dm_reason reason{};
    const int error = dm_index_make(&source, 1, &index, &reason);
    FUZZ_CHECK(error == 0 || std::strlen(reason.text) > 0);
    if (error == 0) {
        FUZZ_CHECK(dm_index_check(&index, &reason) == 0);
        check_entries(index);
        dm_index_free(&index);
    }
}

void load(std::uint8_t *bytes, std::size_t size)
{
    dm_index index{};
    vipl_dm_reason reason{};
    if (dm_index_read(bytes, size, &index, &reason) == 0 && dm_index_check(&index, &reason) == 0 &&
        index.packets > 0) {
        check_entries(index);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size < 1) {
        return 0;
    }
    const auto bytes = fuzz::exactly(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        make(bytes.get(), size - 1);
    } else {
        load(bytes.get(), size - 1);
    }
    return 0;
}
