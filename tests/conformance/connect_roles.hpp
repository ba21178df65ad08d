// SPDX-License-Identifier: MIT
//
// The two halves of a client/server connect, with every argument of theirs in reach: the cases of
// connecting spoil one of them at a time.
#ifndef VIPL_CONFORMANCE_CONNECT_ROLES_HPP
#define VIPL_CONFORMANCE_CONNECT_ROLES_HPP

#include "support/role_case.hpp"

namespace vipl_conformance {

using namespace vipl_test;

/** A request as VipConnectWait hands it out. */
struct Incoming {
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
};

inline Incoming wait_for_request(const Nic &nic, NetAddress local, VIP_ULONG timeout = patience())
{
    Incoming incoming;
    REQUIRE_VIP(
        VipConnectWait(nic, local, timeout, incoming.from, &incoming.attributes, &incoming.connection));
    EXPECT(incoming.connection != nullptr);
    return incoming;
}

inline void expect_no_request(const Nic &nic, NetAddress local, VIP_ULONG timeout)
{
    Incoming incoming;
    incoming.connection = &incoming;
    REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, timeout, incoming.from, &incoming.attributes,
                                           &incoming.connection));
    EXPECT(incoming.connection == nullptr);
}

inline VIP_RETURN request(VIP_VI_HANDLE vi, NetAddress local, NetAddress remote,
                          VIP_ULONG timeout = patience())
{
    VIP_VI_ATTRIBUTES attributes{};
    return VipConnectRequest(vi, local, remote, timeout, &attributes);
}

} // namespace vipl_conformance

#endif
