// SPDX-License-Identifier: MIT
//
// Each object makes its VIPL call in the constructor and undoes it in the destructor, where
// failures are ignored: the call that matters to a case is made by the case itself.
#include "objects.hpp"

#include <vipl/posix.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "system.hpp"

namespace vipl_test {

Nic::Nic(const char *device, bool shareable) : shareable_(shareable)
{
    if (shareable) {
        REQUIRE_VIP(VipxOpenNic(device, VIPX_SHAREABLE, &handle_));
    } else {
        REQUIRE_VIP(VipOpenNic(device, &handle_));
    }
}

Nic::Nic(const char *device, Flags flags) : shareable_(false)
{
    REQUIRE_VIP(VipxOpenNic(device, flags.value, &handle_));
}

VIP_NIC_ATTRIBUTES Nic::attributes() const
{
    VIP_NIC_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryNic(handle_, &attributes));
    return attributes;
}

NetAddress Nic::address(const std::string &discriminator) const
{
    const VIP_NIC_ATTRIBUTES nic = attributes();
    return NetAddress(std::string(reinterpret_cast<const char *>(nic.LocalNicAddress), nic.NicAddressLen),
                      discriminator);
}

namespace {

VIP_UINT8 pattern(unsigned seed, VIP_UINT32 index)
{
    const unsigned mixed = (index + 1) * 2654435761u + seed * 40503u;
    return static_cast<VIP_UINT8>(mixed >> 16);
}

} // namespace

void Span::fill(unsigned seed) const
{
    for (VIP_UINT32 i = 0; i < size; ++i) {
        data[i] = pattern(seed, i);
    }
}

bool Span::holds(unsigned seed, VIP_UINT32 from) const
{
    for (VIP_UINT32 i = from; i < size; ++i) {
        if (data[i] != pattern(seed, i)) {
            return false;
        }
    }
    return true;
}

bool Span::all(VIP_UINT8 value) const
{
    return std::all_of(data, data + size, [value](VIP_UINT8 b) { return b == value; });
}

VIP_UINT8 Span::poll_last() const
{
    const VIP_UINT8 *const end = data + size;
    const VIP_UINT8 seen = __atomic_load_n(end - 1, __ATOMIC_ACQUIRE);
    // The byte may have come as part of an aligned word. The machine does not care which load sees
    // it; ThreadSanitizer pairs an acquire with the release at the same address only.
    if (size >= 4 && reinterpret_cast<uintptr_t>(end) % 4 == 0) {
        __atomic_load_n(reinterpret_cast<const VIP_UINT32 *>(end - 4), __ATOMIC_ACQUIRE);
    }
    if (size >= sizeof(uintptr_t) && reinterpret_cast<uintptr_t>(end) % sizeof(uintptr_t) == 0) {
        __atomic_load_n(reinterpret_cast<const uintptr_t *>(end - sizeof(uintptr_t)), __ATOMIC_ACQUIRE);
    }
    return seen;
}

Work &Work::op(VIP_UINT16 control_bits)
{
    desc->CS.Control = static_cast<VIP_UINT16>(desc->CS.Control | control_bits);
    return *this;
}

Work &Work::immediate(VIP_UINT32 value)
{
    desc->CS.ImmediateData = value;
    return op(VIP_CONTROL_IMMEDIATE);
}

VIP_DATA_SEGMENT &Work::segment(unsigned i)
{
    auto *first = reinterpret_cast<VIP_UINT8 *>(desc) + sizeof(VIP_CONTROL_SEGMENT);
    return *reinterpret_cast<VIP_DATA_SEGMENT *>(first + i * sizeof(VIP_DATA_SEGMENT));
}

Work &Work::remote(RemoteSpan where)
{
    VIP_DATA_SEGMENT &first = segment(desc->CS.SegCount++);
    first.Data.AddressBits = where.address;
    first.Handle = where.handle;
    first.Length = 0; // an address segment's Reserved
    return *this;
}

Work &Work::local(Span bytes)
{
    VIP_DATA_SEGMENT &next = segment(desc->CS.SegCount++);
    next.Data.AddressBits = 0;
    next.Data.Address = bytes.data;
    next.Handle = bytes.handle;
    next.Length = bytes.size;
    desc->CS.Length += bytes.size;
    if (buffer.data == nullptr) {
        buffer = bytes;
    }
    return *this;
}

