// SPDX-License-Identifier: MIT
//
// 24 threads on 8 VIs and 2 completion queues of one NIC handle: 8 send, 16 take completions. Every
// message has a number and a checksum; nothing may be lost, duplicated, reordered or changed. The
// peers are VIs of the same NIC handle, or those of a child process that does the same.
// VIPL_STRESS_SECONDS says how long.
#include "stress.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>

#include <semaphore.h>
#include <time.h>

using namespace stress;

namespace {

constexpr unsigned kVis = 8, kConsumersPerCq = 8;
constexpr unsigned kReceives = 16, kSends = 8;
constexpr VIP_UINT32 kLargest = 32 * 1024;

struct Header {
    std::uint64_t number;
    VIP_UINT32 vi;
    VIP_UINT32 bytes; // of the payload behind
    VIP_UINT32 sum;
    VIP_UINT32 last;
};

VIP_UINT32 checksum(const VIP_UINT8 *data, size_t bytes)
{
    std::uint64_t sum = bytes;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, data + i, 8);
        sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
    }
    for (size_t i = bytes & ~size_t{7}; i < bytes; ++i) {
        sum = (sum ^ data[i]) * 0x9E3779B97F4A7C15u;
    }
    return static_cast<VIP_UINT32>(sum >> 32);
}

/** How many receives each VI has posted: senders wait for them. Shared with the child. */
struct Credits {
    sem_t receives[2][kVis];
};

bool take(sem_t *semaphore, const Crew &crew)
{
    const unsigned long long end = now_ms() + patience();
    while (!crew.failed()) {
        timespec when;
        clock_gettime(CLOCK_REALTIME, &when);
        when.tv_nsec += 100 * 1000 * 1000;
        if (when.tv_nsec >= 1000 * 1000 * 1000) {
            when.tv_nsec -= 1000 * 1000 * 1000;
            when.tv_sec += 1;
        }
        if (sem_timedwait(semaphore, &when) == 0) {
            return true;
        }
        EXPECT(now_ms() < end); // the traffic has stopped
    }
    return false;
}

VIP_VI_ATTRIBUTES attributes_of(unsigned vi)
{
    static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_RELIABLE_DELIVERY,
                                                   VIP_SERVICE_RELIABLE_RECEPTION, VIP_SERVICE_UNRELIABLE,
                                                   VIP_SERVICE_RELIABLE_DELIVERY};
    return vi_attributes(levels[vi / 2]);
}

/** One VI of the hammer with its buffers. */
struct Station {
    Station(const Nic &nic, unsigned index, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq)
        : memory(nic, (kReceives + kSends) * (kLargest + 256) + 4096),
          vi(nic, attributes_of(index), send_cq, recv_cq)
    {
        for (Work &work : receives) {
            work = memory.transfer(memory.bytes(kLargest));
        }
        for (Work &work : sends) {
            work = memory.transfer(memory.bytes(kLargest));
        }
        sem_init(&slots, 0, kSends);
    }
    ~Station() { sem_destroy(&slots); }

    Memory memory;
    Vi vi;
    std::array<Work, kReceives> receives;
    std::array<Work, kSends> sends;
    sem_t slots;
    std::mutex send_mutex, recv_mutex;
    std::uint64_t sent = 0;     // by its sender alone
    std::uint64_t reaped = 0;   // send_mutex
    std::uint64_t received = 0; // recv_mutex
    std::atomic<std::uint64_t> reposted{0};
    std::atomic<bool> all_sent{false}, all_received{false};
};

class Hammer {
public:
    /** `to_peer` are the credits this side's sends use; `own` those its receives give. */
    Hammer(sem_t *to_peer, sem_t *own) : to_peer_(to_peer), own_(own)
    {
        for (auto &cq : cqs_) {
            REQUIRE_VIP(VipCreateCQ(nic, 1024, &cq));
        }
        for (unsigned i = 0; i < kVis; ++i) {
            stations.push_back(std::make_unique<Station>(nic, i, cqs_[i & 1], cqs_[i >> 1 & 1]));
        }
    }
    ~Hammer() { tear_down(); }

