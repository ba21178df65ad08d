// SPDX-License-Identifier: MIT
//
// Registered memory whose handles the device chooses: core takes them as they are, shows them to no
// other thread before they are valid, and finds them fast. And the handles of the pieces of a send.
#include <catch2/catch.hpp>

#include <future>
#include <map>

#include "card.hpp"
#include "support/begin_call.hpp"
#include "support/system.hpp"

using namespace unit;
using namespace vipl_test;

namespace {

alignas(64) VIP_UINT8 bytes[4096];

VIP_RETURN enter(Card &card, VIP_MEM_HANDLE *out, VIP_ULONG length = sizeof bytes)
{
    VIP_MEM_ATTRIBUTES attributes = rdma_memory();
    return VipRegisterMem(card.nic, bytes, length, &attributes, out);
}

bool covers(const Card &card, VIP_MEM_HANDLE handle)
{
    return vipl_mem_covers(&card.core->mem, handle, reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, 0,
                           0);
}

/** The longest row of slots in use: a look-up does not take more steps. */
unsigned longest_row(const vipl_mem &mem)
{
    const auto *table = static_cast<const vipl_region_table *>(mem.table);
    unsigned row = 0, longest = 0;
    for (std::uint32_t i = 0; i < table->capacity; ++i) {
        row = table->slots[i] == nullptr ? 0 : row + 1;
        longest = std::max(longest, row);
    }
    return longest;
}

} // namespace

TEST_CASE("the handle of registered memory is the one that the device has chosen", "[device_memory]")
{
    Card card;
    VIP_MEM_HANDLE removed = 0, handle = 0;
    bool seen_early = false;
    card.on_add = [&](vipl_region_params *region) {
        CHECK(region->address == bytes);
        CHECK(region->rdma_write);
        seen_early = covers(card, 0xABCD0042);
        region->handle = 0xABCD0042;
        return VIP_SUCCESS;
    };
    card.on_remove = [&](VIP_MEM_HANDLE which) {
        removed = which;
        return VIP_SUCCESS;
    };
    REQUIRE_VIP(enter(card, &handle));
    CHECK(handle == 0xABCD0042);
    CHECK_FALSE(seen_early);
    CHECK(covers(card, handle));
    REQUIRE_VIP(VipDeregisterMem(card.nic, bytes, handle));
    CHECK(removed == handle);
    CHECK_FALSE(covers(card, handle));
}

TEST_CASE("a registration that the device refuses leaves nothing behind", "[device_memory]")
{
    Card card;
    const Ptag tag(card.nic);
    VIP_MEM_ATTRIBUTES attributes = rdma_memory(tag);
    VIP_MEM_HANDLE handle = 0, removed = 0;
    card.core->limits.max_regions = 1;
    card.on_remove = [&](VIP_MEM_HANDLE which) {
        removed = which;
        return VIP_SUCCESS;
    };
    card.on_add = [](vipl_region_params *region) {
        region->handle = 0x70000;
        return VIP_ERROR_RESOURCE;
    };
    for (int i = 0; i < 100; ++i) {
        CHECK(VipRegisterMem(card.nic, bytes, sizeof bytes, &attributes, &handle) == VIP_ERROR_RESOURCE);
    }
    CHECK(removed == 0);
    CHECK(card.core->mem.live == 0);
    CHECK(card.core->mem.bytes == 0);
    CHECK_FALSE(covers(card, 0x70000));
    card.on_add = nullptr;
    REQUIRE_VIP(VipRegisterMem(card.nic, bytes, sizeof bytes, &attributes, &handle)); // there is room for it
    CHECK(VipDestroyPtag(card.nic, tag) == VIP_ERROR_RESOURCE);
    REQUIRE_VIP(VipDeregisterMem(card.nic, bytes, handle));
    REQUIRE_VIP(VipDestroyPtag(card.nic, tag)); // only the region used it
}

TEST_CASE("a handle that cannot be one, or is in use, is refused", "[device_memory]")
{
    set_environment("VIPL_LOG", "off");
    Card card(Card::Hook::none); // with the hook a debug build ends here
    set_environment("VIPL_LOG", nullptr);
    VIP_MEM_HANDLE first = 0, handle = 0, next = 0x50000;
    card.on_add = [&](vipl_region_params *region) {
        region->handle = next;
        return VIP_SUCCESS;
    };
    REQUIRE_VIP(enter(card, &first));
    for (const VIP_MEM_HANDLE wrong : {VIP_MEM_HANDLE{0}, ~VIP_MEM_HANDLE{0}, first}) {
        next = wrong;
        CHECK(enter(card, &handle) == VIP_ERROR_RESOURCE);
        CHECK(card.core->mem.live == 1);
    }
    CHECK(covers(card, first));
    CHECK_FALSE(covers(card, 0));
    CHECK_FALSE(covers(card, ~VIP_MEM_HANDLE{0}));
    next = 0x60000;
    CHECK(enter(card, &handle) == VIP_SUCCESS);
}

