// SPDX-License-Identifier: MIT
//
// The driver's verbs: memory of the card.
#include <cerrno>

#include "opened_function.hpp"

using namespace unit;

TEST_CASE("allocate_mr registers memory of the card where it is, and maps nothing", "[verbs]")
{
    const bool linear = GENERATE(true, false);
    alignas(64) static std::uint8_t bytes[5 * 64];
    Opened opened(true, 6, {bytes + 64, 2 * 64, 64, 3 * 64});
    FakeFunction &fake = opened.fake;
    void *dram = nullptr, *sram = nullptr;
    vipl_rnic_mr mr;
    fake.linear = linear;
    REQUIRE(vipl_rnic_alloc_memory(opened.rnic, 128, VIPL_RNIC_DRAM, &fake, &dram) == 0);
    REQUIRE(vipl_rnic_alloc_memory(opened.rnic, 1, VIPL_RNIC_SRAM, &fake, &sram) == 0);
    CHECK(dram == bytes + 64);
    CHECK(sram == bytes + 192);
    const std::size_t maps = fake.maps.size();
    for (const unsigned from : {64u, 142u, 192u}) {
        REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, bytes + from, 50, RNIC_RIGHT_REMOTE_WRITE,
                                      &mr) == 0);
        CHECK(fake.last()[RNIC_CMD_MR_RIGHTS] == (RNIC_RIGHT_REMOTE_WRITE | RNIC_RIGHT_DEVICE));
        CHECK(fake.last()[RNIC_CMD_MR_PAGE_SHIFT] == 0);
        CHECK(fake.u32(fake.last(), RNIC_CMD_MR_PAGES) == 0);
        CHECK(fake.u64(fake.last(), RNIC_CMD_MR_VIRTUAL) == reinterpret_cast<std::uintptr_t>(bytes + from));
        CHECK(fake.u64(fake.last(), RNIC_CMD_MR_IOVA) == from - 64);
        CHECK(fake.maps.size() == maps);
        CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == 0);
    }
    for (const unsigned from : {63u, 191u, 255u}) { // a part of it, or of two pieces
        CHECK(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, bytes + from, 2, 0, &mr) == EINVAL);
    }
    fake.linear = true;
    for (const unsigned from : {62u, 256u}) { // beside it
        REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, bytes + from, 2, 0, &mr) == 0);
        CHECK(fake.last()[RNIC_CMD_MR_RIGHTS] == 0);
        CHECK(fake.maps.size() == maps + 1);
        CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == 0);
    }
}

TEST_CASE("memory of the card stays while it is registered, and as long as the card may have the tag",
          "[verbs]")
{
    alignas(64) static std::uint8_t bytes[64];
    Opened opened(true, 6, {bytes, 64, 0, 64});
    FakeFunction &fake = opened.fake;
    const int owner = 0, other = 0;
    void *at = nullptr;
    vipl_rnic_mr mr;
    REQUIRE(vipl_rnic_alloc_memory(opened.rnic, 64, VIPL_RNIC_DRAM, &owner, &at) == 0);
    fake.answer = [](const FakeFunction::Command &) { return Answer{RNIC_STATUS_NO_ROOM}; };
    CHECK(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, at, 64, 0, &mr) != 0); // is not registered
    fake.answer = [](const FakeFunction::Command &) { return Answer{}; };
    CHECK(vipl_rnic_free_memory(opened.rnic, &other, at) == ENOENT);
    REQUIRE(vipl_rnic_free_memory(opened.rnic, &owner, at) == 0);
    REQUIRE(vipl_rnic_alloc_memory(opened.rnic, 64, VIPL_RNIC_DRAM, &owner, &at) == 0);
    REQUIRE(vipl_rnic_allocate_mr(opened.rnic, &opened.pd, at, 64, 0, &mr) == 0);
    CHECK(vipl_rnic_free_memory(opened.rnic, &owner, at) == EBUSY);
    fake.answer = [](const FakeFunction::Command &) { return Answer{RNIC_STATUS_NO_OBJECT}; };
    CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == ENOENT); // the card may have it still
    CHECK(vipl_rnic_free_memory(opened.rnic, &owner, at) == EBUSY);
    vipl_rnic_free_memory_of(opened.rnic, &owner);
    CHECK(vipl_rnic_free_memory(opened.rnic, &owner, at) == ENOENT);
    void *next = nullptr;
    CHECK(vipl_rnic_alloc_memory(opened.rnic, 1, VIPL_RNIC_DRAM, &other, &next) == ENOSPC);
    fake.answer = [](const FakeFunction::Command &) { return Answer{}; };
    CHECK(vipl_rnic_free_mr(opened.rnic, &mr) == 0);
    CHECK(vipl_rnic_alloc_memory(opened.rnic, 1, VIPL_RNIC_DRAM, &other, &next) == 0);
    CHECK(next == at);
}

TEST_CASE("no more memory of the card is allocated than is mapped, and none of a card that is dead",
          "[verbs]")
{
    alignas(64) static std::uint8_t bytes[128];
    void *at = nullptr;
    {
        Opened opened(true, 6, {bytes, 1 << 20, 4096, 100});
        CHECK(vipl_rnic_alloc_memory(opened.rnic, 65, VIPL_RNIC_DRAM, &at, &at) == ENOSPC);
        CHECK(vipl_rnic_alloc_memory(opened.rnic, 1, VIPL_RNIC_SRAM, &at, &at) == ENOTSUP);
        CHECK(vipl_rnic_alloc_memory(opened.rnic, 64, VIPL_RNIC_DRAM, &at, &at) == 0);
        opened.fake.gone = true;
        CHECK(vipl_rnic_probe(opened.rnic));
        CHECK(vipl_rnic_alloc_memory(opened.rnic, 1, VIPL_RNIC_DRAM, &at, &at) == ENODEV);
    }
    {
        Opened opened(true, 6, {nullptr, 128, 0, 0});
        CHECK(vipl_rnic_alloc_memory(opened.rnic, 1, VIPL_RNIC_DRAM, &at, &at) == ENOTSUP);
        CHECK(vipl_rnic_free_memory(opened.rnic, &at, bytes) == ENOTSUP);
    }
}
