// SPDX-License-Identifier: MIT
//
// The card as a port: launch times by a clock that is not the host's, a wire without room, receives
// that are missing, slots that are too short, cards that may not, cannot, or end; and its memory.
#include "simulated.hpp"
#include "simulated_card.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

extern "C" {
#include "dm/rnic/launch.h"
#include "dm/rnic/port_rnic.h"
}

using namespace dm_test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kSecond = 1000000000;

struct Deleter {
    void operator()(vipl_dm_sender *sender) const { vipl_dm_sender_close(sender); }
    void operator()(vipl_dm_capture *capture) const { vipl_dm_capture_close(capture); }
};

int open_memory(const char *name, std::uint64_t bytes, dm_port *port, bool allow_ram, dm_memory **memory,
                vipl_dm_reason *reason)
{
    const dm_memory_use use{port, true, allow_ram};
    return dm_memory_open(name, bytes, &use, memory, reason);
}

/** A frame for the card itself, of an EtherType. */
Bytes frame_of(const SimulatedCard &card, std::uint32_t number, std::size_t size, unsigned type = 0x1234)
{
    Bytes one = frame(number, size);
    std::copy(std::begin(card.mac), std::end(card.mac), one.begin());
    one[12] = static_cast<std::uint8_t>(type >> 8);
    one[13] = static_cast<std::uint8_t>(type);
    return one;
}

Bytes recording_of(const std::vector<Bytes> &frames)
{
    Writer w(false);
    w.pcap_head(true);
    for (const Bytes &one : frames) {
        w.record(0, 0, one);
    }
    return w.bytes();
}

/** Frames for somebody else, which leave by the wire. */
std::vector<Bytes> strangers(unsigned count, std::size_t size)
{
    std::vector<Bytes> all;
    for (unsigned i = 0; i < count; ++i) {
        all.push_back(frame(i, size));
        std::fill_n(all.back().begin(), 6, std::uint8_t{4});
        all.back()[12] = 0x12;
    }
    return all;
}

/** A port and memory on the next function of a card, which a sender or a capture gets. */
struct Ends {
    dm_port *port = nullptr;
    dm_memory *memory = nullptr;
    vipl_dm_reason reason{};
    int open(SimulatedCard &card, enum dm_port_direction direction, const char *name, std::uint64_t bytes)
    {
        int error = dm_rnic_port_open(card.open(), "test", direction, &card.host, &port, &reason);
        error = error != 0 ? error : open_memory(name, bytes, port, false, &memory, &reason);
        return error != 0 ? error : port->kind->attach(port, memory, &reason);
    }
    void close()
    {
        dm_port_close(port);
        dm_memory_close(memory);
    }
};

struct Sending {
    Sending(SimulatedCard &on, const std::vector<Bytes> &frames, const char *memory = "ram")
        : card(on), store(recording_of(frames))
    {
        send.path.chunk_bytes = 65536;
        send.loops = 1;
        REQUIRE(ends.open(card, DM_SEND, memory, 1 << 20) == 0);
    }
    void create()
    {
        dm_sender_parts parts{&store, ends.memory, ends.port, &card.host, {}};
        const dm_source source = source_of(store.bytes_of);
        REQUIRE(dm_index_make(&source, 0, &parts.index, &reason) == 0);
        vipl_dm_sender *made = nullptr;
        const int failed = dm_sender_create(&send, &parts, &made, &reason);
        INFO(reason.text);
        REQUIRE(failed == 0);
        sender.reset(made);
    }
    bool run(std::uint64_t nanoseconds)
    {
        int is_done = 0;
        card.step = 100;
        error = vipl_dm_sender_run(sender.get(), nanoseconds, &is_done, &reason);
        vipl_dm_sender_counters(sender.get(), &counters);
        return is_done != 0;
    }
    void send_all(std::uint64_t nanoseconds = 1000 * kSecond)
    {
        create();
        const bool is_done = run(nanoseconds);
        INFO(reason.text);
        REQUIRE(error == 0);
        REQUIRE(is_done);
    }

