// SPDX-License-Identifier: MIT
//
// epoll sets with connections in them: levels, edges, one shot; members that come, change, move and
// go; several threads, and sets in sets.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "epoll_set.hpp"
#include "raw.hpp"
#include "waiting.hpp"

using namespace sockets_test;

namespace {

const Events kNone;

/** Waits, by a set of its own, until bytes have come; takes none. */
void await_bytes(int fd)
{
    pollfd one = {fd, POLLIN, 0};
    must(poll(&one, 1, in_time()) == 1, "bytes");
}

/** Sends until there is no room; returns the bytes. */
size_t fill(int fd)
{
    const std::string text(65536, 'f');
    size_t sent = 0;
    ssize_t n;
    while ((n = send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
        sent += static_cast<size_t>(n);
    }
    must(errno == EAGAIN, "fill");
    return sent;
}

} // namespace

// The first case: later ones leave free memory, in which a leak would not show.
#if !defined(__SANITIZE_ADDRESS__) // whose allocator keeps what was freed

static long resident_kib()
{
    long pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return resident * sysconf(_SC_PAGESIZE) / 1024;
}

TEST_CASE("a number that many connections with TCP have in turn leaves nothing in the set")
{
    constexpr unsigned kFirst = 500, kMany = 5000;
    constexpr long kSpareKib = 256; // an entry takes a quarter of a KiB
    const Listener listener;
    const Set set;
    long before = 0;
    for (unsigned i = 0; i < kMany; i++) {
        const Fd client = raw_connect(listener);
        const Fd server = listener.accept();
        REQUIRE(set.add(server, EPOLLIN, i) == 0);
        REQUIRE(raw_send(client, "x") == 1);
        REQUIRE(set.wait(in_time()) == Events{{i, EPOLLIN}});
        REQUIRE(try_receive(server, 2) == 1);
        before = i == kFirst ? resident_kib() : before;
    }
    CHECK(resident_kib() - before < kSpareKib);
}

#endif

TEST_CASE("by its level a member is reported until nothing is there")
{
    Pair pair;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN | EPOLLRDHUP, 7) == 0);
    CHECK(set.wait() == kNone);
    send_all(pair.client, "abc");
    CHECK(set.wait(in_time()) == Events{{7, EPOLLIN}});
    CHECK(set.wait() == Events{{7, EPOLLIN}});
    CHECK(try_receive(pair.server, 2) == 2);
    CHECK(set.wait() == Events{{7, EPOLLIN}});
    CHECK(try_receive(pair.server, 2) == 1);
    CHECK(set.wait() == kNone);
    shutdown(pair.client, SHUT_WR);
    CHECK(set.wait(in_time()) == Events{{7, EPOLLIN | EPOLLRDHUP}});
    shutdown(pair.server, SHUT_WR);
    CHECK(set.wait() == Events{{7, EPOLLIN | EPOLLRDHUP | EPOLLHUP}});
}

TEST_CASE("by its edge a member is reported once for each arrival")
{
    Pair pair;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 7) == 0);
    CHECK(set.wait() == Events{{7, EPOLLOUT}});
    CHECK(set.wait() == kNone);
    send_all(pair.client, "abc");
    CHECK(set.wait(in_time()) == Events{{7, EPOLLIN | EPOLLOUT}});
    CHECK(set.wait() == kNone);
    CHECK(try_receive(pair.server, 1) == 1);
    CHECK(set.wait() == kNone);
    send_all(pair.client, "d");
    CHECK(set.wait(in_time()) == Events{{7, EPOLLIN | EPOLLOUT}});
    CHECK(try_receive(pair.server, 10) == 3);
    CHECK(set.wait() == kNone);
    shutdown(pair.client, SHUT_WR);
    CHECK(set.wait(in_time()) == Events{{7, EPOLLIN | EPOLLOUT | EPOLLRDHUP}});
    CHECK(set.wait() == kNone);
    REQUIRE(set.modify(pair.server, EPOLLIN | EPOLLET, 8) == 0);
    CHECK(set.wait() == Events{{8, EPOLLIN}});
    CHECK(set.wait() == kNone);
}

TEST_CASE("an arrival is no edge for a member that waits for room only")
{
    Pair pair;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLOUT | EPOLLET, 7) == 0);
    CHECK(set.wait() == Events{{7, EPOLLOUT}});
    send_all(pair.client, "abc");
    await_bytes(pair.server);
    CHECK(set.wait() == kNone);
}

