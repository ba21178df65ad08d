// SPDX-License-Identifier: MIT
//
// Registers and configuration space, against the one description of them.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>

#include "devices/two.hpp"

using namespace card;

extern const char *const rnic_registers_json; // a path

namespace {

struct Register {
    std::string name, access, reset;
    std::uint32_t offset;
};

/** The registers of BAR0 as src/rnic/registers.json lists them. */
std::vector<Register> described()
{
    std::ifstream file(rnic_registers_json);
    REQUIRE(file);
    const std::regex row("^\\[\"(\\w+)\", \"(0x[0-9A-Fa-f]+)\", \"(\\w+)\", \"([^\"]*)\".*");
    std::vector<Register> all;
    for (std::string line; std::getline(file, line);) {
        std::smatch found;
        if (line.find("\"name\": \"BAR2\"") != std::string::npos) {
            break;
        }
        if (std::regex_match(line, found, row)) {
            all.push_back({found[1], found[3], found[4],
                           static_cast<std::uint32_t>(std::stoul(found[2], nullptr, 16))});
        }
    }
    return all;
}

/** What may be anything after power-up: what the card was made with. */
const std::map<std::string, std::uint32_t> of_this_card = {
    {"CAPS", RNIC_CAPS_BOTF | RNIC_CAPS_AOTF | RNIC_CAPS_BIG_ENDIAN | RNIC_CAPS_DEVICE_MEMORY},
    {"DRAM_BYTES", 65536},
    {"SRAM_BYTES", 4096},
    {"MAX_QPS", 256},
    {"MAX_CQS", 256},
    {"MAX_STAGS", 256},
    {"MAX_PBL", 1024},
    {"MAX_LISTENS", 4096},
    {"MAX_WORK", 16},
    {"MAX_COMPLETIONS", 20},
    {"MAX_TRANSFER", 0x40000000},
    {"MTU", 1500},
    {"READ_SLOTS", 0x80008},
    {"MAC_LO", 0x00000002},
    {"MAC_HI", 0x0100},
    {"FUNCTION", 0x40002},
    {"LINK_MBITS", 0}};

std::uint32_t reset_value(const Register &one)
{
    return one.reset == "-" ? of_this_card.at(one.name)
                            : static_cast<std::uint32_t>(std::stoul(one.reset, nullptr, 0));
}

void check_reset(Host &host, const std::vector<Register> &registers)
{
    for (const Register &one : registers) {
        INFO(one.name);
        CHECK(host.reg(2, one.offset) == reset_value(one));
    }
}

} // namespace

