/* SPDX-License-Identifier: MIT */
/**
 * @file vipl.hpp VIPL for C++17: objects that end what they began, errors as std::error_code.
 * Header only; everything is a thin layer over vipl.h, posix.h and cache.h, whose documentation
 * holds: threads, signals, forks and states are theirs.
 *
 * **Errors.** A function that may fail comes twice: one sets its last argument, a std::error_code,
 * and throws nothing; the other one throws std::system_error. Codes compare with vipl::errc, and
 * their message() is a sentence.
 *
 * **Objects** can be moved and not copied, and end in their destructor, or earlier by close(). An
 * object that was moved from, or closed, is empty: its handle() is nullptr or 0 and its size() is
 * 0, its destructor and close() do nothing, its functions fail with errc::invalid_parameter, and it
 * may be assigned to. An assignment ends what the object had before; an assignment to itself
 * changes nothing. handle() is for what is not here.
 *
 * **Order.** Posted descriptors, and the memory that they name, must outlive the VIs to whose
 * queues they are posted, whose destructors complete them: so messages are declared before the vi.
 * Memory of the program's must outlive its region. All else may end in any order. A nic that ends
 * closes the device, and with it ends what was made with it: what is left of that in C++ fails with
 * errc::invalid_parameter and ends without harm. A completion queue lives until the last vi that
 * uses it has ended too.
 *
 * **Memory that cannot be given back.** A peer of this host that was stopped in the middle of an
 * RDMA operation may still write to the memory that it names: VipDeregisterMem() returns
 * VIP_ERROR_RESOURCE, and close() fails with errc::resource. A destructor, or an assignment, leaves
 * that memory registered and does not free what its region owns: this is kept until a later end of
 * a region of the same nic finds that the peer is out of it, or until that nic is closed. Memory
 * that a region does not own is the program's, which no destructor can keep: where a peer may use
 * it, close() the region, and free the memory only if that succeeds, or let the region own it.
 *
 * **Waiting** takes milliseconds; #vipl::forever has no end. When nothing comes in time, the result
 * is empty and there is no error.
 */
#ifndef VIPL_VIPL_HPP
#define VIPL_VIPL_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache.h"
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

/** Calls `function` with an error code, throws if it is set, and returns what the function
 * returned. */
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

/** A handle and what ends it. It is empty when it was moved from. */
template <class Handle, VIP_RETURN(VI_CALL *End)(Handle)>
class owner {
public:
    owner() = default;
    explicit owner(Handle handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owner &operator=(owner &&other) noexcept
    {
        owner moved(std::move(other)); /* this one, perhaps */
        std::swap(handle_, moved.handle_);
        return *this;
    }
    ~owner() { end(); }
    void end() noexcept
    {
        if (handle_ != nullptr) {
            End(release());
        }
    }
    Handle get() const noexcept { return handle_; }
    Handle release() noexcept { return std::exchange(handle_, nullptr); }

private:
    Handle handle_ = nullptr;
};

/** What several objects use, made by one of them: nullptr if there is no memory. */
template <class Handle, VIP_RETURN(VI_CALL *End)(Handle)>
std::shared_ptr<owner<Handle, End>> share(Handle handle, std::error_code &error) noexcept
{
    owner<Handle, End> only(handle);
    try {
        return std::make_shared<owner<Handle, End>>(std::move(only));
    } catch (const std::bad_alloc &) {
        error = make_error_code(errc::resource);
        return nullptr;
    }
}

/** A registration, and the memory if it is the region's own. */
class registration {
public:
    registration() = default;
    registration(const registration &) = delete;
    registration &operator=(const registration &) = delete;
    virtual ~registration() = default;

    /** End it. One whose NIC handle is closed has ended with that. After an error the memory must
     * stay. */
    std::error_code end() noexcept
    {
        const VIP_RETURN rc = handle == 0 ? VIP_SUCCESS : VipDeregisterMem(nic, at, handle);
        return rc == VIP_INVALID_PARAMETER ? std::error_code() : to_error_code(rc);
    }

