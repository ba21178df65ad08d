// SPDX-License-Identifier: MIT
//
// A process that makes children for the suite. It is forked before any thread exists and never uses
// the library, so its children start clean; no exec takes part, which emulators cannot do. It ends
// when the suite's process ends, and with it its children, however long they may take otherwise.
// Calls are for one thread at a time.
#ifndef VIPL_TESTS_ZYGOTE_HPP
#define VIPL_TESTS_ZYGOTE_HPP

#include <string>

#include <sys/types.h>

namespace vipl_test {

/** What a child is to do: an address in this image, and bytes for it. */
struct ChildOrder {
    void (*role)();
    char scene[64];
};

/** Runs in the child with the two sockets that the order came with; the child exits with its
 * result. */
using ChildMain = int (*)(const ChildOrder &order, int line, int report);

void zygote_start(ChildMain child_main);

/** Fork a child of the zygote. Both sockets are duplicated into it. */
pid_t zygote_spawn(const ChildOrder &order, int line, int report);

/** Wait for a child to end; its wait status. */
int zygote_wait(pid_t child);

/** End a child at once. */
void zygote_kill(pid_t child);

/** In place of an exit code: the process was killed, as kill_this_process() does it. */
constexpr int kKilled = 256;
/** Whether a wait status is of a process that exited with this code, or was killed. */
bool ended_so(int status, int code);
/** A wait status in words. */
std::string describe_end(int status);

} // namespace vipl_test

#endif
