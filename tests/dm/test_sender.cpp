// SPDX-License-Identifier: MIT
//
// Senders: chunks and their order, the pace, counters, and what goes wrong; by a simulated clock.
#include "simulated.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

using namespace dm_test;

namespace {

constexpr std::uint64_t kSecond = 1000000000;

struct Deleter {
    void operator()(vipl_dm_sender *sender) const { vipl_dm_sender_close(sender); }
};
using Sender = std::unique_ptr<vipl_dm_sender, Deleter>;

/** `count` packets of these sizes, `gap` nanoseconds apart. */
Bytes recording_of(unsigned count, const std::vector<std::size_t> &sizes, std::uint64_t gap)
{
    Writer w(false);
    w.pcap_head(true);
    for (unsigned i = 0; i < count; ++i) {
        w.record(static_cast<std::uint32_t>(i * gap / kSecond), static_cast<std::uint32_t>(i * gap % kSecond),
                 frame(i, sizes[i % sizes.size()]));
    }
    return w.bytes();
}

/** What a sender is made from; the packets that have left are compared with the recording. */
struct Bench {
    explicit Bench(Bytes recording) : store(std::move(recording)), wanted(read(store.bytes_of).packets)
    {
        send.path.chunk_bytes = 65536;
        send.loops = 1;
        port.on_completed = [this](const dm_packet &packet) {
            const dm_recorded &one = wanted[seen++ % wanted.size()];
            const bool holds = packet.bytes == one.bytes &&
                               std::memcmp(packet.at, store.bytes_of.data() + one.offset, one.bytes) == 0;
            wrong += holds ? 0 : 1;
        };
    }
    int create(std::uint64_t memory_bytes)
    {
        dm_sender_parts parts{&store, memory_of(memory_bytes), &port, &clock.ops, {}};
        const dm_source source = source_of(store.bytes_of);
        REQUIRE(dm_index_make(&source, 0, &parts.index, &reason) == 0);
        vipl_dm_sender *made = nullptr;
        const int error = dm_sender_create(&send, &parts, &made, &reason);
        sender.reset(made);
        return error;
    }
    /** Until everything is sent, or so long. */
    bool run(std::uint64_t nanoseconds)
    {
        int is_done = 0;
        REQUIRE(vipl_dm_sender_run(sender.get(), nanoseconds, &is_done, &reason) == 0);
        vipl_dm_sender_counters(sender.get(), &counters);
        return is_done != 0;
    }
    void send_all(std::uint64_t memory_bytes, std::uint64_t nanoseconds = 1000 * kSecond)
    {
        REQUIRE(create(memory_bytes) == 0);
        clock.step = 100;
        REQUIRE(run(nanoseconds));
        CHECK(wrong == 0);
        CHECK(counters.sent == seen);
    }

    Clock clock;
    Store store;
    Port port;
    std::vector<dm_recorded> wanted;
    vipl_dm_send send{};
    vipl_dm_reason reason{};
    vipl_dm_counters counters{};
    std::uint64_t seen = 0;
    std::uint64_t wrong = 0;
    Sender sender;
};

} // namespace

TEST_CASE(
    "packets leave in order, whole, from a ring of two chunks, also if the port is slow to give them back",
    "[dm_sender]")
{
    for (std::size_t lag : {0, 1, 50, 1000}) {
        Bench b(recording_of(2000, {60, 1514, 300, 77}, 1000));
        b.send.loops = 3;
        b.port.lag = lag;
        b.send_all(2 * 65536);
        CHECK(b.seen == 6000);
        CHECK(b.counters.sent_bytes == 6000 / 4 * (60 + 1514 + 300 + 77));
        CHECK(b.counters.lost == 0);
        CHECK(b.store.reads > 30); // each pass reads it again
    }
}

TEST_CASE("a recording that memory has room for is read once", "[dm_sender]")
{
    Bench b(recording_of(2000, {1000}, 1000));
    b.send.loops = 5;
    b.send_all(64 * 65536);
    CHECK(b.seen == 10000);
    CHECK(b.store.reads == 32); // 2.03 MB
}

