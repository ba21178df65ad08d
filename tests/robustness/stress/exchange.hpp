// SPDX-License-Identifier: MIT
//
// One side of a connection on which both sides do the same, turn after turn: a Send, a Send with
// immediate data behind a fence, an RDMA Write, an RDMA Write with immediate data, an RDMA Read of
// what was just written, and one of memory that never changes. Lengths, pieces and alignments vary;
// every byte that comes is checked, and so is the order.
//
// A side may be one turn ahead of the other, not more: it begins a turn when it has had the other's
// last one whole. Hence two windows for RDMA Writes, which take turns, and receives for two turns.
#ifndef VIPL_STRESS_EXCHANGE_HPP
#define VIPL_STRESS_EXCHANGE_HPP

#include <algorithm>
#include <vector>

#include "stress.hpp"

namespace stress {

/** Memory that a descriptor names piece by piece, none of which is where one would expect it. */
class Pieces {
public:
    Pieces(Memory &memory, VIP_UINT32 most, unsigned count)
    {
        const VIP_UINT32 each = most / count + 1;
        for (unsigned i = 0; i < count; ++i) {
            pieces_.push_back(memory.bytes(each, (5 + 11 * i) % 64));
        }
        std::rotate(pieces_.begin(), pieces_.begin() + count / 2,
                    pieces_.end()); // not in the order of addresses
    }

    void describe(Work &work, VIP_UINT32 length) const
    {
        each_part(length, [&](const Span &part, VIP_UINT32) { work.local(part); });
    }

    void fill(unsigned seed, VIP_UINT32 length) const
    {
        const auto bytes = pattern(seed, length);
        each_part(length, [&](const Span &part, VIP_UINT32 at) {
            std::memcpy(part.data, bytes.data() + at, part.size);
        });
    }

    bool holds(const VIP_UINT8 *bytes, VIP_UINT32 length) const
    {
        bool same = true;
        each_part(length, [&](const Span &part, VIP_UINT32 at) {
            same = same && std::memcmp(part.data, bytes + at, part.size) == 0;
        });
        return same;
    }
    bool holds(unsigned seed, VIP_UINT32 length) const { return holds(pattern(seed, length).data(), length); }

private:
    static std::vector<VIP_UINT8> pattern(unsigned seed, VIP_UINT32 length)
    {
        std::vector<VIP_UINT8> bytes(length + 1); // of length 0 too
        Span{bytes.data(), length, 0}.fill(seed);
        return bytes;
    }

    template <class Visit>
    void each_part(VIP_UINT32 length, const Visit &visit) const
    {
        VIP_UINT32 at = 0;
        for (const Span &piece : pieces_) {
            const VIP_UINT32 part = std::min(piece.size, length - at);
            visit(piece.part(0, part), at);
            at += part;
        }
    }

    std::vector<Span> pieces_;
};

class Exchange {
public:
    static constexpr VIP_UINT32 kMost = 12000; // bytes of a message: several frames

    /** The number is this side's, and tells its bytes from those of others. */
    Exchange(const Nic &nic, unsigned number, VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY,
             VIP_ULONG limit = 2 * patience())
        : memory_(nic, kMemory, rdma_memory()), vi(nic, vi_attributes(level)), limit_(limit),
          reads_((nic.attributes().RDMAReadSupport & level) != 0)
    {
        mine_.number = number;
        const Span source = memory_.bytes(kMost);
        source.fill(number);
        source_ = source.data;
        mine_.source = source.remote();
        for (unsigned i = 0; i < 2; ++i) {
            windows_[i] = memory_.bytes(2 * kMost);
            mine_.windows[i] = windows_[i].remote();
        }
        for (unsigned i = 0; i < kOps; ++i) {
            works_[i] = memory_.work(kMostPieces + 1);
            parts_.emplace_back(memory_, kMost, 1 + (number + i) % kMostPieces);
        }
        for (unsigned i = 0; i < kReceives; ++i) {
            in_[i] = memory_.work(kMostPieces + 1);
            in_parts_.emplace_back(memory_, kMost, 1 + (number + 2 * i) % kMostPieces);
            post_receive(i);
        }
    }

    /** Tell the other side where to write and read. Once both are connected; false: the connection
     * has ended. */
    bool greet()
    {
        Span own = memory_.bytes(sizeof mine_);
        std::memcpy(own.data, &mine_, sizeof mine_);
        const Work out = memory_.transfer(own);
        post_send(vi, out);
        ++sends_out_;
        VIP_DESCRIPTOR *done = nullptr;
        if (!reap_receive(&done) || !reap_send(out, VIP_STATUS_OP_SEND)) {
            return false;
        }
        EXPECT_EQ(sizeof theirs_, done->CS.Length);
        gather_greeting();
        repost();
        return true;
    }

