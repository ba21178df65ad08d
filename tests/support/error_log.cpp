// SPDX-License-Identifier: MIT
//
// The callback only copies and notifies; records are kept until the process ends (see the header).
#include "error_log.hpp"

#include <algorithm>
#include <chrono>

namespace vipl_test {

ErrorLog::ErrorLog(const Nic &nic) : nic_(nic)
{
    static std::mutex guard;
    static auto *const records = new std::vector<std::unique_ptr<Record>>();
    {
        const std::lock_guard<std::mutex> lock(guard);
        records->push_back(std::make_unique<Record>());
        record_ = records->back().get();
    }
    REQUIRE_VIP(VipErrorCallback(nic, record_, on_error));
}

void VI_CALL ErrorLog::on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    auto *record = static_cast<Record *>(context);
    const std::lock_guard<std::mutex> lock(record->mutex);
    record->errors.push_back(*error);
    record->changed.notify_all();
}

bool ErrorLog::Record::take(VIP_VI_HANDLE vi, VIP_ULONG timeout, VIP_ERROR_DESCRIPTOR *out)
{
    // A system-clock wait: the steady-clock one is unknown to older thread sanitizers.
    const auto end = std::chrono::system_clock::now() + std::chrono::milliseconds(timeout);
    std::unique_lock<std::mutex> lock(mutex);
    auto found = errors.end();
    changed.wait_until(lock, end, [&] {
        found = std::find_if(errors.begin(), errors.end(), [vi](const VIP_ERROR_DESCRIPTOR &error) {
            return vi == nullptr || error.ViHandle == vi;
        });
        return found != errors.end();
    });
    if (found == errors.end()) {
        return false;
    }
    *out = *found;
    errors.erase(found);
    return true;
}

VIP_ERROR_DESCRIPTOR ErrorLog::next(VIP_VI_HANDLE vi)
{
    VIP_ERROR_DESCRIPTOR error{};
    if (!record_->take(vi, patience(), &error)) {
        throw Failure("no error was reported to the error callback");
    }
    return error;
}

void ErrorLog::expect(VIP_VI_HANDLE vi, VIP_ERROR_CODE code)
{
    const VIP_ERROR_DESCRIPTOR error = next(vi);
    EXPECT_EQ(code, error.ErrorCode);
    EXPECT_EQ(VIP_RESOURCE_VI, error.ResourceCode);
    EXPECT_EQ(nic_, error.NicHandle);
}

void ErrorLog::expect_none(VIP_VI_HANDLE vi)
{
    VIP_ERROR_DESCRIPTOR error{};
    if (record_->take(vi, kMoment, &error)) {
        throw Failure("unexpected error callback: " + show(error.ErrorCode) + " of " +
                      show(error.ResourceCode));
    }
}

} // namespace vipl_test
