// SPDX-License-Identifier: MIT
//
// A peer of another process that is held before it writes directly, as in stuck_writer.cpp: memory
// that objects of the C++ header own stays there for it, whatever becomes of them, and is freed
// once it has written.
#include "stuck.hpp"

#include <optional>

#include <vipl/vipl.hpp>

using namespace stress;

namespace {

/** Memory that says when it is freed. */
class Target {
public:
    explicit Target(bool &freed) : bytes_(kBytes, char(kOurs)), freed_(&freed) {}
    Target(Target &&other) noexcept
        : bytes_(std::move(other.bytes_)), freed_(std::exchange(other.freed_, nullptr))
    {
    }
    ~Target()
    {
        if (freed_ != nullptr) {
            *freed_ = true;
        }
    }
    char *data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }

private:
    std::vector<char> bytes_;
    bool *freed_;
};

/** A device that has memory for the writer, and the connection to it. */
class Owner : public StuckWriter {
public:
    Owner() : nic(vipl_test::device_under_test()), vi(nic, vipl::vi_options(written_attributes()))
    {
        REQUIRE_VIP(VipErrorCallback(nic.handle(), nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
        auto request = nic.wait(nic.local(scene.name()), std::chrono::milliseconds(patience()));
        REQUIRE(request.has_value());
        request->accept(vi);
        region.emplace(nic, Target(freed), vipl::access::rdma);
        at = static_cast<const char *>(region->data());
        ring.address = region->remote().at;
        ring.handle = region->handle();
    }

    bool written() const
    {
        return std::all_of(at, at + kBytes, [](char b) { return VIP_UINT8(b) == kTheirs; });
    }

    vipl::nic nic;
    vipl::vi vi;
    bool freed = false;
    std::optional<vipl::region> region;
    const char *at = nullptr;
};

} // namespace

TEST_CASE("memory of a region that has ended is kept for a peer that may still write, until a later end",
          "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    vipl::region other(owner.nic, std::vector<char>(64));
    std::error_code error;
    owner.region->close(error);
    CHECK(error == vipl::errc::resource);
    owner.region.reset();
    CHECK_FALSE(owner.freed);
    owner.let_it_write();
    CHECK(owner.written());
    CHECK_FALSE(owner.freed);
    other.close();
    CHECK(owner.freed);
    CHECK(owner.nic.statistics().Regions == 0);
    owner.finish();
}

TEST_CASE(
    "memory of a region that has ended is kept for a peer that may still write, until the device is closed",
    "[stopped]")
{
    Owner owner;
    if (!owner.hold_a_write()) {
        return;
    }
    *owner.region = vipl::region();
    owner.vi.close();
    std::error_code error;
    owner.nic.close(error);
    CHECK(error == vipl::errc::resource);
    CHECK_FALSE(owner.freed);
    owner.let_it_write();
    CHECK(owner.written());
    owner.nic.close();
    CHECK(owner.freed);
    owner.finish();
}
