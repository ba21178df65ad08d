// SPDX-License-Identifier: MIT
//
// POSIX extensions: which threads there are and what for, threads that are cancelled, and objects
// that end under who waits for them.
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "conformance/notify_log.hpp"
#include "new_threads.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

size_t descriptor_count()
{
    return entries_of("/proc/self/fd").size();
}

/** An environment variable, for the life of the object. */
class Environment {
public:
    Environment(const char *name, const char *value) : name_(name) { setenv(name, value, 1); }
    ~Environment() { unsetenv(name_); }
    Environment(const Environment &) = delete;
    Environment &operator=(const Environment &) = delete;

private:
    const char *name_;
};

VIP_VI_ATTRIBUTES without_rdma()
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE;
    return attributes;
}

/** Connects two VIs of this thread, without another. */
void connect_alone(const Nic &left_nic, VIP_VI_HANDLE left, const Nic &right_nic, VIP_VI_HANDLE right)
{
    const std::string name = unique_discriminator();
    NetAddress one = left_nic.address(name + "l"), other = right_nic.address(name + "r");
    REQUIRE_VIP(VipConnectPeerRequest(left, one, other, patience()));
    REQUIRE_VIP(VipConnectPeerRequest(right, other, one, patience()));
    VIP_RETURN left_rc = VIP_NOT_DONE, right_rc = VIP_NOT_DONE;
    while (left_rc == VIP_NOT_DONE || right_rc == VIP_NOT_DONE) {
        left_rc = left_rc == VIP_NOT_DONE ? VipConnectPeerDone(left, nullptr) : left_rc;
        right_rc = right_rc == VIP_NOT_DONE ? VipConnectPeerDone(right, nullptr) : right_rc;
    }
    REQUIRE_VIP(left_rc);
    REQUIRE_VIP(right_rc);
}

void VI_CALL on_error(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}

} // namespace

/** A connection of tcp gives its NIC handle a thread, which sees off what a program leaves
 * behind. */
size_t connected(size_t handles)
{
    return device_is_loopback() ? 0 : handles;
}

TEST_CASE("a program without callbacks and RDMA has no thread but the device's", "[VipOpenNic][posix]")
{
    const NewThreads threads;
    const Nic left_nic, right_nic;
    Memory left_memory(left_nic), right_memory(right_nic);
    const Cq cq(right_nic);
    const Vi left(left_nic, without_rdma()), right(right_nic, without_rdma(), nullptr, cq);
    connect_alone(left_nic, left, right_nic, right);
    for (int i = 0; i < 100; ++i) {
        const Work in = right_memory.transfer(right_memory.bytes(64));
        post_recv(right, in);
        post_send(left, left_memory.transfer(left_memory.bytes(64)));
        sent(left);
        cq.expect(right, VIP_TRUE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(right, &done));
    }
    REQUIRE_VIP(VipErrorCallback(left_nic, nullptr, nullptr)); // the default handler
    EXPECT_EQ(connected(2), threads.count());
    REQUIRE_VIP(VipDisconnect(left));
    right.await(VIP_STATE_ERROR);
    REQUIRE_VIP(VipDisconnect(right));
    EXPECT_EQ(connected(2), threads.count());
}

TEST_CASE("with VIPX_INLINE the library has no thread, and refuses what needs one", "[VipxOpenNic][posix]")
{
    const NewThreads threads;
    const Nic::Flags flags{VIPX_INLINE};
    const Nic left_nic(device_under_test(), flags), right_nic(device_under_test(), flags);
    Memory left_memory(left_nic, 256 * 1024, rdma_memory()),
        right_memory(right_nic, 256 * 1024, rdma_memory());
    const Cq cq(right_nic);
    const Vi left(left_nic), right(right_nic, vi_attributes(), nullptr, cq);
    connect_alone(left_nic, left, right_nic, right);
    post_recv(right, right_memory.transfer(right_memory.bytes(64)));
    post_send(left, left_memory.transfer(left_memory.bytes(64)));
    sent(left);
    cq.expect(right, VIP_TRUE);
    int fd = -1;
    NotifyLog log;
    EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, VipxGetFd(VIPX_FD_CQ, cq, &fd));
    EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, VipErrorCallback(left_nic, nullptr, on_error));
    EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, VipSendNotify(left, log.context(), NotifyLog::vi_handler));
    EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, VipCQNotify(cq, log.context(), NotifyLog::cq_handler));
    EXPECT_EQ(0U, threads.count());
}

