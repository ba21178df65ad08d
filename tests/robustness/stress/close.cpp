// SPDX-License-Identifier: MIT
//
// Objects end while threads use them: threads are blocked in every call that waits while another
// destroys the VI or the completion queue or closes the NIC handle; and threads post and reap while
// it is closed. Waiters return VIP_INVALID_PARAMETER, at once.
#include "stress.hpp"

#include <memory>

using namespace stress;

namespace {

/** Threads that each make one blocking call; which codes they may return is said with the call. */
class Waiters {
public:
    void add(const char *name, std::vector<VIP_RETURN> allowed, std::function<VIP_RETURN()> call)
    {
        auto waiter = std::make_shared<Waiter>();
        waiters_.push_back(waiter);
        crew_.add([waiter, name, allowed, call] {
            waiter->thread = gettid();
            const VIP_RETURN rc = call();
            waiter->back = true;
            for (const VIP_RETURN good : allowed) {
                if (rc == good) {
                    return;
                }
            }
            throw Failure(std::string(name) + " returned " + return_name(rc));
        });
    }

    /** Until every thread sleeps in its call. */
    void await_blocked() const
    {
        const unsigned long long end = now_ms() + patience();
        for (const auto &waiter : waiters_) {
            for (unsigned seen = 0; seen < 3;) {
                EXPECT(now_ms() < end);
                EXPECT(!waiter->back);
                seen = waiter->thread != 0 && state_of(task_of(waiter->thread)) == 'S' ? seen + 1 : 0;
                give_way();
            }
        }
    }

    void join() { crew_.join(); }

private:
    struct Waiter {
        std::atomic<pid_t> thread{0};
        std::atomic<bool> back{false};
    };
    std::vector<std::shared_ptr<Waiter>> waiters_;
    Crew crew_;
};

const std::vector<VIP_RETURN> kGone = {VIP_INVALID_PARAMETER};

/** A NIC handle with VIs and a completion queue that nothing ever happens on. Bare: tests end
 * them. */
struct Quiet {
    Quiet()
    {
        REQUIRE_VIP(VipOpenNic(device_under_test(), &nic));
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        REQUIRE_VIP(VipCreateCQ(nic, 16, &cq));
        for (VIP_VI_HANDLE *vi : {&idle, &requesting, &seeking}) {
            REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, vi));
        }
        REQUIRE_VIP(VipConnectPeerRequest(seeking, own, nobody, VIP_INFINITE));
    }
    ~Quiet() { VipCloseNic(nic); }

    void wait_on_objects(Waiters &waiters)
    {
        for (int i = 0; i < 3; ++i) {
            waiters.add("VipRecvWait", kGone, [this] {
                VIP_DESCRIPTOR *done = nullptr;
                return VipRecvWait(idle, VIP_INFINITE, &done);
            });
            waiters.add("VipSendWait", kGone, [this] {
                VIP_DESCRIPTOR *done = nullptr;
                return VipSendWait(idle, VIP_INFINITE, &done);
            });
            waiters.add("VipCQWait", kGone, [this] {
                VIP_VI_HANDLE vi = nullptr;
                VIP_BOOLEAN receive = VIP_FALSE;
                return VipCQWait(cq, VIP_INFINITE, &vi, &receive);
            });
        }
    }

    /** `ended`: what a connect returns that is taken back. */
    void wait_for_connections(Waiters &waiters, const std::vector<VIP_RETURN> &ended)
    {
        waiters.add("VipConnectRequest", ended,
                    [this] { return VipConnectRequest(requesting, own, nobody, VIP_INFINITE, nullptr); });
        waiters.add("VipConnectPeerWait", ended, [this] { return VipConnectPeerWait(seeking, nullptr); });
    }

    void wait_for_requests(Waiters &waiters)
    {
        for (int i = 0; i < 3; ++i) {
            waiters.add("VipConnectWait", kGone, [this] {
                NetAddress from;
                VIP_VI_ATTRIBUTES attributes{};
                VIP_CONN_HANDLE connection = nullptr;
                NetAddress local = own;
                return VipConnectWait(nic, local, VIP_INFINITE, from, &attributes, &connection);
            });
        }
    }

    VIP_NIC_HANDLE nic = nullptr;
    VIP_CQ_HANDLE cq = nullptr;
    VIP_VI_HANDLE idle = nullptr, requesting = nullptr, seeking = nullptr;
    NetAddress own{std::string("\x7f\0\0\1\0\0", 6), unique_discriminator()};
    NetAddress nobody{std::string("\x7f\0\0\1\0\0", 6), unique_discriminator()};
};

