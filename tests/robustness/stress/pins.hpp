// SPDX-License-Identifier: MIT
//
// Pages that stay where they are, as those do that a card has locked: the system neither moves them
// nor copies them at a write after a fork. What the registration cache notes the pages of, with
// VIPL_CACHE=verify, is pinned for as long as it does so, as a buffer of an io_uring, which is used
// for nothing else. Programs with it are linked so that vipl_frames_read() and vipl_frames_free()
// are these (-Wl,--wrap).
#ifndef VIPL_STRESS_PINS_HPP
#define VIPL_STRESS_PINS_HPP

#include <unordered_map>

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "stress.hpp"
#include "unit/internal.hpp"

extern "C" {
#include "core/cache_verify.h"
vipl_frames *__real_vipl_frames_read(uintptr_t first, uintptr_t end);
vipl_frames *__wrap_vipl_frames_read(uintptr_t first, uintptr_t end);
void __real_vipl_frames_free(vipl_frames *frames);
void __wrap_vipl_frames_free(vipl_frames *frames);
}

namespace stress {

class Pins {
public:
    /** False: the system has no such means, or does not allow it. */
    bool work() const { return ring_ >= 0; }

    vipl_frames *read(uintptr_t first, uintptr_t end)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        EXPECT(!free_.empty());
        const unsigned slot = free_.back();
        if (!set(slot, first, end - first)) { // which has the system give the memory its pages
            return nullptr;
        }
        vipl_frames *frames = __real_vipl_frames_read(first, end);
        if (frames == nullptr) {
            set(slot, 0, 0);
            return nullptr;
        }
        free_.pop_back();
        slots_[frames] = slot;
        return frames;
    }
    void free(vipl_frames *frames)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = slots_.find(frames);
        if (found != slots_.end()) {
            set(found->second, 0, 0);
            free_.push_back(found->second);
            slots_.erase(found);
        }
        __real_vipl_frames_free(frames);
    }

private:
    static constexpr unsigned kSlots = 4096;

    static int open_ring()
    {
        io_uring_params parameters{};
        const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 1, &parameters));
        io_uring_rsrc_register table{};
        table.nr = kSlots;
        table.flags = IORING_RSRC_REGISTER_SPARSE;
        const bool good = ring >= 0 && syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS2, &table,
                                               sizeof table) == 0;
        return good ? ring : -1;
    }
    static std::vector<unsigned> all_slots()
    {
        std::vector<unsigned> slots(kSlots);
        for (unsigned i = 0; i < kSlots; ++i) {
            slots[i] = i;
        }
        return slots;
    }
    /** Pins memory in a slot; no bytes: gives back what is there. */
    bool set(unsigned slot, uintptr_t first, size_t bytes) const
    {
        iovec memory = {reinterpret_cast<void *>(first), bytes};
        io_uring_rsrc_update2 update{};
        update.offset = slot;
        update.data = reinterpret_cast<uintptr_t>(&memory);
        update.nr = 1;
        return syscall(SYS_io_uring_register, ring_, IORING_REGISTER_BUFFERS_UPDATE, &update,
                       sizeof update) == 1;
    }

    const int ring_ = open_ring();
    std::mutex mutex_;
    std::vector<unsigned> free_ = all_slots();
    std::unordered_map<vipl_frames *, unsigned> slots_;
};

inline Pins &pins()
{
    static Pins *const all = new Pins; // for ever: NIC handles may outlive other objects
    return *all;
}

} // namespace stress

vipl_frames *__wrap_vipl_frames_read(uintptr_t first, uintptr_t end)
{
    return stress::pins().read(first & ~uintptr_t{4095}, end);
}

void __wrap_vipl_frames_free(vipl_frames *frames)
{
    stress::pins().free(frames);
}

#endif
