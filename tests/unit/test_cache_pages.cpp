// SPDX-License-Identifier: MIT
//
// The registration cache of a device that keeps to the pages which memory has when it is
// registered, as cards do that lock them: the device is loopback, which does not, and is made to
// look so. With VIPL_CACHE=verify each hit compares the physical pages, which only a user with that
// right can do.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <vipl/cache.h>

#include "internal.hpp"
#include "support/setting.hpp"

using namespace unit;

namespace {

constexpr size_t kPage = 4096, kMost = 8;
constexpr unsigned kThreads = 3, kRounds = 4000;
#if defined(__SANITIZE_THREAD__)
constexpr unsigned kWays = 2; // it does not know mremap(), and would see races between its callers
#else
constexpr unsigned kWays = 5;
#endif

struct Device {
    explicit Device(bool keeps_pages)
    {
        REQUIRE(VipOpenNic("loopback", &handle) == VIP_SUCCESS);
        vipl_nic *nic = vipl_nic_get(handle);
        REQUIRE(nic != nullptr);
        nic->limits.keeps_pages = nic->limits.pages_stay = keeps_pages;
        vipl_nic_put(nic);
    }
    ~Device() { VipCloseNic(handle); }

    VIPX_CACHE_STATISTICS statistics() const
    {
        VIPX_CACHE_STATISTICS out{};
        VipQuerySystemManagementInfo(handle, VIPX_SMI_CACHE_STATISTICS, &out);
        return out;
    }

    const vipl_test::EnvironmentSetting verify{"VIPL_CACHE", "verify"};
    const vipl_test::EnvironmentSetting progress{"VIPL_PROGRESS", "auto"};
    VIP_NIC_HANDLE handle = nullptr;
};

/** A thread that maps memory, which the system takes from what other threads have given back. */
class Worker {
public:
    Worker(const Device &device, unsigned seed) : device_(device), random_(seed) {}

    void run()
    {
        for (unsigned round = 0; round < kRounds && failures == 0; ++round) {
            bytes_ = (1 + random_() % kMost) * kPage;
            at_ = map(nullptr);
            use();
            lose();
            munmap(at_, bytes_);
        }
    }

    unsigned failures = 0;

private:
    unsigned char *map(void *where)
    {
        void *at = mmap(where, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (where == nullptr ? 0 : MAP_FIXED), -1, 0);
        std::memset(at, 1, bytes_);
        return static_cast<unsigned char *>(at);
    }
    void use()
    {
        for (unsigned i = random_() % 4; i > 0; --i) {
            const size_t from = random_() % bytes_;
            VIPX_REGISTRATION registration{};
            VIP_MEM_ATTRIBUTES attributes{};
            bool good = VipxAcquireMem(device_.handle, at_ + from, bytes_ - from, &attributes, 0,
                                       &registration) == VIP_SUCCESS;
            good = good && VipxReleaseMem(device_.handle, &registration) == VIP_SUCCESS;
            failures += good ? 0 : 1;
        }
    }
    /** Takes all pages away or some, and uses what is there then. */
    void lose()
    {
        switch (random_() % kWays) {
        case 0:
            map(at_);
            use();
            break;
        case 1:
            madvise(at_, kPage, MADV_DONTNEED);
            std::memset(at_, 2, kPage);
            use();
            break;
        case 2: {
            void *other = map(nullptr);
            mremap(other, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, at_);
            use();
            break;
        }
        case 3: {
            void *moved = mremap(at_, bytes_, 2 * bytes_, MREMAP_MAYMOVE);
            at_ = static_cast<unsigned char *>(moved);
            bytes_ *= 2;
            std::memset(at_, 3, bytes_);
            use();
            break;
        }
        default:
            break;
        }
    }

    const Device &device_;
    std::mt19937 random_;
    unsigned char *at_ = nullptr;
    size_t bytes_ = 0;
};

bool can_see_pages()
{
    static unsigned char page[2 * kPage];
    auto *aligned =
        reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(page) + kPage - 1) & ~(kPage - 1));
    std::uint64_t physical;
    *aligned = 1;
    return vipl_physical_pages(aligned, 1, &physical) == 0;
}

VIPX_CACHE_STATISTICS run_workers(const Device &device)
{
    std::vector<Worker> workers;
    std::vector<std::thread> threads;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // large pages move by themselves
    workers.reserve(kThreads);
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back(&Worker::run, &workers.emplace_back(device, i + 1));
    }
    for (unsigned i = 0; i < kThreads; ++i) {
        threads[i].join();
        CHECK(workers[i].failures == 0);
    }
    return device.statistics();
}

} // namespace

TEST_CASE("no hit is of pages that were taken away", "[cache]")
{
    const Device device(true);
    const VIPX_CACHE_STATISTICS seen = run_workers(device);
    if (seen.NotCachedOff > 0) {
        WARN("memory is not cached: this system does not let a program watch its memory");
        return;
    }
    CHECK(seen.Hits > kRounds);
    CHECK(seen.Invalidated > kRounds);
    CHECK(seen.Stale == 0);
    if (!can_see_pages()) {
        WARN("pages are not compared: this user may not see their physical addresses");
    }
}

TEST_CASE("a cache of a device without room for pages of its own ends idle regions first", "[cache]")
{
    const vipl_test::EnvironmentSetting regions("VIPL_CACHE_REGIONS", "16");
    const Device device(false);
    vipl_nic *nic = vipl_nic_get(device.handle);
    nic->limits.max_regions = 4;
    vipl_nic_put(nic);
    std::vector<unsigned char> memory(16 * kPage);
    VIPX_REGISTRATION registration{};
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(VipxAcquireMem(device.handle, &memory[i * 3 * kPage], 1, nullptr, 0, &registration) ==
                VIP_SUCCESS);
        REQUIRE(VipxReleaseMem(device.handle, &registration) == VIP_SUCCESS);
    }
    CHECK(device.statistics().Regions == (device.statistics().NotCachedOff > 0 ? 0 : 4));
    VIP_MEM_HANDLE own = 0;
    REQUIRE(VipRegisterMem(device.handle, memory.data(), 1, nullptr, &own) == VIP_SUCCESS);
    CHECK(device.statistics().Regions == 0);
    CHECK(VipDeregisterMem(device.handle, memory.data(), own) == VIP_SUCCESS);
}
