// SPDX-License-Identifier: MIT
//
// Memory of the device: VipxAllocDevice, VipxFreeDevice. It is there on RDMA cards; other devices
// have none, and say so.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <set>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "support/forked.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

constexpr VIPX_DEVICE_MEMORY kKinds[] = {VIPX_DEVICE_DRAM, VIPX_DEVICE_SRAM};

VIP_UINT8 *allocate(const Nic &nic, size_t bytes, VIPX_DEVICE_MEMORY kind = VIPX_DEVICE_SRAM)
{
    VIP_PVOID at = nullptr;
    REQUIRE_VIP(VipxAllocDevice(nic, bytes, kind, &at));
    EXPECT(at != nullptr);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(at) % 64);
    return static_cast<VIP_UINT8 *>(at);
}

/** Registered memory of the device. */
Span registered(const Nic &nic, VIP_UINT8 *at, size_t bytes)
{
    VIP_MEM_ATTRIBUTES attributes = rdma_memory();
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_VIP(VipRegisterMem(nic, at, bytes, &attributes, &handle));
    return {at, static_cast<VIP_UINT32>(bytes), handle};
}

void deregister(const Nic &nic, Span memory)
{
    REQUIRE_VIP(VipDeregisterMem(nic, memory.data, memory.handle));
}

/** A property of the device; empty if it has none of that name. */
VIPX_PROPERTY property(const Nic &nic, const std::string &name)
{
    VIPX_DEVICE_PROPERTIES all;
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIPX_SMI_DEVICE_PROPERTIES, &all));
    const VIPX_PROPERTY *const begin = all.Property, *const end = begin + all.Count;
    const VIPX_PROPERTY *const found =
        std::find_if(begin, end, [&](const VIPX_PROPERTY &each) { return each.Name == name; });
    return found == end ? VIPX_PROPERTY{} : *found;
}

/** What the device has of a kind, in bytes. */
size_t amount(const Nic &nic, VIPX_DEVICE_MEMORY kind)
{
    return static_cast<size_t>(property(nic, kind == VIPX_DEVICE_DRAM ? "dram_bytes" : "sram_bytes").Number);
}

/** A card that the machine cannot map has none for a program; nic.py says which machines can. */
bool has_memory(const Nic &nic)
{
    return device_is_rnic() && property(nic, "device_memory").Text == std::string("mapped");
}

/** A NIC handle of a device that has memory of its own. */
class MemoryNic : public Nic {
public:
    MemoryNic() : Nic(device_under_test(), false)
    {
        if (!has_memory(*this)) {
            throw NotApplicable("the device has no memory of its own");
        }
    }
};

/** Takes all of a kind in pieces of that size. */
std::vector<VIP_UINT8 *> take_all(const Nic &nic, size_t bytes, VIPX_DEVICE_MEMORY kind)
{
    std::vector<VIP_UINT8 *> pieces;
    for (;;) {
        VIP_PVOID at = &pieces;
        const VIP_RETURN rc = VipxAllocDevice(nic, bytes, kind, &at);
        if (rc != VIP_SUCCESS) {
            EXPECT_EQ(VIP_ERROR_RESOURCE, rc);
            EXPECT(at == nullptr);
            return pieces;
        }
        pieces.push_back(static_cast<VIP_UINT8 *>(at));
    }
}

} // namespace

TEST_CASE("a device without memory of its own says so", "[VipxAllocDevice][VipxFreeDevice][posix]")
{
    const Nic nic(device_under_test(), false);
    if (has_memory(nic)) {
        throw NotApplicable("the device has memory of its own");
    }
    for (const VIPX_DEVICE_MEMORY kind : kKinds) {
        VIP_PVOID at = &at;
        REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipxAllocDevice(nic, 64, kind, &at));
        EXPECT(at == nullptr);
    }
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipxFreeDevice(nic, nullptr));
}

TEST_CASE("on a shareable NIC handle there is no memory of the device",
          "[VipxAllocDevice][VipxFreeDevice][posix][sharing]")
{
    const Nic nic(device_under_test(), true);
    VIP_PVOID at = &at;
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipxAllocDevice(nic, 64, VIPX_DEVICE_DRAM, &at));
    EXPECT(at == nullptr);
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipxFreeDevice(nic, &at));
}

