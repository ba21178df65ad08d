// SPDX-License-Identifier: MIT
//
// The driver of NVMe controllers: starting, transfers, and controllers that are broken or hostile.
#include "simulated_nvme.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

using namespace dm_test;

namespace {

struct Closer {
    void operator()(dm_nvme *nvme) const { dm_nvme_close(nvme); }
};
using Driver = std::unique_ptr<dm_nvme, Closer>;

/** Memory that the controller reaches, at an address on the bus. */
struct Memory {
    explicit Memory(Nvme &nvme, std::size_t bytes) : at(bytes)
    {
        REQUIRE(nvme.ops->map(&nvme, at.data(), bytes, &bus) == 0);
    }
    Bytes at;
    std::uint64_t bus = 0;
};

struct Ended {
    unsigned count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t cookies = 0; // a bit for each
    std::vector<int> errors;
};

/** All that ends, waiting as long as something is under way. */
Ended reap(dm_nvme *nvme, bool wait = true)
{
    Ended all;
    dm_transferred ended[7];
    unsigned count = 0;
    while ((count = dm_nvme_reap(nvme, ended, 7, wait)) > 0) {
        for (unsigned i = 0; i < count; ++i) {
            all.count++;
            all.bytes += ended[i].bytes;
            all.cookies |= UINT64_C(1) << ended[i].cookie;
            if (ended[i].error != 0) {
                all.errors.push_back(ended[i].error);
            }
        }
    }
    return all;
}

/** Why a controller is refused, and with what error. */
std::string refusal(Nvme &nvme, int error)
{
    dm_nvme *opened = nullptr;
    const int got = dm_nvme_open(&nvme, &nvme.clock.ops, "store \"nvme:test\"", &opened, &nvme.reason);
    CHECK(opened == nullptr);
    CHECK(got == error);
    CHECK(nvme.closed == 1);
    CHECK_FALSE(nvme.is_enabled);
    return nvme.reason.text;
}

#define REFUSED(nvme, error, why) CHECK(refusal(nvme, error).find(why) != std::string::npos)

} // namespace

TEST_CASE("a controller is started, says what it has, and is stopped", "[dm_nvme]")
{
    Nvme nvme(4096, 1000);
    nvme.cap |= UINT64_C(3) << 32; // doorbells 32 bytes apart
    nvme.format = 18;              // which FLBAS tells in two parts
    nvme.mdts = 5;
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    CHECK(std::string(driver->model) == "A disk of the test's?");
    CHECK(driver->block_bytes == 4096);
    CHECK(driver->blocks == 1000);
    CHECK(driver->most_bytes == 131072);
    CHECK(driver->has_cache);
    CHECK(dm_nvme_do(driver.get(), NVME_FLUSH, 0, 0) == 0);
    REQUIRE(nvme.commands.size() == 1);
    CHECK(nvme.commands[0].opcode == NVME_FLUSH);
    driver.reset();
    CHECK_FALSE(nvme.is_enabled);
    CHECK(nvme.closed == 1);
    CHECK(nvme.resets == 0);
    CHECK(nvme.strays == 0);
}

TEST_CASE("a controller that its last user has left at work is stopped first", "[dm_nvme]")
{
    Nvme nvme;
    nvme.is_enabled = true;
    nvme.is_stuck = true; // until it is reset
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    CHECK(nvme.resets == 1);
    CHECK(nvme.clock.now > 1500000000); // CAP.TO was 2, and one more
    CHECK(nvme.clock.now < 1600000000);
}

