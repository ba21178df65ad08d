// SPDX-License-Identifier: MIT
//
// Memory that a connected peer is after, for raw sockets on the tcp device.
#ifndef VIPL_STRESS_TCP_PREY_HPP
#define VIPL_STRESS_TCP_PREY_HPP

#include <array>

#include "stress.hpp"
#include "tcp_wire.hpp"

namespace stress {

inline constexpr std::uint32_t kPage = 4096;

/** Bytes of which only the middle is registered. */
class Prey {
public:
    Prey(const Nic &nic, VIP_PROTECTION_HANDLE tag, bool write, bool read, VIP_UINT32 size = kPage)
        : nic_(nic), size_(size), bytes_(size + 2 * kPage)
    {
        VIP_MEM_ATTRIBUTES attributes{};
        attributes.Ptag = tag;
        attributes.EnableRdmaWrite = write ? VIP_TRUE : VIP_FALSE;
        attributes.EnableRdmaRead = read ? VIP_TRUE : VIP_FALSE;
        REQUIRE_VIP(VipRegisterMem(nic, &bytes_[kPage], size_, &attributes, &handle_));
        everything().fill(1);
    }
    ~Prey() { VipDeregisterMem(nic_, &bytes_[kPage], handle_); }
    Prey(const Prey &) = delete;
    Prey &operator=(const Prey &) = delete;

    RemoteSpan remote() const { return {reinterpret_cast<uintptr_t>(&bytes_[kPage]), handle_}; }
    bool untouched() { return everything().holds(1); }
    Span everything() { return {bytes_.data(), static_cast<VIP_UINT32>(bytes_.size()), handle_}; }
    Span window() { return everything().part(kPage, size_); }

private:
    VIP_NIC_HANDLE nic_;
    VIP_UINT32 size_;
    std::vector<VIP_UINT8> bytes_;
    VIP_MEM_HANDLE handle_ = 0;
};

/** What errors were reported, by code. */
struct Reports {
    std::array<std::atomic<unsigned>, 16> of{};

    static void VI_CALL note(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
    {
        static_cast<Reports *>(context)->of[error->ErrorCode]++;
    }
    /** They come a little later. */
    void expect(VIP_ERROR_CODE code, unsigned count) const
    {
        const unsigned long long end = now_ms() + 2 * patience();
        while (of[code] < count && now_ms() < end) {
            give_way();
        }
        EXPECT_EQ(count, of[code].load());
    }
};

/** A NIC handle whose memory is guessed at. */
struct Target {
    Target() : name(unique_discriminator())
    {
        REQUIRE_VIP(VipErrorCallback(nic, &reports, Reports::note));
        open_port(nic, name);
    }
    ~Target() { VipErrorCallback(nic, nullptr, nullptr); }

    VIP_VI_ATTRIBUTES attributes(VIP_RELIABILITY_LEVEL level) const
    {
        VIP_VI_ATTRIBUTES attributes = vi_attributes(level);
        attributes.Ptag = own;
        return attributes;
    }

    Reports reports;
    Nic nic;
    std::string name;
    Ptag own{nic}, stranger{nic};
    Prey open{nic, own, true, true};
    Prey write_only{nic, own, true, false}, read_only{nic, own, false, true}, closed{nic, own, false, false};
    Prey of_stranger{nic, stranger, true, true};
    std::array<Prey *, 5> all{&open, &write_only, &read_only, &closed, &of_stranger};
};

} // namespace stress

#endif
