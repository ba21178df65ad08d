// SPDX-License-Identifier: MIT
//
// POSIX extensions: the registration cache. Cases with the tag [watch] need a system that lets a
// program watch its memory.
#include <vector>

#include <sys/shm.h>
#include <unistd.h>

#include "cached.hpp"
#include "conformance/connect_roles.hpp"
#include "support/forked.hpp"

using namespace vipl_conformance;

namespace {

/** A file in memory, which can lose pages without an event. */
class SharedFile {
public:
    explicit SharedFile(int kind) : fd_(memfd_create("case", 0))
    {
        EXPECT(ftruncate(fd_, kPage) == 0);
        at_ = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, kind, fd_, 0);
        EXPECT(at_ != MAP_FAILED);
    }
    ~SharedFile()
    {
        munmap(at_, kPage);
        close(fd_);
    }
    SharedFile(const SharedFile &) = delete;
    SharedFile &operator=(const SharedFile &) = delete;

    void *at() const { return at_; }

private:
    int fd_;
    void *at_;
};

void expect_ended(const CachingNic &nic, const void *address, VIP_MEM_HANDLE handle)
{
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(nic, const_cast<void *>(address), handle, &attributes));
}

} // namespace

TEST_CASE("memory that was released is found again, and parts of it", "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(4);
    const VIP_MEM_HANDLE handle = nic.cache(pages.at(), pages.size());
    EXPECT_EQ(handle, nic.cache(pages.at(), pages.size()));
    EXPECT_EQ(handle, nic.cache(pages.at(kPage + 7), 100));
    EXPECT_EQ(handle, nic.cache(pages.at(pages.size() - 1), 1));
    const VIPX_CACHE_STATISTICS statistics = nic.statistics();
    EXPECT_EQ(3u, statistics.Hits);
    EXPECT_EQ(1u, statistics.Misses);
    EXPECT_EQ(1u, statistics.Regions);
    EXPECT_EQ(pages.size(), statistics.Bytes);
    EXPECT_EQ(1u, nic.regions());
}

TEST_CASE("a region does not serve more than it has", "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(4);
    const VIP_MEM_HANDLE handle = nic.cache(pages.at(kPage), 2 * kPage);
    EXPECT(nic.cache(pages.at(), kPage) != handle);
    EXPECT(nic.cache(pages.at(2 * kPage), 2 * kPage) != handle);
    EXPECT(nic.cache(pages.at(), pages.size()) != handle);
    EXPECT_EQ(0u, nic.statistics().Hits);
    EXPECT_EQ(4u, nic.statistics().Regions); // they overlap, and are not merged
}

TEST_CASE("without RDMA whole pages are registered, with it the bytes asked for, unless pages are asked for",
          "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(3);
    nic.cache(pages.at(100), 50);
    EXPECT(nic.has(pages.at(), kPage));
    nic.cache(pages.at(kPage + 100), 50, rdma_memory());
    EXPECT(!nic.has(pages.at(kPage), 101, rdma_memory()));
    EXPECT_EQ(kPage + 50 + 101, nic.statistics().Bytes);
    nic.cache(pages.at(2 * kPage + 100), 50, rdma_memory(), VIPX_WHOLE_PAGES);
    EXPECT(nic.has(pages.at(2 * kPage), kPage, rdma_memory()));
}

TEST_CASE("a region serves those who ask for its rights or fewer, and for its tag",
          "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(2);
    const Ptag tag(nic.nic());
    nic.cache(pages.at(), kPage);
    EXPECT(!nic.has(pages.at(), kPage, rdma_memory()));
    EXPECT(nic.has(pages.at(), kPage, rdma_memory()));
    EXPECT(!nic.has(pages.at(), kPage, rdma_memory(tag)));
    EXPECT(nic.has(pages.at(), kPage, rdma_memory(tag)));
    nic.cache(pages.at(kPage), kPage, rdma_memory());
    EXPECT(nic.has(pages.at(kPage), kPage));
}

TEST_CASE("several users share a region, which stays until the last", "[VipxReleaseMem][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(1);
    const VIPX_REGISTRATION first = nic.acquire(pages.at(), kPage);
    const VIPX_REGISTRATION second = nic.acquire(pages.at(), 10);
    EXPECT_EQ(first.Handle, second.Handle);
    REQUIRE_VIP(VipxForgetMem(nic, pages.at(), 1));
    nic.release(first);
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryMem(nic, pages.at(), second.Handle, &attributes));
    nic.release(second);
    expect_ended(nic, pages.at(), second.Handle);
    EXPECT_EQ(1u, nic.statistics().InvalidatedInUse);
    EXPECT_EQ(0u, nic.statistics().Regions);
}

