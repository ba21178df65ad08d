// SPDX-License-Identifier: MIT
//
// What attackers need below the library: bytes, descriptors, numbers in network byte order.
#ifndef VIPL_STRESS_RAW_HPP
#define VIPL_STRESS_RAW_HPP

#include <cstdint>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "stress.hpp"

namespace stress {

using Bytes = std::vector<VIP_UINT8>;

/** An open descriptor. */
class Fd {
public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd &operator=(Fd &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Fd()
    {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    int get() const { return fd_; }

private:
    int fd_;
};

inline void put(Bytes &to, size_t at, std::uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; ++i) {
        to[at + i] = static_cast<VIP_UINT8>(value >> (8 * (bytes - 1 - i)));
    }
}

/** Let this process have some thousand descriptors. */
inline unsigned allow_many_descriptors(unsigned wanted = 4096)
{
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
    setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT(limit.rlim_cur >= 1200);
    return static_cast<unsigned>(limit.rlim_cur);
}

} // namespace stress

#endif
