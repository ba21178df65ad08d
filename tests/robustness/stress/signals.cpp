// SPDX-License-Identifier: MIT
//
// A timer signal every 200 us. Its handler posts, reaps and queries on the VIs that the main
// program is using, and calls the functions that are not for handlers too; the main program goes
// through all calls there are, blocking or not. Nothing hangs, every message arrives once, and who
// may not run says so. VIPL_STRESS_SECONDS says how long.
#include "stress.hpp"

#include <array>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include <signal.h>
#include <time.h>

#include <vipl/posix.h>

#include "support/not_for_handlers.hpp"

using namespace stress;

namespace {

constexpr long kPeriodNs = 200 * 1000;
constexpr unsigned kReceives = 64, kSends = 16; // sends: of each, the main program and the handler
constexpr size_t kMost = size_t{1} << 24;       // messages of one origin that are told apart

enum Origin : VIP_UINT32 { main_program, handler, origins };

struct Message {
    VIP_UINT32 origin;
    VIP_UINT32 number;
};

// --- what a handler may do: no exceptions, no allocation -----------------------------------------

/** The first thing that went wrong in a handler. */
std::atomic<const char *> g_wrong{nullptr};

void require(bool good, const char *what)
{
    const char *none = nullptr;
    if (!good) {
        g_wrong.compare_exchange_strong(none, what);
    }
}

void expect_nothing_wrong()
{
    const char *what = g_wrong.load();
    if (what != nullptr) {
        throw Failure(std::string("in a handler, or of what it shares: ") + what);
    }
}

/** Messages that have come, of one origin. A handler marks them too. */
struct Seen {
    std::unique_ptr<std::bitset<kMost>> bits = std::make_unique<std::bitset<kMost>>();
    std::atomic<VIP_UINT32> count{0};

    void mark(VIP_UINT32 number)
    {
        require(number < kMost && !bits->test(number % kMost), "a message came twice");
        bits->set(number % kMost);
        count.fetch_add(1);
    }
};

VIP_VI_ATTRIBUTES plain()
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE;
    return attributes;
}

/**
 * One end of a connection, used by its thread and by the handler that interrupts it. Who finds a
 * completion takes note of it; who cannot post again leaves that to the other.
 */
class Station {
public:
    explicit Station(const Nic &nic, bool with_cq = false)
        : cq_(with_cq ? std::make_unique<Cq>(nic, 1024) : nullptr), memory_(nic),
          vi(nic, plain(), nullptr, with_cq ? static_cast<VIP_CQ_HANDLE>(*cq_) : nullptr)
    {
        for (Work &work : receives_) {
            work = memory_.transfer(memory_.bytes(sizeof(Message)));
            post_recv(vi, work);
        }
        for (auto &of_origin : sends_) {
            for (Work &work : of_origin) {
                work = memory_.transfer(memory_.bytes(sizeof(Message)));
            }
        }
    }

    /** How many more messages the peer has receives for. It is the peer's, in shared memory
     * perhaps. */
    void expect_credits(std::atomic<int> *peers, std::atomic<int> *mine)
    {
        credits_ = peers;
        granted_ = mine;
        granted_->store(kReceives);
    }

    /** False: there is no room, or the library is busy below. */
    bool send(Origin origin)
    {
        const unsigned slot = free_slot(origin);
        if (slot == kSends || sent_[origin] >= kMost) {
            return false;
        }
        if (credits_->fetch_sub(1) <= 0) {
            credits_->fetch_add(1);
            return false;
        }
        Work &work = sends_[origin][slot];
        const Message message = {origin, sent_[origin]};
        std::memcpy(work.buffer.data, &message, sizeof message);
        busy_[origin][slot].store(true);
        const VIP_RETURN rc = VipPostSend(vi, work.desc, work.handle);
        if (rc != VIP_SUCCESS) {
            require(rc == VIP_ERROR_RESOURCE && origin == handler, "VipPostSend");
            busy_[origin][slot].store(false);
            credits_->fetch_add(1);
            return false;
        }
        sent_[origin] = sent_[origin] + 1;
        return true;
    }

