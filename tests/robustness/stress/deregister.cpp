// SPDX-License-Identifier: MIT
//
// Memory is registered and deregistered while a writer, in this process or another, writes to it
// without a pause. After VipDeregisterMem has returned not one byte may change any more, and those
// around the region never do. The VIs are unreliable: a write that is refused fails alone.
// VIPL_STRESS_REVOCATIONS says how often, where the region is short.
#include "stress.hpp"

#include <algorithm>

#include <vipl/posix.h>

using namespace stress;

namespace {

constexpr VIP_UINT32 kBytes = 48 * 1024, kShort = 1000, kGuard = 64;
constexpr unsigned kInFlight = 4;
constexpr VIP_UINT8 kOurs = 0x5A;

/** What the owner tells the writer, and the writer the owner. Shared with the child. */
struct Board {
    std::atomic<std::uint64_t> address;
    std::atomic<VIP_UINT32> bytes; // of the region, and of each write
    std::atomic<VIP_MEM_HANDLE> handle;
    std::atomic<std::uint64_t> attempts; // writes that have completed, well or not
    std::atomic<bool> stop;
};

void VI_CALL ignore(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}

VIP_VI_ATTRIBUTES lenient()
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE);
    attributes.EnableRdmaRead = VIP_FALSE;
    return attributes;
}

void keep_writing(VIP_VI_HANDLE vi, Memory &memory, Board &ring)
{
    Work works[kInFlight];
    const VIP_UINT32 size = ring.bytes;
    const auto aim = [&](VIP_DESCRIPTOR *d) {
        d->CS.Length = size;
        d->DS[0].Remote.Data.AddressBits = ring.address;
        d->DS[0].Remote.Handle = ring.handle;
        REQUIRE_VIP(VipPostSend(vi, d, memory.handle()));
    };
    unsigned fill = 1;
    for (Work &work : works) {
        const Span bytes = memory.bytes(size);
        std::memset(bytes.data, static_cast<int>(fill++), size); // never what the owner writes
        work = memory.rdma(VIP_CONTROL_OP_RDMAWRITE, {ring.address, ring.handle}, bytes);
        post_send(vi, work);
    }
    while (!ring.stop) {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(vi, patience(), &done);
        EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
        if (rc == VIP_DESCRIPTOR_ERROR) {
            EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR, done);
        }
        ring.attempts++;
        aim(done);
    }
}

template <class Condition>
void await(const Condition &condition, const Crew &crew)
{
    const unsigned long long end = now_ms() + patience();
    while (!condition()) {
        EXPECT(!crew.failed());
        EXPECT(now_ms() < end);
        give_way();
    }
}

bool all_ours(const VIP_UINT8 *from, size_t bytes)
{
    return std::all_of(from, from + bytes, [](VIP_UINT8 b) { return b == kOurs; });
}

/** Register, let some writes land, deregister, overwrite: what is there must stay. The target has a
 * guard on either side. */
void revoke(const Nic &nic, Board &ring, VIP_UINT8 *target, unsigned rounds, const Crew &crew)
{
    VIP_MEM_ATTRIBUTES attributes = rdma_memory();
    const VIP_UINT32 bytes = ring.bytes;
    for (unsigned round = 0; round < rounds; ++round) {
        VIP_MEM_HANDLE handle = 0;
        REQUIRE_VIP(VipRegisterMem(nic, target, bytes, &attributes, &handle));
        ring.handle = handle;
        await([&] { return __atomic_load_n(&target[bytes - 1], __ATOMIC_ACQUIRE) != kOurs; }, crew);
        REQUIRE_VIP(VipDeregisterMem(nic, target, handle));
        std::memset(target, kOurs, bytes);
        const std::uint64_t seen = ring.attempts;
        await([&] { return ring.attempts > seen + 2 * kInFlight; }, crew);
        EXPECT(all_ours(target - kGuard, bytes + 2 * kGuard));
    }
}

