// SPDX-License-Identifier: MIT
//
// Captures: slots, chunks, counters and files; by a simulated port and clock, into real files.
#include "simulated.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/resource.h>

using namespace dm_test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kSecond = 1000000000;

struct Deleter {
    void operator()(vipl_dm_capture *capture) const { vipl_dm_capture_close(capture); }
};

/** A folder for captures. */
struct Folder {
    fs::path path;
    Folder()
    {
        char name[] = "/tmp/vipl-dm-capture-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
    Bytes contents(const std::string &name) const
    {
        std::ifstream file(path / name, std::ios::binary);
        return Bytes(std::istreambuf_iterator<char>(file), {});
    }
};

struct Bench {
    Bench()
    {
        receive.path.chunk_bytes = 65536;
        store = "file:" + (folder.path / "cap.pcapng").string();
        receive.path.store = store.c_str();
        clock.step = 100;
        port.clock = &clock;
        port.arrive = [this](std::uint8_t *at, std::uint32_t room) -> std::uint32_t {
            if (arrived == to_arrive) {
                return 0;
            }
            const Bytes one = frame(static_cast<std::uint32_t>(arrived), size_of(arrived));
            const std::uint32_t bytes = std::min<std::uint32_t>(room, static_cast<std::uint32_t>(one.size()));
            std::memcpy(at, one.data(), bytes);
            port.original = one.size();
            arrived++;
            return bytes;
        };
    }
    std::size_t size_of(std::uint64_t number) const { return 60 + number * 7 % most; }
    int create(std::uint64_t memory_bytes = 4 * 65536)
    {
        const dm_capture_parts parts{memory_of(memory_bytes), &port, &clock.ops};
        vipl_dm_capture *made = nullptr;
        const int created = dm_capture_create(&receive, &parts, &made, &reason);
        capture.reset(made);
        return created;
    }
    bool run(std::uint64_t nanoseconds = kSecond / 100)
    {
        int is_done = 0;
        error = vipl_dm_capture_run(capture.get(), nanoseconds, &is_done, &reason);
        vipl_dm_capture_counters(capture.get(), &counters);
        return is_done != 0;
    }
    void stop()
    {
        INFO(reason.text);
        REQUIRE(vipl_dm_capture_stop(capture.get(), &reason) == 0);
        vipl_dm_capture_counters(capture.get(), &counters);
        capture.reset();
    }
    /** Whether the file has these packets, and no others. */
    bool has(const std::string &name, std::uint64_t first, std::uint64_t count) const
    {
        const Bytes file = folder.contents(name);
        const Reading r = read(file);
        UNSCOPED_INFO(name << ": " << r.packets.size() << " packets; " << r.why);
        if (r.error != ENODATA || r.is_cut || r.packets.size() != count) {
            return false;
        }
        for (std::uint64_t i = 0; i < count; ++i) {
            const Bytes one = frame(static_cast<std::uint32_t>(first + i), size_of(first + i));
            const dm_recorded &packet = r.packets[i];
            if (packet.original != one.size() ||
                std::memcmp(file.data() + packet.offset, one.data(), packet.bytes) != 0) {
                return false;
            }
        }
        return true;
    }

    Folder folder;
    std::string store;
    Clock clock;
    Port port;
    vipl_dm_receive receive{};
    vipl_dm_reason reason{};
    vipl_dm_counters counters{};
    std::uint64_t arrived = 0;
    std::uint64_t to_arrive = 0;
    std::size_t most = 1450;
    int error = 0;
    std::unique_ptr<vipl_dm_capture, Deleter> capture;
};

} // namespace

TEST_CASE("every number of packets becomes a file that has them, with fillers and without", "[dm_capture]")
{
    for (std::uint32_t compact : {0u, 1u}) {
        for (std::uint64_t count : {0, 1, 31, 32, 33, 127, 128, 129, 1000, 5000}) {
            Bench b;
            b.receive.compact = compact;
            b.to_arrive = count;
            REQUIRE(b.create() == 0);
            for (unsigned i = 0; i < 1000 && b.arrived < count; ++i) {
                b.run();
                REQUIRE(b.error == 0);
            }
            b.stop();
            CHECK(b.counters.received == count);
            CHECK(b.counters.lost == 0);
            CHECK(b.has("cap.pcapng", 0, count));
        }
    }
}

TEST_CASE("a port that has few slots is served as well", "[dm_capture]")
{
    for (std::size_t slots : {1, 7, 32, 33}) {
        Bench b;
        b.port.most_slots = slots;
        b.to_arrive = 500;
        REQUIRE(b.create() == 0);
        for (unsigned i = 0; i < 1000 && b.arrived < 500; ++i) {
            b.run();
        }
        b.stop();
        CHECK(b.has("cap.pcapng", 0, 500));
    }
}

