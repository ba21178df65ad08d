// SPDX-License-Identifier: MIT
#include "faults.hpp"

#include <csignal>

#include "check.hpp"

namespace vipl_test {

namespace {

void (*g_on_fault)(void *address);

void handle(int, siginfo_t *info, void *)
{
    g_on_fault(info->si_addr);
}

} // namespace

struct FaultHandler::Before {
    struct sigaction action {};
};

FaultHandler::FaultHandler(void (*on_fault)(void *address)) : before_(std::make_unique<Before>())
{
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    g_on_fault = on_fault;
    if (sigaction(SIGSEGV, &action, &before_->action) != 0) {
        throw Failure("sigaction() fails");
    }
}

FaultHandler::~FaultHandler()
{
    sigaction(SIGSEGV, &before_->action, nullptr);
}

} // namespace vipl_test
