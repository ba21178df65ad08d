// SPDX-License-Identifier: MIT
//
// A network card whose queues lie in the device, as core sees it: it takes receives when they are
// posted, chooses the handles of memory and is quiesced. No bytes move: a case says what the card
// reports, and when, and sees what it was given. It stands below a NIC handle of its own, between
// which and the card the hook is as below every device.
#ifndef VIPL_UNIT_CARD_HPP
#define VIPL_UNIT_CARD_HPP

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "internal.hpp"
#include "support/objects.hpp"

namespace unit {

inline vipl_vi *vi_of(VIP_VI_HANDLE handle)
{
    return static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, handle));
}

struct Piece {
    void *base;
    std::size_t bytes;
    VIP_MEM_HANDLE handle;

    bool operator==(const Piece &o) const { return base == o.base && bytes == o.bytes && handle == o.handle; }
};

template <class T>
std::vector<Piece> pieces_of(const T &work)
{
    std::vector<Piece> pieces;
    for (unsigned i = 0; i < work.local.count; ++i) {
        pieces.push_back({work.local.iov[i].base, work.local.iov[i].len, work.handles[i]});
    }
    return pieces;
}

inline Piece piece(const vipl_test::Span &span)
{
    return {span.data, span.size, span.handle};
}

/** Whether nothing holds this lock, now. */
inline bool is_free(vipl_mutex &lock)
{
    if (!vipl_mutex_trylock(&lock)) {
        return false;
    }
    vipl_mutex_unlock(&lock);
    return true;
}
inline bool is_free(vipl_biased &lock)
{
    return !vipl_biased_is_held(&lock);
}

class Card {
public:
    enum class Hook { around, none };
    explicit Card(Hook hook = Hook::around, bool has_queues = true);
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;

    /** What core has handed over and not been told of since. */
    struct Given {
        vipl_vi *vi;
        std::uint32_t sequence;
        bool invalid;
        std::vector<Piece> pieces;
    };

    std::vector<Given> given()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return given_;
    }
    std::vector<std::uint32_t> sequences()
    {
        std::vector<std::uint32_t> all;
        for (const Given &each : given()) {
            all.push_back(each.sequence);
        }
        return all;
    }
    /** Takes the oldest one that it has of the VI; false: there is none. */
    bool take(vipl_vi *vi, Given *out);
    void forget(const vipl_vi *vi);
    void set_room(std::size_t room)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        room_ = room;
    }

    /** Reports the oldest one done. */
    void finish(VIP_VI_HANDLE vi, std::uint32_t status = 0, std::uint32_t length = 0)
    {
        Given one{};
        if (take(vi_of(vi), &one)) {
            vipl_up_recv_done(one.vi, one.sequence, status, length, false, nullptr);
            vipl_deferred_run(); // as behind a poll
        }
    }
    /** The next poll by this thread does it. */
    void at_poll(std::function<void()> event, std::thread::id thread = std::this_thread::get_id())
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        events_.push_back({thread, std::move(event)});
    }
    /** The connection fails, as a poll by this thread finds out. */
    void fail_at_poll(VIP_VI_HANDLE handle, VIP_ERROR_CODE code = VIP_ERROR_CONN_LOST)
    {
        vipl_vi *vi = vi_of(handle);
        at_poll([=] { fail(vi, code); });
    }
    static void fail(vipl_vi *vi, VIP_ERROR_CODE code = VIP_ERROR_CONN_LOST)
    {
        vipl_up_send_lock(vi);
        vipl_up_fail(vi, code);
        vipl_up_send_unlock(vi);
    }
    /** A request for a VI like this one arrives. */
    VIP_CONN_HANDLE request(const std::string &discriminator);
    /** Connects the VI to nothing in particular. */
    VIP_RETURN connect(VIP_VI_HANDLE vi, VIP_ULONG timeout = vipl_test::patience());

    // What the card does.
    std::function<VIP_RETURN(vipl_vi *)> on_connect; // empty: connects
    std::function<VIP_RETURN(vipl_vi *)> on_accept;  // likewise
    std::function<VIP_RETURN(vipl_vi *)> on_cancel;  // empty: VIP_TIMEOUT
    std::function<void(vipl_vi *)> on_quiesce;
    std::function<enum vipl_posted(vipl_vi *, vipl_send *)> on_send; // empty: PENDING
    std::function<VIP_RETURN(vipl_region_params *)> on_add;          // empty: counts handles
    std::function<VIP_RETURN(VIP_MEM_HANDLE)> on_remove;

    // What core did.
    std::atomic<unsigned> quiesces{0}, revokes{0}, disconnects{0}, withdrawals{0}, recvs_offered{0},
        destroyed{0};
    std::atomic<std::thread::id> quiesced_by{};

    const vipl_backend *table() const { return &table_; }

