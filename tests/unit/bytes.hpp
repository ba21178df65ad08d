// SPDX-License-Identifier: MIT
//
// Bytes for the wire's tests: from and to hex, and in memory of exactly their size.
#ifndef VIPL_UNIT_BYTES_HPP
#define VIPL_UNIT_BYTES_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace unit {

using Bytes = std::vector<std::uint8_t>;

/** Spaces are for the eye. */
inline Bytes bytes_of(const std::string &hex)
{
    std::string digits;
    std::copy_if(hex.begin(), hex.end(), std::back_inserter(digits), [](char c) { return c != ' '; });
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
        bytes.push_back(static_cast<std::uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

inline std::string hex(const std::uint8_t *bytes, std::size_t length)
{
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < length; ++i) {
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

inline std::string hex(const Bytes &bytes)
{
    return hex(bytes.data(), bytes.size());
}

inline Bytes operator+(Bytes a, const Bytes &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/** A copy in memory of exactly that size, so that a checker sees a read beyond it. */
class Exact {
public:
    Exact(const std::uint8_t *bytes, std::size_t length) : bytes_(new std::uint8_t[length])
    {
        std::copy_n(bytes, length, bytes_.get());
    }
    explicit Exact(const Bytes &bytes) : Exact(bytes.data(), bytes.size()) {}
    std::uint8_t *get() const { return bytes_.get(); }

private:
    std::unique_ptr<std::uint8_t[]> bytes_;
};

} // namespace unit

#endif
