// SPDX-License-Identifier: MIT
//
// A hostile peer as a script: bytes that say what it does next with its end of a link to a victim.
// It sends messages with any fields, writes any word of the segment, hangs up. Meanwhile the victim
// posts, deregisters, disconnects. Whatever the script is, not a byte outside of what the peer may
// write changes, and the victim's connection to another peer works to the end.
#ifndef VIPL_UNIT_HOSTILE_SCRIPT_HPP
#define VIPL_UNIT_HOSTILE_SCRIPT_HPP

#include <algorithm>

#include "raw_peer.hpp"

namespace unit {

/** Numbers out of a script; behind its end they are 0. */
class Script {
public:
    Script(const std::uint8_t *bytes, size_t length) : at_(bytes), end_(bytes + length) {}

    bool is_over() const { return at_ == end_; }
    std::uint8_t byte() { return at_ == end_ ? std::uint8_t{0} : *at_++; }
    std::uint32_t word()
    {
        std::uint32_t value = byte();
        for (int i = 0; i < 3; ++i) {
            value = value << 8 | byte();
        }
        return value;
    }

    /** A number that gets past a check more often than any would: small, around what is right, or
     * any. */
    std::uint32_t near(std::uint32_t right)
    {
        const std::uint8_t kind = byte();
        switch (kind % 4) {
        case 0:
            return right;
        case 1:
            return right + kind / 4 - 32;
        case 2:
            return kind / 4u * 64;
        default:
            return word();
        }
    }

private:
    const std::uint8_t *at_, *end_;
};

class Play {
public:
    Play(const std::uint8_t *bytes, size_t length)
        : script_(bytes, length), evil_(victim_), good_(victim_), memory_(victim_), good_memory_(victim_),
          first_(victim_, evil_, level(script_.byte())), second_(victim_, evil_, level(script_.byte())),
          other_(victim_, good_, VIP_SERVICE_RELIABLE_RECEPTION), text_(16384, kText)
    {
        memory_.post_recv(first_, 0, 8192);
        memory_.post_recv(second_, 8192, 8192);
    }

    void run()
    {
        for (unsigned i = 0; i < kSteps && !script_.is_over(); ++i) {
            step();
        }
        victim_.progress();
        must(memory_.is_whole(), "nothing outside of the region has changed");
        must(good_memory_.is_whole(), "what the peer has no right to has not changed");
        must_still_work();
    }

private:
    static constexpr unsigned kSteps = 64;
    static constexpr unsigned char kText = 0x11;

    static VIP_RELIABILITY_LEVEL level(std::uint8_t byte)
    {
        return byte % 3 == 0   ? VIP_SERVICE_UNRELIABLE
               : byte % 3 == 1 ? VIP_SERVICE_RELIABLE_DELIVERY
                               : VIP_SERVICE_RELIABLE_RECEPTION;
    }

    void step()
    {
        const std::uint8_t what = script_.byte();
        switch (what % 12) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
            send();
            break;
        case 5:
            poke();
            break;
        case 6:
            poke_ring();
            break;
        case 7:
            memory_.post_recv(pick(), script_.near(0) % 32768, script_.near(4096) % 32768);
            break;
        case 8:
            memory_.post_send(pick(), script_.near(0) % 32768, script_.near(4096) % 32768);
            break;
        case 9:
            take();
            break;
        case 10:
            end_something(what / 12);
            break;
        default:
            break;
        }
        if (what < 200) {
            victim_.progress();
        }
    }

    VictimVi &pick() { return script_.byte() % 2 == 0 ? first_ : second_; }

