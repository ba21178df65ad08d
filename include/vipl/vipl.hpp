/* SPDX-License-Identifier: MIT */
/**
 * @file vipl.hpp
 * VIPL for C++17: objects that end what they began, errors as std::error_code. Header only; everything is a thin layer over vipl.h
 * and posix.h, whose documentation holds: threads, signals, forks and states are theirs.
 *
 * **Errors.** A function that may fail comes twice: one sets its last argument, a std::error_code, and throws nothing; the other one
 * throws std::system_error. Codes compare with vipl::errc, and their message() is a sentence.
 *
 * **Objects** can be moved and not copied, and end in their destructor. A nic must outlive what was made with it. Descriptors and the
 * memory that they name must outlive the VIs to whose queues they are posted, whose destructors complete them: so messages are declared before the
 * vi. handle() is for what is not here.
 *
 * **Waiting** takes milliseconds; #vipl::forever has no end. When nothing comes in time, the result is empty and there is no error.
 */
#ifndef VIPL_VIPL_HPP
#define VIPL_VIPL_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "posix.h"
#include "vipl.h"

/** The C++ interface. */
namespace vipl {

/* --- errors --- */

/** The return codes of VIPL, as std::error_code has them. */
enum class errc {
    success = VIP_SUCCESS,
    not_done = VIP_NOT_DONE,
    invalid_parameter = VIP_INVALID_PARAMETER,
    resource = VIP_ERROR_RESOURCE,
    timeout = VIP_TIMEOUT,
    reject = VIP_REJECT,
    invalid_reliability_level = VIP_INVALID_RELIABILITY_LEVEL,
    invalid_mtu = VIP_INVALID_MTU,
    invalid_qos = VIP_INVALID_QOS,
    invalid_ptag = VIP_INVALID_PTAG,
    invalid_rdmaread = VIP_INVALID_RDMAREAD,
    descriptor_error = VIP_DESCRIPTOR_ERROR,
    invalid_state = VIP_INVALID_STATE,
    nameservice = VIP_ERROR_NAMESERVICE,
    no_match = VIP_NO_MATCH,
    not_reachable = VIP_NOT_REACHABLE,
    not_supported = VIP_ERROR_NOT_SUPPORTED,
    interrupted = VIP_INTERRUPTED
};

namespace detail {
class category final : public std::error_category {
public:
    const char *name() const noexcept override { return "vipl"; }
    std::string message(int code) const override
    {
        const auto rc = static_cast<VIP_RETURN>(code);
        return std::string(VipxStrError(rc)) + ": " + VipxExplainError(rc);
    }
};
} // namespace detail

/** The category of vipl::errc. */
inline const std::error_category &category() noexcept
{
    static const detail::category it;
    return it;
}

/** A return code as an error code; found by std::error_code. */
inline std::error_code make_error_code(errc code) noexcept
{
    return {static_cast<int>(code), category()};
}

/** What a function of vipl.h returned. */
inline std::error_code to_error_code(VIP_RETURN rc) noexcept
{
    return make_error_code(static_cast<errc>(rc));
}

} // namespace vipl

/** @cond */ /* an errc becomes a std::error_code by itself */
template <>
struct std::is_error_code_enum<vipl::errc> : std::true_type {
};
/** @endcond */

namespace vipl {

namespace detail {

/** Throws what a function has set, if it is an error. */
class thrower {
public:
    explicit thrower(const char *what) : what_(what) {}
    operator std::error_code &() { return code_; } // NOLINT: it is meant to be one
    void check() const
    {
        if (code_) {
            throw std::system_error(code_, what_);
        }
    }

private:
    std::error_code code_;
    const char *what_;
};

/** Calls `function` with an error code, throws if it is set, and returns what the function returned. */
template <class Function>
auto checked(const char *what, Function function)
{
    thrower error(what);
    if constexpr (std::is_void_v<decltype(function(error))>) {
        function(error);
        error.check();
    } else {
        auto result = function(error);
        error.check();
        return result;
    }
}

/** A handle and what ends it. */
template <class Handle, VIP_RETURN(VI_CALL *End)(Handle)>
class owner {
public:
    owner() = default;
    explicit owner(Handle handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owner &operator=(owner &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~owner()
    {
        if (handle_ != nullptr) {
            End(handle_);
        }
    }
    Handle get() const noexcept { return handle_; }
    Handle release() noexcept { return std::exchange(handle_, nullptr); }

private:
    Handle handle_ = nullptr;
};

} // namespace detail

/* --- time --- */

/** A length of time that never ends. */
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

/** As the functions of vipl.h take it; what is before now counts as now. */
inline VIP_ULONG to_timeout(std::chrono::milliseconds time) noexcept
{
    constexpr std::chrono::milliseconds::rep most = 0x7fffffff;
    if (time == forever) {
        return VIP_INFINITE;
    }
    return static_cast<VIP_ULONG>(time.count() < 0 ? 0 : time.count() > most ? most : time.count());
}

/* --- bytes --- */

/** Bytes of the program's, not owned: what std::span<std::byte> is in C++20. */
struct buffer {
    void *data = nullptr; /**< Where they are. */
    std::size_t size = 0; /**< How many they are. */