    VIP_NIC_HANDLE nic = nullptr;
    void *at = nullptr;
    std::size_t size = 0;
    VIP_MEM_HANDLE handle = 0;
    registration *next = nullptr; /* of those that are kept */
};

/** With the memory. */
template <class Items>
class owning_registration final : public registration {
public:
    explicit owning_registration(Items &&from) noexcept : items(std::move(from)) {}
    Items items;
};

/** Registrations that could not be ended in their time. A list without a lock, which a fork could
 * leave locked. */
inline std::atomic<registration *> kept{nullptr};

inline void keep(registration *one) noexcept
{
    one->next = kept.load(std::memory_order_relaxed);
    while (!kept.compare_exchange_weak(one->next, one, std::memory_order_acq_rel)) {
    }
}

/** Ends those of the NIC handle. After one that cannot be ended, which a stopped peer holds up, the
 * others are left for later. */
inline void end_kept(VIP_NIC_HANDLE nic) noexcept
{
    bool go_on = true;
    registration *rest = kept.load(std::memory_order_relaxed) == nullptr
                             ? nullptr
                             : kept.exchange(nullptr, std::memory_order_acq_rel);
    while (rest != nullptr) {
        registration *one = std::exchange(rest, rest->next);
        const bool tried = go_on && one->nic == nic;
        go_on = go_on && !(tried && one->end());
        if (tried && go_on) {
            delete one;
        } else {
            keep(one);
        }
    }
}

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

/** A host and a name on it: a VIP_NET_ADDRESS with the room that it needs. A value: it may be
 * copied. */
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

/**
 * An opened device. Its destructor closes it, and with it ends what was made with it. Where it
 * cannot be closed because a peer may still write to memory that is registered with it, the
 * destructor leaves it open until the program ends; close() says so and may be called again.
 */
class nic {
public:
    /** A device by its name, nullptr: the default one; flags as for VipxOpenNic(). Closed if there
     * is an error. */
    nic(const char *device, VIP_ULONG flags, std::error_code &error) noexcept
    {
        VIP_NIC_HANDLE handle = nullptr;
        error = to_error_code(VipxOpenNic(device, flags, &handle));
        handle_ = owner(error ? nullptr : handle);
    }
    /** As above; throws. */
    explicit nic(const char *device = nullptr, VIP_ULONG flags = 0)
    {
        detail::checked("opening a device",
                        [&](std::error_code &error) { *this = nic(device, flags, error); });
    }

