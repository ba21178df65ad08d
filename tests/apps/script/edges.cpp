// SPDX-License-Identifier: MIT
#include "edges.hpp"

#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/epoll.h>

namespace {

constexpr int kMostEvents = 4;
constexpr int kMostLate = 3; // reports of what the kernel had still to tell of

// What epoll reports whether it was asked for or not.
constexpr std::uint32_t kAlways = EPOLLERR | EPOLLHUP;

std::vector<epoll_event> reported(int set, int timeout_ms)
{
    std::vector<epoll_event> events(kMostEvents);
    int count = epoll_wait(set, events.data(), kMostEvents, timeout_ms);
    if (count < 0) {
        throw Wrong{"epoll_wait: " + error_name(errno)};
    }
    events.resize(static_cast<std::size_t>(count));
    return events;
}

std::string hex(std::uint32_t number)
{
    char text[16];
    snprintf(text, sizeof(text), "0x%x", number);
    return text;
}

std::uint32_t asked(const Pair &pair, const End &one, int end)
{
    return static_cast<std::uint32_t>(static_cast<unsigned short>(pair.state(end))) & (one.events | kAlways);
}

// Rules 2 and 4, of what is reported within a time.
void take(Pair &pair, const Model &model, int timeout_ms, bool *told)
{
    for (const epoll_event &event : reported(pair.set, timeout_ms)) {
        auto end = static_cast<int>(event.data.u32);
        std::uint32_t right = pair.disabled[end] ? 0 : asked(pair, model.ends[end], end);
        if (event.events != right) {
            throw Wrong{std::string(pair.name) + ": epoll_wait reports " + hex(event.events) + " of end " +
                        std::to_string(end) + ", not " + hex(right)};
        }
        told[end] = true;
        pair.disabled[end] = (model.ends[end].events & EPOLLONESHOT) != 0;
    }
}

void set_again(Pair &pair, const Model &model, bool *told)
{
    for (int end : {0, 1}) {
        const End &one = model.ends[end];
        if (one.open && one.registered && (one.events & EPOLLONESHOT)) {
            epoll_event event{};
            event.events = one.events;
            event.data.u32 = static_cast<std::uint32_t>(end);
            epoll_ctl(pair.set, EPOLL_CTL_MOD, pair.fd(end), &event);
            pair.disabled[end] = told[end] = false;
        }
    }
}

// Rule 1: an end that is to be reported and has not been; -1: there is none.
int missing(const Pair &pair, const Model &model, const bool *told)
{
    for (int end : {0, 1}) {
        if (model.ends[end].open && !told[end] &&
            must_report(model, end,
                        static_cast<std::uint32_t>(static_cast<unsigned short>(pair.state(end))))) {
            return end;
        }
    }
    return -1;
}

} // namespace

bool must_report(const Model &model, int end, std::uint32_t state)
{
    const End &one = model.ends[end];
    std::uint32_t holds = state & (one.events | kAlways);
    if (!one.registered || one.disabled || holds == 0) {
        return false;
    }
    bool was_set = one.was_set || (one.events & EPOLLONESHOT); // which the step sets again
    return was_set || one.reset_came || (one.data_came && one.unread > 0 && (holds & EPOLLIN)) ||
           (one.end_came && (holds & (EPOLLIN | EPOLLRDHUP))) || (one.space_came && (holds & EPOLLOUT));
}

Outcome control(const Step &step, Pair &pair)
{
    epoll_event event{};
    event.events = step.events;
    event.data.u32 = static_cast<std::uint32_t>(step.end);
    int result = epoll_ctl(pair.set, step.option, pair.fd(step.end), &event);
    pair.disabled[step.end] = pair.disabled[step.end] && result != 0;
    return {result, result < 0 ? errno : 0, {}};
}

Outcome wait_for_levels(Pair &pair)
{
    Outcome outcome;
    outcome.more = {0, 0};
    auto events = reported(pair.set, 0);
    outcome.value = static_cast<long>(events.size());
    for (const epoll_event &event : events) {
        outcome.more[event.data.u32] = event.events;
    }
    return outcome;
}

Outcome wait_nested(Pair &pair)
{
    Outcome outcome;
    pollfd one{pair.set, POLLIN, 0};
    outcome.more.push_back(poll(&one, 1, 0));
    outcome.more.push_back(one.revents);
    auto events = reported(pair.outer, 0);
    outcome.value = static_cast<long>(events.size());
    for (const epoll_event &event : events) {
        outcome.more.push_back(event.events);
    }
    return outcome;
}

Outcome wait_for_edges(Pair &pair, const Model &model)
{
    bool told[2] = {false, false};
    take(pair, model, 0, told);
    set_again(pair, model, told);
    take(pair, model, 0, told);
    auto end_of_time = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms());
    for (int end = missing(pair, model, told); end >= 0; end = missing(pair, model, told)) {
        if (std::chrono::steady_clock::now() > end_of_time) {
            throw Wrong{std::string("HUNG: ") + pair.name + ": epoll_wait does not report end " +
                        std::to_string(end) + ", whose state is " +
                        hex(static_cast<unsigned short>(pair.state(end)))};
        }
        take(pair, model, 10, told);
    }
    for (int late = 0; !reported(pair.set, 0).empty(); late++) {
        if (late == kMostLate) {
            throw Wrong{std::string(pair.name) + ": epoll_wait reports without end, though nothing happens"};
        }
    }
    return {};
}
