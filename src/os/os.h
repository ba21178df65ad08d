/* SPDX-License-Identifier: MIT */
/*
 * Every operating system service that the library uses: the sum of the headers below, one for each
 * need. Each service is implemented once for each system, below any/, posix/, linux/ and (to come)
 * windows/; no other folder includes a system header for one of these needs.
 *
 * A function that returns int returns 0 or an errno value, unless its comment says otherwise. Its
 * comment lists the errno values that callers distinguish.
 */
#ifndef VIPL_OS_H
#define VIPL_OS_H

#include "os/dma.h"
#include "os/fork.h"
#include "os/local.h"
#include "os/memory.h"
#include "os/peer.h"
#include "os/process.h"
#include "os/shm.h"
#include "os/socket.h"
#include "os/stream.h"
#include "os/thread.h"
#include "os/wait.h"
#include "os/watch.h"
#include "os/word.h"

#endif
