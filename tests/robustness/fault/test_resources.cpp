// SPDX-License-Identifier: MIT
//
// The system refuses: of all the calls in which it makes a mapping, a thread, a process or a
// descriptor for the library, while a program opens a device, connects to another process,
// exchanges and closes, the first fails, then the second, and so on. A call says so by a code it
// may return, and works when it is repeated; nothing is lost.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include <vipl/posix.h>

#include "fault_scene.hpp"
#include "support/forked.hpp"
#include "support/os_hooks.hpp"

extern "C" {
#include "os/os.h"
}

using namespace vipl_test;

namespace {

constexpr VIP_UINT32 kBytes = 60000;
constexpr VIP_ULONG kSoon = 300; // of one attempt at something that the other side may have given up
constexpr long kMost = 400;      // no scenario makes as many such calls
constexpr long kShared = 40;     // calls of the process that has the shared objects, which counts for itself

bool is_documented(VIP_RETURN rc)
{
    return rc == VIP_ERROR_RESOURCE || rc == VIP_TIMEOUT || rc == VIP_NO_MATCH || rc == VIP_REJECT ||
           rc == VIP_NOT_REACHABLE;
}

/** Repeats a call until it succeeds: its first failure may be the system's. */
void eventually(const std::function<VIP_RETURN()> &call)
{
    const unsigned long long end = now_ms() + patience();
    VIP_RETURN rc;
    while ((rc = call()) != VIP_SUCCESS) {
        if (!is_documented(rc) || now_ms() > end) {
            REQUIRE_VIP(rc);
        }
    }
}

/** A NIC handle, memory and a VI of it, each made as often as it takes; connections, in a row. */
class Party {
public:
    explicit Party(bool shareable) : shareable_(shareable)
    {
        eventually([&] { return VipxOpenNic(device_under_test(), shareable ? VIPX_SHAREABLE : 0, &nic_); });
        if (shareable_) {
            void *shared = nullptr;
            eventually([&] { return VipxAllocShared(kRoom, &shared); });
            data_ = static_cast<VIP_UINT8 *>(shared);
        } else {
            data_ = static_cast<VIP_UINT8 *>(std::aligned_alloc(64, kRoom));
        }
        std::fill(data_, data_ + kRoom, VIP_UINT8{0});
        VIP_MEM_ATTRIBUTES attributes = rdma_memory();
        eventually([&] { return VipRegisterMem(nic_, data_, kRoom, &attributes, &memory_); });
        make_vi();
    }
    ~Party()
    {
        end_connection();
        VipDeregisterMem(nic_, data_, memory_);
        if (shareable_) {
            VipxFreeShared(data_);
        } else {
            std::free(data_);
        }
        closed_ = VipCloseNic(nic_);
    }

    void accept(const std::string &name)
    {
        eventually([&] {
            NetAddress local = address(name), remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE request = nullptr;
            VIP_RETURN rc = VipConnectWait(nic_, local, kSoon, remote, &attributes, &request);
            if (rc == VIP_SUCCESS) {
                rc = VipConnectAccept(request, vi_);
                if (rc == VIP_ERROR_RESOURCE) {
                    VipConnectReject(request);
                }
            }
            return rc;
        });
    }
    void request(const std::string &name)
    {
        eventually([&] {
            NetAddress local = address("c"), remote = address(name);
            VIP_VI_ATTRIBUTES attributes{};
            return VipConnectRequest(vi_, local, remote, kSoon, &attributes);
        });
    }

    VIP_DESCRIPTOR *post(bool receive)
    {
        auto *desc = reinterpret_cast<VIP_DESCRIPTOR *>(data_ + (receive ? 0 : 256));
        *desc = VIP_DESCRIPTOR{};
        desc->CS.SegCount = 1;
        desc->CS.Length = kBytes;
        desc->DS[0].Local.Data.Address = data_ + 512 + (receive ? 0 : kBytes);
        desc->DS[0].Local.Handle = memory_;
        desc->DS[0].Local.Length = kBytes;
        eventually(
            [&] { return receive ? VipPostRecv(vi_, desc, memory_) : VipPostSend(vi_, desc, memory_); });
        return desc;
    }
    /** False: the connection has ended. */
    bool reap(bool receive)
    {
        VIP_DESCRIPTOR *done = nullptr;
        const unsigned long long end = now_ms() + patience();
        VIP_RETURN rc;
        do {
            rc = receive ? VipRecvWait(vi_, patience(), &done) : VipSendWait(vi_, patience(), &done);
        } while (rc == VIP_ERROR_RESOURCE && now_ms() < end);
        if (rc != VIP_SUCCESS && rc != VIP_DESCRIPTOR_ERROR) {
            REQUIRE_VIP(rc);
        }
        return rc == VIP_SUCCESS;
    }
    void fill(VIP_UINT8 value) { std::fill(data_ + 512 + kBytes, data_ + 512 + 2 * kBytes, value); }
    bool received_all(VIP_UINT8 value) const
    {
        return std::all_of(data_ + 512, data_ + 512 + kBytes, [&](VIP_UINT8 b) { return b == value; });
    }
    void echo() { std::copy(data_ + 512, data_ + 512 + kBytes, data_ + 512 + kBytes); }
    int fd()
    {
        int fd = -1;
        eventually([&] { return VipxGetFd(VIPX_FD_RECV, vi_, &fd); });
        return fd;
    }

