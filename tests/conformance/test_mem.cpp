// SPDX-License-Identifier: MIT
//
// Protection tags and registered memory: creation, limits, attributes, handles, ends. What a tag
// or a right does to a transfer is in test_errors.cpp and test_rdma.cpp.
#include <algorithm>
#include <set>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** A tag that was of this NIC handle and is no more. */
VIP_PROTECTION_HANDLE stale_tag(const Nic &nic)
{
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
    return tag;
}

VIP_MEM_HANDLE registered(const Nic &nic, void *address, VIP_ULONG length, VIP_MEM_ATTRIBUTES attributes = {})
{
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_VIP(VipRegisterMem(nic, address, length, &attributes, &handle));
    EXPECT(handle != 0);
    EXPECT(handle != 0xFFFFFFFFu);
    return handle;
}

} // namespace

TEST_CASE("VipCreatePtag hands back distinct tags", "[VipCreatePtag][early]")
{
    const Nic nic;
    const Ptag first(nic), second(nic);
    EXPECT(static_cast<void *>(first) != nullptr);
    EXPECT(static_cast<void *>(first) != static_cast<void *>(second));
}

TEST_CASE("VipCreatePtag without an out-pointer is VIP_INVALID_PARAMETER", "[VipCreatePtag][early]")
{
    const Nic nic;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreatePtag(nic, nullptr));
}

TEST_CASE("VipCreatePtag beyond MaxPtags is VIP_ERROR_RESOURCE", "[VipCreatePtag][full]")
{
    const Nic nic;
    const VIP_ULONG most = nic.attributes().MaxPtags;
    if (most >
        (objects_are_shareable() ? 10000u : 100000u)) { // each of those is a question to another process
        throw NotApplicable("MaxPtags is too large to use up");
    }
    VIP_PROTECTION_HANDLE tag = nullptr, last = nullptr;
    VIP_RETURN rc = VIP_SUCCESS;
    for (VIP_ULONG i = 0; i <= most && rc == VIP_SUCCESS; ++i) {
        last = tag;
        rc = VipCreatePtag(nic, &tag);
    }
    EXPECT_EQ(VIP_ERROR_RESOURCE, rc);
    EXPECT(tag == nullptr);
    REQUIRE_VIP(VipDestroyPtag(nic, last));
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
}

TEST_CASE("VipDestroyPtag ends a tag", "[VipDestroyPtag][early]")
{
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = stale_tag(nic);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyPtag(nic, tag));
}

TEST_CASE("VipDestroyPtag of a tag that a region uses is VIP_ERROR_RESOURCE",
          "[VipDestroyPtag][early][private]")
{
    const Nic nic;
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    char bytes[10];
    const VIP_MEM_HANDLE memory = registered(nic, bytes, sizeof bytes, {tag, VIP_FALSE, VIP_FALSE});
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag));
    REQUIRE_VIP(VipDeregisterMem(nic, bytes, memory));
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
}

TEST_CASE("VipDestroyPtag of a tag that a VI uses is VIP_ERROR_RESOURCE", "[VipDestroyPtag][early]")
{
    const Nic nic;
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        attributes.Ptag = tag;
        const Vi vi(nic, attributes);
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag));
    }
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
}

TEST_CASE("VipDestroyPtag of a tag that a region has left by VipSetMemAttributes succeeds",
          "[VipDestroyPtag][full]")
{
    const Nic nic;
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    const Ptag next(nic);
    Memory memory(nic, 64, {tag, VIP_FALSE, VIP_FALSE});
    VIP_MEM_ATTRIBUTES attributes = {next, VIP_FALSE, VIP_FALSE};
    REQUIRE_VIP(VipSetMemAttributes(nic, memory.data(), memory.handle(), &attributes));
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
}

TEST_CASE("VipDestroyPtag of NULL or of another NIC handle's tag is VIP_INVALID_PARAMETER",
          "[VipDestroyPtag][early]")
{
    const Nic nic, other;
    const Ptag foreign(other);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyPtag(nic, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyPtag(nic, foreign));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyPtag(nic, nic.handle()));
}

