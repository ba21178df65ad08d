// SPDX-License-Identifier: MIT
//
// A hostile peer on an established link, following random scripts: see hostile_script.hpp. The
// fuzzer of the same name as the script's looks for more of them.
#include <catch2/catch.hpp>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile_script.hpp"
#include "support/environment.hpp"

using namespace unit;

namespace {

/** A process that writes into a link's segment without a pause, until it is ended. */
class Scribbler {
public:
    Scribbler(const RawPeer &peer, std::uint64_t seed) : pid_(fork())
    {
        if (pid_ == 0) {
            alarm(60 * vipl_test::timeout_scale());
            scribble(peer, Random(seed));
        }
        must(pid_ > 0, "fork");
    }
    ~Scribbler()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Scribbler(const Scribbler &) = delete;
    Scribbler &operator=(const Scribbler &) = delete;

private:
    /** The heads of the first messages above all, with what might get past a check. */
    [[noreturn]] static void scribble(const RawPeer &peer, Random random)
    {
        auto *slots = reinterpret_cast<std::uint32_t *>(peer.out.slots);
        auto *control = reinterpret_cast<std::uint32_t *>(peer.in.shared);
        for (;;) {
            const auto word = static_cast<std::uint32_t>(random());
            std::uint32_t *at = &slots[word % 64 * (LO_RING_SLOT / 4) + word / 64 % 16];
            const std::uint32_t values[] = {
                1, word >> 16, word % 64, word, LO_SEND | 0x200 | 2u << 16, LO_RENDEZVOUS | 0x600 | 1u << 16};
            at = word % 97 == 0 ? &control[word / 97 % (sizeof(lo_ring_shared) / 4)] : at;
            __atomic_store_n(at, values[word / 1024 % 6], __ATOMIC_RELAXED);
        }
    }

    pid_t pid_;
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