TEST_CASE("a count and a duration end a sender, wherever in the recording", "[dm_sender]")
{
    for (std::uint64_t count : {1, 63, 64, 65, 999, 1000, 1001, 2500}) {
        Bench b(recording_of(1000, {60}, 1000));
        b.send.loops = 0;
        b.send.count = count;
        b.send_all(2 * 65536);
        CHECK(b.seen == count);
    }
    Bench b(recording_of(1000, {60}, 1000));
    b.send.loops = 0;
    b.send.pace = VIPL_DM_PACKETS;
    b.send.rate = 1000;
    b.send.duration_ns = 10 * kSecond;
    b.send_all(2 * 65536);
    CHECK(b.seen == 10000); // those at 0 ms to 9,999 ms
}

TEST_CASE("a pace is held: no packet leaves before it is due, and none late", "[dm_sender]")
{
    Bench b(recording_of(1000, {100}, 5000));
    std::vector<std::uint64_t> times;
    b.port.on_taken = [&] { times.push_back(b.clock.now); };
    b.send.pace = VIPL_DM_RECORDED;
    b.send.rate = 500000; // half as fast
    b.send.loops = 2;
    b.send_all(2 * 65536);
    REQUIRE(times.size() == 2000);
    for (std::size_t i = 0; i < times.size(); ++i) {
        const std::uint64_t due = times[0] + i * 10000; // also from one pass to the next
        REQUIRE(times[i] + 300 >= due);                 // the clock moves by 100 at each look
        REQUIRE(times[i] <= due + 300);
    }
    CHECK(b.counters.late_ns <= 300);
}

TEST_CASE("a sender that was held up makes up for it, and says how late it was", "[dm_sender]")
{
    Bench b(recording_of(1000, {100}, 0));
    b.send.pace = VIPL_DM_PACKETS;
    b.send.rate = 1000;
    bool is_full = false;
    std::uint64_t until = 0;
    b.port.clock = &b.clock;
    b.port.answer = [&] {
        if (b.seen == 500 && !is_full) {
            is_full = true;
            until = b.clock.now + kSecond / 10;
        }
        return b.clock.now < until ? DM_SEND_FULL : DM_SEND_ALL;
    };
    b.send_all(2 * 65536);
    CHECK(b.seen == 1000);
    CHECK(b.counters.no_slot == 1); // one time, however often the port was asked
    CHECK(b.counters.late_ns >= kSecond / 10);
    CHECK(b.counters.late_ns < kSecond / 10 + 1000000);
    CHECK(b.counters.elapsed_ns < 1001 * kSecond / 1000);
    CHECK(b.counters.lost == 0);
}

TEST_CASE("what a port refuses is lost, and counted", "[dm_sender]")
{
    Bench b(recording_of(100, {100}, 0));
    unsigned asked = 0;
    b.port.answer = [&] { return ++asked == 10 ? DM_SEND_REFUSED : DM_SEND_ALL; };
    b.port.on_completed = [&](const dm_packet &) { b.seen++; };
    b.send_all(2 * 65536);
    CHECK(b.seen == 99);
    CHECK(b.counters.refused == 1);
    CHECK(b.counters.lost == 1);
}

TEST_CASE("packets without a header of Ethernet are left out, and counted in each pass", "[dm_sender]")
{
    Writer w(true);
    w.pcap_head(false).record(0, 0, frame(0, 60)).record(0, 1, frame(1, 13)).record(0, 2, frame(2, 14), 60);
    Bench b(w.bytes());
    b.wanted.erase(b.wanted.begin() + 1);
    b.send.loops = 4;
    b.send_all(2 * 65536);
    CHECK(b.seen == 8);
    CHECK(b.counters.refused == 4);
    CHECK(b.counters.lost == 4);
    CHECK(b.counters.truncated == 4);
}

TEST_CASE("a store that is behind is waited for, and counted once each time", "[dm_sender]")
{
    Bench b(recording_of(1000, {1000}, 0));
    unsigned looks = 0;
    b.store.is_slow = [&] { return ++looks % 16 != 0; };
    b.send_all(2 * 65536);
    CHECK(b.seen == 1000);
    CHECK(b.counters.store_behind >= 10);
    CHECK(b.counters.store_behind <= b.store.reads);
    CHECK(b.counters.lost == 0);
}