TEST_CASE("VipRegisterMem takes any byte address and any length above 0", "[VipRegisterMem][early][private]")
{
    const Nic nic;
    alignas(64) static char bytes[256];
    for (unsigned offset = 0; offset < 64; ++offset) {
        for (const VIP_ULONG length : {1ul, 3ul, 64ul, 65ul}) {
            const VIP_MEM_HANDLE memory = registered(nic, bytes + offset, length);
            REQUIRE_VIP(VipDeregisterMem(nic, bytes + offset, memory));
        }
    }
}

TEST_CASE("VipRegisterMem of no bytes is VIP_INVALID_PARAMETER", "[VipRegisterMem][early]")
{
    const Nic nic;
    char byte = 0;
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE memory = 77;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, &byte, 0, &attributes, &memory));
    EXPECT_EQ(0u, memory);
}

TEST_CASE("VipRegisterMem of a range that wraps is VIP_INVALID_PARAMETER", "[VipRegisterMem][early]")
{
    const Nic nic;
    auto *near_the_end = reinterpret_cast<void *>(~static_cast<uintptr_t>(0) - 63);
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE memory = 77;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, near_the_end, 128, &attributes, &memory));
    EXPECT_EQ(0u, memory);
}

TEST_CASE("VipRegisterMem above MaxRegisterBlockBytes is VIP_ERROR_RESOURCE",
          "[VipRegisterMem][full][private]")
{
    const Nic nic;
    static char byte;
    const VIP_ULONG most = nic.attributes().MaxRegisterBlockBytes;
    const uintptr_t possible = ~static_cast<uintptr_t>(0) - reinterpret_cast<uintptr_t>(&byte);
    if (most >= std::min<uintptr_t>(possible, ~static_cast<VIP_ULONG>(0))) {
        throw NotApplicable("MaxRegisterBlockBytes is as large as the address space");
    }
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE memory = 77;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRegisterMem(nic, &byte, most + 1, &attributes, &memory));
    EXPECT_EQ(0u, memory);
}

TEST_CASE("VipRegisterMem without an out-pointer is VIP_INVALID_PARAMETER", "[VipRegisterMem][early]")
{
    const Nic nic;
    char byte = 0;
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, &byte, 1, &attributes, nullptr));
}

TEST_CASE("VipRegisterMem without attributes means the default tag and no RDMA",
          "[VipRegisterMem][early][private]")
{
    const Nic nic;
    char bytes[16];
    VIP_MEM_HANDLE plain = 0;
    REQUIRE_VIP(VipRegisterMem(nic, bytes, sizeof bytes, nullptr, &plain));
    const VIP_MEM_HANDLE null_tag = registered(nic, bytes, sizeof bytes);
    VIP_MEM_ATTRIBUTES seen{}, expected{};
    REQUIRE_VIP(VipQueryMem(nic, bytes, plain, &seen));
    REQUIRE_VIP(VipQueryMem(nic, bytes, null_tag, &expected));
    EXPECT(seen.Ptag != nullptr);
    EXPECT(seen.Ptag == expected.Ptag);
    EXPECT_EQ(VIP_FALSE, seen.EnableRdmaWrite);
    EXPECT_EQ(VIP_FALSE, seen.EnableRdmaRead);
}

TEST_CASE("VipRegisterMem with a stale, foreign or made-up tag is VIP_INVALID_PTAG",
          "[VipRegisterMem][early][private]")
{
    const Nic nic, other;
    const Ptag foreign(other);
    int not_a_tag = 0;
    char byte = 0;
    for (const VIP_PROTECTION_HANDLE tag : {stale_tag(nic), static_cast<VIP_PROTECTION_HANDLE>(foreign),
                                            static_cast<VIP_PROTECTION_HANDLE>(&not_a_tag), nic.handle()}) {
        VIP_MEM_ATTRIBUTES attributes = {tag, VIP_FALSE, VIP_FALSE};
        VIP_MEM_HANDLE memory = 77;
        REQUIRE_RC(VIP_INVALID_PTAG, VipRegisterMem(nic, &byte, 1, &attributes, &memory));
        EXPECT_EQ(0u, memory);
    }
}

