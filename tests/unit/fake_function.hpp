// SPDX-License-Identifier: MIT
//
// A function of an RDMA card for tests of its driver: it remembers what the driver does to it, and
// answers commands as a test says. The driver's memory is its own, and IOVAs are addresses plus a
// constant.
#ifndef VIPL_UNIT_FAKE_FUNCTION_HPP
#define VIPL_UNIT_FAKE_FUNCTION_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "support/system.hpp"

extern "C" {
#include "backends/rnic/verbs/verbs.h"
#include "rnic/entry.h"
#include "rnic/registers.h"
}

namespace unit {

struct Answer {
    std::uint16_t status = RNIC_STATUS_OK;
    std::uint32_t info = 0;
    bool lost = false; // there is none
};

/** Device memory: what the registers say that there is, and what of it is mapped. */
struct CardMemory {
    std::uint8_t *base = nullptr;
    std::uint32_t dram = 0, sram = 0;
    std::size_t mapped = 0;
};

/** What a driver has of a card, as a C++ object. */
class FakeFunction : public rnic_pci {
public:
    using Command = std::vector<std::uint8_t>;
    static constexpr std::uint64_t kBus = 0x1000000000000; // IOVA of an address: so many higher

    explicit FakeFunction(bool mapped = true)
        : rnic_pci{&table(), nullptr, nullptr, 0, true, false, false, -1, "nothing"}
    {
        bar2_.resize(RNIC_BAR2_BYTES / sizeof(std::uint64_t));
        if (mapped) {
            doorbells = reinterpret_cast<std::uint8_t *>(bar2_.data());
        }
        registers[RNIC_REG_ID] = RNIC_ID_VALUE;
        registers[RNIC_REG_VERSION] = 0x10000;
        registers[RNIC_REG_CAPS] = RNIC_CAPS_BOTF;
        registers[RNIC_REG_MAX_QPS] = 1024;
        registers[RNIC_REG_MAX_CQS] = 64;
        registers[RNIC_REG_MAX_STAGS] = 4096;
        registers[RNIC_REG_MAX_WORK] = 6;
        registers[RNIC_REG_MAX_COMPLETIONS] = 8;
        registers[RNIC_REG_MAX_SEGMENTS] = 252;
        registers[RNIC_REG_MAX_TRANSFER] = 1 << 20;
        registers[RNIC_REG_READ_SLOTS] = 8 | 4 << 16;
        registers[RNIC_REG_MAC_LO] = 0x44332202;
        registers[RNIC_REG_MAC_HI] = 0x6655;
        registers[RNIC_REG_FUNCTION] = 3 | 256 << 16;
        registers[RNIC_REG_STATUS] = RNIC_STATUS_READY | RNIC_STATUS_LINK_UP;
    }

    /** Before the function is opened. */
    void give(const CardMemory &memory)
    {
        device = memory.base;
        device_bytes = memory.mapped;
        registers[RNIC_REG_CAPS] |= memory.dram > 0 ? RNIC_CAPS_DEVICE_MEMORY : 0;
        registers[RNIC_REG_DRAM_BYTES] = memory.dram;
        registers[RNIC_REG_SRAM_BYTES] = memory.sram;
    }

    std::map<std::uint32_t, std::uint32_t> registers;
    std::vector<Command> commands;
    std::function<Answer(const Command &)> answer = [](const Command &) { return Answer{}; };
    unsigned resets = 0, wakes = 0, closes = 0, slabs = 0;
    unsigned max_slabs = 1000;
    bool gone = false, stuck = false; // stuck: it executes nothing any more
    struct Map {
        std::uint64_t address, bytes;
        unsigned access;
    };
    std::map<std::uint64_t, Map> maps;
    std::vector<std::uint64_t> page_list; // of memory that is not linear
    std::size_t page_bytes = 4096;

    std::uint32_t doorbell(std::uint32_t offset) const
    {
        std::uint32_t value;
        std::memcpy(&value, reinterpret_cast<const std::uint8_t *>(bar2_.data()) + offset, 4);
        return value;
    }
    const std::uint8_t *bar2(std::uint32_t offset) const
    {
        return reinterpret_cast<const std::uint8_t *>(bar2_.data()) + offset;
    }
    std::uint8_t byte(std::uint32_t offset) const
    {
        return reinterpret_cast<const std::uint8_t *>(bar2_.data())[offset];
    }
    void set_asleep(bool asleep) { *word(RNIC_DB_ASLEEP) = asleep ? 1 : 0; }
    void clear_hint(std::uint32_t offset) { reinterpret_cast<std::uint8_t *>(bar2_.data())[offset] = 0; }

