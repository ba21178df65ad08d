// SPDX-License-Identifier: MIT
//
// The name service. Which names a host has is the host's affair; what is known everywhere is that
// this host has a name and that the NIC's own address leads back to it.
#include <cstring>
#include <string>
#include <vector>

#include "support/role_case.hpp"
#include "support/system.hpp"

using namespace vipl_test;

namespace {

/** This host's name by the NIC's own address. */
std::string own_name(const Nic &nic)
{
    NetAddress own = nic.address("");
    char name[300];
    VIP_ULONG length = sizeof name;
    REQUIRE_VIP(VipNSGetHostByAddr(nic, own, name, &length));
    EXPECT(std::memchr(name, '\0', sizeof name) != nullptr);
    EXPECT_EQ(static_cast<VIP_ULONG>(std::strlen(name) + 1), length);
    return name;
}

} // namespace

TEST_CASE("VipNSInit and VipNSShutdown succeed, repeatedly", "[VipNSInit][functional]")
{
    const Nic nic;
    REQUIRE_VIP(VipNSInit(nic, nullptr));
    REQUIRE_VIP(VipNSInit(nic, nullptr));
    REQUIRE_VIP(VipNSShutdown(nic));
    REQUIRE_VIP(VipNSShutdown(nic));
    REQUIRE_VIP(VipNSInit(nic, nullptr));
    REQUIRE_VIP(VipNSShutdown(nic));
}

TEST_CASE("VipNSShutdown leaves look-ups working", "[VipNSShutdown][functional]")
{
    const Nic nic;
    REQUIRE_VIP(VipNSInit(nic, nullptr));
    REQUIRE_VIP(VipNSShutdown(nic));
    EXPECT(!own_name(nic).empty());
}

TEST_CASE("VipNSGetHostByAddr names the NIC's own address", "[VipNSGetHostByAddr][functional]")
{
    const Nic nic;
    REQUIRE_VIP(VipNSInit(nic, nullptr));
    EXPECT(!own_name(nic).empty());
}

TEST_CASE("VipNSGetHostByAddr ignores the discriminator", "[VipNSGetHostByAddr][functional]")
{
    const Nic nic;
    NetAddress own = nic.address("some service");
    char name[300];
    VIP_ULONG length = sizeof name;
    REQUIRE_VIP(VipNSGetHostByAddr(nic, own, name, &length));
    EXPECT_EQ(own_name(nic), std::string(name));
}

TEST_CASE("VipNSGetHostByAddr with too little room is VIP_ERROR_RESOURCE and tells the size",
          "[VipNSGetHostByAddr][functional]")
{
    const Nic nic;
    const std::string expected = own_name(nic);
    NetAddress own = nic.address("");
    std::vector<char> name(expected.size() + 1, '\x7F');
    for (const VIP_ULONG room : {static_cast<VIP_ULONG>(0), static_cast<VIP_ULONG>(expected.size())}) {
        VIP_ULONG length = room;
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(nic, own, name.data(), &length));
        EXPECT_EQ(static_cast<VIP_ULONG>(expected.size() + 1), length);
        EXPECT_EQ('\x7F', name[room]); // nothing beyond the room
    }
    VIP_ULONG length = expected.size() + 1;
    REQUIRE_VIP(VipNSGetHostByAddr(nic, own, name.data(), &length));
    EXPECT_EQ(expected, std::string(name.data()));
}

TEST_CASE("VipNSGetHostByAddr of an unknown address is VIP_ERROR_NAMESERVICE",
          "[VipNSGetHostByAddr][functional]")
{
    if (!device_is_loopback()) {
        throw NotApplicable("which addresses are unknown is known on loopback only");
    }
    const Nic nic;
    std::string host = nic.address("").host();
    host[host.size() - 1] = static_cast<char>(host[host.size() - 1] ^ 0x55);
    NetAddress unknown(host, "");
    char name[300];
    VIP_ULONG length = sizeof name;
    REQUIRE_RC(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(nic, unknown, name, &length));
}

TEST_CASE("VipNSGetHostByName finds this host by the name of its address", "[VipNSGetHostByName][functional]")
{
    const Nic nic;
    std::string name = own_name(nic);
    NetAddress found;
    REQUIRE_VIP(VipNSGetHostByName(nic, name.data(), found, 0));
    EXPECT_EQ(nic.address("").host(), found.host());
    EXPECT_EQ(0, found.get()->DiscriminatorLen);
    EXPECT(found.guard_intact());
}

TEST_CASE("VipNSGetHostByName finds this host by gethostname()", "[VipNSGetHostByName][functional]")
{
    const Nic nic;
    std::string name = host_name();
    NetAddress found;
    REQUIRE_VIP(VipNSGetHostByName(nic, name.data(), found, 0));
    EXPECT_EQ(nic.attributes().NicAddressLen, found.get()->HostAddressLen);
}

TEST_CASE("VipNSGetHostByName writes only the bytes needed, whatever the lengths were",
          "[VipNSGetHostByName][functional]")
{
    const Nic nic;
    std::string name = own_name(nic);
    for (const unsigned garbage : {0u, 3u, 0xFFFFu}) {
        NetAddress exact(nic.attributes().NicAddressLen, static_cast<VIP_UINT16>(garbage),
                         static_cast<VIP_UINT16>(garbage));
        REQUIRE_VIP(VipNSGetHostByName(nic, name.data(), exact, 0));
        EXPECT_EQ(nic.address("").host(), exact.host());
        EXPECT_EQ(0, exact.get()->DiscriminatorLen);
        EXPECT(exact.guard_intact());
    }
}

TEST_CASE("VipNSGetHostByName of an unknown name is VIP_ERROR_NAMESERVICE",
          "[VipNSGetHostByName][functional]")
{
    const Nic nic;
    char name[] = "no-such-host.invalid";
    NetAddress found;
    REQUIRE_RC(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, name, found, 0));
}

TEST_CASE("VipNSGetHostByName past the last address is VIP_ERROR_NAMESERVICE",
          "[VipNSGetHostByName][functional]")
{
    const Nic nic;
    std::string name = own_name(nic);
    NetAddress found;
    VIP_ULONG index = 0;
    while (index < 1000 && VipNSGetHostByName(nic, name.data(), found, index) == VIP_SUCCESS) {
        ++index;
    }
    EXPECT(index >= 1);
    REQUIRE_RC(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, name.data(), found, index));
    REQUIRE_RC(VIP_ERROR_NAMESERVICE,
               VipNSGetHostByName(nic, name.data(), found, ~static_cast<VIP_ULONG>(0)));
}

namespace {

struct Name {
    char text[300];
};

} // namespace

TWO_ROLE_CASE("an address from VipNSGetHostByName is good to connect to",
              "[VipNSGetHostByName][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        Name name{};
        own_name(peer.nic()).copy(name.text, sizeof name.text - 1);
        peer.send(name);
        end.connect();
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        Name name = peer.receive<Name>();
        NetAddress found, local = peer.client_address();
        REQUIRE_VIP(VipNSGetHostByName(peer.nic(), name.text, found, 0));
        NetAddress remote(found.host(), peer.server_address().discriminator());
        REQUIRE_VIP(VipConnectRequest(end.vi, local, remote, patience(), nullptr));
        peer.sync();
    },
};
