// SPDX-License-Identifier: MIT
//
// A process of the same user at the other end of a link, in this one process and thread: it has the
// link's segment mapped and writes into it what it likes. The other end is the real thing: a NIC
// handle of the loopback device with connected VIs. Fetching payloads works, for this process may
// read itself. No Catch: fuzzers use it, too.
#ifndef VIPL_UNIT_RAW_PEER_HPP
#define VIPL_UNIT_RAW_PEER_HPP

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "internal.hpp"
#include "local_ends.hpp"
#include "support/system.hpp"
#include "vipl/posix.h"
#include "vipl/vipl.h"

namespace unit {

/** The NIC handle whose peers are raw, and which makes progress only when it is told to. */
class Victim {
public:
    /** With these flags of VipxOpenNic(). */
    explicit Victim(VIP_ULONG flags = 0)
    {
        if (std::getenv("VIPL_LOG") == nullptr) {
            vipl_test::set_environment("VIPL_LOG", "off"); // errors are provoked here
        }
        must(VipxOpenNic("loopback", flags, &handle) == VIP_SUCCESS, "VipxOpenNic");
        auto *nic = static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, handle));
        nic->linger_ms = 0;                        // a raw peer does not answer by itself
        nic->progress_mode = VIPL_PROGRESS_INLINE; // one thread: what happens is the same each time
        vipl_mutex_lock(&vipl_lo_registry.lock);
        for (vipl_list *l = vipl_lo_registry.nics.next; l != &vipl_lo_registry.nics; l = l->next) {
            auto *each =
                reinterpret_cast<vipl_be_nic *>(reinterpret_cast<char *>(l) - offsetof(vipl_be_nic, link));
            be = each->core == nic ? each : be;
        }
        must(be != nullptr, "the NIC handle is of loopback");
        be->settings_ring = 65536;
        remote = vipl_lo_prepare(be);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        must(remote != nullptr, "there are resources");
    }
    ~Victim() { must(VipCloseNic(handle) == VIP_SUCCESS, "VipCloseNic"); }
    Victim(const Victim &) = delete;
    Victim &operator=(const Victim &) = delete;

    void progress() const
    {
        remote->look_at_sockets = 1; // as after a sleep
        vipl_lo_remote_poll(be);
        vipl_lo_remote_poll(be);
        vipl_deferred_run(); // as core does after a poll
    }

    VIP_NIC_HANDLE handle = nullptr;
    vipl_be_nic *be = nullptr;
    lo_remote *remote = nullptr;
};

/** The peer's end of a link to the victim. */
class RawPeer {
public:
    explicit RawPeer(const Victim &victim)
    {
        int fds[2];
        std::uint8_t uid[LO_UID];
        make_ends(fds);
        must(vipl_entropy(uid, sizeof uid) == 0, "entropy");
        fd_ = fds[1];
        vipl_mutex_lock(&vipl_lo_registry.lock);
        link = vipl_lo_link_create(victim.remote, fds[0], -1, uid);
        link->peer.mark = vipl_lo_mark; // the peer is in this process
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        must(link != nullptr, "a link");
        must(vipl_shm_attach(&shm_, link->shm.fd, link->shm.bytes, true) == 0, "the segment is mapped twice");
        shm_.fd = -1; // it is the link's
        segment = static_cast<lo_segment *>(shm_.base);
        in = view(link->out); // the link is the victim's, and may end
        out = view(link->in);
    }
    ~RawPeer()
    {
        vipl_shm_release(&shm_);
        vipl_fd_close(fd_);
    }
    RawPeer(const RawPeer &) = delete;
    RawPeer &operator=(const RawPeer &) = delete;

    /** Send a message with this payload. False: no room. */
    bool send(lo_message message, const void *payload = nullptr, std::uint32_t bytes = 0)
    {
        message.bytes = bytes;
        unsigned char *to = vipl_lo_ring_claim(&out, bytes, true);
        if (to == nullptr) {
            return false;
        }
        if (bytes > 0) {
            std::memcpy(to, payload, bytes);
        }
        vipl_lo_ring_publish(&out, &message);
        return true;
    }

