// SPDX-License-Identifier: MIT
//
// Adapters of EFE and switch, joined by wires, in simulated time. What each function sends to
// another is a stream of numbered frames with contents that both sides can work out; whatever is
// delivered is checked against it.
#ifndef VIPL_DEVICES_ADAPTERS_HPP
#define VIPL_DEVICES_ADAPTERS_HPP

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

extern "C" {
#include "devices/rnic/efe/efe.h"
#include "devices/rnic/efe/switch.h"
#include "iwarp/crc32c.h"
}

namespace adapters {

using Bytes = std::vector<std::uint8_t>;
using Mac = std::array<std::uint8_t, 6>;

constexpr std::uint64_t us = 1000, ms = 1000 * us, second = 1000 * ms;

inline Mac mac_of(unsigned adapter)
{
    return Mac{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(adapter + 1)};
}

inline rnic_impair_config wire(const std::string &text)
{
    rnic_impair_config config{};
    char error[128];
    if (!rnic_impair_parse(text.c_str(), &config, error, sizeof error)) {
        throw std::logic_error(error);
    }
    return config;
}

/** Memory for an area, zeroed and aligned. */
class Area {
public:
    explicit Area(std::size_t bytes) : bytes_(bytes), lines_(new Line[bytes / sizeof(Line)]()) {}
    void *get() { return lines_.get(); }
    void become(const Area &other)
    {
        std::memcpy(static_cast<void *>(lines_.get()), other.lines_.get(), bytes_);
    }

private:
    struct alignas(64) Line {
        std::uint8_t bytes[64];
    };
    std::size_t bytes_;
    std::unique_ptr<Line[]> lines_;
};

/** Ends of a flow, as the local side names them. */
struct Ends {
    std::uint16_t local;
    Mac remote_mac;
    std::uint16_t remote;
    bool operator<(const Ends &other) const
    {
        return std::tie(local, remote_mac, remote) < std::tie(other.local, other.remote_mac, other.remote);
    }
};

/** What the layer above has of a flow. */
struct Stream {
    std::uint64_t wanted = 0;       // frames to send
    std::uint64_t committed = 0;    // of them, handed to EFE
    std::uint64_t acknowledged = 0; // of these, in order
    std::uint64_t delivered = 0;    // frames received, in order
    std::uint64_t bytes = 0;        // of their payloads
    unsigned refusals = 0;
    std::vector<efe_death> deaths;
    std::vector<std::uint64_t> died_at;
};

struct Settings {
    std::uint32_t functions = 4;
    std::uint32_t flows = 64;
    std::uint32_t frames = 2048;
    std::uint32_t mtu = 1500;
    std::uint32_t switch_frames = 1024;
    std::uint64_t seed = 1;
    std::uint32_t first_epoch = 0;
    bool simulated = true;
    std::string impair;
};

class World;

class Adapter {
public:
    Adapter(World &world, unsigned number, const Settings &settings);

    /** The layer above has so many more frames for the peer's function. */
    void send(std::uint16_t local, const Adapter &peer, std::uint16_t remote, std::uint64_t frames);
    Stream &stream(std::uint16_t local, const Adapter &peer, std::uint16_t remote)
    {
        return streams[Ends{local, peer.mac, remote}];
    }
    std::uint32_t open(std::uint16_t local, const Adapter &peer, std::uint16_t remote);
    /** Hands EFE so many data frames of so many bytes, which belong to no stream. */
    void commit(std::uint32_t flow, unsigned frames, std::uint32_t bytes);
    efe_flow_info info(std::uint16_t local, const Adapter &peer, std::uint16_t remote);
    /** The function's layer above refuses frames, until it goes on. */
    void stop(std::uint16_t fn) { stopped.insert(fn); }
    void go_on(std::uint16_t fn);
    void reset(std::uint16_t fn);
    /** It is switched off and on: another life of all its functions. */
    void restart(std::uint64_t seed);
    void receive(const Bytes &frame);
    void feed(const Ends &ends);
    void run();
    std::uint64_t deadline() const;
    const efe_counters &counted() const { return *efe_counted(&efe); }

    World &world;
    unsigned number;
    Mac mac;
    Settings settings;
    Area efe_area, switch_area;
    struct efe efe {};
    rnic_switch sw{};
    std::map<Ends, Stream> streams;
    std::map<std::uint32_t, Ends> numbers; // of flows
    std::set<std::uint16_t> stopped;
    std::uint32_t trace = 0; // CRC of all frames that EFE sent, and when
    std::uint64_t traced = 0;
    std::vector<std::string> wrong;           // what must not happen
    std::function<bool(const Ends &)> judges; // whose contents are checked; none: all
    /** Writes a data frame's payload, returns its bytes; none: contents that can be checked. */
    std::function<std::uint32_t(std::uint64_t index, std::uint8_t *payload)> makes;
    std::function<bool(const Bytes &)>
        refuses; // frames that the switch does not take; none: those for which it has no room
    std::uint32_t max_payload = 200; // of the frames that it sends
    bool absent = false;             // unplugged: neither sends nor receives
};

/** All adapters, the wires between them, and the time. */
class World {
public:
    Adapter &add(const Settings &settings = Settings())
    {
        adapters.push_back(
            std::make_unique<Adapter>(*this, static_cast<unsigned>(adapters.size()), settings));
        return *adapters.back();
    }
    /** A line through which all frames to this adapter pass. */
    void bottleneck(const Adapter &to, const std::string &text)
    {
        rnic_impair &line = lines[to.mac];
        const rnic_impair_config config = wire(text);
        rnic_impair_init(&line, &config);
    }
    void transmit(Bytes frame);
    /** Runs until there is nothing to do or the condition holds; false: the time is over. */
    bool run_until(const std::function<bool()> &condition, std::uint64_t limit);
    void run_for(std::uint64_t time)
    {
        run_until([] { return false; }, time);
    }
    /** All frames that were wanted are delivered and acknowledged. */
    bool is_done() const;
    /** Everything becomes as it is in the other world, which has the same adapters; areas are
     * copied byte for byte. */
    void become(const World &other);
    std::string wrong() const;

    std::uint64_t now = 1000 * ms;
    std::vector<std::unique_ptr<Adapter>> adapters;
    std::map<Mac, rnic_impair> lines;
    std::multimap<std::uint64_t, Bytes> on_wire;
    std::vector<std::pair<std::uint64_t, Bytes>> *captured = nullptr;
    std::function<bool(const Bytes &)> passes; // which frames the wires carry; none: all

private:
    void deliver(const Bytes &frame);
    std::uint64_t next_event() const;
};

/** The bytes of a stream's frame: as many as its number says. */
inline std::uint32_t payload_bytes(std::uint64_t index, std::uint32_t most)
{
    return static_cast<std::uint32_t>(16 + (index * 2654435761u >> 7) % (most - 15));
}
inline std::uint8_t payload_byte(std::uint16_t from, std::uint16_t to, std::uint64_t index, std::uint32_t at)
{
    return static_cast<std::uint8_t>((index * 31 + at * 7 + from * 13u + to * 101u) >> (at % 3));
}

} // namespace adapters

#endif