    buffer() = default;
    /** Bytes anywhere. */
    buffer(void *at, std::size_t bytes) noexcept : data(at), size(bytes) {}
    /** The items of an array, a std::vector, std::array, std::string or std::span. */
    template <class Items, class = decltype(sizeof(*std::data(std::declval<Items &>()))),
              class = decltype(std::size(std::declval<Items &>()))>
    buffer(Items &items) noexcept // NOLINT: it is meant to convert
        : data(std::data(items)), size(std::size(items) * sizeof(*std::data(items)))
    {
    }
};

/* --- addresses --- */

/** A host and a name on it: a VIP_NET_ADDRESS with the room that it needs. A value: it may be copied. */
class address {
public:
    static constexpr std::size_t max_host = 16; /**< Bytes of a host's address, of any device. */
    static constexpr std::size_t max_name = 64; /**< Bytes of a name. */

    /** Room for an address that a function writes. */
    address() noexcept { std::memset(&room_, 0, sizeof room_); }
    /** Parts that are longer than the longest are cut. */
    address(std::string_view host, std::string_view name) noexcept : address()
    {
        host = host.substr(0, max_host);
        name = name.substr(0, max_name);
        net()->HostAddressLen = static_cast<VIP_UINT16>(host.size());
        net()->DiscriminatorLen = static_cast<VIP_UINT16>(name.size());
        std::memcpy(bytes(), host.data(), host.size());
        std::memcpy(bytes() + host.size(), name.data(), name.size());
    }

    /** The bytes of the host's address. */
    std::string_view host() const noexcept { return {bytes(), net()->HostAddressLen}; }
    /** The discriminator: the name on that host. */
    std::string_view name() const noexcept { return {bytes() + host().size(), net()->DiscriminatorLen}; }
    /** The same host, another name. */
    address with_name(std::string_view other) const noexcept { return {host(), other}; }

    /** For the functions of vipl.h, of which none changes what is only read. */
    VIP_NET_ADDRESS *net() const noexcept { return const_cast<VIP_NET_ADDRESS *>(&room_.net); }

    /** The same host and name. */
    friend bool operator==(const address &a, const address &b) noexcept
    {
        return a.host() == b.host() && a.name() == b.name();
    }
    /** Another host or name. */
    friend bool operator!=(const address &a, const address &b) noexcept { return !(a == b); }

private:
    static constexpr std::size_t head = offsetof(VIP_NET_ADDRESS, HostAddress);
    char *bytes() noexcept { return room_.bytes + head; }
    const char *bytes() const noexcept { return room_.bytes + head; }

    union {
        VIP_NET_ADDRESS net;
        char bytes[sizeof(VIP_NET_ADDRESS) + max_host + max_name];
    } room_;
};

/* --- devices --- */

/** The devices that there are; see VipxListDevices(). */
inline std::vector<VIPX_DEVICE> list_devices(std::error_code &error)
{
    VIP_ULONG count = 0;
    std::vector<VIPX_DEVICE> devices;
    do { /* there may be more by now */
        devices.resize(count);
        error = to_error_code(VipxListDevices(devices.data(), &count));
    } while (!error && count > devices.size());
    devices.resize(error ? 0 : count);
    return devices;
}
/** As above; throws. */
inline std::vector<VIPX_DEVICE> list_devices()
{
    return detail::checked("list_devices", [](std::error_code &error) { return list_devices(error); });
}

/** What a VI is like; both ends have the same reliability and transfer size. */
struct vi_options {
    VIP_RELIABILITY_LEVEL reliability = VIP_SERVICE_RELIABLE_DELIVERY; /**< One of VIP_SERVICE_... */
    VIP_ULONG max_transfer = 4096;                                     /**< Bytes of the largest message. */
    bool rdma_write = false;              /**< The peer may write here, where a region allows it. */
    bool rdma_read = false;               /**< The peer may read here, where a region allows it. */
    VIP_PROTECTION_HANDLE ptag = nullptr; /**< nullptr: the default tag. */