    void was_sent(VIP_RETURN rc, const VIP_DESCRIPTOR *desc)
    {
        require(rc == VIP_SUCCESS && (desc->CS.Status & VIP_STATUS_ERROR_MASK) == 0, "a send failed");
        for (unsigned origin = 0; origin < origins; ++origin) {
            for (unsigned i = 0; i < kSends; ++i) {
                if (sends_[origin][i].desc == desc) {
                    require(busy_[origin][i].exchange(false), "a send completed twice");
                    return;
                }
            }
        }
        require(false, "a descriptor that was not sent");
    }

    void was_received(VIP_RETURN rc, const VIP_DESCRIPTOR *desc)
    {
        require(rc == VIP_SUCCESS && (desc->CS.Status & VIP_STATUS_ERROR_MASK) == 0, "a receive failed");
        for (unsigned i = 0; i < kReceives; ++i) {
            if (receives_[i].desc == desc) {
                Message message;
                std::memcpy(&message, receives_[i].buffer.data, sizeof message);
                require(message.origin < origins, "a message of nobody");
                seen_[message.origin % origins].mark(message.number);
                to_post_[i].store(true);
                return;
            }
        }
        require(false, "a descriptor that was not posted");
    }

    /** Posts again what has been received. */
    void repost(Origin who)
    {
        for (unsigned i = 0; i < kReceives; ++i) {
            if (!to_post_[i].exchange(false)) {
                continue;
            }
            const VIP_RETURN rc = VipPostRecv(vi, receives_[i].desc, receives_[i].handle);
            if (rc == VIP_SUCCESS) {
                granted_->fetch_add(1);
            } else {
                require(rc == VIP_ERROR_RESOURCE && who == handler, "VipPostRecv");
                to_post_[i].store(true);
            }
        }
    }

    bool reap_send()
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendDone(vi, &done);
        if (rc != VIP_NOT_DONE) {
            was_sent(rc, done);
        }
        return rc != VIP_NOT_DONE;
    }

    bool reap_receive()
    {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipRecvDone(vi, &done);
        if (rc != VIP_NOT_DONE) {
            was_received(rc, done);
        }
        return rc != VIP_NOT_DONE;
    }

    /** Takes an entry of the completion queue; what it stands for is reaped by whoever comes
     * first. */
    bool look_at_cq()
    {
        VIP_VI_HANDLE found = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        if (cq_ == nullptr || VipCQDone(*cq_, &found, &recv) == VIP_NOT_DONE) {
            return false;
        }
        require(found == vi && recv == VIP_TRUE, "VipCQDone");
        reap_receive();
        return true;
    }

    void work_as_handler()
    {
        look_at_cq();
        reap_send();
        reap_receive();
        repost(handler);
        send(handler);
        VIP_VI_STATE state = VIP_STATE_ERROR;
        const VIP_RETURN rc = VipQueryVi(vi, &state, nullptr, nullptr, nullptr);
        require(rc == VIP_ERROR_RESOURCE || (rc == VIP_SUCCESS && state == VIP_STATE_CONNECTED),
                "VipQueryVi");
    }

    /** Takes what is there until everything has come. */
    void drain(const std::array<VIP_UINT32, origins> &expected)
    {
        const unsigned long long end = now_ms() + patience();
        while (seen_[main_program].count.load() < expected[main_program] ||
               seen_[handler].count.load() < expected[handler] || busy()) {
            look_at_cq();
            reap_send();
            reap_receive();
            repost(main_program);
            if (now_ms() >= end) {
                throw Failure("lost: " + std::to_string(expected[main_program]) + "+" +
                              std::to_string(expected[handler]) + " sent, " +
                              std::to_string(seen_[main_program].count.load()) + "+" +
                              std::to_string(seen_[handler].count.load()) + " received");
            }
        }
        EXPECT_EQ(expected[main_program], seen_[main_program].count.load());
        EXPECT_EQ(expected[handler], seen_[handler].count.load());
    }

    std::array<VIP_UINT32, origins> sent() const { return {sent_[main_program], sent_[handler]}; }
    VIP_CQ_HANDLE cq() const { return cq_ == nullptr ? nullptr : static_cast<VIP_CQ_HANDLE>(*cq_); }

