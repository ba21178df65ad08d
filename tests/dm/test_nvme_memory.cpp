// SPDX-License-Identifier: MIT
//
// Memory of PCI functions: the memory buffer of a controller, which memory a controller reaches,
// and with what such memory goes.
#include "simulated_nvme.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>

extern "C" {
#include "dm/nvme/memory_cmb.h"
#include "dm/nvme/reach.h"
#include "dm/nvme/shared.h"
#include "dm/path.h"
#include "dm/store.h"
}

using namespace dm_test;

namespace {

constexpr const char *kAddress = "0000:00:05.0";

void share(Nvme &nvme)
{
    dm_nvme *driver = nvme.open();
    REQUIRE(driver != nullptr);
    dm_nvme_share(driver, kAddress);
}

/** Memory by its name, of a controller that the name finds. */
struct Cmb {
    explicit Cmb(Nvme &nvme, std::uint64_t bytes = 0)
    {
        const dm_memory_use use{};
        share(nvme);
        nvme.cmb.assign(nvme.cmb.size(), 0xEE);
        error = dm_memory_open("cmb:0000:00:05.0", bytes, &use, &memory, &nvme.reason);
        why = nvme.reason.text;
    }
    ~Cmb() { dm_memory_close(memory); }
    int error;
    std::string why;
    dm_memory *memory = nullptr;
};

/** A recording at block 0, which is no recording. */
void put_label(Nvme &nvme)
{
    const std::string text = "VIPL recording 1\nbytes 65536\nwritten 1\n";
    std::memcpy(nvme.disk(0), text.data(), text.size());
}

/** Memory that stands for a device's. */
struct Foreign : dm_memory {
    explicit Foreign(std::size_t size) : dm_memory{}, at(size, 0x77)
    {
        kind = &dm_memory_bar;
        base = at.data();
        bytes = size;
        std::strcpy(text, "foreign");
    }
    Bytes at;
};

} // namespace

TEST_CASE("a memory buffer is memory of its own controller's store, without the bus", "[dm_nvme_memory]")
{
    Nvme nvme;
    put_label(nvme);
    for (unsigned i = 0; i < 65536; ++i) {
        nvme.disk(8)[i] = static_cast<std::uint8_t>(i * 31 + (i >> 8));
    }
    {
        const Cmb cmb(nvme);
        INFO(cmb.why);
        REQUIRE(cmb.error == 0);
        CHECK(cmb.memory->bytes == 1 << 20);
        CHECK(cmb.memory->base == nvme.cmb.data());
        CHECK(nvme.cmb == Bytes(1 << 20)); // nothing of its last user
        CHECK(cmb.memory->on_bus != nullptr);
        CHECK(std::string(cmb.memory->text).find("A disk of the test's") != std::string::npos);
        const dm_store_wish wish{DM_READ, false, cmb.memory};
        dm_store *store = nullptr;
        REQUIRE(dm_store_open("nvme:0000:00:05.0", &wish, &store, &nvme.reason) == 0);
        CHECK(nvme.cmb == Bytes(1 << 20)); // what was tried there is put back
        const dm_transfer one{cmb.memory->base + 8192, 0, 65536, 0};
        CHECK(store->kind->submit(store, &one) == 0);
        dm_transferred ended;
        CHECK(store->kind->reap(store, &ended, 1, true) == 1);
        CHECK(ended.error == 0);
        CHECK(std::memcmp(nvme.cmb.data() + 8192, nvme.disk(8), 65536) == 0);
        CHECK(nvme.bus_of(cmb.memory->base) == 0); // it is not mapped for the bus
        CHECK(nvme.strays == 0);
        dm_store_close(store);
        CHECK(nvme.closed == 0); // the memory is there yet
    }
    CHECK(nvme.closed == 1);
}

TEST_CASE("what a controller says of its memory buffer is checked", "[dm_nvme_memory]")
{
    const auto check = [](Nvme &nvme, int error, const char *why, std::uint64_t bytes = 0) {
        {
            const Cmb cmb(nvme, bytes);
            INFO(cmb.why);
            CHECK(cmb.error == error);
            CHECK(cmb.why.find(why) != std::string::npos);
        }
        CHECK(nvme.closed == 1);
    };
    Nvme old;
    old.cap &= ~(UINT64_C(1) << 57);
    check(old, ENOTSUP, "no memory buffer, or is older");
    Nvme none;
    none.cmb_bytes = 0;
    check(none, ENOTSUP, "has no bytes");
    Nvme unit;
    unit.cmbsz = 1 << 12 | 7 << 8;
    check(unit, ENOTSUP, "has no bytes");
    Nvme bar;
    bar.cmbloc = 4;
    check(bar, ENXIO, "BAR 4 cannot be mapped");
    Nvme large;
    large.cmbsz = 257 << 12;
    check(large, ENODEV, "outside of BAR 2");
    Nvme far;
    far.cmbloc = 1 << 12 | 2;
    check(far, ENODEV, "outside of BAR 2");
    Nvme farther;
    farther.cmbsz = 0xFFFFF618; // 2^20 units of 64 GiB
    farther.cmbloc = 0xFFFFF002;
    check(farther, ENODEV, "outside of BAR 2");
    Nvme small;
    check(small, ENOTSUP, "1048576 bytes of it, and not 1052672", 1052672);
    Nvme refusing;
    refusing.refuses_cmb = true;
    check(refusing, ENOTSUP, "refuses its address");
    Nvme part;
    const Cmb cmb(part, 65536);
    REQUIRE(cmb.error == 0);
    CHECK(cmb.memory->bytes == 65536);
}