TEST_CASE("what cannot be, or cannot be used, is refused with the reason", "[dm_nvme]")
{
    SECTION("gone")
    {
        Nvme nvme;
        nvme.is_gone = true;
        REFUSED(nvme, ENODEV, "does not answer");
    }
    SECTION("no registers")
    {
        Nvme nvme;
        nvme.register_size = 0;
        REFUSED(nvme, ENXIO, "registers cannot be used");
    }
    SECTION("no command set for blocks, or no queue")
    {
        Nvme one;
        one.cap &= ~(UINT64_C(1) << 37);
        REFUSED(one, ENODEV, "no NVMe controller with blocks");
        Nvme other;
        other.cap &= ~UINT64_C(0xFFFF);
        REFUSED(other, ENODEV, "no NVMe controller with blocks");
    }
    SECTION("pages")
    {
        Nvme nvme;
        nvme.cap |= UINT64_C(1) << 48;
        REFUSED(nvme, ENOTSUP, "no pages of 4096");
    }
    SECTION("doorbells")
    {
        Nvme nvme;
        nvme.cap |= UINT64_C(15) << 32; // 128 KiB apart
        REFUSED(nvme, ENODEV, "doorbells are outside");
    }
    SECTION("it does not become ready")
    {
        Nvme nvme;
        nvme.is_stuck = true;
        REFUSED(nvme, ETIMEDOUT, "does not start");
    }
    SECTION("it does not stop, and cannot be reset")
    {
        Nvme nvme;
        nvme.is_stuck = nvme.is_enabled = true;
        nvme.can_reset = false;
        dm_nvme *opened = nullptr;
        CHECK(dm_nvme_open(&nvme, &nvme.clock.ops, "it", &opened, &nvme.reason) == ETIMEDOUT);
        CHECK(nvme.closed == 1);
    }
    SECTION("it has failed")
    {
        Nvme nvme;
        nvme.is_fatal = true;
        REFUSED(nvme, EIO, "does not start");
    }
    SECTION("no memory for queues")
    {
        Nvme nvme;
        nvme.can_map = false;
        REFUSED(nvme, EFAULT, "memory for its queues");
    }
    SECTION("no answer")
    {
        Nvme nvme;
        nvme.on_end = [](NvmeEnd &one) { one.queue = 2; };
        REFUSED(nvme, ETIMEDOUT, "does not answer Identify");
        CHECK(nvme.clock.now > 10000000000);
    }
    SECTION("an answer to another command")
    {
        Nvme nvme;
        nvme.on_end = [](NvmeEnd &one) { one.id = 77; };
        REFUSED(nvme, EIO, "does not answer Identify");
    }
    SECTION("a queue is refused")
    {
        Nvme nvme;
        nvme.status = [](const NvmeCommand &one) {
            return std::uint16_t(one.opcode == NVME_CREATE_SQ ? 0x101 : 0);
        };
        REFUSED(nvme, EIO, "refuses a pair of queues: status 0x101");
    }
    SECTION("queues of another form")
    {
        Nvme nvme;
        nvme.queue_entries = 0x77;
        REFUSED(nvme, ENOTSUP, "queues of another form");
    }
    SECTION("no namespace")
    {
        Nvme none(512, 0);
        REFUSED(none, ENODEV, "no namespace 1");
        Nvme refused;
        refused.status = [](const NvmeCommand &one) {
            return std::uint16_t(one.opcode == NVME_IDENTIFY && one.word10 == NVME_IDENTIFY_NAMESPACE ? 0xB
                                                                                                      : 0);
        };
        REFUSED(refused, ENODEV, "no namespace 1: status 0xb");
    }
    SECTION("blocks")
    {
        for (const unsigned log2 : {1U, 8U, 13U, 31U, 64U, 255U}) {
            Nvme nvme;
            nvme.block_log2 = static_cast<std::uint8_t>(log2);
            REFUSED(nvme, ENOTSUP, "not 512 to 4096");
        }
        Nvme metadata;
        metadata.metadata = 8;
        REFUSED(metadata, ENOTSUP, "have metadata");
        Nvme large;
        large.size = UINT64_C(1) << 55;
        REFUSED(large, ENODEV, "which cannot be");
    }
}