TEST_CASE("messages go from and to acquired memory", "[VipxAcquireMem][cache][posix]")
{
    const CachingNic sender, receiver;
    Vi client(sender.nic()), server(receiver.nic());
    Memory from_memory(sender.nic()), to_memory(receiver.nic());
    connect_pair(receiver.nic(), server, sender.nic(), client);
    const Pages from(1), to(1);
    for (int round = 0; round < 3; ++round) {
        const VIPX_REGISTRATION in = receiver.acquire(to.at(), kPage);
        const VIPX_REGISTRATION out = sender.acquire(from.at(), kPage);
        std::memset(from.at(), 'a' + round, kPage);
        Work receive = to_memory.work(), send = from_memory.work();
        receive.local({to.at(), kPage, in.Handle});
        send.local({from.at(), kPage, out.Handle});
        post_recv(server, receive);
        post_send(client, send);
        EXPECT(received(server) == receive.desc);
        sent(client);
        EXPECT_EQ('a' + round, to.at()[kPage - 1]);
        receiver.release(in);
        sender.release(out);
    }
}

TEST_CASE("beyond its limit the cache ends the regions used least recently",
          "[VipxAcquireMem][cache][posix][watch]")
{
    const EnvironmentSetting regions("VIPL_CACHE_REGIONS", "3");
    const CachingNic nic;
    const Pages pages(5);
    for (size_t i = 0; i < 3; ++i) {
        nic.cache(pages.at(i * kPage), kPage);
    }
    EXPECT(nic.has(pages.at(), kPage));    // 1, 2, 0
    nic.cache(pages.at(3 * kPage), kPage); // 2, 0, 3
    EXPECT(nic.has(pages.at(), kPage));    // 2, 3, 0
    EXPECT(nic.has(pages.at(3 * kPage), kPage));
    EXPECT(nic.has(pages.at(2 * kPage), kPage));
    EXPECT(!nic.has(pages.at(1 * kPage), kPage));
    EXPECT_EQ(2u, nic.statistics().Evicted);
    EXPECT_EQ(3u, nic.statistics().Regions);
    EXPECT_EQ(3u, nic.regions());
}

TEST_CASE("regions in use are not evicted, and what has no room is not cached",
          "[VipxAcquireMem][cache][posix][watch]")
{
    const EnvironmentSetting regions("VIPL_CACHE_REGIONS", "2");
    const CachingNic nic;
    const Pages pages(3);
    const VIPX_REGISTRATION first = nic.acquire(pages.at(), kPage);
    const VIPX_REGISTRATION second = nic.acquire(pages.at(kPage), kPage);
    const VIPX_REGISTRATION third = nic.acquire(pages.at(2 * kPage), kPage);
    EXPECT_EQ(1u, nic.statistics().NotCachedFull);
    nic.release(third);
    expect_ended(nic, pages.at(2 * kPage), third.Handle);
    nic.release(first);
    nic.release(second);
    EXPECT(nic.has(pages.at(), kPage));
    EXPECT_EQ(0u, nic.statistics().Evicted);
}

TEST_CASE("memory larger than the cache evicts nothing", "[VipxAcquireMem][cache][posix][watch]")
{
    const EnvironmentSetting mib("VIPL_CACHE_MIB", "1");
    const CachingNic nic;
    const Pages small(1), large(257), rest(255);
    nic.cache(small.at(), kPage);
    nic.cache(large.at(), large.size());
    EXPECT_EQ(1u, nic.statistics().NotCachedFull);
    EXPECT(nic.has(small.at(), kPage));
    nic.cache(rest.at(), rest.size());
    EXPECT_EQ(0u, nic.statistics().Evicted);
    EXPECT_EQ(1u << 20, nic.statistics().Bytes);
}

TEST_CASE("memory that is asked for once is not cached", "[VipxAcquireMem][cache][posix]")
{
    const CachingNic nic;
    const Pages pages(1);
    const VIP_MEM_HANDLE handle = nic.cache(pages.at(), kPage, {}, VIPX_ONCE);
    expect_ended(nic, pages.at(), handle);
    nic.cache(pages.at(), kPage);
    nic.cache(pages.at(), kPage, {}, VIPX_ONCE);
    EXPECT_EQ(0u, nic.statistics().Hits);
    EXPECT_EQ(3u, nic.statistics().Misses);
}

