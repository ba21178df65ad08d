// SPDX-License-Identifier: MIT
//
// An NVMe controller in memory, on a bus of the test's own: registers, queues, a namespace, and a
// controller memory buffer. The test's memory has an address on the bus only if it is mapped: the
// controller does not reach any other. A test makes it slow, silent or broken.
#ifndef VIPL_TESTS_DM_SIMULATED_NVME_HPP
#define VIPL_TESTS_DM_SIMULATED_NVME_HPP

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "simulated.hpp"

extern "C" {
#include "dm/nvme/controller.h"
}

namespace dm_test {

/** What the controller has received; the fields are those of the specification. */
struct NvmeCommand {
    unsigned queue;
    std::uint8_t opcode;
    std::uint16_t id;
    std::uint32_t name_space;
    std::uint64_t prp1;
    std::uint64_t prp2;
    std::uint64_t word10; // and word 11
    std::uint32_t word12;
};

struct NvmeEnd {
    unsigned queue;
    std::uint16_t id;
    std::uint16_t status;
};

class Nvme : public dm_pci {
public:
    explicit Nvme(std::uint32_t block_bytes = 512, std::uint64_t blocks = 65536);
    Nvme(const Nvme &) = delete;
    Nvme &operator=(const Nvme &) = delete;

    /** Opened by the driver; NULL: `reason` says why not. */
    dm_nvme *open();
    /** Bytes of the namespace. */
    std::uint8_t *disk(std::uint64_t block) { return disk_.data() + block * block_bytes; }
    /** Ends what a test has held, the newest first if it wants so. */
    void end_all(bool newest_first = false);
    void end(const NvmeEnd &one);
    std::uint64_t bus_of(const void *at) const;
    /** The bus is another process's: the controller keeps what a reset does not change. */
    void forget_maps();

    std::uint32_t block_bytes;
    std::uint64_t block_count;
    Clock clock;
    vipl_dm_reason reason{};
    // what the controller says
    std::uint64_t cap = UINT64_C(1) << 57 | UINT64_C(1) << 37 | UINT64_C(2) << 24 | 1023;
    std::uint32_t register_size = 16384;
    std::uint8_t mdts = 4; // 64 KiB
    std::uint8_t vwc = 1;
    std::uint8_t queue_entries = 0x66; // SQES
    std::uint16_t metadata = 0;
    std::uint8_t format = 0;     // the number of the format in use
    std::uint8_t block_log2 = 0; // instead of the right one
    std::uint64_t size = 0;      // in blocks, instead of the right one
    unsigned cmb_bar = 2;
    std::uint32_t cmbloc = 0; // instead of the right one
    std::uint32_t cmbsz = 0;
    std::uint64_t cmb_bytes = 1 << 20; // 0: none
    // what it does
    bool is_gone = false;     // registers read as ones
    bool is_fatal = false;    // CSTS.CFS
    bool is_stuck = false;    // CSTS.RDY does not change
    bool keeps_cmb = false;   // it does not take over the address of its memory
    bool refuses_cmb = false; // CMBSTS.CBAI
    bool can_reset = true;
    bool can_map = true;
    std::uint64_t map_most = UINT64_MAX; // of a map the rest is not there
    bool is_held = false;                // commands of the I/O queue end when the test says so
    std::function<std::uint16_t(const NvmeCommand &)> status = [](const NvmeCommand &) {
        return std::uint16_t{0};
    };
    std::function<void(NvmeEnd &)> on_end = [](NvmeEnd &) {};
    std::deque<NvmeEnd> held;
    // what has been seen
    std::vector<NvmeCommand> commands; // of the I/O queue
    std::vector<std::uint8_t> cmb;
    unsigned resets = 0;
    unsigned closed = 0;
    bool is_enabled = false;
    std::uint64_t most_pending = 0;
    std::uint64_t strays = 0; // accesses to addresses at which there is no memory

private:
    struct Queue {
        std::uint64_t commands = 0;
        std::uint64_t answers = 0;
        std::uint32_t entries = 0;
        std::uint32_t head = 0;
        std::uint32_t tail = 0;
        std::uint16_t phase = 1;
        std::uint32_t tail_of_answers = 0;
    };
    struct Ops;
    friend struct Ops;
    std::uint32_t read_register(std::uint32_t offset);
    void write_register(std::uint32_t offset, std::uint32_t value);
    void run(unsigned number);
    void execute(const NvmeCommand &command);
    std::uint16_t admin(const NvmeCommand &command);
    std::uint16_t move(const NvmeCommand &command);
    void identify(const NvmeCommand &command);
    std::uint8_t *reach(std::uint64_t bus, std::uint64_t bytes);

    std::vector<std::uint8_t> disk_;
    std::map<std::uint64_t, std::pair<std::uint8_t *, std::uint64_t>> maps_; // address on the bus: memory
    std::vector<std::unique_ptr<std::vector<std::uint64_t>>> pages_;
    std::map<std::uint32_t, std::uint32_t> registers_;
    std::uint64_t next_bus_;
    std::uint64_t cmb_bus_ = 0;
    std::uint32_t stride_ = 4;
    Queue queues_[2];
};

} // namespace dm_test

#endif
