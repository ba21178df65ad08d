// SPDX-License-Identifier: MIT
#include "simulated_nvme.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <catch2/catch.hpp>

extern "C" {
#include "dm/bytes.h"
}

namespace dm_test {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBus = 0x100000000; // the first address

Nvme &nvme_of(dm_pci *pci)
{
    return *static_cast<Nvme *>(pci);
}

std::uint64_t number_at(const std::uint8_t *entry, unsigned offset, unsigned bytes)
{
    return dm_get(entry + offset, bytes, false);
}

} // namespace

/** What the driver does. */
struct Nvme::Ops {
    static void close(dm_pci *pci) { nvme_of(pci).closed++; }
    static int begin(dm_pci *pci)
    {
        pci->register_bytes = nvme_of(pci).register_size;
        return nvme_of(pci).register_size == 0 ? ENXIO : 0;
    }
    static std::uint32_t read(dm_pci *pci, std::uint32_t offset)
    {
        REQUIRE(offset + 4 <= pci->register_bytes);
        return nvme_of(pci).is_gone ? UINT32_MAX : nvme_of(pci).read_register(offset);
    }
    static void write(dm_pci *pci, std::uint32_t offset, std::uint32_t value)
    {
        REQUIRE(offset + 4 <= pci->register_bytes);
        if (!nvme_of(pci).is_gone) {
            nvme_of(pci).write_register(offset, value);
        }
    }
    static int reset(dm_pci *pci)
    {
        Nvme &nvme = nvme_of(pci);
        nvme.resets++;
        if (!nvme.can_reset) {
            return ENOTTY;
        }
        nvme.is_enabled = false;
        nvme.is_stuck = false;
        return 0;
    }
    static int map_bar(dm_pci *pci, unsigned bar, std::uint8_t **at, std::uint64_t *bytes)
    {
        Nvme &nvme = nvme_of(pci);
        if (bar != nvme.cmb_bar || nvme.cmb.empty()) {
            return ENXIO;
        }
        *at = nvme.cmb.data();
        *bytes = nvme.cmb.size();
        return 0;
    }
    static int take_addresses(dm_pci *pci, std::uint64_t bytes, std::uint64_t *bus)
    {
        Nvme &nvme = nvme_of(pci);
        *bus = nvme.next_bus_;
        nvme.next_bus_ += (bytes + kPage - 1) / kPage * kPage + kPage; // a hole behind it
        return 0;
    }
    static int map(dm_pci *pci, void *at, std::uint64_t bytes, std::uint64_t *bus)
    {
        Nvme &nvme = nvme_of(pci);
        if (!nvme.can_map) {
            return EFAULT;
        }
        take_addresses(pci, bytes, bus);
        nvme.maps_[*bus] = {static_cast<std::uint8_t *>(at), std::min(bytes, nvme.map_most)};
        return 0;
    }
    static int take_pages(dm_pci *pci, std::uint64_t bytes, std::uint8_t **at, std::uint64_t *bus)
    {
        Nvme &nvme = nvme_of(pci);
        nvme.pages_.push_back(std::make_unique<std::vector<std::uint64_t>>(bytes / 8));
        *at = reinterpret_cast<std::uint8_t *>(nvme.pages_.back()->data());
        return map(pci, *at, bytes, bus);
    }
};

Nvme::Nvme(std::uint32_t of_block, std::uint64_t blocks)
    : dm_pci{}, block_bytes(of_block), block_count(blocks), disk_(of_block * blocks)
{
    static const dm_pci_ops all = {Ops::close,   Ops::begin,          Ops::read, Ops::write,     Ops::reset,
                                   Ops::map_bar, Ops::take_addresses, Ops::map,  Ops::take_pages};
    ops = &all;
    clock.step = 1000;
    next_bus_ = kBus;
}

dm_nvme *Nvme::open()
{
    dm_nvme *nvme = nullptr;
    cmb.resize(cmb_bytes);
    const int error = dm_nvme_open(this, &clock.ops, "store \"nvme:test\"", &nvme, &reason);
    REQUIRE((error == 0) == (nvme != nullptr));
    return nvme;
}

std::uint64_t Nvme::bus_of(const void *at) const
{
    for (const auto &one : maps_) {
        const auto *first = one.second.first;
        if (at >= first && at < first + one.second.second) {
            return one.first + static_cast<std::uint64_t>(static_cast<const std::uint8_t *>(at) - first);
        }
    }
    return 0;
}

void Nvme::forget_maps()
{
    maps_.clear();
    next_bus_ = kBus;
}

