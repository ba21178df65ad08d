// SPDX-License-Identifier: MIT
#include "blocked.hpp"
#include "transfers.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace {

std::atomic<int> handled; // signals

// The waiting call and its outcome. Shared by two threads, and kept by the one that hangs.
struct Waiting {
    Step step;
    int fd = -1;
    std::vector<unsigned char> bytes;
    std::atomic<int> thread{0};
    std::mutex lock; // of what follows
    std::condition_variable changed;
    bool is_over = false;
    Outcome outcome;
};

Outcome of(long value)
{
    return {value, value < 0 ? errno : 0, {}};
}

Outcome wait_by_poll(int fd)
{
    pollfd one{fd, POLLIN | POLLRDHUP, 0};
    Outcome outcome = of(poll(&one, 1, -1));
    if (outcome.value > 0) {
        outcome.more.push_back(one.revents);
    }
    return outcome;
}

Outcome wait_by_select(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return of(select(fd + 1, &set, nullptr, nullptr, nullptr));
}

// A set of its own, edge triggered or level triggered.
Outcome wait_by_epoll(int fd, bool by_edge)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | (by_edge ? static_cast<std::uint32_t>(EPOLLET) : 0u);
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) {
        return of(-1);
    }
    epoll_event reported{};
    Outcome outcome = of(epoll_wait(set, &reported, 1, -1));
    if (outcome.value > 0) {
        outcome.more.push_back(reported.events);
    }
    close(set);
    return outcome;
}

Outcome call(Waiting &waiting)
{
    int fd = waiting.fd;
    switch (waiting.step.how) {
    case kWaitRecv:
        return of(recv(fd, waiting.bytes.data(), waiting.bytes.size(), 0));
    case kWaitRecvAll:
        return of(recv(fd, waiting.bytes.data(), waiting.bytes.size(), MSG_WAITALL));
    case kWaitPoll:
        return wait_by_poll(fd);
    case kWaitSelect:
        return wait_by_select(fd);
    case kWaitEpoll:
        return wait_by_epoll(fd, waiting.step.flags != 0);
    default:
        return of(send(fd, waiting.bytes.data(), waiting.bytes.size(), MSG_NOSIGNAL));
    }
}

void run(const std::shared_ptr<Waiting> &waiting)
{
    waiting->thread = gettid();
    Outcome outcome = call(*waiting);
    std::lock_guard<std::mutex> hold(waiting->lock);
    waiting->outcome = outcome;
    waiting->is_over = true;
    waiting->changed.notify_all();
}

bool is_over(Waiting &waiting)
{
    std::lock_guard<std::mutex> hold(waiting.lock);
    return waiting.is_over;
}

// Until the thread sleeps in the kernel, or its call is over.
void await_sleep(Waiting &waiting)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms());
    while (!is_over(waiting) && std::chrono::steady_clock::now() < end) {
        std::ifstream file("/proc/self/task/" + std::to_string(waiting.thread) + "/stat");
        std::string text;
        std::getline(file, text);
        std::size_t at = text.rfind(')');
        if (waiting.thread != 0 && at != std::string::npos && text.size() > at + 2 && text[at + 2] == 'S') {
            return;
        }
        sched_yield();
    }
}

void set_handler(bool restarts)
{
    struct sigaction action = {};
    action.sa_handler = [](int) { handled++; };
    action.sa_flags = restarts ? SA_RESTART : 0;
    sigaction(SIGUSR1, &action, nullptr);
}

void interrupt(std::thread &thread, Waiting &waiting, bool restarts)
{
    set_handler(restarts);
    int before = handled;
    pthread_kill(thread.native_handle(), SIGUSR1);
    while (handled == before && !is_over(waiting)) {
        sched_yield();
    }
    if (restarts) {
        await_sleep(waiting);
    }
}

void send_to(const Step &step, Pair &pair, Waiting &waiting)
{
    std::size_t left = step.size;
    for (std::size_t part : step.parts) {
        auto bytes = pair.next(1 - step.end, part);
        if (part > 0 &&
            send(pair.fd(1 - step.end), bytes.data(), part, MSG_NOSIGNAL) != static_cast<ssize_t>(part)) {
            throw Wrong{std::string(pair.name) + ": a small send is not taken"};
        }
        pair.sent[1 - step.end] += part;
        left -= part;
        if (left > 0 && step.how == kWaitRecvAll) {
            await_sleep(waiting);
        }
    }
}

void wake(const Step &step, Pair &pair, std::thread &thread, Waiting &waiting)
{
    if (step.how == kWaitSend) {
        drain(pair, 1 - step.end, pair.sent[step.end] + step.size);
        return;
    }
    switch (step.option) {
    case kWakeEnd:
        shutdown(pair.fd(1 - step.end), SHUT_WR);
        break;
    case kWakeOwnShutdown:
        shutdown(pair.fd(step.end), SHUT_RD);
        break;
    case kWakeSignal:
        interrupt(thread, waiting, false);
        break;
    case kWakeRestart:
        interrupt(thread, waiting, true);
        break;
    case kWakeAbort: {
        linger abort{1, 0};
        setsockopt(pair.fd(1 - step.end), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
        epoll_ctl(pair.set, EPOLL_CTL_DEL, pair.fd(1 - step.end), nullptr);
        pair.close_end(1 - step.end);
        break;
    }
    default:
        break;
    }
    if (sends_to_waiter(step)) {
        send_to(step, pair, waiting);
    }
}

} // namespace

bool sends_to_waiter(const Step &step)
{
    return step.how != kWaitSend &&
           (step.option == kWakeSend || (step.option == kWakeRestart && step.how <= kWaitRecvAll));
}

Outcome blocked(const Step &step, Pair &pair, const Model & /* model */)
{
    auto waiting = std::make_shared<Waiting>();
    waiting->step = step;
    waiting->fd = pair.fd(step.end, step.which);
    waiting->bytes =
        step.how == kWaitSend ? pair.next(step.end, step.size) : std::vector<unsigned char>(step.size);
    std::thread thread(run, waiting);
    await_sleep(*waiting);
    try {
        wake(step, pair, thread, *waiting);
        std::unique_lock<std::mutex> hold(waiting->lock);
        if (!waiting->changed.wait_for(hold, std::chrono::milliseconds(limit_ms()),
                                       [&] { return waiting->is_over; })) {
            throw Wrong{std::string("HUNG: ") + pair.name + ": a call that waits is not woken"};
        }
    } catch (...) {
        thread.detach();
        throw;
    }
    thread.join();
    Outcome outcome = waiting->outcome;
    if (step.how == kWaitSend) {
        pair.sent[step.end] += step.size;
    } else if (step.how <= kWaitRecvAll && outcome.value > 0) {
        if (!pair.is_right(step.end, waiting->bytes.data(), static_cast<std::size_t>(outcome.value))) {
            throw Wrong{std::string("WRONG bytes: ") + pair.name + ": " + step.text()};
        }
        pair.received[step.end] += static_cast<std::uint64_t>(outcome.value);
    }
    return outcome;
}
