// SPDX-License-Identifier: MIT
//
// What two ends of a soak's session know without a word: both work it out from the session's
// number.
#ifndef VIPL_STRESS_SOAK_PLAN_HPP
#define VIPL_STRESS_SOAK_PLAN_HPP

#include <algorithm>
#include <cstdint>

#include "stress.hpp"

namespace stress {

enum Side : unsigned { kServer, kClient };

inline Side other(Side side)
{
    return side == kServer ? kClient : kServer;
}

enum Kind : unsigned { kSend, kSendImmediate, kWriteImmediate, kWriteAndSend, kReadAndSend, kKinds };

inline constexpr VIP_UINT32 kNote = 64;         // bytes of a send that goes with an RDMA operation
inline constexpr VIP_UINT32 kShelf = 32 * 1024; // bytes that RDMA Reads read
inline constexpr unsigned kMostDepth = 8;

/** One message: its bytes go by a send, an RDMA Write or an RDMA Read. It takes one receive in any
 * case. */
struct Message {
    Kind kind;
    VIP_UINT32 bytes;
    unsigned pattern;

    bool in_window() const { return kind == kWriteImmediate || kind == kWriteAndSend; }
    bool has_note() const { return kind == kWriteAndSend || kind == kReadAndSend; }
    /** What its receive gets. */
    VIP_UINT32 sent_bytes() const { return has_note() ? kNote : kind == kWriteImmediate ? 0 : bytes; }
    bool with_immediate() const { return kind == kSendImmediate || kind == kWriteImmediate; }
};

/** A side's first message: where the other may read, and where the n-th message modulo the depth
 * may be written. */
struct Where {
    RemoteSpan shelf, window[kMostDepth];
};

/** A session: the sides take turns to send a batch, the client first, until one of them leaves. */
struct Plan {
    Plan(std::uint64_t its_number, bool large) : number(its_number)
    {
        level = static_cast<VIP_RELIABILITY_LEVEL>(1u << any(1) % 3);
        largest = large ? 1024 * 1024 : 64 * 1024;
        depth = 1 + any(2) % (large ? 2 : kMostDepth);
        rounds = 1 + any(3) % (any(4) % 8 == 0 ? 40 : 8);
        const bool reliable = level != VIP_SERVICE_UNRELIABLE; // else what was not heard may be lost
        leaver = any(5) % 2 != 0 && reliable ? kServer : kClient;
        abrupt = any(6) % 4 == 0 && reliable;
    }

    unsigned batch(Side side, unsigned round) const { return 1 + any(100 + side, round) % depth; }

    /** The index-th that a side sends; the first one tells where its memory is. */
    Message message(Side side, unsigned index) const
    {
        Message m{};
        m.kind = index == 0 ? kSend : static_cast<Kind>(any(200 + side, index) % kKinds);
        m.kind = m.kind == kReadAndSend && level == VIP_SERVICE_UNRELIABLE ? kSend : m.kind;
        const unsigned size = any(300 + side, index);
        m.bytes = index == 0       ? static_cast<VIP_UINT32>(sizeof(Where))
                  : size % 16 == 0 ? any(400 + side, index) % (largest + 1)
                  : size % 16 == 1 ? largest
                  : size % 16 == 2 ? 0
                                   : any(400 + side, index) % 3000;
        m.bytes = m.kind == kReadAndSend ? std::min(m.bytes, kShelf) : m.bytes;
        m.pattern = any(500 + side, index);
        return m;
    }

    std::uint64_t number;
    VIP_RELIABILITY_LEVEL level;
    VIP_UINT32 largest;
    unsigned depth;  // receives that are always posted
    unsigned rounds; // batches of each side
    Side leaver;
    bool abrupt; // the leaver does not wait for its last batch

private:
    unsigned any(std::uint64_t what, std::uint64_t index = 0) const
    {
        std::uint64_t x = number + what * 0x9E3779B97F4A7C15u + index * 0xD1B54A32D192ED03u; // splitmix64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
        x = (x ^ x >> 27) * 0x94D049BB133111EBu;
        return static_cast<unsigned>((x ^ x >> 31) >> 33);
    }
};

} // namespace stress

#endif
