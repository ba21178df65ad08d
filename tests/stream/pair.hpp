// SPDX-License-Identifier: MIT
//
// Two connected streams of this process, each on a NIC handle of its own.
#ifndef VIPL_STREAM_PAIR_HPP
#define VIPL_STREAM_PAIR_HPP

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/environment.hpp"
#include "support/tasks.hpp"

#define _Static_assert static_assert
#define _Thread_local thread_local
extern "C" {
#include "base/address.h"
#include "os/os.h"
#include "stream/stream.h"
}

namespace stream_test {

/** For threads of a case, where Catch2 may not be called: an exception reaches the case by its
 * future. */
inline void must(bool holds)
{
    if (!holds) {
        throw std::runtime_error("a stream has not done what it must");
    }
}

/** The deadline of what must come. */
inline uint64_t in_time()
{
    return vipl_now_ns() + uint64_t(vipl_test::patience()) * 1000000;
}

class Device {
public:
    explicit Device(VIP_ULONG flags = 0)
    {
        VIP_RETURN reason;
        REQUIRE(vipl_stream_nic_open(vipl_test::device_under_test(), flags, &nic_, &reason) == 0);
    }
    ~Device() { vipl_stream_nic_release(nic_); }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;
    operator vipl_stream_nic *() const { return nic_; } // NOLINT: as the interface wants it

private:
    vipl_stream_nic *nic_ = nullptr;
};

/** One end. */
class Stream {
public:
    explicit Stream(const Device &device) { REQUIRE(vipl_stream_new(device, &stream_) == 0); }
    ~Stream() { close(); }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    operator vipl_stream *() const { return stream_; } // NOLINT: as the interface wants it

    void close()
    {
        if (stream_ != nullptr) {
            vipl_stream_close(stream_);
        }
        stream_ = nullptr;
    }
    /** Sends what there is room for; returns the bytes, or minus an errno value. */
    long try_send(const std::string &text) const
    {
        vipl_iov piece = {const_cast<char *>(text.data()), text.size()};
        size_t sent = 0;
        const int rc = vipl_stream_send(stream_, &piece, 1, &sent);
        return rc == 0 ? static_cast<long>(sent) : -rc;
    }
    /** The same if more is to follow; all of it is taken. */
    void hold(const std::string &text) const
    {
        vipl_iov piece = {const_cast<char *>(text.data()), text.size()};
        size_t sent = 0;
        must(vipl_stream_send_more(stream_, &piece, 1, &sent) == 0 && sent == text.size());
    }
    long try_receive(std::string &text, size_t most, bool peek = false) const
    {
        text.resize(most);
        vipl_iov piece = {&text[0], most};
        size_t received = 0;
        const int rc = vipl_stream_receive(stream_, &piece, 1, peek, &received);
        text.resize(rc == 0 ? received : 0);
        return rc == 0 ? static_cast<long>(received) : -rc;
    }
    void send(const std::string &text) const
    {
        for (size_t done = 0; done < text.size();) {
            must(vipl_stream_wait(stream_, VIPL_STREAM_WRITABLE, in_time(), nullptr) == 0);
            const long n = try_send(text.substr(done));
            must(n > 0 || n == -EAGAIN);
            done += n > 0 ? static_cast<size_t>(n) : 0;
        }
    }
    /** All bytes up to a number, or to the end; the error in place of the end. */
    std::string receive(size_t most, int *error = nullptr) const
    {
        std::string all, part;
        while (all.size() < most) {
            must(vipl_stream_wait(stream_, VIPL_STREAM_READABLE, in_time(), nullptr) == 0);
            const long n = try_receive(part, most - all.size());
            if (n == 0 || (n < 0 && n != -EAGAIN)) {
                if (error != nullptr) {
                    *error = static_cast<int>(-n);
                } else {
                    must(n == 0);
                }
                break;
            }
            all += part;
        }
        return all;
    }
    unsigned events() const { return vipl_stream_events(stream_); }
    /** Waits for events. */
    bool await(unsigned wanted) const { return vipl_stream_wait(stream_, wanted, in_time(), nullptr) == 0; }

private:
    vipl_stream *stream_ = nullptr;
};

struct Address {
    union {
        VIP_NET_ADDRESS net;
        unsigned char bytes[4 + VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
    };
    Address(vipl_stream_nic *nic, const std::string &name) : bytes()
    {
        uint8_t host[VIPL_MAX_HOST_ADDRESS];
        const unsigned length = vipl_stream_nic_address(nic, host);
        net.HostAddressLen = static_cast<VIP_UINT16>(length);
        net.DiscriminatorLen = static_cast<VIP_UINT16>(name.size());
        std::memcpy(bytes + 4, host, length);
        std::memcpy(bytes + 4 + length, name.data(), name.size());
    }
};

/** Connects VIs as the handshake of sockets does: each end knows both names. */
inline void connect(vipl_stream_nic *nic, VIP_VI_HANDLE vi, vipl_stream_nic *peer_nic, VIP_VI_HANDLE peer)
{
    const std::string name = vipl_test::unique_discriminator();
    Address one(nic, name + "a"), other(peer_nic, name + "b");
    REQUIRE(VipConnectPeerRequest(vi, &one.net, &other.net, vipl_test::patience()) == VIP_SUCCESS);
    REQUIRE(VipConnectPeerRequest(peer, &other.net, &one.net, vipl_test::patience()) == VIP_SUCCESS);
    REQUIRE(VipConnectPeerWait(vi, nullptr) == VIP_SUCCESS);
    REQUIRE(VipConnectPeerWait(peer, nullptr) == VIP_SUCCESS);
}

struct Pair {
    Pair()
    {
        connect(here, vipl_stream_vi(one), there, vipl_stream_vi(two));
        vipl_stream_begin(one, vipl_stream_own_window());
        vipl_stream_begin(two, vipl_stream_own_window());
    }

    Device here, there;
    Stream one{here}, two{there};
};

/** Bytes that tell where they come from. */
inline std::string pattern(size_t bytes, unsigned seed = 1)
{
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; i++) {
        text[i] = static_cast<char>((i * 2654435761u + seed) >> 11);
    }
    return text;
}

} // namespace stream_test

#endif
