// SPDX-License-Identifier: MIT
//
// A peer of another process that writes directly is held between its look at what it may write and
// the write itself, for as long as a case likes. What ends its right either waits for it, or does
// not succeed.
#include "stuck.hpp"

using namespace stress;

namespace {

/** Memory that the writer may write to, and the connection to it. */
class Owner : public StuckWriter {
public:
    Owner() : vi_(nic_, written_attributes())
    {
        REQUIRE_VIP(VipErrorCallback(nic_, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
        REQUIRE_VIP(accept_on(nic_, scene.name(), vi_));
        std::memset(target_, kOurs, kBytes);
        VIP_MEM_ATTRIBUTES rights = rdma_memory();
        REQUIRE_VIP(VipRegisterMem(nic_, target_, kBytes, &rights, &handle));
        ring.address = reinterpret_cast<std::uintptr_t>(target_);
        ring.handle = handle;
    }

    VIP_NIC_HANDLE nic() const { return nic_; }
    VIP_VI_HANDLE vi() const { return vi_; }

    bool untouched() const
    {
        return std::all_of(target_, target_ + kBytes, [](VIP_UINT8 b) { return b == kOurs; });
    }
    bool written() const
    {
        return std::all_of(target_, target_ + kBytes, [](VIP_UINT8 b) { return b == kTheirs; });
    }
    VIP_RETURN deregister() { return VipDeregisterMem(nic_, target_, handle); }
    VIP_UINT8 *target() { return target_; }

    VIP_MEM_HANDLE handle = 0;

private:
    alignas(64) VIP_UINT8 target_[kBytes];
    Nic nic_;
    Vi vi_;
};

} // namespace

TEST_CASE("memory is not deregistered while a peer that looked may still write, and is once it has",
          "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    for (int i = 0; i < 3; ++i) { // the failure of one call does not lead the next astray
        REQUIRE(owner.deregister() == VIP_ERROR_RESOURCE);
    }
    VIP_MEM_ATTRIBUTES seen{};
    REQUIRE_VIP(VipQueryMem(owner.nic(), owner.target(), owner.handle, &seen));
    CHECK(seen.EnableRdmaWrite == VIP_TRUE);
    CHECK(owner.untouched());
    owner.let_it_write();
    CHECK(owner.written());
    owner.child.line.send('W'); // it is as before: the writer gets at it, and directly
    owner.let_it_write();
    CHECK(owner.ring.writes == 2);
    REQUIRE_VIP(owner.deregister());
    std::memset(owner.target(), kOurs, kBytes);
    owner.child.line.send('W');
    owner.let_it_write();
    CHECK(owner.untouched());
    owner.finish();
}

TEST_CASE("memory that no peer may reach is deregistered whatever a peer does", "[stopped]")
{
    Owner owner;
    VIP_UINT8 other[64];
    VIP_MEM_ATTRIBUTES none{};
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_VIP(VipRegisterMem(owner.nic(), other, sizeof other, &none, &handle));
    if (owner.hold_a_write()) {
        REQUIRE_VIP(VipDeregisterMem(owner.nic(), other, handle));
        owner.let_it_write();
    }
    owner.finish();
}

TEST_CASE("memory is deregistered at once after the end of a process that was about to write", "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    owner.child.kill();
    owner.child.finish(true);
    REQUIRE_VIP(owner.deregister());
    CHECK(owner.untouched());
}

TEST_CASE("rights are not taken away while a peer that looked may still write", "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    VIP_MEM_ATTRIBUTES none{};
    REQUIRE(VipSetMemAttributes(owner.nic(), owner.target(), owner.handle, &none) == VIP_ERROR_RESOURCE);
    VIP_MEM_ATTRIBUTES seen{};
    REQUIRE_VIP(VipQueryMem(owner.nic(), owner.target(), owner.handle, &seen));
    CHECK(seen.EnableRdmaWrite == VIP_TRUE);
    owner.let_it_write();
    CHECK(owner.written());
    REQUIRE_VIP(VipSetMemAttributes(owner.nic(), owner.target(), owner.handle, &none));
    std::memset(owner.target(), kOurs, kBytes);
    owner.child.line.send('W');
    owner.let_it_write();
    CHECK(owner.untouched());
    owner.finish();
}

TEST_CASE("a NIC handle does not close while a peer that looked may still write, and works on", "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    REQUIRE(VipCloseNic(owner.nic()) == VIP_ERROR_RESOURCE);
    CHECK(owner.untouched());
    owner.let_it_write();
    CHECK(owner.written());
    owner.child.line.send('W');
    owner.let_it_write();
    CHECK(owner.ring.writes == 2); // still directly
    REQUIRE_VIP(VipCloseNic(owner.nic()));
    owner.finish();
}

TEST_CASE("a disconnect ends a peer's direct access, though it has not heard of it", "[stopped]")
{
    Owner owner;
    owner.child.line.send('W');
    owner.let_it_write();
    if (owner.ring.writes == 0) {
        WARN("this system does not let processes write to each other's memory");
        return;
    }
    std::memset(owner.target(), kOurs, kBytes);
    REQUIRE_VIP(VipDisconnect(owner.vi()));
    owner.child.line.send('W'); // it posts before it makes any progress
    EXPECT(owner.child.line.receive<char>() == 'D');
    CHECK(owner.untouched());
    CHECK(owner.ring.writes == 1);
    EXPECT(owner.child.line.receive<char>() == 'C');
    CHECK(owner.untouched());
    owner.finish();
}

TEST_CASE("a disconnect is not held up for long by a peer that is about to write", "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    const unsigned long long begin = now_ms();
    REQUIRE_VIP(VipDisconnect(owner.vi()));
    CHECK(now_ms() - begin < 1000 + a_second());
    CHECK(owner.deregister() == VIP_ERROR_RESOURCE); // what it may still do is known here
    owner.let_it_write();
    REQUIRE_VIP(owner.deregister());
    owner.finish();
}
