// SPDX-License-Identifier: MIT
//
// Every public function that takes a handle, each to be called with handles of another process.
#ifndef VIPL_TESTS_DEAD_HANDLES_HPP
#define VIPL_TESTS_DEAD_HANDLES_HPP

#include <vector>

#include "objects.hpp"

namespace vipl_test {

/** Handles of one kind each, with what calls need beside them. */
struct Handles {
    VIP_NIC_HANDLE nic;
    VIP_PROTECTION_HANDLE ptag;
    VIP_PVOID address;
    VIP_MEM_HANDLE memory;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;
    VIP_CONN_HANDLE connection;
    VIP_DESCRIPTOR *descriptor;
    VIP_NET_ADDRESS *local, *remote;
};

struct HandleCall {
    const char *function;
    VIP_RETURN (*call)(const Handles &);
};

/** All of them; blocking ones with VIP_INFINITE. */
const std::vector<HandleCall> &handle_calls();

/** Call them all: each is to return VIP_INVALID_PARAMETER, within a moment. */
void expect_dead(const Handles &handles);

} // namespace vipl_test

#endif
