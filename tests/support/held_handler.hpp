// SPDX-License-Identifier: MIT
//
// A handler that does not return, so that the library's thread does nothing else.
#ifndef VIPL_TESTS_HELD_HANDLER_HPP
#define VIPL_TESTS_HELD_HANDLER_HPP

#include <chrono>
#include <future>
#include <memory>

#include "check.hpp"
#include "environment.hpp"

namespace vipl_test {

/** For VipSendNotify() or VipRecvNotify(), as the context. The handler may end after it. */
class HeldHandler {
public:
    HeldHandler() = default;
    ~HeldHandler() { release(); }
    HeldHandler(const HeldHandler &) = delete;
    HeldHandler &operator=(const HeldHandler &) = delete;

    static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *descriptor)
    {
        // A copy: the object may be gone as soon as await() has returned.
        const std::shared_ptr<Shared> shared = static_cast<HeldHandler *>(context)->shared_;
        shared->here.set_value(descriptor);
        shared->go_on.get_future().wait();
    }

    /** Until it has been called; the descriptor it was called with. */
    VIP_DESCRIPTOR *await()
    {
        std::future<VIP_DESCRIPTOR *> here = shared_->here.get_future();
        EXPECT(here.wait_for(std::chrono::milliseconds(patience())) == std::future_status::ready);
        return here.get();
    }
    void release()
    {
        if (!released_) {
            shared_->go_on.set_value();
        }
        released_ = true;
    }

private:
    struct Shared {
        std::promise<VIP_DESCRIPTOR *> here;
        std::promise<void> go_on;
    };
    std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
    bool released_ = false;
};

} // namespace vipl_test

#endif