TEST_CASE("transfers of all sizes, all that are taken at a time, whatever the order of their ends",
          "[dm_nvme]")
{
    const std::uint32_t block = GENERATE(512U, 4096U);
    const bool newest_first = GENERATE(false, true);
    const unsigned entries = GENERATE(1024U, 4U);
    const unsigned shift = entries == 4 ? 512 : 0; // of the memory in its first page
    Nvme nvme(block, (20 << 20) / block);
    nvme.cap = (nvme.cap & ~UINT64_C(0xFFFF)) | (entries - 1);
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, (20 << 20) + 4096);
    for (std::size_t i = 0; i < memory.at.size(); ++i) {
        memory.at[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8) * 13 + (i >> 16));
    }
    const auto bytes_of = [block](unsigned i) { return i % 4 == 3 ? 300 * 1024 : (i + 1) * block; };
    const auto submit = [&](unsigned opcode, unsigned i) {
        return dm_nvme_submit(driver.get(), opcode, memory.bus + shift + i * 0x50000ULL,
                              i * 0x50000ULL / block, bytes_of(i), i);
    };
    std::uint64_t bytes = 0;
    nvme.is_held = true;
    for (unsigned i = 0; i < 64; ++i) {
        REQUIRE(submit(NVME_WRITE, i) == 0);
        bytes += bytes_of(i);
    }
    CHECK(submit(NVME_WRITE, 0) == EAGAIN);
    CHECK(reap(driver.get(), false).count == 0);
    CHECK(nvme.held.size() == std::min(entries - 1, 63U)); // one place of a queue is always free
    Ended all;
    while (all.count < 64) {
        nvme.end_all(newest_first);
        const Ended some = reap(driver.get(), false);
        all.count += some.count;
        all.bytes += some.bytes;
        all.cookies |= some.cookies;
        REQUIRE(some.errors.empty());
    }
    CHECK(all.bytes == bytes);
    CHECK(all.cookies == UINT64_MAX);
    for (unsigned i = 0; i < 64; ++i) {
        CHECK(std::memcmp(nvme.disk(i * 0x50000ULL / block), memory.at.data() + shift + i * 0x50000ULL,
                          bytes_of(i)) == 0);
    }
    const Bytes before = memory.at;
    std::fill(memory.at.begin(), memory.at.end(), std::uint8_t{0});
    nvme.is_held = false;
    for (unsigned i = 0; i < 64; ++i) {
        REQUIRE(submit(NVME_READ, i) == 0);
    }
    CHECK(reap(driver.get()).bytes == bytes);
    for (unsigned i = 0; i < 64; ++i) {
        const std::size_t at = shift + i * std::size_t{0x50000};
        CHECK(std::memcmp(memory.at.data() + at, before.data() + at, bytes_of(i)) == 0);
        CHECK(memory.at[at + bytes_of(i)] == 0); // nothing beyond
    }
    CHECK(nvme.most_pending <= entries - 1);
    CHECK(nvme.strays == 0);
}

TEST_CASE("a command that fails ends its transfer, and no other", "[dm_nvme]")
{
    Nvme nvme;
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 1 << 20);
    unsigned seen = 0;
    nvme.status = [&seen](const NvmeCommand &one) {
        seen++;
        return std::uint16_t(one.word10 == 128 ? 0x281 : one.word10 == 2000 ? NVME_STATUS_PROTECTED : 0);
    };
    nvme.is_held = true;
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 1 << 19, 1) == 0); // the second of eight
    REQUIRE(dm_nvme_submit(driver.get(), NVME_WRITE, memory.bus, 2000, 4096, 2) == 0);
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 3000, 4096, 3) == 0);
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 65535, 4096, 4) == 0); // beyond the end
    nvme.end_all();
    const Ended all = reap(driver.get());
    CHECK(all.count == 4);
    CHECK(all.errors == std::vector<int>{EIO, EROFS, ENXIO});
    CHECK(all.bytes == 4096);
    nvme.is_held = false;
    CHECK(dm_nvme_do(driver.get(), NVME_READ, 128, 512) == EIO);
    CHECK(dm_nvme_do(driver.get(), NVME_READ, 129, 512) == 0); // it goes on
}