    vi_options() = default;
    /** Those of a requester: a VI with them may accept its request. */
    explicit vi_options(const VIP_VI_ATTRIBUTES &of) noexcept
        : reliability(of.ReliabilityLevel), max_transfer(of.MaxTransferSize),
          rdma_write(of.EnableRdmaWrite != 0), rdma_read(of.EnableRdmaRead != 0)
    {
    }
    /** As vipl.h has them. */
    VIP_VI_ATTRIBUTES attributes() const noexcept
    {
        return {reliability, max_transfer, nullptr, ptag, rdma_write, rdma_read};
    }
};

class request;

/** An opened device. */
class nic {
public:
    /** A device by its name, nullptr: the default one; flags as for VipxOpenNic(). Closed if there is an error. */
    nic(const char *device, VIP_ULONG flags, std::error_code &error) noexcept
    {
        VIP_NIC_HANDLE handle = nullptr;
        error = to_error_code(VipxOpenNic(device, flags, &handle));
        handle_ = owner(handle);
    }
    /** As above; throws. */
    explicit nic(const char *device = nullptr, VIP_ULONG flags = 0)
    {
        detail::checked("opening a device",
                        [&](std::error_code &error) { *this = nic(device, flags, error); });
    }

    /** For functions of vipl.h. */
    VIP_NIC_HANDLE handle() const noexcept { return handle_.get(); }

    /** Name, address and limits. */
    VIP_NIC_ATTRIBUTES attributes() const
    {
        VIP_NIC_ATTRIBUTES out{};
        detail::checked("VipQueryNic",
                        [&](std::error_code &error) { error = to_error_code(VipQueryNic(handle(), &out)); });
        return out;
    }
    /** What was done so far. */
    VIPX_NIC_STATISTICS statistics() const
    {
        VIPX_NIC_STATISTICS out{};
        detail::checked("VipQuerySystemManagementInfo", [&](std::error_code &error) {
            error = to_error_code(VipQuerySystemManagementInfo(handle(), VIPX_SMI_NIC_STATISTICS, &out));
        });
        return out;
    }

    /** This host, and a name on it. */
    address local(std::string_view name) const
    {
        const VIP_NIC_ATTRIBUTES about = attributes();
        return {{reinterpret_cast<const char *>(about.LocalNicAddress), about.NicAddressLen}, name};
    }
    /** A host by its name, or by its address as a text, and a name on it. */
    address resolve(const char *host, std::string_view name, std::error_code &error) const noexcept
    {
        address found;
        std::string_view whole(host);
        char text[256];
        std::memcpy(text, host, whole.size() < sizeof text ? whole.size() + 1 : 0);
        VipNSInit(handle(), nullptr);
        error = whole.size() < sizeof text ? to_error_code(VipNSGetHostByName(handle(), text, found.net(), 0))
                                           : make_error_code(errc::invalid_parameter);
        return {found.host(), name};
    }
    /** As above; throws. */
    address resolve(const char *host, std::string_view name) const
    {
        return detail::checked(host, [&](std::error_code &error) { return resolve(host, name, error); });
    }

    /** Wait for a connection request to a name on this host. Empty: none came in time. */
    std::optional<request> wait(const address &at, std::chrono::milliseconds time,
                                std::error_code &error) const noexcept;
    /** As above; throws. */
    std::optional<request> wait(const address &at, std::chrono::milliseconds time = forever) const;

