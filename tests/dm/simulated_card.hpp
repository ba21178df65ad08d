// SPDX-License-Identifier: MIT
//
// The model of the card on a bus of the test's own, in simulated time: time passes when the host
// waits for it, and the card's clock may be faster or slower than the host's.
#ifndef VIPL_TESTS_DM_SIMULATED_CARD_HPP
#define VIPL_TESTS_DM_SIMULATED_CARD_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

extern "C" {
#include "backends/rnic/verbs/verbs.h"
#include "devices/rnic/card/card.h"
#include "dm/clock.h"
}

namespace dm_test {

class SimulatedCard {
public:
    /** `raw`: a bit for each function that may have raw queue pairs. */
    explicit SimulatedCard(std::int64_t parts_per_million = 0, std::uint64_t raw = 3,
                           std::uint32_t dram_bytes = 16 << 20);
    ~SimulatedCard();
    SimulatedCard(const SimulatedCard &) = delete;
    SimulatedCard &operator=(const SimulatedCard &) = delete;

    /** The next function, opened by the driver. */
    vipl_rnic *open();
    /** A frame comes by the wire. */
    void arrive(const std::vector<std::uint8_t> &frame);
    void impair(const char *text);
    /** The functions' reads fail from now on, and the bus says that the card is gone. */
    void pull_out() { is_gone = true; }

    /** A frame has left by the wire, at this time of the card's. */
    std::function<void(const std::uint8_t *frame, std::uint32_t bytes, std::uint64_t time)> on_frame;
    dm_clock host{read, wait_until, this};
    std::uint64_t now = 1000000; // of the host
    std::uint64_t step = 0;      // by which each look at the host's clock moves it
    bool is_gone = false;
    const std::uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

private:
    struct Function;
    friend struct Function;
    static std::uint64_t read(void *self);
    static void wait_until(void *self, std::uint64_t time);
    std::uint64_t time_at(std::uint64_t host) const;
    void run(std::uint64_t time);

    std::int64_t parts_per_million_;
    rnic_card_config config_{};
    rnic_card card_{};
    void *area_ = nullptr;
    std::vector<std::unique_ptr<Function>> functions_;
};

} // namespace dm_test

#endif
