// SPDX-License-Identifier: MIT
//
// VIP_NET_ADDRESS as programs lay it out: two lengths, then the host's bytes, then the
// discriminator's, in memory that is exactly as long as needed or has guard bytes after it.
#ifndef VIPL_TESTS_NET_ADDRESS_HPP
#define VIPL_TESTS_NET_ADDRESS_HPP

#include <cstddef>
#include <string>
#include <vector>

#include <vipl/vipl.h>

namespace vipl_test {

/** Owns the bytes of one address. */
class NetAddress {
public:
    /** An address to be filled in by a call: room for that many bytes, lengths as given. */
    explicit NetAddress(size_t room = 6 + 64, VIP_UINT16 host_len = 0, VIP_UINT16 discriminator_len = 0);

    NetAddress(const std::string &host, const std::string &discriminator);

    VIP_NET_ADDRESS *get() { return reinterpret_cast<VIP_NET_ADDRESS *>(bytes_.data()); }
    operator VIP_NET_ADDRESS *() { return get(); }

    std::string host();
    std::string discriminator();

    /** The bytes after the address proper, which no call may touch; made 0xA5 by the
     * constructor. */
    bool guard_intact() const;

private:
    static constexpr size_t kGuard = 16;
    std::vector<unsigned char> bytes_; // operator new aligns it for anything
};

} // namespace vipl_test

#endif
