// SPDX-License-Identifier: MIT
//
// The throwing ends of the checks in check.hpp. A path is cut to its last two parts so that a
// message reads the same wherever the suite was built.
#include "check.hpp"

#include <cstring>

namespace vipl_test {

namespace {

const char *short_path(const char *path)
{
    const char *last = std::strrchr(path, '/');
    return last == nullptr ? path : last + 1;
}

} // namespace

void fail(const char *file, int line, const std::string &message)
{
    throw Failure(std::string(short_path(file)) + ':' + std::to_string(line) + ": " + message);
}

void check_rc(const char *file, int line, const char *call, VIP_RETURN expected, VIP_RETURN seen)
{
    if (seen != expected) {
        fail(file, line,
             std::string(call) + "\n    expected " + show(expected) + "\n    returned " + show(seen));
    }
}

void check_status(const char *file, int line, const char *what, VIP_UINT32 expected,
                  const VIP_DESCRIPTOR *descriptor)
{
    if (descriptor == nullptr) {
        fail(file, line, std::string(what) + " is NULL");
    }
    if (descriptor->CS.Status != expected) {
        fail(file, line,
             std::string("Status of ") + what + "\n    expected " + status_text(expected) +
                 "\n    seen     " + status_text(descriptor->CS.Status));
    }
}

} // namespace vipl_test