TEST_CASE("a memory buffer that its last user has left enabled is not in front of other memory",
          "[dm_nvme_memory]")
{
    Nvme nvme;
    {
        const Cmb cmb(nvme);
        REQUIRE(cmb.error == 0);
    }
    nvme.forget_maps(); // the next process has addresses of its own, from the same one on
    put_label(nvme);
    std::memset(nvme.disk(8), 0x42, 65536);
    dm_memory *memory = memory_of(1 << 20);
    const dm_store_wish wish{DM_READ, false, memory};
    dm_store *store = nullptr;
    share(nvme);
    REQUIRE(dm_store_open("nvme:0000:00:05.0", &wish, &store, &nvme.reason) == 0);
    const dm_transfer one{memory->base, 0, 65536, 0};
    CHECK(store->kind->submit(store, &one) == 0);
    dm_transferred ended;
    CHECK(store->kind->reap(store, &ended, 1, true) == 1);
    CHECK(memory->base[0] == 0x42);
    CHECK(memory->base[65535] == 0x42);
    dm_store_close(store);
    dm_memory_close(memory);
}

TEST_CASE("memory that the controller's data does not reach is refused", "[dm_nvme_memory]")
{
    Nvme nvme;
    put_label(nvme);
    dm_store *store = nullptr;
    const auto open = [&](enum dm_direction direction, const dm_memory *memory) {
        const dm_store_wish wish{direction, false, memory};
        return dm_store_open("nvme:0000:00:05.0,lba=0,blocks=1000", &wish, &store, &nvme.reason);
    };
    SECTION("a buffer at another address than it was given")
    {
        nvme.keeps_cmb = true;
        const Cmb cmb(nvme);
        REQUIRE(cmb.error == 0);
        CHECK(open(DM_READ, cmb.memory) == ENOTSUP);
        CHECK(std::string(nvme.reason.text).find("does not arrive") != std::string::npos);
        CHECK(nvme.strays > 0);
    }
    SECTION("a buffer that may not have the data of one direction")
    {
        nvme.cmbsz = 256 << 12 | 0x8;
        const Cmb cmb(nvme);
        REQUIRE(cmb.error == 0);
        CHECK(open(DM_WRITE, cmb.memory) == ENOTSUP);
        CHECK(std::string(nvme.reason.text).find("the data of writes") != std::string::npos);
        CHECK(open(DM_READ, cmb.memory) == 0);
        dm_store_close(store);
    }
    SECTION("memory of another function, which the IOMMU lets it reach")
    {
        Foreign foreign(65536);
        share(nvme);
        REQUIRE(open(DM_READ, &foreign) == 0);
        CHECK(foreign.at == Bytes(65536, 0x77));
        CHECK(nvme.bus_of(foreign.at.data()) != 0);
        dm_store_close(store);
    }
    SECTION("of which only the beginning arrives")
    {
        Foreign foreign(65536);
        share(nvme);
        nvme.map_most = 32768;
        CHECK(open(DM_READ, &foreign) == ENOTSUP);
        CHECK(std::string(nvme.reason.text).find("does not arrive") != std::string::npos);
        CHECK(foreign.at == Bytes(65536, 0x77));
    }
    SECTION("which the IOMMU does not let it reach")
    {
        Foreign foreign(65536);
        share(nvme);
        nvme.can_map = false;
        CHECK(open(DM_READ, &foreign) == ENOTSUP);
        CHECK(std::string(nvme.reason.text).find("does not reach it: Bad address") != std::string::npos);
    }
    CHECK(nvme.strays < 10);
}

TEST_CASE("memory of functions goes with what moves packets by DMA, and with nothing else",
          "[dm_nvme_memory]")
{
    Nvme nvme;
    Port port;
    vipl_dm_reason reason{};
    dm_memory *memory = nullptr;
    share(nvme);
    dm_memory_use use{nullptr, true, false};
    CHECK(dm_memory_open("cmb:0000:00:05.0", 0, &use, &memory, &reason) == ENOTSUP);
    CHECK(std::string(reason.text).find("data of files") != std::string::npos);
    CHECK(nvme.closed == 1);
    dm_port packet{};
    packet.kind = &dm_port_packet;
    use = {&packet, false, false};
    CHECK(dm_memory_open("cmb:0000:00:05.0", 0, &use, &memory, &reason) == ENOTSUP);
    CHECK(std::string(reason.text) ==
          "memory \"cmb:0000:00:05.0\": " + std::string(dm_port_packet.needs_main));
    use = {nullptr, true, true};
    REQUIRE(dm_memory_open("cmb:ffff:1f:1f.7", 4096, &use, &memory, &reason) == 0);
    CHECK(std::string(memory->text).find("ram, because memory \"cmb:ffff:1f:1f.7\": there is no such") == 0);
    dm_memory_close(memory);
    use = {};
    CHECK(dm_memory_open("bar:ffff:1f:1f.7:2", 0, &use, &memory, &reason) == ENODEV);
    for (const char *name : {"bar:", "bar:2", "bar:ffff:1f:1f.7", "bar:ffff:1f:1f.7:6", "bar:ffff:1f:1f.7:22",
                             "bar:ffff:1f:1f.x:2", "bar:../../../../../../x:2", "cmb:", "cmb:1f:1f.7"}) {
        CAPTURE(name);
        CHECK(dm_memory_open(name, 0, &use, &memory, &reason) == EINVAL);
    }
}