Board &fresh_ring(VIP_UINT8 *target, VIP_UINT32 bytes)
{
    Board &ring = shared<Board>();
    ring.address = reinterpret_cast<std::uintptr_t>(target);
    ring.bytes = bytes;
    ring.handle = 1; // nobody's, until there is one
    ring.attempts = 0;
    ring.stop = false;
    std::memset(target - kGuard, kOurs, bytes + 2 * kGuard);
    return ring;
}

alignas(64) VIP_UINT8 g_memory[kGuard + kBytes + kGuard];
VIP_UINT8 *const g_target = g_memory + kGuard;

unsigned often()
{
    return times("VIPL_STRESS_REVOCATIONS", 1000);
}

void write_from_afar(const Scene &scene, Line &line)
{
    const Nic nic;
    Memory memory(nic, 256 * 1024);
    const Vi vi(nic, lenient());
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    keep_writing(vi, memory, shared<Board>());
    line.sync();
}

void revoke_from_afar(const char *pull, VIP_UINT8 *target, VIP_UINT32 bytes, unsigned rounds)
{
    use_pull(pull);
    Board &ring = fresh_ring(target, bytes);
    const Scene scene = make_scene(pull);
    Child child(write_from_afar, scene);
    const Nic nic;
    REQUIRE_VIP(VipErrorCallback(nic, nullptr, ignore));
    const Vi vi(nic, lenient());
    REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    revoke(nic, ring, target, rounds, Crew());
    ring.stop = true;
    child.line.sync();
    child.finish();
}

void revoke_here(VIP_UINT32 bytes, unsigned rounds)
{
    Board &ring = fresh_ring(g_target, bytes);
    const Nic nic;
    REQUIRE_VIP(VipErrorCallback(nic, nullptr, ignore));
    Memory memory(nic, 256 * 1024);
    const Vi owner(nic, lenient()), writer(nic, lenient());
    connect_pair(nic, owner, nic, writer);
    Crew crew;
    crew.add([&] { keep_writing(writer, memory, ring); });
    try {
        revoke(nic, ring, g_target, rounds, crew);
    } catch (...) {
        ring.stop = true;
        crew.join();
        throw;
    }
    ring.stop = true;
    crew.join();
}

} // namespace

TEST_CASE("after VipDeregisterMem no byte changes, writer in the same process", "[deregister][inproc]")
{
    revoke_here(kBytes, 300);
}

TEST_CASE("after VipDeregisterMem no byte changes, short and often, writer in the same process",
          "[deregister][inproc]")
{
    revoke_here(kShort, often());
}

TEST_CASE("after VipDeregisterMem no byte changes, writer in another process", "[deregister][procs]")
{
    revoke_from_afar("auto", g_target, kBytes, 100);
}

TEST_CASE("after VipDeregisterMem no byte changes, short and often, writer in another process",
          "[deregister][procs]")
{
    revoke_from_afar("auto", g_target, kShort, often());
}

#if !defined(__SANITIZE_THREAD__) // which has no room for that memory
/** In memory that the writer maps, so that its writes are copies: of a region whose end it learns
 * from the table alone. */
TEST_CASE("after VipDeregisterMem no byte of shared memory changes, writer in another process",
          "[deregister][procs]")
{
    VIP_PVOID memory = nullptr;
    const VIP_RETURN rc = VipxAllocShared(kGuard + kBytes + kGuard, &memory);
    if (rc == VIP_ERROR_NOT_SUPPORTED) {
        return; // a library that is built without sharing
    }
    REQUIRE_VIP(rc);
    VIP_UINT8 *const target = static_cast<VIP_UINT8 *>(memory) + kGuard;
    SECTION("long")
    {
        revoke_from_afar("auto", target, kBytes, 100);
    }
    SECTION("short and often")
    {
        revoke_from_afar("auto", target, kShort, often());
    }
    REQUIRE_VIP(VipxFreeShared(memory));
}
#endif

TEST_CASE("after VipDeregisterMem no byte changes, writer in another process that reaches directly",
          "[deregister]")
{
    revoke_from_afar("on", g_target, kBytes, 100);
}

TEST_CASE("after VipDeregisterMem no byte changes, writer in another process through the rings",
          "[deregister]")
{
    revoke_from_afar("off", g_target, kBytes, 100);
}
