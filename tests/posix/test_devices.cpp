// SPDX-License-Identifier: MIT
//
// POSIX extensions: what devices there are, how the library was built, and what its log says.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <vipl/posix.h>

#include "support/environment.hpp"
#include "support/net_address.hpp"
#include "support/objects.hpp"
#include "support/role_case.hpp"
#include "support/setting.hpp"

using namespace vipl_test;

namespace {

std::vector<VIPX_DEVICE> devices()
{
    VIP_ULONG count = 0;
    REQUIRE_VIP(VipxListDevices(nullptr, &count));
    std::vector<VIPX_DEVICE> all(count);
    REQUIRE_VIP(VipxListDevices(all.data(), &count));
    REQUIRE(count == all.size());
    return all;
}

unsigned with_flag(const std::vector<VIPX_DEVICE> &all, VIP_UINT32 flag)
{
    unsigned count = 0;
    for (const VIPX_DEVICE &device : all) {
        count += (device.Flags & flag) != 0;
    }
    return count;
}

const VIPX_DEVICE *find(const std::vector<VIPX_DEVICE> &all, const std::string &name)
{
    for (const VIPX_DEVICE &device : all) {
        if (name == device.Name) {
            return &device;
        }
    }
    return nullptr;
}

/** What the log has said since this began. */
class Log {
public:
    explicit Log(VIPX_LOG_LEVEL level) { REQUIRE_VIP(VipxSetLogHandler(level, hear, this)); }
    ~Log() { VipxSetLogHandler(VIPX_LOG_OFF, nullptr, nullptr); }
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;

    bool says(VIPX_LOG_LEVEL level, const std::string &part)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto &line : lines_) {
            if (line.first == level && line.second.find(part) != std::string::npos) {
                return true;
            }
        }
        return false;
    }

    std::size_t count()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return lines_.size();
    }

    VIP_RETURN called_back = VIP_SUCCESS; // what a call in the handler returned

private:
    static void hear(VIP_PVOID context, VIPX_LOG_LEVEL level, const char *text)
    {
        auto *self = static_cast<Log *>(context);
        VIP_NIC_HANDLE nic = nullptr;
        const std::lock_guard<std::mutex> lock(self->mutex_);
        self->called_back = VipOpenNic("loopback", &nic);
        self->lines_.emplace_back(level, text);
    }

    std::mutex mutex_;
    std::vector<std::pair<VIPX_LOG_LEVEL, std::string>> lines_;
};

} // namespace

TEST_CASE("VipxListDevices tells of each device once, and of one that is the default",
          "[VipxListDevices][posix]")
{
    const auto all = devices();
    EXPECT_EQ(1u, with_flag(all, VIPX_DEVICE_IS_DEFAULT));
    for (const VIPX_DEVICE &device : all) {
        EXPECT(&device == find(all, device.Name));
        EXPECT(std::strlen(device.Text) > 0);
    }
    EXPECT(find(all, "loopback") != nullptr);
}

TEST_CASE("VipxListDevices tells of loopback, which opens by that name and by NULL",
          "[VipxListDevices][posix]")
{
    const EnvironmentSetting setting("VIPL_DEVICE", "loopback");
    const auto all = devices();
    const VIPX_DEVICE *device = find(all, "loopback");
    REQUIRE(device != nullptr);
    EXPECT_EQ(VIPX_DEVICE_IS_DEFAULT, device->Flags);
    for (const char *name : {static_cast<const char *>(device->Name), static_cast<const char *>(nullptr)}) {
        VIP_NIC_HANDLE nic = nullptr;
        VIP_NIC_ATTRIBUTES attributes{};
        REQUIRE_VIP(VipOpenNic(name, &nic));
        REQUIRE_VIP(VipQueryNic(nic, &attributes));
        EXPECT_EQ(std::string("loopback"), std::string(attributes.Name));
        REQUIRE_VIP(VipCloseNic(nic));
    }
}

TEST_CASE("VipxListDevices has the aliases, and a default that only the setting knows",
          "[VipxListDevices][posix]")
{
    const EnvironmentSetting aliases("VIPL_DEVICE_ALIASES", "/dev/clanvi7=loopback,junk, VINIC4=nowhere");
    const EnvironmentSetting setting("VIPL_DEVICE", "nowhere:7");
    const auto all = devices();
    EXPECT_EQ(2u, with_flag(all, VIPX_DEVICE_IS_ALIAS));
    const VIPX_DEVICE *alias = find(all, "/dev/clanvi7");
    REQUIRE(alias != nullptr);
    EXPECT(std::strstr(alias->Text, "loopback") != nullptr);
    EXPECT(find(all, "VINIC4") != nullptr);
    const VIPX_DEVICE *device = find(all, "nowhere:7");
    REQUIRE(device != nullptr);
    EXPECT_EQ(VIPX_DEVICE_IS_DEFAULT, device->Flags);
    EXPECT_EQ(1u, with_flag(all, VIPX_DEVICE_IS_DEFAULT));
}

TEST_CASE("VipxListDevices writes as many as there is room for, and says how many there are",
          "[VipxListDevices][posix]")
{
    const EnvironmentSetting aliases("VIPL_DEVICE_ALIASES", "one=loopback,two=loopback");
    const auto all = devices();
    for (VIP_ULONG room = 0; room <= all.size(); ++room) {
        std::vector<VIPX_DEVICE> some(all.size() + 1);
        std::memset(static_cast<void *>(some.data()), 'x', some.size() * sizeof some[0]);
        VIP_ULONG count = room;
        REQUIRE_VIP(VipxListDevices(some.data(), &count));
        EXPECT_EQ(all.size(), count);
        for (VIP_ULONG i = 0; i < room; ++i) {
            EXPECT_EQ(std::string(all[i].Name), std::string(some[i].Name));
        }
        EXPECT_EQ('x', some[room].Name[0]);
    }
    VIP_ULONG count = 1;
    EXPECT_EQ(VIP_INVALID_PARAMETER, VipxListDevices(nullptr, &count));
    EXPECT_EQ(1u, count);
    EXPECT_EQ(VIP_INVALID_PARAMETER, VipxListDevices(nullptr, nullptr));
}