    SimulatedCard &card;
    Store store;
    Ends ends;
    vipl_dm_send send{};
    vipl_dm_reason reason{};
    vipl_dm_counters counters{};
    int error = 0;
    std::unique_ptr<vipl_dm_sender, Deleter> sender;
};

struct Capturing {
    explicit Capturing(SimulatedCard &on, const char *memory = "ram", std::uint64_t bytes = 4 * 65536)
        : card(on)
    {
        char name[] = "/tmp/vipl-dm-rnic-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        folder = name;
        store = "file:" + (folder / "cap.pcapng").string();
        receive.path.store = store.c_str();
        receive.path.chunk_bytes = 65536;
        REQUIRE(ends.open(card, DM_RECEIVE, memory, bytes) == 0);
    }
    ~Capturing()
    {
        capture.reset();
        fs::remove_all(folder);
    }
    Capturing(const Capturing &) = delete;
    Capturing &operator=(const Capturing &) = delete;

    void create()
    {
        const dm_capture_parts parts{ends.memory, ends.port, &card.host};
        vipl_dm_capture *made = nullptr;
        const int failed = dm_capture_create(&receive, &parts, &made, &reason);
        INFO(reason.text);
        REQUIRE(failed == 0);
        capture.reset(made);
    }
    void run(std::uint64_t nanoseconds = kSecond / 1000)
    {
        int is_done = 0;
        card.step = 1000;
        error = vipl_dm_capture_run(capture.get(), nanoseconds, &is_done, &reason);
        vipl_dm_capture_counters(capture.get(), &counters);
    }
    void stop()
    {
        const int failed = vipl_dm_capture_stop(capture.get(), &reason);
        INFO(reason.text);
        REQUIRE(failed == 0);
        vipl_dm_capture_counters(capture.get(), &counters);
        capture.reset();
        std::ifstream input(folder / "cap.pcapng", std::ios::binary);
        file = Bytes(std::istreambuf_iterator<char>(input), {});
        kept = read(file).packets;
    }
    bool is(std::size_t number, const Bytes &wanted) const
    {
        return kept.at(number).original == wanted.size() &&
               std::memcmp(file.data() + kept[number].offset, wanted.data(), kept[number].bytes) == 0;
    }

    SimulatedCard &card;
    fs::path folder;
    std::string store;
    Ends ends;
    vipl_dm_receive receive{};
    vipl_dm_reason reason{};
    vipl_dm_counters counters{};
    int error = 0;
    Bytes file;
    std::vector<dm_recorded> kept;
    std::unique_ptr<vipl_dm_capture, Deleter> capture;
};

/** Sends frames with this gap, for so long, and sees each leave when it is due, by the card's
 * clock. */
void hold_rate(std::int64_t parts_per_million, std::uint64_t gap, std::uint64_t nanoseconds)
{
    SimulatedCard card(parts_per_million);
    Sending s(card, strangers(100, 200));
    std::uint64_t first = 0, left = 0, wrong = 0;
    card.on_frame = [&](const std::uint8_t *, std::uint32_t, std::uint64_t time) {
        first = left == 0 ? time : first;
        wrong += time == first + left * gap ? 0 : 1;
        left++;
    };
    s.send.pace = VIPL_DM_GAP;
    s.send.rate = gap;
    s.send.loops = 0;
    s.send.duration_ns = nanoseconds;
    s.send_all(2 * nanoseconds);
    INFO(parts_per_million);
    CHECK(left == (nanoseconds - 1) / gap + 1);
    CHECK(s.counters.sent == left);
    CHECK(wrong == 0);
    CHECK(s.counters.late_ns == 0);
    CHECK(s.counters.lost == 0);
    CHECK(s.counters.elapsed_ns == (left - 1) * gap);
}

} // namespace

