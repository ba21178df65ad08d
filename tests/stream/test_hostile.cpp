// SPDX-License-Identifier: MIT
//
// A peer that sends what no peer may send: its own stream is reset, and no other one.
#include <algorithm>
#include <cerrno>
#include <random>

#include "pair.hpp"

using namespace stream_test;

namespace {

constexpr size_t kBytes = 65536;

/** A peer that posts what it likes, on a VI as streams have. */
class RawPeer {
public:
    RawPeer() : memory_(kBytes, 'x')
    {
        VIP_VI_ATTRIBUTES attributes = vipl_stream_attributes();
        VIP_MEM_ATTRIBUTES plain = {nullptr, VIP_FALSE, VIP_FALSE};
        REQUIRE(vipl_stream_nic_handle(device) != nullptr);
        const VIP_NIC_HANDLE nic = vipl_stream_nic_handle(device);
        REQUIRE(VipRegisterMem(nic, &memory_[0], kBytes, &plain, &handle_) == VIP_SUCCESS);
        REQUIRE(VipRegisterMem(nic, descriptors_, sizeof(descriptors_), &plain, &descriptors_handle_) ==
                VIP_SUCCESS);
        REQUIRE(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi) == VIP_SUCCESS);
        for (int i = 1; i < kReceives; i++) {
            post_receive(&descriptors_[i]);
        }
    }
    ~RawPeer()
    {
        VipDisconnect(vi);
        VipDestroyVi(vi);
        VipDeregisterMem(vipl_stream_nic_handle(device), descriptors_, descriptors_handle_);
        VipDeregisterMem(vipl_stream_nic_handle(device), &memory_[0], handle_);
    }
    RawPeer(const RawPeer &) = delete;
    RawPeer &operator=(const RawPeer &) = delete;

    /** Returns false if the connection has ended. */
    bool send(const VIP_UINT32 *immediate, const std::string &payload)
    {
        VIP_DESCRIPTOR *d = &descriptors_[0];
        *d = VIP_DESCRIPTOR();
        std::copy(payload.begin(), payload.end(), memory_.begin());
        d->CS.Control = static_cast<VIP_UINT16>(immediate != nullptr ? VIP_CONTROL_IMMEDIATE : 0);
        d->CS.ImmediateData = immediate != nullptr ? *immediate : 0;
        d->CS.SegCount = 1;
        d->DS[0].Local.Data.Address = &memory_[0];
        d->DS[0].Local.Handle = handle_;
        d->DS[0].Local.Length = static_cast<VIP_UINT32>(payload.size());
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN rc = VipPostSend(vi, d, descriptors_handle_);
        return rc == VIP_SUCCESS && VipSendWait(vi, vipl_test::patience(), &done) == VIP_SUCCESS;
    }
    bool send(uint32_t type, uint32_t credits, const std::string &payload)
    {
        const VIP_UINT32 immediate = type << 24 | credits;
        return send(&immediate, payload);
    }
    /** Posts again what the stream has sent into. */
    void drain()
    {
        VIP_DESCRIPTOR *done = nullptr;
        while (VipRecvDone(vi, &done) == VIP_SUCCESS) {
            post_receive(done);
        }
    }

    Device device;
    VIP_VI_HANDLE vi = nullptr;

private:
    enum { kReceives = 64 };

    void post_receive(VIP_DESCRIPTOR *d)
    {
        *d = VIP_DESCRIPTOR();
        d->CS.SegCount = 1;
        d->DS[0].Local.Data.Address = &memory_[kBytes / 2];
        d->DS[0].Local.Handle = handle_;
        d->DS[0].Local.Length = kBytes / 2;
        VipPostRecv(vi, d, descriptors_handle_);
    }

    std::string memory_;
    VIP_MEM_HANDLE handle_ = 0, descriptors_handle_ = 0;
    alignas(64) VIP_DESCRIPTOR descriptors_[kReceives] = {};
};

/** A stream with such a peer, beside a pair that must not notice. */
struct Attacked {
    explicit Attacked(vipl_stream_window window = vipl_stream_own_window())
    {
        connect(device, vipl_stream_vi(stream), peer.device, peer.vi);
        vipl_stream_begin(stream, window);
    }
    ~Attacked()
    {
        bystander.one.send("as before");
        CHECK(bystander.two.receive(9) == "as before");
    }
    void expect_reset() const
    {
        int error = 0;
        CHECK(stream.receive(1, &error).empty());
        CHECK(error == ECONNRESET);
        CHECK((stream.events() & VIPL_STREAM_BROKEN) != 0);
        CHECK(stream.try_send("x") == -ECONNRESET);
    }

