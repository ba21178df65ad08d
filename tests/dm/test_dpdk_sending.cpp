// SPDX-License-Identifier: MIT
//
// What a driver of DPDK says about packets, by a driver of the test's own.
#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <rte_eal.h>
#include <rte_ethdev.h>

extern "C" {
#include "dm/dpdk/sending.h"
}

namespace {

constexpr uint16_t kPort = RTE_MAX_ETHPORTS - 1; // no other driver has it
constexpr uint16_t kRing = 8;

/** A driver with a ring, which keeps what it is given until the test says otherwise. */
struct Driver {
    Driver()
    {
        static const int begun = [] {
            std::array<std::string, 9> words{"test",     "--no-huge",      "-m",
                                             "64",       "--no-telemetry", "--no-shconf",
                                             "--no-pci", "--iova-mode=va", "--log-level=critical"};
            std::vector<char *> arguments;
            for (std::string &word : words) {
                arguments.push_back(&word[0]);
            }
            return rte_eal_init(static_cast<int>(arguments.size()), arguments.data());
        }();
        REQUIRE(begun >= 0);
        own() = this;
        rte_eth_fp_ops[kPort].tx_pkt_burst = take;
        rte_eth_fp_ops[kPort].tx_descriptor_status = status;
        rte_eth_fp_ops[kPort].txq.data = queues.data();
        REQUIRE(dm_dpdk_sending_begin(&sending, kPort) == 0);
        sending.ring = kRing;
    }
    ~Driver()
    {
        free_oldest(kept.size());
        dm_dpdk_sending_end(&sending);
    }
    Driver(const Driver &) = delete;
    Driver &operator=(const Driver &) = delete;

    static Driver *&own()
    {
        static Driver *one;
        return one;
    }
    static uint16_t take(void *, rte_mbuf **mbufs, uint16_t count)
    {
        Driver &driver = *own();
        const uint16_t taken = std::min(count, driver.takes);
        driver.kept.insert(driver.kept.end(), mbufs, mbufs + taken);
        driver.given += taken;
        return taken;
    }
    /** `offset` counts from the descriptor that is used next; the oldest ones are behind it. */
    static int status(void *, uint16_t offset)
    {
        Driver &driver = *own();
        driver.all_in_ring = driver.all_in_ring && offset < kRing;
        const size_t at = driver.given - kRing + offset; // of all packets
        return at < driver.sent ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
    }
    void free_oldest(size_t count)
    {
        for (; count > 0; count--) {
            rte_pktmbuf_free(kept.front());
            kept.pop_front();
        }
    }
    unsigned give(unsigned count)
    {
        std::vector<dm_packet> packets;
        for (unsigned i = 0; i < count; i++) {
            packets.push_back(dm_packet{});
            packets.back().at = &bytes[i * 64];
            packets.back().bytes = 60 + i % 4;
        }
        return dm_dpdk_sending_give(&sending, packets.data(), count);
    }
    uint64_t done() { return dm_dpdk_sending_done(&sending); }

    std::array<void *, 4> queues{};
    dm_dpdk_sending sending{};
    std::deque<rte_mbuf *> kept;
    uint16_t takes = UINT16_MAX;
    size_t given = 0, sent = 0;
    bool all_in_ring = true; // the descriptors that were asked for
    std::array<uint8_t, size_t(64) * DM_BATCH> bytes{};
};

} // namespace

TEST_CASE("a driver gets the packets where they are", "[dm_dpdk_sending]")
{
    Driver driver;
    REQUIRE(driver.give(3) == 3);
    for (unsigned i = 0; i < 3; i++) {
        const rte_mbuf *mbuf = driver.kept[i];
        CHECK(rte_pktmbuf_mtod(mbuf, const uint8_t *) == &driver.bytes[i * 64]);
        CHECK(rte_mbuf_iova_get(mbuf) == reinterpret_cast<uintptr_t>(&driver.bytes[i * 64]));
        CHECK(mbuf->data_len == 60 + i);
        CHECK(mbuf->pkt_len == 60 + i);
        CHECK(mbuf->nb_segs == 1);
    }
}

TEST_CASE("packets are sent when their descriptors say so, long before the driver frees them",
          "[dm_dpdk_sending]")
{
    Driver driver;
    driver.sending.is_exact = true;
    REQUIRE(driver.give(5) == 5);
    CHECK(driver.done() == 0);
    driver.sent = 2;
    CHECK(driver.done() == 2);
    driver.sent = 5;
    CHECK(driver.done() == 5);
    REQUIRE(driver.give(2) == 2);
    CHECK(driver.done() == 5);
    driver.sent = 7;
    CHECK(driver.done() == 7);
    CHECK(driver.sending.freed == 0);
    driver.free_oldest(4);
    CHECK(driver.done() == 7);
    CHECK(driver.sending.freed == 4);
    CHECK(driver.all_in_ring);
}

TEST_CASE("a full ring has no descriptor that tells of its oldest packet", "[dm_dpdk_sending]")
{
    Driver driver;
    driver.sending.is_exact = true;
    REQUIRE(driver.give(kRing) == kRing);
    driver.sent = kRing;
    CHECK(driver.done() == 0); // the next descriptor may be the driver's again
    driver.free_oldest(1);
    CHECK(driver.done() == kRing);
    CHECK(driver.all_in_ring);
}

TEST_CASE("where a driver does not say the status, a packet is sent when it is free", "[dm_dpdk_sending]")
{
    Driver driver;
    REQUIRE(driver.give(4) == 4);
    driver.sent = 4;
    CHECK(driver.done() == 0);
    std::swap(driver.kept[0], driver.kept[1]);
    driver.free_oldest(1); // the second packet
    CHECK(driver.done() == 0);
    driver.free_oldest(1);
    CHECK(driver.done() == 2);
}

TEST_CASE("what a driver does not take is given again", "[dm_dpdk_sending]")
{
    Driver driver;
    const unsigned headers = rte_mempool_avail_count(driver.sending.headers);
    driver.takes = 2;
    CHECK(driver.give(5) == 2);
    CHECK(rte_mempool_avail_count(driver.sending.headers) == headers - 2);
    driver.takes = 0;
    CHECK(driver.give(3) == 0);
    driver.takes = UINT16_MAX;
    CHECK(driver.give(3) == 3);
    CHECK(driver.kept.size() == 5);
    driver.free_oldest(5);
    CHECK(driver.done() == 5);
    CHECK(rte_mempool_avail_count(driver.sending.headers) == headers);
}

TEST_CASE("a driver that frees nothing has as many packets as there are headers", "[dm_dpdk_sending]")
{
    Driver driver;
    unsigned all = 0;
    for (unsigned one = 1; one > 0; all += one) {
        one = driver.give(DM_BATCH);
    }
    CHECK(all == DM_DPDK_SENDING);
    CHECK(driver.done() == 0);
    driver.free_oldest(1);
    CHECK(driver.give(2) == 1);
    driver.free_oldest(driver.kept.size());
    CHECK(driver.done() == DM_DPDK_SENDING + 1);
    CHECK(driver.give(DM_BATCH) == DM_BATCH); // around the end of the places
    driver.free_oldest(driver.kept.size());
    CHECK(driver.done() == DM_DPDK_SENDING + 1 + DM_BATCH);
}