    static std::uint8_t *at(std::uint64_t iova) { return reinterpret_cast<std::uint8_t *>(iova - kBus); }
    std::uint64_t base(std::uint32_t low)
    {
        return registers[low] | static_cast<std::uint64_t>(registers[low + 4]) << 32;
    }
    bool big() { return (registers[RNIC_REG_CTRL] & RNIC_CTRL_BYTE_ORDER) != 0; }
    std::uint16_t u16(const Command &c, unsigned at) { return rnic_get16(c.data() + at, big()); }
    std::uint32_t u32(const Command &c, unsigned at) { return rnic_get32(c.data() + at, big()); }
    std::uint64_t u64(const Command &c, unsigned at) { return rnic_get64(c.data() + at, big()); }
    const Command &last() const { return commands.back(); }

    /** Writes an entry of a completion ring that lies at `iova`. */
    void complete(std::uint64_t iova, unsigned log2, std::uint32_t index, const vipl_rnic_completion &c)
    {
        write_completion(at(iova) + (index & ((1u << log2) - 1)) * std::size_t{RNIC_COMPLETION_BYTES}, index,
                         c);
    }

    /** Writes the next event. */
    void event(std::uint16_t kind, std::uint16_t code, std::uint32_t object,
               const std::vector<std::uint8_t> &message = {})
    {
        const std::uint32_t entries = 1u << registers[RNIC_REG_EVENT_LOG2];
        std::uint8_t *entry =
            at(base(RNIC_REG_EVENT_BASE_LO)) + events_ % entries * std::size_t{RNIC_EVENT_BYTES};
        rnic_put16(entry + RNIC_EVT_KIND, kind, big());
        rnic_put16(entry + RNIC_EVT_CODE, code, big());
        rnic_put32(entry + RNIC_EVT_OBJECT, object, big());
        rnic_put32(entry + RNIC_EVT_LENGTH, static_cast<std::uint32_t>(message.size()), big());
        if (!message.empty() && message.size() <= 464) {
            std::memcpy(entry + RNIC_EVT_MESSAGE, message.data(), message.size());
        }
        rnic_put32(entry + RNIC_EVT_OWNER, ++events_, big());
    }

    /** Executes the commands that have been posted. */
    void execute()
    {
        const std::uint32_t posted = doorbell(RNIC_DB_COMMAND_PRODUCER);
        while (!stuck && executed_ != posted) {
            const std::uint32_t place = executed_ & ((1u << registers[RNIC_REG_COMMAND_LOG2]) - 1);
            const std::uint8_t *entry =
                at(base(RNIC_REG_COMMAND_BASE_LO)) + place * std::size_t{RNIC_COMMAND_BYTES};
            commands.emplace_back(entry, entry + RNIC_COMMAND_BYTES);
            const Answer out = answer(commands.back());
            if (out.lost) {
                return;
            }
            const vipl_rnic_completion completion = {u32(last(), RNIC_CMD_OBJECT),
                                                     u32(last(), RNIC_CMD_COOKIE),
                                                     0,
                                                     0,
                                                     0,
                                                     0,
                                                     out.status,
                                                     out.info,
                                                     0};
            write_completion(at(base(RNIC_REG_ANSWER_BASE_LO)) + place * std::size_t{RNIC_COMPLETION_BYTES},
                             executed_, completion);
            ++executed_;
        }
    }

private:
    std::uint32_t *word(std::uint32_t offset)
    {
        return reinterpret_cast<std::uint32_t *>(reinterpret_cast<std::uint8_t *>(bar2_.data()) + offset);
    }
    void write_completion(std::uint8_t *entry, std::uint32_t index, const vipl_rnic_completion &c)
    {
        rnic_put32(entry + RNIC_CQE_QP, c.qp, big());
        rnic_put32(entry + RNIC_CQE_COOKIE, c.cookie, big());
        rnic_put32(entry + RNIC_CQE_LENGTH, c.length, big());
        rnic_put32(entry + RNIC_CQE_IMMEDIATE, c.immediate, big());
        entry[RNIC_CQE_OPCODE] = c.opcode;
        entry[RNIC_CQE_FLAGS] = c.flags;
        rnic_put16(entry + RNIC_CQE_STATUS, c.status, big());
        rnic_put32(entry + RNIC_CQE_INFO, c.index, big());
        rnic_put32(entry + RNIC_CQE_OWNER, index + 1, big());
    }

