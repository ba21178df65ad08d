// SPDX-License-Identifier: MIT
//
// Memory of a case's own, and a NIC handle with a registration cache.
#ifndef VIPL_TESTS_CACHED_HPP
#define VIPL_TESTS_CACHED_HPP

#include <cstring>
#include <utility>

#include <sys/mman.h>

#include <vipl/cache.h>
#include <vipl/posix.h>

#include "support/environment.hpp"
#include "support/objects.hpp"
#include "support/setting.hpp"

namespace vipl_test {

inline constexpr size_t kPage = 4096;

/** Private pages. */
class Pages {
public:
    explicit Pages(size_t count) : bytes_(count * kPage) { map(); }
    ~Pages()
    {
        if (at_ != nullptr) {
            munmap(at_, bytes_);
        }
    }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    unsigned char *at(size_t offset = 0) const { return static_cast<unsigned char *>(at_) + offset; }
    size_t size() const { return bytes_; }

    /** Other pages at the same addresses, whatever is there now. */
    void map_again() { map(); }
    /** The case has taken them away. */
    void *release() { return std::exchange(at_, nullptr); }

private:
    void map()
    {
        const int fixed = at_ == nullptr ? 0 : MAP_FIXED;
        void *at = mmap(at_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        EXPECT(at != MAP_FAILED);
        at_ = at;
        std::memset(at_, 1, bytes_);
    }

    void *at_ = nullptr;
    size_t bytes_;
};

/** A NIC handle that caches registered memory, whatever the run's settings are. */
class CachingNic {
public:
    const Nic &nic() const { return nic_; }
    operator VIP_NIC_HANDLE() const { return nic_; }

    VIPX_REGISTRATION acquire(const void *address, size_t bytes, VIP_MEM_ATTRIBUTES attributes = {},
                              VIP_ULONG flags = 0) const
    {
        VIPX_REGISTRATION registration{};
        REQUIRE_VIP(
            VipxAcquireMem(nic_, const_cast<void *>(address), bytes, &attributes, flags, &registration));
        EXPECT(registration.Handle != 0);
        return registration;
    }
    void release(const VIPX_REGISTRATION &registration) const
    {
        REQUIRE_VIP(VipxReleaseMem(nic_, &registration));
    }
    /** Registers, and leaves the region in the cache. */
    VIP_MEM_HANDLE cache(const void *address, size_t bytes, VIP_MEM_ATTRIBUTES attributes = {},
                         VIP_ULONG flags = 0) const
    {
        const VIPX_REGISTRATION registration = acquire(address, bytes, attributes, flags);
        release(registration);
        return registration.Handle;
    }
    VIPX_CACHE_STATISTICS statistics() const
    {
        VIPX_CACHE_STATISTICS out{};
        REQUIRE_VIP(VipQuerySystemManagementInfo(nic_, VIPX_SMI_CACHE_STATISTICS, &out));
        return out;
    }
    /** Whether the memory is found in the cache now. */
    bool has(const void *address, size_t bytes, VIP_MEM_ATTRIBUTES attributes = {}) const
    {
        const VIP_UINT64 before = statistics().Hits;
        cache(address, bytes, attributes);
        return statistics().Hits > before;
    }
    /** Registered regions of the device. */
    VIP_UINT64 regions() const
    {
        VIPX_NIC_STATISTICS out{};
        REQUIRE_VIP(VipQuerySystemManagementInfo(nic_, VIPX_SMI_NIC_STATISTICS, &out));
        return out.Regions;
    }

private:
    const EnvironmentSetting progress_{"VIPL_PROGRESS", "auto"};
    Nic nic_{device_under_test(), false};
};

} // namespace vipl_test

#endif