    void end_connection()
    {
        VIP_DESCRIPTOR *done = nullptr;
        VipDisconnect(vi_);
        while (VipRecvDone(vi_, &done) != VIP_NOT_DONE || VipSendDone(vi_, &done) != VIP_NOT_DONE) {
        }
        VipDestroyVi(vi_);
    }
    void make_vi()
    {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        eventually([&] { return VipCreateVi(nic_, &attributes, nullptr, nullptr, &vi_); });
    }

    static std::atomic<VIP_RETURN> closed_; // what the last VipCloseNic returned

private:
    static constexpr size_t kRoom = 512 + 2 * kBytes;

    NetAddress address(const std::string &discriminator)
    {
        VIP_NIC_ATTRIBUTES attributes{};
        eventually([&] { return VipQueryNic(nic_, &attributes); });
        const auto *host = reinterpret_cast<const char *>(attributes.LocalNicAddress);
        return {std::string(host, attributes.NicAddressLen), discriminator};
    }

    bool shareable_;
    VIP_NIC_HANDLE nic_ = nullptr;
    VIP_UINT8 *data_ = nullptr;
    VIP_MEM_HANDLE memory_ = 0;
    VIP_VI_HANDLE vi_ = nullptr;
};

std::atomic<VIP_RETURN> Party::closed_{VIP_SUCCESS};

enum class Role { server, client };

/** The other process: one connection after the other, each of which sends back what comes, until it
 * is killed. */
void be_other_side(const ParentLine &line, Role role, const std::string &name)
{
    Party party(false);
    line.tell();
    for (;;) {
        party.post(true);
        for (bool connected = false; !connected;) {
            try {
                role == Role::server ? party.accept(name) : party.request(name);
                connected = true;
            } catch (const Failure &) { // the case takes its time
            }
        }
        if (party.reap(true)) {
            party.echo();
            party.post(true);
            party.post(false);
            party.reap(false);
            party.reap(true); // the end of the connection
        }
        party.end_connection();
        party.make_vi();
    }
}

void live(Role role, const std::string &name, bool shareable, VIP_UINT8 value)
{
    Party party(shareable);
    CHECK(party.fd() > 2);
    party.post(true);
    role == Role::server ? party.accept(name) : party.request(name);
    party.fill(value);
    party.post(false);
    REQUIRE(party.reap(false));
    REQUIRE(party.reap(true));
    REQUIRE(party.received_all(value));
}

unsigned count_descriptors()
{
    return count_entries_of("/proc/self/fd");
}

/** How many calls there are; each has failed once. */
long walk(Role role, bool shareable)
{
    const std::string name = unique_discriminator();
    Forked other([&](const ParentLine &line) {
        be_other_side(line, role == Role::server ? Role::client : Role::server, name);
    });
    other.await();
    live(role, name, shareable, 1); // what stays with the process
    let_a_moment_pass();            // and with a thread that has waited, as it need not have so far
    const unsigned before = count_descriptors();
    for (long count = 1; count < kMost; ++count) {
        INFO("call " << count);
        vipl_resource_fail_after(count);
        live(role, name, shareable, static_cast<VIP_UINT8>(count));
        const bool failed = vipl_resource_fail_after(-1);
        REQUIRE(Party::closed_ == VIP_SUCCESS);
        REQUIRE(
            (shareable || count_descriptors() == before)); // those of shared objects stay for the next ones
        if (shareable ? count == kShared : !failed) {
            return count - 1;
        }
    }
    throw Failure("there is no end of calls");
}

} // namespace

TEST_CASE("no resources: a client of another process", "[resources]")
{
    CHECK(walk(Role::client, false) > 3);
}

TEST_CASE("no resources: a server of another process", "[resources]")
{
    CHECK(walk(Role::server, false) > 3);
}

TEST_CASE("no resources: a client whose objects are shared", "[resources]")
{
    CHECK(walk(Role::client, true) > 3);
}

TEST_CASE("no resources: a server whose objects are shared", "[resources]")
{
    CHECK(walk(Role::server, true) > 3);
}