TEST_CASE("VipxBuildOptions is words NAME=VALUE, the devices among them", "[VipxBuildOptions][posix]")
{
    const std::string text = VipxBuildOptions();
    EXPECT_EQ(0u, text.find("devices=loopback"));
    EXPECT(text.find(" sharing=") != std::string::npos);
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        const std::size_t equals = text.find('=', begin);
        EXPECT(equals > begin);
        EXPECT(equals < end);
        begin = end + 1;
    }
}

TEST_CASE("VipxExplainError has a sentence of its own for every return code", "[VipxExplainError][posix]")
{
    std::vector<std::string> seen;
    for (int code = VIP_SUCCESS; code <= VIP_INTERRUPTED + 1; ++code) {
        const std::string text = VipxExplainError(static_cast<VIP_RETURN>(code));
        EXPECT(text.size() > 20);
        EXPECT(std::find(seen.begin(), seen.end(), text) == seen.end());
        seen.push_back(text);
    }
    EXPECT_EQ(seen.back(), std::string(VipxExplainError(static_cast<VIP_RETURN>(-1))));
}

TEST_CASE("a log handler is told why a device does not open, and may not call the library",
          "[VipxSetLogHandler][posix]")
{
    VIP_NIC_HANDLE nic = nullptr;
    {
        Log log(VIPX_LOG_REASON);
        EXPECT_EQ(VIP_ERROR_RESOURCE, VipOpenNic("nowhere", &nic));
        EXPECT(log.says(VIPX_LOG_REASON, "\"nowhere\""));
        EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, log.called_back);
    }
    EXPECT_EQ(VIP_ERROR_RESOURCE, VipOpenNic("nowhere", &nic)); // the handler is gone
    Log errors(VIPX_LOG_ERROR);
    EXPECT_EQ(VIP_ERROR_RESOURCE, VipOpenNic("nowhere", &nic));
    EXPECT_EQ(0u, errors.count());
}

TEST_CASE("a connection that ends is an error in the log, or with VIPX_QUIET a piece of information",
          "[VipxOpenNic][posix]")
{
    for (const VIP_ULONG flags : {VIP_ULONG(0), VIPX_QUIET, VIPX_QUIET | VIPX_INLINE}) {
        const Nic nic(device_under_test(), Nic::Flags{flags}),
            peer_nic(device_under_test(), Nic::Flags{flags});
        const Vi vi(nic), peer(peer_nic);
        Log log(VIPX_LOG_INFO);
        connect_pair(nic, vi, peer_nic, peer);
        REQUIRE_VIP(VipDisconnect(peer));
        vi.await(VIP_STATE_ERROR);
        const VIPX_LOG_LEVEL level = flags == 0 ? VIPX_LOG_ERROR : VIPX_LOG_INFO;
        const unsigned long long end = now_ms() + patience(); // the state may come before the text
        for (unsigned turn = 0; !log.says(level, "connection lost") && now_ms() < end; turn++) {
            give_way(turn);
        }
        EXPECT(log.says(level, "connection lost"));
        EXPECT(!log.says(flags == 0 ? VIPX_LOG_INFO : VIPX_LOG_ERROR, "connection lost"));
        EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, log.called_back); // also by a thread of the library
    }
}

TEST_CASE("a log handler is told of devices that are opened, if it wants to", "[VipxSetLogHandler][posix]")
{
    Log log(VIPX_LOG_DEBUG);
    {
        const Nic nic;
    }
    EXPECT(log.says(VIPX_LOG_INFO, "opened") || objects_are_shareable()); // those the server opens
}

TEST_CASE("a log handler is told what a connection request came to", "[VipxSetLogHandler][posix]")
{
    const Nic nic(device_under_test(), false);
    const Vi vi(nic);
    Log log(VIPX_LOG_REASON);
    const std::string name = unique_discriminator();
    NetAddress here = nic.address("reason"), there = nic.address(name);
    VIP_VI_ATTRIBUTES attributes{};
    const VIP_RETURN rc = VipConnectRequest(vi, here, there, 50, &attributes);
    EXPECT((rc == VIP_NO_MATCH || rc == VIP_TIMEOUT));
    EXPECT(log.says(VIPX_LOG_REASON, name));
}

TEST_CASE("VipCreateVi says which transfer sizes are allowed", "[VipxSetLogHandler][posix]")
{
    const Nic nic(device_under_test(), false);
    Log log(VIPX_LOG_REASON);
    VIP_VI_ATTRIBUTES attributes{};
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = nic.attributes().MaxTransferSize + 1;
    VIP_VI_HANDLE vi = nullptr;
    EXPECT_EQ(VIP_INVALID_MTU, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    EXPECT(log.says(VIPX_LOG_REASON, std::to_string(nic.attributes().MaxTransferSize)));
}

TEST_CASE("VipxSetLogHandler refuses levels that there are not", "[VipxSetLogHandler][posix]")
{
    EXPECT_EQ(VIP_INVALID_PARAMETER,
              VipxSetLogHandler(static_cast<VIPX_LOG_LEVEL>(VIPX_LOG_DEBUG + 1), nullptr, nullptr));
}
