// SPDX-License-Identifier: MIT
//
// The model of the card in a process of its own, which was forked before the driver had any memory:
// what the two have of each other is a socket, on which every register access, every DMA and every
// interrupt is a message, and the doorbells, which both map. A DMA is carried out here, by the list
// of what the driver has mapped, and refused if it is not in that list.
//
// One thread. The card works while this process waits for an answer, and in progress().
#ifndef VIPL_UNIT_APART_HPP
#define VIPL_UNIT_APART_HPP

#include <cstdint>
#include <map>
#include <memory>

#include <sys/types.h>

extern "C" {
#include "backends/rnic/verbs/verbs.h"
}

namespace unit {

class Apart {
public:
    explicit Apart(unsigned functions = 2);
    ~Apart();
    Apart(const Apart &) = delete;
    Apart &operator=(const Apart &) = delete;

    /** For vipl_rnic_start(). */
    rnic_pci *function(unsigned fn);

    /** What the driver has mapped for the card, by IOVA. */
    struct Map {
        std::uint8_t *address;
        std::size_t bytes;
        unsigned access;
    };
    std::map<std::uint64_t, Map> &maps(unsigned fn);

    /** DMA operations of a function that were carried out, that were refused, and the bytes of the
     * former. */
    struct Dma {
        std::uint64_t done = 0, refused = 0, bytes = 0;
    };
    const Dma &dma(unsigned fn) const;

    pid_t card() const { return card_; }
    void progress();

private:
    struct Function;
    struct Message;
    std::uint64_t call(const Message &message);
    void serve(const Message &message);
    void give(std::uint32_t ok, const void *data, std::uint32_t bytes);
    static const rnic_pci_ops &table();
    static std::uint64_t ask(rnic_pci *pci, const Message &message);

    int line_ = -1;
    pid_t card_ = -1;
    std::unique_ptr<Function[]> functions_;
    unsigned count_;
};

} // namespace unit

#endif