    /** Begin a turn, which collect() ends: nothing here waits. */
    void post()
    {
        send(kSend, 0);
        write(kWrite, 0, 0);
        if (reads_) {
            read(kReadBack, theirs_.windows[turn_ % 2], length(mine_.number, kWrite));
            const VIP_UINT32 bytes = length(mine_.number, kRead);
            read(kRead, theirs_.source + (kMost - bytes), bytes);
        }
        write(kWriteImmediate, kMost, VIP_CONTROL_IMMEDIATE);
        send_what_was_read();
    }

    /** The other side's turn, and the end of this side's. False: the connection has ended. */
    bool collect()
    {
        if (!take_send() || !take_write() || !take_what_was_read()) {
            return false;
        }
        for (const Op op : {kSend, kWrite, kReadBack, kRead, kWriteImmediate, kFenced}) {
            if ((reads_ || (op != kReadBack && op != kRead)) && !reap_own(op)) {
                return false;
            }
        }
        ++turn_;
        return true;
    }

    bool turn()
    {
        post();
        return collect();
    }

    unsigned turns() const { return turn_; }
    /** The other side's number, once it has greeted. */
    unsigned peer() const { return theirs_.number; }

    /** After the end of the connection: every descriptor comes back, once. */
    void take_back()
    {
        EXPECT_EQ(VIP_STATE_ERROR, vi.state());
        VIP_DESCRIPTOR *done = nullptr;
        for (; recvs_out_ > 0; --recvs_out_) {
            const VIP_RETURN rc = VipRecvWait(vi, limit_, &done);
            is_well(rc, done);
        }
        for (; sends_out_ > 0; --sends_out_) {
            const VIP_RETURN rc = VipSendWait(vi, limit_, &done);
            is_well(rc, done);
        }
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(vi, &done));
        REQUIRE_RC(VIP_NOT_DONE, VipSendDone(vi, &done));
    }

private:
    enum Op : unsigned { kSend, kWrite, kReadBack, kRead, kWriteImmediate, kFenced, kOps };
    static constexpr unsigned kMostPieces = 5, kReceives = 6; // of two turns
    static constexpr size_t kMemory = size_t{kMost} * (1 + 4 + kOps + kReceives) + 32 * 1024;

    struct Greeting {
        unsigned number;
        RemoteSpan source, windows[2];
    };

    Memory memory_;

public:
    const Vi vi;

private:
    unsigned item(unsigned number, Op op) const { return number * 7919 + turn_ * kOps + op; }

    /** What both sides know of a message; Sends may be empty. */
    VIP_UINT32 length(unsigned number, Op op) const
    {
        const unsigned mixed = (item(number, op) + 1) * 2654435761u;
        const unsigned limit = mixed >> 30 == 0 ? kMost : mixed >> 30 == 1 ? 1500 : 100;
        return op == kSend ? (mixed >> 8) % limit : 1 + (mixed >> 8) % limit;
    }

    Work &fresh(Op op)
    {
        std::memset(works_[op].desc, 0, sizeof(VIP_CONTROL_SEGMENT));
        return works_[op];
    }

    void hand_over(const Work &work)
    {
        post_send(vi, work);
        ++sends_out_;
    }

    void send(Op op, VIP_UINT16 control)
    {
        const VIP_UINT32 bytes = length(mine_.number, op);
        parts_[op].fill(item(mine_.number, op), bytes);
        Work &work = fresh(op).op(control);
        parts_[op].describe(work, bytes);
        hand_over(work);
    }

    void write(Op op, VIP_UINT32 offset, VIP_UINT16 control)
    {
        const VIP_UINT32 bytes = length(mine_.number, op);
        parts_[op].fill(item(mine_.number, op), bytes);
        Work &work =
            fresh(op).op(VIP_CONTROL_OP_RDMAWRITE).op(control).remote(theirs_.windows[turn_ % 2] + offset);
        work.desc->CS.ImmediateData = item(mine_.number, op);
        parts_[op].describe(work, bytes);
        hand_over(work);
    }

    void read(Op op, RemoteSpan where, VIP_UINT32 bytes)
    {
        parts_[op].fill(~item(mine_.number, op), bytes);
        Work &work = fresh(op).op(VIP_CONTROL_OP_RDMAREAD).remote(where);
        parts_[op].describe(work, bytes);
        hand_over(work);
    }

    /** What was read goes back to its owner; the fence is there because it may not have come
     * yet. */
    void send_what_was_read()
    {
        if (!reads_) {
            return send(kFenced, VIP_CONTROL_IMMEDIATE);
        }
        const VIP_UINT32 bytes = length(mine_.number, kRead);
        Work &work = fresh(kFenced).op(VIP_CONTROL_QFENCE).immediate(kMost - bytes);
        parts_[kRead].describe(work, bytes);
        hand_over(work);
    }

    // --- what comes ------------------------------------------------------------------------------

    void post_receive(unsigned i)
    {
        std::memset(in_[i].desc, 0, sizeof(VIP_CONTROL_SEGMENT));
        in_parts_[i].describe(in_[i], kMost);
        post_recv(vi, in_[i]);
        ++recvs_out_;
    }