    Pair bystander;
    Device device;
    Stream stream{device};
    RawPeer peer;
};

} // namespace

TEST_CASE("messages that no peer may send reset the stream")
{
    struct {
        uint32_t type, credits;
        size_t bytes;
    } const wrong[] = {{0, 0, 0},
                       {8, 0, 1},
                       {200, 0, 0},
                       {VIPL_STREAM_DATA, 0, 0},
                       {VIPL_STREAM_DATA, 1, 1},
                       {VIPL_STREAM_DATA, 0xFFFFFF, 1},
                       {VIPL_STREAM_CREDIT, 0, 0},
                       {VIPL_STREAM_CREDIT, 1, 0},
                       {VIPL_STREAM_FIN, 0, 5},
                       {VIPL_STREAM_CLOSE, 0, 5},
                       {VIPL_STREAM_ACK, 0, 0},
                       {VIPL_STREAM_DONE, 0, 0},
                       {VIPL_STREAM_RTS, 0, 3},
                       {VIPL_STREAM_RTS, 0, 24}};
    for (const auto &one : wrong) {
        INFO("type " << one.type << ", " << one.credits << " credits, " << one.bytes << " bytes");
        Attacked attacked;
        REQUIRE(attacked.peer.send(one.type, one.credits, std::string(one.bytes, '\xFF')));
        attacked.expect_reset();
    }
}

TEST_CASE("a message without immediate data, and one that is too long, reset the stream")
{
    {
        Attacked attacked;
        REQUIRE(attacked.peer.send(nullptr, "hello"));
        attacked.expect_reset();
    }
    Attacked attacked;
    attacked.peer.send(VIPL_STREAM_DATA, 0, std::string(vipl_stream_own_window().bytes + 1, 'x'));
    attacked.expect_reset();
}

TEST_CASE("what came before the breach is received first")
{
    Attacked attacked;
    REQUIRE(attacked.peer.send(VIPL_STREAM_DATA, 0, "good"));
    REQUIRE(attacked.peer.send(99, 0, ""));
    CHECK(attacked.stream.receive(4) == "good");
    attacked.expect_reset();
}

TEST_CASE("offered memory that is not there resets the stream")
{
    Attacked attacked;
    uint8_t offer[VIPL_STREAM_OFFER_BYTES];
    vipl_stream_offer_encode({0x1000, 4096, 0x7FFFFFFF}, offer);
    REQUIRE(attacked.peer.send(VIPL_STREAM_RTS, 0, std::string(offer, offer + sizeof(offer))));
    attacked.expect_reset();
}

TEST_CASE("a peer that posts fewer receives than it said loses its connection")
{
    Attacked attacked({4096, 65536});
    const std::string text = pattern(100000);
    size_t sent = 0;
    long n = 0;
    const uint64_t end = in_time();
    while (n >= 0 || n == -EAGAIN) {
        n = attacked.stream.try_send(text);
        sent += n > 0 ? static_cast<size_t>(n) : 0;
        REQUIRE(vipl_now_ns() < end);
    }
    CHECK(sent > 0);
    attacked.expect_reset();
}

TEST_CASE("any messages at all leave the process and its other streams alone")
{
    std::mt19937 random(7);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    for (int round = 0; round < 60; round++) {
        Attacked attacked;
        bool connected = true;
        for (int i = 0; connected && i < 100; i++) {
            const uint32_t type = below(10) == 0 ? below(256) : 1 + below(7);
            const uint32_t credits = below(20) == 0 ? below(0x1000000) : below(2);
            const uint32_t bytes = type == VIPL_STREAM_DATA                    ? 1 + below(200)
                                   : type == VIPL_STREAM_RTS || below(20) == 0 ? below(25)
                                                                               : 0;
            std::string payload(bytes, '\0'), got;
            std::generate(payload.begin(), payload.end(), [&] { return static_cast<char>(random()); });
            connected = attacked.peer.send(type, credits, payload);
            attacked.peer.drain();
            attacked.stream.try_send("answer");
            attacked.stream.try_receive(got, 1 + below(300));
            connected = connected && (attacked.stream.events() & VIPL_STREAM_BROKEN) == 0;
        }
    }
}