TEST_CASE("room after a send that found none is an edge, and is reported once")
{
    Pair pair;
    const Set set;
    for (int turn = 0; turn < 3; turn++) {
        const size_t sent = fill(pair.client);
        if (turn == 0) {
            REQUIRE(set.add(pair.client, EPOLLOUT | EPOLLET, 7) == 0);
        }
        CHECK(set.wait() == kNone);
        Task reader([&] { must(receive(pair.server, sent).size() == sent, "receive"); });
        CHECK(set.wait(in_time()) == Events{{7, EPOLLOUT}});
        reader.finish();
        while (!set.wait(kMoment).empty()) { // the kernel may tell of more room while more is read
        }
        CHECK(set.wait() == kNone);
    }
    const size_t sent = fill(pair.client);
    REQUIRE(set.modify(pair.client, EPOLLOUT, 8) == 0);
    CHECK(set.wait() == kNone);
    Task reader([&] { must(receive(pair.server, sent).size() == sent, "receive"); });
    CHECK(set.wait(in_time()) == Events{{8, EPOLLOUT}});
    reader.finish();
    CHECK(set.wait() == Events{{8, EPOLLOUT}});
}

TEST_CASE("a one-shot member is reported once, until it is modified")
{
    Pair pair;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN | EPOLLONESHOT, 7) == 0);
    send_all(pair.client, "a");
    CHECK(set.wait(in_time()) == Events{{7, EPOLLIN}});
    CHECK(set.wait() == kNone);
    send_all(pair.client, "b");
    await_bytes(pair.server);
    CHECK(set.wait() == kNone);
    REQUIRE(set.modify(pair.server, EPOLLIN | EPOLLONESHOT, 8) == 0);
    CHECK(set.wait() == Events{{8, EPOLLIN}});
    CHECK(set.wait() == kNone);
    pair.client.close();
    CHECK(set.wait(kMoment) == kNone);
    REQUIRE(set.modify(pair.server, EPOLLRDHUP | EPOLLONESHOT, 9) == 0);
    CHECK(set.wait(in_time()) == Events{{9, EPOLLRDHUP}});
}

TEST_CASE("members are added, changed and removed as in the kernel")
{
    Pair pair;
    Pipe pipe;
    const Set set;
    CHECK(set.modify(pair.server, EPOLLIN) == ENOENT);
    CHECK(set.remove(pair.server) == ENOENT);
    CHECK(set.add(pair.server, EPOLLIN) == 0);
    CHECK(set.add(pair.server, EPOLLIN) == EEXIST);
    CHECK(set.control(17, pair.server, EPOLLIN, 1) == EINVAL);
    CHECK(set.modify(pair.server, EPOLLIN | EPOLLEXCLUSIVE) == EINVAL);
    CHECK(set.add(pair.client, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT) == EINVAL);
    CHECK(set.add(pair.client, EPOLLIN | EPOLLEXCLUSIVE, 3) == 0);
    CHECK(set.modify(pair.client, EPOLLIN) == EINVAL);
    CHECK(set.add(set, EPOLLIN) == EINVAL);
    CHECK(set.add(-1, EPOLLIN) == EBADF);
    epoll_event event;
    CHECK(epoll_wait(set, &event, 0, 0) == -1);
    CHECK(errno == EINVAL);
    CHECK(epoll_wait(pipe.in, &event, 1, 0) == -1);
    CHECK(errno == EINVAL);

    send_all(pair.client, "a");
    await_bytes(pair.server);
    CHECK(set.modify(pair.server, EPOLLOUT, 5) == 0);
    CHECK(set.wait() == Events{{5, EPOLLOUT}});
    CHECK(set.modify(pair.server, 0, 6) == 0);
    CHECK(set.wait() == kNone);
    CHECK(set.modify(pair.server, EPOLLIN, 7) == 0);
    CHECK(set.remove(pair.server) == 0); // its event is there, and goes with it
    CHECK(set.wait() == kNone);
    CHECK(set.add(pair.server, EPOLLIN, 8) == 0);
    CHECK(set.wait() == Events{{8, EPOLLIN}});
    send_all(pair.server, "b");
    await_bytes(pair.client);
    CHECK(set.wait() == Events{{3, EPOLLIN}, {8, EPOLLIN}});
}

