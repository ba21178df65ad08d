// SPDX-License-Identifier: MIT
//
// Threads that sleep: on a queue, and on its descriptor.
#include <fstream>
#include <future>
#include <poll.h>
#include <string>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

/** Sleeps on the descriptor of a queue, as a program does that has nothing else to do. */
void sleep_on(Node &node, fid_t queue)
{
    pollfd one = {-1, POLLIN, 0};
    FABRIC(fi_control(queue, FI_GETWAIT, &one.fd));
    if (fi_trywait(node.fabric.get(), &queue, 1) == 0) {
        EXPECT_EQ(1, poll(&one, 1, static_cast<int>(patience())));
    }
}

/** Whether a thread of this process sleeps, as the system sees it. */
bool is_asleep(pid_t thread)
{
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.find(") S ") != std::string::npos;
}

/** Waits until a thread sleeps: many looks find it so, though it wakes to look for credit. */
void await_sleep(pid_t thread)
{
    int looks = 0;
    eventually("sleep", [&] {
        looks += is_asleep(thread) ? 1 : 0;
        return looks == 100;
    });
}

/** Sleeps until a completion queue has something. */
Completion sleep_for(Node &node, fid_cq *cq)
{
    for (;;) {
        if (const auto done = try_completion(cq)) {
            return *done;
        }
        sleep_on(node, &cq->fid);
    }
}

} // namespace

TEST_CASE("a thread that sleeps on the descriptor wakes up for each message", "[wait]")
{
    Pair pair(FI_WAIT_FD);
    Memory from(pair.client_side, 64), to(pair.server_side, 64), back(pair.client_side, 64);
    auto server = std::async(std::launch::async, [&] {
        for (int i = 0; i < 50; i++) {
            EXPECT_EQ(0, sleep_for(pair.server_side, pair.server_side.rx.get()).error);
            FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
            FABRIC(fi_inject(pair.server.get(), "pong", 4, 0));
        }
    });
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
    for (int i = 0; i < 50; i++) {
        FABRIC(fi_recv(pair.client.get(), back.data(), 64, back.desc(), 0, nullptr));
        FABRIC(fi_inject(pair.client.get(), "ping", 4, 0));
        EXPECT_EQ(0, sleep_for(pair.client_side, pair.client_side.rx.get()).error);
    }
    server.get();
}

TEST_CASE("the descriptor of an idle queue is not readable", "[wait]")
{
    Pair pair(FI_WAIT_FD);
    fid_t queue = &pair.server_side.rx->fid;
    pollfd one = {-1, POLLIN, 0};
    FABRIC(fi_control(queue, FI_GETWAIT, &one.fd));
    eventually("rest", [&] {
        return fi_trywait(pair.server_side.fabric.get(), &queue, 1) == 0 && poll(&one, 1, 0) == 0;
    });
    CHECK(poll(&one, 1, static_cast<int>(kMoment)) == 0);
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
    FABRIC(fi_inject(pair.client.get(), "ping", 4, 0));
    eventually("the message", [&] {
        (void)try_completion(pair.client_side.tx.get()); // it may have waited for credit
        return poll(&one, 1, 0) == 1;
    });
    CHECK(fi_trywait(pair.server_side.fabric.get(), &queue, 1) == -FI_EAGAIN);
}

TEST_CASE("a sender that sleeps without credit wakes up when there is some", "[wait]")
{
    const bool by_descriptor = GENERATE(false, true);
    Pair pair(FI_WAIT_FD);
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    FABRIC(fi_send(pair.client.get(), from.data(), 64, from.desc(), 0, &from));
    std::promise<pid_t> thread;
    auto sender = std::async(std::launch::async, [&] {
        thread.set_value(gettid());
        if (by_descriptor) {
            return sleep_for(pair.client_side, pair.client_side.tx.get());
        }
        Completion done = {};
        EXPECT_EQ(
            1, fi_cq_sread(pair.client_side.tx.get(), &done.entry, 1, nullptr, static_cast<int>(patience())));
        return done;
    });
    await_sleep(thread.get_future().get());
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
    const Completion sent = sender.get();
    CHECK(sent.error == 0);
    CHECK(sent.entry.op_context == &from);
    CHECK(next_completion(pair.server_side.rx.get()).error == 0);
}

