// SPDX-License-Identifier: MIT
//
// Registered regions: handles that cannot be guessed, growth and removal, what a region covers to
// the byte, rights and tags, and look-ups that race with registration.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <unistd.h>

#include "internal.hpp"
#include "support/environment.hpp"
#include "support/os_hooks.hpp"

using namespace unit;

namespace {

/** An open device, seen from inside. */
class Device {
public:
    Device()
    {
        REQUIRE(VipOpenNic("loopback", &handle) == VIP_SUCCESS);
        nic = vipl_nic_get(handle);
        REQUIRE(nic != nullptr);
    }
    ~Device()
    {
        vipl_nic_put(nic);
        VipCloseNic(handle);
    }
    VIP_MEM_HANDLE enter(void *address, VIP_ULONG bytes, VIP_MEM_ATTRIBUTES attributes = {})
    {
        VIP_MEM_HANDLE mem = 0;
        REQUIRE(VipRegisterMem(handle, address, bytes, &attributes, &mem) == VIP_SUCCESS);
        return mem;
    }
    bool covers(VIP_MEM_HANDLE mem, std::uint64_t address, std::uint64_t bytes, std::uint32_t tag = 0,
                std::uint32_t rights = 0) const
    {
        return vipl_mem_covers(&nic->mem, mem, address, bytes, tag, rights);
    }

    VIP_NIC_HANDLE handle = nullptr;
    vipl_nic *nic = nullptr;
};

void *at(std::uintptr_t address)
{
    return reinterpret_cast<void *>(address);
}

} // namespace

TEST_CASE("a region covers its bytes and not one more", "[regions]")
{
    Device device;
    constexpr std::uint64_t start = 0x12345, bytes = 0x777, end = start + bytes;
    const VIP_MEM_HANDLE mem = device.enter(at(start), bytes);
    REQUIRE(device.covers(mem, start, bytes));
    REQUIRE(device.covers(mem, start, 0));
    REQUIRE(device.covers(mem, end, 0)); // nothing, at the end
    REQUIRE(device.covers(mem, end - 1, 1));
    REQUIRE_FALSE(device.covers(mem, end, 1));
    REQUIRE_FALSE(device.covers(mem, end + 1, 0));
    REQUIRE_FALSE(device.covers(mem, start - 1, 0));
    REQUIRE_FALSE(device.covers(mem, start - 1, bytes));
    REQUIRE_FALSE(device.covers(mem, start, bytes + 1));
    REQUIRE_FALSE(device.covers(mem, start, ~std::uint64_t{0}));
    REQUIRE_FALSE(device.covers(mem, start + 1, ~std::uint64_t{0})); // wraps around to its start
    REQUIRE_FALSE(device.covers(mem, ~std::uint64_t{0}, 2));
    REQUIRE_FALSE(device.covers(mem, start + (std::uint64_t{1} << 32), 1)); // 32-bit CPUs: no truncation
    REQUIRE_FALSE(device.covers(mem ^ 1, start, 1));
    REQUIRE_FALSE(device.covers(0, start, 1));
    REQUIRE_FALSE(device.covers(~0u, start, 1));
}

TEST_CASE("a region may end with the last byte of memory, but not beyond", "[regions]")
{
    Device device;
    const std::uintptr_t top = ~std::uintptr_t{0};
    VIP_MEM_HANDLE mem = device.enter(at(top - 63), 63);
    REQUIRE(device.covers(mem, top - 63, 63));
    REQUIRE_FALSE(device.covers(mem, top - 63, 64));
    REQUIRE_FALSE(device.covers(mem, 0, 1));
    for (const VIP_ULONG bytes : {VIP_ULONG{65}, VIP_ULONG{4096}, ~VIP_ULONG{0}}) {
        VIP_MEM_HANDLE none = 1;
        REQUIRE(VipRegisterMem(device.handle, at(top - 63), bytes, nullptr, &none) == VIP_INVALID_PARAMETER);
        REQUIRE(none == 0);
    }
}