TEST_CASE("plain descriptors and connections are reported beside each other")
{
    Pair pair;
    Pipe pipe;
    const Set set;
    REQUIRE(set.add(pipe.in, EPOLLIN, ~UINT64_C(0)) == 0);
    REQUIRE(set.add(pair.server, EPOLLIN, 0) == 0);
    CHECK(set.wait() == kNone);
    pipe.put();
    CHECK(set.wait(in_time()) == Events{{~UINT64_C(0), EPOLLIN}});
    send_all(pair.client, "a");
    await_bytes(pair.server);
    bool pipe_is_seen = false, pair_is_seen = false; // neither keeps the other from being reported
    for (int i = 0; i < 40; i++) {
        const Events found = set.wait(in_time(), 1);
        pipe_is_seen = pipe_is_seen || found.count(~UINT64_C(0)) != 0;
        pair_is_seen = pair_is_seen || found.count(0) != 0;
    }
    CHECK(pipe_is_seen);
    CHECK(pair_is_seen);
    CHECK(try_receive(pair.server, 1) == 1);
    CHECK(set.wait() == Events{{~UINT64_C(0), EPOLLIN}});
    pipe.take();
    CHECK(set.wait() == kNone);
}

TEST_CASE("all that are ready come to be reported, a few at a time")
{
    std::vector<Pair> pairs(10);
    const Set set;
    std::set<uint64_t> seen;
    for (size_t i = 0; i < pairs.size(); i++) {
        REQUIRE(set.add(pairs[i].server, EPOLLIN, i) == 0);
        send_all(pairs[i].client, "a");
        await_bytes(pairs[i].server);
    }
    for (int i = 0; i < 5; i++) {
        const Events found = set.wait(in_time(), 2);
        CHECK(found.size() == 2);
        for (const auto &one : found) {
            seen.insert(one.first);
        }
    }
    CHECK(seen.size() == pairs.size());
}

TEST_CASE("a wait ends with the time, with a message, and with a plain descriptor")
{
    Pair pair;
    Pipe pipe, begun;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    REQUIRE(set.add(pipe.in, EPOLLIN, 2) == 0);
    const auto before = vipl_test::now_ms();
    CHECK(set.wait(2 * kMoment) == kNone);
    CHECK(vipl_test::now_ms() - before >= 2 * kMoment);
    for (int i = 0; i < 50; i++) {
        Task waiter([&] {
            begun.put();
            const Events found = set.wait(in_time());
            must(found == Events{{i % 2 == 0 ? 1 : 2, EPOLLIN}}, "what has come");
            if (i % 2 == 0) {
                must(try_receive(pair.server, 2) == 1, "recv");
            } else {
                pipe.take();
            }
        });
        begun.take();
        if (i % 2 == 0) {
            send_all(pair.client, "x");
        } else {
            pipe.put();
        }
        waiter.finish();
    }
}

TEST_CASE("a signal interrupts a wait, and the mask of epoll_pwait lets it through")
{
    Pair pair;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    struct sigaction action = {}, before = {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
    sigset_t blocked, mask, none;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigemptyset(&none);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, &mask) == 0);
    epoll_event event;
    raise(SIGUSR1);
    CHECK(epoll_wait(set, &event, 1, kMoment) == 0);
    CHECK(epoll_pwait(set, &event, 1, in_time(), &none) == -1);
    CHECK(errno == EINTR);
    raise(SIGUSR1);
    const timespec time = {in_time() / 1000, 0};
    CHECK(epoll_pwait2(set, &event, 1, &time, &none) == -1);
    CHECK(errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);

    std::atomic<bool> ended{false};
    Task waiter([&] {
        epoll_event own;
        must(epoll_wait(set, &own, 1, -1) == -1 && errno == EINTR, "epoll_wait");
        ended = true;
    });
    while (!ended) {
        pthread_kill(waiter.thread().native_handle(), SIGUSR1);
        poll(nullptr, 0, 1);
    }
    waiter.finish();
    sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("two threads that wait for one set share its events")
{
    std::vector<Pair> pairs(8);
    const Set set;
    Pipe end;
    constexpr int kMessages = 100;
    std::atomic<int> taken{0};
    for (size_t i = 0; i < pairs.size(); i++) {
        REQUIRE(set.add(pairs[i].server, EPOLLIN | EPOLLONESHOT, i) == 0);
    }
    REQUIRE(set.add(end.in, EPOLLIN, 99) == 0);
    const auto work = [&] {
        for (;;) {
            for (const auto &one : set.wait(in_time(), 3)) {
                if (one.first == 99) {
                    return;
                }
                const int fd = pairs[one.first].server;
                must(try_receive(fd, 1) == 1, "an event is one thread's");
                send_all(fd, "r");
                taken++;
                must(set.modify(fd, EPOLLIN | EPOLLONESHOT, one.first) == 0, "EPOLL_CTL_MOD");
            }
        }
    };
    Task first(work), second(work);
    for (int i = 0; i < kMessages; i++) {
        for (const Pair &pair : pairs) {
            send_all(pair.client, "q");
        }
        for (const Pair &pair : pairs) {
            REQUIRE(receive_polled(pair.client, 1) == "r");
        }
    }
    end.put();
    first.finish();
    second.finish();
    CHECK(taken == kMessages * static_cast<int>(pairs.size()));
}

