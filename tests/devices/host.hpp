// SPDX-License-Identifier: MIT
//
// A host for the card, as small as a host can be: flat memory that is the bus's address space, and
// drivers that know nothing but the data sheet. What crosses the card's edge is recorded.
#ifndef VIPL_DEVICES_HOST_HPP
#define VIPL_DEVICES_HOST_HPP

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "devices/rnic/card/card.h"
#include "rnic/entry.h"
#include "rnic/registers.h"
}

namespace card {

using Bytes = std::vector<std::uint8_t>;

/** A transaction, with a copy of its data. */
struct Crossing : rnic_transaction {
    Bytes bytes_moved;
};

rnic_card_config small_config();

/** A card in a host whose functions have some memory each. */
class Host {
public:
    static constexpr std::uint64_t kMemory = 1 << 22;

    explicit Host(const rnic_card_config &config = small_config());
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    /** Advances until the card wants nothing more at once, or so often. */
    void run(unsigned most = 2000);
    /** Time goes on, to each of the card's deadlines in turn. */
    void run_for(std::uint64_t ns);

    std::uint32_t reg(unsigned fn, std::uint32_t offset);
    void set_reg(unsigned fn, std::uint32_t offset, std::uint32_t value);
    Bytes &memory(unsigned fn);
    std::uint8_t *bar2(unsigned fn);
    std::uint8_t *bar4(unsigned fn);
    /** Frames that leave go to that other host, and the reverse. */
    static void join(Host &a, Host &b);

    rnic_card card{};
    std::uint64_t now = 1000;
    std::vector<Crossing> transactions;
    bool record = false;
    std::uint32_t crc = 0; ///< of all transactions, recorded or not
    std::map<unsigned, std::array<unsigned, RNIC_VECTORS>> interrupts;
    std::function<bool(unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool write)> allows;
    std::function<void(unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool write)> moved;
    std::deque<Bytes> wire;          ///< frames that left and have not been fetched
    std::vector<std::uint64_t> left; ///< while transactions are recorded: when each frame left
    Host *peer = nullptr;

private:
    static bool read(void *context, unsigned fn, std::uint64_t iova, void *out, std::uint32_t bytes);
    static bool write(void *context, unsigned fn, std::uint64_t iova, const void *in, std::uint32_t bytes);
    static bool publish(void *context, unsigned fn, std::uint64_t iova, const std::uint8_t word[4]);
    static void interrupt(void *context, unsigned fn, unsigned vector);
    static void transmit(void *context, const std::uint8_t *frame, std::uint32_t bytes);
    static void transaction(void *context, const rnic_transaction *transaction);
    bool reaches(unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool writes);

    struct Free {
        void operator()(void *area) const;
    };
    std::unique_ptr<void, Free> area_;
    std::map<unsigned, Bytes> memory_;
    std::map<unsigned, std::unique_ptr<void, Free>> bar2_, bar4_;
};

struct Completion {
    std::uint32_t qp = 0, cookie = 0, length = 0, immediate = 0, info = 0;
    unsigned opcode = 0, flags = 0, status = 0;
    std::uint64_t time = 0; ///< with the flag TIME
};
struct Event {
    unsigned kind = 0, code = 0, peer_fn = 0;
    std::uint32_t object = 0, missed = 0;
    Bytes mac, message;
};
struct Segment {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t stag;
};
struct Work {
    unsigned opcode = RNIC_WORK_SEND;
    unsigned flags = 0;
    std::uint32_t cookie = 0;
    std::vector<Segment> segments;
    std::uint64_t remote_address = 0;
    std::uint32_t remote_stag = 0;
    std::uint32_t immediate = 0;
};
/** What MODIFY_QP is told. */
struct Modify {
    unsigned state = RNIC_QP_STATE_KEEP;
    unsigned change = 0, level = 0, rights = 0;
    std::uint32_t domain = 0;
    unsigned ird = 8, ord = 8;
    std::array<std::uint8_t, 6> mac{};
    unsigned peer_fn = 0;
    std::uint32_t peer_qp = 0;
    std::uint32_t max_message = 0;
};

/** A driver of one function. */
class Driver {
public:
    static constexpr unsigned kCommandLog2 = 4, kEventLog2 = 3, kCqLog2 = 6, kRingLog2 = 4;