    /** Readable while a request waits; see VipxGetFd(). */
    int request_fd() const;

private:
    using owner = detail::owner<VIP_NIC_HANDLE, VipCloseNic>;
    owner handle_;
};

namespace detail {
inline int get_fd(VIPX_FD_KIND kind, VIP_PVOID handle)
{
    int fd = -1;
    checked("VipxGetFd",
            [&](std::error_code &error) { error = to_error_code(VipxGetFd(kind, handle, &fd)); });
    return fd;
}
} // namespace detail

inline int nic::request_fd() const
{
    return detail::get_fd(VIPX_FD_CONNECT, handle());
}

/* --- memory --- */

/** Who but this program may use a region. */
enum class access { local = 0, rdma_write = 1, rdma_read = 2, rdma = 3 };

/** Registered memory of a peer: what it has told of its own. Of fixed size and without padding, for messages between like CPUs. */
struct remote_memory {
    VIP_UINT64 at = 0;         /**< Its address in the peer. */
    VIP_MEM_HANDLE handle = 0; /**< The peer's handle. */
    VIP_UINT32 size = 0;       /**< Bytes. */

    /** From `offset` on. */
    remote_memory part(std::size_t offset) const noexcept
    {
        return {at + offset, handle, static_cast<VIP_UINT32>(size - offset)};
    }
};

/** A piece of a region of this program. */
struct slice {
    void *data = nullptr;      /**< Where it is. */
    std::size_t size = 0;      /**< Bytes. */
    VIP_MEM_HANDLE handle = 0; /**< Of its region. */
};

/** A registration of memory that the program owns. */
class region {
public:
    /** Register memory. Not registered if there is an error. */
    region(const nic &on, buffer what, access allowed, std::error_code &error) noexcept
        : nic_(on.handle()), what_(what)
    {
        VIP_MEM_ATTRIBUTES attributes{nullptr, (static_cast<int>(allowed) & 1) != 0,
                                      (static_cast<int>(allowed) & 2) != 0};
        error = to_error_code(
            VipRegisterMem(nic_, what.data, static_cast<VIP_ULONG>(what.size), &attributes, &handle_));
    }
    /** As above; throws. */
    region(const nic &on, buffer what, access allowed = access::local)
    {
        detail::checked("registering memory",
                        [&](std::error_code &error) { *this = region(on, what, allowed, error); });
    }
    region() = default;
    /** The other one then is not a registration any more. */
    region(region &&other) noexcept { swap(other); }
    /** The other one then has what this one had. */
    region &operator=(region &&other) noexcept
    {
        swap(other);
        return *this;
    }
    ~region()
    {
        if (handle_ != 0) {
            VipDeregisterMem(nic_, what_.data, handle_);
        }
    }

    /** For descriptors. */
    VIP_MEM_HANDLE handle() const noexcept { return handle_; }
    /** Where it is. */
    void *data() const noexcept { return what_.data; }
    /** Bytes. */
    std::size_t size() const noexcept { return what_.size; }
    /** `bytes` from `offset` on; the default is the rest. The library checks them when they are used. */
    slice part(std::size_t offset, std::size_t bytes = static_cast<std::size_t>(-1)) const noexcept
    {
        const std::size_t rest = offset < size() ? size() - offset : 0;
        return {static_cast<char *>(data()) + offset, bytes < rest ? bytes : rest, handle_};
    }
    /** To tell a peer. */
    remote_memory remote() const noexcept
    {
        return {static_cast<VIP_UINT64>(reinterpret_cast<std::uintptr_t>(data())), handle_,
                static_cast<VIP_UINT32>(size())};
    }

private:
    void swap(region &other) noexcept
    {
        std::swap(nic_, other.nic_);
        std::swap(what_, other.what_);
        std::swap(handle_, other.handle_);
    }

    VIP_NIC_HANDLE nic_ = nullptr;
    buffer what_;
    VIP_MEM_HANDLE handle_ = 0;
};

/** Memory that processes share; see VipxAllocShared(). */
class shared_memory {
public:
    /** Allocate. Empty if there is an error. */
    shared_memory(std::size_t bytes, std::error_code &error) noexcept : size_(bytes)
    {
        void *at = nullptr;
        error = to_error_code(VipxAllocShared(static_cast<VIP_ULONG>(bytes), &at));
        memory_ = detail::owner<void *, VipxFreeShared>(at);
    }
    /** As above; throws. */
    explicit shared_memory(std::size_t bytes)
    {
        detail::checked("VipxAllocShared",
                        [&](std::error_code &error) { *this = shared_memory(bytes, error); });
    }

