// SPDX-License-Identifier: MIT
//
// The C headers of the adapter for C++ tests.
#ifndef VIPL_ADAPTER_INTERNAL_HPP
#define VIPL_ADAPTER_INTERNAL_HPP

#define _Static_assert static_assert

extern "C" {
#include "adapter/adapter.h"
#include "adapter/mac.h"
#include "adapter/options.h"
#include "backends/rnic/pci/pci.h"
#include "base/ranges.h"
#include "os/os.h"
#include "rnic/registers.h"
#include "vfio_user/capabilities.h"
#include "vfio_user/channel.h"
#include "vfio_user/client.h"
#include "vfio_user/message.h"

#include "fake_card.h"
}

extern const char *const fake_rnicd; // the path of a program

#endif
