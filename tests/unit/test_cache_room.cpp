// SPDX-License-Identifier: MIT
//
// How much room the registration cache takes, and leaves to the program.
#include <catch2/catch.hpp>

#include <fstream>

#include <sys/mman.h>

#include <vipl/cache.h>

#include "internal.hpp"
#include "support/setting.hpp"

using namespace unit;

namespace {

constexpr size_t kPage = 4096;

struct Device {
    Device() { REQUIRE(VipOpenNic("loopback", &handle) == VIP_SUCCESS); }
    ~Device() { VipCloseNic(handle); }

    VIPX_CACHE_STATISTICS statistics() const
    {
        VIPX_CACHE_STATISTICS out{};
        VipQuerySystemManagementInfo(handle, VIPX_SMI_CACHE_STATISTICS, &out);
        return out;
    }
    /** Registers memory, and leaves the region in the cache. */
    bool cache(void *address, size_t bytes) const
    {
        VIPX_REGISTRATION registration{};
        return VipxAcquireMem(handle, address, bytes, nullptr, 0, &registration) == VIP_SUCCESS &&
               VipxReleaseMem(handle, &registration) == VIP_SUCCESS;
    }
    /** Whether memory is cached here at all. */
    bool caches(void *address) const
    {
        REQUIRE(cache(address, 1));
        const bool is_off = statistics().NotCachedOff > 0;
        if (is_off) {
            WARN("memory is not cached: this system does not let a program watch its memory");
        }
        return !is_off;
    }

    const vipl_test::EnvironmentSetting progress{"VIPL_PROGRESS", "auto"};
    VIP_NIC_HANDLE handle = nullptr;
};

/** Private pages, which are mapped, and present where they are written. */
class Pages {
public:
    explicit Pages(size_t count)
        : bytes_(count * kPage),
          at_(static_cast<unsigned char *>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)))
    {
        REQUIRE(static_cast<void *>(at_) != MAP_FAILED);
    }
    ~Pages() { munmap(at_, bytes_); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    unsigned char *at(size_t page) const { return at_ + page * kPage; }

private:
    size_t bytes_;
    unsigned char *at_;
};

/** Bytes that are mapped: the library's allocator maps what it needs, and keeps it. */
size_t mapped_bytes()
{
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * vipl_page_bytes();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsBytes = false; // they map what they like
#else
constexpr bool kCountsBytes = true;
#endif

} // namespace

TEST_CASE("a cache of a device without room for pages of its own ends idle regions first", "[cache]")
{
    const vipl_test::EnvironmentSetting regions("VIPL_CACHE_REGIONS", "16");
    const Device device;
    vipl_nic *nic = vipl_nic_get(device.handle);
    nic->limits.max_regions = 4;
    vipl_nic_put(nic);
    const Pages pages(16);
    for (size_t i = 0; i < 4; ++i) {
        REQUIRE(device.cache(pages.at(i * 3), 1));
    }
    CHECK(device.statistics().Regions == (device.statistics().NotCachedOff > 0 ? 0 : 4));
    VIP_MEM_HANDLE own = 0;
    REQUIRE(VipRegisterMem(device.handle, pages.at(0), 1, nullptr, &own) == VIP_SUCCESS);
    CHECK(device.statistics().Regions == 0);
    CHECK(VipDeregisterMem(device.handle, pages.at(0), own) == VIP_SUCCESS);
}

TEST_CASE("regions come and go within the bytes that the cache may have", "[cache]")
{
    constexpr size_t kPages = 4096, kMost = 8, kMib = 1 << 20;
    const char *count = std::getenv("VIPL_TEST_CACHE_REGIONS"); // a full run's
    const unsigned long regions = count != nullptr ? std::strtoul(count, nullptr, 10) : 20000;
    const vipl_test::EnvironmentSetting mib("VIPL_CACHE_MIB", "1"), most("VIPL_CACHE_REGIONS", "200");
    const Device device;
    const Pages pages(kPages);
    std::mt19937 random(1);
    if (!device.caches(pages.at(0))) {
        return;
    }
    size_t mapped = 0;
    unsigned long came = 0, beyond = 0;
    for (; came < regions; ++came) {
        const size_t from = random() % (kPages - kMost);
        beyond += device.cache(pages.at(from), (1 + random() % kMost) * kPage) ? 0 : 1;
        const VIPX_CACHE_STATISTICS now = device.statistics();
        beyond += now.Bytes > kMib || now.Regions > 200 ? 1 : 0;
        mapped = came == regions / 2 ? mapped_bytes() : mapped;
    }
    CHECK(beyond == 0);
    CHECK(device.statistics().Evicted > regions / 2);
    CHECK(device.statistics().NotCachedFull == 0);
    CHECK((!kCountsBytes || mapped_bytes() <= mapped)); // what has gone is used again
}

TEST_CASE("the cache takes at most 256 bytes for a region", "[cache]")
{
    constexpr unsigned kRegions = 40000;
    const vipl_test::EnvironmentSetting mib("VIPL_CACHE_MIB", "4096"), most("VIPL_CACHE_REGIONS", "50000");
    const Device device;
    const Pages pages(2 * kRegions);
    std::vector<VIP_MEM_HANDLE> handles(kRegions);
    if (!device.caches(pages.at(0)) || !kCountsBytes) {
        return;
    }
    // Without the cache: what the device and core have for each region.
    const size_t before = mapped_bytes();
    for (unsigned i = 0; i < kRegions; ++i) {
        REQUIRE(VipRegisterMem(device.handle, pages.at(2 * i), kPage, nullptr, &handles[i]) == VIP_SUCCESS);
    }
    const size_t registered = mapped_bytes();
    for (unsigned i = 0; i < kRegions; ++i) {
        REQUIRE(VipDeregisterMem(device.handle, pages.at(2 * i), handles[i]) == VIP_SUCCESS);
    }
    const size_t ended = mapped_bytes();
    for (unsigned i = 0; i < kRegions; ++i) {
        REQUIRE(device.cache(pages.at(2 * i), kPage));
    }
    CHECK(device.statistics().Regions >= kRegions);
    CHECK(registered > before);
    const size_t each = (mapped_bytes() - ended) / kRegions;
    INFO(each << " bytes for each region, beside the " << (registered - before) / kRegions
              << " that it has anyway");
    CHECK(each > 0);
    CHECK(each <= 256);
}