    Driver(Host &host, unsigned fn, bool big = false);
    void enable(std::uint32_t ctrl = 0);

    /** Memory of the driver, in the bus's address space. */
    std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment = 64);
    std::uint8_t *at(std::uint64_t iova);

    /** A command's entry, to be filled; its answer. */
    Bytes command(unsigned opcode, std::uint32_t object = 0) const;
    void post_command(const Bytes &entry);
    bool answered(Completion *out);
    Completion execute(const Bytes &entry);

    std::uint32_t create_cq(unsigned log2 = kCqLog2, unsigned vector = 1);
    Completion try_create_cq(unsigned log2, unsigned vector, std::uint64_t base);
    Completion try_create_qp(unsigned level, std::uint32_t send_cq, std::uint32_t recv_cq,
                             unsigned rights = 3, unsigned realm = 1, std::uint32_t domain = 1);
    /** With rings. */
    std::uint32_t create_qp(unsigned level, std::uint32_t send_cq, std::uint32_t recv_cq, unsigned rights = 3,
                            unsigned realm = 1, std::uint32_t domain = 1);
    Completion set_ring(std::uint32_t qp, unsigned queue, unsigned log2);
    Completion modify(std::uint32_t qp, const Modify &what);
    Completion simple(unsigned opcode, std::uint32_t object);
    Completion register_linear(std::uint64_t address, std::uint64_t length, std::uint64_t iova,
                               unsigned rights = 3, unsigned realm = 1, std::uint32_t domain = 1);
    /** So many bytes of new memory, at an address that is its IOVA; the tag. */
    std::uint32_t memory(std::uint64_t bytes, std::uint64_t *address, unsigned rights = 3, unsigned realm = 1,
                         std::uint32_t domain = 1);
    Completion listen(const std::string &discriminator, std::uint32_t object, bool begin = true);
    Completion send_control(const Bytes &message, const std::uint8_t mac[6], unsigned fn);

    /** Writes an entry; rings the doorbell if asked to. */
    void post(std::uint32_t qp, const Work &work, bool ring = true);
    void ring(std::uint32_t qp);
    bool poll(std::uint32_t cq, Completion *out);
    std::vector<Completion> drain(std::uint32_t cq);
    void arm(std::uint32_t cq);
    bool event(Event *out);
    void store(std::uint32_t offset, std::uint32_t value);
    std::uint32_t load(std::uint32_t offset);
    void hint(std::uint32_t hints, std::uint32_t object);

    Host &host;
    unsigned fn;
    bool big;
    struct Ring {
        std::uint64_t base = 0;
        unsigned log2 = 0;
        std::uint32_t index = 0; ///< next to be posted, or taken
    };
    struct Queues {
        Ring sq, rq;
    };
    Ring commands, answers, events;
    std::map<std::uint32_t, Ring> cqs;
    std::map<std::uint32_t, Queues> qps;
    std::map<std::uint32_t, std::uint32_t> arms;

private:
    std::uint64_t next_ = 4096;
};

/** Two drivers with a queue pair each that name each other. */
struct Pair {
    Pair(Driver &a, Driver &b, unsigned level, unsigned rights = 3);
    void connect();
    Driver &a, &b;
    std::uint32_t cq_a, cq_b, qp_a, qp_b;
};
/** A zeroed MAC becomes that of the host's card. */
Modify towards(Driver &peer, std::uint32_t peer_qp, unsigned state = RNIC_QP_STATE_CONNECTED);

} // namespace card

#endif