private:
    unsigned free_slot(Origin origin) const
    {
        unsigned i = 0;
        while (i < kSends && busy_[origin][i].load()) {
            ++i;
        }
        return i;
    }

    bool busy() const
    {
        return free_slot(main_program) != kSends && [this] {
            for (const auto &of_origin : busy_) {
                for (const std::atomic<bool> &one : of_origin) {
                    if (one.load()) {
                        return true;
                    }
                }
            }
            return false;
        }();
    }

    std::unique_ptr<Cq> cq_;
    Memory memory_;
    std::array<Work, kReceives> receives_;
    std::array<std::atomic<bool>, kReceives> to_post_{};
    std::array<std::array<Work, kSends>, origins> sends_;
    std::array<std::array<std::atomic<bool>, kSends>, origins> busy_{};
    std::array<Seen, origins> seen_;
    volatile VIP_UINT32 sent_[origins] = {};
    std::atomic<int> *credits_ = nullptr, *granted_ = nullptr;

public:
    Vi vi;
};

// --- the bombardment -----------------------------------------------------------------------------

volatile std::sig_atomic_t g_in_call =
    0; // the main program is in a call, or about to be, and not in malloc()
Station *volatile g_stations[2] = {};
Bystander *volatile g_bystander = nullptr;
volatile VIP_VI_HANDLE g_growing = nullptr; // an idle VI to which handlers post, more and more
Work g_any;
volatile unsigned g_handlers = 0, g_refused = 0, g_allowed = 0;

void on_signal(int)
{
    const int saved = errno;
    const unsigned n = g_handlers;
    g_handlers = n + 1;
    for (Station *station : g_stations) {
        if (station != nullptr) {
            station->work_as_handler();
        }
    }
    if (g_growing != nullptr) {
        for (int i = 0; i < 3; ++i) {
            const VIP_RETURN rc = VipPostRecv(g_growing, g_any.desc, g_any.handle);
            require(rc == VIP_SUCCESS || rc == VIP_ERROR_RESOURCE || rc == VIP_INVALID_PARAMETER,
                    "VipPostRecv");
        }
    }
    Bystander *const bystander = g_bystander;
    if (g_in_call != 0 && bystander != nullptr) {
        const VIP_RETURN rc = kNotForHandlers[n % kNotForHandlersCount].call(*bystander);
        (rc == VIP_ERROR_NOT_SUPPORTED ? g_refused : g_allowed) += 1;
        require(rc != VIP_INTERRUPTED && rc != VIP_NOT_DONE, "a call that is not for handlers");
    }
    errno = saved;
}

sigset_t just_ours()
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return set;
}

