// SPDX-License-Identifier: MIT
//
// A client of shared objects ends while a peer is about to write directly to memory that nobody
// else holds. The server, whose memory that is too, keeps the region and the block of the heap
// until the write has landed, looks again and again, and then gives them up. The program is linked
// so that VipDeregisterMem() is ours (-Wl,--wrap), in the server as well: the refusals are counted.
#include "stuck.hpp"

#include <memory>

#include <vipl/posix.h>

#include "support/forked.hpp"

extern "C" {
VIP_RETURN __real_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID address, VIP_MEM_HANDLE handle);
VIP_RETURN __wrap_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID address, VIP_MEM_HANDLE handle);
}

VIP_RETURN __wrap_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID address, VIP_MEM_HANDLE handle)
{
    const VIP_RETURN rc = __real_VipDeregisterMem(nic, address, handle);
    stress::shared<stress::Board>().refusals += rc == VIP_ERROR_RESOURCE ? 1 : 0;
    return rc;
}

using namespace stress;

namespace {

/** So often the server has found that it is too early. */
constexpr unsigned kRefusals = 3;

const char *const kDevice = "loopback";

/** A VI and memory that the writer may write to, of a NIC handle that others may hold too. */
struct Target {
    Target(const Nic &nic, const Scene &scene)
        : memory(nic, kBytes, rdma_memory()), vi(nic, written_attributes())
    {
        Board &ring = shared<Board>();
        std::memset(memory.data(), kOurs, kBytes);
        ring.address = reinterpret_cast<std::uintptr_t>(memory.data());
        ring.handle = memory.handle();
        REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    }

    Memory memory;
    Vi vi;
};

VIP_UINT64 regions_of(VIP_NIC_HANDLE nic)
{
    VIPX_NIC_STATISTICS statistics{};
    REQUIRE_VIP(VipQuerySystemManagementInfo(nic, VIPX_SMI_NIC_STATISTICS, &statistics));
    return statistics.Regions;
}

/** Whether the target's place in the shared heap is another's to have. It is the first place of
 * all. */
bool is_given_out()
{
    const auto *target =
        reinterpret_cast<const VIP_UINT8 *>(static_cast<std::uintptr_t>(shared<Board>().address));
    VIP_PVOID got = nullptr;
    REQUIRE_VIP(VipxAllocShared(kBytes, &got));
    const auto *bytes = static_cast<const VIP_UINT8 *>(got);
    const bool given = bytes <= target && target < bytes + kBytes;
    const bool clear = std::all_of(bytes, bytes + kBytes, [](VIP_UINT8 b) { return b == 0; });
    REQUIRE_VIP(VipxFreeShared(got));
    EXPECT(clear); // neither what was there nor what is yet to be written
    return given;
}

void await_refusals()
{
    await([] { return shared<Board>().refusals >= kRefusals; });
}

using End = void (*)(Forked &client);

void is_killed(Forked &client)
{
    kill(client.pid(), SIGKILL);
    client.finish_with_signal(SIGKILL);
}

void exits(Forked &client)
{
    client.tell();
    client.finish();
}

/** The last client of the target, in a process of its own. It ends without a call when it is
 * told. */
[[noreturn]] void hold(const Scene &scene, const ParentLine &line, const Nic &nic)
{
    const Target target(nic, scene);
    line.tell();
    line.await();
    _exit(0);
}

/** What another client sees, who has the NIC handle but not the target. */
void survive(const Scene &scene, const ParentLine &test, End end)
{
    const Nic nic(kDevice, true);
    const VIP_UINT64 before = regions_of(nic);
    Forked client([&](const ParentLine &line) { hold(scene, line, nic); });
    client.await();
    test.tell();
    test.await(); // the writer is held
    EXPECT_EQ(before + 1, regions_of(nic));
    end(client);
    await([&] {
        EXPECT(!is_given_out());
        EXPECT_EQ(before + 1, regions_of(nic));
        return shared<Board>().refusals >= kRefusals;
    });
    test.tell();
    test.await(); // it has written
    await([&] { return regions_of(nic) == before; });
    await([&] { return is_given_out(); });
}

void outlives_client(End end)
{
    StuckWriter writer;
    Forked survivor([&](const ParentLine &line) { survive(writer.scene, line, end); });
    survivor.await();
    if (!writer.hold_a_write()) {
        return;
    }
    survivor.tell();
    survivor.await(); // the memory is kept
    writer.let_it_write();
    CHECK(writer.ring.error == 0); // it was still there to be written to
    survivor.tell();
    survivor.finish();
    writer.finish();
}

} // namespace

TEST_CASE("a killed process's shared memory is not another's while a peer that looked may still write",
          "[stopped]")
{
    outlives_client(is_killed);
}

TEST_CASE("an exited process's shared memory is not another's while a peer that looked may still write",
          "[stopped]")
{
    outlives_client(exits);
}

TEST_CASE("the server outlives its last client until a peer that looked has written, and ends then",
          "[stopped]")
{
    StuckWriter writer;
    Forked client([&](const ParentLine &line) {
        const Nic nic(kDevice, true);
        hold(writer.scene, line, nic);
    });
    client.await();
    if (!writer.hold_a_write()) {
        return;
    }
    const pid_t server = writer.ring.process;
    CHECK(server != client.pid());
    is_killed(client);
    await_refusals();
    CHECK(lives(server));
    writer.let_it_write();
    CHECK(writer.ring.error == 0);
    await([&] { return !lives(server); });
    writer.finish();
}

TEST_CASE("a shared NIC handle does not close while a peer that looked may still write, and does later",
          "[stopped]")
{
    StuckWriter writer;
    Forked client([&](const ParentLine &line) {
        const Nic nic(kDevice, true);
        const Target target(nic, writer.scene);
        line.tell();
        line.await();
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipCloseNic(nic));
        VIP_MEM_ATTRIBUTES seen{};
        REQUIRE_VIP(
            VipQueryMem(nic, target.memory.data(), target.memory.handle(), &seen)); // it is there as before
        EXPECT_EQ(1ul, regions_of(nic));
        EXPECT(std::all_of(target.memory.data(), target.memory.data() + kBytes,
                           [](VIP_UINT8 b) { return b == kOurs; }));
        line.tell();
        line.await();
        REQUIRE_VIP(VipCloseNic(nic));
    });
    client.await();
    if (!writer.hold_a_write()) {
        return;
    }
    client.tell();
    client.await();
    writer.let_it_write();
    CHECK(writer.ring.error == 0);
    client.tell();
    client.finish();
    writer.finish();
}
