// SPDX-License-Identifier: MIT
//
// A NIC handle's limits that are too high to be met from outside: a case lowers them.
#include <catch2/catch.hpp>

#include <optional>

#include "internal.hpp"
#include "support/objects.hpp"

using namespace vipl_test;

TEST_CASE("a NIC handle has as many VIs as it says and no more, and a place that is free is used again",
          "[limits]")
{
    const Nic nic;
    auto *object = static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, nic));
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE handle = nullptr;
    object->limits.max_vis = 2;
    const Vi first(nic);
    std::optional<Vi> second(std::in_place, nic);
    for (int again = 0; again < 2; ++again) {
        CHECK(VipCreateVi(nic, &attributes, nullptr, nullptr, &handle) == VIP_ERROR_RESOURCE);
        second.reset();
        second.emplace(nic);
    }
    CHECK(handle == nullptr);
}