    /** Where it is. */
    void *data() const noexcept { return memory_.get(); }
    /** Bytes. */
    std::size_t size() const noexcept { return size_; }
    /** For region. */
    operator buffer() const noexcept { return {data(), size()}; }

private:
    detail::owner<void *, VipxFreeShared> memory_;
    std::size_t size_ = 0;
};

/**
 * Descriptors and the bytes of messages, in one region: cleared memory, aligned for descriptors, that ends with its registration. It must
 * outlive the VIs to whose queues they are posted: it is declared before them.
 */
class messages {
public:
    /** `count` descriptors, each with `bytes` behind it. Throws. */
    messages(const nic &on, std::size_t count, std::size_t bytes, access allowed = access::local)
        : stride_(sizeof(VIP_DESCRIPTOR) + (bytes + VIP_DESCRIPTOR_ALIGNMENT - 1) / VIP_DESCRIPTOR_ALIGNMENT *
                                               VIP_DESCRIPTOR_ALIGNMENT),
          bytes_(bytes), count_(count),
          memory_(new block[(stride_ * count + sizeof(block) - 1) / sizeof(block)]()),
          region_(on, {memory_.get(), stride_ * count}, allowed)
    {
    }

    /** Descriptors. */
    std::size_t size() const noexcept { return count_; }
    /** The number-th descriptor. */
    VIP_DESCRIPTOR *descriptor(std::size_t number) const noexcept
    {
        return reinterpret_cast<VIP_DESCRIPTOR *>(at(number));
    }
    /** The bytes behind it. */
    slice bytes(std::size_t number) const noexcept
    {
        return {at(number) + sizeof(VIP_DESCRIPTOR), bytes_, region_.handle()};
    }
    /** Those of a descriptor that has come back. */
    slice bytes_of(const VIP_DESCRIPTOR *of) const noexcept
    {
        const auto offset =
            reinterpret_cast<const char *>(of) - reinterpret_cast<const char *>(memory_.get());
        return bytes(static_cast<std::size_t>(offset) / stride_);
    }
    /** All of it. */
    const vipl::region &region() const noexcept { return region_; }

private:
    struct alignas(VIP_DESCRIPTOR_ALIGNMENT) block {
        char room[VIP_DESCRIPTOR_ALIGNMENT];
    };
    char *at(std::size_t number) const noexcept
    {
        return reinterpret_cast<char *>(memory_.get()) + number * stride_;
    }

    std::size_t stride_, bytes_, count_;
    std::unique_ptr<block[]> memory_;
    vipl::region region_; /* ends before the memory does */
};

/* --- descriptors --- */

/** Writes a descriptor: work(d).local(bytes), work(d).rdma_write(there).local(bytes).immediate(7). It begins by clearing all but Next. */
class work {
public:
    /** Clear the descriptor. */
    explicit work(VIP_DESCRIPTOR *to) noexcept : to_(to)
    {
        const VIP_PVOID64 next = to->CS.Next;
        const VIP_MEM_HANDLE next_handle = to->CS.NextHandle;
        *to = VIP_DESCRIPTOR();
        to->CS.Next = next;
        to->CS.NextHandle = next_handle;
    }
    /** One more piece of local memory. Beyond two segments they lie behind the VIP_DESCRIPTOR. */
    work &local(const slice &piece) noexcept
    {
        VIP_DATA_SEGMENT &segment = to_->DS[0].Local;
        VIP_DATA_SEGMENT *next = &segment + to_->CS.SegCount++;
        next->Data.AddressBits = static_cast<VIP_UINT64>(reinterpret_cast<std::uintptr_t>(piece.data));
        next->Handle = piece.handle;
        next->Length = static_cast<VIP_UINT32>(piece.size);
        to_->CS.Length = to_->CS.Length + next->Length;
        return *this;
    }
    /** An RDMA Write to there; before the local pieces. */
    work &rdma_write(const remote_memory &there) noexcept { return rdma(VIP_CONTROL_OP_RDMAWRITE, there); }
    /** An RDMA Read from there; before the local pieces. */
    work &rdma_read(const remote_memory &there) noexcept { return rdma(VIP_CONTROL_OP_RDMAREAD, there); }
    /** Of a send or an RDMA Write: 32 bits that the receiver gets with it. */
    work &immediate(VIP_UINT32 data) noexcept
    {
        to_->CS.Control |= VIP_CONTROL_IMMEDIATE;
        to_->CS.ImmediateData = data;
        return *this;
    }
    /** It waits for this queue's earlier RDMA Reads. */
    work &fence() noexcept
    {
        to_->CS.Control |= VIP_CONTROL_QFENCE;
        return *this;
    }
    /** For the functions that post. */
    operator VIP_DESCRIPTOR *() const noexcept { return to_; }

private:
    work &rdma(int operation, const remote_memory &there) noexcept
    {
        to_->CS.Control = static_cast<VIP_UINT16>(to_->CS.Control | operation);
        to_->CS.SegCount = 1;
        to_->DS[0].Remote.Data.AddressBits = there.at;
        to_->DS[0].Remote.Handle = there.handle;
        to_->DS[0].Remote.Reserved = 0;
        return *this;
    }