/** The timer, and a thread that ends the process if the main program makes no headway. */
class Bombardment {
public:
    Bombardment(std::initializer_list<Station *> stations, Bystander &bystander)
    {
        size_t i = 0;
        for (Station *station : stations) {
            g_stations[i++] = station;
        }
        g_bystander = &bystander;
        (void)VipSendWait(bystander.vi, 0,
                          &bystander.descriptor); // a thread's first sleep takes memory: not in a handler
        const sigset_t ours = just_ours();
        pthread_sigmask(SIG_BLOCK, &ours, nullptr); // for the threads from here on
        watchdog_ = std::thread([this] { watch(); });
    }
    ~Bombardment()
    {
        end();
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            over_ = true;
        }
        ended_.notify_all();
        watchdog_.join();
    }
    Bombardment(const Bombardment &) = delete;
    Bombardment &operator=(const Bombardment &) = delete;

    /** Signals come from now on. */
    void begin()
    {
        struct sigaction action = {};
        action.sa_handler = on_signal;
        sigaction(SIGUSR2, &action, nullptr);
        sigevent event = {};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGUSR2;
        EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0);
        running_ = true;
        const long period = kPeriodNs * static_cast<long>(slowness());
        const itimerspec when = {{0, period}, {0, period}};
        const sigset_t ours = just_ours();
        pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
        EXPECT(timer_settime(timer_, 0, &when, nullptr) == 0);
    }

    void end()
    {
        const sigset_t ours = just_ours();
        pthread_sigmask(SIG_BLOCK, &ours, nullptr);
        if (running_) {
            timer_delete(timer_);
            running_ = false;
        }
        for (Station *volatile &station : g_stations) {
            station = nullptr;
        }
        g_bystander = nullptr;
        g_growing = nullptr;
        signal(SIGUSR2, SIG_IGN); // takes a pending one away
    }

    void headway() { steps_.fetch_add(1); }

private:
    /** Looks once in that time: none between two looks ends the process. */
    void watch()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        unsigned long last = 0;
        while (!ended_.wait_for(lock, std::chrono::milliseconds(patience()), [this] { return over_; })) {
            const unsigned long now = steps_.load();
            if (now == last) {
                std::cerr << "no headway after " << now << " steps, " << g_handlers << " handlers"
                          << std::endl;
                std::abort();
            }
            last = now;
        }
    }

    timer_t timer_{};
    bool running_ = false;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool over_ = false; // under mutex_
    std::atomic<unsigned long> steps_{0};
    std::thread watchdog_;
};

/** While the main program is in there, handlers call everything. */
template <class Call>
auto open_to_handlers(Call call)
{
    g_in_call = 1;
    auto result = call();
    g_in_call = 0;
    return result;
}

// --- what the main program does ------------------------------------------------------------------

VIP_ULONG short_time(Random &random)
{
    return static_cast<VIP_ULONG>(below(random, 3));
}

void wait_for_a_send(Station &station, Random &random)
{
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = open_to_handlers([&] {
        return below(random, 2) == 0 ? VipSendWait(station.vi, short_time(random), &done)
                                     : VipxSendWaitMask(station.vi, short_time(random), nullptr, &done);
    });
    if (rc != VIP_TIMEOUT && rc != VIP_INTERRUPTED) {
        station.was_sent(rc, done);
    }
}

void wait_for_a_receive(Station &station, Random &random)
{
    VIP_DESCRIPTOR *done = nullptr;
    if (station.cq() != nullptr) {
        VIP_VI_HANDLE found = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        const VIP_RETURN rc = open_to_handlers([&] {
            return below(random, 2) == 0
                       ? VipCQWait(station.cq(), short_time(random), &found, &recv)
                       : VipxCQWaitMask(station.cq(), short_time(random), nullptr, &found, &recv);
        });
        EXPECT(rc == VIP_TIMEOUT || rc == VIP_INTERRUPTED || (rc == VIP_SUCCESS && found == station.vi));
        station.reap_receive();
        return;
    }
    const VIP_RETURN rc = open_to_handlers([&] {
        return below(random, 2) == 0 ? VipRecvWait(station.vi, short_time(random), &done)
                                     : VipxRecvWaitMask(station.vi, short_time(random), nullptr, &done);
    });
    if (rc != VIP_TIMEOUT && rc != VIP_INTERRUPTED) {
        station.was_received(rc, done);
    }
}