TEST_CASE("a store or a port that fails ends a sender, and why is said", "[dm_sender]")
{
    Bench b(recording_of(1000, {1000}, 0));
    b.store.error = EIO;
    CHECK(b.create(2 * 65536) == EIO);
    CHECK(std::string(b.reason.text).find("store cannot be read") != std::string::npos);

    Bench later(recording_of(1000, {1000}, 0));
    REQUIRE(later.create(2 * 65536) == 0);
    later.store.error = EIO;
    later.clock.step = 100;
    int is_done = 0;
    CHECK(vipl_dm_sender_run(later.sender.get(), kSecond, &is_done, &later.reason) == EIO);
    CHECK(is_done == 0);

    Bench port(recording_of(10, {1000}, 0));
    REQUIRE(port.create(2 * 65536) == 0);
    port.port.answer = [] { return DM_SEND_FAILED; };
    port.port.failure = ENETDOWN;
    port.clock.step = 100;
    CHECK(vipl_dm_sender_run(port.sender.get(), kSecond, &is_done, &port.reason) == ENETDOWN);
    CHECK(std::string(port.reason.text).find("port cannot send") != std::string::npos);

    Bench cut(recording_of(1000, {1000}, 0));
    REQUIRE(cut.create(2 * 65536) == 0);
    cut.store.bytes_of.resize(600000);
    cut.clock.step = 100;
    CHECK(vipl_dm_sender_run(cut.sender.get(), kSecond, &is_done, &cut.reason) == ESTALE);
}

TEST_CASE("what cannot work is refused at the start", "[dm_sender]")
{
    Bench large(recording_of(10, {1519}, 0));
    CHECK(large.create(2 * 65536) == EMSGSIZE);
    CHECK(std::string(large.reason.text).find("at most 1518") != std::string::npos);
    Bench small(recording_of(10, {60}, 0));
    CHECK(small.create(65536) == EINVAL);
    Bench empty(Writer(false).pcap_head(false).record(0, 0, frame(1, 13)).bytes());
    CHECK(empty.create(2 * 65536) == ENODATA);
    Bench chunk(recording_of(1, {262144}, 0));
    chunk.port.longest = 300000;
    CHECK(chunk.create(2 * 65536) == EINVAL); // a chunk must have room for a packet
}

TEST_CASE("counters go on beyond 32 bits", "[dm_sender]")
{
    Bench b(recording_of(1000, {1500}, 0));
    b.send.loops = 4;
    REQUIRE(b.create(64 * 65536) == 0);
    b.sender->counters.sent = 0xFFFFFFFFull - 10; // as after some hours
    b.sender->taken = b.sender->counters.sent;
    b.sender->handed = b.sender->counters.sent;
    b.sender->counters.sent_bytes = b.sender->counters.sent * 1500;
    b.port.done = b.sender->counters.sent;
    b.clock.step = 100;
    REQUIRE(b.run(kSecond));
    CHECK(b.counters.sent == 0xFFFFFFFFull - 10 + 4000);
    CHECK(b.counters.sent_bytes == (0xFFFFFFFFull - 10 + 4000) * 1500);
    CHECK(b.seen == 4000);
}

TEST_CASE("a rate is held within a thousandth for weeks, and no packet is lost", "[dm_weeks]")
{
    constexpr std::uint64_t weeks = 4ull * 7 * 86400 * kSecond;
    Bench b(recording_of(100, {1500, 60}, 0));
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t early = 0;
    b.port.on_taken = [&] {
        first = first == 0 ? b.clock.now : first;
        early += b.clock.now < last ? 1 : 0;
        last = b.clock.now;
    };
    b.send.loops = 0;
    b.send.pace = VIPL_DM_PACKETS;
    b.send.rate = 7; // which does not divide a second
    b.send.duration_ns = weeks;
    REQUIRE(b.create(2 * 65536) == 0);
    bool is_done = false;
    for (unsigned calls = 0; !is_done && calls < 100;
         ++calls) { // each call is most of a day, and ends between two packets
        b.clock.step = 1;
        is_done = b.run(80000 * kSecond + 1);
    }
    REQUIRE(is_done);
    const std::uint64_t wanted = weeks / kSecond * 7;
    CHECK(b.counters.sent == wanted);
    CHECK(b.seen == wanted);
    CHECK(b.wrong == 0);
    CHECK(early == 0);
    CHECK(b.counters.sent_bytes == wanted / 2 * 1560);
    CHECK(b.counters.sent_bytes > 0xFFFFFFFFull);
    // The last one is due a seventh of a second before the end.
    CHECK(last - first > weeks - kSecond / 7 - 1000);
    CHECK(last - first < weeks - kSecond / 7 + 1000);
}