TEST_CASE("a thread that takes a part of what is ready leaves the rest to another one that waits")
{
    Pair one, two;
    const Set set;
    for (int i = 0; i < 100; i++) {
        REQUIRE(set.add(one.server, EPOLLIN | EPOLLONESHOT, 1) == 0);
        REQUIRE(set.add(two.server, EPOLLIN | EPOLLONESHOT, 2) == 0);
        std::atomic<int> ended{0};
        const auto work = [&] {
            must(set.wait(in_time(), 1).size() == 1, "an event for each thread");
            ended++;
            must(eventually([&] { return ended == 2; }), "the other thread is woken");
        };
        Task first(work), second(work);
        send_all(one.client, "x");
        send_all(two.client, "x");
        first.finish();
        second.finish();
        CHECK(try_receive(one.server, 2) == 1);
        CHECK(try_receive(two.server, 2) == 1);
        REQUIRE(set.remove(one.server) == 0);
        REQUIRE(set.remove(two.server) == 0);
    }
}

TEST_CASE("a thread that waits is woken for what another thread takes from the device")
{
    Pair pair, other;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    Task waiter([&] {
        for (int i = 0; i < 200; i++) {
            must(set.wait(in_time()) == Events{{1, EPOLLIN}}, "epoll_wait");
            must(try_receive(pair.server, 1) == 1, "recv");
            send_all(pair.server, "r");
        }
    });
    Task reader([&] { must(receive(other.server, 200).size() == 200, "receive"); });
    for (int i = 0; i < 200; i++) {
        send_all(pair.client, "q");
        send_all(other.client, "o");
        CHECK(receive(pair.client, 1) == "r");
    }
    waiter.finish();
    reader.finish();
}

TEST_CASE("a thread that waits already is told of a new member")
{
    Pair pair;
    const Listener listener;
    for (int i = 0; i < 20; i++) {
        FreshPair fresh(listener);
        Pipe begun;
        const Set set;
        Task waiter([&] {
            begun.put();
            must(set.wait(in_time()) == Events{{1, EPOLLIN}}, "epoll_wait");
        });
        begun.take();
        const bool is_fresh = i % 2 == 0;
        REQUIRE(set.add(is_fresh ? fresh.server : pair.server, EPOLLIN, 1) == 0);
        send_all(is_fresh ? fresh.client : pair.client, "x");
        waiter.finish();
        if (!is_fresh) {
            CHECK(try_receive(pair.server, 2) == 1);
        }
    }
}