TEST_CASE("VipRegisterMem for RDMA Read where the device has none is VIP_INVALID_RDMAREAD",
          "[VipRegisterMem][full]")
{
    const Nic nic;
    char byte = 0;
    VIP_MEM_ATTRIBUTES attributes = {nullptr, VIP_FALSE, VIP_TRUE};
    VIP_MEM_HANDLE memory = 0;
    if (nic.attributes().RDMAReadSupport != 0) {
        throw NotApplicable("the device has RDMA Read");
    }
    REQUIRE_RC(VIP_INVALID_RDMAREAD, VipRegisterMem(nic, &byte, 1, &attributes, &memory));
}

TEST_CASE("VipRegisterMem takes overlapping ranges and the same range many times",
          "[VipRegisterMem][early][private]")
{
    const Nic nic;
    static char bytes[100];
    std::set<VIP_MEM_HANDLE> handles;
    for (int i = 0; i < 10; ++i) {
        handles.insert(registered(nic, bytes, sizeof bytes));
        handles.insert(registered(nic, bytes + i, 50));
    }
    EXPECT_EQ(20u, handles.size());
}

TEST_CASE("VipRegisterMem never hands out 0 or 0xFFFFFFFF, and no handle twice",
          "[VipRegisterMem][full][private]")
{
    const Nic nic;
    static char bytes[2000];
    std::set<VIP_MEM_HANDLE> handles;
    for (char &byte : bytes) {
        handles.insert(registered(nic, &byte, 1));
    }
    EXPECT_EQ(sizeof bytes, handles.size());
}

TEST_CASE("VipDeregisterMem ends a registration", "[VipDeregisterMem][early][private]")
{
    const Nic nic;
    char byte = 0;
    const VIP_MEM_HANDLE memory = registered(nic, &byte, 1);
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipDeregisterMem(nic, &byte, memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, &byte, memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(nic, &byte, memory, &attributes));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, &byte, memory, &attributes));
}

TEST_CASE("VipDeregisterMem's handle stays dead when its place is used again",
          "[VipDeregisterMem][full][private]")
{
    const Nic nic;
    static char byte;
    for (int i = 0; i < 300; ++i) {
        const VIP_MEM_HANDLE stale = registered(nic, &byte, 1);
        REQUIRE_VIP(VipDeregisterMem(nic, &byte, stale));
        const VIP_MEM_HANDLE next = registered(nic, &byte, 1);
        EXPECT(stale != next);
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, &byte, stale));
        REQUIRE_VIP(VipDeregisterMem(nic, &byte, next));
    }
}

TEST_CASE("VipDeregisterMem at another address than the registered one is VIP_INVALID_PARAMETER",
          "[VipDeregisterMem][early][private]")
{
    const Nic nic;
    char bytes[10];
    const VIP_MEM_HANDLE memory = registered(nic, bytes, sizeof bytes);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, bytes + 1, memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, nullptr, memory));
    REQUIRE_VIP(VipDeregisterMem(nic, bytes, memory));
}

TEST_CASE("VipDeregisterMem of 0, 0xFFFFFFFF or a foreign handle is VIP_INVALID_PARAMETER",
          "[VipDeregisterMem][early][private]")
{
    const Nic nic, other;
    char byte = 0;
    const VIP_MEM_HANDLE foreign = registered(other, &byte, 1);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, &byte, 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, &byte, 0xFFFFFFFFu));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, &byte, foreign));
    REQUIRE_VIP(VipDeregisterMem(other, &byte, foreign));
}

