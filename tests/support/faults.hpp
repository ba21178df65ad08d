// SPDX-License-Identifier: MIT
//
// Accesses that the processor refuses. faults.cpp has it by POSIX, windows/faults.cpp on Windows.
#ifndef VIPL_TESTS_FAULTS_HPP
#define VIPL_TESTS_FAULTS_HPP

#include <memory>

namespace vipl_test {

/** Has a function of the test hear where an access has failed, while the object lives, before the
 * access is tried again: the function makes it good. One at a time. */
class FaultHandler {
public:
    explicit FaultHandler(void (*on_fault)(void *address));
    ~FaultHandler();
    FaultHandler(const FaultHandler &) = delete;
    FaultHandler &operator=(const FaultHandler &) = delete;

private:
    struct Before;
    std::unique_ptr<Before> before_;
};

} // namespace vipl_test

#endif