TEST_CASE("a set in a set, and a set that is polled, tell of connections")
{
    Pair pair, other;
    const Set inner, outer;
    REQUIRE(inner.add(pair.server, EPOLLIN, 1) == 0);
    REQUIRE(outer.add(inner, EPOLLIN, 2) == 0);
    REQUIRE(inner.add(other.server, EPOLLIN, 3) == 0);
    const auto poll_inner = [&](int ms) {
        pollfd fd = {inner, POLLIN, 0};
        return poll(&fd, 1, ms) == 1 && fd.revents == POLLIN;
    };
    CHECK(outer.wait() == kNone);
    CHECK_FALSE(poll_inner(0));
    for (const Pair *each : {&pair, &other}) {
        send_all(each->client, "a");
        CHECK(outer.wait(in_time()) == Events{{2, EPOLLIN}});
        CHECK(poll_inner(0));
        CHECK(outer.wait() == Events{{2, EPOLLIN}});
        CHECK(inner.wait() == Events{{each == &pair ? 1 : 3, EPOLLIN}});
        CHECK(try_receive(each->server, 2) == 1);
        CHECK_FALSE(poll_inner(0));
        CHECK(outer.wait() == kNone);
    }
    // A thread that looks at another connection may be the one that takes what comes for this one.
    Pipe begun;
    std::atomic<bool> looking{true};
    Task other_thread([&] {
        while (looking) {
            pollfd fd = {other.server, POLLIN, 0};
            must(poll(&fd, 1, 0) == 0, "poll");
        }
    });
    for (int i = 0; i < 50; i++) {
        Task waiter([&] {
            begun.put();
            must(i % 2 == 0 ? poll_inner(in_time()) : outer.wait(in_time()) == Events{{2, EPOLLIN}},
                 "a wake-up");
            must(try_receive(pair.server, 2) == 1, "recv");
        });
        begun.take();
        send_all(pair.client, "x");
        waiter.finish();
    }
    looking = false;
    other_thread.finish();
    CHECK(outer.wait() == kNone);
}

TEST_CASE("a socket that is in a set before it is connected")
{
    const Listener listener;
    int moved = 0;
    for (int i = 0; i < 10; i++) {
        const Set set;
        const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        REQUIRE(set.add(client, EPOLLIN | EPOLLOUT | EPOLLET, 1) == 0);
        (void)set.wait(); // the kernel says EPOLLHUP
        const auto *to = reinterpret_cast<const sockaddr *>(&listener.address);
        REQUIRE((connect(client, to, sizeof(listener.address)) == 0 || errno == EINPROGRESS));
        const Fd server = listener.accept();
        set_nonblocking(client, false);
        Task peer([&] { moved += greet(client, server) ? 1 : 0; });
        Events found = set.wait(in_time());
        CHECK((found[1] & EPOLLOUT) != 0);
        peer.finish();
        while (!set.wait(kMoment).empty()) {
        }
        send_all(server, "x");
        found = set.wait(in_time());
        CHECK((found[1] & EPOLLIN) != 0);
    }
    CHECK((moved > 0) == moves());
}

/** Sends a text over each of some connections, whose both ends this thread has in one set. Returns
 * how many have been moved. */
static int send_from_one_set()
{
    const Listener listener;
    const Set set;
    REQUIRE(set.add(listener.fd, EPOLLIN, 0) == 0);
    constexpr uint64_t kPairs = 20;
    std::vector<Fd> clients, servers(kPairs + 1);
    std::vector<std::string> got(kPairs + 1);
    const std::string text = pattern(3000);
    std::map<uint64_t, size_t> sent;
    for (uint64_t i = 1; i <= kPairs; i++) {
        clients.push_back(listener.connect(SOCK_NONBLOCK));
        REQUIRE(set.add(clients.back(), EPOLLOUT, i) == 0);
    }
    uint64_t accepted = 0;
    size_t whole = 0;
    const auto end = vipl_test::now_ms() + vipl_test::patience();
    while (whole < kPairs && vipl_test::now_ms() < end) {
        for (const auto &one : set.wait(in_time(), 8)) {
            if (one.first == 0) {
                servers[++accepted] = listener.accept(SOCK_NONBLOCK);
                REQUIRE(set.add(servers[accepted], EPOLLIN, 1000 + accepted) == 0);
            } else if (one.first <= kPairs) {
                const int fd = clients[one.first - 1];
                size_t &done = sent[one.first];
                const ssize_t n = send(fd, &text[done], text.size() - done, MSG_NOSIGNAL);
                REQUIRE((n > 0 || errno == EAGAIN));
                done += n > 0 ? static_cast<size_t>(n) : 0;
                if (done == text.size()) {
                    REQUIRE(set.remove(fd) == 0);
                }
            } else {
                const int fd = servers[one.first - 1000];
                char bytes[1024];
                const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
                REQUIRE((n > 0 || errno == EAGAIN));
                got[one.first - 1000].append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
                whole += got[one.first - 1000].size() == text.size() ? 1 : 0;
            }
        }
    }
    CHECK(whole == kPairs);
    int moved = 0;
    for (uint64_t i = 1; i <= kPairs; i++) {
        CHECK(got[i] == text);
        moved += is_moved(servers[i]) ? 1 : 0;
    }
    return moved;
}