TEST_CASE("with the setting off, or without a thread, memory is registered each time",
          "[VipxAcquireMem][cache][posix]")
{
    const Pages pages(1);
    {
        const EnvironmentSetting off("VIPL_CACHE", "off");
        const CachingNic nic;
        EXPECT(!nic.has(pages.at(), kPage));
        EXPECT(!nic.has(pages.at(), kPage));
        EXPECT_EQ(2u, nic.statistics().NotCachedOff);
        EXPECT_EQ(0u, nic.regions());
    }
    const Nic nic(device_under_test(), Nic::Flags{VIPX_INLINE});
    VIPX_REGISTRATION registration{};
    REQUIRE_VIP(VipxAcquireMem(nic, pages.at(), kPage, nullptr, 0, &registration));
    REQUIRE_VIP(VipxReleaseMem(nic, &registration));
    VIPX_CACHE_STATISTICS statistics{};
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIPX_SMI_CACHE_STATISTICS, &statistics));
    EXPECT_EQ(1u, statistics.NotCachedOff);
}

TEST_CASE("memory of files is registered each time", "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic nic;
    const SharedFile shared(MAP_SHARED), own(MAP_PRIVATE);
    const int id = shmget(IPC_PRIVATE, kPage, 0600);
    void *segment = shmat(id, nullptr, 0);
    EXPECT(shmctl(id, IPC_RMID, nullptr) == 0);
    for (void *at : {shared.at(), own.at(), segment}) {
        EXPECT(!nic.has(at, kPage));
        EXPECT(!nic.has(at, kPage));
    }
    EXPECT_EQ(6u, nic.statistics().NotCachedKind);
    EXPECT_EQ(0u, nic.statistics().Regions);
    EXPECT_EQ(0u, nic.regions());
    shmdt(segment);
}

TEST_CASE("shared memory is cached for as long as the process has a reference to it",
          "[VipxAcquireMem][VipxFreeShared][cache][posix][sharing][watch]")
{
    constexpr size_t kUnit = 65536;
    const CachingNic nic, other;
    VIP_PVOID block = nullptr;
    REQUIRE_VIP(VipxAllocShared(2 * kUnit - 1, &block));
    auto *const memory = static_cast<unsigned char *>(block);
    const VIP_MEM_HANDLE all = nic.cache(memory, 2 * kUnit);
    EXPECT_EQ(all, nic.cache(memory + kUnit, 100));
    const VIPX_REGISTRATION used = other.acquire(memory, kUnit);
    EXPECT(!nic.has(memory, 2 * kUnit + 1)); // beyond the block: each time
    EXPECT(!nic.has(memory, 2 * kUnit + 1));
    EXPECT_EQ(2u, nic.statistics().NotCachedKind);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(memory + kUnit));
    EXPECT_EQ(all, nic.cache(memory, kUnit));
    REQUIRE_VIP(VipxFreeShared(block));
    expect_ended(nic, memory, all);
    EXPECT_EQ(0u, nic.statistics().Regions);
    EXPECT_EQ(1u, other.statistics().InvalidatedInUse);
    other.release(used);
    expect_ended(other, memory, used.Handle);
    EXPECT(!nic.has(memory, kUnit)); // which is no block now
    EXPECT(!nic.has(memory, kUnit));
}

TEST_CASE("a forked child caches shared memory that it has inherited, for itself",
          "[VipxAcquireMem][VipxFreeShared][cache][posix][fork][sharing][watch]")
{
    const CachingNic nic;
    VIP_PVOID block = nullptr;
    REQUIRE_VIP(VipxAllocShared(1, &block));
    nic.cache(block, kPage);
    Forked child([&](const ParentLine &) {
        const CachingNic own;
        EXPECT(!own.has(block, kPage));
        EXPECT(own.has(block, kPage));
        REQUIRE_VIP(VipxFreeShared(block));
        EXPECT(!own.has(block, kPage));
        EXPECT(!own.has(block, kPage));
    });
    child.finish();
    EXPECT(nic.has(block, kPage)); // though the child has dropped its reference
    REQUIRE_VIP(VipxFreeShared(block));
    EXPECT(!nic.has(block, kPage));
}