/** One of the things that programs do with a connection. */
void exchange(Station &station, Random &random)
{
    switch (below(random, 8)) {
    case 0:
        wait_for_a_send(station, random);
        break;
    case 1:
        wait_for_a_receive(station, random);
        break;
    case 2:
        open_to_handlers([&] { return station.look_at_cq(); });
        break;
    case 3:
        open_to_handlers([&] { return station.reap_receive(); });
        break;
    case 4:
        open_to_handlers([&] { return station.reap_send(); });
        break;
    default:
        open_to_handlers([&] { return station.send(main_program); });
        break;
    }
    station.repost(main_program);
    EXPECT(station.vi.state() == VIP_STATE_CONNECTED);
}

/** Calls that change or ask something, on objects of their own. */
void manage(Bystander &b, Random &random)
{
    static VIP_UINT8 bytes[256];
    VIP_PROTECTION_HANDLE tag = nullptr;
    VIP_MEM_HANDLE memory = 0;
    VIP_MEM_ATTRIBUTES attributes = {};
    REQUIRE_VIP(open_to_handlers([&] { return VipCreatePtag(b.nic, &tag); }));
    attributes.Ptag = tag;
    REQUIRE_VIP(
        open_to_handlers([&] { return VipRegisterMem(b.nic, bytes, sizeof bytes, &attributes, &memory); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipSetMemAttributes(b.nic, bytes, memory, &attributes); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipQueryMem(b.nic, bytes, memory, &attributes); }));
    VIP_VI_ATTRIBUTES vi_attributes = plain();
    vi_attributes.Ptag = tag;
    VIP_VI_HANDLE vi = nullptr;
    VIP_CQ_HANDLE cq = nullptr;
    REQUIRE_VIP(open_to_handlers([&] { return VipCreateCQ(b.nic, 16, &cq); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipCreateVi(b.nic, &vi_attributes, cq, cq, &vi); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipSetViAttributes(vi, &vi_attributes); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipSetUserData(vi, &b); }));
    EXPECT(open_to_handlers([&] { return VipGetUserData(vi); }) == &b);
    REQUIRE_VIP(open_to_handlers([&] { return VipResizeCQ(cq, 32); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipDestroyVi(vi); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipDestroyCQ(cq); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipDeregisterMem(b.nic, bytes, memory); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipDestroyPtag(b.nic, tag); }));
    if (below(random, 8) == 0) {
        VIP_NIC_HANDLE nic = nullptr;
        REQUIRE_VIP(open_to_handlers([&] { return VipOpenNic(device_under_test(), &nic); }));
        REQUIRE_VIP(open_to_handlers([&] { return VipCloseNic(nic); }));
    }
}

/** A VI whose queues handlers make grow, while the main program is in malloc() now and then. */
class Growing {
public:
    explicit Growing(Bystander &bystander) : bystander_(bystander) { g_any = bystander.memory.work(0); }
    ~Growing() { g_growing = nullptr; }
    Growing(const Growing &) = delete;
    Growing &operator=(const Growing &) = delete;

    void renew()
    {
        g_growing = nullptr;
        vi_ = std::make_unique<Vi>(bystander_.nic, plain());
        g_growing = static_cast<VIP_VI_HANDLE>(*vi_);
    }

    /** Under AddressSanitizer the library's heap is the C library's. */
    static void churn_heap(Random &random)
    {
#ifndef __SANITIZE_ADDRESS__
        static std::array<void *, 64> blocks;
        for (int i = 0; i < 100; ++i) {
            void *&block = blocks[below(random, blocks.size())];
            std::free(block);
            block = std::malloc(16 + below(random, 100000));
        }
#else
        (void)random;
#endif
    }

private:
    Bystander &bystander_;
    std::unique_ptr<Vi> vi_;
};

