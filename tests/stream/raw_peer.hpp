// SPDX-License-Identifier: MIT
//
// A peer of a stream that sends what no peer may send.
#ifndef VIPL_STREAM_RAW_PEER_HPP
#define VIPL_STREAM_RAW_PEER_HPP

#include <algorithm>

#include "pair.hpp"

namespace stream_test {

/** A peer that posts what it likes, on a VI as streams have. */
class RawPeer {
public:
    RawPeer() : memory_(kBytes, 'x')
    {
        VIP_VI_ATTRIBUTES attributes = vipl_stream_attributes();
        VIP_MEM_ATTRIBUTES plain = {nullptr, VIP_FALSE, VIP_FALSE};
        VIP_MEM_ATTRIBUTES readable = {nullptr, VIP_FALSE, VIP_TRUE};
        REQUIRE(vipl_stream_nic_handle(device) != nullptr);
        const VIP_NIC_HANDLE nic = vipl_stream_nic_handle(device);
        REQUIRE(VipRegisterMem(nic, &memory_[0], kBytes, &readable, &handle_) == VIP_SUCCESS);
        REQUIRE(VipRegisterMem(nic, descriptors_, sizeof(descriptors_), &plain, &descriptors_handle_) ==
                VIP_SUCCESS);
        REQUIRE(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi) == VIP_SUCCESS);
        for (size_t i = 1; i < kReceives; i++) {
            post_receive(&descriptors_[i]);
        }
    }
    ~RawPeer()
    {
        VipDisconnect(vi);
        VipDestroyVi(vi);
        VipDeregisterMem(vipl_stream_nic_handle(device), descriptors_, descriptors_handle_);
        VipDeregisterMem(vipl_stream_nic_handle(device), &memory_[0], handle_);
    }
    RawPeer(const RawPeer &) = delete;
    RawPeer &operator=(const RawPeer &) = delete;

    /** Returns false if the connection has ended. */
    bool send(const VIP_UINT32 *immediate, const std::string &payload)
    {
        VIP_DESCRIPTOR *d = &descriptors_[0];
        *d = VIP_DESCRIPTOR();
        std::copy(payload.begin(), payload.end(), memory_.begin());
        d->CS.Control = static_cast<VIP_UINT16>(immediate != nullptr ? VIP_CONTROL_IMMEDIATE : 0);
        d->CS.ImmediateData = immediate != nullptr ? *immediate : 0;
        d->CS.SegCount = 1;
        d->DS[0].Local.Data.Address = &memory_[0];
        d->DS[0].Local.Handle = handle_;
        d->DS[0].Local.Length = static_cast<VIP_UINT32>(payload.size());
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN rc = VipPostSend(vi, d, descriptors_handle_);
        return rc == VIP_SUCCESS && VipSendWait(vi, vipl_test::patience(), &done) == VIP_SUCCESS;
    }
    bool send(uint32_t type, uint32_t credits, const std::string &payload)
    {
        const VIP_UINT32 immediate = type << 24 | credits;
        return send(&immediate, payload);
    }
    /** Memory that the stream could read. */
    vipl_stream_offer offer() const { return {reinterpret_cast<uintptr_t>(memory_.data()), kBytes, handle_}; }
    /** Posts again what the stream has sent into. */
    void drain()
    {
        VIP_DESCRIPTOR *done = nullptr;
        while (VipRecvDone(vi, &done) == VIP_SUCCESS) {
            post_receive(done);
        }
    }

    Device device;
    VIP_VI_HANDLE vi = nullptr;

private:
    static constexpr size_t kReceives = 64, kBytes = 65536;

    void post_receive(VIP_DESCRIPTOR *d)
    {
        *d = VIP_DESCRIPTOR();
        d->CS.SegCount = 1;
        d->DS[0].Local.Data.Address = &memory_[kBytes / 2];
        d->DS[0].Local.Handle = handle_;
        d->DS[0].Local.Length = kBytes / 2;
        VipPostRecv(vi, d, descriptors_handle_);
    }

    std::string memory_;
    VIP_MEM_HANDLE handle_ = 0, descriptors_handle_ = 0;
    alignas(64) VIP_DESCRIPTOR descriptors_[kReceives] = {};
};

} // namespace stream_test

#endif