    VIP_DESCRIPTOR *to_;
};

/** A descriptor that is complete, or nothing. */
class completion {
public:
    completion() = default;
    /** What came. */
    explicit completion(VIP_DESCRIPTOR *descriptor) noexcept : descriptor_(descriptor) {}
    /** Whether there is one. */
    explicit operator bool() const noexcept { return descriptor_ != nullptr; }
    /** The descriptor. */
    VIP_DESCRIPTOR *descriptor() const noexcept { return descriptor_; }
    /** Whether it is complete without an error. */
    bool good() const noexcept { return (status() & VIP_STATUS_ERROR_MASK) == 0; }
    /** The Status of the descriptor. */
    VIP_UINT32 status() const noexcept { return descriptor_->CS.Status; }
    /** The status in words. */
    std::string status_text() const
    {
        std::array<char, 256> text{};
        VipxStrStatus(status(), text.data(), text.size());
        return text.data();
    }
    /** Bytes moved. */
    std::size_t length() const noexcept { return descriptor_->CS.Length; }
    /** The 32 bits that came with it. */
    std::optional<VIP_UINT32> immediate() const noexcept
    {
        if ((status() & VIP_STATUS_IMMEDIATE) == 0) {
            return std::nullopt;
        }
        return descriptor_->CS.ImmediateData;
    }

private:
    VIP_DESCRIPTOR *descriptor_ = nullptr;
};

namespace detail {
/** What a Done or Wait function says: nothing, a descriptor (with an error of its own, perhaps), or an error of the call. */
inline completion to_completion(VIP_RETURN rc, VIP_DESCRIPTOR *descriptor, std::error_code &error) noexcept
{
    const bool some = rc == VIP_SUCCESS || (rc == VIP_DESCRIPTOR_ERROR && descriptor != nullptr);
    const bool none = rc == VIP_NOT_DONE || rc == VIP_TIMEOUT;
    error = some || none ? std::error_code() : to_error_code(rc);
    return completion(some ? descriptor : nullptr);
}
} // namespace detail

/* --- completion queues and VIs --- */

/** Which queue has a completion: it is then taken from there. */
struct cq_entry {
    VIP_VI_HANDLE vi = nullptr; /**< The VI. */
    bool is_receive = false;    /**< Its receive queue, or its send queue. */
};

/** A completion queue. */
class cq {
public:
    /** Make one. None if there is an error. */
    cq(const nic &on, VIP_ULONG entries, std::error_code &error) noexcept
    {
        VIP_CQ_HANDLE handle = nullptr;
        error = to_error_code(VipCreateCQ(on.handle(), entries, &handle));
        handle_ = owner(handle);
    }
    /** As above; throws. */
    cq(const nic &on, VIP_ULONG entries)
    {
        detail::checked("VipCreateCQ", [&](std::error_code &error) { *this = cq(on, entries, error); });
    }

    /** For functions of vipl.h. */
    VIP_CQ_HANDLE handle() const noexcept { return handle_.get(); }

    /** Take an entry, if there is one. */
    std::optional<cq_entry> done(std::error_code &error) const noexcept { return take(error, std::nullopt); }
    /** As above; throws. */
    std::optional<cq_entry> done() const
    {
        return detail::checked("VipCQDone", [&](std::error_code &error) { return done(error); });
    }
    /** Wait for an entry and take it. Empty: none came in time. */
    std::optional<cq_entry> wait(std::chrono::milliseconds time, std::error_code &error) const noexcept
    {
        return take(error, time);
    }
    /** As above; throws. */
    std::optional<cq_entry> wait(std::chrono::milliseconds time = forever) const
    {
        return detail::checked("VipCQWait", [&](std::error_code &error) { return wait(time, error); });
    }
    /** Readable while there is an entry; see VipxGetFd(). */
    int fd() const { return detail::get_fd(VIPX_FD_CQ, handle()); }

private:
    using owner = detail::owner<VIP_CQ_HANDLE, VipDestroyCQ>;