TEST_CASE("rights and tags have to match", "[regions]")
{
    Device device;
    VIP_PROTECTION_HANDLE tags[2];
    for (VIP_PROTECTION_HANDLE &tag : tags) {
        REQUIRE(VipCreatePtag(device.handle, &tag) == VIP_SUCCESS);
    }
    const std::uint32_t first = static_cast<vipl_ptag *>(vipl_handle_find(VIPL_KIND_PTAG, tags[0]))->number;
    const std::uint32_t second = static_cast<vipl_ptag *>(vipl_handle_find(VIPL_KIND_PTAG, tags[1]))->number;
    REQUIRE(first != 0);
    REQUIRE(first != second);
    for (const unsigned rights : {0u, 1u, 2u, 3u}) {
        const VIP_MEM_ATTRIBUTES attributes = {tags[0], static_cast<VIP_BOOLEAN>(rights & 1),
                                               static_cast<VIP_BOOLEAN>(rights >> 1)};
        const VIP_MEM_HANDLE mem = device.enter(at(4096), 10, attributes);
        for (const unsigned wanted : {0u, 1u, 2u, 3u}) {
            const bool allowed = (rights & wanted) == wanted;
            REQUIRE(device.covers(mem, 4096, 10, first, wanted) == allowed);
            REQUIRE(device.covers(mem, 4096, 10, 0, wanted) == allowed);
            REQUIRE_FALSE(device.covers(mem, 4096, 10, second, wanted));
        }
        VIP_MEM_ATTRIBUTES other = {tags[1], VIP_TRUE, VIP_FALSE};
        REQUIRE(VipSetMemAttributes(device.handle, at(4096), mem, &other) == VIP_SUCCESS);
        REQUIRE(device.covers(mem, 4096, 10, second, VIPL_RIGHT_RDMA_WRITE));
        REQUIRE_FALSE(device.covers(mem, 4096, 10, first, 0));
        REQUIRE_FALSE(device.covers(mem, 4096, 10, 0, VIPL_RIGHT_RDMA_READ));
    }
}

TEST_CASE("a handle that was given back does not come again soon", "[regions]")
{
    Device device;
    constexpr unsigned kApart = 256; // registrations in which none may come twice
    std::vector<VIP_MEM_HANDLE> handles;
    for (unsigned i = 0; i < 4 * kApart; ++i) {
        handles.push_back(device.enter(at(0x100000), 64));
        REQUIRE(VipDeregisterMem(device.handle, at(0x100000), handles.back()) == VIP_SUCCESS);
        REQUIRE_FALSE(device.covers(handles.back(), 0x100000, 1));
    }
    for (size_t first = 0; first + kApart <= handles.size(); ++first) {
        std::set<VIP_MEM_HANDLE> generations; // the part that is counted, not random
        for (size_t i = first; i < first + kApart; ++i) {
            generations.insert(handles[i] >> 24);
        }
        REQUIRE(generations.size() == kApart);
    }
    std::set<VIP_MEM_HANDLE> random; // and the rest is: the first slots of the table are taken evenly
    for (const VIP_MEM_HANDLE handle : handles) {
        random.insert(handle & 0xFFFFFF);
    }
    REQUIRE(random.size() > handles.size() - 5);
}

TEST_CASE("handles are never 0 or all ones, are not dense, and are not guessed", "[regions]")
{
    Device device;
    std::set<VIP_MEM_HANDLE> handles;
    for (std::uintptr_t i = 0; i < 5000; ++i) {
        const VIP_MEM_HANDLE mem = device.enter(at(0x100000 + i * 64), 64);
        REQUIRE(mem != 0);
        REQUIRE(mem != 0xFFFFFFFFu);
        REQUIRE(handles.insert(mem).second);
    }
    unsigned neighbours = 0, high = 0;
    for (const VIP_MEM_HANDLE mem : handles) {
        neighbours += static_cast<unsigned>(handles.count(mem + 1));
        high += mem >> 31;
    }
    REQUIRE(neighbours < 5);
    REQUIRE(high > 2000);
    REQUIRE(high < 3000);
    Device fresh; // one region, a million guesses
    const VIP_MEM_HANDLE only = fresh.enter(at(4096), 64);
    Random random(16);
    unsigned hits = 0;
    for (unsigned i = 0; i < 1000000; ++i) {
        const auto guess = static_cast<VIP_MEM_HANDLE>(random());
        hits += guess != only && fresh.covers(guess, 4096, 1) ? 1 : 0;
    }
    REQUIRE(hits == 0);
}