    /** The next message of the victim's that is of this type, and its payload's first bytes. */
    bool receive(std::uint8_t type, lo_message &message)
    {
        const unsigned char *payload;
        bool found = false;
        while (!found && vipl_lo_ring_peek(&in, &message, &payload) == LO_PEEK_OK) {
            found = message.type == type;
            vipl_lo_ring_pop(&in, &message);
        }
        vipl_lo_ring_release(&in, true);
        return found;
    }

    void hang_up()
    {
        vipl_fd_close(fd_);
        fd_ = -1;
        settle();
    }

    size_t segment_bytes() const { return shm_.bytes; }
    /** Our end of the socket. */
    int socket() const { return fd_; }

    lo_link *link;
    lo_segment *segment;
    lo_ring in{}, out{};

private:
    lo_ring view(const lo_ring &theirs) const
    {
        const auto offset = [&](const void *p) {
            return static_cast<const char *>(p) - static_cast<const char *>(link->shm.base);
        };
        char *base = reinterpret_cast<char *>(segment);
        lo_ring ring{};
        ring.shared = reinterpret_cast<lo_ring_shared *>(base + offset(theirs.shared));
        ring.slots = reinterpret_cast<unsigned char *>(base + offset(theirs.slots));
        ring.count = theirs.count;
        ring.shift = theirs.shift;
        return ring;
    }

    vipl_shm shm_{};
    int fd_ = -1;
};

/** A VI of the victim's that is connected to the peer. */
class VictimVi {
public:
    static constexpr std::uint32_t kPeerNumber = 1 << LO_GENERATION_BITS | 5;

    VictimVi(const Victim &victim, RawPeer &peer, VIP_RELIABILITY_LEVEL level)
    {
        VIP_VI_ATTRIBUTES attributes{};
        attributes.ReliabilityLevel = level;
        attributes.MaxTransferSize = 65536;
        attributes.EnableRdmaWrite = VIP_TRUE;
        attributes.EnableRdmaRead = level == VIP_SERVICE_UNRELIABLE ? VIP_FALSE : VIP_TRUE;
        must(VipCreateVi(victim.handle, &attributes, nullptr, nullptr, &handle) == VIP_SUCCESS,
             "VipCreateVi");
        connect(peer);
    }
    ~VictimVi()
    {
        VipDisconnect(handle);
        VIP_DESCRIPTOR *done;
        while (VipSendDone(handle, &done) != VIP_NOT_DONE || VipRecvDone(handle, &done) != VIP_NOT_DONE) {
        }
        must(VipDestroyVi(handle) == VIP_SUCCESS, "VipDestroyVi");
    }
    VictimVi(const VictimVi &) = delete;
    VictimVi &operator=(const VictimVi &) = delete;

    VIP_VI_STATE state() const
    {
        VIP_VI_STATE state;
        must(VipQueryVi(handle, &state, nullptr, nullptr, nullptr) == VIP_SUCCESS, "VipQueryVi");
        return state;
    }

    VIP_VI_HANDLE handle = nullptr;
    std::uint32_t number = 0; // of its session

private:
    /** The VI is connected as if it had asked, and the peer had answered. */
    void connect(RawPeer &peer)
    {
        vipl_vi_params params{};
        auto *vi = static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, handle));
        vipl_mutex_lock(&vipl_lo_registry.lock);
        vipl_up_vi_params(vi, &params);
        vipl_vi_lock(vi);
        vi->state = VIP_STATE_CONNECT_PENDING;
        vipl_vi_unlock(vi);
        lo_session *session = vipl_lo_session_open(peer.link, vi, kPeerNumber, &params, 0, nullptr);
        must(session != nullptr, "a session");
        number = session->number;
        vipl_biased_lock(&lo_remote_of(session->link->be)->rx);
        vipl_lo_session_begin_locked(session);
        vipl_biased_unlock(&lo_remote_of(session->link->be)->rx);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        must(vipl_up_connected(vi, &params), "the VI is connected");
    }
};

