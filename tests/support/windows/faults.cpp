// SPDX-License-Identifier: MIT
#include "support/faults.hpp"

#include "support/windows/ended.hpp"

#include "support/check.hpp"

namespace vipl_test {

namespace {

void (*g_on_fault)(void *address);

LONG NTAPI handle(EXCEPTION_POINTERS *exception)
{
    const EXCEPTION_RECORD &record = *exception->ExceptionRecord;
    if (record.ExceptionCode != EXCEPTION_ACCESS_VIOLATION) {
        return EXCEPTION_CONTINUE_SEARCH;
    }
    g_on_fault(reinterpret_cast<void *>(record.ExceptionInformation[1]));
    return EXCEPTION_CONTINUE_EXECUTION;
}

} // namespace

struct FaultHandler::Before {
    void *handler;
};

FaultHandler::FaultHandler(void (*on_fault)(void *address)) : before_(std::make_unique<Before>())
{
    g_on_fault = on_fault;
    before_->handler = AddVectoredExceptionHandler(1, handle);
    if (before_->handler == nullptr) {
        throw Failure("AddVectoredExceptionHandler() fails");
    }
}

FaultHandler::~FaultHandler()
{
    RemoveVectoredExceptionHandler(before_->handler);
}

} // namespace vipl_test
