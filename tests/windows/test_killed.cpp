// SPDX-License-Identifier: MIT
//
// Threads that TerminateThread() ends while they sleep in a call: the others go on, what the call
// had begun is ended, and nothing is left of it.
#include "ends.hpp"

#include <atomic>
#include <functional>

#include "support/os_hooks.hpp"

extern "C" {
#include "os/os_atomic.h"
#include "os/windows/sleeper.h"
}

using namespace windows_test;

namespace {

/** Wait until that is so. */
void await(const std::function<bool()> &so)
{
    const ULONGLONG end = GetTickCount64() + kLong;
    while (!so()) {
        REQUIRE(GetTickCount64() < end);
        SwitchToThread();
    }
}

/** A thread with one blocking call. No C++ but the call: the thread may be killed. */
class Sleeper {
public:
    using Call = VIP_RETURN (*)(const Endpoint &end);

    Sleeper(Call call, const Endpoint &end) : call_(call), end_(end)
    {
        thread_ = CreateThread(nullptr, 0, run, this, 0, nullptr);
        REQUIRE(thread_ != nullptr);
        await([this] { return sleeper_ != nullptr && vipl_load_acquire(&sleeper_.load()->asleep) != 0; });
    }
    ~Sleeper()
    {
        if (!over_) {
            TerminateThread(thread_, 0);
        }
        CloseHandle(thread_);
    }
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;

    /** Kill it in its sleep, which it may leave for a moment. */
    void kill()
    {
        over_ = true;
        await([this] {
            REQUIRE(SuspendThread(thread_) == 0);
            CONTEXT where{};
            where.ContextFlags = CONTEXT_INTEGER;
            REQUIRE(GetThreadContext(thread_, &where)); // only now is it certain to stand still
            const bool asleep = vipl_load_acquire(&sleeper_.load()->asleep) != 0;
            REQUIRE((asleep ? TerminateThread(thread_, 7) : ResumeThread(thread_) == 1));
            return asleep;
        });
        REQUIRE(WaitForSingleObject(thread_, kLong) == WAIT_OBJECT_0);
        DWORD code = 0;
        REQUIRE(GetExitCodeThread(thread_, &code));
        REQUIRE(code == 7); // it was killed, and has not returned before
    }

    VIP_RETURN join()
    {
        over_ = true;
        REQUIRE(WaitForSingleObject(thread_, kLong) == WAIT_OBJECT_0);
        return returned_;
    }

private:
    static DWORD WINAPI run(void *p)
    {
        auto *self = static_cast<Sleeper *>(p);
        self->sleeper_ = vipl_sleeper_get();
        self->returned_ = self->call_(self->end_);
        return 0;
    }

    const Call call_;
    const Endpoint &end_;
    HANDLE thread_ = nullptr;
    bool over_ = false;
    std::atomic<vipl_sleeper *> sleeper_{nullptr};
    VIP_RETURN returned_ = VIP_SUCCESS;
};

VIP_RETURN wait_for_receive(const Endpoint &end)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipRecvWait(end.vi, kLong, &done);
}

VIP_RETURN wait_for_send(const Endpoint &end)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipSendWait(end.vi, kLong, &done);
}

VIP_CQ_HANDLE g_cq = nullptr;

VIP_RETURN wait_for_queue(const Endpoint &)
{
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    return VipCQWait(g_cq, kLong, &vi, &recv);
}

VIP_VI_HANDLE g_idle = nullptr;

VIP_RETURN wait_for_acceptance(const Endpoint &end)
{
    std::vector<char> there = end.address("killed");
    auto *address = reinterpret_cast<VIP_NET_ADDRESS *>(there.data());
    VIP_VI_ATTRIBUTES theirs{};
    return VipConnectRequest(g_idle, address, address, kLong, &theirs);
}

VIP_RETURN wait_for_request(const Endpoint &end)
{
    std::vector<char> here = end.address("killed too"), peer(256);
    VIP_VI_ATTRIBUTES theirs{};
    VIP_CONN_HANDLE request = nullptr;
    return VipConnectWait(end.nic, reinterpret_cast<VIP_NET_ADDRESS *>(here.data()), kLong,
                          reinterpret_cast<VIP_NET_ADDRESS *>(peer.data()), &theirs, &request);
}