TEST_CASE("connections move while they are in a set, and one thread has both ends")
{
    // A client does not wait for long to be moved: on a busy machine all may stay.
    const auto end = vipl_test::now_ms() + vipl_test::patience();
    int moved = send_from_one_set();
    while (moves() && moved == 0 && vipl_test::now_ms() < end) {
        moved = send_from_one_set();
    }
    CHECK((moved > 0) == moves());
}

TEST_CASE("a connection that stays with TCP as another one is looked at: no member is reported twice")
{
    const Pair pair;
    const Listener listener;
    const Set set;
    REQUIRE(set.add(pair.client, EPOLLOUT, 1) == 0); // always ready, and the first one
    const Fd raw = raw_connect(listener);            // it will not speak VIPL
    const Fd server = listener.accept();
    REQUIRE(set.add(server, EPOLLOUT | EPOLLONESHOT, 3) == 0);
    CHECK(eventually([&] { return set.wait(1).count(3) == 1; })); // it may write first
    // A client of this process looks after servers of the process when it has waited for a while.
    const Fd client = listener.connect(SOCK_NONBLOCK);
    const auto patient_until = vipl_test::now_ms() + 50;
    REQUIRE(eventually([&] { return vipl_test::now_ms() > patient_until; }));
    REQUIRE(set.add(client, EPOLLOUT, 2) == 0);
    REQUIRE(set.modify(client, EPOLLOUT, 2) == 0); // it comes second,
    REQUIRE(set.modify(server, EPOLLOUT, 3) == 0); // and the server last
    REQUIRE(raw_send(raw, "x") == 1);
    Events all;
    CHECK(eventually([&] {
        const Events found = set.wait(1);
        all.insert(found.begin(), found.end());
        return all == Events{{1, EPOLLOUT}, {2, EPOLLOUT}, {3, EPOLLOUT}};
    }));
}

TEST_CASE("a closed connection leaves its sets, and its number is free for another one")
{
    Pair pair, other;
    Pipe pipe;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    send_all(pair.client, "a");
    await_bytes(pair.server);
    const int number = pair.server;
    const Fd copy(dup(pair.server));
    pair.server.close();
    CHECK(set.wait() == Events{{1, EPOLLIN}}); // the connection is there still
    CHECK(set.add(copy, EPOLLIN, 2) == 0);
    CHECK(set.wait() == Events{{1, EPOLLIN}, {2, EPOLLIN}});
    const Fd again(dup2(other.server, number));
    REQUIRE(again == number);
    CHECK(set.add(again, EPOLLIN, 3) == 0);
    CHECK(set.wait() == Events{{1, EPOLLIN}, {2, EPOLLIN}});
    send_all(other.client, "b");
    await_bytes(other.server);
    CHECK(set.wait() == Events{{1, EPOLLIN}, {2, EPOLLIN}, {3, EPOLLIN}});
    Fd last(dup(copy));
    const_cast<Fd &>(copy).close();
    last.close();
    CHECK(set.wait() == Events{{3, EPOLLIN}});
    CHECK(set.remove(again) == 0);
    CHECK(set.wait() == kNone);
    REQUIRE(dup2(pipe.in, number) == number);
    CHECK(set.add(number, EPOLLIN, 4) == 0);
    pipe.put();
    CHECK(set.wait() == Events{{4, EPOLLIN}});
}

TEST_CASE("a set by its duplicate, and a set that is closed while it has members")
{
    Pair pair;
    {
        Set set;
        REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
        const Fd copy(dup(set));
        set.close();
        send_all(pair.client, "a");
        epoll_event event = {};
        CHECK(epoll_wait(copy, &event, 1, in_time()) == 1);
        CHECK(event.data.u64 == 1);
        CHECK(epoll_ctl(copy, EPOLL_CTL_DEL, pair.server, nullptr) == 0);
        CHECK(epoll_ctl(copy, EPOLL_CTL_ADD, pair.server, &event) == 0);
    }
    CHECK(try_receive(pair.server, 2) == 1);
    send_all(pair.client, "b");
    await_bytes(pair.server);
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 2) == 0);
    CHECK(set.wait() == Events{{2, EPOLLIN}});
}

