// SPDX-License-Identifier: MIT
//
// The library's internal C headers for C++ tests. A few words of C need help: _Static_assert, and
// loopback.h's conversions of a void pointer, which C++ does not make by itself.
#ifndef VIPL_UNIT_INTERNAL_HPP
#define VIPL_UNIT_INTERNAL_HPP

#include <cstddef>
#include <cstdint>
#include <random>

#define _Static_assert static_assert
#define _Thread_local thread_local

extern "C" {
#include "base/config.h"
#include "base/config_check.h"
#include "base/guard.h"
#include "base/handle.h"
#include "base/iov.h"
#include "base/list.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "base/peer_copy.h"
#include "base/pool.h"
#include "base/settings.h"
#include "core/backend.h"
#include "core/backend_up.h"
#include "core/connect.h"
#include "core/cq.h"
#include "core/descriptor.h"
#include "core/device.h"
#include "core/mem.h"
#include "core/nic.h"
#include "core/queue.h"
#include "core/spin.h"
#include "core/vi.h"
#include "core/wait.h"
#include "os/os.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // functions that are named as their structures
#define vipl_vi_area(vi) static_cast<struct lo_vi *>((vipl_vi_area)(vi))
#define vipl_conn_area(conn) static_cast<struct lo_conn *>((vipl_conn_area)(conn))
#include "backends/loopback/calls.h"
#include "backends/loopback/exports.h"
#include "backends/loopback/link.h"
#include "backends/loopback/names.h"
#include "backends/loopback/request.h"
#include "backends/loopback/ring.h"
#include "backends/loopback/tx.h"
#undef vipl_vi_area
#undef vipl_conn_area
#pragma GCC diagnostic pop
}

namespace unit {

/** A list with room for all the pieces that there may be. */
struct LongList : vipl_sg {
    LongList() : vipl_sg() { iov = room_; }
    LongList(const LongList &) = delete;
    LongList &operator=(const LongList &) = delete;

private:
    vipl_iov room_[VIPL_MAX_SEGMENTS];
};

/** The same numbers in every run: a unit test either passes or fails. */
using Random = std::mt19937_64;

inline std::uint64_t below(Random &random, std::uint64_t limit)
{
    return random() % limit;
}

} // namespace unit

#endif
