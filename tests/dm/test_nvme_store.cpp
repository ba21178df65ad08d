// SPDX-License-Identifier: MIT
//
// Recordings on namespaces: names, labels, bytes at any alignment, whole captures and senders.
#include "simulated_nvme.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>

extern "C" {
#include "dm/nvme/label.h"
#include "dm/nvme/shared.h"
#include "dm/nvme/store_nvme.h"
}

using namespace dm_test;

namespace {

constexpr const char *kAddress = "0000:00:05.0";

/** A label as a shell writes it. */
void put_label(Nvme &nvme, std::uint64_t block, const std::string &text)
{
    std::memset(nvme.disk(block), 0, DM_LABEL_BYTES);
    std::memcpy(nvme.disk(block), text.data(), text.size());
}

std::string label_of(std::size_t bytes, std::uint64_t written)
{
    return "VIPL recording 1\nbytes " + std::to_string(bytes) + "\nwritten " + std::to_string(written) + "\n";
}

void put_recording(Nvme &nvme, std::uint64_t block, const Bytes &bytes, std::uint64_t written = 77)
{
    put_label(nvme, block, label_of(bytes.size(), written));
    std::memcpy(nvme.disk(block) + DM_LABEL_BYTES, bytes.data(), bytes.size());
}

/** A controller that the names of stores find. */
void share(Nvme &nvme)
{
    dm_nvme *driver = nvme.open();
    REQUIRE(driver != nullptr);
    dm_nvme_share(driver, kAddress);
}

struct Opened {
    int error;
    std::string why;
    dm_store *store = nullptr;
    ~Opened() { dm_store_close(store); }
};

/** A store by its name, with what stands behind the address. */
Opened open(Nvme &nvme, const std::string &range, enum dm_direction direction,
            const dm_memory *memory = nullptr)
{
    const dm_store_wish wish{direction, false, memory};
    Opened opened{};
    share(nvme);
    opened.error = dm_store_open(("nvme:" + (kAddress + range)).c_str(), &wish, &opened.store, &nvme.reason);
    opened.why = nvme.reason.text;
    return opened;
}

Bytes read_all(dm_store *store)
{
    Bytes bytes(static_cast<std::size_t>(store->bytes));
    REQUIRE(store->kind->read(store, 0, bytes.data(), static_cast<std::uint32_t>(bytes.size())) ==
            static_cast<std::int64_t>(bytes.size()));
    return bytes;
}

Bytes recording_of(unsigned count)
{
    Writer w(false);
    w.pcap_head(true);
    for (unsigned i = 0; i < count; ++i) {
        w.record(0, i, frame(i, 60 + i * 7 % 1400));
    }
    return w.bytes();
}

struct Range {
    bool good;
    dm_nvme_range range;
};
Range range_of(const char *text)
{
    Range r{};
    r.good = dm_nvme_range_read(text, &r.range);
    return r;
}

} // namespace

TEST_CASE("names of ranges of a namespace", "[dm_nvme_store]")
{
    Range r = range_of("0000:00:05.0");
    CHECK(r.good);
    CHECK(std::string(r.range.address) == "0000:00:05.0");
    CHECK_FALSE(r.range.has_lba);
    CHECK(r.range.blocks == 0);
    r = range_of("0000:00:05.0,lba=2048,blocks=18446744073709551615");
    CHECK(r.good);
    CHECK(r.range.lba == 2048);
    CHECK(r.range.blocks == UINT64_MAX);
    r = range_of("0000:00:05.0,blocks=9,lba=0");
    CHECK(r.good);
    CHECK(r.range.has_lba);
    CHECK(r.range.blocks == 9);
    for (const char *text :
         {"", ",lba=1", "0000:00:05.0,", "0000:00:05.0,lba=", "0000:00:05.0,lba=-1", "0000:00:05.0,lba=1x",
          "0000:00:05.0,lba=18446744073709551616", "0000:00:05.0,lba=1,lba=1", "0000:00:05.0,blocks=0",
          "0000:00:05.0,ns=1", "0000:00:05.0-and-more"}) {
        CAPTURE(text);
        CHECK_FALSE(range_of(text).good);
    }
}