/** A message for it that is whole, and is to be acknowledged. */
inline lo_message whole_send(const VictimVi &to, std::uint32_t total)
{
    lo_message message{};
    message.type = LO_SEND;
    message.flags = LO_FLAG_LAST | LO_FLAG_ACK;
    message.session = to.number;
    message.slot = lo_slot_name(9, 0);
    message.total = total;
    return message;
}

/** Registered memory of the victim's with guards around it, and descriptors in it. */
class VictimMemory {
public:
    static constexpr size_t kGuard = 16384, kBytes = 65536;
    static constexpr unsigned char kGuardByte = 0xE7;

    explicit VictimMemory(const Victim &victim) : nic_(victim.handle), all_(2 * kGuard + kBytes, kGuardByte)
    {
        VIP_MEM_ATTRIBUTES attributes{};
        attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_TRUE;
        must(VipRegisterMem(nic_, data(), kBytes, &attributes, &handle) == VIP_SUCCESS, "VipRegisterMem");
        attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE;
        must(VipRegisterMem(nic_, descriptors_, sizeof descriptors_, &attributes, &desc_handle_) ==
                 VIP_SUCCESS,
             "VipRegisterMem");
    }
    ~VictimMemory()
    {
        deregister();
        VipDeregisterMem(nic_, descriptors_, desc_handle_);
    }
    VictimMemory(const VictimMemory &) = delete;
    VictimMemory &operator=(const VictimMemory &) = delete;

    unsigned char *data() { return all_.data() + kGuard; }
    std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(data()); }

    /** Whether everything outside of [from, to) of the region is as it was at first. */
    bool is_whole(size_t from = 0, size_t to = kBytes) const
    {
        for (size_t i = 0; i < all_.size(); ++i) {
            if ((i < kGuard + from || i >= kGuard + to) && all_[i] != kGuardByte) {
                return false;
            }
        }
        return true;
    }

    void deregister() { VipDeregisterMem(nic_, data(), handle); }

    /** A receive, or a send, of bytes of the region. */
    VIP_DESCRIPTOR *transfer(size_t offset, std::uint32_t bytes)
    {
        VIP_DESCRIPTOR *d = &descriptors_[used_++ % kDescriptors];
        std::memset(d, 0, sizeof *d);
        d->CS.SegCount = 1;
        d->CS.Length = bytes;
        d->DS[0].Local.Data.Address = data() + offset;
        d->DS[0].Local.Handle = handle;
        d->DS[0].Local.Length = bytes;
        return d;
    }
    void post_recv(const VictimVi &vi, size_t offset, std::uint32_t bytes)
    {
        must(VipPostRecv(vi.handle, transfer(offset, bytes), desc_handle_) == VIP_SUCCESS, "VipPostRecv");
    }
    VIP_RETURN post_send(const VictimVi &vi, size_t offset, std::uint32_t bytes)
    {
        return VipPostSend(vi.handle, transfer(offset, bytes), desc_handle_);
    }

    /** An RDMA Write to nowhere, of bytes of the region, or of other memory that is registered. */
    VIP_RETURN post_write(const VictimVi &vi, std::uint32_t bytes, void *other, VIP_MEM_HANDLE other_handle)
    {
        VIP_DESCRIPTOR *d = transfer(0, bytes);
        d->CS.SegCount = 2;
        d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
        d->DS[1] = d->DS[0];
        if (other != nullptr) {
            d->DS[1].Local.Data.Address = other;
            d->DS[1].Local.Handle = other_handle;
        }
        d->DS[0] = {};
        return VipPostSend(vi.handle, d, desc_handle_);
    }

    VIP_MEM_HANDLE handle = 0;

private:
    static constexpr unsigned kDescriptors = 1024;
    VIP_NIC_HANDLE nic_;
    std::vector<unsigned char> all_;
    alignas(64) VIP_DESCRIPTOR descriptors_[kDescriptors];
    VIP_MEM_HANDLE desc_handle_ = 0;
    unsigned used_ = 0;
};

} // namespace unit

#endif