VIP_MEM_ATTRIBUTES rdma_memory(VIP_PROTECTION_HANDLE tag)
{
    return {tag, VIP_TRUE, VIP_TRUE};
}

MemoryKind Memory::kind_for(const Nic &nic)
{
    return nic.shareable() ? MemoryKind::shared : memory_kind();
}

VIP_UINT8 *Memory::allocate(const Nic &nic, size_t bytes, MemoryKind kind)
{
    VIP_PVOID memory = nullptr;
    switch (kind) {
    case MemoryKind::own:
        memory = allocate_aligned(VIP_DESCRIPTOR_ALIGNMENT, bytes);
        break;
    case MemoryKind::shared:
        REQUIRE_VIP(VipxAllocShared(bytes, &memory));
        break;
    case MemoryKind::device:
        REQUIRE_VIP(VipxAllocDevice(nic, bytes, VIPX_DEVICE_DRAM, &memory));
        break;
    }
    return static_cast<VIP_UINT8 *>(memory);
}

void Memory::Free::operator()(VIP_UINT8 *memory) const
{
    switch (kind) {
    case MemoryKind::own:
        free_aligned(memory);
        break;
    case MemoryKind::shared:
        VipxFreeShared(memory);
        break;
    case MemoryKind::device:
        VipxFreeDevice(nic, memory);
        break;
    }
}

Memory::Memory(const Nic &nic, size_t bytes, VIP_MEM_ATTRIBUTES attributes)
    : nic_(nic), size_((bytes + 63) / 64 * 64),
      data_(allocate(nic, size_, kind_for(nic)), Free{nic, kind_for(nic)})
{
    EXPECT(data_ != nullptr);
    std::memset(data_.get(), 0, size_);
    REQUIRE_VIP(VipRegisterMem(nic, data_.get(), size_, &attributes, &handle_));
}

Memory::~Memory()
{
    deregister();
}

void Memory::deregister()
{
    VipDeregisterMem(nic_, data_.get(), handle_);
}

Span Memory::bytes(size_t count, size_t offset)
{
    const size_t start = (used_ + 63) / 64 * 64 + offset;
    EXPECT(start + count <= size_);
    used_ = start + count;
    return {data_.get() + start, static_cast<VIP_UINT32>(count), handle_};
}

Span Memory::text(const std::string &content)
{
    const Span span = bytes(content.size());
    std::memcpy(span.data, content.data(), content.size());
    return span;
}

Work Memory::work(unsigned segments)
{
    const size_t size = sizeof(VIP_CONTROL_SEGMENT) + std::max(segments, 2u) * sizeof(VIP_DATA_SEGMENT);
    const Span span = bytes(size);
    return {reinterpret_cast<VIP_DESCRIPTOR *>(span.data), handle_, {}};
}

Work Memory::transfer(Span bytes)
{
    return work().local(bytes);
}

Work Memory::rdma(VIP_UINT16 control_bits, RemoteSpan remote, Span bytes)
{
    return work().op(control_bits).remote(remote).local(bytes);
}

void Cq::expect(VIP_VI_HANDLE vi, VIP_BOOLEAN receive_queue) const
{
    VIP_VI_HANDLE seen = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_VIP(VipCQWait(handle_, patience(), &seen, &queue));
    EXPECT_EQ(vi, seen);
    EXPECT_EQ(receive_queue, queue);
}

void let_moments_pass(const Cq &empty, unsigned moments)
{
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_TIMEOUT, VipCQWait(empty, moments * kMoment, &vi, &queue));
}

void let_a_moment_pass()
{
    const Nic nic;
    const Cq empty(nic);
    let_moments_pass(empty, 1);
}

VIP_VI_ATTRIBUTES vi_attributes(VIP_RELIABILITY_LEVEL level, VIP_ULONG transfer_size)
{
    return {level, transfer_size, nullptr, nullptr, VIP_TRUE, VIP_TRUE};
}

Vi::Vi(const Nic &nic, VIP_VI_ATTRIBUTES attributes, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq)
{
    const bool readable = (nic.attributes().RDMAReadSupport & attributes.ReliabilityLevel) != 0;
    attributes.EnableRdmaRead = attributes.EnableRdmaRead && readable ? VIP_TRUE : VIP_FALSE;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, send_cq, recv_cq, &handle_));
}

