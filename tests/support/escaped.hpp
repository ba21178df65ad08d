// SPDX-License-Identifier: MIT
//
// How the library writes a name of its own where a system allows fewer characters.
#ifndef VIPL_TESTS_ESCAPED_HPP
#define VIPL_TESTS_ESCAPED_HPP

#include <cctype>
#include <cstdio>
#include <string>

namespace vipl_test {

/** The name with all but alphanumeric characters by their numbers. */
inline std::string escaped(const std::string &name)
{
    std::string text;
    for (const char c : name) {
        char shown[4] = {c, 0, 0, 0};
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
            std::snprintf(shown, sizeof shown, "_%02x", static_cast<unsigned char>(c));
        }
        text += shown;
    }
    return text;
}

} // namespace vipl_test

#endif
