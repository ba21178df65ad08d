// SPDX-License-Identifier: MIT
//
// Checks that work in any thread and any process: a check that fails throws a Failure which says
// where, what was expected and what was seen. The runner of the case turns it into the case's
// failure; Catch2's own assertions are for single-threaded code only.
//
//     REQUIRE_VIP(VipOpenNic(name, &nic));              the call returns VIP_SUCCESS
//     REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(vi, 0, &d));  the call returns that code
//     EXPECT(pointer != nullptr);
//     EXPECT_EQ(expected, seen);
//     EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, descriptor); DONE, this operation, these bits, no others
#ifndef VIPL_TESTS_CHECK_HPP
#define VIPL_TESTS_CHECK_HPP

#include <stdexcept>
#include <string>

#include "names.hpp"

namespace vipl_test {

/** A check failed. what() has file:line, the expression and the values. */
class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/** The case cannot be had here (a capability is missing, say); what() is the reason. */
class NotApplicable : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const char *file, int line, const std::string &message);
void check_rc(const char *file, int line, const char *call, VIP_RETURN expected, VIP_RETURN seen);
void check_status(const char *file, int line, const char *what, VIP_UINT32 expected,
                  const VIP_DESCRIPTOR *descriptor);

template <class A, class B>
void check_eq(const char *file, int line, const char *text, const A &expected, const B &seen)
{
    if (!(seen == expected)) {
        fail(file, line,
             std::string(text) + "\n    expected " + show(expected) + "\n    seen     " + show(seen));
    }
}

} // namespace vipl_test

#define EXPECT(condition) \
    ((condition) ? (void)0 : ::vipl_test::fail(__FILE__, __LINE__, "EXPECT(" #condition ")"))
#define EXPECT_EQ(expected, seen) \
    ::vipl_test::check_eq(__FILE__, __LINE__, "EXPECT_EQ(" #expected ", " #seen ")", (expected), (seen))
#define REQUIRE_RC(code, ...) ::vipl_test::check_rc(__FILE__, __LINE__, #__VA_ARGS__, (code), (__VA_ARGS__))
#define REQUIRE_VIP(...) REQUIRE_RC(VIP_SUCCESS, __VA_ARGS__)
#define EXPECT_STATUS(bits, descriptor) \
    ::vipl_test::check_status(__FILE__, __LINE__, #descriptor, VIP_STATUS_DONE | (bits), (descriptor))

#endif