TEST_CASE("registers have their reset values after power-up and after each kind of reset", "[card]")
{
    const std::vector<Register> registers = described();
    REQUIRE(registers.size() > 60);
    Host host;
    check_reset(host, registers);
    const unsigned how = GENERATE(0u, 1u, 2u, 3u);
    Driver driver(host, 2);
    driver.enable();
    driver.create_qp(1, driver.create_cq(), driver.create_cq());
    host.set_reg(2, RNIC_REG_INT_MASK, 0xFFFF);
    host.set_reg(2, RNIC_REG_INT_DELAY_US, 5);
    if (how == 0) {
        host.set_reg(2, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    } else if (how == 1) {
        host.set_reg(2, RNIC_REG_CTRL, 0);
    } else if (how == 2) {
        rnic_card_config_write(&host.card, 2, 0x68, 4, 0x8000);
    } else {
        rnic_card_detach(&host.card, 2);
    }
    check_reset(host, registers);
}

TEST_CASE("registers that may not be written are not, and what is not there is zero", "[card]")
{
    const std::vector<Register> registers = described();
    const std::set<std::string> writable = {"rw", "rwc", "rw1c", "wo"};
    Host host;
    std::set<std::uint32_t> known;
    for (const Register &one : registers) {
        known.insert(one.offset);
        if (writable.count(one.access) == 0) {
            INFO(one.name);
            host.set_reg(2, one.offset, ~reset_value(one));
            CHECK(host.reg(2, one.offset) == reset_value(one));
        }
    }
    for (std::uint32_t at = 0; at < 0x4000; at += 4) {
        const bool msix = at >= RNIC_MSIX_TABLE && at < RNIC_MSIX_TABLE + 16 * RNIC_VECTORS;
        if (known.count(at) == 0 && !msix) {
            host.set_reg(2, at, 0xFFFFFFFF);
            CHECK(host.reg(2, at) == 0);
        }
    }
    for (const std::uint64_t at :
         {std::uint64_t(RNIC_BAR0_BYTES) - 2, std::uint64_t(RNIC_BAR0_BYTES), UINT64_MAX - 3}) {
        rnic_card_bar_write(&host.card, 2, 0, at, 8, UINT64_MAX);
        CHECK(rnic_card_bar_read(&host.card, 2, 0, at, 8) == 0);
    }
    CHECK(rnic_card_bar_read(&host.card, 2, 4, 0, 8) == 0);
    CHECK(rnic_card_bar_read(&host.card, 2, 77, 0, 4) == 0);
}

TEST_CASE("bytes and halves of registers are read; only words are written", "[card]")
{
    Host host;
    CHECK(rnic_card_bar_read(&host.card, 0, 0, RNIC_REG_ID, 1) == 'V');
    CHECK(rnic_card_bar_read(&host.card, 0, 0, RNIC_REG_ID + 1, 2) == ('I' | 'R' << 8));
    CHECK(rnic_card_bar_read(&host.card, 0, 0, RNIC_REG_ID, 8) == 0x000100034E524956u);
    rnic_card_bar_write(&host.card, 0, 0, RNIC_REG_INT_DELAY_US, 2, 7);
    rnic_card_bar_write(&host.card, 0, 0, RNIC_REG_INT_DELAY_US + 1, 4, 7);
    CHECK(host.reg(0, RNIC_REG_INT_DELAY_US) == 0);
    rnic_card_bar_write(&host.card, 0, 0, RNIC_REG_INT_DELAY_US, 8, 0x900000007);
    CHECK(host.reg(0, RNIC_REG_INT_DELAY_US) == 7);
    CHECK(host.reg(0, RNIC_REG_INT_COUNT) == 9);
}

TEST_CASE("a function is enabled only with rings that can be", "[card]")
{
    Host host;
    const auto try_to_enable = [&](std::uint32_t command, std::uint32_t answer, std::uint32_t event,
                                   std::uint32_t log2, std::uint32_t event_log2) {
        host.set_reg(0, RNIC_REG_COMMAND_BASE_LO, command);
        host.set_reg(0, RNIC_REG_ANSWER_BASE_LO, answer);
        host.set_reg(0, RNIC_REG_EVENT_BASE_LO, event);
        host.set_reg(0, RNIC_REG_COMMAND_LOG2, log2);
        host.set_reg(0, RNIC_REG_EVENT_LOG2, event_log2);
        host.set_reg(0, RNIC_REG_ERROR_COUNT, 0);
        host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_ENABLE);
        return host.reg(0, RNIC_REG_CTRL);
    };
    CHECK(try_to_enable(32, 64, 64, 4, 4) == 0);
    CHECK(host.reg(0, RNIC_REG_ERROR_CODE) == RNIC_ERROR_BAD_SETUP);
    CHECK(try_to_enable(64, 32, 64, 4, 4) == 0);
    CHECK(try_to_enable(64, 64, 32, 4, 4) == 0);
    CHECK(try_to_enable(64, 64, 64, 1, 4) == 0);
    CHECK(try_to_enable(64, 64, 64, 13, 4) == 0);
    CHECK(try_to_enable(64, 64, 64, 4, 13) == 0);
    CHECK(try_to_enable(64, 64, 64, 4, 0xFFFFFFFF) == 0);
    CHECK((host.reg(0, RNIC_REG_STATUS) & RNIC_STATUS_ENABLED) == 0);
    CHECK(try_to_enable(64, 128, 192, 4, 4) == RNIC_CTRL_ENABLE);
    CHECK(host.reg(0, RNIC_REG_ERROR_CODE) == 0);
    host.set_reg(0, RNIC_REG_COMMAND_BASE_LO, 4096); // not while it is enabled, nor the byte order
    host.set_reg(0, RNIC_REG_CTRL, RNIC_CTRL_ENABLE | RNIC_CTRL_BYTE_ORDER);
    CHECK(host.reg(0, RNIC_REG_COMMAND_BASE_LO) == 64);
    CHECK(host.reg(0, RNIC_REG_CTRL) == RNIC_CTRL_ENABLE);
}