struct Named {
    const char *name;
    Sleeper::Call call;
};

const Named kCalls[] = {{"VipRecvWait", wait_for_receive},
                        {"VipSendWait", wait_for_send},
                        {"VipCQWait", wait_for_queue},
                        {"VipConnectRequest", wait_for_acceptance},
                        {"VipConnectWait", wait_for_request}};

void post_recv(Endpoint &to)
{
    REQUIRE(VipPostRecv(to.vi, to.fill(0, ""), to.memory) == VIP_SUCCESS);
}

void send(Endpoint &from, const std::string &text)
{
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE(VipPostSend(from.vi, from.fill(1, text), from.memory) == VIP_SUCCESS);
    REQUIRE(VipSendWait(from.vi, kLong, &done) == VIP_SUCCESS);
}

void one_message(Endpoint &from, Endpoint &to)
{
    VIP_DESCRIPTOR *done = nullptr;
    post_recv(to);
    send(from, "still here");
    REQUIRE(VipRecvWait(to.vi, kLong, &done) == VIP_SUCCESS);
    CHECK(std::string(to.messages[0].text) == "still here");
}

VIP_VI_HANDLE make_idle(const Endpoint &on)
{
    VIP_VI_ATTRIBUTES ours{};
    VIP_VI_HANDLE vi = nullptr;
    ours.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    ours.MaxTransferSize = sizeof(Message::text);
    REQUIRE(VipCreateVi(on.nic, &ours, nullptr, nullptr, &vi) == VIP_SUCCESS);
    return vi;
}

bool is_idle(VIP_VI_HANDLE vi)
{
    VIP_VI_STATE state{};
    VIP_VI_ATTRIBUTES theirs{};
    VIP_BOOLEAN sends, receives;
    REQUIRE(VipQueryVi(vi, &state, &theirs, &sends, &receives) == VIP_SUCCESS);
    return state == VIP_STATE_IDLE;
}

/** The number that the next descriptor gets: more than before if one was left. */
int next_descriptor()
{
    vipl_waker waker{};
    REQUIRE(vipl_waker_open(&waker) == 0);
    vipl_waker_close(&waker);
    return waker.fd;
}

} // namespace

TEST_CASE("a call whose thread is killed leaves all else as it was", "[windows][killed]")
{
    const std::string device = GENERATE("loopback", "tcp");
    for (const Named &each : kCalls) {
        INFO(each.name << " on " << device);
        Endpoint server(device), client(device);
        REQUIRE(VipCreateCQ(server.nic, 16, &g_cq) == VIP_SUCCESS);
        g_idle = make_idle(server);
        connect(server, client);
        one_message(client, server);
        int before = 0;
        for (int round = 0; round < 12; ++round) {
            Sleeper(each.call, server).kill();
            await([] { return is_idle(g_idle); });
            one_message(client, server);
            before = round == 0 ? next_descriptor() : before;
        }
        await([before] { return next_descriptor() <= before; });
        REQUIRE(VipDestroyVi(g_idle) == VIP_SUCCESS);
        REQUIRE(VipDestroyCQ(g_cq) == VIP_SUCCESS);
    }
}

TEST_CASE("of threads that wait for one queue, those that are not killed go on", "[windows][killed]")
{
    const std::string device = GENERATE("loopback", "tcp");
    INFO(device);
    Endpoint server(device), client(device);
    connect(server, client);
    for (size_t victim = 0; victim < 3; ++victim) { // the first of them watches the device for all
        std::vector<std::unique_ptr<Sleeper>> waiting;
        for (int i = 0; i < 3; ++i) {
            waiting.push_back(std::make_unique<Sleeper>(wait_for_receive, server));
        }
        waiting[victim]->kill();
        for (int i = 0; i < 2; ++i) {
            post_recv(server);
            send(client, "for one");
            await([&server] { return (server.messages[0].work.CS.Status & VIP_STATUS_DONE) != 0; });
        }
        for (size_t i = 0; i < waiting.size(); ++i) {
            CHECK((i == victim || waiting[i]->join() == VIP_SUCCESS));
        }
    }
}