TEST_CASE("frames leave at their launch times, by the card's clock, however wrong the host's is", "[dm_rnic]")
{
    for (std::int64_t drift : {0, 900, -900}) {
        hold_rate(drift, 7000000007, 3600 * kSecond);
        hold_rate(drift, 2500001, kSecond);
    }
}

TEST_CASE("the card's clock holds a rate for weeks", "[dm_rnic_weeks]")
{
    for (std::int64_t drift : {500, -500}) {
        hold_rate(drift, 70000000007, 4ull * 7 * 86400 * kSecond);
    }
}

TEST_CASE("what is due soon is handed over early, and a burst leaves at once", "[dm_rnic]")
{
    SimulatedCard card;
    Sending s(card, strangers(100, 200));
    std::vector<std::uint64_t> times;
    card.on_frame = [&](const std::uint8_t *, std::uint32_t, std::uint64_t time) { times.push_back(time); };
    s.send.pace = VIPL_DM_PACKETS;
    s.send.rate = 10000;
    s.send.burst = 10;
    s.send_all();
    REQUIRE(times.size() == 100);
    for (std::size_t i = 0; i < times.size(); ++i) {
        CHECK(times[i] == times[0] + i / 10 * 1000000);
    }
    CHECK(s.counters.late_ns == 0);
    CHECK(s.counters.elapsed_ns == 9000000);
}

TEST_CASE("a wire without room makes the sender wait, and loses nothing", "[dm_rnic]")
{
    for (enum vipl_dm_pace pace : {VIPL_DM_TOP_SPEED, VIPL_DM_PACKETS}) {
        SimulatedCard card;
        card.impair("rate=100000000,queue=16384");
        const std::vector<Bytes> frames = strangers(1000, 1000);
        Sending s(card, frames);
        std::uint64_t left = 0, wrong = 0;
        card.on_frame = [&](const std::uint8_t *at, std::uint32_t bytes, std::uint64_t) {
            const Bytes &wanted = frames[left++ % frames.size()];
            wrong += bytes == wanted.size() && std::memcmp(at, wanted.data(), bytes) == 0 ? 0 : 1;
        };
        s.send.loops = 20; // more than the card's queue has room for
        s.send.pace = pace;
        s.send.rate = pace == VIPL_DM_PACKETS ? 1000000 : 0;
        s.send_all();
        CHECK(s.counters.sent == 20000);
        CHECK(s.counters.lost == 0);
        CHECK(s.counters.no_slot > 0);
        CHECK(s.counters.elapsed_ns > 20000ull * 8000 * 10 - kSecond / 50);
        CHECK((s.counters.late_ns > 0) == (pace == VIPL_DM_PACKETS));
        s.sender.reset(); // what the port has taken leaves, and then the wire
        card.host.wait_until(&card, card.now + kSecond);
        CHECK(left == 20000);
        CHECK(wrong == 0);
    }
}

TEST_CASE("frames that a raw queue pair does not send are counted, also the first one", "[dm_rnic]")
{
    for (enum vipl_dm_pace pace : {VIPL_DM_TOP_SPEED, VIPL_DM_GAP}) {
        SimulatedCard card;
        std::vector<Bytes> frames = strangers(20, 100);
        for (std::size_t i : {0, 1, 7}) {
            frames[i][12] = 0x88; // EFE's
            frames[i][13] = 0xB5;
        }
        Sending s(card, frames);
        s.send.pace = pace;
        s.send.rate = pace == VIPL_DM_GAP ? 1000000 : 0;
        std::uint64_t left = 0;
        card.on_frame = [&](const std::uint8_t *, std::uint32_t, std::uint64_t) { left++; };
        s.send_all();
        CHECK(left == 17);
        CHECK(s.counters.sent == 17);
        CHECK(s.counters.sent_bytes == 1700);
        CHECK(s.counters.refused == 3);
        CHECK(s.counters.lost == 3);
    }
}

