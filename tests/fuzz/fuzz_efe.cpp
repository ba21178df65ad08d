// SPDX-License-Identifier: MIT
//
// Steps that strangers, a careless layer above and time take with an adapter, while a good flow
// from a well-behaved one goes on: it must remain whole. Only who knows a flow's epochs may speak
// for its peer, and the input does not.
#include "fuzz.hpp"

#include <algorithm>

#include "devices/adapters.hpp"
#include "devices/frames.hpp"

using namespace adapters;

namespace {

constexpr std::size_t kMostFrames = 400; // captured ones to replay
constexpr std::uint64_t kMostSent = 3000;

class Input {
public:
    Input(const std::uint8_t *data, std::size_t size) : at_(data), end_(data + size) {}
    bool more() const { return at_ != end_; }
    std::uint32_t number(unsigned bytes)
    {
        std::uint32_t value = 0;
        for (unsigned i = 0; i < bytes; ++i) {
            value = value << 8 | (more() ? *at_++ : 0u);
        }
        return value;
    }
    fuzz::Bytes bytes(std::size_t most)
    {
        const std::size_t count = std::min(most, static_cast<std::size_t>(end_ - at_));
        const std::uint8_t *from = at_;
        at_ += count;
        return fuzz::Bytes(from, from + count);
    }

private:
    const std::uint8_t *at_, *end_;
};

class Scene {
public:
    explicit Scene(Input &input) : input_(input), good_(world_.add(settings())), card_(world_.add(settings()))
    {
        card_.judges = good_.judges = [this](const Ends &ends) {
            const bool known = ends.remote_mac == good_.mac || ends.remote_mac == card_.mac;
            return known && ends.local == 0 && ends.remote == 0;
        };
        world_.captured = &frames_;
        good_.send(0, card_, 0, 5);
        card_.send(0, good_, 0, 5);
        world_.run_for(ms);
        efe_hold(&card_.efe, card_.open(0, good_, 0));
        efe_hold(&good_.efe, good_.open(0, card_, 0));
    }
    void step();
    void finish();

private:
    static Settings settings()
    {
        Settings settings;
        settings.flows = 6;
        settings.frames = 48;
        settings.switch_frames = 16;
        settings.mtu = 600;
        return settings;
    }
    void raw();
    void crafted();
    void replayed();
    void layer_above();
    /** Of the adapter's end of the good flow. */
    std::uint32_t epoch_of(const Adapter &adapter) const
    {
        const auto frame = std::find_if(frames_.begin(), frames_.end(),
                                        [&](const auto &one) { return one.second[11] == adapter.mac[5]; });
        return header_of(frame->second).epoch;
    }
    Mac stranger(unsigned which) const { return which % 4 == 0 ? good_.mac : mac_of(which % 4 + 1); }

    Input &input_;
    World world_;
    Adapter &good_, &card_;
    std::vector<std::pair<std::uint64_t, Bytes>> frames_;
    std::uint64_t sent_ = 0;
};

void Scene::raw()
{
    card_.receive(input_.bytes(input_.number(2) % 700));
}

void Scene::crafted()
{
    efe_header header{};
    std::copy(card_.mac.begin(), card_.mac.end(), header.to_mac);
    const Mac from = stranger(input_.number(1));
    std::copy(from.begin(), from.end(), header.from_mac);
    header.type = static_cast<std::uint8_t>(input_.number(1));
    header.flags = static_cast<std::uint8_t>(input_.number(1));
    header.from_fn =
        static_cast<std::uint16_t>(static_cast<std::int8_t>(input_.number(1))); // -1: the adapter
    header.to_fn = static_cast<std::uint16_t>(static_cast<std::int8_t>(input_.number(1)));
    header.epoch = input_.number(4);
    header.sequence = header.epoch + static_cast<std::uint32_t>(static_cast<std::int16_t>(input_.number(2)));
    header.next_expected = input_.number(4);
    header.window = static_cast<std::uint16_t>(input_.number(2));
    header.sent = input_.number(2) << 8;
    header.echo = input_.number(2) << 8;
    header.held = input_.number(2) << 8;
    header.payload_bytes = static_cast<std::uint16_t>(input_.number(1) * 2);
    const Bytes frame = frame_of(header, {static_cast<std::uint8_t>(input_.number(1))});
    const bool of_good_flow = from == good_.mac && header.from_fn == 0 && header.to_fn == 0;
    const bool knows = header.epoch == epoch_of(good_) || header.next_expected == epoch_of(card_);
    if (!of_good_flow || !knows) {
        card_.receive(frame);
    }
}

/** What the wire has carried comes again: as it was, or with a bit flipped. */
void Scene::replayed()
{
    Bytes frame = frames_[input_.number(2) % frames_.size()].second;
    const std::uint32_t bit = input_.number(2);
    if (bit % 2 == 1) {
        frame[bit / 16 % frame.size()] ^= static_cast<std::uint8_t>(1u << bit / 2 % 8);
    }
    (frame[5] == card_.mac[5] ? card_ : good_).receive(frame);
}

void Scene::layer_above()
{
    const std::uint32_t what = input_.number(1);
    const auto fn = static_cast<std::uint16_t>(1 + what % 3);
    switch (what / 3 % 5) {
    case 0:
        card_.reset(fn);
        break;
    case 1:
        efe_function_enable(&card_.efe, fn);
        break;
    case 2:
        card_.stop(fn);
        break;
    case 3:
        card_.go_on(fn);
        break;
    default:
        efe_release(&card_.efe, input_.number(1) % 8 == 0 ? 0xFFFFFFFFu : 99u);
        break;
    }
}

void Scene::step()
{
    if (frames_.size() > kMostFrames) {
        world_.captured = nullptr;
    }
    switch (input_.number(1) % 6) {
    case 0:
        raw();
        break;
    case 1:
        crafted();
        break;
    case 2:
        world_.run_for(input_.number(2) * 10 * us);
        break;
    case 3: {
        const std::uint32_t count = input_.number(1);
        if (sent_ + count < kMostSent) {
            sent_ += count;
            (count % 2 == 0 ? good_ : card_).send(0, count % 2 == 0 ? card_ : good_, 0, count);
        }
        break;
    }
    case 4:
        replayed();
        break;
    default:
        layer_above();
        break;
    }
}

/** The good flow delivers all, once and in order; its ends have not died. */
void Scene::finish()
{
    Stream &there = good_.stream(0, card_, 0), &back = card_.stream(0, good_, 0);
    const bool done = world_.run_until(
        [&] {
            return there.acknowledged == there.wanted && back.acknowledged == back.wanted &&
                   there.delivered == back.wanted && back.delivered == there.wanted;
        },
        20 * second);
    FUZZ_CHECK(done);
    FUZZ_CHECK(there.deaths.empty() && back.deaths.empty());
    FUZZ_CHECK(world_.wrong().empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    Input input(data, size);
    Scene scene(input);
    while (input.more()) {
        scene.step();
    }
    scene.finish();
    return 0;
}