    std::optional<cq_entry> take(std::error_code &error,
                                 std::optional<std::chrono::milliseconds> time) const noexcept
    {
        cq_entry entry;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        const VIP_RETURN rc = time ? VipCQWait(handle(), to_timeout(*time), &entry.vi, &is_receive)
                                   : VipCQDone(handle(), &entry.vi, &is_receive);
        entry.is_receive = is_receive != VIP_FALSE;
        const bool none = rc == VIP_NOT_DONE || rc == VIP_TIMEOUT;
        error = none ? std::error_code() : to_error_code(rc);
        return rc == VIP_SUCCESS ? std::optional<cq_entry>(entry) : std::nullopt;
    }

    owner handle_;
};

/** A virtual interface: one end of a connection. Its destructor disconnects it; descriptors that are posted then are forgotten. */
class vi {
public:
    /** Make one. None if there is an error. */
    vi(const nic &on, const vi_options &options, const cq *sends, const cq *receives,
       std::error_code &error) noexcept
    {
        VIP_VI_ATTRIBUTES attributes = options.attributes();
        VIP_VI_HANDLE handle = nullptr;
        error =
            to_error_code(VipCreateVi(on.handle(), &attributes, sends == nullptr ? nullptr : sends->handle(),
                                      receives == nullptr ? nullptr : receives->handle(), &handle));
        handle_ = owner(handle);
    }
    /** As above; throws. Without completion queues, completions are taken from the VI's own queues. */
    explicit vi(const nic &on, const vi_options &options = {}, const cq *sends = nullptr,
                const cq *receives = nullptr)
    {
        detail::checked("VipCreateVi",
                        [&](std::error_code &error) { *this = vi(on, options, sends, receives, error); });
    }

    /** For functions of vipl.h. */
    VIP_VI_HANDLE handle() const noexcept { return handle_.get(); }
    /** Whether it is connected, or was. */
    VIP_VI_STATE state() const
    {
        VIP_VI_STATE out = VIP_STATE_ERROR;
        detail::checked("VipQueryVi", [&](std::error_code &error) {
            error = to_error_code(VipQueryVi(handle(), &out, nullptr, nullptr, nullptr));
        });
        return out;
    }

    /** Ask a program that waits for a connection. Returns what the peer's VI is like. */
    VIP_VI_ATTRIBUTES connect(const address &local, const address &remote, std::chrono::milliseconds time,
                              std::error_code &error) noexcept
    {
        VIP_VI_ATTRIBUTES out{};
        error = to_error_code(VipConnectRequest(handle(), local.net(), remote.net(), to_timeout(time), &out));
        return out;
    }
    /** As above; throws, also when the time is over. */
    VIP_VI_ATTRIBUTES connect(const address &local, const address &remote,
                              std::chrono::milliseconds time = forever)
    {
        return detail::checked("connecting",
                               [&](std::error_code &error) { return connect(local, remote, time, error); });
    }
    /** End the connection; the VI may be connected again. */
    void disconnect() noexcept { VipDisconnect(handle()); }

    /** Post a descriptor, which lies in the memory of that handle. */
    void post_send(VIP_DESCRIPTOR *what, VIP_MEM_HANDLE in, std::error_code &error) noexcept
    {
        error = to_error_code(VipPostSend(handle(), what, in));
    }
    /** As above; throws. */
    void post_send(VIP_DESCRIPTOR *what, VIP_MEM_HANDLE in)
    {
        detail::checked("VipPostSend", [&](std::error_code &error) { post_send(what, in, error); });
    }
    /** Post a descriptor for a message, which lies in the memory of that handle. */
    void post_receive(VIP_DESCRIPTOR *what, VIP_MEM_HANDLE in, std::error_code &error) noexcept
    {
        error = to_error_code(VipPostRecv(handle(), what, in));
    }
    /** As above; throws. */
    void post_receive(VIP_DESCRIPTOR *what, VIP_MEM_HANDLE in)
    {
        detail::checked("VipPostRecv", [&](std::error_code &error) { post_receive(what, in, error); });
    }

