// SPDX-License-Identifier: MIT
//
// A NIC handle that listens, for cases in which somebody asks it by hand.
#ifndef VIPL_UNIT_LISTENER_HPP
#define VIPL_UNIT_LISTENER_HPP

#include <catch2/catch.hpp>

#include "raw_peer.hpp"

namespace unit {

/** A NIC handle that has waited for a discriminator. */
struct Listener : Victim {
    Listener()
    {
        address.host_len = be->address.host_len;
        std::memcpy(address.host, be->address.host, sizeof address.host);
        address.disc_len = 8;
        vipl_entropy(address.disc, 8); // its own
        REQUIRE(wait(nullptr) == VIP_TIMEOUT);
    }

    VIP_RETURN wait(VIP_CONN_HANDLE *connection)
    {
        struct {
            VIP_NET_ADDRESS address;
            char rest[VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
        } local{}, from{};
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE none = nullptr;
        auto *bytes = reinterpret_cast<char *>(&local) + offsetof(VIP_NET_ADDRESS, HostAddress);
        local.address.HostAddressLen = address.host_len;
        local.address.DiscriminatorLen = address.disc_len;
        std::memcpy(bytes, address.host, address.host_len);
        std::memcpy(bytes + address.host_len, address.disc, address.disc_len);
        return VipConnectWait(handle, &local.address, 0, &from.address, &attributes,
                              connection == nullptr ? &none : connection);
    }

    vipl_address address{};
};

} // namespace unit

#endif
