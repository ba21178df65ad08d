// SPDX-License-Identifier: MIT
#include "turn.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "engine.hpp"

namespace omnivipl {

namespace {

constexpr unsigned MOST_AT_ONCE = 8;
constexpr uint64_t NS_PER_HOUR = 3600000000000;

/* The turns of an address that are taken, and the threads that wait for one. */
struct Queue {
    unsigned taken = 0;
    unsigned waiting = 0;
    std::condition_variable freed; // of taken, with the lock
};

using Queues = std::map<std::string, Queue>;
std::mutex lock;

/* By address, while one has or wants a turn; guarded by lock. Threads may use it until the process
 * ends. */
Queues &queues()
{
    static auto *all = new Queues;
    return *all;
}

void forget_if_unused(Queues::iterator at)
{
    if (at->second.taken == 0 && at->second.waiting == 0) {
        queues().erase(at);
    }
}

} // namespace

Turn::Turn(const std::string &address, uint64_t deadline) : address_(address)
{
    std::unique_lock<std::mutex> guard(lock);
    const auto at = queues().try_emplace(address_).first;
    Queue &queue = at->second;
    queue.waiting++;
    const auto is_free = [&] { return queue.taken < MOST_AT_ONCE; };
    while (!is_free() && vipl_now_ns() < deadline) {
        const uint64_t left = deadline - vipl_now_ns();
        queue.freed.wait_for(guard, std::chrono::nanoseconds(std::min(left, NS_PER_HOUR)), is_free);
    }
    queue.waiting--;
    has_ = is_free();
    queue.taken += has_ ? 1 : 0;
    forget_if_unused(at);
}

Turn::~Turn()
{
    if (has_) {
        const std::lock_guard<std::mutex> guard(lock);
        const auto at = queues().find(address_);
        at->second.taken--;
        at->second.freed.notify_one();
        forget_if_unused(at);
    }
}

} // namespace omnivipl