void destroy_under_waiters(bool blocked)
{
    Quiet quiet;
    Waiters waiters;
    quiet.wait_on_objects(waiters);
    quiet.wait_for_connections(
        waiters, {VIP_INVALID_PARAMETER, VIP_INVALID_STATE, VIP_TIMEOUT, VIP_NO_MATCH, VIP_REJECT});
    if (blocked) {
        waiters.await_blocked();
    }
    REQUIRE_VIP(VipDestroyVi(quiet.idle));
    REQUIRE_VIP(VipDestroyCQ(quiet.cq));
    VipDisconnect(quiet.seeking);
    REQUIRE_VIP(VipDestroyVi(quiet.seeking));
    VIP_RETURN rc;
    do { // without await_blocked() the request may begin only now
        VipDisconnect(quiet.requesting);
        rc = VipDestroyVi(quiet.requesting);
    } while (rc == VIP_INVALID_STATE);
    REQUIRE_VIP(rc);
    waiters.join();
}

void close_under_waiters(bool blocked)
{
    Quiet quiet;
    Waiters waiters;
    quiet.wait_on_objects(waiters);
    quiet.wait_for_connections(waiters, kGone);
    quiet.wait_for_requests(waiters);
    if (blocked) {
        waiters.await_blocked();
    }
    REQUIRE_VIP(VipCloseNic(quiet.nic));
    waiters.join();
}

/** Send and receive on one VI until its handle is dead. */
void use_until_closed(VIP_VI_HANDLE vi, const Work &send, const Work &receive)
{
    VIP_DESCRIPTOR *done = nullptr;
    for (;;) {
        const VIP_RETURN posted = VipPostRecv(vi, receive.desc, receive.handle);
        if (posted == VIP_INVALID_PARAMETER) {
            return;
        }
        EXPECT(posted == VIP_SUCCESS || posted == VIP_ERROR_RESOURCE);
        const VIP_RETURN sent = VipPostSend(vi, send.desc, send.handle);
        EXPECT(sent == VIP_SUCCESS || sent == VIP_INVALID_PARAMETER || sent == VIP_ERROR_RESOURCE);
        VipSendWait(vi, 1, &done);
        VipRecvDone(vi, &done);
    }
}

/** The memory belongs to the test: the library must leave it alone after the close. */
struct Traffic {
    Traffic(VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, Waiters &waiters)
    {
        VIP_MEM_HANDLE handle = 0;
        REQUIRE_VIP(VipRegisterMem(nic, bytes, sizeof bytes, nullptr, &handle));
        for (int i = 0; i < 2; ++i) {
            Work send{reinterpret_cast<VIP_DESCRIPTOR *>(bytes + i * 128), handle, {}};
            Work receive{reinterpret_cast<VIP_DESCRIPTOR *>(bytes + i * 128 + 64), handle, {}};
            send.local({bytes + 4096, 3000, handle});
            receive.local({bytes + 8192 + i * 4096, 4096, handle});
            waiters.add("traffic", {VIP_SUCCESS}, [vi, send, receive] {
                use_until_closed(vi, send, receive);
                return VIP_SUCCESS;
            });
        }
    }
    alignas(64) VIP_UINT8 bytes[16384] = {};
};

VIP_VI_HANDLE unreliable_vi(VIP_NIC_HANDLE nic)
{
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE);
    attributes.EnableRdmaRead = VIP_FALSE;
    REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    REQUIRE_VIP(VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
    return vi;
}

void close_under_traffic(Random &random)
{
    auto ours = std::make_unique<Nic>();
    const Nic theirs;
    const VIP_VI_HANDLE vi = unreliable_vi(*ours), other = unreliable_vi(theirs);
    connect_pair(*ours, vi, theirs, other);
    Waiters waiters;
    const Traffic traffic(*ours, vi, waiters), back(theirs, other, waiters);
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(below(random, 2000));
    while (std::chrono::steady_clock::now() < until) {
        give_way();
    }
    REQUIRE_VIP(VipCloseNic(*ours));
    REQUIRE_VIP(VipCloseNic(theirs));
    waiters.join();
}

