// SPDX-License-Identifier: MIT
//
// One end of a soak's session, from the first receive to the last descriptor back. Every byte that
// arrives is compared with what the plan says, and so are the bytes behind it, which nobody may
// write.
#ifndef VIPL_STRESS_SOAK_SESSION_HPP
#define VIPL_STRESS_SOAK_SESSION_HPP

#include <deque>
#include <optional>

#include "soak_plan.hpp"

namespace stress {

/** How a session went at one end. */
struct Result {
    unsigned sent = 0;       // messages that were completed without an error
    unsigned received = 0;   // messages, all of them right
    unsigned flushed = 0;    // descriptors that came back with an error
    std::uint64_t bytes = 0; // of messages received
    bool whole = false;      // everything went as planned
};

class Session {
public:
    Session(const Nic &nic, const Plan &plan, Side side, Random &random)
        : plan_(plan), side_(side), random_(random),
          memory_(nic, 3 * plan.depth * (plan.largest + 2 * kGuard) + kShelf + 256 * 1024, rdma_memory()),
          shelf_(memory_.bytes(kShelf))
    {
        shelf_.fill(kShelfPattern);
        for (unsigned i = 0; i < plan.depth; ++i) {
            in_.push_back(memory_.transfer(memory_.bytes(plan.largest + kGuard).part(0, plan.largest)));
            out_.push_back(memory_.bytes(plan.largest));
            window_.push_back(memory_.bytes(plan.largest + kGuard));
        }
        if (below(random, 3) == 0) {
            cq_.emplace(nic, 256);
        }
        const VIP_CQ_HANDLE cq = cq_ ? static_cast<VIP_CQ_HANDLE>(*cq_) : nullptr;
        vi_.emplace(nic, vi_attributes(plan.level, plan.largest), cq, cq);
        for (unsigned i = 0; i < plan.depth; ++i) {
            post_receive();
        }
    }

    VIP_VI_HANDLE vi() const { return *vi_; }
    const Result &result() const { return result_; }

    /** From the connection to its end. */
    void run()
    {
        result_.whole = converse();
        REQUIRE_VIP(VipDisconnect(*vi_));
        take_back();
    }

private:
    static constexpr VIP_UINT32 kGuard = 64;
    static constexpr unsigned kShelfPattern = 99;
    static constexpr VIP_UINT8 kUntouched = 0x5A;

    struct Posted {
        VIP_DESCRIPTOR *desc;
        bool ends_message;
        Span read; // by an RDMA Read
    };

    // --- the conversation: false: the other side has left ---

    bool converse()
    {
        if (side_ == kClient ? !introduce() || !hear(1) : !hear(1) || !introduce()) {
            return false;
        }
        for (unsigned round = 0; round < plan_.rounds; ++round) {
            for (const Side side : {kClient, kServer}) {
                const unsigned count = plan_.batch(side, round);
                const bool at_once = plan_.abrupt && round + 1 == plan_.rounds && side == plan_.leaver;
                if (side == side_) {
                    say(count);
                }
                if (side == side_ && at_once) {
                    return true; // some of it may have been sent; the rest comes back
                }
                if (!(side == side_ ? said() : hear(count))) {
                    return false;
                }
                if (at_once) {
                    break;
                }
            }
        }
        if (plan_.leaver != side_) {
            vi_->await(VIP_STATE_ERROR);
        }
        return true;
    }

    bool introduce()
    {
        Where where{};
        where.shelf = shelf_.remote();
        for (unsigned i = 0; i < plan_.depth; ++i) {
            where.window[i] = window_[i].remote();
        }
        std::memcpy(out_[0].data, &where, sizeof where);
        post(memory_.transfer(out_[0].part(0, sizeof where)), true);
        ++said_;
        return said();
    }

    // --- sending ---

    void say(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i, ++said_) {
            const Message m = plan_.message(side_, said_);
            const unsigned slot = said_ % plan_.depth;
            const Span bytes = out_[slot].part(0, m.bytes);
            bytes.fill(m.pattern); // of a read: what is not read stays wrong
            if (m.kind == kReadAndSend) {
                post(memory_.rdma(VIP_CONTROL_OP_RDMAREAD, peer_.shelf, bytes), false, bytes);
            } else {
                Work work = m.in_window() ? memory_.rdma(VIP_CONTROL_OP_RDMAWRITE, peer_.window[slot], bytes)
                                          : memory_.transfer(bytes);
                post(m.with_immediate() ? work.immediate(m.pattern) : work, !m.has_note());
            }
            if (m.has_note()) {
                const Span note = memory_.bytes(kNote);
                note.fill(m.pattern);
                post(memory_.transfer(note), true);
            }
        }
    }

    void post(const Work &work, bool ends_message, Span read = {})
    {
        post_send(*vi_, work);
        sends_.push_back({work.desc, ends_message, read});
    }