/** Connects that nobody answers: a handler ends them, or their time does. */
void connect_in_vain(Bystander &b, Random &random, const std::string &nobody)
{
    NetAddress local = b.nic.address("me"), remote = b.nic.address(nobody), from;
    VIP_VI_ATTRIBUTES attributes = {};
    VIP_CONN_HANDLE connection = nullptr;
    const Vi vi(b.nic, plain());
    VIP_RETURN rc = open_to_handlers(
        [&] { return VipConnectWait(b.nic, remote, short_time(random), from, &attributes, &connection); });
    EXPECT(rc == VIP_TIMEOUT || rc == VIP_INTERRUPTED);
    rc = open_to_handlers(
        [&] { return VipConnectRequest(vi, local, remote, 1 + short_time(random), &attributes); });
    EXPECT(rc == VIP_TIMEOUT || rc == VIP_INTERRUPTED || rc == VIP_NO_MATCH || rc == VIP_NOT_REACHABLE);
    EXPECT(vi.state() == VIP_STATE_IDLE);
    REQUIRE_VIP(open_to_handlers([&] { return VipConnectPeerRequest(vi, local, remote, 3); }));
    do {
        rc = open_to_handlers([&] { return VipConnectPeerWait(vi, &attributes); });
    } while (rc == VIP_INTERRUPTED && below(random, 4) != 0);
    EXPECT(rc == VIP_TIMEOUT || rc == VIP_INTERRUPTED || rc == VIP_NO_MATCH || rc == VIP_NOT_REACHABLE);
    REQUIRE_VIP(open_to_handlers([&] { return VipDisconnect(vi); }));
}

/** A thread that accepts, echoes one message, and lets the requester disconnect. Signals do not
 * reach it. */
class Host {
public:
    Host() : name(unique_discriminator()), thread_([this] { serve(); }) {}
    ~Host()
    {
        over_ = true;
        thread_.join();
    }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    Nic nic;
    const std::string name;

private:
    void serve()
    {
        Memory memory(nic, 8192);
        const Work in = memory.transfer(memory.bytes(8)), out = memory.transfer(memory.bytes(8));
        while (!over_) {
            const Vi vi(nic, plain());
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(VipPostRecv(vi, in.desc, in.handle));
            if (accept_on(nic, name, vi, 20) != VIP_SUCCESS ||
                VipRecvWait(vi, patience(), &done) != VIP_SUCCESS) {
                VipDisconnect(vi);
                continue;
            }
            VipPostSend(vi, out.desc, out.handle);
            VipSendWait(vi, patience(), &done);
            while (vi.state() == VIP_STATE_CONNECTED) {
                let_a_moment_pass();
            }
            VipDisconnect(vi);
        }
    }

    std::atomic<bool> over_{false};
    std::thread thread_;
};

/** A connection from its begin to its end, by calls that resume. */
void connect_and_leave(Nic &nic, Memory &memory, const Work &in, const Work &out, const Host &host)
{
    const Vi vi(nic, plain());
    VIP_DESCRIPTOR *done = nullptr;
    (void)memory;
    REQUIRE_VIP(VipxSetRestart(nic, VIP_TRUE));
    REQUIRE_VIP(open_to_handlers([&] { return VipPostRecv(vi, in.desc, in.handle); }));
    REQUIRE_VIP(open_to_handlers([&] { return request_to(nic, host.name, vi); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipPostSend(vi, out.desc, out.handle); }));
    REQUIRE_VIP(open_to_handlers([&] { return VipRecvWait(vi, patience(), &done); }));
    EXPECT(done == in.desc);
    REQUIRE_VIP(open_to_handlers([&] { return VipSendWait(vi, patience(), &done); }));
    EXPECT(done == out.desc);
    REQUIRE_VIP(open_to_handlers([&] { return VipDisconnect(vi); }));
}

void report(const Station &station)
{
    std::cout << station.sent()[main_program] << " messages of the program, " << station.sent()[handler]
              << " of " << g_handlers << " handlers; " << g_refused << " calls refused, " << g_allowed
              << " not" << std::endl;
}

void start_counting()
{
    g_handlers = g_refused = g_allowed = 0;
    g_wrong = nullptr;
}

