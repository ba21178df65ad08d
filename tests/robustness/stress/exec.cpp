// SPDX-License-Identifier: MIT
//
// The peer calls exec while its memory is written, read and fetched: the program that takes its
// place has memory at the same address, of which not a byte is written, nor comes out. From then on
// no operation succeeds.
#include "stress.hpp"

#include <fcntl.h>

#include "stranger.h"

using namespace stress;

namespace {

constexpr VIP_UINT32 kBytes = 256 * 1024;
constexpr VIP_UINT8 kPeerByte = 0xBB, kOwnByte = 0xEE;

enum Mode : unsigned { kWrite, kRead, kFetch };

/** Where the peer has its memory, and the other program, too: where neither has anything else. */
void *place()
{
    return reinterpret_cast<void *>(sizeof(void *) == 8 ? static_cast<std::uintptr_t>(0x340000000000ull)
                                                        : static_cast<std::uintptr_t>(0x58000000u));
}

VIP_VI_ATTRIBUTES attributes()
{
    return vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY, kBytes);
}

/** Memory at that place. */
struct Exposed {
    explicit Exposed(const Nic &nic)
    {
        VIP_MEM_ATTRIBUTES rights = rdma_memory();
        EXPECT(mmap(place(), kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) == place());
        std::memset(place(), kPeerByte, kBytes);
        REQUIRE_VIP(VipRegisterMem(nic, place(), kBytes, &rights, &span.handle));
        span.data = static_cast<VIP_UINT8 *>(place());
        span.size = kBytes;
    }
    Span span;
};

[[noreturn]] void become_stranger(int line)
{
    char address[32], bytes[32], socket[16];
    std::snprintf(address, sizeof address, "%zx", reinterpret_cast<std::size_t>(place()));
    std::snprintf(bytes, sizeof bytes, "%u", kBytes);
    std::snprintf(socket, sizeof socket, "%d", line);
    fcntl(line, F_SETFD, 0);
    execl(STRANGER, STRANGER, address, bytes, socket, static_cast<char *>(nullptr));
    _exit(9);
}

void peer(const Scene &scene, Line &line)
{
    const Nic nic;
    const Exposed exposed(nic);
    Memory memory(nic);
    const Vi vi(nic, attributes());
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    line.send(exposed.span.remote());
    if (scene.seed == kFetch) {
        post_send(vi, memory.transfer(exposed.span));
    }
    line.sync();
    become_stranger(line.fd());
}

/** This side: a VI, and as many bytes as the peer shows, in one piece or in several. */
struct Party {
    explicit Party(const Nic &nic)
        : memory(nic, 4 * kBytes, rdma_memory()), vi(nic, attributes()), window(memory.bytes(kBytes))
    {
        std::memset(window.data, kOwnByte, kBytes);
    }

    /** A write or read of the peer's memory. */
    Work access(VIP_UINT16 op, RemoteSpan remote, VIP_UINT32 bytes, unsigned pieces)
    {
        Work work = memory.work(pieces + 1);
        work.op(op).remote(remote);
        for (unsigned i = 0; i < pieces; ++i) {
            work.local(window.part(bytes / pieces * i, bytes / pieces));
        }
        return work;
    }

    bool has(VIP_UINT8 value) const { return std::memchr(window.data, value, kBytes) != nullptr; }

    Memory memory;
    Vi vi;
    Span window;
};

/** Whether it succeeded. */
bool done_well(const Party &party, const Work &work)
{
    VIP_DESCRIPTOR *done = nullptr;
    post_send(party.vi, work);
    const VIP_RETURN rc = VipSendWait(party.vi, 2 * patience(), &done);
    EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
    EXPECT(done == work.desc);
    return rc == VIP_SUCCESS;
}

/** One access after another until one fails, which is to be once the other program is there. */
void access_until_it_fails(Party &party, VIP_UINT16 op, RemoteSpan remote, VIP_UINT32 bytes, unsigned pieces)
{
    const unsigned long long end = now_ms() + 2 * patience();
    Work work = party.access(op, remote, bytes, pieces);
    const VIP_UINT32 length = work.desc->CS.Length;
    while (done_well(party, work)) {
        EXPECT(now_ms() < end);
        EXPECT(!party.has(STRANGER_BYTE));
        work.desc->CS.Length = length;
    }
}

void take_or_lose_message(Party &party)
{
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = VipRecvWait(party.vi, 2 * patience(), &done);
    EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
    EXPECT(rc != VIP_SUCCESS || party.window.all(kPeerByte));
}

void one_round(Mode mode, VIP_UINT32 bytes, unsigned pieces)
{
    Scene scene = make_scene();
    scene.seed = mode;
    Child child(peer, scene);
    const Nic nic;
    Party party(nic);
    if (mode == kFetch) {
        post_recv(party.vi, party.memory.transfer(party.window));
    }
    REQUIRE_VIP(accept_on(nic, scene.name(), party.vi));
    const auto remote = child.line.receive<RemoteSpan>();
    child.line.sync();
    if (mode == kFetch) {
        EXPECT(child.line.receive<char>() == 'R'); // the other program runs
        take_or_lose_message(party);
    } else {
        access_until_it_fails(party, mode == kWrite ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD,
                              remote, bytes, pieces);
        EXPECT(child.line.receive<char>() == 'R');
    }
    EXPECT(!party.has(STRANGER_BYTE));
    party.vi.await(VIP_STATE_ERROR);
    child.line.send('Q');
    child.finish(); // it has found its memory as it was
}

void rounds(Mode mode, VIP_UINT32 bytes, unsigned pieces = 1)
{
    for (unsigned i = 0; i < times("VIPL_STRESS_EXECS", 8); ++i) {
        INFO("round " << i);
        REQUIRE_NOTHROW(one_round(mode, bytes, pieces));
    }
}

} // namespace

TEST_CASE("RDMA writes reach a program, and not the one that exec puts in its place", "[exec]")
{
    rounds(kWrite, 8);
    rounds(kWrite, kBytes);
    rounds(kWrite, kBytes, 32);
}

TEST_CASE("RDMA reads come from a program, and not from the one that exec puts in its place", "[exec]")
{
    rounds(kRead, 8);
    rounds(kRead, kBytes);
    rounds(kRead, kBytes, 32);
}

TEST_CASE("a message is fetched from a program, and not from the one that exec puts in its place", "[exec]")
{
    rounds(kFetch, kBytes);
}