    /** Take all sends back. */
    bool said()
    {
        while (!sends_.empty()) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = fetch(false, &done);
            if (!take_send(rc, done)) {
                return false;
            }
        }
        return true;
    }

    bool take_send(VIP_RETURN rc, VIP_DESCRIPTOR *done)
    {
        const Posted posted = sends_.front();
        EXPECT(done == posted.desc);
        sends_.pop_front();
        if (!went_well(rc, done)) {
            return false;
        }
        EXPECT(posted.read.holds(kShelfPattern));
        result_.sent += posted.ends_message ? 1 : 0;
        return true;
    }

    // --- receiving ---

    /** For the message that comes `depth` after the one heard last. */
    void post_receive()
    {
        const Message m = plan_.message(other(side_), listened_);
        const unsigned slot = listened_ % plan_.depth;
        in_[slot].desc->CS.Length = plan_.largest;
        std::memset(in_[slot].buffer.data + m.sent_bytes(), kUntouched, kGuard);
        std::memset(window_[slot].data + m.bytes, kUntouched, kGuard);
        post_recv(*vi_, in_[slot]);
        ++listened_;
    }

    bool hear(unsigned count)
    {
        for (; count > 0; --count) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = fetch(true, &done);
            EXPECT(done == in_[heard_ % plan_.depth].desc);
            if (!went_well(rc, done)) {
                ++heard_;
                return false;
            }
            check(done);
            ++heard_;
            post_receive();
        }
        return true;
    }

    void check(const VIP_DESCRIPTOR *done)
    {
        const Message m = plan_.message(other(side_), heard_);
        const Span in = in_[heard_ % plan_.depth].buffer, window = window_[heard_ % plan_.depth];
        const VIP_UINT32 op =
            m.kind == kWriteImmediate ? VIP_STATUS_OP_REMOTE_RDMA_WRITE : VIP_STATUS_OP_RECEIVE;
        EXPECT_STATUS(op | (m.with_immediate() ? VIP_STATUS_IMMEDIATE : 0), done);
        EXPECT_EQ(m.has_note() ? kNote : m.bytes, done->CS.Length);
        EXPECT(!m.with_immediate() || done->CS.ImmediateData == m.pattern);
        if (heard_ == 0) {
            std::memcpy(&peer_, in.data, sizeof peer_);
        } else {
            EXPECT(in.part(0, m.sent_bytes()).holds(m.pattern));
            EXPECT(!m.in_window() || window.part(0, m.bytes).holds(m.pattern));
        }
        EXPECT(in.part(m.sent_bytes(), kGuard).all(kUntouched));
        EXPECT(!m.in_window() || window.part(m.bytes, kGuard).all(kUntouched));
        result_.received++;
        result_.bytes += m.bytes;
    }

    // --- completions ---

    /** The next of a queue, waited for in one of the ways there are. */
    VIP_RETURN fetch(bool receive, VIP_DESCRIPTOR **done)
    {
        const auto wait = receive ? VipRecvWait : VipSendWait;
        const auto look = receive ? VipRecvDone : VipSendDone;
        const unsigned long long end = now_ms() + 2 * patience();
        VIP_RETURN rc = VIP_NOT_DONE;
        if (cq_) {
            await_entry(receive);
            return look(*vi_, done);
        }
        switch (below(random_, 3)) {
        case 0:
            return wait(*vi_, 2 * patience(), done);
        case 1:
            for (unsigned turn = 0; (rc = look(*vi_, done)) == VIP_NOT_DONE && now_ms() < end; ++turn) {
                give_way(turn);
            }
            return rc;
        default:
            for (unsigned turn = 0;
                 (rc = wait(*vi_, below(random_, 3 + turn), done)) == VIP_TIMEOUT && now_ms() < end; ++turn) {
            }
            return rc;
        }
    }

    void await_entry(bool receive)
    {
        while (entries_[receive] == 0) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN of_receive = VIP_FALSE;
            REQUIRE_VIP(VipCQWait(*cq_, 2 * patience(), &vi, &of_receive));
            EXPECT(vi == *vi_);
            entries_[of_receive != VIP_FALSE]++;
        }
        entries_[receive]--;
    }

    bool went_well(VIP_RETURN rc, const VIP_DESCRIPTOR *done)
    {
        if (rc == VIP_SUCCESS) {
            EXPECT((done->CS.Status & VIP_STATUS_ERROR_MASK) == 0);
            return true;
        }
        EXPECT_EQ(VIP_DESCRIPTOR_ERROR, rc);
        EXPECT((done->CS.Status & VIP_STATUS_ERROR_MASK) != 0);
        result_.flushed++;
        return false;
    }

    /** The connection has ended: whatever was posted comes back, and says so. */
    void take_back()
    {
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN rc;
        while ((rc = VipSendDone(*vi_, &done)) != VIP_NOT_DONE) {
            EXPECT(!sends_.empty());
            take_send(rc, done);
        }
        for (; (rc = VipRecvDone(*vi_, &done)) != VIP_NOT_DONE; ++heard_) {
            EXPECT(heard_ < listened_);
            if (went_well(rc, done)) {
                check(done);
            }
        }
        EXPECT(sends_.empty());
        EXPECT_EQ(listened_, heard_);
    }

    const Plan plan_;
    const Side side_;
    Random &random_;
    Memory memory_;
    Span shelf_;
    std::vector<Work> in_;           // by message, modulo the depth
    std::vector<Span> out_, window_; // likewise
    std::optional<Cq> cq_;
    std::optional<Vi> vi_;
    unsigned entries_[2] = {}; // taken from the completion queue, and not used yet
    std::deque<Posted> sends_;
    unsigned said_ = 0, listened_ = 0, heard_ = 0;
    Where peer_{};
    Result result_;
};

} // namespace stress

#endif