/** The memory at an address; NULL: there is none, and the bus says so to nobody. */
std::uint8_t *Nvme::reach(std::uint64_t bus, std::uint64_t bytes)
{
    if (cmb_bus_ != 0 && bus >= cmb_bus_ && bus - cmb_bus_ + bytes <= cmb.size()) {
        return cmb.data() + (bus - cmb_bus_);
    }
    const auto next = maps_.upper_bound(bus);
    if (next != maps_.begin()) {
        const auto &one = *std::prev(next);
        if (bus - one.first + bytes <= one.second.second) {
            return one.second.first + (bus - one.first);
        }
    }
    strays++;
    return nullptr;
}

// --- registers ----------------------------------------------------------------------------------

std::uint32_t Nvme::read_register(std::uint32_t offset)
{
    const bool shows_cmb = (registers_[NVME_CMBMSC] & 1) != 0 && cmb_bytes > 0;
    switch (offset) {
    case NVME_CAP:
        return static_cast<std::uint32_t>(cap);
    case NVME_CAP + 4:
        return static_cast<std::uint32_t>(cap >> 32);
    case NVME_CSTS:
        return (is_enabled ? 1U : 0U) | (is_fatal ? 2U : 0U);
    case NVME_CMBLOC:
        return !shows_cmb ? 0 : cmbloc != 0 ? cmbloc : cmb_bar;
    case NVME_CMBSZ:
        return !shows_cmb   ? 0
               : cmbsz != 0 ? cmbsz
                            : static_cast<std::uint32_t>(cmb_bytes / kPage) << 12 | 0x18;
    case NVME_CMBSTS:
        return refuses_cmb ? 1 : 0;
    default:
        return registers_[offset];
    }
}

void Nvme::write_register(std::uint32_t offset, std::uint32_t value)
{
    if (offset >= NVME_DOORBELLS) {
        const std::uint32_t bell = (offset - NVME_DOORBELLS) / stride_;
        REQUIRE(bell / 2 < 2);
        if (bell % 2 == 0) {
            REQUIRE(value < queues_[bell / 2].entries);
            queues_[bell / 2].tail = value;
            run(bell / 2);
        }
        return;
    }
    registers_[offset] = value;
    if (offset == NVME_CC && !is_stuck) {
        is_enabled = (value & 1) != 0;
        stride_ = 4U << (cap >> 32 & 15);
        const auto address = [this](std::uint32_t at) {
            return registers_[at] | static_cast<std::uint64_t>(registers_[at + 4]) << 32;
        };
        queues_[0] = {address(NVME_ASQ), address(NVME_ACQ), (registers_[NVME_AQA] & 0xFFF) + 1, 0, 0, 1, 0};
        queues_[1] = {};
    }
    if (offset == NVME_CMBMSC && !keeps_cmb) { // the lower half takes both over
        cmb_bus_ = (value & 2) != 0
                       ? static_cast<std::uint64_t>(registers_[NVME_CMBMSC + 4]) << 32 | (value & ~0xFFFU)
                       : 0;
    }
}

// --- queues -------------------------------------------------------------------------------------

void Nvme::run(unsigned number)
{
    Queue &queue = queues_[number];
    while (is_enabled && !is_fatal && queue.head != queue.tail) {
        const std::uint8_t *entry = reach(queue.commands + queue.head * 64ULL, 64);
        REQUIRE(entry != nullptr);
        queue.head = (queue.head + 1) % queue.entries;
        execute({number, entry[0], static_cast<std::uint16_t>(number_at(entry, 2, 2)),
                 static_cast<std::uint32_t>(number_at(entry, 4, 4)), number_at(entry, 24, 8),
                 number_at(entry, 32, 8), number_at(entry, 40, 8),
                 static_cast<std::uint32_t>(number_at(entry, 48, 4))});
    }
}

void Nvme::execute(const NvmeCommand &command)
{
    NvmeEnd one{command.queue, command.id, status(command)};
    if (command.queue == 1) {
        commands.push_back(command);
    }
    if (one.status == 0) {
        one.status = command.queue == 0 ? admin(command) : move(command);
    }
    held.push_back(one);
    most_pending = std::max<std::uint64_t>(most_pending, held.size());
    if (command.queue == 0 || !is_held) {
        end_all();
    }
}

void Nvme::end_all(bool newest_first)
{
    while (!held.empty()) {
        NvmeEnd one = newest_first ? held.back() : held.front();
        if (newest_first) {
            held.pop_back();
        } else {
            held.pop_front();
        }
        on_end(one);
        if (one.queue < 2) {
            end(one);
        }
    }
}