TEST_CASE("bad arguments of VipxAllocDevice change nothing, on any device", "[VipxAllocDevice][posix]")
{
    const Nic nic(device_under_test(), false);
    VIP_PVOID at = &at;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocDevice(nic, 0, VIPX_DEVICE_DRAM, &at));
    EXPECT(at == nullptr);
    for (const int kind : {2, -1}) {
        at = &at;
        REQUIRE_RC(VIP_INVALID_PARAMETER,
                   VipxAllocDevice(nic, 64, static_cast<VIPX_DEVICE_MEMORY>(kind), &at));
        EXPECT(at == nullptr);
    }
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocDevice(nic, 64, VIPX_DEVICE_DRAM, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocDevice(nullptr, 64, VIPX_DEVICE_DRAM, &at));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nullptr, &at));
}

TEST_CASE("memory of the device is the program's to write, and pieces do not overlap",
          "[VipxAllocDevice][posix]")
{
    const MemoryNic nic;
    for (const VIPX_DEVICE_MEMORY kind : kKinds) {
        VIP_UINT8 *const first = allocate(nic, 100, kind), *const second = allocate(nic, 1, kind);
        EXPECT(first + 100 <= second || second + 1 <= first);
        std::fill(first, first + 100, VIP_UINT8{0x11});
        *second = 0x22;
        EXPECT(std::count(first, first + 100, 0x11) == 100);
        EXPECT_EQ(0x22, static_cast<int>(*second));
    }
}

TEST_CASE("a send, an RDMA Write and an RDMA Read have memory of the device at both ends",
          "[VipxAllocDevice][posix]")
{
    const MemoryNic nic, peer_nic;
    constexpr VIP_UINT32 kBytes = 5000;
    for (const VIPX_DEVICE_MEMORY kind : kKinds) {
        const Span from = registered(nic, allocate(nic, kBytes, kind), kBytes);
        const Span to = registered(peer_nic, allocate(peer_nic, kBytes, kind), kBytes);
        {
            Memory work(nic), peer_work(peer_nic);
            const Vi vi(nic), peer(peer_nic);
            connect_pair(peer_nic, peer, nic, vi);
            from.fill(1);
            std::memset(to.data, 0, kBytes);
            post_recv(peer, peer_work.transfer(to.part(1, kBytes - 1)));
            post_send(vi, work.transfer(from.part(0, kBytes - 1)));
            sent(vi);
            received(peer);
            EXPECT(std::equal(from.data, from.data + kBytes - 1, to.data + 1));
            from.fill(2);
            post_send(vi, work.rdma(VIP_CONTROL_OP_RDMAWRITE, to.remote(), from));
            sent(vi);
            to.fill(3); // behind the Write: the Read fetches what is there now
            post_send(vi, work.rdma(VIP_CONTROL_OP_RDMAREAD, to.remote() + 8, from.part(0, kBytes - 8)));
            sent(vi);
            EXPECT(std::equal(from.data, from.data + kBytes - 8, to.data + 8));
        }
        deregister(nic, from);
        deregister(peer_nic, to);
    }
}

TEST_CASE("memory of the device runs out, and what was freed is there again", "[VipxAllocDevice][posix]")
{
    const MemoryNic nic;
    for (const VIPX_DEVICE_MEMORY kind : kKinds) {
        const size_t all = amount(nic, kind);
        const size_t piece = all / 64;
        const std::vector<VIP_UINT8 *> pieces = take_all(nic, piece - 1, kind); // rounded up
        EXPECT_EQ(64u, pieces.size());
        EXPECT_EQ(64u, (std::set<VIP_UINT8 *>(pieces.begin(), pieces.end()).size()));
        REQUIRE_VIP(VipxFreeDevice(nic, pieces[10]));
        REQUIRE_VIP(VipxFreeDevice(nic, pieces[40]));
        VIP_PVOID at = nullptr;
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocDevice(nic, piece + 1, kind, &at)); // not in one piece
        EXPECT(allocate(nic, piece, kind) == pieces[10]);
        EXPECT(allocate(nic, piece, kind) == pieces[40]);
        REQUIRE_VIP(VipxFreeDevice(nic, pieces[40]));
        REQUIRE_VIP(VipxFreeDevice(nic, pieces[41]));
        EXPECT(allocate(nic, 2 * piece, kind) == pieces[40]);
        for (VIP_UINT8 *each : pieces) {
            if (each != pieces[41]) {
                REQUIRE_VIP(VipxFreeDevice(nic, each));
            }
        }
        VIP_UINT8 *const whole = allocate(nic, all, kind);
        whole[0] = whole[all - 1] = 1;
        REQUIRE_VIP(VipxFreeDevice(nic, whole));
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocDevice(nic, all + 1, kind, &at));
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocDevice(nic, ~VIP_ULONG(0), kind, &at));
    }
}