TEST_CASE("what a port has taken leaves before it is closed", "[dm_rnic]")
{
    SimulatedCard card;
    Sending s(card, strangers(100, 200));
    std::uint64_t left = 0;
    card.on_frame = [&](const std::uint8_t *, std::uint32_t, std::uint64_t) { left++; };
    s.send.pace = VIPL_DM_PACKETS;
    s.send.rate = 1000;
    s.create();
    CHECK_FALSE(s.run(kSecond / 20));
    CHECK(left < s.counters.sent);
    s.sender.reset();
    CHECK(left == s.counters.sent);
    CHECK(left < 100);
}

TEST_CASE("a sender and a capture on one card: all frames, whole and in order, in each kind of memory",
          "[dm_rnic]")
{
    for (const char *memory : {"ram", "rnic"}) {
        SimulatedCard card;
        std::vector<Bytes> frames;
        for (std::uint32_t i = 0; i < 1000; ++i) {
            frames.push_back(frame_of(card, i, 60 + i * 7 % 1454));
        }
        Capturing c(card, memory, 4 << 20); // room for all, however slow the file is
        c.create();
        Sending s(card, frames, memory);
        s.create();
        for (bool is_done = false; !is_done;) {
            is_done = s.run(100); // a batch
            REQUIRE(s.error == 0);
            c.run(10000);
            REQUIRE(c.error == 0);
        }
        c.stop();
        CHECK(c.counters.received == 1000);
        CHECK(c.counters.lost == 0);
        REQUIRE(c.kept.size() == 1000);
        std::uint64_t wrong = 0;
        for (std::size_t i = 0; i < 1000; ++i) {
            wrong += c.is(i, frames[i]) ? 0 : 1;
        }
        CHECK(wrong == 0);
        CHECK(std::is_sorted(c.kept.begin(), c.kept.end(),
                             [](const dm_recorded &a, const dm_recorded &b) { return a.time < b.time; }));
        CHECK(c.kept[0].time > 1600000000 * kSecond); // the time of day
    }
}

TEST_CASE("frames that find no receive are counted by the card, and none twice", "[dm_rnic]")
{
    SimulatedCard card;
    Capturing c(card);
    for (std::uint32_t i = 0; i < 10; ++i) { // before the start they are nobody's
        card.arrive(frame_of(card, i, 100));
    }
    c.create();
    const std::uint32_t slots = c.capture->ring * c.capture->slots;
    for (std::uint32_t i = 0; i < slots + 50; ++i) {
        card.arrive(frame_of(card, i, 100));
    }
    c.run();
    CHECK(c.counters.received == slots);
    CHECK(c.counters.missed == 50);
    CHECK(c.counters.lost == 50);
    for (std::uint32_t i = 0; i < 10; ++i) {
        card.arrive(frame_of(card, slots + i, 100));
    }
    c.stop();
    CHECK(c.counters.received == slots + 10);
    CHECK(c.counters.missed + c.counters.no_slot == 50);
    REQUIRE(c.kept.size() == slots + 10);
    CHECK(c.is(slots - 1, frame_of(card, slots - 1, 100)));
    CHECK(c.is(slots, frame_of(card, slots, 100)));
}

TEST_CASE("a frame that is longer than its slot is cut, its length is kept, and the next slot is whole",
          "[dm_rnic]")
{
    SimulatedCard card;
    Capturing c(card);
    c.receive.snaplen = 100;
    c.create();
    for (std::uint32_t i = 0; i < 40; ++i) {
        card.arrive(frame_of(card, i, i % 2 == 0 ? 1514 : 99 + i % 3));
        c.run();
        REQUIRE(c.error == 0);
    }
    c.stop();
    REQUIRE(c.kept.size() == 40);
    for (std::uint32_t i = 0; i < 40; ++i) {
        const Bytes wanted = frame_of(card, i, i % 2 == 0 ? 1514 : 99 + i % 3);
        CHECK(c.is(i, wanted));
        CHECK(c.kept[i].bytes == std::min<std::size_t>(wanted.size(), 100));
    }
    CHECK(c.counters.truncated == 20 + 6); // every third of the short ones has 101 bytes
    CHECK(c.counters.lost == 0);
}