void echo(const Scene &scene, Line &line)
{
    const Nic nic;
    const VIP_VI_HANDLE vi = unreliable_vi(nic);
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    Waiters waiters;
    const Traffic traffic(nic, vi, waiters);
    line.sync();
    line.sync(); // the other side has closed
    REQUIRE_VIP(VipCloseNic(nic));
    waiters.join();
}

void close_under_remote_traffic(const char *pull)
{
    use_pull(pull);
    const Scene scene = make_scene(pull);
    Child child(echo, scene);
    const Nic nic;
    const VIP_VI_HANDLE vi = unreliable_vi(nic);
    REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    Waiters waiters;
    const Traffic traffic(nic, vi, waiters);
    child.line.sync();
    REQUIRE_VIP(VipCloseNic(nic));
    waiters.join();
    child.line.sync();
    child.finish();
}

/** VIs come and go with completions that nobody has reaped; whoever takes an entry meanwhile gets a
 * VI's handle. */
void destroy_with_entries()
{
    constexpr unsigned kSends = 16;
    const Nic nic;
    const Cq cq(nic);
    Memory memory(nic);
    std::vector<Work> works;
    for (unsigned i = 0; i < kSends; ++i) {
        works.push_back(memory.transfer(memory.bytes(8)));
    }
    std::atomic<bool> over{false};
    Crew crew;
    crew.add([&] {
        while (!over) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            const VIP_RETURN rc = VipCQDone(cq, &vi, &receive);
            EXPECT(rc == VIP_NOT_DONE || (rc == VIP_SUCCESS && vi != nullptr));
        }
    });
    for (unsigned round = 0; round < 5000 && !crew.failed(); ++round) {
        const Vi vi(nic, vi_attributes(), cq);
        for (const Work &work : works) { // on an IDLE VI: flushed at once
            post_send(vi, work);
        }
    }
    over = true;
    crew.join();
}

} // namespace

TEST_CASE("a completion queue's entries have a VI while VIs are destroyed", "[close]")
{
    destroy_with_entries();
}

TEST_CASE("blocked waiters return when their VI or completion queue is destroyed", "[close]")
{
    for (int round = 0; round < 20; ++round) {
        destroy_under_waiters(true);
    }
}

TEST_CASE("threads that are about to wait return when their object is destroyed", "[close]")
{
    for (int round = 0; round < 100; ++round) {
        destroy_under_waiters(false);
    }
}

TEST_CASE("blocked waiters return when the NIC handle is closed", "[close]")
{
    for (int round = 0; round < 20; ++round) {
        close_under_waiters(true);
    }
}

TEST_CASE("threads that are about to wait return when the NIC handle is closed", "[close]")
{
    for (int round = 0; round < 100; ++round) {
        close_under_waiters(false);
    }
}

TEST_CASE("a NIC handle may be closed while threads post and reap", "[close]")
{
    Random random(seed());
    for (int round = 0; round < 100; ++round) {
        close_under_traffic(random);
    }
}

TEST_CASE("a NIC handle may be closed while threads post and reap between processes", "[close]")
{
    for (int round = 0; round < 20; ++round) {
        close_under_remote_traffic(round % 2 == 0 ? "auto" : "off");
    }
}

TEST_CASE("a NIC handle closes after several threads have looked names up at once", "[close]")
{
    constexpr unsigned kThreads = 4, kLookups = 20000;
    VIP_NIC_HANDLE nic = nullptr;
    REQUIRE_VIP(VipOpenNic(device_under_test(), &nic));
    {
        Crew crew;
        for (unsigned i = 0; i < kThreads; ++i) {
            crew.add([nic] {
                char name[] = "127.0.0.1"; // no other host is asked
                NetAddress found;
                for (unsigned k = 0; k < kLookups; ++k) {
                    VipNSGetHostByName(nic, name, found, 0);
                }
            });
        }
        crew.join();
    }
    const unsigned long long start = now_ms();
    REQUIRE_VIP(VipCloseNic(nic));
    REQUIRE(now_ms() - start < patience());
}