Vi::~Vi()
{
    VipDisconnect(handle_);
    VipDestroyVi(handle_);
}

VIP_VI_STATE Vi::state() const
{
    VIP_VI_STATE state = VIP_STATE_IDLE;
    REQUIRE_VIP(VipQueryVi(handle_, &state, nullptr, nullptr, nullptr));
    return state;
}

void Vi::await(VIP_VI_STATE wanted) const
{
    const unsigned long long end = now_ms() + patience();
    for (unsigned turn = 0; state() != wanted && now_ms() < end; ++turn) {
        give_way(turn);
    }
    EXPECT_EQ(wanted, state());
}

VIP_VI_ATTRIBUTES Vi::attributes() const
{
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryVi(handle_, &state, &attributes, nullptr, nullptr));
    return attributes;
}

bool Vi::send_queue_empty() const
{
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_BOOLEAN empty = VIP_FALSE;
    REQUIRE_VIP(VipQueryVi(handle_, &state, nullptr, &empty, nullptr));
    return empty != VIP_FALSE;
}

bool Vi::recv_queue_empty() const
{
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_BOOLEAN empty = VIP_FALSE;
    REQUIRE_VIP(VipQueryVi(handle_, &state, nullptr, nullptr, &empty));
    return empty != VIP_FALSE;
}

void post_send(VIP_VI_HANDLE vi, const Work &work)
{
    REQUIRE_VIP(VipPostSend(vi, work.desc, work.handle));
}

void post_recv(VIP_VI_HANDLE vi, const Work &work)
{
    REQUIRE_VIP(VipPostRecv(vi, work.desc, work.handle));
}

namespace {

using Wait = decltype(&VipSendWait);

VIP_DESCRIPTOR *reap(Wait wait, const char *name, VIP_VI_HANDLE vi, VIP_RETURN expected)
{
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = wait(vi, patience(), &done);
    if (rc != expected) {
        throw Failure(std::string(name) + " expected " + show(expected) + ", returned " + show(rc) +
                      (done != nullptr ? ", Status " + status_text(done->CS.Status) : std::string()));
    }
    EXPECT(done != nullptr);
    return done;
}

} // namespace

VIP_DESCRIPTOR *sent(VIP_VI_HANDLE vi)
{
    return reap(VipSendWait, "VipSendWait", vi, VIP_SUCCESS);
}

VIP_DESCRIPTOR *received(VIP_VI_HANDLE vi)
{
    return reap(VipRecvWait, "VipRecvWait", vi, VIP_SUCCESS);
}

VIP_DESCRIPTOR *send_failed(VIP_VI_HANDLE vi)
{
    return reap(VipSendWait, "VipSendWait", vi, VIP_DESCRIPTOR_ERROR);
}

VIP_DESCRIPTOR *receive_failed(VIP_VI_HANDLE vi)
{
    return reap(VipRecvWait, "VipRecvWait", vi, VIP_DESCRIPTOR_ERROR);
}

void connect_pair(const Nic &server_nic, VIP_VI_HANDLE server, const Nic &client_nic, VIP_VI_HANDLE client)
{
    const std::string name = unique_discriminator();
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester([&] {
        NetAddress local = client_nic.address(name + "c");
        NetAddress remote = client_nic.address(name);
        VIP_VI_ATTRIBUTES attributes{};
        requested = VipConnectRequest(client, local, remote, patience(), &attributes);
    });
    NetAddress listen = server_nic.address(name);
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    VIP_RETURN accepted = VipConnectWait(server_nic, listen, patience(), from, &attributes, &connection);
    if (accepted == VIP_SUCCESS) {
        accepted = VipConnectAccept(connection, server);
    }
    requester.join();
    REQUIRE_VIP(accepted);
    REQUIRE_VIP(requested);
}

ConnectedPair::ConnectedPair(VIP_RELIABILITY_LEVEL level)
    : ConnectedPair(vi_attributes(level), vi_attributes(level))
{
}

ConnectedPair::ConnectedPair(VIP_VI_ATTRIBUTES server_attributes, VIP_VI_ATTRIBUTES client_attributes)
    : server_memory(server_nic, 256 * 1024, rdma_memory()),
      client_memory(client_nic, 256 * 1024, rdma_memory()), server(server_nic, server_attributes),
      client(client_nic, client_attributes)
{
    connect_pair(server_nic, server, client_nic, client);
}

} // namespace vipl_test
