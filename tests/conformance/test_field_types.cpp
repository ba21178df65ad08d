// SPDX-License-Identifier: MIT
//
// 5.2 of the contract for programs that define function pointers of VIPL's names and fill them
// with what dlsym() finds: with VIPL_NO_PROTOTYPES the header gives types alone. C linkage names
// would clash with the library's here, so the pointers live in a namespace; the declarations are
// the same.
#define VIPL_NO_PROTOTYPES
#include <vipl/vipl.h>

namespace field_types {

// What such a program declares. These would not compile beside prototypes of the same names in C.
VIP_RETURN (*VipOpenNic)(const VIP_CHAR *, VIP_NIC_HANDLE *);
VIP_RETURN (*VipCloseNic)(VIP_NIC_HANDLE);
VIP_RETURN (*VipQueryNic)(VIP_NIC_HANDLE, VIP_NIC_ATTRIBUTES *);

} // namespace field_types

#include "support/system.hpp"

namespace vipl_conformance {

/** Fill the pointers, or say that this program has no symbols to look up. */
bool fill_function_pointers()
{
    field_types::VipOpenNic =
        reinterpret_cast<decltype(field_types::VipOpenNic)>(vipl_test::function_by_name("VipOpenNic"));
    field_types::VipCloseNic =
        reinterpret_cast<decltype(field_types::VipCloseNic)>(vipl_test::function_by_name("VipCloseNic"));
    field_types::VipQueryNic =
        reinterpret_cast<decltype(field_types::VipQueryNic)>(vipl_test::function_by_name("VipQueryNic"));
    return field_types::VipOpenNic != nullptr && field_types::VipCloseNic != nullptr &&
           field_types::VipQueryNic != nullptr;
}

/** Open, query and close a device through the pointers. */
bool use_function_pointers(const char *device)
{
    VIP_NIC_HANDLE nic = nullptr;
    VIP_NIC_ATTRIBUTES attributes;
    return field_types::VipOpenNic(device, &nic) == VIP_SUCCESS &&
           field_types::VipQueryNic(nic, &attributes) == VIP_SUCCESS && attributes.Name[0] != '\0' &&
           field_types::VipCloseNic(nic) == VIP_SUCCESS;
}

} // namespace vipl_conformance
