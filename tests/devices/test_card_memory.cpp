// SPDX-License-Identifier: MIT
//
// Device memory: BAR4, registered with the right DEVICE.
#include <algorithm>
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

constexpr std::uint64_t kDram = 65536, kSram = 4096; // small_config()
constexpr std::uint64_t kVirtual = 0x700000001000;
constexpr unsigned kDevice = RNIC_RIGHT_DEVICE | RNIC_RIGHT_REMOTE_WRITE | RNIC_RIGHT_REMOTE_READ;

std::uint32_t tag_of(Driver &driver, std::uint64_t offset, std::uint64_t bytes, unsigned rights = kDevice)
{
    const Completion answer = driver.register_linear(kVirtual, bytes, offset, rights);
    REQUIRE(answer.status == RNIC_STATUS_OK);
    return answer.info;
}

Work writes(std::uint32_t bytes, Segment from, std::uint64_t to, std::uint32_t tag)
{
    Work work;
    work.opcode = RNIC_WORK_WRITE;
    work.cookie = 7;
    work.segments = {from};
    work.segments[0].length = bytes;
    work.remote_address = to;
    work.remote_stag = tag;
    return work;
}

void fill(std::uint8_t *at, std::uint32_t bytes, unsigned seed)
{
    for (std::uint32_t i = 0; i < bytes; ++i) {
        at[i] = static_cast<std::uint8_t>(i * 13 + i / 255 + seed);
    }
}

} // namespace

TEST_CASE("BAR4 is memory for accesses of all widths, and nothing behind its end", "[card]")
{
    Host host;
    rnic_card_bar_write(&host.card, 1, 4, 8, 8, 0x1122334455667788);
    CHECK(rnic_card_bar_read(&host.card, 1, 4, 8, 8) == 0x1122334455667788);
    CHECK(rnic_card_bar_read(&host.card, 1, 4, 9, 2) == 0x6677);
    CHECK(host.bar4(1)[8] == 0x88);
    rnic_card_bar_write(&host.card, 1, 4, kDram + kSram - 1, 4, 0xFFFFFFFF); // its last byte alone
    CHECK(rnic_card_bar_read(&host.card, 1, 4, kDram + kSram - 2, 8) == 0xFF00);
    CHECK(host.bar4(1)[kDram + kSram] == 0);
    for (const std::uint64_t at : {kDram + kSram, std::uint64_t(1) << 40, UINT64_MAX - 2}) {
        rnic_card_bar_write(&host.card, 1, 4, at, 8, UINT64_MAX);
        CHECK(rnic_card_bar_read(&host.card, 1, 4, at, 8) == 0);
    }
    CHECK(rnic_card_bar_read(&host.card, 2, 4, 8, 8) == 0); // each function has its own
}

TEST_CASE("without device memory there is no BAR4", "[card]")
{
    rnic_card_config config = small_config();
    config.dram_bytes = config.sram_bytes = 0;
    CHECK(rnic_card_bar4_bytes(&config) == 0);
    Host host(config);
    CHECK((host.reg(0, RNIC_REG_CAPS) & RNIC_CAPS_DEVICE_MEMORY) == 0);
    rnic_card_config_write(&host.card, 0, 0x20, 4, 0xFFFFFFFF);
    CHECK(rnic_card_config_read(&host.card, 0, 0x20, 4) == 0);
    rnic_card_bar_write(&host.card, 0, 4, 0, 4, 5);
    CHECK(rnic_card_bar_read(&host.card, 0, 4, 0, 4) == 0);
    Driver driver(host, 0);
    driver.enable();
    CHECK(driver.register_linear(kVirtual, 64, 0, kDevice).status == RNIC_STATUS_INVALID);
}