TEST_CASE("each NIC handle that is asked for asynchrony has one thread, which ends with it",
          "[VipRecvNotify][posix]")
{
    using Ask = void (*)(const Nic &, NotifyLog &);
    static const Ask asks[] = {
        [](const Nic &nic, NotifyLog &) { REQUIRE_VIP(VipErrorCallback(nic, nullptr, on_error)); },
        [](const Nic &nic, NotifyLog &log) {
            const Vi vi(nic);
            REQUIRE_VIP(VipSendNotify(vi, log.context(), NotifyLog::vi_handler));
        },
        [](const Nic &nic, NotifyLog &log) {
            const Vi vi(nic);
            REQUIRE_VIP(VipRecvNotify(vi, log.context(), NotifyLog::vi_handler));
        },
        [](const Nic &nic, NotifyLog &log) {
            const Cq cq(nic);
            REQUIRE_VIP(VipCQNotify(cq, log.context(), NotifyLog::cq_handler));
        },
    };
    NotifyLog log;
    const NewThreads threads;
    for (const Ask first : asks) {
        {
            const Nic nic, other;
            EXPECT_EQ(0U, threads.count());
            first(nic, log);
            EXPECT_EQ(1U, threads.count());
            for (const Ask ask : asks) {
                ask(nic, log);
            }
            EXPECT_EQ(1U, threads.count()); // the same one
            first(other, log);
            EXPECT_EQ(2U, threads.count());
        }
        threads.expect_none_soon();
    }
}

TEST_CASE("connected VIs have a thread where the device needs one", "[VipCreateVi][posix]")
{
    const NewThreads threads;
    {
        const Nic left_nic, right_nic;
        const Vi left(left_nic), right(right_nic, without_rdma());
        EXPECT_EQ(0U, threads.count());
        connect_alone(left_nic, left, right_nic, right);
        EXPECT_EQ(connected(2), threads.count());
    }
    threads.expect_none_soon();
}

TEST_CASE("VIPL_PROGRESS=thread gives each NIC handle its thread at once", "[VipOpenNic][posix]")
{
    const NewThreads threads;
    {
        const Environment setting("VIPL_PROGRESS", "thread");
        const Nic nic;
        EXPECT_EQ(1U, threads.count());
        NotifyLog log;
        const Vi vi(nic);
        REQUIRE_VIP(VipRecvNotify(vi, log.context(), NotifyLog::vi_handler));
        EXPECT_EQ(1U, threads.count());
    }
    threads.expect_none_soon();
}

TEST_CASE("VIPL_PROGRESS=inline forbids threads, and what needs one is VIP_ERROR_NOT_SUPPORTED",
          "[VipErrorCallback][posix]")
{
    const Environment setting("VIPL_PROGRESS", "inline");
    const NewThreads threads;
    const Nic left_nic, right_nic;
    Memory left_memory(left_nic), right_memory(right_nic);
    const Vi left(left_nic), right(right_nic); // with RDMA
    const Cq cq(left_nic);
    NotifyLog log;
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipErrorCallback(left_nic, nullptr, on_error));
    REQUIRE_VIP(VipErrorCallback(left_nic, nullptr, nullptr));
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipSendNotify(left, log.context(), NotifyLog::vi_handler));
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipRecvNotify(left, log.context(), NotifyLog::vi_handler));
    REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED, VipCQNotify(cq, log.context(), NotifyLog::cq_handler));
    connect_alone(left_nic, left, right_nic, right);
    const Work in = right_memory.transfer(right_memory.bytes(16));
    post_recv(right, in);
    post_send(left, left_memory.transfer(left_memory.text("by itself")));
    EXPECT(received(right) == in.desc);
    EXPECT_EQ(0U, threads.count());
}

// --- callbacks -----------------------------------------------------------------------------------

namespace {

/** What a handler of a VI's receives found, for 64 messages on two VIs. */
struct Serial {
    std::atomic<int> inside{0};
    std::atomic<bool> together{false};
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<VIP_DESCRIPTOR *> order;

    static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *descriptor)
    {
        Serial &serial = *static_cast<Serial *>(context);
        if (serial.inside.fetch_add(1) != 0) {
            serial.together = true;
        }
        std::this_thread::yield();
        const std::lock_guard<std::mutex> lock(serial.mutex);
        serial.order.push_back(descriptor);
        serial.inside.fetch_sub(1);
        serial.changed.notify_all();
    }
};

} // namespace

