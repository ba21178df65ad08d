// SPDX-License-Identifier: MIT
#include "simulated.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <catch2/catch.hpp>

namespace dm_test {

std::uint64_t Clock::read(void *self)
{
    auto *clock = static_cast<Clock *>(self);
    clock->now += clock->step;
    return clock->now;
}

void Clock::wait_until(void *self, std::uint64_t time)
{
    auto *clock = static_cast<Clock *>(self);
    clock->now = std::max(clock->now, time);
}

namespace {

Store &store_of(dm_store *store)
{
    return *static_cast<Store *>(store);
}

void keep_store(dm_store *)
{
}

int submit(dm_store *base, const dm_transfer *transfer)
{
    REQUIRE(transfer->offset % base->align == 0);
    REQUIRE(transfer->bytes % base->align == 0);
    store_of(base).transfers.push_back(*transfer);
    return 0;
}

unsigned reap(dm_store *base, dm_transferred *ended, unsigned room, bool wait)
{
    Store &store = store_of(base);
    unsigned count = 0;
    while (count < room && !store.transfers.empty() && (!store.is_slow() || (wait && count == 0))) {
        const dm_transfer one = store.transfers.front();
        store.transfers.pop_front();
        const std::size_t rest = store.bytes_of.size() - static_cast<std::size_t>(one.offset);
        const std::size_t got = std::min<std::size_t>(one.bytes, rest);
        std::memcpy(one.at, store.bytes_of.data() + one.offset, got);
        ended[count++] = {one.cookie, store.error, static_cast<std::uint32_t>(got)};
        store.reads++;
    }
    return count;
}

Port &port_of(dm_port *port)
{
    return *static_cast<Port *>(port);
}

void keep_port(dm_port *)
{
}

unsigned send(dm_port *base, const dm_packet *packets, unsigned count, enum dm_send_end *end)
{
    Port &port = port_of(base);
    for (unsigned i = 0; i < count; ++i) {
        *end = port.answer();
        if (*end != DM_SEND_ALL) {
            errno = port.failure;
            return i;
        }
        port.held.push_back(packets[i]);
        port.idle = 0;
        port.on_taken();
        while (port.held.size() > port.lag) {
            port.on_completed(port.held.front());
            port.held.pop_front();
            port.done++;
        }
    }
    *end = DM_SEND_ALL;
    return count;
}

/** A port that is asked sends what it holds, in the end. */
std::uint64_t completed(dm_port *base)
{
    Port &port = port_of(base);
    if (++port.idle > 3 && !port.held.empty()) {
        port.on_completed(port.held.front());
        port.held.pop_front();
        port.done++;
    }
    return port.done;
}

bool post(dm_port *base, std::uint8_t *at, std::uint32_t room)
{
    Port &port = port_of(base);
    if (port.slots.size() >= port.most_slots) {
        return false;
    }
    port.slots.emplace_back(at, room);
    return true;
}

int receive(dm_port *base, dm_arrival *arrivals, unsigned room)
{
    Port &port = port_of(base);
    int count = 0;
    while (static_cast<unsigned>(count) < std::min(room, DM_BATCH) && !port.slots.empty() &&
           !port.is_halted) {
        const auto slot = port.slots.front();
        const std::uint32_t bytes = port.arrive ? port.arrive(slot.first, slot.second) : 0;
        if (bytes == 0) {
            break;
        }
        port.slots.pop_front();
        port.time += 1000;
        arrivals[count++] = {port.time, bytes,
                             port.original > bytes ? static_cast<std::uint32_t>(port.original) : bytes};
    }
    return count;
}

std::uint64_t dropped(dm_port *base)
{
    return std::exchange(port_of(base).drops, 0);
}

void wait(dm_port *base, std::uint64_t nanoseconds)
{
    if (port_of(base).clock != nullptr) {
        port_of(base).clock->now += nanoseconds;
    }
}

void halt(dm_port *base)
{
    port_of(base).is_halted = true;
}

} // namespace

Store::Store(Bytes all) : dm_store{}, bytes_of(std::move(all))
{
    kind_.name = "simulated";
    kind_.close = keep_store;
    kind_.submit = submit;
    kind_.reap = reap;
    kind = &kind_;
    bytes = bytes_of.size();
    align = 512;
}

Port::Port() : dm_port{}
{
    kind_.name = "simulated";
    kind_.close = keep_port;
    kind_.send = send;
    kind_.completed = completed;
    kind_.post = post;
    kind_.receive = receive;
    kind_.dropped = dropped;
    kind_.wait = wait;
    kind_.halt = halt;
    kind = &kind_;
    longest = 1518;
    std::strcpy(dm_port::name, "sim0");
    dm_port::clock = "the test's";
}

dm_memory *memory_of(std::uint64_t bytes)
{
    const dm_memory_use use{};
    dm_memory *memory = nullptr;
    vipl_dm_reason reason{};
    REQUIRE(dm_memory_open(nullptr, bytes, &use, &memory, &reason) == 0);
    return memory;
}

} // namespace dm_test