TEST_CASE("a forked child has its plain members, and the parent keeps what it has")
{
    Pair pair;
    Pipe pipe;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    REQUIRE(set.add(pipe.in, EPOLLIN, 2) == 0);
    const pid_t child = fork();
    if (child == 0) {
        bool right = epoll_ctl(set, EPOLL_CTL_DEL, pair.server, nullptr) == 0 || moves();
        pipe.put();
        for (int i = 0; i < 20 && right; i++) {
            epoll_event events[4];
            const int n = epoll_wait(set, events, 4, in_time());
            bool found = false;
            for (int j = 0; j < n; j++) {
                found = found || events[j].data.u64 == 2;
            }
            right = found;
        }
        _exit(right ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    pipe.take();
    if (!moves()) { // the kernel's set is shared
        REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    }
    CHECK(set.wait() == kNone);
    send_all(pair.client, "a");
    CHECK(set.wait(in_time()) == Events{{1, EPOLLIN}});
}

TEST_CASE("a forked child has no member that was closed before, whatever has its number now")
{
    Pair pair;
    Pipe closed, other;
    const Set set;
    REQUIRE(set.add(pair.server, EPOLLIN, 1) == 0);
    REQUIRE(set.add(closed.in, EPOLLIN, 2) == 0);
    const int number = closed.in;
    closed.in.close();
    const Fd again(dup2(other.in, number));
    REQUIRE(again == number);
    other.put();
    const pid_t child = fork();
    if (child == 0) {
        epoll_event events[4];
        epoll_ctl(set, EPOLL_CTL_DEL, pair.server, nullptr); // a moved connection is the parent's
        _exit(epoll_wait(set, events, 4, kMoment) == 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(set.wait() == kNone);
}

TEST_CASE("a one-shot member that was reported before it stays with TCP is not reported again")
{
    const Listener listener;
    Fd client = raw_connect(listener);
    const Fd server = listener.accept();
    const Set set;
    REQUIRE(set.add(server, EPOLLOUT | EPOLLONESHOT, 1) == 0);
    REQUIRE(set.wait(in_time()) == Events{{1, EPOLLOUT}});
    REQUIRE(raw_send(client, "xy") == 2);
    REQUIRE(receive(server, 1) == "x"); // the peer does not use VIPL
    send_all(server, "unread");
    client.close(); // which resets the connection
    await_bytes(server);
    CHECK(set.wait(kMoment) == kNone);
    CHECK(set.modify(server, EPOLLIN | EPOLLONESHOT, 2) == 0);
    CHECK((set.wait(in_time())[2] & EPOLLIN) != 0);
    CHECK(set.wait(kMoment) == kNone);
    CHECK(set.remove(server) == 0);
    CHECK(set.remove(server) == ENOENT);
}

TEST_CASE("a thousand connections in a set cost what is ready")
{
    constexpr size_t kMany = 1000;
    rlimit limit = {};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const Listener listener;
    std::vector<FreshPair> pairs;
    const Set set;
    for (size_t i = 0; i < kMany; i++) {
        pairs.emplace_back(listener);
        move(pairs[i].client, pairs[i].server);
        REQUIRE(set.add(pairs[i].server, EPOLLIN, 2 * i) == 0);
        REQUIRE(set.add(pairs[i].client, EPOLLIN | EPOLLET, 2 * i + 1) == 0);
    }
    CHECK(set.wait() == kNone);
    for (size_t i = 0; i < kMany; i += 7) {
        send_all(pairs[i].client, "a");
        CHECK(set.wait(in_time()) == Events{{2 * i, EPOLLIN}});
        CHECK(try_receive(pairs[i].server, 2) == 1);
        send_all(pairs[i].server, "b");
        CHECK(set.wait(in_time()) == Events{{2 * i + 1, EPOLLIN}});
        CHECK(try_receive(pairs[i].client, 2) == 1);
    }
    CHECK(set.wait() == kNone);
    for (const FreshPair &pair : pairs) {
        send_all(pair.client, "c");
    }
    std::set<uint64_t> seen;
    while (seen.size() < kMany) {
        const Events found = set.wait(in_time());
        REQUIRE_FALSE(found.empty());
        for (const auto &one : found) {
            CHECK(seen.insert(one.first).second);
            CHECK(try_receive(pairs[one.first / 2].server, 2) == 1);
        }
    }
}
