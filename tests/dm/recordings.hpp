// SPDX-License-Identifier: MIT
//
// Recordings of any byte order, byte by byte, and reading them.
#ifndef VIPL_TESTS_DM_RECORDINGS_HPP
#define VIPL_TESTS_DM_RECORDINGS_HPP

#include <cstdint>
#include <string>
#include <vector>

extern "C" {
#include "dm/recording.h"
}

namespace dm_test {

using Bytes = std::vector<std::uint8_t>;

/** Bytes of a file, with numbers in one byte order. */
class Writer {
public:
    explicit Writer(bool is_big) : is_big_(is_big) {}
    Writer &number(std::uint64_t value, unsigned bytes);
    Writer &u16(std::uint64_t value) { return number(value, 2); }
    Writer &u32(std::uint64_t value) { return number(value, 4); }
    Writer &raw(const Bytes &bytes);
    Writer &pad();

    /** pcap. */
    Writer &pcap_head(bool is_nano, std::uint32_t link = 1, std::uint32_t version = 2);
    Writer &record(std::uint32_t seconds, std::uint32_t fraction, const Bytes &packet,
                   std::uint32_t original = 0);

    /** pcapng: a block with this body. */
    Writer &block(std::uint32_t type, const Bytes &body);
    Writer &section();
    Writer &interface(const Bytes &options = {}, std::uint32_t link = 1);
    Writer &packet(std::uint32_t interface, std::uint64_t ticks, const Bytes &packet,
                   std::uint32_t original = 0);

    const Bytes &bytes() const { return bytes_; }
    bool is_big() const { return is_big_; }

private:
    bool is_big_;
    Bytes bytes_;
};

/** An option of pcapng. */
Bytes option(bool is_big, std::uint32_t code, const Bytes &value);

/** A frame of `size` bytes, which are told from those of other numbers. */
Bytes frame(std::uint32_t number, std::size_t size);

/** What a reading of a recording comes to. */
struct Reading {
    int error = 0; // of the open, or of the end: ENODATA
    std::string why;
    std::vector<dm_recorded> packets;
    bool is_cut = false;
};

Reading read(const Bytes &bytes);

/** A source of bytes in memory; reads beyond their end are a failure of the test. */
dm_source source_of(const Bytes &bytes);

} // namespace dm_test

#endif