    /** Take the oldest send, if it is complete. */
    completion send_done(std::error_code &error) noexcept
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendDone(handle(), &done);
        return detail::to_completion(rc, done, error);
    }
    /** As above; throws. */
    completion send_done()
    {
        return detail::checked("VipSendDone", [&](std::error_code &error) { return send_done(error); });
    }
    /** Take the oldest receive, if it is complete. */
    completion receive_done(std::error_code &error) noexcept
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipRecvDone(handle(), &done);
        return detail::to_completion(rc, done, error);
    }
    /** As above; throws. */
    completion receive_done()
    {
        return detail::checked("VipRecvDone", [&](std::error_code &error) { return receive_done(error); });
    }
    /** Wait for the oldest send and take it. Empty: it was not complete in time. */
    completion wait_send(std::chrono::milliseconds time, std::error_code &error) noexcept
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(handle(), to_timeout(time), &done);
        return detail::to_completion(rc, done, error);
    }
    /** As above; throws. */
    completion wait_send(std::chrono::milliseconds time = forever)
    {
        return detail::checked("VipSendWait", [&](std::error_code &error) { return wait_send(time, error); });
    }
    /** Wait for the oldest receive and take it. Empty: it was not complete in time. */
    completion wait_receive(std::chrono::milliseconds time, std::error_code &error) noexcept
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipRecvWait(handle(), to_timeout(time), &done);
        return detail::to_completion(rc, done, error);
    }
    /** As above; throws. */
    completion wait_receive(std::chrono::milliseconds time = forever)
    {
        return detail::checked("VipRecvWait",
                               [&](std::error_code &error) { return wait_receive(time, error); });
    }

    /** Readable while a send is complete; see VipxGetFd(). */
    int send_fd() const { return detail::get_fd(VIPX_FD_SEND, handle()); }
    /** Readable while a receive is complete; see VipxGetFd(). */
    int receive_fd() const { return detail::get_fd(VIPX_FD_RECV, handle()); }

private:
    static VIP_RETURN VI_CALL end(VIP_VI_HANDLE handle)
    {
        VipDisconnect(handle);
        return VipDestroyVi(handle);
    }
    using owner = detail::owner<VIP_VI_HANDLE, end>;
    owner handle_;
};

/** A connection request that was taken; one that gets no answer is rejected by the destructor. */
class request {
public:
    /** Of nic::wait(). */
    request(VIP_CONN_HANDLE handle, const address &from, const VIP_VI_ATTRIBUTES &attributes) noexcept
        : handle_(handle), from_(from), attributes_(attributes)
    {
    }
    /** Who asks, by the address that it gave. */
    const address &from() const noexcept { return from_; }
    /** What its VI is like. */
    const VIP_VI_ATTRIBUTES &attributes() const noexcept { return attributes_; }
    /** vi_options for a VI that fits. */
    vi_options fitting() const noexcept { return vi_options(attributes_); }

    /** Answer with a VI. After an error other than errc::timeout, where the requester has gone, the request is still there. */
    void accept(vi &with, std::error_code &error) noexcept
    {
        const VIP_RETURN rc = VipConnectAccept(handle_.get(), with.handle());
        error = to_error_code(rc);
        if (rc == VIP_SUCCESS || rc == VIP_TIMEOUT) {
            handle_.release();
        }
    }
    /** As above; throws. */
    void accept(vi &with)
    {
        detail::checked("VipConnectAccept", [&](std::error_code &error) { accept(with, error); });
    }
    /** Answer no. */
    void reject() noexcept { VipConnectReject(handle_.release()); }

private:
    detail::owner<VIP_CONN_HANDLE, VipConnectReject> handle_;
    address from_;
    VIP_VI_ATTRIBUTES attributes_;
};

inline std::optional<request> nic::wait(const address &at, std::chrono::milliseconds time,
                                        std::error_code &error) const noexcept
{
    address from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE handle = nullptr;
    const VIP_RETURN rc =
        VipConnectWait(this->handle(), at.net(), to_timeout(time), from.net(), &attributes, &handle);
    error = rc == VIP_TIMEOUT ? std::error_code() : to_error_code(rc);
    return rc == VIP_SUCCESS ? std::optional<request>(std::in_place, handle, from, attributes) : std::nullopt;
}

inline std::optional<request> nic::wait(const address &at, std::chrono::milliseconds time) const
{
    return detail::checked("VipConnectWait", [&](std::error_code &error) { return wait(at, time, error); });
}

} // namespace vipl

#endif