TEST_CASE("labels: what is written is read, and what is no label is not", "[dm_nvme_store]")
{
    std::uint8_t block[DM_LABEL_BYTES];
    dm_label label{UINT64_MAX, 1764374400123456789};
    dm_label_write(&label, block);
    label = {0, 0};
    REQUIRE(dm_label_read(block, &label));
    CHECK(label.bytes == UINT64_MAX);
    CHECK(label.written == 1764374400123456789);
    for (const char *text :
         {"", "VIPL recording 2\nbytes 1\nwritten 1\n", "VIPL recording 1\nbytes 1\n",
          "VIPL recording 1\nbytes \nwritten 1\n", "VIPL recording 1\nbytes 1 \nwritten 1\n",
          "VIPL recording 1\nbytes 18446744073709551616\nwritten 1\n",
          "VIPL recording 1\nwritten 1\nbytes 1\n", "VIPL recording 1\nbytes 1\nwritten 1"}) {
        CAPTURE(text);
        std::memset(block, 0, sizeof(block));
        std::memcpy(block, text, std::strlen(text));
        CHECK_FALSE(dm_label_read(block, &label));
    }
    std::memset(block, '1', sizeof(block)); // a number without an end
    std::memcpy(block, "VIPL recording 1\nbytes 1", 24);
    CHECK_FALSE(dm_label_read(block, &label));
}

TEST_CASE("a recording that a shell has put there is read as it is", "[dm_nvme_store]")
{
    const std::uint32_t block = GENERATE(512U, 4096U);
    Nvme nvme(block, (8 << 20) / block);
    const Bytes bytes = recording_of(1000);
    put_recording(nvme, 100, bytes, 1764374400123456789);
    const Opened opened = open(nvme, ",lba=100", DM_READ);
    INFO(opened.why);
    REQUIRE(opened.error == 0);
    CHECK(opened.store->bytes == bytes.size());
    CHECK(opened.store->identity == 1764374400123456789);
    CHECK(opened.store->align == block);
    CHECK(read_all(opened.store) == bytes);
    const dm_store_kind *kind = opened.store->kind;
    std::uint8_t some[100];
    for (const std::uint64_t at : {1ULL, 511ULL, 4095ULL, 65535ULL, 65537ULL}) {
        CHECK(kind->read(opened.store, at, some, 100) == 100);
        CHECK(std::memcmp(some, bytes.data() + at, 100) == 0);
    }
    CHECK(kind->read(opened.store, bytes.size() - 3, some, 100) == 3);
    CHECK(kind->read(opened.store, bytes.size(), some, 100) == 0);
    CHECK(kind->read(opened.store, UINT64_MAX, some, 100) == 0);
    const dm_transfer one{some, 0, 512, 0};
    CHECK(kind->submit(opened.store, &one) == EFAULT); // there is no memory for transfers
    CHECK(nvme.strays == 0);
}