TEST_CASE("a device may choose a handle again as soon as it has ended the region", "[device_memory]")
{
    Card card;
    VIP_MEM_HANDLE first = 0, second = 0;
    std::future<void> other;
    card.on_add = [](vipl_region_params *region) {
        region->handle = 0x1230000;
        return VIP_SUCCESS;
    };
    card.on_remove = [&](VIP_MEM_HANDLE) {
        begin_call(other, [&] { REQUIRE_VIP(enter(card, &second)); });
        return VIP_SUCCESS;
    };
    REQUIRE_VIP(enter(card, &first));
    REQUIRE_VIP(VipDeregisterMem(card.nic, bytes, first));
    other.get();
    CHECK(second == first);
    CHECK(covers(card, second));
}

TEST_CASE("handles that count in their upper bits are found as fast as random ones", "[device_memory]")
{
    constexpr unsigned count = 12000; // the table is nearly half full
    Card card;
    Random random(7);
    std::uint32_t shift = 0, next = 1;
    SECTION("an index, a generation, a random byte")
    {
        shift = 16;
    }
    SECTION("an index, a byte that is counted")
    {
        shift = 8;
    }
    SECTION("an index")
    {
        shift = 0;
    }
    card.on_add = [&](vipl_region_params *region) {
        region->handle = next++ << shift | (shift == 16 ? static_cast<std::uint32_t>(below(random, 256)) : 0);
        return VIP_SUCCESS;
    };
    std::vector<VIP_MEM_HANDLE> handles(count);
    for (VIP_MEM_HANDLE &handle : handles) {
        REQUIRE_VIP(enter(card, &handle));
    }
    CHECK(longest_row(card.core->mem) < 64);
    for (unsigned i = 0; i < count; i += 2) {
        REQUIRE_VIP(VipDeregisterMem(card.nic, bytes, handles[i]));
    }
    for (unsigned i = 0; i < count; ++i) {
        REQUIRE(covers(card, handles[i]) == (i % 2 == 1));
    }
}

TEST_CASE("threads register and deregister with a device that reuses handles at once", "[device_memory]")
{
    Card card;
    std::mutex mutex;
    std::vector<VIP_MEM_HANDLE> free{0x10000, 0x20000, 0x30000, 0x40000};
    card.on_add = [&](vipl_region_params *region) {
        const std::lock_guard<std::mutex> lock(mutex);
        region->handle = free.empty() ? 0 : free.back();
        if (free.empty()) {
            return VIP_ERROR_RESOURCE;
        }
        free.pop_back();
        return VIP_SUCCESS;
    };
    card.on_remove = [&](VIP_MEM_HANDLE handle) {
        const std::lock_guard<std::mutex> lock(mutex);
        free.push_back(handle);
        return VIP_SUCCESS;
    };
    const Vi vi(card.nic);
    const auto work = [&] {
        for (int i = 0; i < 500; ++i) {
            VIP_MEM_HANDLE handle = 0;
            if (enter(card, &handle) == VIP_SUCCESS) {
                vipl_up_recv_lock(vi_of(vi)); // as look-ups do: else the table may go during one
                vipl_queue_reads(&vi_of(vi)->recv);
                const bool found = covers(card, handle);
                vipl_up_recv_unlock(vi_of(vi));
                EXPECT(found);
                REQUIRE_VIP(VipDeregisterMem(card.nic, bytes, handle));
            }
        }
    };
    std::vector<std::future<void>> threads;
    for (int i = 0; i < 4; ++i) { // one for each handle: none is refused
        threads.push_back(std::async(std::launch::async, work));
    }
    for (auto &each : threads) {
        each.get();
    }
    CHECK(free.size() == 4);
    CHECK(card.core->mem.live == 0);
}

TEST_CASE("a send tells the handle of each of its pieces", "[device_memory]")
{
    Card card;
    const Vi vi(card.nic);
    Memory one(card.nic, 65536, rdma_memory()), other(card.nic, 65536);
    std::vector<std::vector<Piece>> seen;
    card.on_send = [&](vipl_vi *, vipl_send *send) {
        seen.push_back(pieces_of(*send));
        return VIPL_POSTED_DONE;
    };
    REQUIRE_VIP(card.connect(vi));
    const Span a = one.bytes(100), b = other.bytes(50), c = one.bytes(7);
    Work send = one.work(4);
    send.local(a).local(one.bytes(64).part(0, 0)).local(b).local(c);
    post_send(vi, send);
    post_send(vi, one.rdma(VIP_CONTROL_OP_RDMAWRITE, {0x1000, 77}, b));
    REQUIRE(seen.size() == 2);
    CHECK(seen[0] == std::vector<Piece>{piece(a), piece(b), piece(c)});
    CHECK(seen[1] == std::vector<Piece>{piece(b)});
    CHECK(sent(vi) == send.desc);
}