TEST_CASE("a listener whose thread is killed listens no more, and another one does", "[windows][killed]")
{
    Endpoint server("loopback", VIPX_BRIEF_LISTENER), client;
    std::vector<char> there = client.address("killed too");
    auto *address = reinterpret_cast<VIP_NET_ADDRESS *>(there.data());
    VIP_VI_ATTRIBUTES theirs{};
    for (int round = 0; round < 3; ++round) {
        Sleeper(wait_for_request, server).kill();
        await([&] { return VipConnectRequest(client.vi, address, address, 1, &theirs) == VIP_NO_MATCH; });
    }
    Sleeper second(wait_for_request, server);
    VIP_RETURN requested = VIP_TIMEOUT;
    std::thread thread([&] { requested = request_from(client, "killed too"); });
    CHECK(second.join() == VIP_SUCCESS);
    REQUIRE(VipCloseNic(server.nic) == VIP_SUCCESS); // it rejects what it has taken
    thread.join();
    CHECK(requested == VIP_REJECT);
}

namespace {

/** A fiber that sleeps in one thread and then in another one, while the first one ends. */
struct Traveller {
    static void WINAPI run(void *p)
    {
        auto *self = static_cast<Traveller *>(p);
        self->first = vipl_poll(&self->waker.fd, 1, 1, nullptr);
        SwitchToFiber(self->back);
        self->sleeper = vipl_sleeper_get();
        self->second = vipl_poll_cancellable(
            &self->waker.fd, 1, nullptr, 500, nullptr, 0,
            [](void *traveller) { static_cast<Traveller *>(traveller)->cancelled = true; }, self);
        SwitchToFiber(self->back);
    }
    void ride()
    {
        back = ConvertThreadToFiber(nullptr);
        SwitchToFiber(fiber);
        ConvertFiberToThread();
    }
    vipl_waker waker{};
    void *fiber = nullptr, *back = nullptr;
    int first = -1, second = -1;
    std::atomic<vipl_sleeper *> sleeper{nullptr}; // once it is in the second thread
    std::atomic<bool> cancelled{false};
};

} // namespace

TEST_CASE("a fiber sleeps in whatever thread it is, and its former thread ends", "[windows][killed]")
{
    Traveller traveller;
    REQUIRE(vipl_waker_open(&traveller.waker) == 0);
    traveller.fiber = CreateFiber(0, Traveller::run, &traveller);
    REQUIRE(traveller.fiber != nullptr);
    HANDLE go = CreateEventA(nullptr, TRUE, FALSE, nullptr),
           there = CreateEventA(nullptr, TRUE, FALSE, nullptr);
    std::thread former([&] {
        traveller.ride();
        SetEvent(there);
        WaitForSingleObject(go, kLong);
    });
    REQUIRE(WaitForSingleObject(there, kLong) == WAIT_OBJECT_0);
    std::thread later([&] { traveller.ride(); });
    await([&] {
        return traveller.sleeper != nullptr && vipl_load_acquire(&traveller.sleeper.load()->asleep) != 0;
    });
    SetEvent(go);
    former.join();
    later.join();
    CHECK(traveller.first == ETIMEDOUT);
    CHECK(traveller.second == ETIMEDOUT);
    CHECK_FALSE(traveller.cancelled);
    DeleteFiber(traveller.fiber);
    vipl_waker_close(&traveller.waker);
    CloseHandle(go);
    CloseHandle(there);
}

TEST_CASE("a thread without memory for its sleep looks until its time is over", "[windows][killed]")
{
    vipl_waker waker{};
    REQUIRE(vipl_waker_open(&waker) == 0);
    int early = -1, late = -1;
    std::thread thread([&] {
        (void)vipl_resource_fail_after(1);
        early = vipl_poll(&waker.fd, 1, 20, nullptr);
        (void)vipl_resource_fail_after(1);
        vipl_waker_signal(&waker);
        late = vipl_poll(&waker.fd, 1, kLong, nullptr);
        (void)vipl_resource_fail_after(-1);
    });
    thread.join();
    CHECK(early == ETIMEDOUT);
    CHECK(late == 0);
    vipl_waker_close(&waker);
}
