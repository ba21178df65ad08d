// SPDX-License-Identifier: MIT
//
// A hostile peer on an established link, following random scripts: see hostile_script.hpp. The
// fuzzer of the same name as the script's looks for more of them.
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "hostile_script.hpp"

using namespace unit;

namespace {

/** A thread that writes into a link's segment without a pause, as another process would: it has a
 * mapping of its own. */
class Scribbler {
public:
    Scribbler(const RawPeer &peer, std::uint64_t seed)
    {
        must(vipl_shm_attach(&shm_, peer.link->shm.fd, peer.segment_bytes(), true) == 0, "a mapping");
        shm_.fd = -1; // it is the link's
        auto *slots = static_cast<std::uint32_t *>(here(peer, peer.out.slots));
        auto *control = static_cast<std::uint32_t *>(here(peer, peer.in.shared));
        thread_ = std::thread([=] { scribble(slots, control, Random(seed)); });
    }
    ~Scribbler()
    {
        over_ = true;
        thread_.join();
        vipl_shm_release(&shm_);
    }
    Scribbler(const Scribbler &) = delete;
    Scribbler &operator=(const Scribbler &) = delete;

private:
    void *here(const RawPeer &peer, const void *there) const
    {
        return static_cast<char *>(shm_.base) +
               (static_cast<const char *>(there) - reinterpret_cast<const char *>(peer.segment));
    }

    /** The heads of the first messages above all, with what might get past a check. */
    void scribble(std::uint32_t *slots, std::uint32_t *control, Random random) const
    {
        while (!over_) {
            const auto word = static_cast<std::uint32_t>(random());
            std::uint32_t *at = &slots[word % 64 * (LO_RING_SLOT / 4) + word / 64 % 16];
            const std::uint32_t values[] = {
                1, word >> 16, word % 64, word, LO_SEND | 0x200 | 2u << 16, LO_RENDEZVOUS | 0x600 | 1u << 16};
            at = word % 97 == 0 ? &control[word / 97 % (sizeof(lo_ring_shared) / 4)] : at;
            __atomic_store_n(at, values[word / 1024 % 6], __ATOMIC_RELAXED);
        }
    }

    vipl_shm shm_{};
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace

TEST_CASE("a peer that changes messages while they are read harms only its own connections", "[hostile_link]")
{
    Victim victim;
    RawPeer good(victim);
    VictimMemory memory(victim), good_memory(victim);
    VictimVi other(victim, good, VIP_SERVICE_RELIABLE_RECEPTION);
    const std::vector<unsigned char> text(4096, 0x11);
    for (unsigned round = 0; round < 30; ++round) {
        RawPeer evil(victim);
        VictimVi vi(victim, evil, VIP_SERVICE_UNRELIABLE);
        const Scribbler scribbler(evil, round);
        for (unsigned i = 0; i < 100 && vi.state() == VIP_STATE_CONNECTED; ++i) {
            lo_message message{};
            message.type = i % 2 == 0 ? LO_SEND : LO_WRITE;
            message.flags = LO_FLAG_LAST;
            message.session = vi.number;
            message.total = 64;
            VIP_DESCRIPTOR *done = nullptr;
            memory.post_recv(vi, 0, 4096);
            evil.send(message, text.data(), 64);
            victim.progress();
            while (VipRecvDone(vi.handle, &done) != VIP_NOT_DONE) {
            }
        }
    }
    good_memory.post_recv(other, 0, 64);
    REQUIRE(good.send(whole_send(other, 64), text.data(), 64));
    victim.progress();
    VIP_DESCRIPTOR *done = nullptr;
    CHECK(VipRecvDone(other.handle, &done) == VIP_SUCCESS);
    CHECK(memory.is_whole());
    CHECK(good_memory.is_whole(0, 64));
}

TEST_CASE("whatever a peer writes into its link, only its own connections suffer", "[hostile_link]")
{
    Random random(2026);
    std::vector<std::uint8_t> script(600);
    for (unsigned round = 0; round < 150; ++round) {
        for (std::uint8_t &byte : script) {
            byte = static_cast<std::uint8_t>(random());
        }
        Play(script.data(), script.size()).run(); // aborts if it is not so
    }
    SUCCEED();
}
