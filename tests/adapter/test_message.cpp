// SPDX-License-Identifier: MIT
//
// The messages of vfio-user, byte by byte as its specification has them.
#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

#include "internal.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

template <size_t size, class Value>
Bytes written(void (*write)(std::uint8_t *, const Value *), const Value &value)
{
    Bytes out(size, 0xEE);
    write(out.data(), &value);
    return out;
}

/** Reads it from exactly that many bytes, and from one less, which must be refused. */
template <class Value>
Value read_back(bool (*read)(const std::uint8_t *, size_t, Value *), const Bytes &bytes)
{
    Value value{};
    CHECK_FALSE(read(bytes.data(), bytes.size() - 1, &value));
    REQUIRE(read(bytes.data(), bytes.size(), &value));
    return value;
}

} // namespace

TEST_CASE("a header of vfio-user is sixteen little-endian bytes", "[message]")
{
    const vfu_header header = {0x1234, VFU_REGION_WRITE, 0x10203, VFU_REPLY | VFU_ERROR, 22};
    std::uint8_t bytes[VFU_HEADER_BYTES];
    vfu_header_write(bytes, &header);
    const Bytes wanted = {0x34, 0x12, 10, 0, 3, 2, 1, 0, 0x21, 0, 0, 0, 22, 0, 0, 0};
    CHECK(Bytes(bytes, bytes + sizeof bytes) == wanted);
    vfu_header back{};
    vfu_header_read(bytes, &back);
    CHECK(back.id == 0x1234);
    CHECK(back.command == VFU_REGION_WRITE);
    CHECK(back.bytes == 0x10203);
    CHECK(back.flags == (VFU_REPLY | VFU_ERROR));
    CHECK(back.error == 22);
}

TEST_CASE("maps and unmaps of vfio-user, byte by byte", "[message]")
{
    const vfu_dma_map map = {3, 0x1122334455667788, 0x8000000000000001, 0x2000};
    const Bytes wanted = {32, 0, 0, 0, 3, 0, 0, 0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                          1,  0, 0, 0, 0, 0, 0, 0x80, 0,    0x20, 0,    0,    0,    0,    0,    0};
    const Bytes bytes = written<VFU_DMA_MAP_BYTES>(vfu_dma_map_write, map);
    CHECK(bytes == wanted);
    const auto back = read_back(vfu_dma_map_read, bytes);
    CHECK((back.flags == 3 && back.offset == map.offset && back.address == map.address &&
           back.bytes == 0x2000));

    const vfu_dma_unmap unmap = {2, 0x1000, 0x3000};
    const Bytes unmap_wanted = {24, 0, 0, 0, 2, 0,    0, 0, 0, 0x10, 0, 0,
                                0,  0, 0, 0, 0, 0x30, 0, 0, 0, 0,    0, 0};
    const Bytes unmap_bytes = written<VFU_DMA_UNMAP_BYTES>(vfu_dma_unmap_write, unmap);
    CHECK(unmap_bytes == unmap_wanted);
    const auto unmap_back = read_back(vfu_dma_unmap_read, unmap_bytes);
    CHECK((unmap_back.flags == 2 && unmap_back.address == 0x1000 && unmap_back.bytes == 0x3000));
}

TEST_CASE("what vfio-user tells of a device, byte by byte", "[message]")
{
    const Bytes info = written<VFU_INFO_BYTES>(vfu_info_write, vfu_info{3, 9, 5});
    CHECK(info == Bytes{16, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0});
    const auto info_back = read_back(vfu_info_read, info);
    CHECK((info_back.flags == 3 && info_back.regions == 9 && info_back.irqs == 5));

    const Bytes region =
        written<VFU_REGION_INFO_BYTES>(vfu_region_info_write, vfu_region_info{0, 7, 2, 0x1000000, 0});
    CHECK(region == Bytes{32, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
                          0,  0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    const auto region_back = read_back(vfu_region_info_read, region);
    CHECK((region_back.argsz == 32 && region_back.flags == 7 && region_back.index == 2));
    CHECK((region_back.bytes == 0x1000000 && region_back.offset == 0));

    const Bytes irq = written<VFU_IRQ_INFO_BYTES>(vfu_irq_info_write, vfu_irq_info{1, 2, 16});
    CHECK(irq == Bytes{16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0});
    const auto irq_back = read_back(vfu_irq_info_read, irq);
    CHECK((irq_back.flags == 1 && irq_back.index == 2 && irq_back.count == 16));
}

TEST_CASE("interrupts and accesses of vfio-user, byte by byte", "[message]")
{
    const Bytes set = written<VFU_IRQ_SET_BYTES>(vfu_irq_set_write, vfu_irq_set{0x24, 2, 1, 15});
    CHECK(set == Bytes{20, 0, 0, 0, 0x24, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0});
    const auto set_back = read_back(vfu_irq_set_read, set);
    CHECK((set_back.flags == 0x24 && set_back.index == 2 && set_back.start == 1 && set_back.count == 15));

    const Bytes access = written<VFU_ACCESS_BYTES>(vfu_access_write, vfu_access{0x100, 7, 4});
    CHECK(access == Bytes{0, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0});
    const auto access_back = read_back(vfu_access_read, access);
    CHECK((access_back.offset == 0x100 && access_back.region == 7 && access_back.bytes == 4));

    const Bytes dma = written<VFU_DMA_BYTES>(vfu_dma_write, vfu_dma{0x123456789A, 65536});
    CHECK(dma == Bytes{0x9A, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
    const auto dma_back = read_back(vfu_dma_read, dma);
    CHECK((dma_back.address == 0x123456789A && dma_back.bytes == 65536));

    const Bytes version = written<VFU_VERSION_BYTES>(vfu_version_write, vfu_version{0, 1});
    CHECK(version == Bytes{0, 0, 1, 0});
    CHECK(read_back(vfu_version_read, version).minor == 1);
}
