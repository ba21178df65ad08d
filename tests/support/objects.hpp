// SPDX-License-Identifier: MIT
//
// VIPL's objects as scoped C++ values: a NIC handle, registered memory, descriptors, a VI, a
// completion queue. Each constructor makes the call of the same name and requires its success;
// each destructor undoes it. Declare memory before the VIs that use it: it must outlive them.
#ifndef VIPL_TESTS_OBJECTS_HPP
#define VIPL_TESTS_OBJECTS_HPP

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "check.hpp"
#include "environment.hpp"
#include "net_address.hpp"

namespace vipl_test {

/** An open NIC handle, private or shareable. */
class Nic {
public:
    explicit Nic(const char *device = device_under_test(), bool shareable = objects_are_shareable());
    /** With these flags of VipxOpenNic(), and not shareable. */
    struct Flags {
        VIP_ULONG value;
    };
    Nic(const char *device, Flags flags);
    ~Nic() { VipCloseNic(handle_); }
    Nic(const Nic &) = delete;
    Nic &operator=(const Nic &) = delete;

    operator VIP_NIC_HANDLE() const { return handle_; }
    VIP_NIC_HANDLE handle() const { return handle_; }
    bool shareable() const { return shareable_; }
    VIP_NIC_ATTRIBUTES attributes() const;

    /** This NIC's host address, with a discriminator. */
    NetAddress address(const std::string &discriminator) const;

private:
    VIP_NIC_HANDLE handle_ = nullptr;
    bool shareable_;
};

/** A protection tag. */
class Ptag {
public:
    explicit Ptag(const Nic &nic) : nic_(nic) { REQUIRE_VIP(VipCreatePtag(nic, &handle_)); }
    ~Ptag() { VipDestroyPtag(nic_, handle_); }
    Ptag(const Ptag &) = delete;
    Ptag &operator=(const Ptag &) = delete;

    operator VIP_PROTECTION_HANDLE() const { return handle_; }

private:
    VIP_NIC_HANDLE nic_;
    VIP_PROTECTION_HANDLE handle_ = nullptr;
};

/** Remote memory, as its owner describes it to the other side. */
struct RemoteSpan {
    VIP_UINT64 address;
    VIP_MEM_HANDLE handle;

    RemoteSpan operator+(VIP_UINT64 bytes) const { return {address + bytes, handle}; }
};

/** Bytes in a registered region. */
struct Span {
    VIP_UINT8 *data = nullptr;
    VIP_UINT32 size = 0;
    VIP_MEM_HANDLE handle = 0;

    RemoteSpan remote() const { return {reinterpret_cast<uintptr_t>(data), handle}; }
    Span part(VIP_UINT32 offset, VIP_UINT32 bytes) const { return {data + offset, bytes, handle}; }
    std::string text() const { return std::string(reinterpret_cast<const char *>(data), size); }

    /** Write a pattern that depends on the seed and on each byte's index. */
    void fill(unsigned seed) const;
    /** Whether the bytes [from, size) hold that pattern. */
    bool holds(unsigned seed, VIP_UINT32 from = 0) const;
    /** Whether every byte has this value. */
    bool all(VIP_UINT8 value) const;
    /** The last byte, for a program that spins on it: when it is new, all bytes before it are. */
    VIP_UINT8 poll_last() const;
};

/** A descriptor and the handle it is posted with. Segments are appended in order. */
struct Work {
    VIP_DESCRIPTOR *desc = nullptr;
    VIP_MEM_HANDLE handle = 0;
    Span buffer; // the first data segment's bytes

    Work &op(VIP_UINT16 control_bits);
    Work &immediate(VIP_UINT32 value);
    Work &remote(RemoteSpan where);        // an RDMA operation's address segment: comes first
    Work &local(Span bytes);               // a data segment; adds to Length
    VIP_DATA_SEGMENT &segment(unsigned i); // the i-th segment, beyond the declared two as well
    VIP_UINT32 status() const { return desc->CS.Status; }

    /** Status, for a program that polls it. */
    VIP_UINT32 poll() const { return __atomic_load_n(&desc->CS.Status, __ATOMIC_ACQUIRE); }
};

/** Attributes of memory that peers may write and read. */
VIP_MEM_ATTRIBUTES rdma_memory(VIP_PROTECTION_HANDLE tag = nullptr);

/** A registered, cleared region that hands out buffers and descriptors one after the other. */
class Memory {
public:
    explicit Memory(const Nic &nic, size_t bytes = 256 * 1024, VIP_MEM_ATTRIBUTES attributes = {});
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    VIP_UINT8 *data() const { return data_.get(); }
    size_t size() const { return size_; }
    VIP_MEM_HANDLE handle() const { return handle_; }

