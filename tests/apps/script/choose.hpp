// SPDX-License-Identifier: MIT
// Which step is next, and what it changes.
#ifndef VIPL_TEST_SCRIPT_CHOOSE_HPP
#define VIPL_TEST_SCRIPT_CHOOSE_HPP

#include "calls.hpp"

#include <random>

class Chooser {
public:
    Chooser(Mode mode, std::uint64_t seed) : mode_(mode), rng_(seed) {}

    Step next(const Model &model);

    // What the outcome on the kernel's pair says of both.
    static void apply(const Step &step, const Outcome &outcome, Model &model);

    std::size_t below(std::size_t most) { return most == 0 ? 0 : static_cast<std::size_t>(rng_() % most); }
    bool is_one_in(std::size_t many) { return below(many) == 0; }

private:
    bool try_send(Step &step, const Model &model);
    bool try_receive(Step &step, const Model &model);
    bool try_shutdown(Step &step, const Model &model);
    bool try_close(Step &step, const Model &model);
    bool try_ask(Step &step, const Model &model);
    bool try_set(Step &step, const Model &model);
    bool try_epoll(Step &step, const Model &model);
    bool try_fill(Step &step, const Model &model);
    bool try_blocked(Step &step, const Model &model);
    std::size_t size();
    std::vector<std::size_t> parts(std::size_t size, bool with_empty);

    Mode mode_;
    std::mt19937_64 rng_;
};

#endif