TEST_CASE("device memory is registered where it is, and as one range", "[card]")
{
    Host host;
    Driver driver(host, 0);
    driver.enable();
    const auto status = [&driver](std::uint64_t offset, std::uint64_t bytes, unsigned rights) {
        return driver.register_linear(kVirtual, bytes, offset, rights).status;
    };
    CHECK(status(0, kDram + kSram, kDevice) == RNIC_STATUS_OK);
    CHECK(status(kDram + kSram - 1, 1, kDevice) == RNIC_STATUS_OK);
    CHECK(status(1, kDram + kSram, kDevice) == RNIC_STATUS_INVALID);
    CHECK(status(kDram + kSram, 1, kDevice) == RNIC_STATUS_INVALID);
    CHECK(status(UINT64_MAX, 2, kDevice) == RNIC_STATUS_INVALID);
    CHECK(status(0, 64, kDevice | 32) == RNIC_STATUS_INVALID);

    Bytes list = driver.command(RNIC_COMMAND_REGISTER);
    list[RNIC_CMD_MR_RIGHTS] = kDevice;
    list[RNIC_CMD_MR_PAGE_SHIFT] = 12;
    rnic_put16(&list[RNIC_CMD_MR_REALM], 1, false);
    rnic_put32(&list[RNIC_CMD_MR_DOMAIN], 1, false);
    rnic_put32(&list[RNIC_CMD_MR_PAGES], 1, false);
    rnic_put64(&list[RNIC_CMD_MR_LENGTH], 4096, false);
    CHECK(driver.execute(list).status == RNIC_STATUS_INVALID);

    // CHANGE_MR changes what may be done, not where the memory is.
    Bytes change = driver.command(RNIC_COMMAND_CHANGE_MR, tag_of(driver, 0, 64));
    rnic_put32(&change[RNIC_CMD_MR_DOMAIN], 1, false);
    change[RNIC_CMD_MR_RIGHTS] = kDevice;
    CHECK(driver.execute(change).status == RNIC_STATUS_INVALID);
    change[RNIC_CMD_MR_RIGHTS] = RNIC_RIGHT_REMOTE_WRITE;
    CHECK(driver.execute(change).status == RNIC_STATUS_OK);
}

TEST_CASE("messages go from device memory to device memory without the bus", "[card]")
{
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    setup.big_b = true;
    Two two(setup);
    const std::uint32_t tag_a = tag_of(two.a, 100, 60000), tag_b = tag_of(two.b, kDram - 3000, 5000);
    std::uint8_t *const from = two.host.bar4(two.a.fn) + 100;
    std::uint8_t *const to = two.b.host.bar4(two.b.fn) + kDram - 3000; // from DRAM into SRAM
    fill(from, 5000, 1);
    two.a.at(0)[100] = 77; // what is at that IOVA is not touched
    two.host.record = two.b.host.record = true;
    two.post_a(writes(4999, {kVirtual, 0, tag_a}, kVirtual + 1, tag_b));
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    CHECK(std::memcmp(from, to + 1, 4999) == 0);
    CHECK(to[0] == 0);
    CHECK(to[5000] == 0);
    for (const Host *host : {&two.host, &two.b.host}) {
        for (const Crossing &crossing : host->transactions) {
            const bool dma =
                crossing.kind == RNIC_TRANSACTION_DMA_READ || crossing.kind == RNIC_TRANSACTION_DMA_WRITE;
            REQUIRE_FALSE((dma && crossing.bytes > 64));
        }
    }
    // An RDMA Read of it, after a change of the rights.
    Bytes change = two.b.command(RNIC_COMMAND_CHANGE_MR, tag_b);
    rnic_put32(&change[RNIC_CMD_MR_DOMAIN], 1, true);
    change[RNIC_CMD_MR_RIGHTS] = RNIC_RIGHT_REMOTE_READ;
    REQUIRE(two.b.execute(change).status == RNIC_STATUS_OK);
    Work read = writes(4000, {kVirtual + 6000, 0, tag_a}, kVirtual + 1, tag_b);
    read.opcode = RNIC_WORK_READ;
    two.post_a(read);
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    CHECK(std::memcmp(from + 6000, from, 4000) == 0);
}

TEST_CASE("bounds and rights hold for device memory as for any", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_DELIVERY;
    Two two(setup);
    const std::uint32_t tag_b = tag_of(two.b, 0, 64, RNIC_RIGHT_DEVICE | RNIC_RIGHT_REMOTE_WRITE);
    std::uint8_t *const to = two.b.host.bar4(two.b.fn);
    SECTION("a byte too many")
    {
        two.post_a(writes(65, two.in_a(0, 65), kVirtual, tag_b));
    }
    SECTION("another function's tag")
    {
        const std::uint32_t tag_a = tag_of(two.a, 0, 64);
        two.post_a(writes(8, two.in_a(0, 8), kVirtual, tag_a));
    }
    SECTION("no right to read")
    {
        Work read = writes(8, two.in_a(0, 8), kVirtual, tag_b);
        read.opcode = RNIC_WORK_READ;
        two.post_a(read);
    }
    CHECK(two.next_a().status != RNIC_STATUS_OK);
    CHECK(std::count(to, to + 128, 0) == 128);
}