TEST_CASE("callbacks of a NIC handle come one at a time, in the order of completion",
          "[VipRecvNotify][posix]")
{
    static Serial serial; // a handler may still be returning at the end
    serial.order.clear();
    constexpr int kEach = 32;
    const Nic server_nic, client_nic;
    Memory server_memory(server_nic), client_memory(client_nic);
    const Vi server[2] = {Vi(server_nic), Vi(server_nic)};
    const Vi client[2] = {Vi(client_nic), Vi(client_nic)};
    std::vector<VIP_DESCRIPTOR *> expected;
    for (int i = 0; i < 2; ++i) {
        connect_pair(server_nic, server[i], client_nic, client[i]);
    }
    for (int i = 0; i < kEach; ++i) {
        for (const Vi &vi : server) {
            const Work in = server_memory.transfer(server_memory.bytes(8));
            expected.push_back(in.desc);
            post_recv(vi, in);
            REQUIRE_VIP(VipRecvNotify(vi, &serial, Serial::handler));
        }
    }
    for (int i = 0; i < kEach; ++i) {
        for (const Vi &vi : client) {
            post_send(vi, client_memory.transfer(client_memory.bytes(8)));
            sent(vi);
        }
    }
    std::unique_lock<std::mutex> lock(serial.mutex);
    EXPECT(serial.changed.wait_until(lock,
                                     std::chrono::system_clock::now() + std::chrono::milliseconds(patience()),
                                     [&] { return serial.order.size() == expected.size(); }));
    EXPECT(!serial.together);
    // Between two connections nothing orders the arrivals; on each, the posts do.
    for (size_t of = 0; of < 2; ++of) {
        std::vector<VIP_DESCRIPTOR *> wanted, seen;
        for (size_t i = of; i < expected.size(); i += 2) {
            wanted.push_back(expected[i]);
        }
        for (VIP_DESCRIPTOR *descriptor : serial.order) {
            if (std::find(wanted.begin(), wanted.end(), descriptor) != wanted.end()) {
                seen.push_back(descriptor);
            }
        }
        EXPECT(wanted == seen);
    }
}

namespace {

/** What a callback does: everything but ending what it is called for. */
struct Busy {
    Nic *nic;
    Memory *memory;
    VIP_VI_HANDLE other; // connected
    std::string problem;
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;

    void work(VIP_VI_HANDLE vi)
    {
        REQUIRE_VIP(VipSetUserData(vi, this));
        EXPECT(VipGetUserData(vi) == this);
        {
            const Nic another;
            const Cq cq(*nic);
            const Vi idle(*nic, vi_attributes(), cq, cq);
            const Memory more(another, 4096);
            VIP_DESCRIPTOR *done = nullptr;
            VIP_VI_HANDLE found = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            REQUIRE_RC(VIP_TIMEOUT, VipCQWait(cq, 1, &found, &recv));
            REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(vi, 1, &done));
            NetAddress nobody = nic->address(unique_discriminator());
            EXPECT(request(idle, nic->address("x"), nobody, 1) != VIP_SUCCESS);
            REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(vi, 1, &done));
            REQUIRE_VIP(VipErrorCallback(*nic, nullptr, nullptr));
        }
        // A whole exchange, blocked in the callback.
        const Work in = memory->transfer(memory->bytes(8));
        post_recv(vi, in);
        post_send(other, memory->transfer(memory->text("callback")));
        EXPECT(received(vi) == in.desc);
        EXPECT_EQ(VIP_STATE_CONNECTED, [vi] {
            VIP_VI_STATE state = VIP_STATE_IDLE;
            REQUIRE_VIP(VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
            return state;
        }());
        REQUIRE_VIP(VipDisconnect(other));
    }

    static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *)
    {
        Busy &busy = *static_cast<Busy *>(context);
        std::string problem;
        try {
            busy.work(vi);
        } catch (const std::exception &error) {
            problem = error.what();
        }
        const std::lock_guard<std::mutex> lock(busy.mutex);
        busy.problem = problem;
        busy.over = true;
        busy.changed.notify_all();
    }
};

} // namespace

