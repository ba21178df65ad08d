// SPDX-License-Identifier: MIT
#include "adapters.hpp"

#include <algorithm>

namespace adapters {

namespace {

constexpr std::uint32_t kBatch = 32; // frames that the switch hands out at once

Adapter &adapter_of(void *context)
{
    return *static_cast<Adapter *>(context);
}

Ends ends_of(const Adapter &adapter, std::uint32_t flow)
{
    efe_ends named;
    efe_ends_of(&adapter.efe, flow, &named);
    Ends ends{named.local_fn, {}, named.remote_fn};
    std::copy(named.remote_mac, named.remote_mac + 6, ends.remote_mac.begin());
    return ends;
}

/** Time and bytes, as every machine has them. */
void add_to_trace(Adapter &adapter, const std::uint8_t *frame, std::uint32_t bytes)
{
    std::uint8_t when[8];
    for (unsigned i = 0; i < 8; ++i) {
        when[i] = static_cast<std::uint8_t>(adapter.world.now >> 8 * i);
    }
    adapter.trace = vipl_crc32c(vipl_crc32c(adapter.trace, when, sizeof when), frame, bytes);
    ++adapter.traced;
}

// --- What EFE calls ------------------------------------------------------------------------------

bool efe_transmits(void *context, const std::uint8_t *frame, std::uint32_t bytes)
{
    Adapter &adapter = adapter_of(context);
    if (adapter.refuses && adapter.refuses(Bytes(frame, frame + bytes))) {
        return false;
    }
    if (adapter.world.captured != nullptr) {
        adapter.world.captured->emplace_back(adapter.world.now, Bytes(frame, frame + bytes));
    }
    add_to_trace(adapter, frame, bytes);
    return rnic_switch_send(&adapter.sw, adapter.world.now, adapter.world.now, frame, bytes);
}

bool is_right(const Stream &stream, const efe_header &header, const std::uint8_t *payload)
{
    const std::uint64_t index = stream.delivered;
    if (header.message != static_cast<std::uint32_t>(index) || header.left != header.payload_bytes) {
        return false;
    }
    for (std::uint32_t i = 0; i < header.payload_bytes; ++i) {
        if (payload[i] != payload_byte(header.from_fn, header.to_fn, index, i)) {
            return false;
        }
    }
    return true;
}

bool efe_delivers(void *context, std::uint32_t flow, const efe_header *header, const std::uint8_t *payload)
{
    Adapter &adapter = adapter_of(context);
    const Ends ends = ends_of(adapter, flow);
    Stream &stream = adapter.streams[ends];
    adapter.numbers[flow] = ends; // to know it when it dies
    if (adapter.stopped.count(ends.local) != 0) {
        ++stream.refusals;
        return false;
    }
    if ((!adapter.judges || adapter.judges(ends)) && !is_right(stream, *header, payload)) {
        adapter.wrong.push_back("frame " + std::to_string(header->message) + " came for " +
                                std::to_string(stream.delivered));
    }
    ++stream.delivered;
    stream.bytes += header->payload_bytes;
    return true;
}

void efe_acknowledges(void *context, std::uint32_t flow, std::uint64_t tag)
{
    Adapter &adapter = adapter_of(context);
    Stream &stream = adapter.streams[ends_of(adapter, flow)];
    if (tag != stream.acknowledged) {
        adapter.wrong.push_back("tag " + std::to_string(tag) + " acknowledged for " +
                                std::to_string(stream.acknowledged));
    }
    ++stream.acknowledged;
}

void efe_has_room(void *context, std::uint32_t flow)
{
    Adapter &adapter = adapter_of(context);
    const Ends ends = ends_of(adapter, flow);
    std::uint8_t *buffer = efe_reserve(&adapter.efe, flow);
    if (buffer == nullptr) {
        adapter.wrong.push_back("told of room that is not there");
        return;
    }
    adapter.feed(ends);
}

void efe_died(void *context, std::uint32_t flow, efe_death why)
{
    Adapter &adapter = adapter_of(context);
    // A dead flow does not tell its ends any more: the layer above knows it by its number.
    const auto known = adapter.numbers.find(flow);
    if (known == adapter.numbers.end()) {
        return;
    }
    Stream &stream = adapter.streams[known->second];
    stream.deaths.push_back(why);
    stream.died_at.push_back(adapter.world.now);
    stream.wanted = stream.committed = stream.acknowledged = stream.delivered = 0;
}

const efe_host kEfeHost = {efe_transmits, efe_delivers, efe_acknowledges, efe_has_room, efe_died};

// --- What the switch calls -----------------------------------------------------------------------

void switch_transmits(void *context, const std::uint8_t *frame, std::uint32_t bytes)
{
    Adapter &adapter = adapter_of(context);
    if (!adapter.absent) {
        adapter.world.transmit(Bytes(frame, frame + bytes));
    }
}

void switch_arrives(void *context, const std::uint8_t *frame, std::uint32_t bytes)
{
    adapter_of(context).receive(
        Bytes(frame, frame + bytes)); // a copy of its size: a checker sees a read beyond it
}

const rnic_switch_host kSwitchHost = {switch_transmits, switch_arrives};

efe_config efe_config_of(const Settings &settings, const Mac &mac)
{
    efe_config config{};
    config.functions = settings.functions;
    config.flows = settings.flows;
    config.frames = settings.frames;
    config.mtu = settings.mtu;
    std::copy(mac.begin(), mac.end(), config.mac);
    config.seed = settings.seed * 1000003 + mac[5];
    config.simulated = settings.simulated;
    config.first_epoch = settings.first_epoch;
    return config;
}

rnic_switch_config switch_config_of(const Settings &settings, const Mac &mac)
{
    rnic_switch_config config{};
    config.functions = settings.functions;
    config.frames = settings.switch_frames;
    config.mtu = settings.mtu;
    std::copy(mac.begin(), mac.end(), config.mac);
    config.impair = wire(settings.impair);
    config.impair.seed += mac[5];
    return config;
}

std::size_t efe_area_bytes(const Settings &settings, const Mac &mac)
{
    const efe_config config = efe_config_of(settings, mac);
    return efe_bytes(&config);
}

std::size_t switch_area_bytes(const Settings &settings, const Mac &mac)
{
    const rnic_switch_config config = switch_config_of(settings, mac);
    return rnic_switch_bytes(&config);
}

} // namespace

// --- An adapter ----------------------------------------------------------------------------------

Adapter::Adapter(World &its_world, unsigned its_number, const Settings &its_settings)
    : world(its_world), number(its_number), mac(mac_of(its_number)), settings(its_settings),
      efe_area(efe_area_bytes(its_settings, mac)), switch_area(switch_area_bytes(its_settings, mac))
{
    const efe_config config = efe_config_of(settings, mac);
    efe_init(&efe, efe_area.get(), &config, &kEfeHost, this);
    const rnic_switch_config switch_config = switch_config_of(settings, mac);
    rnic_switch_init(&sw, switch_area.get(), &switch_config, &kSwitchHost, this);
    for (std::uint32_t fn = 0; fn < settings.functions; ++fn) {
        efe_function_enable(&efe, static_cast<std::uint16_t>(fn));
    }
}

void Adapter::restart(std::uint64_t seed)
{
    settings.seed = seed;
    std::memset(efe_area.get(), 0, efe_area_bytes(settings, mac));
    const efe_config config = efe_config_of(settings, mac);
    efe_init(&efe, efe_area.get(), &config, &kEfeHost, this);
    for (std::uint32_t fn = 0; fn < settings.functions; ++fn) {
        efe_function_enable(&efe, static_cast<std::uint16_t>(fn));
    }
    streams.clear();
    numbers.clear();
}

std::uint32_t Adapter::open(std::uint16_t local, const Adapter &peer, std::uint16_t remote)
{
    const std::uint32_t flow = efe_open(&efe, world.now, local, peer.mac.data(), remote);
    if (flow != EFE_NO_FLOW) {
        numbers[flow] = Ends{local, peer.mac, remote};
    }
    return flow;
}

void Adapter::commit(std::uint32_t flow, unsigned frames, std::uint32_t bytes)
{
    for (unsigned i = 0; i < frames; ++i) {
        if (efe_reserve(&efe, flow) == nullptr) {
            throw std::logic_error("there is no room for a frame");
        }
        const efe_send send{EFE_DATA, 0, 0, 0, bytes, 0};
        efe_commit(&efe, world.now, flow, &send, bytes, 0);
    }
}

efe_flow_info Adapter::info(std::uint16_t local, const Adapter &peer, std::uint16_t remote)
{
    efe_flow_info info;
    efe_describe(&efe, open(local, peer, remote), &info);
    return info;
}

void Adapter::send(std::uint16_t local, const Adapter &peer, std::uint16_t remote, std::uint64_t frames)
{
    const Ends ends{local, peer.mac, remote};
    streams[ends].wanted += frames;
    feed(ends);
}

/** The bytes that the receiver expects. */
static std::uint32_t make_checkable(const Ends &ends, std::uint64_t index, std::uint8_t *payload,
                                    std::uint32_t most)
{
    const std::uint32_t bytes = payload_bytes(index, most);
    for (std::uint32_t i = 0; i < bytes; ++i) {
        payload[i] = payload_byte(ends.local, ends.remote, index, i);
    }
    return bytes;
}

static std::uint8_t type_of(std::uint64_t index)
{
    return index % 7 == 3 ? EFE_CONTROL : index % 13 == 5 ? EFE_MESSAGE_ACK : EFE_DATA;
}

/** Hands EFE as many frames as it takes. */
void Adapter::feed(const Ends &ends)
{
    Stream &stream = streams[ends];
    const std::uint32_t flow = efe_open(&efe, world.now, ends.local, ends.remote_mac.data(), ends.remote);
    numbers[flow] = ends;
    while (stream.committed < stream.wanted) {
        std::uint8_t *payload = efe_reserve(&efe, flow);
        if (payload == nullptr) {
            return;
        }
        const std::uint64_t index = stream.committed++;
        const std::uint8_t type = type_of(index);
        const std::uint32_t bytes = makes && type == EFE_DATA
                                        ? makes(index, payload)
                                        : make_checkable(ends, index, payload, max_payload);
        const bool last = stream.committed == stream.wanted;
        const efe_send send{type,  static_cast<std::uint8_t>(EFE_FIRST | EFE_LAST | (last ? EFE_ACK_NOW : 0)),
                            11,    22,
                            bytes, static_cast<std::uint32_t>(index)};
        efe_commit(&efe, world.now, flow, &send, bytes, index);
    }
    efe_cancel(&efe, flow);
}

void Adapter::go_on(std::uint16_t fn)
{
    stopped.erase(fn);
    for (const auto &entry : streams) {
        if (entry.first.local == fn && entry.second.refusals > 0) {
            efe_resume(&efe, world.now,
                       efe_open(&efe, world.now, fn, entry.first.remote_mac.data(), entry.first.remote));
        }
    }
}

void Adapter::reset(std::uint16_t fn)
{
    efe_function_reset(&efe, world.now, fn);
}

void Adapter::receive(const Bytes &frame)
{
    efe_receive(&efe, world.now, frame.data(), static_cast<std::uint32_t>(frame.size()));
}

void Adapter::run()
{
    while (rnic_switch_advance(&sw, world.now, kBatch) > 0) {
        efe_unblock(&efe, world.now);
    }
    efe_unblock(&efe, world.now);
    efe_advance(&efe, world.now);
}

std::uint64_t Adapter::deadline() const
{
    return std::min(efe_deadline(&efe), rnic_switch_deadline(&sw, true));
}

// --- The world -----------------------------------------------------------------------------------

void World::transmit(Bytes frame)
{
    if (passes && !passes(frame)) {
        return;
    }
    Mac to;
    std::copy_n(frame.begin(), 6, to.begin());
    std::uint64_t due = now;
    const auto line = lines.find(to);
    if (line != lines.end()) {
        rnic_fate fate;
        rnic_impair_decide(&line->second, now, static_cast<std::uint32_t>(frame.size()), &fate);
        if (fate.copies == 0) {
            return;
        }
        due = fate.due[0];
    }
    on_wire.emplace(due, std::move(frame));
}

void World::deliver(const Bytes &frame)
{
    for (auto &adapter : adapters) {
        if (!adapter->absent && std::equal(adapter->mac.begin(), adapter->mac.end(), frame.begin())) {
            adapter->receive(frame);
        }
    }
}

std::uint64_t World::next_event() const
{
    std::uint64_t next = on_wire.empty() ? UINT64_MAX : on_wire.begin()->first;
    for (const auto &adapter : adapters) {
        next = std::min(next, adapter->deadline());
    }
    return next;
}

bool World::run_until(const std::function<bool()> &condition, std::uint64_t limit)
{
    const std::uint64_t end = now + limit;
    while (!condition()) {
        const std::uint64_t next = next_event();
        if (next > end) {
            now = end;
            return condition();
        }
        now = std::max(now, next);
        while (!on_wire.empty() && on_wire.begin()->first <= now) {
            const Bytes frame = std::move(on_wire.begin()->second);
            on_wire.erase(on_wire.begin());
            deliver(frame);
        }
        for (auto &adapter : adapters) {
            adapter->run();
        }
    }
    return true;
}

bool World::is_done() const
{
    for (const auto &adapter : adapters) {
        for (const auto &entry : adapter->streams) {
            const Stream &stream = entry.second;
            if (stream.acknowledged != stream.wanted) {
                return false;
            }
            for (const auto &peer : adapters) {
                const auto other =
                    peer->streams.find(Ends{entry.first.remote, adapter->mac, entry.first.local});
                if (peer->mac == entry.first.remote_mac && stream.wanted > 0 &&
                    (other == peer->streams.end() || other->second.delivered != stream.wanted)) {
                    return false;
                }
            }
        }
    }
    return true;
}

void World::become(const World &other)
{
    now = other.now;
    lines = other.lines;
    on_wire = other.on_wire;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        Adapter &to = *adapters[i];
        const Adapter &from = *other.adapters[i];
        to.efe_area.become(from.efe_area);
        to.switch_area.become(from.switch_area);
        efe_attach(&to.efe, to.efe_area.get(), &kEfeHost, &to);
        rnic_switch_attach(&to.sw, to.switch_area.get(), &kSwitchHost, &to);
        to.streams = from.streams;
        to.numbers = from.numbers;
        to.stopped = from.stopped;
        to.trace = from.trace;
        to.traced = from.traced;
        to.max_payload = from.max_payload;
    }
}

std::string World::wrong() const
{
    std::string all;
    for (const auto &adapter : adapters) {
        for (const std::string &text : adapter->wrong) {
            all += std::to_string(adapter->number) + ": " + text + "\n";
        }
    }
    return all;
}

} // namespace adapters