TEST_CASE("VipQueryMem reads back tag and rights", "[VipQueryMem][early][private]")
{
    const Nic nic;
    const Ptag tag(nic);
    char byte = 0;
    const VIP_BOOLEAN read = nic.attributes().RDMAReadSupport != 0;
    for (const VIP_BOOLEAN write : {VIP_FALSE, VIP_TRUE}) {
        const VIP_MEM_HANDLE memory = registered(nic, &byte, 1, {tag, write, read && !write});
        VIP_MEM_ATTRIBUTES seen{};
        REQUIRE_VIP(VipQueryMem(nic, &byte, memory, &seen));
        EXPECT(seen.Ptag == static_cast<void *>(tag));
        EXPECT_EQ(write, seen.EnableRdmaWrite);
        EXPECT_EQ(static_cast<VIP_BOOLEAN>(read && !write), seen.EnableRdmaRead);
        REQUIRE_VIP(VipDeregisterMem(nic, &byte, memory));
    }
}

TEST_CASE("VipQueryMem of a wrong address or without an out-pointer is VIP_INVALID_PARAMETER",
          "[VipQueryMem][early]")
{
    const Nic nic, other;
    const Memory memory(nic, 64);
    VIP_MEM_ATTRIBUTES seen{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory.data() + 1, memory.handle(), &seen));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory.data(), memory.handle() ^ 0x10000, &seen));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(other, memory.data(), memory.handle(), &seen));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(nic, memory.data(), memory.handle(), nullptr));
}

TEST_CASE("VipSetMemAttributes changes tag and rights", "[VipSetMemAttributes][full]")
{
    const Nic nic;
    const Ptag first(nic), second(nic);
    const Memory memory(nic, 64, {first, VIP_FALSE, VIP_FALSE});
    VIP_MEM_ATTRIBUTES next = {second, VIP_TRUE, nic.attributes().RDMAReadSupport != 0}, seen{};
    REQUIRE_VIP(VipSetMemAttributes(nic, memory.data(), memory.handle(), &next));
    REQUIRE_VIP(VipQueryMem(nic, memory.data(), memory.handle(), &seen));
    EXPECT(seen.Ptag == static_cast<void *>(second));
    EXPECT_EQ(VIP_TRUE, seen.EnableRdmaWrite);
    EXPECT_EQ(next.EnableRdmaRead, seen.EnableRdmaRead);
}

TEST_CASE("VipSetMemAttributes with a bad tag is VIP_INVALID_PTAG and changes nothing",
          "[VipSetMemAttributes][full]")
{
    const Nic nic, other;
    const Ptag tag(nic), foreign(other);
    const Memory memory(nic, 64, {tag, VIP_FALSE, VIP_FALSE});
    for (const VIP_PROTECTION_HANDLE bad : {stale_tag(nic), static_cast<VIP_PROTECTION_HANDLE>(foreign)}) {
        VIP_MEM_ATTRIBUTES next = {bad, VIP_TRUE, VIP_FALSE}, seen{};
        REQUIRE_RC(VIP_INVALID_PTAG, VipSetMemAttributes(nic, memory.data(), memory.handle(), &next));
        REQUIRE_VIP(VipQueryMem(nic, memory.data(), memory.handle(), &seen));
        EXPECT(seen.Ptag == static_cast<void *>(tag));
        EXPECT_EQ(VIP_FALSE, seen.EnableRdmaWrite);
    }
}

TEST_CASE("VipSetMemAttributes for RDMA Read where the device has none is VIP_INVALID_RDMAREAD",
          "[VipSetMemAttributes][full]")
{
    const Nic nic;
    if (nic.attributes().RDMAReadSupport != 0) {
        throw NotApplicable("the device has RDMA Read");
    }
    const Memory memory(nic, 64);
    VIP_MEM_ATTRIBUTES next = {nullptr, VIP_FALSE, VIP_TRUE};
    REQUIRE_RC(VIP_INVALID_RDMAREAD, VipSetMemAttributes(nic, memory.data(), memory.handle(), &next));
}

TEST_CASE("VipSetMemAttributes of a wrong address or without attributes is VIP_INVALID_PARAMETER",
          "[VipSetMemAttributes][full]")
{
    const Nic nic, other;
    const Memory memory(nic, 64);
    VIP_MEM_ATTRIBUTES next{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory.data() + 1, memory.handle(), &next));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, memory.data(), memory.handle(), nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetMemAttributes(other, memory.data(), memory.handle(), &next));
}
