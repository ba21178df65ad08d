// SPDX-License-Identifier: MIT
//
// Names of VIPL's codes, for messages that people read: VIP_TIMEOUT instead of 4.
// show() is overloaded for every type that a check may print.
#ifndef VIPL_TESTS_NAMES_HPP
#define VIPL_TESTS_NAMES_HPP

#include <sstream>
#include <string>
#include <type_traits>

#include <vipl/vipl.h>

namespace vipl_test {

const char *return_name(VIP_RETURN code);
const char *state_name(VIP_VI_STATE state);
const char *error_name(VIP_ERROR_CODE code);
const char *resource_name(VIP_RESOURCE_CODE code);
const char *level_name(VIP_RELIABILITY_LEVEL level);

/** A descriptor's Status in words: "DONE | OP_RECEIVE | LENGTH_ERROR (0x10009)". */
std::string status_text(VIP_UINT32 status);

inline std::string show(VIP_RETURN code)
{
    return return_name(code);
}
inline std::string show(VIP_VI_STATE state)
{
    return state_name(state);
}
inline std::string show(VIP_ERROR_CODE code)
{
    return error_name(code);
}
inline std::string show(VIP_RESOURCE_CODE code)
{
    return resource_name(code);
}
inline std::string show(bool value)
{
    return value ? "true" : "false";
}
inline std::string show(const std::string &text)
{
    return '"' + text + '"';
}

template <class T>
std::string show(const T &value)
{
    std::ostringstream out;
    if constexpr (std::is_integral_v<T>) {
        if constexpr (std::is_signed_v<T>) {
            out << static_cast<long long>(value);
        } else {
            out << static_cast<unsigned long long>(value);
        }
        out << " (0x" << std::hex << static_cast<unsigned long long>(value) << ')';
    } else {
        out << value;
    }
    return out.str();
}

} // namespace vipl_test

#endif