    void repost()
    {
        const unsigned i = next_in_;
        next_in_ = (next_in_ + 1) % kReceives;
        post_receive(i);
    }

    /** Whether it went well; otherwise it must be the connection's end. */
    static bool is_well(VIP_RETURN rc, const VIP_DESCRIPTOR *done)
    {
        if (rc == VIP_SUCCESS) {
            return true;
        }
        REQUIRE_RC(VIP_DESCRIPTOR_ERROR, rc);
        const VIP_UINT32 errors = done->CS.Status & VIP_STATUS_ERROR_MASK;
        if (errors == 0 ||
            (errors & ~VIP_UINT32{VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR}) != 0) {
            throw Failure("not the end of a connection: " + status_text(done->CS.Status));
        }
        return false;
    }

    bool reap_receive(VIP_DESCRIPTOR **done)
    {
        const VIP_RETURN rc = VipRecvWait(vi, limit_, done);
        const bool well = is_well(rc, *done);
        --recvs_out_;
        if (well) {
            EXPECT(*done == in_[next_in_].desc);
        }
        return well;
    }

    bool reap_send(const Work &work, VIP_UINT32 status)
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(vi, limit_, &done);
        const bool well = is_well(rc, done);
        --sends_out_;
        if (well) {
            EXPECT(done == work.desc);
            EXPECT_STATUS(status, done);
        }
        return well;
    }

    void gather_greeting()
    {
        Greeting seen{};
        const Work &work = in_[next_in_];
        auto *to = reinterpret_cast<VIP_UINT8 *>(&seen);
        size_t at = 0;
        for (unsigned i = 0; at < sizeof seen; ++i) {
            const VIP_DATA_SEGMENT &part = const_cast<Work &>(work).segment(i);
            const size_t bytes = std::min<size_t>(part.Length, sizeof seen - at);
            std::memcpy(to + at, part.Data.Address, bytes);
            at += bytes;
        }
        theirs_ = seen;
    }

    bool take_send()
    {
        VIP_DESCRIPTOR *done = nullptr;
        if (!reap_receive(&done)) {
            return false;
        }
        const VIP_UINT32 bytes = length(theirs_.number, kSend);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, done);
        EXPECT_EQ(bytes, done->CS.Length);
        EXPECT(in_parts_[next_in_].holds(item(theirs_.number, kSend), bytes));
        repost();
        return true;
    }

    /** The immediate data of the second RDMA Write tells of the first as well. */
    bool take_write()
    {
        VIP_DESCRIPTOR *done = nullptr;
        if (!reap_receive(&done)) {
            return false;
        }
        EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, done);
        EXPECT_EQ(item(theirs_.number, kWriteImmediate), done->CS.ImmediateData);
        const Span &window = windows_[turn_ % 2];
        EXPECT(window.part(0, length(theirs_.number, kWrite)).holds(item(theirs_.number, kWrite)));
        EXPECT(window.part(kMost, length(theirs_.number, kWriteImmediate))
                   .holds(item(theirs_.number, kWriteImmediate)));
        repost();
        return true;
    }

    bool take_what_was_read()
    {
        VIP_DESCRIPTOR *done = nullptr;
        if (!reap_receive(&done)) {
            return false;
        }
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE, done);
        if (reads_) {
            const VIP_UINT32 bytes = length(theirs_.number, kRead);
            EXPECT_EQ(bytes, done->CS.Length);
            EXPECT_EQ(kMost - bytes, done->CS.ImmediateData);
            EXPECT(in_parts_[next_in_].holds(source_ + (kMost - bytes), bytes));
        } else {
            const VIP_UINT32 bytes = length(theirs_.number, kFenced);
            EXPECT_EQ(bytes, done->CS.Length);
            EXPECT(in_parts_[next_in_].holds(item(theirs_.number, kFenced), bytes));
        }
        repost();
        return true;
    }

    bool reap_own(Op op)
    {
        static constexpr VIP_UINT32 kStatus[kOps] = {VIP_STATUS_OP_SEND,       VIP_STATUS_OP_RDMA_WRITE,
                                                     VIP_STATUS_OP_RDMA_READ,  VIP_STATUS_OP_RDMA_READ,
                                                     VIP_STATUS_OP_RDMA_WRITE, VIP_STATUS_OP_SEND};
        if (!reap_send(works_[op], kStatus[op])) {
            return false;
        }
        if (op == kReadBack) {
            EXPECT(parts_[op].holds(item(mine_.number, kWrite), length(mine_.number, kWrite)));
        }
        return true;
    }

    VIP_ULONG limit_;
    bool reads_;
    Greeting mine_{}, theirs_{};
    const VIP_UINT8 *source_ = nullptr;
    Span windows_[2];
    Work works_[kOps], in_[kReceives];
    std::vector<Pieces> parts_, in_parts_;
    unsigned turn_ = 0, next_in_ = 0;
    unsigned sends_out_ = 0, recvs_out_ = 0;
};

} // namespace stress

#endif