TEST_CASE("configuration space is that of a PCI Express endpoint with MSI-X", "[card]")
{
    Host host;
    rnic_card *const card = &host.card;
    const auto get = [&](std::uint32_t at, unsigned bytes) {
        return rnic_card_config_read(card, 1, at, bytes);
    };
    const auto set = [&](std::uint32_t at, unsigned bytes, std::uint32_t value) {
        rnic_card_config_write(card, 1, at, bytes, value);
    };
    CHECK(get(0, 4) == (RNIC_PCI_VENDOR | RNIC_PCI_DEVICE << 16));
    CHECK(get(8, 4) >> 8 == RNIC_PCI_CLASS);
    CHECK(get(0x0E, 1) == 0);
    CHECK(get(0x3D, 1) == 0); // no interrupt pin
    CHECK((get(6, 2) & 0x10) != 0);
    std::map<unsigned, unsigned> capabilities; // by number, where
    for (unsigned at = get(0x34, 1), i = 0; at != 0 && i < 10; at = get(at + 1, 1), ++i) {
        capabilities[get(at, 1)] = at;
    }
    REQUIRE(capabilities.size() == 2);
    const unsigned msix = capabilities.at(0x11), express = capabilities.at(0x10);
    CHECK((get(msix + 2, 2) & 0x7FF) == RNIC_VECTORS - 1);
    CHECK(get(msix + 4, 4) == RNIC_MSIX_TABLE);
    CHECK(get(msix + 8, 4) == RNIC_MSIX_PBA);
    CHECK((get(express + 4, 4) & 1 << 28) != 0); // it can be reset

    // 64 KiB and 4 KiB of device memory need a BAR of 128 KiB.
    const std::uint32_t sizes[6] = {RNIC_BAR0_BYTES, 0, RNIC_BAR2_BYTES, 0, 0x20000, 0};
    for (unsigned i = 0; i < 6; ++i) {
        set(0x10 + 4 * i, 4, 0xFFFFFFFF);
    }
    for (unsigned i = 0; i < 6; ++i) {
        const std::uint32_t value = get(0x10 + 4 * i, 4);
        CHECK((i % 2 == 1 ? value : ~(value & ~15u) + 1) == (i % 2 == 1 ? 0xFFFFFFFF : sizes[i]));
        CHECK((value & (i % 2 == 1 ? 0u : 7u)) == (i % 2 == 1 ? 0u : 4u)); // 64 bits
    }
    CHECK(get(0x30, 4) == 0);

    set(4, 2, 0xFFFF);
    CHECK((get(4, 2) & 6) == 6);
    set(4, 1, 0); // a byte alone
    CHECK((get(4, 2) & 6) == 0);
    CHECK((get(4, 2) & 0x400) == 0x400);
    set(0, 4, 0);
    CHECK(get(0, 2) == RNIC_PCI_VENDOR);
    set(msix + 3, 1, 0xFF);
    CHECK(get(msix + 2, 2) == (0xC000 | (RNIC_VECTORS - 1)));
    set(express + 8, 2, 0x8000);
    CHECK(get(express + 8, 2) == 0);
    CHECK(get(msix + 2, 2) == RNIC_VECTORS - 1);
    CHECK(get(4, 2) == 0);
    CHECK(get(0x10, 4) == 4);
    for (const std::uint32_t at : {0xFCu, 0xFEu, 0x100u, 0xFFFu, 0x1000u, 0xFFFFFFFFu}) {
        set(at, 4, 0xFFFFFFFF);
        CHECK(get(at, 4) == 0);
    }
}