TEST_CASE("a capture takes frames for others, for groups, and with tags", "[dm_rnic]")
{
    SimulatedCard card;
    Capturing c(card);
    c.create();
    std::vector<Bytes> frames = strangers(1, 200);
    frames.push_back(frame(1, 200));
    frames[1][0] = 1; // a group
    frames[1][12] = 8;
    frames.push_back(frame_of(card, 2, 1518, 0x8100));
    for (const Bytes &one : frames) {
        card.arrive(one);
    }
    c.run();
    c.stop();
    REQUIRE(c.kept.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(c.is(i, frames[i]));
    }
}

TEST_CASE("a card that is pulled out ends a sender and a capture, and what has arrived is written",
          "[dm_rnic]")
{
    SimulatedCard card;
    Capturing c(card);
    c.create();
    Sending s(card, strangers(100, 200));
    s.send.pace = VIPL_DM_PACKETS;
    s.send.rate = 1000;
    s.create();
    CHECK_FALSE(s.run(kSecond / 20));
    for (std::uint32_t i = 0; i < 5; ++i) {
        card.arrive(frame_of(card, i, 100));
    }
    c.run();
    CHECK(c.counters.received == 5);
    card.pull_out();
    CHECK_FALSE(s.run(10 * kSecond));
    CHECK(s.error == ENODEV);
    CHECK(std::string(s.reason.text).find("port") != std::string::npos);
    CHECK(s.counters.sent < 100);
    s.sender.reset(); // waits for nothing that cannot come
    c.run();
    CHECK(c.error == ENODEV);
    const int stopped = vipl_dm_capture_stop(c.capture.get(), &c.reason);
    CHECK(stopped == ENODEV);
    c.capture.reset();
    std::ifstream input(c.folder / "cap.pcapng", std::ios::binary);
    CHECK(read(Bytes(std::istreambuf_iterator<char>(input), {})).packets.size() == 5);
}

TEST_CASE("a port whose first frame never leaves gives the caller its time back", "[dm_rnic]")
{
    SimulatedCard card;
    card.impair("rate=1000,queue=1514"); // of which the frames of another one take 12 seconds each
    Sending other(card, strangers(10, 1500));
    other.create();
    CHECK_FALSE(other.run(10000));
    Sending s(card, strangers(10, 200));
    s.send.pace = VIPL_DM_PACKETS;
    s.send.rate = 1000;
    s.create();
    const std::uint64_t start = card.now;
    CHECK_FALSE(s.run(kSecond / 10));
    CHECK(s.error == 0);
    CHECK(s.counters.sent == 1);
    CHECK(s.counters.elapsed_ns == 0);
    CHECK(card.now - start < kSecond);
}