TEST_CASE("the older transfer goes first", "[dm_nvme]")
{
    Nvme nvme;
    nvme.cap = (nvme.cap & ~UINT64_C(0xFFFF)) | 3; // three commands at a time
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 1 << 20);
    nvme.is_held = true;
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, i * 1000, 4 << 16, i) == 0);
    }
    unsigned count = 0;
    while (count < 4) {
        nvme.end_all();
        count += reap(driver.get(), false).count;
    }
    REQUIRE(nvme.commands.size() == 16);
    for (std::size_t i = 0; i < 16; ++i) {
        CHECK(nvme.commands[i].word10 == i / 4 * 1000 + i % 4 * 128);
    }
}

TEST_CASE("of a transfer that has failed nothing more is posted", "[dm_nvme]")
{
    Nvme nvme;
    nvme.cap = (nvme.cap & ~UINT64_C(0xFFFF)) | 2; // two commands at a time
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 1 << 20);
    nvme.status = [](const NvmeCommand &one) { return std::uint16_t(one.word10 == 0 ? 0x281 : 0); };
    nvme.is_held = true;
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 8 << 16, 0) == 0);
    nvme.end_all();
    CHECK(reap(driver.get()).errors == std::vector<int>{EIO});
    CHECK(nvme.commands.size() == 2); // of eight
}

TEST_CASE("what is done at once does not disturb transfers, and waits for room", "[dm_nvme]")
{
    Nvme nvme;
    nvme.cap = (nvme.cap & ~UINT64_C(0xFFFF)) | 2; // two commands at a time
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 1 << 20);
    std::memset(nvme.disk(7), 0x5A, 512);
    nvme.is_held = true;
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 4 << 16, 5) == 0);
    CHECK(nvme.held.size() == 2);
    nvme.end_all(); // the next two are posted by the call
    nvme.is_held = false;
    CHECK(dm_nvme_do(driver.get(), NVME_READ, 7, 512) == 0);
    CHECK(driver->bounce[511] == 0x5A);
    const Ended all = reap(driver.get());
    CHECK(all.count == 1);
    CHECK(all.cookies == 1 << 5);
    CHECK(all.bytes == 4 << 16);
}

TEST_CASE("a controller that answers nonsense is stopped, and all ends with an error", "[dm_nvme]")
{
    const int kind = GENERATE(0, 1, 2);
    Nvme nvme;
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 1 << 20);
    nvme.is_held = true;
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 65536, i) == 0);
    }
    if (kind == 0) {
        nvme.end({1, 64, 0}); // beyond all commands
    } else if (kind == 1) {
        nvme.end({1, 40, 0}); // a command that was not given
    } else {
        nvme.end(nvme.held[0]);
        nvme.end(nvme.held[0]); // twice
    }
    const Ended all = reap(driver.get());
    CHECK(all.count == 4);
    CHECK(all.errors.size() == (kind == 2 ? 3 : 4));
    CHECK(all.errors.back() == EIO);
    CHECK_FALSE(nvme.is_enabled);
    CHECK(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 512, 0) == EIO);
    CHECK(dm_nvme_do(driver.get(), NVME_READ, 0, 512) == EIO);
    CHECK(reap(driver.get()).count == 0);
}

TEST_CASE("a flood of answers is taken a queue at a time", "[dm_nvme]")
{
    Nvme nvme;
    nvme.cap = (nvme.cap & ~UINT64_C(0xFFFF)) | 3;
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 4096);
    std::uint64_t ends = 0;
    nvme.on_end = [&](NvmeEnd &one) {
        if (one.queue == 1) { // ahead of the real one: the other entries of the ring, with the same id
            for (int i = 0; i < 9; ++i) {
                nvme.end(one);
                ends++;
            }
        }
    };
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 512, 0) == 0);
    const Ended all = reap(driver.get());
    CHECK(ends == 9);
    CHECK(all.count == 1); // well or not, it has ended
}

