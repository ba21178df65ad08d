// SPDX-License-Identifier: MIT
//
// Collects the calls of Notify handlers. As with the error log, the record outlives its user: a
// handler may still be returning when the case that waited for it has ended.
#ifndef VIPL_CONFORMANCE_NOTIFY_LOG_HPP
#define VIPL_CONFORMANCE_NOTIFY_LOG_HPP

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/role_case.hpp"

namespace vipl_conformance {

using namespace vipl_test;

struct NotifyCall {
    VIP_PVOID context;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *descriptor; // of a VI's handler
    VIP_BOOLEAN receive_queue;  // of a completion queue's handler
    std::thread::id thread;
};

/** The context to register is context(n): n tells registrations apart. */
class NotifyLog {
public:
    static constexpr size_t kContexts = 64;

    NotifyLog()
    {
        static std::mutex guard;
        static auto *const records = new std::vector<std::unique_ptr<Record>>();
        const std::lock_guard<std::mutex> lock(guard);
        records->push_back(std::make_unique<Record>());
        record_ = records->back().get();
        for (Slot &slot : record_->slots) {
            slot.record = record_;
        }
    }

    VIP_PVOID context(size_t n = 0) { return &record_->slots[n]; }

    static void VI_CALL vi_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                                   VIP_DESCRIPTOR *descriptor)
    {
        static_cast<Slot *>(context)->record->add(
            {context, nic, vi, descriptor, VIP_FALSE, std::this_thread::get_id()});
    }

    static void VI_CALL cq_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                                   VIP_BOOLEAN receive_queue)
    {
        static_cast<Slot *>(context)->record->add(
            {context, nic, vi, nullptr, receive_queue, std::this_thread::get_id()});
    }

    /** The n-th call, which must have come or come now. */
    NotifyCall call(size_t n)
    {
        if (!record_->await(n + 1, patience())) {
            throw Failure("the notify handler was not called");
        }
        const std::lock_guard<std::mutex> lock(record_->mutex);
        return record_->calls[n];
    }

    /** Require that there are n calls, and not one more in a moment. */
    void expect_no_more_than(size_t n)
    {
        if (record_->await(n + 1, kMoment)) {
            throw Failure("the notify handler was called once more than registered");
        }
    }

private:
    struct Record;
    struct Slot {
        Record *record = nullptr;
    };
    struct Record {
        std::mutex mutex;
        std::condition_variable changed;
        std::vector<NotifyCall> calls;
        Slot slots[kContexts];

        void add(const NotifyCall &call)
        {
            const std::lock_guard<std::mutex> lock(mutex);
            calls.push_back(call);
            changed.notify_all();
        }
        bool await(size_t count, VIP_ULONG timeout)
        {
            std::unique_lock<std::mutex> lock(mutex);
            return changed.wait_until(lock,
                                      std::chrono::system_clock::now() + std::chrono::milliseconds(timeout),
                                      [&] { return calls.size() >= count; });
        }
    };
    Record *record_;
};

} // namespace vipl_conformance

#endif