    /** Close it. errc::resource: it is open as before. */
    void close(std::error_code &error) noexcept
    {
        error = end(handle());
        if (!error) {
            handle_.release();
        }
    }
    /** As above; throws. */
    void close()
    {
        detail::checked("closing a device", [&](std::error_code &error) { close(error); });
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
    /** What the registration cache has done so far. */
    VIPX_CACHE_STATISTICS cache_statistics() const
    {
        VIPX_CACHE_STATISTICS out{};
        detail::checked("VipQuerySystemManagementInfo", [&](std::error_code &error) {
            error = to_error_code(VipQuerySystemManagementInfo(handle(), VIPX_SMI_CACHE_STATISTICS, &out));
        });
        return out;
    }
    /** Have the registration cache forget memory; see VipxForgetMem(). */
    void forget(buffer what, std::error_code &error) const noexcept
    {
        error = to_error_code(VipxForgetMem(handle(), what.data, static_cast<VIP_ULONG>(what.size)));
    }
    /** As above; throws. */
    void forget(buffer what) const
    {
        detail::checked("VipxForgetMem", [&](std::error_code &error) { forget(what, error); });
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
    /** A device that is not open any more is closed: by the program itself, or in the parent of
     * this process. */
    static std::error_code end(VIP_NIC_HANDLE handle) noexcept
    {
        const VIP_RETURN rc = handle == nullptr ? VIP_SUCCESS : VipCloseNic(handle);
        if (rc != VIP_SUCCESS && rc != VIP_INVALID_PARAMETER) {
            return to_error_code(rc);
        }
        detail::end_kept(handle);
        return {};
    }
    static VIP_RETURN VI_CALL end_in_destructor(VIP_NIC_HANDLE handle)
    {
        return static_cast<VIP_RETURN>(end(handle).value());
    }
    using owner = detail::owner<VIP_NIC_HANDLE, end_in_destructor>;
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

/** Registered memory of a peer: what it has told of its own. Of fixed size and without padding, for
 * messages between like CPUs. */
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

namespace detail {
/** Memory of VipxAllocShared(), with other users. */
struct shared_block {
    operator buffer() const noexcept { return {memory == nullptr ? nullptr : memory->get(), size}; }
    std::shared_ptr<owner<void *, VipxFreeShared>> memory;
    std::size_t size = 0;
};
} // namespace detail

/** Memory that processes share; see VipxAllocShared(). It is given back when this object and the
 * regions made of it have ended. */
class shared_memory {
public:
    /** Allocate. Empty if there is an error. */
    shared_memory(std::size_t bytes, std::error_code &error) noexcept
    {
        void *at = nullptr;
        error = to_error_code(VipxAllocShared(static_cast<VIP_ULONG>(bytes), &at));
        if (!error) {
            block_.memory = detail::share<void *, VipxFreeShared>(at, error);
        }
        block_.size = block_.memory == nullptr ? 0 : bytes;
    }
    /** As above; throws. */
    explicit shared_memory(std::size_t bytes)
    {
        detail::checked("VipxAllocShared",
                        [&](std::error_code &error) { *this = shared_memory(bytes, error); });
    }
    /** The other one is empty then. */
    shared_memory(shared_memory &&other) noexcept : block_(std::exchange(other.block_, {})) {}
    /** What this one had is given back, and the other one is empty then. */
    shared_memory &operator=(shared_memory &&other) noexcept
    {
        shared_memory moved(std::move(other));
        std::swap(block_, moved.block_);
        return *this;
    }

    /** Give it back. */
    void close() noexcept { block_ = {}; }

    /** Where it is. */
    void *data() const noexcept { return buffer(block_).data; }
    /** Bytes. */
    std::size_t size() const noexcept { return block_.size; }
    /** For functions that do not keep it. */
    operator buffer() const noexcept { return block_; }

private:
    friend class region;
    detail::shared_block block_;
};

namespace detail {
/** Memory of VipxAllocDevice(). */
class device_piece {
public:
    device_piece(VIP_NIC_HANDLE nic, void *at) noexcept : nic_(nic), at_(at) {}
    device_piece(const device_piece &) = delete;
    device_piece &operator=(const device_piece &) = delete;
    ~device_piece() { VipxFreeDevice(nic_, at_); }
    void *at() const noexcept { return at_; }

private:
    VIP_NIC_HANDLE nic_;
    void *at_;
};

/** Such memory, with other users. */
struct device_block {
    operator buffer() const noexcept { return {memory == nullptr ? nullptr : memory->at(), size}; }
    std::shared_ptr<device_piece> memory;
    std::size_t size = 0;
};
} // namespace detail

/** Memory of a device; see VipxAllocDevice(). It is freed when this object and the regions made of
 * it have ended, and at the latest when the nic is closed. */
class device_memory {
public:
    /** Allocate. Empty if there is an error. */
    device_memory(const nic &on, std::size_t bytes, VIPX_DEVICE_MEMORY kind, std::error_code &error) noexcept
    {
        void *at = nullptr;
        error = to_error_code(VipxAllocDevice(on.handle(), static_cast<VIP_ULONG>(bytes), kind, &at));
        if (error) {
            return;
        }
        try {
            block_.memory = std::make_shared<detail::device_piece>(on.handle(), at);
            block_.size = bytes;
        } catch (const std::bad_alloc &) {
            VipxFreeDevice(on.handle(), at);
            error = make_error_code(errc::resource);
        }
    }
    /** As above; throws. */
    device_memory(const nic &on, std::size_t bytes, VIPX_DEVICE_MEMORY kind = VIPX_DEVICE_DRAM)
    {
        detail::checked("VipxAllocDevice",
                        [&](std::error_code &error) { *this = device_memory(on, bytes, kind, error); });
    }
    /** The other one is empty then. */
    device_memory(device_memory &&other) noexcept : block_(std::exchange(other.block_, {})) {}
    /** What this one had is freed, and the other one is empty then. */
    device_memory &operator=(device_memory &&other) noexcept
    {
        device_memory moved(std::move(other));
        std::swap(block_, moved.block_);
        return *this;
    }

    /** Free it. */
    void close() noexcept { block_ = {}; }

    /** Where it is. */
    void *data() const noexcept { return buffer(block_).data; }
    /** Bytes. */
    std::size_t size() const noexcept { return block_.size; }
    /** For functions that do not keep it. */
    operator buffer() const noexcept { return block_; }

private:
    friend class region;
    detail::device_block block_;
};

/**
 * A registration of memory. What was given as a buffer, or converts to one, is the program's and
 * must outlive the registration. What was moved into the region, as
 * `region(nic, std::move(vector))` does, is the region's, and shared_memory and device_memory are
 * also the region's: these end after the registration, or are kept if it cannot be ended.
 */
class region {
    template <class Items>
    static constexpr bool can_own =
        !std::is_lvalue_reference_v<Items> && !std::is_const_v<Items> && !std::is_same_v<Items, buffer> &&
        !std::is_same_v<Items, shared_memory> && !std::is_same_v<Items, device_memory> &&
        std::is_nothrow_move_constructible_v<Items> && std::is_constructible_v<buffer, Items &>;

public:
    /** Register memory of the program's. Not registered if there is an error. */
    region(const nic &on, buffer what, access allowed, std::error_code &error) noexcept
    {
        take(on, new (std::nothrow) detail::registration, what, allowed, error);
    }
    /** As above; throws. */
    region(const nic &on, buffer what, access allowed = access::local)
    {
        detail::checked("registering memory",
                        [&](std::error_code &error) { *this = region(on, what, allowed, error); });
    }
    /** Register the items of a std::vector, for example, which then are the region's. They are gone
     * if there is an error. */
    template <class Items, class = std::enable_if_t<can_own<Items>>>
    region(const nic &on, Items &&items, access allowed, std::error_code &error) noexcept
    {
        own(on, std::move(items), allowed, error);
    }
    /** As above; throws. */
    template <class Items, class = std::enable_if_t<can_own<Items>>>
    region(const nic &on, Items &&items, access allowed = access::local)
    {
        detail::checked("registering memory",
                        [&](std::error_code &error) { own(on, std::move(items), allowed, error); });
    }
    /** Register shared memory, which stays at least as long. Not registered if there is an
     * error. */
    region(const nic &on, const shared_memory &memory, access allowed, std::error_code &error) noexcept
    {
        own(on, detail::shared_block(memory.block_), allowed, error);
    }
    /** As above; throws. */
    region(const nic &on, const shared_memory &memory, access allowed = access::local)
    {
        detail::checked("registering memory", [&](std::error_code &error) {
            own(on, detail::shared_block(memory.block_), allowed, error);
        });
    }
    /** Register memory of a device, which stays at least as long. Not registered if there is an
     * error. */
    region(const nic &on, const device_memory &memory, access allowed, std::error_code &error) noexcept
    {
        own(on, detail::device_block(memory.block_), allowed, error);
    }
    /** As above; throws. */
    region(const nic &on, const device_memory &memory, access allowed = access::local)
    {
        detail::checked("registering memory", [&](std::error_code &error) {
            own(on, detail::device_block(memory.block_), allowed, error);
        });
    }
    /** Not registered. */
    region() = default;
    /** The other one then is not a registration any more. */
    region(region &&) noexcept = default;
    /** Ends what this one had, as its destructor would; the other one then is not a registration
     * any more. */
    region &operator=(region &&other) noexcept
    {
        region moved(std::move(other));
        std::swap(it_, moved.it_);
        return *this;
    }
    ~region()
    {
        std::error_code error;
        close(error);
        if (error) {
            detail::keep(it_.release());
        }
    }

    /** End the registration, and then the memory if it is the region's. errc::resource: nothing has
     * changed, and the memory must stay. */
    void close(std::error_code &error) noexcept
    {
        error = it_ == nullptr ? std::error_code() : it_->end();
        if (it_ != nullptr && !error) {
            const VIP_NIC_HANDLE nic = it_->nic;
            it_.reset();
            detail::end_kept(nic);
        }
    }
    /** As above; throws. */
    void close()
    {
        detail::checked("deregistering memory", [&](std::error_code &error) { close(error); });
    }

    /** For descriptors. */
    VIP_MEM_HANDLE handle() const noexcept { return it_ == nullptr ? 0 : it_->handle; }
    /** Where it is. */
    void *data() const noexcept { return it_ == nullptr ? nullptr : it_->at; }
    /** Bytes. */
    std::size_t size() const noexcept { return it_ == nullptr ? 0 : it_->size; }
    /** `bytes` from `offset` on; the default is the rest. The library checks them when they are
     * used. */
    slice part(std::size_t offset, std::size_t bytes = static_cast<std::size_t>(-1)) const noexcept
    {
        const std::size_t rest = offset < size() ? size() - offset : 0;
        return {static_cast<char *>(data()) + offset, bytes < rest ? bytes : rest, handle()};
    }
    /** To tell a peer. */
    remote_memory remote() const noexcept
    {
        return {static_cast<VIP_UINT64>(reinterpret_cast<std::uintptr_t>(data())), handle(),
                static_cast<VIP_UINT32>(size())};
    }

private:
    template <class Items>
    void own(const nic &on, Items &&items, access allowed, std::error_code &error) noexcept
    {
        auto *fresh = new (std::nothrow) detail::owning_registration<Items>(std::move(items));
        take(on, fresh, fresh == nullptr ? buffer() : static_cast<buffer>(fresh->items), allowed, error);
    }
    void take(const nic &on, detail::registration *fresh, buffer what, access allowed,
              std::error_code &error) noexcept
    {
        it_.reset(fresh);
        if (fresh == nullptr) {
            error = make_error_code(errc::resource);
            return;
        }
        VIP_MEM_ATTRIBUTES attributes{nullptr, (static_cast<int>(allowed) & 1) != 0,
                                      (static_cast<int>(allowed) & 2) != 0};
        error = to_error_code(VipRegisterMem(on.handle(), what.data, static_cast<VIP_ULONG>(what.size),
                                             &attributes, &fresh->handle));
        fresh->nic = on.handle();
        fresh->at = what.data;
        fresh->size = what.size;
        if (error) {
            it_.reset();
        }
    }

    std::unique_ptr<detail::registration> it_;
};

/**
 * Memory of the program's that is registered while this object is there, and may stay registered
 * for the next time: see VipxAcquireMem(). The memory may go before the object does, if no transfer
 * uses it.
 */
class cached_region {
public:
    /** Register memory, or find it registered; flags as for VipxAcquireMem(). Not registered if
     * there is an error. */
    cached_region(const nic &on, buffer what, access allowed, VIP_ULONG flags,
                  std::error_code &error) noexcept
        : nic_(on.handle()), what_(what)
    {
        VIP_MEM_ATTRIBUTES attributes{nullptr, (static_cast<int>(allowed) & 1) != 0,
                                      (static_cast<int>(allowed) & 2) != 0};
        error = to_error_code(
            VipxAcquireMem(nic_, what.data, static_cast<VIP_ULONG>(what.size), &attributes, flags, &it_));
        what_ = error ? buffer() : what;
    }
    /** As above; throws. */
    cached_region(const nic &on, buffer what, access allowed = access::local, VIP_ULONG flags = 0)
    {
        detail::checked("acquiring memory", [&](std::error_code &error) {
            *this = cached_region(on, what, allowed, flags, error);
        });
    }
    /** Not registered. */
    cached_region() = default;
    /** The other one then is not a registration any more. */
    cached_region(cached_region &&other) noexcept
        : nic_(other.nic_), what_(std::exchange(other.what_, buffer())), it_(std::exchange(other.it_, {}))
    {
    }
    /** What this one had is released; the other one then is not a registration any more. */
    cached_region &operator=(cached_region &&other) noexcept
    {
        cached_region moved(std::move(other));
        std::swap(nic_, moved.nic_);
        std::swap(what_, moved.what_);
        std::swap(it_, moved.it_);
        return *this;
    }
    ~cached_region() { close(); }

    /** Release the memory, which may stay registered. */
    void close() noexcept
    {
        if (it_.Entry != nullptr) {
            VipxReleaseMem(nic_, &it_);
        }
        it_ = {};
        what_ = buffer();
    }

    /** For descriptors. */
    VIP_MEM_HANDLE handle() const noexcept { return it_.Handle; }
    /** Where it is. */
    void *data() const noexcept { return what_.data; }
    /** Bytes. */
    std::size_t size() const noexcept { return what_.size; }
    /** `bytes` from `offset` on; the default is the rest. */
    slice part(std::size_t offset, std::size_t bytes = static_cast<std::size_t>(-1)) const noexcept
    {
        const std::size_t rest = offset < size() ? size() - offset : 0;
        return {static_cast<char *>(data()) + offset, bytes < rest ? bytes : rest, handle()};
    }
    /** To tell a peer. */
    remote_memory remote() const noexcept
    {
        return {static_cast<VIP_UINT64>(reinterpret_cast<std::uintptr_t>(data())), handle(),
                static_cast<VIP_UINT32>(size())};
    }

private:
    VIP_NIC_HANDLE nic_ = nullptr;
    buffer what_;
    VIPX_REGISTRATION it_{};
};

/**
 * Descriptors and the bytes of messages, in one region that owns them: cleared memory, aligned for
 * descriptors. It must outlive the VIs to whose queues they are posted: it is declared before them.
 * An assignment ends what the object had, none of which may be posted then.
 */
class messages {
public:
    /** `count` descriptors, each with `bytes` behind it. None if there is an error. */
    messages(const nic &on, std::size_t count, std::size_t bytes, access allowed,
             std::error_code &error) noexcept
        : bytes_(bytes)
    {
        constexpr std::size_t unit = sizeof(block), most = static_cast<std::size_t>(-1) / 2;
        static_assert(sizeof(VIP_DESCRIPTOR) % unit == 0);
        if (bytes > most) {
            error = make_error_code(errc::invalid_parameter);
            return;
        }
        const std::size_t each = sizeof(VIP_DESCRIPTOR) / unit + (bytes + unit - 1) / unit;
        stride_ = each * unit;
        if (count > most / stride_) {
            error = make_error_code(errc::invalid_parameter);
            return;
        }
        try {
            region_ = vipl::region(on, std::vector<block>(each * count), allowed, error);
        } catch (const std::bad_alloc &) {
            error = make_error_code(errc::resource);
        }
    }
    /** As above; throws. */
    messages(const nic &on, std::size_t count, std::size_t bytes, access allowed = access::local)
    {
        detail::checked("registering messages",
                        [&](std::error_code &error) { *this = messages(on, count, bytes, allowed, error); });
    }

    /** End them, as region::close() does. */
    void close(std::error_code &error) noexcept { region_.close(error); }
    /** As above; throws. */
    void close() { region_.close(); }

    /** Descriptors. */
    std::size_t size() const noexcept { return region_.size() / stride_; }
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
        const auto offset = reinterpret_cast<const char *>(of) - at(0);
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
        return static_cast<char *>(region_.data()) + number * stride_;
    }

    std::size_t stride_ = sizeof(VIP_DESCRIPTOR), bytes_ = 0;
    vipl::region region_;
};

/* --- descriptors --- */

/** Writes a descriptor: work(d).local(bytes), work(d).rdma_write(there).local(bytes).immediate(7).
 * It begins by clearing all but Next. */
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
/** What a Done or Wait function says: nothing, a descriptor (with an error of its own, perhaps), or
 * an error of the call. */
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

/** A completion queue. It is destroyed when this object and the VIs that use it have ended. */
class cq {
public:
    /** Make one. None if there is an error. */
    cq(const nic &on, VIP_ULONG entries, std::error_code &error) noexcept
    {
        VIP_CQ_HANDLE handle = nullptr;
        error = to_error_code(VipCreateCQ(on.handle(), entries, &handle));
        if (!error) {
            it_ = detail::share<VIP_CQ_HANDLE, VipDestroyCQ>(handle, error);
        }
    }
    /** As above; throws. */
    cq(const nic &on, VIP_ULONG entries)
    {
        detail::checked("VipCreateCQ", [&](std::error_code &error) { *this = cq(on, entries, error); });
    }
    /** The other one is empty then. */
    cq(cq &&) noexcept = default;
    /** Ends this object's use of what it had; the other one is empty then. */
    cq &operator=(cq &&) noexcept = default;

    /** End this object's use of it. */
    void close() noexcept { it_.reset(); }

    /** For functions of vipl.h. */
    VIP_CQ_HANDLE handle() const noexcept { return it_ == nullptr ? nullptr : it_->get(); }

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
    friend class vi;
    using shared = std::shared_ptr<detail::owner<VIP_CQ_HANDLE, VipDestroyCQ>>;

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

    shared it_;
};

/**
 * A virtual interface: one end of a connection. Its destructor disconnects it, which completes the
 * descriptors that are posted: until then they, and the memory that they name, must be there.
 */
class vi {
public:
    /** Make one. None if there is an error; a completion queue that is empty is one. */
    vi(const nic &on, const vi_options &options, const cq *sends, const cq *receives,
       std::error_code &error) noexcept
    {
        if ((sends != nullptr && sends->handle() == nullptr) ||
            (receives != nullptr && receives->handle() == nullptr)) {
            error = make_error_code(errc::invalid_parameter);
            return;
        }
        VIP_VI_ATTRIBUTES attributes = options.attributes();
        VIP_VI_HANDLE handle = nullptr;
        sends_ = sends == nullptr ? nullptr : sends->it_;
        receives_ = receives == nullptr ? nullptr : receives->it_;
        error =
            to_error_code(VipCreateVi(on.handle(), &attributes, sends == nullptr ? nullptr : sends->handle(),
                                      receives == nullptr ? nullptr : receives->handle(), &handle));
        handle_ = owner(error ? nullptr : handle);
    }
    /** As above; throws. Without completion queues, completions are taken from the VI's own
     * queues. */
    explicit vi(const nic &on, const vi_options &options = {}, const cq *sends = nullptr,
                const cq *receives = nullptr)
    {
        detail::checked("VipCreateVi",
                        [&](std::error_code &error) { *this = vi(on, options, sends, receives, error); });
    }
    /** The other one is empty then. */
    vi(vi &&) noexcept = default;
    /** Ends what this one had, as its destructor would; the other one is empty then. */
    vi &operator=(vi &&other) noexcept
    {
        vi moved(std::move(other));
        std::swap(sends_, moved.sends_);
        std::swap(receives_, moved.receives_);
        std::swap(handle_, moved.handle_);
        return *this;
    }

    /** Disconnect and end it. */
    void close() noexcept { vi ended(std::move(*this)); }

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
    /** As connect(), by VipxConnectRequest() with VIPX_AT_ONCE: where no program listens, the
     * result is VIP_NO_MATCH at once. */
    VIP_VI_ATTRIBUTES connect_at_once(const address &local, const address &remote,
                                      std::chrono::milliseconds time, std::error_code &error) noexcept
    {
        VIP_VI_ATTRIBUTES out{};
        error = to_error_code(
            VipxConnectRequest(handle(), local.net(), remote.net(), VIPX_AT_ONCE, to_timeout(time), &out));
        return out;
    }
    /** As above; throws. */
    VIP_VI_ATTRIBUTES connect_at_once(const address &local, const address &remote,
                                      std::chrono::milliseconds time = forever)
    {
        return detail::checked("connecting", [&](std::error_code &error) {
            return connect_at_once(local, remote, time, error);
        });
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

    cq::shared sends_, receives_;
    owner handle_; /* ends before its completion queues do */
};

/** A connection request that was taken. One that gets no answer is rejected by the destructor. One
 * that was answered is empty, but for from() and attributes(). */
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

    /** Answer with a VI. After an error other than errc::timeout, where the requester has gone, the
     * request is still there. */
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