TEST_CASE("a count and a duration end a capture", "[dm_capture]")
{
    for (std::uint64_t count : {1, 63, 64, 65, 700}) {
        Bench b;
        b.receive.count = count;
        b.to_arrive = 100000;
        REQUIRE(b.create() == 0);
        while (!b.run()) {
            REQUIRE(b.error == 0);
        }
        b.port.drops = 99; // after the end
        b.stop();
        CHECK(b.counters.received == count);
        CHECK(b.counters.lost == 0);
        CHECK(b.has("cap.pcapng", 0, count));
    }
    Bench b;
    b.receive.duration_ns = 3 * kSecond;
    REQUIRE(b.create() == 0);
    CHECK_FALSE(b.run(2 * kSecond));
    CHECK(b.run(2 * kSecond));
    CHECK(b.counters.elapsed_ns >= 3 * kSecond);
    CHECK(b.counters.elapsed_ns < 3 * kSecond + kSecond / 100);
    b.stop();
}

TEST_CASE("packets that are longer than a slot are cut, and lost unless that was asked for", "[dm_capture]")
{
    for (std::uint32_t snaplen : {0u, 100u}) {
        Bench b;
        b.port.longest = 100;
        b.receive.snaplen = snaplen;
        b.most = 80; // 60 to 139 bytes
        b.to_arrive = 160;
        REQUIRE(b.create() == 0);
        b.run();
        b.stop();
        CHECK(b.counters.truncated == 78);
        CHECK(b.counters.lost == (snaplen == 0 ? 78 : 0));
        CHECK(b.has("cap.pcapng", 0, 160));
    }
}

TEST_CASE("drops are for want of a slot, or the port's own", "[dm_capture]")
{
    Bench b;
    REQUIRE(b.create() == 0);
    b.port.drops = 5;
    b.run();
    CHECK(b.counters.missed == 5);
    CHECK(b.counters.no_slot == 0);
    CHECK(b.counters.store_behind == 0);
    // The store keeps all chunks: as if it had not ended their transfers.
    for (std::uint32_t i = 0; i < b.capture->ring; ++i) {
        b.capture->rooms[i].state = DM_ROOM_WRITING;
    }
    b.port.slots.clear();
    b.capture->posted = 0;
    b.port.drops = 2; // before that is seen
    b.run();
    CHECK(b.counters.missed == 7);
    b.port.drops = 11;
    b.run();
    CHECK(b.counters.no_slot == 11);
    CHECK(b.counters.store_behind == 1);
    CHECK(b.counters.lost == 18);
}

TEST_CASE("a ring of files keeps the last ones, each of them whole", "[dm_capture]")
{
    Bench b;
    b.receive.ring_bytes = 210000; // three chunks of 32 packets
    b.receive.ring_files = 2;
    b.to_arrive = 400;
    REQUIRE(b.create() == 0);
    for (unsigned i = 0; i < 1000 && b.arrived < 400; ++i) {
        b.run();
        REQUIRE(b.error == 0);
    }
    b.stop();
    CHECK_FALSE(fs::exists(b.folder.path / "cap.pcapng"));
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(b.folder.path)) {
        names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    REQUIRE(names == std::vector<std::string>{"cap.00004.pcapng", "cap.00005.pcapng"});
    CHECK(b.has(names[0], 288, 96));
    CHECK(b.has(names[1], 384, 16));
}

TEST_CASE("a store that cannot be written ends a capture, and why is said", "[dm_capture]")
{
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit less{150000, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    Bench b;
    b.to_arrive = 10000;
    REQUIRE(b.create() == 0);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &less) == 0);
    for (unsigned i = 0; i < 1000 && b.error == 0; ++i) {
        b.run();
    }
    vipl_dm_reason later{};
    const int stopped = vipl_dm_capture_stop(b.capture.get(), &later);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK((b.error != 0 || stopped != 0));
    CHECK(std::string(b.error != 0 ? b.reason.text : later.text).find("cannot be written") !=
          std::string::npos);
}

TEST_CASE("what a capture cannot do is refused", "[dm_capture]")
{
    vipl_dm_reason reason{};
    vipl_dm_capture *capture = nullptr;
    const auto refused = [&](const vipl_dm_receive &receive) {
        return vipl_dm_capture_open(&receive, &capture, &reason);
    };
    vipl_dm_receive receive{};
    CHECK(refused(receive) == EINVAL);
    receive.path.store = "file:/nowhere/at/all";
    receive.path.port = "packet:no-such-if0";
    receive.snaplen = 65401;
    CHECK(refused(receive) == EINVAL);
    receive.snaplen = 65400;
    receive.ring_bytes = 1;
    CHECK(refused(receive) == EINVAL);
    receive.ring_files = 1;
    receive.path.chunk_bytes = 65537;
    CHECK(refused(receive) == EINVAL);
    receive.path.chunk_bytes = 65536;
    receive.path.memory = "cmb:0000:01:00.0";
    CHECK(refused(receive) == ENODEV);
    receive.path.memory = "ram";
    CHECK(
        (refused(receive) == ENODEV || refused(receive) == EPERM)); // of the interface, or without the right
    Bench b;
    b.receive.snaplen = 65400;
    CHECK(b.create() == EINVAL); // a chunk of 64 KiB has no eight such slots
    CHECK(capture == nullptr);
}
