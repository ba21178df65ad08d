// SPDX-License-Identifier: MIT
//
// What Catch2 2 calls <catch2/catch.hpp>, where Catch2 3 is: the same names for what these tests
// use.
#ifndef VIPL_TEST_CATCH3_CATCH_HPP
#define VIPL_TEST_CATCH3_CATCH_HPP

#include <catch2/catch_all.hpp>

namespace Catch {

using Matchers::StartsWith;

inline auto Contains(const std::string &part)
{
    return Matchers::ContainsSubstring(part);
}

} // namespace Catch

#endif
