// SPDX-License-Identifier: MIT
//
// The address of a card that nobody gave one.
#include <catch2/catch.hpp>

#include <array>
#include <set>
#include <string>

#include "raw_client.hpp"

using namespace adapter_test;

namespace {

using Mac = std::array<std::uint8_t, RNIC_MAC_BYTES>;

Mac mac_of(const std::string &machine, std::uint32_t user, const std::string &name)
{
    Mac mac{};
    rnic_mac_of(machine.c_str(), user, name.c_str(), mac.data());
    return mac;
}

Mac chosen(const char *path)
{
    Mac mac{};
    rnic_mac_choose(path, mac.data());
    return mac;
}

bool is_single_and_local(const Mac &mac)
{
    return (mac[0] & 3) == 2;
}

/** The address of an adapter that serves there, for a moment. */
Mac address_at(const std::string &socket, const std::uint8_t *own = nullptr)
{
    rnic_adapter_config config{};
    char what[256];
    config.card.functions = 1;
    config.socket = socket.c_str();
    config.has_mac = own != nullptr;
    if (own != nullptr) {
        std::copy(own, own + RNIC_MAC_BYTES, config.card.mac);
    }
    rnic_adapter *adapter = nullptr;
    REQUIRE(rnic_adapter_create(&config, &adapter, what, sizeof what) == 0);
    Mac mac{};
    std::copy(adapter->config.mac, adapter->config.mac + RNIC_MAC_BYTES, mac.begin());
    rnic_adapter_destroy(adapter);
    return mac;
}

} // namespace

TEST_CASE("an address is of one machine, one user and one name", "[mac]")
{
    std::set<Mac> seen;
    const char *const machines[] = {"", "a", "b", "a1"};
    const char *const names[] = {"/a", "/b", "/a/b", "1/a"};
    for (const char *machine : machines) {
        for (const std::uint32_t user : {0u, 1u, 11u, 4294967295u}) {
            for (const char *name : names) {
                const Mac mac = mac_of(machine, user, name);
                CHECK(is_single_and_local(mac));
                CHECK(mac == mac_of(machine, user, name));
                CHECK(seen.insert(mac).second);
            }
        }
    }
}

TEST_CASE("an adapter that begins again has its address again, and another one has another", "[mac]")
{
    const Folder folder;
    const Mac one = address_at(folder.path + "/one");
    CHECK(is_single_and_local(one));
    CHECK(address_at(folder.path + "/one") == one);
    CHECK(address_at(folder.path + "/two") != one);
    CHECK(address_at(folder.path + "/two") == chosen((folder.path + "/two").c_str()));
    const Mac own{0x02, 1, 2, 3, 4, 5};
    CHECK(address_at(folder.path + "/one", own.data()) == own);
}

TEST_CASE("a path that is none of the whole machine gives any address", "[mac]")
{
    CHECK(is_single_and_local(chosen("card")));
    CHECK(chosen("card") != chosen("card"));
    CHECK(chosen(nullptr) != chosen(nullptr));
}