TEST_CASE("forgotten memory is not found, and what is idle ends at once",
          "[VipxForgetMem][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(4);
    const VIP_MEM_HANDLE first = nic.cache(pages.at(), 2 * kPage);
    const VIP_MEM_HANDLE second = nic.cache(pages.at(2 * kPage), kPage);
    REQUIRE_VIP(VipxForgetMem(nic, pages.at(kPage + 1), 10));
    expect_ended(nic, pages.at(), first);
    EXPECT_EQ(second, nic.cache(pages.at(2 * kPage), kPage));
    EXPECT(!nic.has(pages.at(), 2 * kPage));
    REQUIRE_VIP(VipxForgetMem(nic, pages.at(3 * kPage), kPage)); // there is none
    EXPECT_EQ(1u, nic.statistics().Invalidated);
}

TEST_CASE("the program cannot end or change a region of the cache by its handle",
          "[VipxAcquireMem][cache][posix]")
{
    const CachingNic nic;
    const Pages pages(1);
    const VIPX_REGISTRATION registration = nic.acquire(pages.at(), kPage);
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryMem(nic, pages.at(), registration.Handle, &attributes));
    attributes.EnableRdmaWrite = VIP_TRUE;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, pages.at(), registration.Handle, &attributes));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, pages.at(), registration.Handle));
    nic.release(registration);
}

TEST_CASE("idle regions do not keep a tag", "[VipDestroyPtag][cache][posix][watch]")
{
    const CachingNic nic;
    const Pages pages(2);
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    nic.cache(pages.at(kPage), kPage);
    const VIPX_REGISTRATION used = nic.acquire(pages.at(), kPage, rdma_memory(tag));
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag));
    nic.release(used);
    REQUIRE_VIP(VipDestroyPtag(nic, tag));
    expect_ended(nic, pages.at(), used.Handle);
    EXPECT(nic.has(pages.at(kPage), kPage)); // of another tag
    VIP_MEM_ATTRIBUTES attributes = rdma_memory(tag);
    VIPX_REGISTRATION registration{};
    REQUIRE_RC(VIP_INVALID_PTAG, VipxAcquireMem(nic, pages.at(), kPage, &attributes, 0, &registration));
    EXPECT_EQ(1u, nic.statistics().Regions);
}

TEST_CASE("bad arguments of the registration cache change nothing",
          "[VipxAcquireMem][VipxReleaseMem][cache][posix]")
{
    const CachingNic nic, other;
    const Pages pages(1);
    VIPX_REGISTRATION registration{1, &registration};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAcquireMem(nic, pages.at(), kPage, nullptr, 0, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAcquireMem(nic, nullptr, kPage, nullptr, 0, &registration));
    EXPECT(registration.Handle == 0 && registration.Entry == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAcquireMem(nic, pages.at(), 0, nullptr, 0, &registration));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAcquireMem(nic, pages.at(), kPage, nullptr, 4, &registration));
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               VipxAcquireMem(nic, pages.at(), UINTPTR_MAX, nullptr, 0, &registration));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAcquireMem(nullptr, pages.at(), kPage, nullptr, 0, &registration));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxForgetMem(nic, pages.at(), 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxForgetMem(nic, nullptr, 1));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(nic, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(nic, &registration));
    VIPX_REGISTRATION good = nic.acquire(pages.at(), kPage, {}, VIPX_ONCE);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(other, &good));
    other.cache(pages.at(), kPage);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(other, &good));
    const VIPX_REGISTRATION wrong = {good.Handle + 1, good.Entry};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(nic, &wrong));
    nic.release(good);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(nic, &good));
    VIPX_REGISTRATION late{};
    {
        const CachingNic closed;
        late = closed.acquire(pages.at(), kPage);
    }
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(nic, &late));
}

TEST_CASE("a forked child has no registrations, and its own cache",
          "[VipxAcquireMem][cache][posix][fork][watch]")
{
    const CachingNic nic;
    const Pages pages(4);
    const VIPX_REGISTRATION held = nic.acquire(pages.at(), 2 * kPage);
    Forked child([&](const ParentLine &) {
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxReleaseMem(nic, &held));
        EXPECT(munmap(pages.at(), kPage) == 0); // which nobody watches
        const CachingNic own;
        EXPECT(!own.has(pages.at(2 * kPage), kPage));
        EXPECT(own.has(pages.at(2 * kPage), kPage));
        EXPECT(munmap(pages.at(2 * kPage), kPage) == 0);
        EXPECT(own.statistics().Invalidated == 1);
    });
    child.finish();
    EXPECT(nic.has(pages.at(), 2 * kPage)); // though the child has unmapped a part
    EXPECT_EQ(0u, nic.statistics().Events);
    nic.release(held);
}
