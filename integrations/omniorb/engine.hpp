// SPDX-License-Identifier: MIT
//
// The C headers of the stream engine, for C++.
#ifndef OMNIVIPL_ENGINE_HPP
#define OMNIVIPL_ENGINE_HPP

#define _Static_assert static_assert
#define _Thread_local thread_local
extern "C" {
#include "base/address.h"
#include "os/os.h"
#include "stream/stream.h"
#include "vipl/posix.h"
}
#undef _Static_assert
#undef _Thread_local

#endif