TEST_CASE("a callback may make any call, those that block too", "[VipRecvNotify][posix]")
{
    static Busy busy;
    busy.over = false;
    Nic nic;
    Memory memory(nic);
    const Vi server(nic), client(nic);
    connect_pair(nic, server, nic, client);
    busy.nic = &nic;
    busy.memory = &memory;
    busy.other = client;
    post_recv(server, memory.transfer(memory.bytes(8)));
    REQUIRE_VIP(VipRecvNotify(server, &busy, Busy::handler));
    post_send(client, memory.transfer(memory.text("begin...")));
    std::unique_lock<std::mutex> lock(busy.mutex);
    EXPECT(busy.changed.wait_until(lock,
                                   std::chrono::system_clock::now() + std::chrono::milliseconds(patience()),
                                   [&] { return busy.over; }));
    EXPECT_EQ(std::string(), busy.problem);
    lock.unlock();
    server.await(VIP_STATE_ERROR);
    REQUIRE_VIP(VipDisconnect(server));
}

// --- threads that are cancelled ------------------------------------------------------------------

namespace {

/** One blocking call, with what it is about. */
struct Blocked {
    ConnectedPair &pair;
    const Cq &cq;
    const Vi &idle;
    const std::string name;
    VIP_ULONG timeout;
};

using BlockingCall = VIP_RETURN (*)(Blocked &);

struct BlockingEntry {
    const char *function;
    BlockingCall call;
};

const BlockingEntry kBlocking[] = {
    {"VipSendWait",
     [](Blocked &b) {
         VIP_DESCRIPTOR *done = nullptr;
         return VipSendWait(b.pair.server, b.timeout, &done);
     }},
    {"VipRecvWait",
     [](Blocked &b) {
         VIP_DESCRIPTOR *done = nullptr;
         return VipRecvWait(b.pair.server, b.timeout, &done);
     }},
    {"VipxRecvWaitMask",
     [](Blocked &b) {
         VIP_DESCRIPTOR *done = nullptr;
         sigset_t all;
         sigfillset(&all);
         return VipxRecvWaitMask(b.pair.server, b.timeout, &all, &done);
     }},
    {"VipCQWait",
     [](Blocked &b) {
         VIP_VI_HANDLE vi = nullptr;
         VIP_BOOLEAN recv = VIP_FALSE;
         return VipCQWait(b.cq, b.timeout, &vi, &recv);
     }},
    {"VipConnectWait",
     [](Blocked &b) {
         NetAddress local = b.pair.server_nic.address(b.name), remote;
         VIP_VI_ATTRIBUTES attributes{};
         VIP_CONN_HANDLE connection = nullptr;
         return VipConnectWait(b.pair.server_nic, local, b.timeout, remote, &attributes, &connection);
     }},
    {"VipConnectRequest",
     [](Blocked &b) {
         return request(b.idle, b.pair.server_nic.address("x"), b.pair.server_nic.address(b.name), b.timeout);
     }},
    {"VipConnectPeerWait",
     [](Blocked &b) {
         NetAddress local = b.pair.server_nic.address("x"), remote = b.pair.server_nic.address(b.name);
         VipConnectPeerRequest(b.idle, local, remote, b.timeout);
         return VipConnectPeerWait(b.idle, nullptr);
     }},
};

/** A thread that can be cancelled: no C++ but the call. */
class Cancellable {
public:
    Cancellable(BlockingCall call, Blocked &blocked) : call_(call), blocked_(blocked)
    {
        EXPECT(pthread_create(&thread_, nullptr, run, this) == 0);
    }
    ~Cancellable()
    {
        if (!joined_) {
            pthread_cancel(thread_);
            pthread_join(thread_, nullptr);
        }
    }
    Cancellable(const Cancellable &) = delete;
    Cancellable &operator=(const Cancellable &) = delete;

    /** Until it is in the call, and asleep. */
    void await_asleep()
    {
        const unsigned long long end = now_ms() + patience();
        while (id_ == 0) {
            EXPECT(now_ms() < end);
            give_way();
        }
        await_rest(task_of(id_));
    }

    void cancel()
    {
        void *result = nullptr;
        EXPECT(pthread_cancel(thread_) == 0);
        EXPECT(pthread_join(thread_, &result) == 0);
        joined_ = true;
        EXPECT(result == PTHREAD_CANCELED);
    }

    /** Ask it to end, without waiting. */
    void ask() { EXPECT(pthread_cancel(thread_) == 0); }

    /** Wait for its end, one way or the other: whether it was cancelled. */
    bool was_cancelled()
    {
        void *result = nullptr;
        EXPECT(pthread_join(thread_, &result) == 0);
        joined_ = true;
        return result == PTHREAD_CANCELED;
    }

    VIP_RETURN join()
    {
        EXPECT(pthread_join(thread_, nullptr) == 0);
        joined_ = true;
        return returned_;
    }

private:
    static void *run(void *self)
    {
        Cancellable &c = *static_cast<Cancellable *>(self);
        c.id_ = gettid();
        c.returned_ = c.call_(c.blocked_);
        return nullptr;
    }