TEST_CASE("the table grows, forgets and is used again without an end", "[regions]")
{
    Device device;
    Random random(17);
    std::vector<std::pair<VIP_MEM_HANDLE, std::uintptr_t>> live;
    std::vector<VIP_MEM_HANDLE> gone;
    for (std::uintptr_t i = 0; i < 30000; ++i) {
        const bool shrink = i / 5000 % 2 == 1; // waves: many tombstones
        if (live.empty() || below(random, 4) >= (shrink ? 3u : 1u)) {
            const std::uintptr_t address = 0x100000 + i * 64;
            live.emplace_back(device.enter(at(address), 64), address);
        } else {
            std::swap(live[below(random, live.size())], live.back());
            REQUIRE(VipDeregisterMem(device.handle, at(live.back().second), live.back().first) ==
                    VIP_SUCCESS);
            gone.push_back(live.back().first);
            live.pop_back();
        }
    }
    unsigned wrong = 0;
    std::set<VIP_MEM_HANDLE> handles;
    for (const auto &[mem, address] : live) {
        wrong += device.covers(mem, address, 64) && !device.covers(mem, address - 1, 1) ? 0 : 1;
        handles.insert(mem);
    }
    for (const VIP_MEM_HANDLE mem : gone) { // stale, unless drawn again by chance
        wrong += handles.count(mem) == 0 && device.covers(mem, 0, 0) ? 1 : 0;
    }
    REQUIRE(wrong == 0);
    REQUIRE(device.nic->mem.live == live.size());
    REQUIRE(device.nic->mem.bytes == live.size() * 64);
    const auto *table = static_cast<const vipl_region_table *>(device.nic->mem.table);
    REQUIRE(table->capacity <= 131072); // bounded by what lives, not by what has lived
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) // they keep what was given back, or notes of it
TEST_CASE("registrations that come and go take no more and more memory", "[regions]")
{
    const auto resident = [] {
        unsigned long size = 0, pages = 0;
        std::ifstream("/proc/self/statm") >> size >> pages;
        return pages * static_cast<unsigned long>(sysconf(_SC_PAGESIZE));
    };
    Device device;
    const auto register_often = [&device](unsigned times) {
        for (unsigned i = 0; i < times; ++i) {
            const VIP_MEM_HANDLE mem = device.enter(at(4096), 64);
            REQUIRE(VipDeregisterMem(device.handle, at(4096), mem) == VIP_SUCCESS);
        }
    };
    register_often(1000);
    const unsigned long before = resident();
    register_often(100000);
    REQUIRE(resident() < before + 512 * 1024);
}
#endif

TEST_CASE("a registration that fails for want of memory leaves nothing", "[regions]")
{
    Device device;
    for (int k = 1; k <= 3; ++k) {
        VIP_MEM_HANDLE mem = 1;
        vipl_alloc_fail_after(k);
        const VIP_RETURN rc = VipRegisterMem(device.handle, at(4096), 64, nullptr, &mem);
        vipl_alloc_fail_after(-1);
        REQUIRE((rc == VIP_SUCCESS || rc == VIP_ERROR_RESOURCE));
        REQUIRE((mem == 0) == (rc != VIP_SUCCESS));
        if (rc == VIP_SUCCESS) {
            REQUIRE(VipDeregisterMem(device.handle, at(4096), mem) == VIP_SUCCESS);
        }
        REQUIRE(device.nic->mem.live == 0);
    }
}