TEST_CASE("VipxFreeDevice refuses what is not allocated with the NIC handle", "[VipxFreeDevice][posix]")
{
    const MemoryNic nic, other;
    VIP_UINT8 *const at = allocate(nic, 200);
    VIP_UINT8 local = 0;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(other, at));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nic, at + 64));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nic, &local));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nic, nullptr));
    REQUIRE_VIP(VipxFreeDevice(nic, at));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nic, at));
}

TEST_CASE("VipxFreeDevice is VIP_ERROR_RESOURCE while some of the memory is registered",
          "[VipxFreeDevice][posix]")
{
    const MemoryNic nic, other;
    VIP_UINT8 *const at = allocate(nic, 4096);
    const Span first = registered(nic, at, 10), second = registered(other, at + 4000, 96);
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipxFreeDevice(nic, at));
    deregister(nic, first);
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipxFreeDevice(nic, at));
    deregister(other, second);
    REQUIRE_VIP(VipxFreeDevice(nic, at));
}

TEST_CASE("one registration lies within memory of one VipxAllocDevice", "[VipxAllocDevice][posix]")
{
    const MemoryNic nic;
    VIP_UINT8 *const first = allocate(nic, 64), *const second = allocate(nic, 64);
    EXPECT(second == first + 64);
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRegisterMem(nic, first, 65, &attributes, &handle));
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRegisterMem(nic, second + 63, 2, &attributes, &handle));
    deregister(nic, registered(nic, first, 64));
    deregister(nic, registered(nic, second + 63, 1));
    REQUIRE_VIP(VipxFreeDevice(nic, first));
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRegisterMem(nic, first, 1, &attributes, &handle));
    REQUIRE_VIP(VipxFreeDevice(nic, second));
}

TEST_CASE("VipCloseNic frees the memory of the device, but not what another NIC handle has registered",
          "[VipxAllocDevice][VipCloseNic][posix]")
{
    const MemoryNic nic;
    const size_t all = amount(nic, VIPX_DEVICE_SRAM);
    Span kept;
    {
        const MemoryNic closed;
        VIP_UINT8 *const at = allocate(closed, all - 64);
        kept = registered(nic, at, 1000);
        kept.fill(7);
        allocate(closed, 64);
        VIP_MEM_ATTRIBUTES attributes{}; // a registration of its own ends before the memory does
        VIP_MEM_HANDLE handle = 0;
        REQUIRE_VIP(VipRegisterMem(closed, at, 64, &attributes, &handle));
    }
    EXPECT_EQ(1u, take_all(nic, 64, VIPX_DEVICE_SRAM).size());
    EXPECT(kept.holds(7));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nic, kept.data));
    deregister(nic, kept);
    EXPECT(allocate(nic, all - 64) == kept.data);
}

TEST_CASE("a forked child does not have the memory of the device, and may have its own",
          "[VipxAllocDevice][posix][fork]")
{
    const MemoryNic nic;
    VIP_UINT8 *const at = allocate(nic, 4096, VIPX_DEVICE_DRAM);
    const long page = sysconf(_SC_PAGESIZE);
    VIP_UINT8 *const its_page = at - reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(page);
    at[100] = 5;
    Forked child([&](const ParentLine &) {
        EXPECT(msync(its_page, static_cast<size_t>(page), MS_ASYNC) != 0 && errno == ENOMEM);
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeDevice(nic, at));
        const std::string device = device_under_test(); // other cards are one process's alone
        if (device == "rnic" || device.compare(0, 12, "rnic:socket:") == 0) {
            const MemoryNic own;
            *allocate(own, 4096, VIPX_DEVICE_DRAM) = 9;
        }
    });
    child.finish();
    EXPECT_EQ(5, static_cast<int>(at[100]));
    REQUIRE_VIP(VipxFreeDevice(nic, at));
}

TEST_CASE("threads allocate, register and free memory of the device", "[VipxAllocDevice][posix]")
{
    const MemoryNic nic;
    std::vector<std::future<void>> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.push_back(std::async(std::launch::async, [&nic, t] {
            for (unsigned i = 0; i < 100; ++i) {
                const size_t bytes = 1 + (i * 37 + t * 101) % 700;
                VIP_UINT8 *const at = allocate(nic, bytes);
                const Span memory = registered(nic, at, bytes);
                memory.fill(t);
                EXPECT(memory.holds(t));
                deregister(nic, memory);
                REQUIRE_VIP(VipxFreeDevice(nic, at));
            }
        }));
    }
    for (auto &each : threads) {
        each.get();
    }
    EXPECT(allocate(nic, amount(nic, VIPX_DEVICE_SRAM)) != nullptr);
}