    /** Cleared bytes that start `offset` after a multiple of 64. */
    Span bytes(size_t count, size_t offset = 0);
    Span text(const std::string &content);

    /** A cleared descriptor with room for that many segments. */
    Work work(unsigned segments = 2);
    /** A receive, or a send, of these bytes. */
    Work transfer(Span bytes);
    /** An RDMA Write or Read (control bits) between these bytes and the remote ones. */
    Work rdma(VIP_UINT16 control_bits, RemoteSpan remote, Span bytes);

    void deregister();

private:
    struct Free {
        VIP_NIC_HANDLE nic;
        MemoryKind kind;
        void operator()(VIP_UINT8 *memory) const;
    };
    static VIP_UINT8 *allocate(const Nic &nic, size_t bytes, MemoryKind kind);
    static MemoryKind kind_for(const Nic &nic);
    VIP_NIC_HANDLE nic_;
    size_t size_;
    size_t used_ = 0;
    std::unique_ptr<VIP_UINT8, Free> data_;
    VIP_MEM_HANDLE handle_ = 0;
};

/** A completion queue. */
class Cq {
public:
    explicit Cq(const Nic &nic, VIP_ULONG entries = 64) { REQUIRE_VIP(VipCreateCQ(nic, entries, &handle_)); }
    ~Cq() { VipDestroyCQ(handle_); }
    Cq(const Cq &) = delete;
    Cq &operator=(const Cq &) = delete;

    operator VIP_CQ_HANDLE() const { return handle_; }

    /** Require the next entry to be this VI's, from its receive (or send) queue. */
    void expect(VIP_VI_HANDLE vi, VIP_BOOLEAN receive_queue) const;

private:
    VIP_CQ_HANDLE handle_ = nullptr;
};

/** Let a moment pass, blocked in VIPL: what other threads do now, they do while this one waits. */
void let_a_moment_pass();
/** Let so many pass, with a completion queue that stays empty. */
void let_moments_pass(const Cq &empty, unsigned moments);

/** The transfer size of VIs that a case does not care about. */
inline constexpr VIP_ULONG kTransferSize = 64 * 1024;

/** Attributes with both RDMA rights, where the level has RDMA Read. */
VIP_VI_ATTRIBUTES vi_attributes(VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY,
                                VIP_ULONG transfer_size = kTransferSize);

/** A VI. */
class Vi {
public:
    explicit Vi(const Nic &nic, VIP_VI_ATTRIBUTES attributes = vi_attributes(),
                VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE recv_cq = nullptr);
    ~Vi();
    Vi(const Vi &) = delete;
    Vi &operator=(const Vi &) = delete;

    operator VIP_VI_HANDLE() const { return handle_; }

    VIP_VI_STATE state() const;
    /** Wait, with VIPL's own means, until the VI has that state. */
    void await(VIP_VI_STATE state) const;
    VIP_VI_ATTRIBUTES attributes() const;
    bool send_queue_empty() const;
    bool recv_queue_empty() const;

private:
    VIP_VI_HANDLE handle_ = nullptr;
};

void post_send(VIP_VI_HANDLE vi, const Work &work);
void post_recv(VIP_VI_HANDLE vi, const Work &work);

/** The next completion of a queue, which must come and must succeed (or must have failed). */
VIP_DESCRIPTOR *sent(VIP_VI_HANDLE vi);
VIP_DESCRIPTOR *received(VIP_VI_HANDLE vi);
VIP_DESCRIPTOR *send_failed(VIP_VI_HANDLE vi);
VIP_DESCRIPTOR *receive_failed(VIP_VI_HANDLE vi);

/** Connect two idle VIs of this process, client and server fashion. */
void connect_pair(const Nic &server_nic, VIP_VI_HANDLE server, const Nic &client_nic, VIP_VI_HANDLE client);

/** Two connected VIs in one process, each with a NIC handle and memory of its own. */
class ConnectedPair {
public:
    explicit ConnectedPair(VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY);
    ConnectedPair(VIP_VI_ATTRIBUTES server_attributes, VIP_VI_ATTRIBUTES client_attributes);

    Nic server_nic, client_nic;
    Memory server_memory, client_memory;
    Vi server, client;
};

} // namespace vipl_test

#endif