    BlockingCall call_;
    Blocked &blocked_;
    pthread_t thread_{};
    bool joined_ = false;
    std::atomic<pid_t> id_{0};
    VIP_RETURN returned_ = VIP_SUCCESS;
};

void one_message(ConnectedPair &pair)
{
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(16));
    post_recv(pair.server, in);
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("still here")));
    sent(pair.client);
    EXPECT(received(pair.server) == in.desc);
}

void leaves_all_consistent(const BlockingEntry &entry)
{
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    const Vi idle(pair.server_nic);
    const std::string name = unique_discriminator();
    Blocked blocked{pair, cq, idle, name, patience()};
    one_message(pair);
    size_t descriptors = 0;
    for (int round = 0; round < 6; ++round) {
        Cancellable first(entry.call, blocked);
        first.await_asleep();
        first.cancel();
        if (idle.state() == VIP_STATE_CONNECT_PENDING) { // a symmetric connect goes on until its time is up
            REQUIRE_VIP(VipDisconnect(idle));
        }
        one_message(pair);
        EXPECT_EQ(VIP_STATE_IDLE, idle.state());
        if (round == 2) {
            descriptors = descriptor_count();
        }
    }
    EXPECT_EQ(descriptors, descriptor_count());
}

bool register_cancelled()
{
    for (const BlockingEntry &entry : kBlocking) {
        register_case(std::string(entry.function) +
                          " of a thread that is cancelled leaves all else as it was",
                      std::string("[") + entry.function + "][cancel][posix]", CATCH_INTERNAL_LINEINFO,
                      [&entry] { leaves_all_consistent(entry); });
    }
    return true;
}

[[maybe_unused]] const bool cancelled = register_cancelled();

VIP_RETURN wait_for_any(Blocked &b)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipRecvWait(b.pair.server, b.timeout, &done);
}

} // namespace

TEST_CASE("of threads that wait for one queue, those that are not cancelled go on",
          "[VipRecvWait][cancel][posix]")
{
    ConnectedPair pair(without_rdma(), without_rdma()); // no library thread helps
    const Cq cq(pair.server_nic);
    const Vi idle(pair.server_nic);
    Blocked blocked{pair, cq, idle, "", 4 * patience()};
    for (size_t victim = 0; victim < 3; ++victim) { // the first of them watches the device for all
        std::array<std::unique_ptr<Cancellable>, 3> waiting;
        for (auto &one : waiting) {
            one = std::make_unique<Cancellable>(wait_for_any, blocked);
            one->await_asleep();
        }
        waiting[victim]->cancel();
        for (int i = 0; i < 2; ++i) {
            post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(16)));
            post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("for one")));
            sent(pair.client);
        }
        for (size_t i = 0; i < waiting.size(); ++i) {
            if (i != victim) {
                REQUIRE_VIP(waiting[i]->join());
            }
        }
    }
}

TEST_CASE("a completion that wakes a thread as it is cancelled wakes another", "[VipRecvWait][cancel][posix]")
{
    ConnectedPair pair(without_rdma(), without_rdma()); // no library thread helps
    const Cq cq(pair.server_nic);
    const Vi idle(pair.server_nic);
    Blocked blocked{pair, cq, idle, "", patience()};
    const auto wait_for_cq = [](Blocked &b) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        return VipCQWait(b.cq, 4 * b.timeout, &vi, &recv);
    };
    for (int round = 0; round < 50; ++round) {
        Cancellable leader(wait_for_cq,
                           blocked); // watches the device: the others need nothing but to be woken
        leader.await_asleep();
        Cancellable first(wait_for_any, blocked);
        first.await_asleep();
        Cancellable second(wait_for_any, blocked);
        second.await_asleep();
        const Work in = pair.server_memory.transfer(pair.server_memory.bytes(8));
        post_recv(pair.server, in);
        post_send(pair.client, pair.client_memory.transfer(pair.client_memory.bytes(8)));
        first.ask(); // it is on its way out of its sleep
        sent(pair.client);
        if (first.was_cancelled()) { // nobody has taken it but the second
            REQUIRE_VIP(second.join());
        } else {
            second.cancel();
        }
    }
}

