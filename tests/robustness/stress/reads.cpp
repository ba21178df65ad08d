// SPDX-License-Identifier: MIT
//
// Both sides of several connections read from each other at once, VIPL_STRESS_READS rounds of 8, 9,
// 64, 65 and 200 reads: as many as a device does at a time, and more, which then wait. A write
// before them, and a message behind them, go their way, and the bytes of each read are the right
// ones.
#include <memory>
#include <vector>

#include "partner.hpp"
#include "stress.hpp"

using namespace stress;

namespace {

constexpr unsigned kVis = 4, kMostReads = 200;
constexpr unsigned kCounts[] = {8, 9, 64, 65, kMostReads};
constexpr VIP_UINT32 kSource = 64 * 1024, kMostBytes = 6000;

struct Greeting {
    RemoteSpan source, word;
    unsigned number;
};

/** One side of a connection. */
class Reader {
public:
    Reader(const Nic &nic, unsigned number)
        : memory_(nic, kSource + kMostReads * (kMostBytes + 256) + 8192, rdma_memory()), vi(nic)
    {
        source_ = memory_.bytes(kSource);
        source_.fill(number);
        word_ = memory_.bytes(8);
        round_ = memory_.bytes(8);
        mine_ = {source_.remote(), word_.remote(), number};
        for (unsigned i = 0; i < kMostReads; ++i) {
            reads_.push_back(memory_.work());
            to_.push_back(memory_.bytes(kMostBytes));
        }
        write_ = memory_.work();
        out_ = memory_.transfer(memory_.bytes(sizeof mine_));
        std::memcpy(out_.buffer.data, &mine_, sizeof mine_);
        for (Work &in : in_) { // the other side may be a round ahead
            in = memory_.transfer(memory_.bytes(sizeof mine_));
            post_recv(vi, in);
        }
    }

    void greet()
    {
        post_send(vi, out_);
        take();
        EXPECT(sent(vi) == out_.desc);
        Greeting theirs;
        std::memcpy(&theirs, in_[0].buffer.data, sizeof theirs);
        theirs_ = theirs;
        expected_.resize(kSource);
        Span{expected_.data(), kSource, 0}.fill(theirs.number);
    }

    void post(unsigned round, unsigned count)
    {
        const VIP_UINT64 value = round;
        std::memcpy(round_.data, &value, sizeof value);
        start(write_, VIP_CONTROL_OP_RDMAWRITE, theirs_.word, round_);
        for (unsigned i = 0; i < count; ++i) {
            const VIP_UINT32 bytes = length(round, i);
            to_[i].fill(~round);
            start(reads_[i], VIP_CONTROL_OP_RDMAREAD, theirs_.source + offset(round, i),
                  to_[i].part(0, bytes));
        }
        post_send(vi, out_);
    }

    void collect(unsigned round, unsigned count)
    {
        EXPECT(sent(vi) == write_.desc);
        for (unsigned i = 0; i < count; ++i) {
            EXPECT(sent(vi) == reads_[i].desc);
            const VIP_UINT32 bytes = length(round, i);
            EXPECT(std::memcmp(to_[i].data, expected_.data() + offset(round, i), bytes) == 0);
        }
        EXPECT(sent(vi) == out_.desc);
        take();
        const VIP_UINT64 word = // the next one may come meanwhile
            __atomic_load_n(reinterpret_cast<const VIP_UINT64 *>(word_.data), __ATOMIC_ACQUIRE);
        EXPECT(word == round || word == round + 1u);
    }

private:
    static VIP_UINT32 length(unsigned round, unsigned i) { return 1 + (round * 977 + i * 613) % kMostBytes; }
    static VIP_UINT32 offset(unsigned round, unsigned i)
    {
        return (round * 7 + i * 1009) % (kSource - kMostBytes);
    }

    void start(Work &work, VIP_UINT16 operation, RemoteSpan where, Span bytes)
    {
        std::memset(work.desc, 0, sizeof(VIP_CONTROL_SEGMENT));
        work.op(operation).remote(where).local(bytes);
        post_send(vi, work);
    }

    void take()
    {
        const Work &in = in_[taken_++ % std::size(in_)];
        EXPECT(received(vi) == in.desc);
        in.desc->CS.Length = sizeof mine_;
        post_recv(vi, in);
    }

    Memory memory_;
    Greeting mine_{}, theirs_{};
    Span source_, word_, round_; // the other side writes the word
    std::vector<Work> reads_;
    std::vector<Span> to_;
    std::vector<VIP_UINT8> expected_;
    Work write_, out_, in_[2];
    unsigned taken_ = 0;

public:
    const Vi vi;
};

using Readers = std::vector<std::unique_ptr<Reader>>;

Readers make_readers(const Nic &nic, unsigned first)
{
    Readers all;
    for (unsigned i = 0; i < kVis; ++i) {
        all.push_back(std::make_unique<Reader>(nic, first + i));
    }
    return all;
}

void read_all(const Readers &all)
{
    for (const auto &one : all) {
        one->greet();
    }
    unsigned round = 0;
    for (unsigned again = times("VIPL_STRESS_READS", 10); again > 0; --again) {
        for (const unsigned count : kCounts) {
            ++round;
            for (const auto &one : all) {
                one->post(round, count);
            }
            for (const auto &one : all) {
                one->collect(round, count);
            }
        }
    }
}

void other_side(const Scene &scene, Line &line)
{
    const Nic nic;
    const Readers all = make_readers(nic, 100);
    for (const auto &one : all) {
        REQUIRE_VIP(request_to(nic, scene.name(), one->vi));
    }
    read_all(all);
    line.sync();
}

void read_both_ways(Where where)
{
    const Scene scene = make_scene();
    Partner partner(where, other_side, scene);
    const Nic nic;
    const Readers all = make_readers(nic, 1);
    for (const auto &one : all) {
        REQUIRE_VIP(accept_on(nic, scene.name(), one->vi));
    }
    read_all(all);
    partner.line().sync();
    partner.finish();
}

} // namespace

TEST_CASE("both sides read as much at once as a device does, and more, in one process", "[reads][inproc]")
{
    read_both_ways(Where::thread);
}

TEST_CASE("both sides read as much at once as a device does, and more, between processes", "[reads][procs]")
{
    read_both_ways(Where::process);
}