TEST_CASE("whatever a controller answers, all transfers end, and each once", "[dm_nvme]")
{
    unsigned failed = 0; // controllers
    for (unsigned seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto one_of = [&random](unsigned many) { return random() % many == 0; };
        const unsigned rare = seed % 2 == 0 ? 200 : 100000;
        Nvme nvme;
        Driver driver(nvme.open());
        REQUIRE(driver != nullptr);
        Memory memory(nvme, 1 << 20);
        nvme.clock.step = 100000;
        nvme.is_held = true;
        nvme.status = [&](const NvmeCommand &) { return std::uint16_t(one_of(20) ? random() % 0x800 : 0); };
        nvme.on_end = [&](NvmeEnd &one) {
            if (one_of(rare)) {
                one.id = static_cast<std::uint16_t>(random());
            } else if (one_of(rare)) {
                one.queue = 2; // it is forgotten
            } else if (one_of(rare)) {
                nvme.end(one); // and once more
            } else if (one_of(rare)) {
                nvme.is_fatal = true;
            }
        };
        std::uint64_t submitted = 0;
        Ended all;
        for (unsigned round = 0; round < 20; ++round) {
            while (submitted < 400 &&
                   dm_nvme_submit(driver.get(), one_of(2) ? NVME_READ : NVME_WRITE, memory.bus,
                                  random() % 65536, (1 + random() % 600) * 512, submitted % 64) == 0) {
                submitted++;
            }
            nvme.end_all(one_of(2));
            all.count += reap(driver.get(), false).count;
        }
        nvme.is_held = false; // the rest ends at once, or never
        nvme.end_all();
        all.count += reap(driver.get()).count;
        CHECK(all.count == submitted);
        CHECK(nvme.is_enabled == (driver->error == 0));
        CHECK(nvme.strays == 0);
        failed += driver->error != 0 ? 1 : 0;
    }
    CHECK(failed > 10);
    CHECK(failed < 35);
}

TEST_CASE("a controller that falls silent is given up after half a minute", "[dm_nvme]")
{
    Nvme nvme;
    Driver driver(nvme.open());
    REQUIRE(driver != nullptr);
    Memory memory(nvme, 1 << 20);
    nvme.is_held = true;
    REQUIRE(dm_nvme_submit(driver.get(), NVME_READ, memory.bus, 0, 65536, 0) == 0);
    const std::uint64_t start = nvme.clock.now;
    SECTION("silence")
    {
        const Ended all = reap(driver.get());
        CHECK(all.errors == std::vector<int>{ETIMEDOUT});
        CHECK(nvme.clock.now - start >= 30000000000);
        CHECK(nvme.clock.now - start < 31000000000);
        CHECK_FALSE(nvme.is_enabled);
    }
    SECTION("it is gone")
    {
        nvme.is_gone = true;
        CHECK(reap(driver.get()).errors == std::vector<int>{ENODEV});
        CHECK(nvme.clock.now - start < 1000000000);
    }
    SECTION("it has failed, and nobody waits")
    {
        nvme.is_fatal = true;
        while (reap(driver.get(), false).count == 0) {
            nvme.clock.now += 1000000;
            REQUIRE(nvme.clock.now - start < 1000000000);
        }
        CHECK_FALSE(nvme.is_enabled);
    }
    SECTION("what takes long, but not for ever, is waited for")
    {
        nvme.clock.now += 29000000000;
        CHECK(reap(driver.get(), false).count == 0);
        nvme.end_all();
        CHECK(reap(driver.get()).bytes == 65536);
    }
}
