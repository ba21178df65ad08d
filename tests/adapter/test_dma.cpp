// SPDX-License-Identifier: MIT
//
// The maps of a function's memory, beside a list of bytes: what is unmapped goes, all of it and
// nothing else, and half a map stays whole.
#include <catch2/catch.hpp>

#include <vector>

#include "internal.hpp"

namespace {

constexpr std::uint64_t kEnd = 24; // all addresses are below

struct Map {
    std::uint64_t first, last;
};

/** A function with these maps, which have no file. */
class Maps {
public:
    explicit Maps(std::vector<Map> maps) : maps_(std::move(maps))
    {
        rnic_dma_init(&dma_);
        for (const Map &map : maps_) {
            vfu_dma_map request{};
            request.address = map.first;
            request.bytes = map.last - map.first + 1;
            request.flags = VFU_DMA_READABLE;
            int fd = -1;
            REQUIRE(rnic_dma_map(&dma_, &request, &fd) == 0);
        }
    }
    ~Maps() { rnic_dma_clear(&dma_); }

    int unmap(std::uint64_t first, std::uint64_t last)
    {
        return rnic_dma_unmap(&dma_, first, last - first + 1);
    }
    /** Which addresses are mapped. */
    std::vector<bool> mapped()
    {
        std::vector<bool> bytes;
        for (std::uint64_t at = 0; at < kEnd; ++at) {
            std::uint8_t byte = 0;
            rnic_dma_access access{};
            access.iova = at;
            access.data = &byte;
            access.bytes = 1;
            std::uint32_t run = 0;
            bytes.push_back(rnic_dma_move(&dma_, &access, &run) == RNIC_DMA_MESSAGE);
        }
        return bytes;
    }

    /** What unmapping ought to do: false, if it would leave part of a map. */
    bool goes(std::uint64_t first, std::uint64_t last, std::vector<bool> *left) const
    {
        left->assign(kEnd, false);
        for (const Map &map : maps_) {
            const bool apart = map.last < first || map.first > last;
            if (!apart && (map.first < first || map.last > last)) {
                return false;
            }
            for (std::uint64_t at = map.first; apart && at <= map.last; ++at) {
                (*left)[at] = true;
            }
        }
        return true;
    }

private:
    std::vector<Map> maps_;
    rnic_dma dma_{};
};

} // namespace

TEST_CASE("any range is unmapped to the byte, or refused if it has part of a map", "[dma]")
{
    const std::vector<Map> maps = GENERATE(values<std::vector<Map>>({
        {{4, 7}, {8, 8}, {9, 12}, {15, 15}, {17, 20}}, // some of one byte, some that touch
        {{0, 0}, {1, 9}, {22, 23}},
        {{5, 18}},
        {},
    }));
    for (std::uint64_t first = 0; first < kEnd; ++first) {
        for (std::uint64_t last = first; last < kEnd; ++last) {
            Maps had(maps);
            std::vector<bool> wanted, before = had.mapped();
            const bool goes = had.goes(first, last, &wanted);
            INFO("unmapping " << first << " to " << last);
            REQUIRE(had.unmap(first, last) == (goes ? 0 : EINVAL));
            REQUIRE(had.mapped() == (goes ? wanted : before));
        }
    }
}