    static FakeFunction &of(rnic_pci *pci) { return *static_cast<FakeFunction *>(pci); }
    static std::uint32_t read(rnic_pci *pci, unsigned bar, std::uint32_t offset)
    {
        FakeFunction &self = of(pci);
        return self.gone ? 0xFFFFFFFF : bar == 0 ? self.registers[offset] : self.doorbell(offset);
    }
    static void write(rnic_pci *pci, unsigned bar, std::uint32_t offset, std::uint32_t value)
    {
        FakeFunction &self = of(pci);
        if (bar == 2) {
            *self.word(offset) = value;
            self.execute();
            return;
        }
        self.registers[offset] = value;
        if (offset == RNIC_REG_CTRL && (value & RNIC_CTRL_ENABLE) != 0) {
            self.registers[RNIC_REG_STATUS] |= RNIC_STATUS_ENABLED;
        }
        if (offset == RNIC_REG_WAKE) {
            ++self.wakes;
            self.execute();
        }
    }
    static int reset(rnic_pci *pci)
    {
        FakeFunction &self = of(pci);
        ++self.resets;
        self.registers[RNIC_REG_STATUS] &= ~std::uint32_t{RNIC_STATUS_ENABLED};
        return 0;
    }
    static int map(rnic_pci *pci, void *address, std::size_t bytes, unsigned access, std::uint64_t *iova)
    {
        *iova = reinterpret_cast<std::uintptr_t>(address) + kBus;
        of(pci).maps[*iova] = {reinterpret_cast<std::uintptr_t>(address), bytes, access};
        return 0;
    }
    static int pages(rnic_pci *pci, const void *, std::size_t, std::uint64_t *out, std::size_t most,
                     std::size_t *count, std::size_t *page_bytes)
    {
        FakeFunction &self = of(pci);
        *count = self.page_list.size();
        *page_bytes = self.page_bytes;
        for (std::size_t i = 0; i < *count && i < most; ++i) {
            out[i] = self.page_list[i];
        }
        return 0;
    }
    static int slab(rnic_pci *pci, std::size_t bytes, rnic_pci_slab *out)
    {
        if (of(pci).slabs == of(pci).max_slabs) {
            return 12; // ENOMEM
        }
        ++of(pci).slabs;
        out->base = static_cast<std::uint8_t *>(vipl_test::allocate_aligned(4096, bytes));
        std::memset(out->base, 0xA5, bytes); // a driver that relies on zeros must see to them
        out->iova = reinterpret_cast<std::uintptr_t>(out->base) + kBus;
        out->bytes = bytes;
        return 0;
    }
    static void free_slab(rnic_pci *pci, rnic_pci_slab *slab)
    {
        --of(pci).slabs;
        vipl_test::free_aligned(slab->base);
    }
    static const rnic_pci_ops &table()
    {
        static const rnic_pci_ops ops = {
            "fake",
            [](rnic_pci *pci) { ++of(pci).closes; },
            [](rnic_pci *) {},
            read,
            write,
            [](rnic_pci *, std::uint32_t, unsigned) { return std::uint32_t{0}; },
            [](rnic_pci *, std::uint32_t, unsigned, std::uint32_t) {},
            reset,
            map,
            [](rnic_pci *pci, std::uint64_t iova, std::size_t) { of(pci).maps.erase(iova); },
            pages,
            slab,
            free_slab,
            [](rnic_pci *, unsigned) { return -1; },
            [](rnic_pci *, unsigned) {},
            [](rnic_pci *pci) { of(pci).execute(); },
            [](rnic_pci *, int *fd, int *ms) { *fd = *ms = -1; },
            [](rnic_pci *pci) { return of(pci).gone; },
            nullptr, // it says nothing of why
        };
        return ops;
    }

    std::vector<std::uint64_t> bar2_;
    std::uint32_t executed_ = 0, events_ = 0;
};

} // namespace unit

#endif