TEST_CASE("a thread that has switched cancellation off is not cancelled in a call",
          "[VipRecvWait][cancel][posix]")
{
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    const Vi idle(pair.server_nic);
    Blocked blocked{pair, cq, idle, "", kMoment};
    Cancellable thread(
        [](Blocked &b) {
            int before = 0;
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
            pthread_cancel(pthread_self());
            VIP_DESCRIPTOR *done = nullptr;
            return VipRecvWait(b.pair.server, b.timeout, &done);
        },
        blocked);
    REQUIRE_RC(VIP_TIMEOUT, thread.join());
}

TEST_CASE("calls that do not block are no cancellation points", "[VipPostSend][cancel][posix]")
{
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    const Vi idle(pair.server_nic);
    Blocked blocked{pair, cq, idle, "", patience()};
    Cancellable thread(
        [](Blocked &b) {
            pthread_cancel(pthread_self());
            const Work in = b.pair.server_memory.transfer(b.pair.server_memory.bytes(8));
            const Work out = b.pair.client_memory.transfer(b.pair.client_memory.bytes(8));
            VIP_DESCRIPTOR *done = nullptr;
            VIP_RETURN rc = VIP_NOT_DONE;
            post_recv(b.pair.server, in);
            post_send(b.pair.client, out);
            while (rc == VIP_NOT_DONE) {
                rc = VipSendDone(b.pair.client, &done);
            }
            rc = VIP_NOT_DONE;
            while (rc == VIP_NOT_DONE) {
                rc = VipRecvDone(b.pair.server, &done);
            }
            VIP_PROTECTION_HANDLE tag = nullptr;
            REQUIRE_VIP(VipCreatePtag(b.pair.server_nic, &tag));
            REQUIRE_VIP(VipDestroyPtag(b.pair.server_nic, tag));
            {
                const Nic nic;
                const Vi vi(nic);
            }
            REQUIRE_VIP(VipDisconnect(b.pair.client));
            return rc;
        },
        blocked);
    REQUIRE_VIP(thread.join());
}

// --- ends under waits ----------------------------------------------------------------------------

namespace {

void ends_with_its_nic(const BlockingEntry &entry)
{
    // Closing ends everything on the handle, and the call with it.
    VIP_NIC_HANDLE nic = nullptr;
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    const Vi idle(pair.server_nic);
    Blocked blocked{pair, cq, idle, unique_discriminator(), 4 * patience()};
    Cancellable waiting(entry.call, blocked);
    waiting.await_asleep();
    nic = pair.server_nic;
    REQUIRE_VIP(VipCloseNic(nic));
    REQUIRE_RC(VIP_INVALID_PARAMETER, waiting.join());
}

bool register_ends()
{
    for (const BlockingEntry &entry : kBlocking) {
        register_case(std::string(entry.function) +
                          " whose NIC handle is closed meanwhile ends with VIP_INVALID_PARAMETER",
                      std::string("[") + entry.function + "][cancel][posix]", CATCH_INTERNAL_LINEINFO,
                      [&entry] { ends_with_its_nic(entry); });
    }
    return true;
}

[[maybe_unused]] const bool ends = register_ends();

} // namespace

TEST_CASE("VipRecvWait and VipCQWait on what is destroyed meanwhile end with VIP_INVALID_PARAMETER",
          "[VipDestroyVi][posix]")
{
    ConnectedPair pair;
    VIP_CQ_HANDLE cq = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    REQUIRE_VIP(VipCreateCQ(pair.server_nic, 16, &cq));
    REQUIRE_VIP(VipCreateVi(pair.server_nic, &attributes, nullptr, nullptr, &vi));
    struct Both {
        VIP_CQ_HANDLE cq;
        VIP_VI_HANDLE vi;
    };
    static Both both;
    both = {cq, vi};
    const Cq unused(pair.server_nic);
    const Vi idle(pair.server_nic);
    Blocked blocked{pair, unused, idle, "", 4 * patience()};
    Cancellable for_cq(
        [](Blocked &b) {
            VIP_VI_HANDLE found = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            return VipCQWait(both.cq, b.timeout, &found, &recv);
        },
        blocked);
    Cancellable for_vi(
        [](Blocked &b) {
            VIP_DESCRIPTOR *done = nullptr;
            return VipRecvWait(both.vi, b.timeout, &done);
        },
        blocked);
    for_cq.await_asleep();
    for_vi.await_asleep();
    REQUIRE_VIP(VipDestroyCQ(cq));
    REQUIRE_RC(VIP_INVALID_PARAMETER, for_cq.join());
    REQUIRE_VIP(VipDestroyVi(vi));
    REQUIRE_RC(VIP_INVALID_PARAMETER, for_vi.join());
}
