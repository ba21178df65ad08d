// SPDX-License-Identifier: MIT
//
// A device that keeps to the pages which memory has when it is registered, as cards do that lock
// them: it is loopback, which does not, and is made to look so, and the pages are pinned. With
// VIPL_CACHE=verify each hit of its registration cache compares the physical pages, as a user who
// may know them.
#ifndef VIPL_STRESS_CACHING_HPP
#define VIPL_STRESS_CACHING_HPP

#include <vipl/cache.h>

#include "pins.hpp"
#include "support/setting.hpp"

namespace stress {

inline constexpr size_t kPage = 4096;

class CachingDevice {
public:
    CachingDevice()
    {
        vipl_nic *nic = vipl_nic_get(nic_);
        EXPECT(nic != nullptr);
        nic->limits.keeps_pages = nic->limits.pages_stay = true;
        vipl_nic_put(nic);
    }

    const Nic &nic() const { return nic_; }

    VIPX_REGISTRATION acquire(const void *address, size_t bytes) const
    {
        VIPX_REGISTRATION registration{};
        REQUIRE_VIP(VipxAcquireMem(nic_, const_cast<void *>(address), bytes, nullptr, 0, &registration));
        return registration;
    }
    void release(const VIPX_REGISTRATION &registration) const
    {
        REQUIRE_VIP(VipxReleaseMem(nic_, &registration));
    }
    VIPX_CACHE_STATISTICS statistics() const
    {
        VIPX_CACHE_STATISTICS out{};
        REQUIRE_VIP(VipQuerySystemManagementInfo(nic_, VIPX_SMI_CACHE_STATISTICS, &out));
        return out;
    }

private:
    const EnvironmentSetting verify_{"VIPL_CACHE", "verify"};
    const EnvironmentSetting progress_{"VIPL_PROGRESS", "auto"};
    Nic nic_{"loopback", false};
};

/** Ends the program with the exit code for "cannot run here", unless the system lets it watch its
 * memory, see physical pages and pin them. */
inline void require_sight()
{
    std::vector<unsigned char> memory(2 * kPage, 1);
    auto *page = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(memory.data()) + kPage - 1) &
                                                   ~(kPage - 1));
    std::uint64_t physical = 0;
    const bool sees = vipl_physical_pages(page, 1, &physical) == 0;
    const CachingDevice device;
    device.release(device.acquire(page, 1));
    const bool watches = device.statistics().NotCachedOff == 0;
    if (!sees || !watches || !pins().work()) {
        std::cout << "this user may not "
                  << (!sees      ? "see physical pages"
                      : !watches ? "watch memory (userfaultfd)"
                                 : "pin memory (io_uring)")
                  << std::endl;
        std::_Exit(77);
    }
}

} // namespace stress

#endif