TEST_CASE("a thread in fi_cq_sread() wakes up for a message, at the end of its time, and by fi_cq_signal()",
          "[wait]")
{
    Pair pair(FI_WAIT_FD);
    Memory to(pair.server_side, 64);
    fid_cq *rx = pair.server_side.rx.get();
    fi_cq_data_entry entry = {};
    FABRIC_RC(-FI_EAGAIN, fi_cq_sread(rx, &entry, 1, nullptr, 1));
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, &to));
    auto receiver = std::async(std::launch::async, [&] { return fi_cq_sread(rx, &entry, 1, nullptr, -1); });
    FABRIC(fi_inject(pair.client.get(), "ping", 4, 0));
    eventually("the message", [&] {
        (void)try_completion(pair.client_side.tx.get());
        return receiver.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    CHECK(receiver.get() == 1);
    CHECK(entry.op_context == &to);
    receiver = std::async(std::launch::async, [&] { return fi_cq_sread(rx, &entry, 1, nullptr, -1); });
    FABRIC(fi_cq_signal(rx));
    CHECK(receiver.get() == -FI_EAGAIN);
}

TEST_CASE("a listener that sleeps wakes up for a request, and not for another one's", "[wait]")
{
    Node server_side(FI_WAIT_FD), other_side(FI_WAIT_FD), client_side(FI_WAIT_FD);
    const Listener listener(server_side), other(other_side);
    const Fid<fid_ep> client = make_endpoint(client_side, client_side.info.get());
    FABRIC(fi_connect(client.get(), listener.address().data(), nullptr, 0));
    sleep_on(server_side, &server_side.eq->fid);
    const Event request = next_event(server_side);
    CHECK(request.type == FI_CONNREQ);
    fid_t queue = &other_side.eq->fid;
    pollfd one = {-1, POLLIN, 0};
    FABRIC(fi_control(queue, FI_GETWAIT, &one.fd));
    CHECK(fi_trywait(other_side.fabric.get(), &queue, 1) == 0);
    CHECK(poll(&one, 1, static_cast<int>(kMoment)) == 0);
    const Fid<fid_ep> server = make_endpoint(server_side, request.info.get());
    FABRIC(fi_accept(server.get(), nullptr, 0));
    uint32_t type = 0;
    fi_eq_cm_entry entry = {};
    // The client's thread connects, while the program sleeps.
    CHECK(fi_eq_sread(client_side.eq.get(), &type, &entry, sizeof(entry), static_cast<int>(patience()), 0) ==
          sizeof(entry));
    CHECK(type == FI_CONNECTED);
    CHECK(fi_eq_sread(client_side.eq.get(), &type, &entry, sizeof(entry), 1, 0) == -FI_EAGAIN);
}

TEST_CASE("a listener may have had its wait object before, and may sleep in the call", "[wait]")
{
    Node server_side(FI_WAIT_FD), client_side(FI_WAIT_FD);
    pollfd one = {-1, POLLIN, 0};
    FABRIC(fi_control(&server_side.eq->fid, FI_GETWAIT, &one.fd));
    const Listener listener(server_side);
    const Fid<fid_ep> client = make_endpoint(client_side, client_side.info.get());
    FABRIC(fi_connect(client.get(), listener.address().data(), nullptr, 0));
    CHECK(poll(&one, 1, static_cast<int>(patience())) == 1);
    Event request = next_event(server_side);
    CHECK(request.type == FI_CONNREQ);
    FABRIC(fi_reject(listener.pep.get(), request.info->handle, nullptr, 0));

    Node sleeper(FI_WAIT_FD);
    const Listener another(sleeper);
    const Fid<fid_ep> second = make_endpoint(client_side, client_side.info.get());
    auto waiter = std::async(std::launch::async, [&] {
        uint32_t type = 0;
        fi_eq_cm_entry entry = {};
        const ssize_t rc =
            fi_eq_sread(sleeper.eq.get(), &type, &entry, sizeof(entry), static_cast<int>(patience()), 0);
        request.info.reset(entry.info);
        return rc == sizeof(entry) ? type : 0;
    });
    FABRIC(fi_connect(second.get(), another.address().data(), nullptr, 0));
    CHECK(waiter.get() == FI_CONNREQ);
}

TEST_CASE("completions of an endpoint that was closed are gone", "[wait]")
{
    Pair pair(FI_WAIT_FD);
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    fid_t queue = &pair.client_side.tx->fid;
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
    FABRIC(fi_send(pair.client.get(), from.data(), 64, from.desc(), 0, nullptr));
    eventually("the completion",
               [&] { // which the queue has taken from the device, and the program has not read
                   return fi_trywait(pair.client_side.fabric.get(), &queue, 1) == -FI_EAGAIN;
               });
    pair.client.reset();
    CHECK(fi_trywait(pair.client_side.fabric.get(), &queue, 1) == 0);
    CHECK(!try_completion(pair.client_side.tx.get()));
    pair.server.reset(); // before the memory of its receive ends
}

TEST_CASE("queues without a wait object have none", "[wait]")
{
    Node node;
    int fd = -1;
    fi_wait_obj wait = FI_WAIT_UNSPEC;
    fi_cq_data_entry entry = {};
    FABRIC(fi_control(&node.rx->fid, FI_GETWAITOBJ, &wait));
    CHECK(wait == FI_WAIT_NONE);
    FABRIC_RC(-FI_ENOSYS, fi_control(&node.rx->fid, FI_GETWAIT, &fd));
    FABRIC_RC(-FI_ENOSYS, fi_cq_sread(node.rx.get(), &entry, 1, nullptr, 0));
}