void Nvme::end(const NvmeEnd &one)
{
    Queue &queue = queues_[one.queue];
    std::uint8_t *answer = reach(queue.answers + queue.tail_of_answers * 16ULL, 16);
    REQUIRE(answer != nullptr);
    dm_put_little(answer + 12, one.id, 2);
    dm_put_little(answer + 14, static_cast<std::uint64_t>(one.status << 1 | queue.phase), 2);
    queue.tail_of_answers++;
    if (queue.tail_of_answers == queue.entries) {
        queue.tail_of_answers = 0;
        queue.phase ^= 1;
    }
}

// --- commands -----------------------------------------------------------------------------------

void Nvme::identify(const NvmeCommand &command)
{
    std::vector<std::uint8_t> said(kPage);
    if ((command.word10 & 0xFF) == NVME_IDENTIFY_CONTROLLER) {
        std::memcpy(said.data() + NVME_CONTROLLER_MODEL, "A disk of the test's\x1b   ", 24);
        said[0] = 0x34;
        said[NVME_CONTROLLER_MDTS] = mdts;
        said[NVME_CONTROLLER_SQES] = queue_entries;
        said[NVME_CONTROLLER_CQES] = 0x44;
        said[NVME_CONTROLLER_VWC] = vwc;
    } else {
        std::uint8_t log2 = 0;
        while ((1U << log2) < block_bytes) {
            log2++;
        }
        std::uint8_t *const one = said.data() + NVME_NAMESPACE_FORMATS + 4ULL * format;
        dm_put_little(said.data(), size != 0 ? size : block_count, 8);
        said[NVME_NAMESPACE_FLBAS] = static_cast<std::uint8_t>((format & 15) | (format & 0x30) << 1);
        dm_put_little(one, metadata, 2);
        one[2] = block_log2 != 0 ? block_log2 : log2;
    }
    std::uint8_t *const to = reach(command.prp1, kPage);
    if (to != nullptr) {
        std::memcpy(to, said.data(), kPage);
    }
}

std::uint16_t Nvme::admin(const NvmeCommand &command)
{
    const auto entries = static_cast<std::uint32_t>(command.word10 >> 16 & 0xFFFF) + 1;
    switch (command.opcode) {
    case NVME_IDENTIFY:
        identify(command);
        return 0;
    case NVME_SET_FEATURES:
        return 0;
    case NVME_CREATE_CQ:
        CHECK((command.word10 & 0xFFFF) == 1);
        queues_[1] = {};
        queues_[1].answers = command.prp1;
        queues_[1].entries = entries;
        return 0;
    case NVME_CREATE_SQ:
        CHECK(entries == queues_[1].entries);
        CHECK(command.word10 >> 48 == 1); // its completion queue
        queues_[1].commands = command.prp1;
        return 0;
    default:
        return 1;
    }
}

/** Reads, writes, flushes, by pages as the command tells them. */
std::uint16_t Nvme::move(const NvmeCommand &command)
{
    CHECK(command.name_space == 1);
    if (command.opcode == NVME_FLUSH) {
        return 0;
    }
    const std::uint64_t blocks = (command.word12 & 0xFFFF) + 1ULL;
    const std::uint64_t bytes = blocks * block_bytes;
    const std::uint64_t offset = command.prp1 % kPage;
    const std::uint64_t pages = (offset + bytes + kPage - 1) / kPage;
    CHECK(bytes <= kPage << mdts);
    CHECK(command.prp1 % 4 == 0);
    if (command.word10 > block_count || blocks > block_count - command.word10) {
        return NVME_STATUS_OUT_OF_RANGE;
    }
    for (std::uint64_t i = 0; i < pages; ++i) {
        std::uint64_t bus = i == 0 ? command.prp1 : command.prp2;
        if (i > 0 && pages > 2) {
            const std::uint8_t *const entry = reach(command.prp2 + (i - 1) * 8, 8);
            REQUIRE(entry != nullptr);
            bus = number_at(entry, 0, 8);
        }
        CHECK((i == 0 || bus % kPage == 0));
        const std::uint64_t first = i == 0 ? 0 : i * kPage - offset;
        const std::uint64_t part = std::min(bytes - first, i == 0 ? kPage - offset : kPage);
        std::uint8_t *const memory = reach(bus, part);
        std::uint8_t *const there = disk(command.word10) + first;
        if (memory != nullptr && command.opcode == NVME_READ) {
            std::memcpy(memory, there, part);
        } else if (memory != nullptr) {
            std::memcpy(there, memory, part);
        }
    }
    return 0;
}

} // namespace dm_test