TEST_CASE("what is no recording, or not inside of its blocks, is refused", "[dm_nvme_store]")
{
    const auto check = [](const std::string &range, enum dm_direction direction, int error, const char *why,
                          const std::string &label = label_of(1000, 1)) {
        Nvme nvme(512, 1000);
        put_label(nvme, 0, label);
        {
            const Opened opened = open(nvme, range, direction);
            INFO(range << ": " << opened.why);
            CHECK(opened.error == error);
            CHECK(opened.why.find(why) != std::string::npos);
        }
        if (nvme.closed == 0) { // it was refused before the controller was taken
            const Opened other = open(nvme, "", DM_READ);
        }
        CHECK(nvme.closed > 0);
    };
    check("", DM_READ, EINVAL, "no label", "");
    check("", DM_READ, EINVAL, "was not ended", label_of(0, 1));
    check("", DM_READ, EINVAL, "have 507904", label_of(507905, 1));
    check("", DM_READ, 0, "", label_of(507904, 1));
    check(",blocks=9", DM_READ, EINVAL, "have 512");
    check(",blocks=10", DM_READ, 0, "");
    check(",blocks=8", DM_READ, EINVAL, "no room for a label");
    check(",lba=1000", DM_READ, EINVAL, "no room for a label");
    check(",lba=1001", DM_READ, EINVAL, "has 1000 blocks");
    check(",lba=18446744073709551615", DM_READ, EINVAL, "has 1000 blocks");
    check(",lba=1,blocks=1000", DM_READ, EINVAL, "has 1000 blocks");
    check(",lba=1,blocks=18446744073709551615", DM_READ, EINVAL, "has 1000 blocks");
    check(",size=1", DM_READ, EINVAL, "is not nvme:ADDRESS");
    check("", DM_WRITE, EINVAL, "needs lba= and blocks=");
    check(",lba=0", DM_WRITE, EINVAL, "needs lba= and blocks=");
    check(",blocks=100", DM_WRITE, EINVAL, "needs lba= and blocks=");
}

TEST_CASE("a controller is one store's at a time", "[dm_nvme_store]")
{
    Nvme nvme;
    put_recording(nvme, 0, recording_of(1));
    const Opened opened = open(nvme, "", DM_READ);
    REQUIRE(opened.error == 0);
    const dm_store_wish wish{DM_READ, false, nullptr};
    dm_store *other = nullptr;
    vipl_dm_reason reason{};
    CHECK(dm_store_open("nvme:0000:00:05.0", &wish, &other, &reason) == EBUSY);
    CHECK(dm_store_open("nvme:0000:00:06.0", &wish, &other, &reason) == ENODEV); // no such function
    CHECK(std::string(reason.text).find("no such PCI function") != std::string::npos);
    CHECK(dm_store_open("nvme:0000:00:5.0", &wish, &other, &reason) == EINVAL);
    CHECK(dm_store_open("nvme:../../../../x", &wish, &other, &reason) == EINVAL);
}

