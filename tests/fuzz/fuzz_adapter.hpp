// SPDX-License-Identifier: MIT
//
// An adapter without sockets of its own: connections are handed to its functions, which may do
// everything that a fuzzer can ask for.
#ifndef VIPL_TESTS_FUZZ_ADAPTER_HPP
#define VIPL_TESTS_FUZZ_ADAPTER_HPP

#include "fuzz.hpp"

#define _Static_assert static_assert
extern "C" {
#include "adapter/adapter.h"
}

class FuzzAdapter {
public:
    FuzzAdapter()
    {
        rnic_adapter_config config{};
        char what[256];
        config.card = {
            2,    64, 64, 64, 1024, 16, 64, 1500, {2, 0, 0, 0, 0, 1}, 1, 65536, 4096, {0}, RNIC_PROFILE_NONE,
            false};
        FUZZ_CHECK(rnic_adapter_create(&config, &adapter, what, sizeof what) == 0);
    }
    ~FuzzAdapter() { rnic_adapter_destroy(adapter); }
    FuzzAdapter(const FuzzAdapter &) = delete;
    FuzzAdapter &operator=(const FuzzAdapter &) = delete;

    rnic_adapter *adapter = nullptr;
};

#endif