private:
    struct Event {
        std::thread::id thread;
        std::function<void()> event;
    };
    static Card &of(vipl_be_nic *be) { return *reinterpret_cast<Card *>(be); }
    static void fill(vipl_backend &table);
    static void fill_connecting(vipl_backend &table);
    enum vipl_posted take_recv(vipl_vi *vi, const vipl_recv *recv);
    VIP_RETURN become_connected(vipl_vi *vi);
    bool take_event(std::function<void()> *out);
    void poll();

    std::mutex mutex_;
    std::vector<Given> given_;
    std::vector<Event> events_;
    std::size_t room_ = SIZE_MAX;
    std::atomic<VIP_MEM_HANDLE> last_handle_{0x00010000};
    vipl_limits limits_{};
    vipl_backend table_{};
    static inline Card *opening_;

public:
    const vipl_test::Nic nic; // the last: it closes while the card is there
    vipl_nic *const core;
};

inline Card::Card(Hook hook, bool has_queues)
    : nic("loopback", false), core(static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, nic.handle())))
{
    core->ops->limits(core->be, &limits_);
    vipl_store_ptr(&core->poll_filter, nullptr); // the loopback's
    core->ops->close(core->be);
    fill(table_);
    fill_connecting(table_);
    if (!has_queues) {
        table_.post_recv = nullptr;
        table_.quiesce = nullptr;
    }
    opening_ = this;
    const VIP_RETURN rc = hook == Hook::around ? vipl_backend_open(&table_, core, "", &core->ops, &core->be)
                                               : table_.open(core, "", &core->be);
    if (hook == Hook::none) {
        core->ops = &table_;
    }
    REQUIRE_VIP(rc);
}

inline bool Card::take(vipl_vi *vi, Given *out)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto each = given_.begin(); each != given_.end(); ++each) {
        if (each->vi == vi) {
            *out = *each;
            given_.erase(each);
            return true;
        }
    }
    return false;
}

inline void Card::forget(const vipl_vi *vi)
{
    Given unused;
    while (take(const_cast<vipl_vi *>(vi), &unused)) {
    }
}

inline enum vipl_posted Card::take_recv(vipl_vi *vi, const vipl_recv *recv)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    recvs_offered++;
    if (given_.size() >= room_) {
        return VIPL_POSTED_AGAIN;
    }
    given_.push_back({vi, recv->sequence, recv->invalid, pieces_of(*recv)});
    return VIPL_POSTED_PENDING;
}

/** Allocates nothing: a signal handler may poll. */
inline bool Card::take_event(std::function<void()> *out)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Event &each : events_) {
        if (each.thread == std::this_thread::get_id()) {
            *out = std::move(each.event);
            std::swap(each, events_.back());
            events_.pop_back();
            return true;
        }
    }
    return false;
}

inline void Card::poll()
{
    std::function<void()> event;
    while (take_event(&event)) {
        event();
    }
}

inline VIP_RETURN Card::become_connected(vipl_vi *vi)
{
    vipl_vi_params params;
    vipl_up_vi_params(vi, &params);
    return vipl_up_connected(vi, &params) ? VIP_SUCCESS : VIP_TIMEOUT;
}

inline VIP_RETURN Card::connect(VIP_VI_HANDLE vi, VIP_ULONG timeout)
{
    VIP_VI_ATTRIBUTES attributes{};
    return VipConnectRequest(vi, nic.address("here"), nic.address("there"), timeout, &attributes);
}

inline VIP_CONN_HANDLE Card::request(const std::string &discriminator)
{
    vipl_address local{};
    vipl_address remote{};
    const VIP_VI_ATTRIBUTES like = vipl_test::vi_attributes();
    const vipl_vi_params params = {
        like.MaxTransferSize, like.ReliabilityLevel, true, true, false, false, false};
    REQUIRE(vipl_address_read(core, nic.address(discriminator), &local));
    REQUIRE(vipl_address_read(core, nic.address("requester"), &remote));
    REQUIRE(vipl_up_conn_arrived(core, &local, &remote, &params) != nullptr);
    vipl_test::NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE conn = nullptr;
    REQUIRE_VIP(VipConnectWait(nic, nic.address(discriminator), 0, from, &attributes, &conn));
    return conn;
}