TEST_CASE("memory on the PCI bus goes with a card on the bus", "[dm_rnic]")
{
    SimulatedCard card;
    dm_port *port = nullptr;
    vipl_dm_reason reason{};
    vipl_rnic *rnic = card.open();
    Bytes bytes(65536);
    dm_memory foreign{};
    foreign.kind = &dm_memory_bar;
    foreign.base = bytes.data();
    foreign.bytes = bytes.size();
    foreign.on_bus = "a test's";
    std::strcpy(foreign.text, "foreign");
    REQUIRE(dm_rnic_port_open(rnic, "test", DM_RECEIVE, &card.host, &port, &reason) == 0);
    CHECK(port->kind->attach(port, &foreign, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("rnic:pci:ADDRESS") != std::string::npos);

    const rnic_pci *const pci = vipl_rnic_access(rnic); // from now on it is hardware
    rnic_pci_ops hardware = *pci->ops;
    hardware.name = "vfio";
    const_cast<rnic_pci *>(pci)->ops = &hardware;
    CHECK(port->kind->attach(port, &foreign, &reason) == 0);
    dm_memory *memory = nullptr;
    CHECK(open_memory("rnic", 65536, port, false, &memory, &reason) == ENOTSUP); // for a file
    CHECK(std::string(reason.text).find("data of files") != std::string::npos);
    const dm_memory_use by_dma{port, false, false};
    REQUIRE(dm_memory_open("rnic", 65536, &by_dma, &memory, &reason) == 0);
    CHECK(memory->on_bus != nullptr);
    CHECK(port->kind->attach(port, memory, &reason) == 0);
    dm_port_close(port);
    dm_memory_close(memory);
}

TEST_CASE("what a card may not do, or has not, is refused with the reason", "[dm_rnic]")
{
    SimulatedCard bare(0, 0, 0); // neither raw queue pairs nor memory
    dm_port *port = nullptr;
    dm_memory *memory = nullptr;
    vipl_dm_reason reason{};
    CHECK(dm_rnic_port_open(bare.open(), "test", DM_SEND, &bare.host, &port, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("--raw") != std::string::npos);
    CHECK(dm_port_open("rnic:nowhere", DM_SEND, &port, &reason) == ENODEV);
    CHECK(open_memory("rnic", 65536, nullptr, false, &memory, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("rnic:DEVICE") != std::string::npos);
    CHECK(port == nullptr);

    SimulatedCard poor(0, 3, 0);
    REQUIRE(dm_rnic_port_open(poor.open(), "test", DM_RECEIVE, &poor.host, &port, &reason) == 0);
    CHECK(open_memory("rnic", 65536, port, false, &memory, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("--dram") != std::string::npos);
    REQUIRE(open_memory("rnic", 65536, port, true, &memory, &reason) == 0);
    CHECK(std::string(memory->text).find("ram, because") == 0);
    dm_memory_close(memory);
    dm_port_close(port);

    SimulatedCard card;
    REQUIRE(dm_rnic_port_open(card.open(), "test", DM_RECEIVE, &card.host, &port, &reason) == 0);
    CHECK(open_memory("rnic:0", 65536, port, false, &memory, &reason) == EINVAL);
    CHECK(open_memory("rnic", (16 << 20) + 4096, port, false, &memory, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("16777216") != std::string::npos);
    REQUIRE(open_memory("rnic", 65536, port, false, &memory, &reason) == 0);
    CHECK(memory->bytes == 65536);
    CHECK(open_memory("rnic", (16 << 20) - 65536 + 1, port, false, &memory, &reason) == ENOTSUP);
    dm_memory_close(memory); // its part of the card is free again when the port is closed
    dm_port_close(port);
    REQUIRE(dm_rnic_port_open(card.open(), "test", DM_RECEIVE, &card.host, &port, &reason) == 0);
    REQUIRE(open_memory("rnic", 0, port, false, &memory, &reason) == 0);
    CHECK(memory->bytes == 16 << 20);
    dm_port_close(port);
    dm_memory_close(memory);
}

TEST_CASE("a card that is thought to be late is believed as far as clocks may differ", "[dm_rnic]")
{
    dm_launch launch{};
    CHECK(dm_launch_horizon(&launch, 5) == 0);
    dm_launch_left(&launch, 1000000, 0, 500);
    CHECK(dm_launch_now(&launch, 500) == 0);
    CHECK(dm_launch_horizon(&launch, 500) == DM_RNIC_LEAD_NS);
    CHECK(dm_launch_time(&launch, 70) == 1000070);
    // Old news: the frame has left long ago, and nobody has looked.
    dm_launch_left(&launch, 1000000 + 100, 100, 500 + kSecond);
    CHECK(dm_launch_now(&launch, 500 + kSecond) == kSecond - kSecond / 1000);
    // A card that is ahead is right.
    dm_launch_left(&launch, 1000000 + 3 * kSecond, kSecond, 500 + 2 * kSecond);
    CHECK(dm_launch_now(&launch, 500 + 2 * kSecond) == 3 * kSecond);
    CHECK(launch.late == 2 * kSecond);
    CHECK(launch.last == 3 * kSecond);
}