TEST_CASE("look-ups that race with registration find a region or nothing", "[regions]")
{
    Device device;
    const VIP_MEM_HANDLE fixed = device.enter(at(0x10000), 64);
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, nullptr, nullptr, 0, 0};
    VIP_VI_HANDLE vi = nullptr;
    REQUIRE(VipCreateVi(device.handle, &attributes, nullptr, nullptr, &vi) == VIP_SUCCESS);
    std::atomic<VIP_MEM_HANDLE> newest{0};
    std::atomic<bool> stop{false};
    std::atomic<unsigned> wrong{0}, looked{0};
    std::thread reader([&] {
        while (!stop) {
            vipl_vi *inside = vipl_vi_lock_send(vi); // look-ups are made under a queue's lock, as a reader
            vipl_queue_reads(&inside->send);
            wrong += device.covers(fixed, 0x10000, 64) ? 0 : 1;
            wrong += device.covers(newest, 0x30000, 1) ? 1 : 0; // what no region covers
            vipl_biased_unlock(&inside->send.lock);
            ++looked;
        }
    });
    std::vector<VIP_MEM_HANDLE> live;
    for (unsigned i = 0; i < 20000 || looked < 100; ++i) {
        live.push_back(device.enter(at(0x20000), 64));
        newest = live.back();
        if (live.size() > i % 300) {
            REQUIRE(VipDeregisterMem(device.handle, at(0x20000), live.front()) == VIP_SUCCESS);
            live.erase(live.begin());
        }
    }
    stop = true;
    reader.join();
    REQUIRE(wrong == 0);
    REQUIRE(VipDestroyVi(vi) == VIP_SUCCESS);
}

namespace {

/** A VI of the device, whose send queue looks up memory. */
class Reader {
public:
    explicit Reader(Device &device)
    {
        VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, nullptr, nullptr, 0, 0};
        REQUIRE(VipCreateVi(device.handle, &attributes, nullptr, nullptr, &handle_) == VIP_SUCCESS);
    }
    ~Reader() { VipDestroyVi(handle_); }
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    void begin()
    {
        vi_ = vipl_vi_lock_send(handle_);
        vipl_queue_reads(&vi_->send);
    }
    void end() { vipl_biased_unlock(&vi_->send.lock); }

private:
    VIP_VI_HANDLE handle_ = nullptr;
    vipl_vi *vi_ = nullptr;
};

/** Ends a region in a thread of its own. */
class Ending {
public:
    Ending(Device &device, VIP_MEM_HANDLE mem, std::uintptr_t address)
        : thread_([this, &device, mem, address] {
              VipDeregisterMem(device.handle, at(address), mem);
              over_ = true;
          })
    {
        while (device.covers(mem, address, 1)) { // gone, for a queue that looks now
            vipl_test::give_way();
        }
    }
    ~Ending() { thread_.join(); }
    Ending(const Ending &) = delete;
    Ending &operator=(const Ending &) = delete;

    /** Whether it is over after a moment. */
    bool is_over() const
    {
        for (unsigned i = 0; i < 100 && !over_; ++i) {
            vipl_test::give_way();
        }
        return over_;
    }

private:
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace

TEST_CASE("the end of a region waits for a queue that looks up, and not for one that does not", "[regions]")
{
    Device device;
    Reader reader(device);
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, nullptr, nullptr, 0, 0};
    VIP_VI_HANDLE other = nullptr;
    REQUIRE(VipCreateVi(device.handle, &attributes, nullptr, nullptr, &other) == VIP_SUCCESS);
    for (unsigned round = 0; round < 3; ++round) { // each end begins an epoch, in which it reads again
        const VIP_MEM_HANDLE mem = device.enter(at(0x10000), 64);
        reader.begin();
        vipl_vi *rests = vipl_vi_lock_recv(other); // held all the time, and never a reader
        {
            const Ending ending(device, mem, 0x10000);
            CHECK_FALSE(ending.is_over()); // the queue may still be using it
            reader.end();
        }
        vipl_biased_unlock(&rests->recv.lock);
    }
    REQUIRE(VipDestroyVi(other) == VIP_SUCCESS);
}

TEST_CASE("a queue that reads again while the end of a region has yet to wait for it is not forgotten",
          "[regions]")
{
    Device device;
    Reader first(device), second(device);
    const VIP_MEM_HANDLE mem = device.enter(at(0x10000), 64), next = device.enter(at(0x20000), 64);
    for (Reader *reader : {&first, &second}) {
        reader->begin();
        reader->end();
    }
    first.begin(); // both are readers, in this order; the lock of one is held
    {
        const Ending ending(device, mem, 0x10000);
        CHECK_FALSE(ending.is_over());
        std::thread([&] {
            second.begin();
            second.end();
        }).join();
        first.end();
    }
    second.begin();
    {
        const Ending ending(device, next, 0x20000);
        CHECK_FALSE(ending.is_over());
        second.end();
    }
}
