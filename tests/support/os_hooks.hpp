// SPDX-License-Identifier: MIT
//
// What the tests of the static library make the system refuse or do slowly (os.h, vipl_test_hooks).
#ifndef VIPL_SUPPORT_OS_HOOKS_HPP
#define VIPL_SUPPORT_OS_HOOKS_HPP

#include <cstdint>

extern "C" {
#include "os/os.h"
}

/** The count-th next allocation fails; < 0: none does. */
inline void vipl_alloc_fail_after(long count)
{
    __atomic_store_n(&vipl_test_hooks.alloc_countdown, static_cast<std::uint32_t>(count < 0 ? 0 : count),
                     __ATOMIC_RELAXED);
}

/** Of the next calls that make a mapping, a thread, a process or a descriptor, or have one watched,
 * the count-th fails; < 0: none does. True: the one before has failed, or there was none. */
inline bool vipl_resource_fail_after(long count)
{
    return __atomic_exchange_n(&vipl_test_hooks.resource_countdown,
                               static_cast<std::uint32_t>(count < 0 ? 0 : count), __ATOMIC_SEQ_CST) == 0;
}

/** While the object lives, each call of vipl_socket_send() and vipl_socket_receive() moves so many
 * bytes at most; 0: as many as can be. */
class FewBytes {
public:
    FewBytes(std::uint32_t sent, std::uint32_t received) { move_at_most(sent, received); }
    ~FewBytes() { move_at_most(0, 0); }
    FewBytes(const FewBytes &) = delete;
    FewBytes &operator=(const FewBytes &) = delete;

private:
    static void move_at_most(std::uint32_t sent, std::uint32_t received)
    {
        __atomic_store_n(&vipl_test_hooks.max_sent, sent, __ATOMIC_RELAXED);
        __atomic_store_n(&vipl_test_hooks.max_received, received, __ATOMIC_RELAXED);
    }
};

#endif