void bombard_in_one_process(bool with_cq)
{
    start_counting();
    static std::atomic<int> credits[2];
    Nic nics[2];
    Bystander bystander(plain());
    Station left(nics[0], with_cq), right(nics[1], with_cq);
    left.expect_credits(&credits[0], &credits[1]);
    right.expect_credits(&credits[1], &credits[0]);
    connect_pair(nics[0], left.vi, nics[1], right.vi);
    Random random(seed());
    const std::string nobody = unique_discriminator();
    Bombardment bombardment({&left, &right}, bystander);
    const Host host;
    Growing growing(bystander);
    Nic resuming;
    Memory memory(resuming, 8192);
    const Work in = memory.transfer(memory.bytes(8)), out = memory.transfer(memory.bytes(8));
    const unsigned long long end = now_ms() + 1000ull * seconds();
    bombardment.begin();
    for (unsigned i = 0; now_ms() < end; ++i) {
        exchange(left, random);
        exchange(right, random);
        Growing::churn_heap(random);
        if (i % 16 == 0) {
            growing.renew();
        }
        if (i % 64 == 0) {
            manage(bystander, random);
        } else if (i % 64 == 32) {
            connect_in_vain(bystander, random, nobody);
        } else if (i % 256 == 17) {
            connect_and_leave(resuming, memory, in, out, host);
        }
        bombardment.headway();
        expect_nothing_wrong();
    }
    bombardment.end();
    report(left);
    left.drain(right.sent());
    right.drain(left.sent());
    left.drain(right.sent()); // the last of the sends
    expect_nothing_wrong();
    EXPECT(g_handlers > 0 && g_refused > 0);
    EXPECT(left.sent()[main_program] > 0 && left.sent()[handler] > 0);
}

/** Both sides of a connection between two processes, each bombarded. */
struct Board {
    std::atomic<int> credits[2];
};

void run_side(Line &line, bool is_server, const std::string &name)
{
    start_counting();
    const Nic nic;
    Bystander bystander(plain());
    Station station(nic);
    Board &ring = shared<Board>();
    station.expect_credits(&ring.credits[is_server ? 0 : 1], &ring.credits[is_server ? 1 : 0]);
    REQUIRE_VIP(is_server ? accept_on(nic, name, station.vi) : request_to(nic, name, station.vi));
    line.sync();
    Random random(seed() + (is_server ? 1 : 0));
    {
        Bombardment bombardment({&station}, bystander);
        const unsigned long long end = now_ms() + 1000ull * seconds();
        bombardment.begin();
        for (unsigned i = 0; now_ms() < end; ++i) {
            exchange(station, random);
            if (i % 64 == 0) {
                manage(bystander, random);
            }
            bombardment.headway();
            expect_nothing_wrong();
        }
    }
    line.send(station.sent());
    const auto expected = line.receive<std::array<VIP_UINT32, origins>>();
    station.drain(expected);
    if (is_server) {
        report(station);
    }
    EXPECT(g_handlers > 0 && station.sent()[handler] > 0);
    expect_nothing_wrong();
    line.sync();
}

void client(const Scene &scene, Line &line)
{
    run_side(line, false, scene.name());
}

} // namespace

TEST_CASE("a signal every 200 us, whose handler posts and reaps, while all calls are made: nothing is lost",
          "[signals]")
{
    bombard_in_one_process(false);
}

TEST_CASE("the same with completion queues", "[signals]")
{
    bombard_in_one_process(true);
}

TEST_CASE("the same in both of two processes", "[signals]")
{
    const Scene scene = make_scene();
    Child child(client, scene);
    run_side(child.line, true, scene.name());
    child.finish();
}

TEST_CASE("the same in both of two processes, through the rings", "[signals]")
{
    const Scene scene = make_scene("off");
    use_pull("off");
    Child child(client, scene);
    run_side(child.line, true, scene.name());
    child.finish();
    use_pull("");
}
