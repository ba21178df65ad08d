// SPDX-License-Identifier: MIT
//
// Collects what a NIC handle reports to its error callback. The record outlives the object, since
// a callback may still be running when another handler is set.
#ifndef VIPL_TESTS_ERROR_LOG_HPP
#define VIPL_TESTS_ERROR_LOG_HPP

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "objects.hpp"

namespace vipl_test {

class ErrorLog {
public:
    explicit ErrorLog(const Nic &nic);
    ~ErrorLog() { VipErrorCallback(nic_, nullptr, nullptr); }
    ErrorLog(const ErrorLog &) = delete;
    ErrorLog &operator=(const ErrorLog &) = delete;

    /** The next error that is reported about this VI (NULL: about anything); it must come. */
    VIP_ERROR_DESCRIPTOR next(VIP_VI_HANDLE vi = nullptr);

    /** Require the next error about this VI to be of the VI and to have this code. */
    void expect(VIP_VI_HANDLE vi, VIP_ERROR_CODE code);

    /** Require that no error about this VI (NULL: about anything) is recorded or comes in a
     * moment. */
    void expect_none(VIP_VI_HANDLE vi = nullptr);

private:
    struct Record {
        std::mutex mutex;
        std::condition_variable changed;
        std::vector<VIP_ERROR_DESCRIPTOR> errors;

        bool take(VIP_VI_HANDLE vi, VIP_ULONG timeout, VIP_ERROR_DESCRIPTOR *out);
    };
    static void VI_CALL on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error);

    VIP_NIC_HANDLE nic_;
    Record *record_;
};

} // namespace vipl_test

#endif