    void run(Line *line)
    {
        for (unsigned i = 0; i < kVis; ++i) {
            for (const Work &work : stations[i]->receives) {
                post_recv(stations[i]->vi, work);
                sem_post(&own_[i]);
            }
        }
        end_ = now_ms() + seconds() * 1000ull;
        for (unsigned i = 0; i < kVis; ++i) {
            crew_.add([this, i] { send_all(i); });
        }
        for (unsigned i = 0; i < 2 * kConsumersPerCq; ++i) {
            crew_.add([this, i] { consume(cqs_[i % 2]); });
        }
        await_done();
        closing_ = true; // everything has come: what completes from here on is flushed
        if (line != nullptr && !crew_.failed()) {
            line->sync(); // the peer has everything too
        }
        tear_down();
        crew_.join();
    }

    Nic nic;
    std::vector<std::unique_ptr<Station>> stations;

private:
    unsigned index_of(VIP_VI_HANDLE vi) const
    {
        for (unsigned i = 0; i < kVis; ++i) {
            if (stations[i]->vi == vi) {
                return i;
            }
        }
        throw Failure("a completion of a VI that is none of ours");
    }

    void send_all(unsigned index)
    {
        Station &station = *stations[index];
        Random random(seed() + index);
        bool last = false;
        while (!last && take(&station.slots, crew_) && take(&to_peer_[index ^ 1], crew_)) {
            const Work &work = station.sends[station.sent % kSends];
            last = now_ms() >= end_;
            const auto limit = below(random, 16) == 0 ? kLargest - sizeof(Header) : 600;
            Header header{station.sent, index, static_cast<VIP_UINT32>(below(random, limit)), 0, last};
            VIP_UINT8 *payload = work.buffer.data + sizeof header;
            std::memset(payload, static_cast<int>(random()), header.bytes);
            for (VIP_UINT32 at = 0; at < header.bytes; at += 61) {
                payload[at] = static_cast<VIP_UINT8>(random());
            }
            header.sum = checksum(payload, header.bytes);
            std::memcpy(work.buffer.data, &header, sizeof header);
            VIP_DESCRIPTOR *d = work.desc;
            d->CS.Length = d->DS[0].Local.Length = static_cast<VIP_UINT32>(sizeof header) + header.bytes;
            d->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
            d->CS.ImmediateData = static_cast<VIP_UINT32>(header.number);
            {
                const std::lock_guard<std::mutex> lock(station.send_mutex);
                station.sent++;
                station.all_sent = last;
            }
            post_send(station.vi, work);
        }
    }