TEST_CASE("no bus master and no fault of the bus stop what stays on the card", "[card]")
{
    Two two;
    const std::uint32_t tag_b = tag_of(two.b, 0, 4096);
    const Segment source = two.in_a(0, 100);
    two.host.allows = [&two](unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool write) {
        (void)iova;
        return !(fn == two.b.fn && write && bytes > 64); // b's memory takes no payload
    };
    two.post_a(writes(100, source, kVirtual, tag_b));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(std::memcmp(two.a.at(two.mem_a), two.host.bar4(two.b.fn), 100) == 0);
    rnic_card_config_write(&two.host.card, two.b.fn, 4, 2, 2); // memory space alone
    two.post_a(writes(50, source, kVirtual + 2000, tag_b));
    two.host.run_for(1000000);
    CHECK(std::memcmp(two.a.at(two.mem_a), two.host.bar4(two.b.fn) + 2000, 50) == 0);
}

TEST_CASE("each kind of reset zeroes the function's device memory and no other", "[card]")
{
    Host host;
    fill(host.bar4(1), kDram + kSram, 3);
    host.bar4(2)[5] = 9;
    const unsigned how = GENERATE(0u, 1u, 2u);
    if (how == 0) {
        host.set_reg(1, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    } else if (how == 1) {
        rnic_card_config_write(&host.card, 1, 0x68, 4, 0x8000);
    } else {
        rnic_card_detach(&host.card, 1);
    }
    CHECK(std::count(host.bar4(1), host.bar4(1) + kDram + kSram, 0) == std::ptrdiff_t(kDram + kSram));
    CHECK(host.bar4(2)[5] == 9);
}

TEST_CASE("a ring in the function's own BAR4 is no setup", "[card]")
{
    Host host;
    const std::uint64_t bar4 = 0x40000000;
    rnic_card_config_write(&host.card, 0, 0x20, 4, bar4);
    Driver driver(host, 0);
    rnic_card_config_write(&host.card, 0, 4, 2, 6);
    for (const unsigned reg : {RNIC_REG_COMMAND_BASE_LO, RNIC_REG_ANSWER_BASE_LO, RNIC_REG_EVENT_BASE_LO}) {
        host.set_reg(0, RNIC_REG_COMMAND_LOG2, 4);
        host.set_reg(0, RNIC_REG_EVENT_LOG2, 4);
        for (const unsigned base :
             {RNIC_REG_COMMAND_BASE_LO, RNIC_REG_ANSWER_BASE_LO, RNIC_REG_EVENT_BASE_LO}) {
            host.set_reg(0, base, base == reg ? bar4 + 0x1FFC0 : 4096);
        }
        host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
        CHECK(host.reg(0, RNIC_REG_ERROR_CODE) == RNIC_ERROR_BAD_SETUP);
        CHECK((host.reg(0, RNIC_REG_CTRL) & RNIC_CTRL_ENABLE) == 0);
        host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    }
}

TEST_CASE("fault memory_flip: a bit of device memory is another one, and stays so", "[card]")
{
    Two two;
    char error[100];
    const std::uint32_t tag_a = tag_of(two.a, 0, 4096);
    std::uint8_t *const from = two.host.bar4(two.a.fn);
    fill(from, 1000, 5);
    const Bytes before(from, from + 1000);
    REQUIRE(rnic_card_faults(&two.host.card, "memory_flip=@2", error, sizeof error));
    two.post_a(writes(1000, {kVirtual, 0, tag_a}, two.mem_b, two.tag_b));
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    CHECK(std::equal(before.begin(), before.end(), from)); // the first read is good
    two.post_a(writes(1000, {kVirtual, 0, tag_a}, two.mem_b, two.tag_b));
    REQUIRE(two.next_a().status == RNIC_STATUS_OK);
    unsigned bits = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        bits += static_cast<unsigned>(__builtin_popcount(before[i] ^ from[i]));
    }
    CHECK(bits == 1);
    CHECK(std::memcmp(from, two.b.at(two.mem_b), 1000) == 0);
}
