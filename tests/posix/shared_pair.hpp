// SPDX-License-Identifier: MIT
//
// Two connected VIs of one shareable NIC handle, a third that is not connected, and memory.
#ifndef VIPL_CONFORMANCE_SHARED_PAIR_HPP
#define VIPL_CONFORMANCE_SHARED_PAIR_HPP

#include "support/objects.hpp"

namespace vipl_conformance {

struct SharedPair {
    SharedPair() { connect_pair(nic, server, nic, client); }

    void exchange()
    {
        const vipl_test::Work in = memory.transfer(memory.bytes(64));
        post_recv(server, in);
        post_send(client, memory.transfer(memory.text("there")));
        vipl_test::sent(client);
        EXPECT(vipl_test::received(server) == in.desc);
    }

    vipl_test::Nic nic{vipl_test::device_under_test(), true};
    vipl_test::Memory memory{nic, 1 << 20};
    vipl_test::Vi server{nic}, client{nic}, idle{nic};
};

} // namespace vipl_conformance

#endif