    /** A message that is nearly right. */
    void send()
    {
        lo_message message{};
        message.type = static_cast<std::uint8_t>(script_.near(LO_SEND) % 11);
        message.flags = script_.byte();
        message.session = script_.near(pick().number);
        message.slot =
            script_.byte() % 4 == 0 ? script_.word() : lo_slot_name(script_.byte() % 4, script_.byte() % 4);
        message.immediate = script_.byte();
        const std::uint32_t bytes = script_.near(64) % (LO_MAX_CHUNK + 64);
        message.total = script_.near(bytes);
        message.offset = script_.near(0);
        std::vector<unsigned char> payload(bytes, 0x22);
        if (message.type == LO_RENDEZVOUS) {
            for (std::uint32_t i = 0; i + 16 <= bytes; i += 16) {
                const std::uint64_t piece[2] = {reinterpret_cast<std::uintptr_t>(text_.data()),
                                                script_.near(message.total)};
                std::memcpy(&payload[i], piece, 16);
            }
        } else if (bytes >= LO_RDMA_PREFIX) {
            const std::uint64_t address = memory_.address() + script_.near(0);
            const std::uint32_t handle = script_.near(memory_.handle);
            std::memcpy(payload.data(), &address, 8);
            std::memcpy(&payload[8], &handle, 4);
        }
        evil_.send(message, payload.data(), bytes);
    }

    static void write(std::uint32_t *word, std::uint32_t value)
    {
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }

    /** Any word of the segment; more often one of those before the slots. */
    void poke()
    {
        const size_t words = evil_.segment_bytes() / 4, head = sizeof(lo_segment) / 4;
        const std::uint32_t at = script_.word();
        const size_t which = at % 2 == 0 ? at / 2 % words : at / 2 % std::min(words, head + 300);
        auto *word = reinterpret_cast<std::uint32_t *>(evil_.segment) + which;
        const bool access = which * 4 >= offsetof(lo_segment, accesses) && which < head;
        // accesses that never end are another test's (robustness/stress/stopped.cpp)
        write(word, access ? script_.near(1) & ~1U : script_.near(1));
    }

    /** A word of the message that the victim reads next, or of the control words of either ring. */
    void poke_ring()
    {
        lo_ring &ring = script_.byte() % 2 == 0 ? evil_.out : evil_.in;
        auto *slots = reinterpret_cast<std::uint32_t *>(ring.slots);
        const std::uint8_t which = script_.byte();
        const std::uint32_t value = script_.near(ring.at / ring.count * 2 + 1);
        if (which < 64) {
            const std::uint32_t slot = (ring.at + which / 8) % ring.count;
            write(&slots[slot * (LO_RING_SLOT / 4) + which % 8], value);
        } else {
            std::uint32_t *const words[] = {&ring.shared->head, &ring.shared->asleep, &ring.shared->wanting,
                                            &ring.shared->generations[which % 8]};
            write(words[which % 4], which % 4 == 0 ? script_.near(ring.at) : value);
        }
    }

    void take()
    {
        lo_message message{};
        evil_.receive(LO_PAD, message); // there is none: takes all, as far as it makes sense
    }

    void end_something(unsigned what)
    {
        switch (what % 8) {
        case 0:
            evil_.hang_up();
            break;
        case 1:
            VipDisconnect(first_.handle);
            break;
        case 2:
            memory_.deregister();
            break;
        default:
            reap(pick());
            break;
        }
    }

    static void reap(const VictimVi &vi)
    {
        VIP_DESCRIPTOR *done;
        while (VipSendDone(vi.handle, &done) != VIP_NOT_DONE ||
               VipRecvDone(vi.handle, &done) != VIP_NOT_DONE) {
        }
    }

    /** A message from the other peer arrives, whole. */
    void must_still_work()
    {
        must(other_.state() == VIP_STATE_CONNECTED, "the other connection is there");
        good_memory_.post_recv(other_, 0, 64);
        must(good_.send(whole_send(other_, 64), text_.data(), 64), "there is room");
        victim_.progress();
        VIP_DESCRIPTOR *done = nullptr;
        must(VipRecvDone(other_.handle, &done) == VIP_SUCCESS && done->CS.Length == 64, "a message arrived");
        must(std::memcmp(good_memory_.data(), text_.data(), 64) == 0, "it is whole");
        must(good_memory_.is_whole(0, 64), "and nothing else has changed");
        lo_message ack{};
        must(good_.receive(LO_ACK, ack) && ack.total == 0, "and it was acknowledged");
    }

    Script script_;
    Victim victim_;
    RawPeer evil_, good_;
    VictimMemory memory_, good_memory_;
    VictimVi first_, second_, other_;
    std::vector<unsigned char> text_;
};

} // namespace unit

#endif