TEST_CASE("a namespace has no rings of files, and no compact captures", "[dm_nvme_store]")
{
    vipl_dm_receive receive{};
    vipl_dm_capture *capture = nullptr;
    vipl_dm_reason reason{};
    receive.path.store = "nvme:0000:00:05.0,lba=0,blocks=1000";
    receive.path.port = "packet:nowhere";
    receive.ring_bytes = 1 << 20;
    receive.ring_files = 2;
    CHECK(vipl_dm_capture_open(&receive, &capture, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("no rings of files") != std::string::npos);
    const dm_store_wish wish{DM_WRITE, true, nullptr};
    dm_store *store = nullptr;
    CHECK(dm_store_open(receive.path.store, &wish, &store, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("do not end with a block") != std::string::npos);
}

TEST_CASE("bytes of a capture are written where they belong, and beside them nothing", "[dm_nvme_store]")
{
    const std::uint32_t block = GENERATE(512U, 4096U);
    Nvme nvme(block, (4 << 20) / block);
    std::memset(nvme.disk(0), 0xEE, 4 << 20);
    const std::uint64_t label = 4096 / block;
    {
        const Opened opened = open(nvme, ",lba=16,blocks=256", DM_WRITE);
        REQUIRE(opened.error == 0);
        const dm_store_kind *kind = opened.store->kind;
        CHECK(std::string(reinterpret_cast<char *>(nvme.disk(16))).find("bytes 0\n") != std::string::npos);
        Bytes some(100000, 0x11);
        CHECK(kind->write(opened.store, 300, some.data(), 100000) == 0);
        std::uint8_t *const at = nvme.disk(16 + label);
        CHECK(at[299] == 0xEE);
        CHECK(at[300] == 0x11);
        CHECK(at[100299] == 0x11);
        CHECK(at[100300] == 0xEE);
        const std::uint64_t room = (256 - label) * block;
        CHECK(kind->write(opened.store, room - 10, some.data(), 10) == 0);
        CHECK(kind->write(opened.store, room - 10, some.data(), 11) == ENOSPC);
        CHECK(kind->write(opened.store, UINT64_MAX, some.data(), 2) == ENOSPC);
        CHECK(*nvme.disk(16 + 256) == 0xEE);
        CHECK(nvme.disk(16)[-1] == 0xEE);
        nvme.commands.clear();
        CHECK(kind->truncate(opened.store, 100300) == 0);
        REQUIRE(nvme.commands.size() == 3); // the label is behind what it speaks of
        CHECK(nvme.commands[0].opcode == NVME_FLUSH);
        CHECK(nvme.commands[1].opcode == NVME_WRITE);
        CHECK(nvme.commands[2].opcode == NVME_FLUSH);
    }
    const Opened again = open(nvme, ",lba=16,blocks=256", DM_READ);
    REQUIRE(again.error == 0);
    CHECK(again.store->bytes == 100300);
    CHECK(again.store->identity > 1600000000000000000);
    CHECK(read_all(again.store)[300] == 0x11);
}

TEST_CASE("transfers are inside of the memory and of the range", "[dm_nvme_store]")
{
    Nvme nvme(512, 8192);
    dm_memory *memory = memory_of(1 << 20);
    {
        const Opened opened = open(nvme, ",lba=0,blocks=1000", DM_WRITE, memory);
        REQUIRE(opened.error == 0);
        const dm_store_kind *kind = opened.store->kind;
        const std::uint64_t room = (1000 - 8) * 512;
        const auto submit = [&](std::uint8_t *at, std::uint64_t offset, std::uint32_t bytes) {
            const dm_transfer one{at, offset, bytes, 0};
            return kind->submit(opened.store, &one);
        };
        CHECK(submit(memory->base, room - 1024, 512) == 0);
        CHECK(submit(memory->base, room - 512, 512) == ENOSPC); // its end would have no room
        CHECK(submit(memory->base, room, 512) == ENOSPC);
        CHECK(submit(memory->base, UINT64_MAX - 511, 512) == ENOSPC);
        CHECK(submit(memory->base - 4096, 0, 512) == EFAULT);
        CHECK(submit(memory->base + memory->bytes - 512, 0, 512) == 0);
        CHECK(submit(memory->base + memory->bytes - 512, 0, 1024) == EFAULT);
        CHECK(submit(memory->base + memory->bytes + 4096, 0, 512) == EFAULT);
        dm_transferred ended[4];
        CHECK(kind->reap(opened.store, ended, 4, true) == 2);
        CHECK(kind->reap(opened.store, ended, 4, true) == 0);
    }
    CHECK(nvme.strays == 0);
    dm_memory_close(memory);
}

TEST_CASE("a capture on a namespace, which fills its blocks, is whole and can be sent", "[dm_nvme_store]")
{
    const std::uint32_t block = GENERATE(512U, 4096U);
    const bool is_filled = GENERATE(false, true);
    Nvme nvme(block, (8 << 20) / block);
    Clock clock;
    Port port;
    vipl_dm_receive receive{};
    vipl_dm_reason reason{};
    std::uint64_t arrived = 0;
    const std::string name =
        std::string("nvme:") + kAddress + ",lba=64,blocks=" + std::to_string((1 << 20) / block);
    clock.step = 100;
    port.clock = &clock;
    port.arrive = [&](std::uint8_t *at, std::uint32_t) -> std::uint32_t {
        if (arrived == (is_filled ? 2000 : 301)) {
            return 0;
        }
        const Bytes one = frame(static_cast<std::uint32_t>(arrived), 60 + arrived * 7 % 1400);
        std::memcpy(at, one.data(), one.size());
        arrived++;
        return static_cast<std::uint32_t>(one.size());
    };
    receive.path.store = name.c_str();
    receive.path.chunk_bytes = 65536;
    share(nvme);
    const dm_capture_parts parts{memory_of(4 * 65536), &port, &clock.ops};
    vipl_dm_capture *capture = nullptr;
    REQUIRE(dm_capture_create(&receive, &parts, &capture, &reason) == 0);
    char text[1024];
    vipl_dm_capture_explain(capture, text, sizeof(text));
    CHECK(std::string(text).find("A disk of the test's") != std::string::npos);
    int is_done = 0;
    const int error = vipl_dm_capture_run(capture, 10000000, &is_done, &reason);
    CHECK(error == (is_filled ? ENOSPC : 0));
    CHECK(vipl_dm_capture_stop(capture, &reason) == 0);
    vipl_dm_capture_close(capture);
    CHECK(nvme.closed == 1);

    const Opened opened = open(nvme, name.substr(name.find(",")), DM_READ);
    INFO(opened.why);
    REQUIRE(opened.error == 0);
    const Bytes bytes = read_all(opened.store);
    const Reading reading = read(bytes);
    INFO(reading.why);
    CHECK(reading.error == ENODATA);
    CHECK_FALSE(reading.is_cut);
    REQUIRE(reading.packets.size() == (is_filled ? 480 : 301)); // fifteen chunks of 32 slots
    for (std::size_t i = 0; i < reading.packets.size(); ++i) {
        const Bytes one = frame(static_cast<std::uint32_t>(i), 60 + i * 7 % 1400);
        REQUIRE(reading.packets[i].bytes == one.size());
        CHECK(std::memcmp(bytes.data() + reading.packets[i].offset, one.data(), one.size()) == 0);
    }
    CHECK(nvme.strays == 0);
}

TEST_CASE("a sender reads chunks from a namespace", "[dm_nvme_store]")
{
    const std::uint32_t block = GENERATE(512U, 4096U);
    Nvme nvme(block, (8 << 20) / block);
    Clock clock;
    Port port;
    put_recording(nvme, 0, recording_of(1500));
    dm_memory *memory = memory_of(3 * 65536);
    Opened opened = open(nvme, "", DM_READ, memory);
    REQUIRE(opened.error == 0);
    vipl_dm_send send{};
    send.path.chunk_bytes = 65536;
    send.loops = 2;
    dm_sender_parts parts{opened.store, memory, &port, &clock.ops, {}};
    const dm_source source{[](void *store, std::uint64_t offset, std::uint8_t *to, std::uint32_t bytes) {
                               auto *const of = static_cast<dm_store *>(store);
                               return of->kind->read(of, offset, to, bytes);
                           },
                           opened.store, opened.store->bytes};
    vipl_dm_reason reason{};
    REQUIRE(dm_index_make(&source, opened.store->identity, &parts.index, &reason) == 0);
    opened.store = nullptr; // it is the sender's
    vipl_dm_sender *sender = nullptr;
    REQUIRE(dm_sender_create(&send, &parts, &sender, &reason) == 0);
    unsigned sent = 0;
    port.lag = 10;
    port.on_completed = [&sent](const dm_packet &packet) {
        const unsigned i = sent++ % 1500;
        const Bytes one = frame(i, 60 + i * 7 % 1400);
        REQUIRE(packet.bytes == one.size());
        REQUIRE(std::memcmp(packet.at, one.data(), one.size()) == 0);
    };
    clock.step = 100;
    int is_done = 0;
    CHECK(vipl_dm_sender_run(sender, 1000000000, &is_done, &reason) == 0);
    CHECK(is_done == 1);
    CHECK(sent == 3000);
    vipl_dm_sender_close(sender);
    CHECK(nvme.closed == 1);
    CHECK(nvme.strays == 0);
}