inline void Card::fill(vipl_backend &table)
{
    table.name = "card";
    table.chooses_handles = true;
    table.open = [](vipl_nic *, const char *, vipl_be_nic **out) {
        *out = reinterpret_cast<vipl_be_nic *>(opening_);
        return VIP_SUCCESS;
    };
    table.close = [](vipl_be_nic *) {};
    table.limits = [](vipl_be_nic *be, vipl_limits *out) { *out = of(be).limits_; };
    table.address = [](vipl_be_nic *be, vipl_address *out) { *out = of(be).core->address; };
    table.resolve = [](vipl_be_nic *, const char *, std::uint32_t, vipl_address *) {
        return VIP_ERROR_NAMESERVICE;
    };
    table.reverse = [](vipl_be_nic *, const vipl_address *, char *, std::size_t) {
        return VIP_ERROR_NAMESERVICE;
    };
    table.abandon = [] {};
    table.region_add = [](vipl_be_nic *be, vipl_region_params *region) {
        Card &card = of(be);
        if (card.on_add) {
            return card.on_add(region);
        }
        region->handle = card.last_handle_ += 0x10000;
        return VIP_SUCCESS;
    };
    table.region_remove = [](vipl_be_nic *be, VIP_MEM_HANDLE handle) {
        return of(be).on_remove ? of(be).on_remove(handle) : VIP_SUCCESS;
    };
    table.region_change = [](vipl_be_nic *, const vipl_region_params *) { return VIP_SUCCESS; };
    table.regions_end = [](vipl_be_nic *) { return VIP_SUCCESS; };
    table.vi_create = [](vipl_be_nic *, vipl_vi *) { return VIP_SUCCESS; };
    table.vi_destroy = [](vipl_be_nic *be, vipl_vi *) { of(be).destroyed++; };
    table.post_send = [](vipl_be_nic *be, vipl_vi *vi, vipl_send *send) {
        return of(be).on_send ? of(be).on_send(vi, send) : VIPL_POSTED_PENDING;
    };
    table.post_recv = [](vipl_be_nic *be, vipl_vi *vi, vipl_recv *recv) {
        return of(be).take_recv(vi, recv);
    };
    table.poll = [](vipl_be_nic *be) { of(be).poll(); };
    table.prepare_wait = [](vipl_be_nic *, vipl_poll_hint *hint) { *hint = {-1, -1, false}; };
    table.finish_wait = [](vipl_be_nic *, const vipl_poll_hint *) {};
}

inline void Card::fill_connecting(vipl_backend &table)
{
    table.listen = [](vipl_be_nic *, const vipl_address *) { return VIP_SUCCESS; };
    table.unlisten = [](vipl_be_nic *, const vipl_address *) {};
    table.conns_look = [](vipl_be_nic *) {};
    table.conn_taken = [](vipl_be_nic *, vipl_conn *) { return true; };
    table.conn_reject = [](vipl_be_nic *, vipl_conn *, bool) {};
    table.connect = [](vipl_be_nic *be, vipl_vi *vi, const vipl_address *, const vipl_address *,
                       vipl_connect_kind) {
        return of(be).on_connect ? of(be).on_connect(vi) : of(be).become_connected(vi);
    };
    table.connect_cancel = [](vipl_be_nic *be, vipl_vi *vi, bool withdrawn) {
        of(be).withdrawals += withdrawn ? 1 : 0;
        return of(be).on_cancel ? of(be).on_cancel(vi) : VIP_TIMEOUT;
    };
    table.conn_accept = [](vipl_be_nic *be, vipl_conn *, vipl_vi *vi) {
        return of(be).on_accept ? of(be).on_accept(vi) : of(be).become_connected(vi);
    };
    table.revoke = [](vipl_be_nic *be, vipl_vi *) { of(be).revokes++; };
    table.disconnect = [](vipl_be_nic *be, vipl_vi *) { of(be).disconnects++; };
    table.quiesce = [](vipl_be_nic *be, vipl_vi *vi) {
        Card &card = of(be);
        card.quiesces++;
        card.quiesced_by = std::this_thread::get_id();
        if (card.on_quiesce) {
            card.on_quiesce(vi);
        }
        card.forget(vi);
    };
}

} // namespace unit

#endif
