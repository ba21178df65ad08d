// SPDX-License-Identifier: MIT
//
// A table of operations between core and the device of a NIC handle, in which a test puts its own.
#ifndef VIPL_UNIT_REPLACED_HPP
#define VIPL_UNIT_REPLACED_HPP

#include "internal.hpp"

namespace unit {

/** The operations of a NIC handle's device, of which some are replaced for the life of the
 * object. */
class Replaced {
public:
    explicit Replaced(VIP_NIC_HANDLE handle)
        : nic(static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, handle))), before(nic->ops),
          ops(*before)
    {
        nic->ops = &ops;
    }
    ~Replaced() { nic->ops = before; }
    Replaced(const Replaced &) = delete;
    Replaced &operator=(const Replaced &) = delete;

    vipl_nic *const nic;
    const vipl_backend *const before;
    vipl_backend ops;
};

} // namespace unit

#endif
