// SPDX-License-Identifier: MIT
#include "recordings.hpp"

#include <cstring>
#include <memory>

#include <catch2/catch.hpp>

namespace dm_test {

Writer &Writer::number(std::uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; ++i) {
        bytes_.push_back(static_cast<std::uint8_t>(value >> 8 * (is_big_ ? bytes - 1 - i : i)));
    }
    return *this;
}

Writer &Writer::raw(const Bytes &bytes)
{
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
}

Writer &Writer::pad()
{
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
    return *this;
}

Writer &Writer::pcap_head(bool is_nano, std::uint32_t link, std::uint32_t version)
{
    return u32(is_nano ? 0xA1B23C4D : 0xA1B2C3D4).u16(version).u16(4).u32(0).u32(0).u32(262144).u32(link);
}

Writer &Writer::record(std::uint32_t seconds, std::uint32_t fraction, const Bytes &packet,
                       std::uint32_t original)
{
    return u32(seconds)
        .u32(fraction)
        .u32(packet.size())
        .u32(original != 0 ? original : packet.size())
        .raw(packet);
}

Writer &Writer::block(std::uint32_t type, const Bytes &body)
{
    const std::size_t padded = (body.size() + 3) / 4 * 4;
    return u32(type).u32(12 + padded).raw(body).pad().u32(12 + padded);
}

Writer &Writer::section()
{
    return block(0x0A0D0D0A, Writer(is_big_).u32(0x1A2B3C4D).u16(1).u16(0).number(~0ull, 8).bytes());
}

Writer &Writer::interface(const Bytes &options, std::uint32_t link)
{
    return block(1, Writer(is_big_).u16(link).u16(0).u32(0).raw(options).bytes());
}

Writer &Writer::packet(std::uint32_t interface, std::uint64_t ticks, const Bytes &packet,
                       std::uint32_t original)
{
    return block(6, Writer(is_big_)
                        .u32(interface)
                        .u32(ticks >> 32)
                        .u32(ticks & 0xFFFFFFFF)
                        .u32(packet.size())
                        .u32(original != 0 ? original : packet.size())
                        .raw(packet)
                        .bytes());
}

Bytes option(bool is_big, std::uint32_t code, const Bytes &value)
{
    return Writer(is_big).u16(code).u16(value.size()).raw(value).pad().bytes();
}

Bytes frame(std::uint32_t number, std::size_t size)
{
    Bytes bytes{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5};
    for (unsigned i = 0; i < 4; ++i) {
        bytes.push_back(static_cast<std::uint8_t>(number >> 8 * i));
    }
    while (bytes.size() < size) {
        bytes.push_back(static_cast<std::uint8_t>(number * 31 + bytes.size()));
    }
    bytes.resize(size);
    return bytes;
}

namespace {

std::int64_t read_bytes(void *context, std::uint64_t offset, std::uint8_t *to, std::uint32_t bytes)
{
    const Bytes &all = *static_cast<const Bytes *>(context);
    REQUIRE(offset <= all.size());
    const std::size_t rest = all.size() - static_cast<std::size_t>(offset);
    const std::size_t count = bytes < rest ? bytes : rest;
    std::memcpy(to, all.data() + offset, count);
    return static_cast<std::int64_t>(count);
}

} // namespace

dm_source source_of(const Bytes &bytes)
{
    return {read_bytes, const_cast<Bytes *>(&bytes), bytes.size()};
}

Reading read(const Bytes &bytes)
{
    Reading reading;
    const auto recording = std::make_unique<dm_recording>();
    const dm_source source = source_of(bytes);
    vipl_dm_reason reason{};
    reading.error = dm_recording_open(recording.get(), &source, &reason);
    if (reading.error == 0) {
        dm_recorded packet{};
        while ((reading.error = dm_recording_next(recording.get(), &packet, &reason)) == 0) {
            reading.packets.push_back(packet);
        }
        reading.is_cut = recording->is_cut;
        dm_recording_close(recording.get());
    }
    reading.why = reason.text;
    return reading;
}

} // namespace dm_test