    void consume(VIP_CQ_HANDLE cq)
    {
        for (;;) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            const VIP_RETURN rc = VipCQWait(cq, patience(), &vi, &receive);
            if (rc == VIP_INVALID_PARAMETER && closing_) {
                return;
            }
            EXPECT_EQ(VIP_SUCCESS, rc);
            if (closing_) {
                continue;
            }
            const unsigned index = index_of(vi);
            receive ? take_receive(index) : take_send(index);
        }
    }

    void take_send(unsigned index)
    {
        Station &station = *stations[index];
        const std::lock_guard<std::mutex> lock(station.send_mutex);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipSendDone(station.vi, &done));
        EXPECT(done == station.sends[station.reaped % kSends].desc);
        station.reaped++;
        sem_post(&station.slots);
        note_progress();
    }

    void take_receive(unsigned index)
    {
        Station &station = *stations[index];
        VIP_DESCRIPTOR *done = nullptr;
        {
            const std::lock_guard<std::mutex> lock(station.recv_mutex);
            REQUIRE_VIP(VipRecvDone(station.vi, &done));
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE, done);
            check(station, index, done);
        }
        done->CS.Length = kLargest;
        REQUIRE_VIP(VipPostRecv(station.vi, done, station.memory.handle()));
        sem_post(&own_[index]);
        station.reposted++; // from here on the VI may end
        note_progress();
    }

    /** The next message, whole. Receives change places as threads repost them: the data says which
     * it is. */
    void check(Station &station, unsigned index, const VIP_DESCRIPTOR *done)
    {
        const auto *data = static_cast<const VIP_UINT8 *>(done->DS[0].Local.Data.Address);
        Header header;
        std::memcpy(&header, data, sizeof header);
        EXPECT_EQ(station.received, header.number);
        EXPECT_EQ(static_cast<VIP_UINT32>(header.number), done->CS.ImmediateData);
        EXPECT_EQ(index ^ 1, header.vi);
        EXPECT_EQ(sizeof header + header.bytes, done->CS.Length);
        EXPECT_EQ(header.sum, checksum(data + sizeof header, header.bytes));
        EXPECT(!station.all_received);
        station.received++;
        station.all_received = header.last != 0;
    }

    bool is_done() const
    {
        for (const auto &station : stations) {
            const std::scoped_lock lock(station->send_mutex, station->recv_mutex);
            if (!station->all_sent || !station->all_received || station->reaped != station->sent ||
                station->reposted != station->received) {
                return false;
            }
        }
        return true;
    }

    void note_progress()
    {
        if (progress_.fetch_add(1, std::memory_order_relaxed) % 64 == 0 || now_ms() >= end_) {
            changed_.notify_one();
        }
    }

    /** Until all is sent, received and reaped, a thread fails, or nothing moves any more. */
    void await_done()
    {
        std::mutex mutex;
        std::unique_lock<std::mutex> lock(mutex);
        std::uint64_t seen = 0;
        unsigned long long since = now_ms();
        while (!crew_.failed() && !is_done()) {
            changed_.wait_for(lock, std::chrono::milliseconds(20));
            const std::uint64_t now = progress_.load(std::memory_order_relaxed);
            since = now != seen ? now_ms() : since;
            seen = now;
            if (now_ms() - since > 2 * patience()) {
                std::cerr << "the traffic has stopped after " << seen << " completions" << std::endl;
                break; // the threads' own limits say where
            }
        }
        std::cout << seen << " completions in " << seconds() << " s" << std::endl;
    }

    void tear_down()
    {
        for (const auto &station : stations) {
            VipDisconnect(station->vi);
        }
        for (const auto &station : stations) {
            VipDestroyVi(station->vi);
        }
        for (VIP_CQ_HANDLE cq : cqs_) {
            VipDestroyCQ(cq);
        }
    }

    sem_t *to_peer_, *own_;
    VIP_CQ_HANDLE cqs_[2] = {};
    unsigned long long end_ = 0;
    std::atomic<bool> closing_{false};
    std::atomic<std::uint64_t> progress_{0};
    std::condition_variable changed_;
    Crew crew_;
};

void init_credits()
{
    for (auto &side : shared<Credits>().receives) {
        for (sem_t &semaphore : side) {
            sem_init(&semaphore, 1, 0);
        }
    }
}

void play_child(const Scene &scene, Line &line)
{
    Credits &credits = shared<Credits>();
    Hammer hammer(credits.receives[0], credits.receives[1]);
    for (unsigned i = 0; i < kVis; ++i) {
        REQUIRE_VIP(request_to(hammer.nic, scene.name(), hammer.stations[i ^ 1]->vi));
    }
    line.sync();
    hammer.run(&line);
}

void run_between_processes(const char *pull)
{
    init_credits();
    use_pull(pull);
    Credits &credits = shared<Credits>();
    const Scene scene = make_scene(pull);
    Child child(play_child, scene);
    Hammer hammer(credits.receives[1], credits.receives[0]);
    for (unsigned i = 0; i < kVis; ++i) {
        REQUIRE_VIP(accept_on(hammer.nic, scene.name(), hammer.stations[i]->vi));
    }
    child.line.sync();
    hammer.run(&child.line);
    child.finish();
}

} // namespace

TEST_CASE("24 threads on 8 VIs and 2 completion queues of one NIC handle lose, repeat and reorder nothing",
          "[hammer]")
{
    init_credits();
    sem_t *credits = shared<Credits>().receives[0];
    Hammer hammer(credits, credits);
    for (unsigned i = 0; i < kVis; i += 2) {
        connect_pair(hammer.nic, hammer.stations[i]->vi, hammer.nic, hammer.stations[i + 1]->vi);
    }
    hammer.run(nullptr);
}

TEST_CASE("24 threads on each side lose, repeat and reorder nothing between processes", "[hammer]")
{
    run_between_processes("");
}

TEST_CASE("24 threads on each side lose, repeat and reorder nothing through the rings", "[hammer]")
{
    run_between_processes("off");
}
