// SPDX-License-Identifier: MIT
//
// A ring between two processes, in this one: the shared parts in memory of exactly their size, the
// producer's and the consumer's private ends.
#ifndef VIPL_UNIT_RING_HPP
#define VIPL_UNIT_RING_HPP

#include <cstdlib>
#include <cstring>
#include <memory>

#include "internal.hpp"
#include "support/system.hpp"

namespace unit {

class Ring {
public:
    /** `at`: where both ends start, as if that many slots had been used before. */
    explicit Ring(std::uint32_t count, std::uint32_t at = 0)
        : shared_(static_cast<lo_ring_shared *>(std::calloc(1, sizeof(lo_ring_shared)))),
          slots_(static_cast<unsigned char *>(
              vipl_test::allocate_aligned(64, std::size_t{count} * LO_RING_SLOT)))
    {
        std::memset(slots_.get(), 0, std::size_t{count} * LO_RING_SLOT);
        for (lo_ring *end : {&out, &in}) {
            end->shared = shared_.get();
            end->slots = slots_.get();
            end->count = count;
            end->shift = static_cast<std::uint32_t>(__builtin_ctz(count));
            end->at = end->known = at;
            end->backed = count;
        }
        shared_->head = at;
    }

    std::uint32_t *words() const { return reinterpret_cast<std::uint32_t *>(slots_.get()); }

    lo_ring out{}, in{};

private:
    struct Free {
        void operator()(void *p) const { std::free(p); }
    };
    std::unique_ptr<lo_ring_shared, Free> shared_;
    struct FreeAligned {
        void operator()(void *p) const { vipl_test::free_aligned(p); }
    };
    std::unique_ptr<unsigned char, FreeAligned> slots_;
};

inline unsigned char payload_byte(std::uint32_t number, std::uint32_t i)
{
    return static_cast<unsigned char>(number * 31 + i * 7);
}

/** Publish a message whose payload follows from its number. False: no room. */
inline bool put_numbered(lo_ring &ring, std::uint32_t number, std::uint32_t bytes, bool reply = false)
{
    unsigned char *payload = vipl_lo_ring_claim(&ring, bytes, reply);
    if (payload == nullptr) {
        return false;
    }
    for (std::uint32_t i = 0; i < bytes; ++i) {
        payload[i] = payload_byte(number, i);
    }
    lo_message message{};
    message.type = LO_SEND;
    message.flags = static_cast<std::uint8_t>(number);
    message.session = number;
    message.bytes = bytes;
    message.slot = number + 1;
    message.immediate = number + 2;
    message.total = number + 3;
    message.offset = number + 4;
    vipl_lo_ring_publish(&ring, &message);
    return true;
}

/** Whether that message is whole. */
inline bool is_numbered(const lo_message &m, const unsigned char *payload, std::uint32_t number)
{
    bool good = m.type == LO_SEND && m.flags == static_cast<std::uint8_t>(number) && m.session == number &&
                m.slot == number + 1 && m.immediate == number + 2 && m.total == number + 3 &&
                m.offset == number + 4;
    for (std::uint32_t i = 0; i < m.bytes; ++i) {
        good = good && payload[i] == payload_byte(number, i);
    }
    return good;
}

} // namespace unit

#endif
