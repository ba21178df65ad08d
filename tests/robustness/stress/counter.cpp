// SPDX-License-Identifier: MIT
//
// A program polls a counter of eight bytes that a peer moves on by RDMA Writes (VIPL_STRESS_COUNTS
// of them). It is aligned; where the peer takes it from has each alignment in turn. It is never
// seen half written, and never goes back. The card promises this of every aligned item, and that
// the last one of a message comes last: there it is a thousand in one message, too, which is
// several frames.
#include <algorithm>
#include <vector>

#include "partner.hpp"
#include "stress.hpp"

using namespace stress;

namespace {

constexpr unsigned kCounters = 1000, kDepth = 4, kAlignments = 64;

struct Board {
    std::atomic<bool> seen; // the reader has seen the counter move; the writer's second half waits for that
    std::atomic<bool> done;
};

/** What is stored for a count: halves of different counts do not fit together. */
std::uint64_t encoded(std::uint32_t count)
{
    return std::uint64_t{~count} << 32 | count;
}

std::uint32_t decoded(std::uint64_t value)
{
    const auto count = static_cast<std::uint32_t>(value);
    if (static_cast<std::uint32_t>(value >> 32) != static_cast<std::uint32_t>(~count)) {
        throw Failure("a counter is half written: " + vipl_test::show(value));
    }
    return count;
}

// --- the writer ----------------------------------------------------------------------------------

class Writer {
public:
    Writer(const Nic &nic, unsigned counters)
        : counters_(counters), memory_(nic, kDepth * (kCounters * 8 + 2 * kAlignments) + 4096), vi(nic)
    {
        for (unsigned i = 0; i < kDepth; ++i) {
            source_[i] = memory_.bytes(counters * 8 + kAlignments).data;
            works_[i] = memory_.work();
        }
    }

    /** Count to `most`, from one alignment after the other. */
    void count(RemoteSpan where, std::uint32_t most)
    {
        for (std::uint32_t count = 1; count <= most; ++count) {
            if (count > kDepth) {
                reap(count - kDepth);
            }
            if (count == most / 2 + 1) {
                await([] { return shared<Board>().seen.load(); });
            }
            write(where, count);
        }
        for (std::uint32_t count = most < kDepth ? 1 : most - kDepth + 1; count <= most; ++count) {
            reap(count);
        }
    }

private:
    void write(RemoteSpan where, std::uint32_t count)
    {
        const std::uint64_t value = encoded(count);
        VIP_UINT8 *const from = source_[count % kDepth] + count / kDepth % kAlignments;
        for (unsigned i = 0; i < counters_; ++i) {
            std::memcpy(from + i * 8, &value, sizeof value);
        }
        Work &work = works_[count % kDepth];
        std::memset(work.desc, 0, sizeof(VIP_CONTROL_SEGMENT));
        work.op(VIP_CONTROL_OP_RDMAWRITE).remote(where).local({from, counters_ * 8, memory_.handle()});
        post_send(vi, work);
    }

    void reap(std::uint32_t count) { EXPECT(sent(vi) == works_[count % kDepth].desc); }

    unsigned counters_;
    Memory memory_;
    VIP_UINT8 *source_[kDepth];
    Work works_[kDepth];

public:
    const Vi vi;
};

struct Task {
    RemoteSpan where;
    unsigned counters;
    std::uint32_t most;
};

void writer(const Scene &scene, Line &line)
{
    const auto task = line.receive<Task>();
    const Nic nic;
    Writer writer(nic, task.counters);
    REQUIRE_VIP(request_to(nic, scene.name(), writer.vi));
    writer.count(task.where, task.most);
    shared<Board>().done = true;
    line.sync();
}

// --- the reader ----------------------------------------------------------------------------------

class Reader {
public:
    Reader(const VIP_UINT8 *target, unsigned counters)
        : target_(reinterpret_cast<const std::uint64_t *>(target)), last_(counters, 0)
    {
    }

    /** The last one first: the others are as new as it was, or newer. */
    void look()
    {
        std::uint32_t least = 0;
        for (size_t i = last_.size(); i-- > 0;) {
            const std::uint32_t count = decoded(__atomic_load_n(&target_[i], __ATOMIC_ACQUIRE));
            if (count < last_[i] || count < least) {
                throw Failure("counter " + std::to_string(i) + " is at " + std::to_string(count) + " after " +
                              std::to_string(std::max(last_[i], least)));
            }
            changes_ += count != last_[i] ? 1 : 0;
            last_[i] = count;
            least = last_.back();
        }
    }

    bool is_at(std::uint32_t count) const
    {
        return std::all_of(last_.begin(), last_.end(), [count](std::uint32_t seen) { return seen == count; });
    }
    unsigned long changes() const { return changes_; }

private:
    const std::uint64_t *target_;
    std::vector<std::uint32_t> last_;
    unsigned long changes_ = 0;
};

void count(Where where, unsigned counters, std::uint32_t most)
{
    Board &board = shared<Board>();
    board.seen = board.done = false;
    const Scene scene = make_scene();
    Partner partner(where, writer, scene);
    const Nic nic;
    Memory memory(nic, kCounters * 8, rdma_memory());
    const Vi vi(nic);
    const Span target = memory.bytes(size_t{counters} * 8);
    const std::uint64_t start = encoded(0);
    for (unsigned i = 0; i < counters; ++i) {
        std::memcpy(target.data + i * 8, &start, sizeof start);
    }
    partner.line().send(Task{target.remote(), counters, most});
    REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    Reader reader(target.data, counters);
    const unsigned long long end = now_ms() + 100 * patience();
    while (!board.done) {
        reader.look();
        board.seen = reader.changes() > 0;
        EXPECT(now_ms() < end);
        std::this_thread::yield();
    }
    await([&] { // an RDMA Write is complete when it has left, not when it is there
        reader.look();
        return reader.is_at(most);
    });
    EXPECT(reader.changes() > 1);
    partner.line().sync();
    partner.finish();
    std::cout << counters << (counters == 1 ? " counter: " : " counters: ") << most << " writes, "
              << reader.changes() << " changes seen" << std::endl;
}

void count_both(Where where)
{
    const unsigned writes = times("VIPL_STRESS_COUNTS", 20000);
    count(where, 1, writes);
    if (std::strncmp(device_under_test(), "rnic", 4) == 0) {
        count(where, kCounters, writes / 10 + 1);
    }
}

} // namespace

TEST_CASE("a counter that a peer writes is never torn and never goes back, in one process",
          "[counter][inproc]")
{
    count_both(Where::thread);
}

TEST_CASE("a counter that a peer writes is never torn and never goes back, between processes",
          "[counter][procs]")
{
    count_both(Where::process);
}
