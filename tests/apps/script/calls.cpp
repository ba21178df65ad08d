// SPDX-License-Identifier: MIT
#include "calls.hpp"
#include "blocked.hpp"
#include "edges.hpp"
#include "transfers.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

volatile std::sig_atomic_t sigpipes;

Outcome of(long value)
{
    return {value, value < 0 ? errno : 0, {}};
}

Outcome shut(const Step &step, const Pair &pair)
{
    return of(shutdown(pair.fd(step.end, step.which), step.option));
}

Outcome close_all(const Step &step, Pair &pair)
{
    if (step.option != 0) {
        linger abort{1, 0};
        setsockopt(pair.fd(step.end), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    }
    if (pair.fds[step.end].size() >
        1) { // a registration lasts as long as the last duplicate: that is not compared
        epoll_ctl(pair.set, EPOLL_CTL_DEL, pair.fd(step.end), nullptr);
    }
    pair.close_end(step.end);
    return {};
}

// A pipe that is never readable and always writable, which no preload library cares for.
const int *plain_pipe()
{
    static int fds[2] = {-1, -1};
    if (fds[0] < 0 && pipe(fds) != 0) {
        throw Wrong{"pipe"};
    }
    return fds;
}

std::vector<int> polled(const Pair &pair, const Model &model, std::size_t which)
{
    std::vector<int> fds;
    for (int end : {0, 1}) {
        if (model.ends[end].open) {
            fds.push_back(pair.fd(end, which));
        }
    }
    fds.push_back(plain_pipe()[0]);
    return fds;
}

Outcome by_poll(const Step &step, const std::vector<int> &fds)
{
    std::vector<pollfd> list;
    for (int fd : fds) {
        list.push_back({fd, static_cast<short>(step.events), 0});
    }
    list.push_back({-1, POLLIN, 0});
    timespec time{0, step.flags * 1000000L};
    Outcome outcome = of(step.how == kPoll ? poll(list.data(), list.size(), step.flags)
                                           : ppoll(list.data(), list.size(), &time, nullptr));
    for (const pollfd &one : list) {
        outcome.more.push_back(one.revents);
    }
    return outcome;
}

Outcome by_select(const Step &step, const std::vector<int> &fds)
{
    fd_set sets[3];
    fd_set *given[3] = {nullptr, nullptr, nullptr};
    int most = 0;
    for (int i = 0; i < 3; i++) {
        FD_ZERO(&sets[i]);
        if ((step.option & (1 << i)) != 0) {
            given[i] = &sets[i];
        }
        for (int fd : fds) {
            FD_SET(fd, &sets[i]);
            most = std::max(most, fd);
        }
    }
    timeval time{0, step.flags * 1000L};
    timespec time_too{0, step.flags * 1000000L};
    Outcome outcome =
        of(step.how == kSelect ? select(most + 1, given[0], given[1], given[2], &time)
                               : pselect(most + 1, given[0], given[1], given[2], &time_too, nullptr));
    for (int i = 0; i < 3; i++) {
        for (int fd : fds) {
            outcome.more.push_back(given[i] != nullptr && FD_ISSET(fd, given[i]));
        }
    }
    return outcome;
}

Outcome nonblock(const Step &step, const Pair &pair)
{
    int fd = pair.fd(step.end, step.which), on = step.option;
    Outcome outcome =
        of(step.how == 0 ? fcntl(fd, F_SETFL, on != 0 ? O_NONBLOCK : 0) : ioctl(fd, FIONBIO, &on));
    outcome.more.push_back(fcntl(fd, F_GETFL) & O_NONBLOCK);
    return outcome;
}

Outcome unread(const Step &step, const Pair &pair)
{
    int count = -1, error = -1;
    socklen_t size = sizeof(error);
    Outcome outcome = of(ioctl(pair.fd(step.end, step.which), FIONREAD, &count));
    outcome.more.push_back(count);
    outcome.more.push_back(getsockopt(pair.fd(step.end, step.which), SOL_SOCKET, SO_ERROR, &error, &size));
    outcome.more.push_back(error);
    return outcome;
}

Outcome duplicate(const Step &step, Pair &pair)
{
    int fd = pair.fd(step.end, step.which), copy = -1;
    if (step.how == 0) {
        copy = dup(fd);
    } else if (step.how == 1) {
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 5);
    } else { // over a descriptor that is open
        copy = dup3(fd, dup(plain_pipe()[0]), O_CLOEXEC);
    }
    if (copy >= 0) {
        pair.fds[step.end].push_back(copy);
    }
    return of(copy < 0 ? -1 : 0);
}

Outcome close_one(const Step &step, Pair &pair)
{
    auto &fds = pair.fds[step.end];
    std::size_t which = 1 + step.which % (fds.size() - 1);
    Outcome outcome = of(close(fds[which]));
    fds.erase(fds.begin() + static_cast<long>(which));
    return outcome;
}

Outcome timeout(const Step &step, const Pair &pair)
{
    timeval time{0, step.option * 1000}, now{};
    socklen_t size = sizeof(now);
    Outcome outcome =
        of(setsockopt(pair.fd(step.end, step.which), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
    outcome.more.push_back(getsockopt(pair.fd(step.end, step.which), SOL_SOCKET, SO_RCVTIMEO, &now, &size));
    outcome.more.push_back(now.tv_usec > 0);
    return outcome;
}

Outcome bad(const Step &step, const Pair &pair)
{
    int fd = pair.fd(step.end, step.which);
    char byte = 0;
    iovec one{&byte, 1};
    volatile int fewest = -1, most = 1025; // a compiler that knows these numbers warns
    switch (step.how) {
    case 0:
        return of(readv(fd, &one, fewest));
    case 1:
        return of(writev(fd, &one, most));
    case 2:
        return of(shutdown(fd, 7));
    case 3:
        return of(lseek(fd, 0, SEEK_SET));
    case 4:
        return of(pread(fd, &byte, 1, 0));
    case 5:
        return of(accept(fd, nullptr, nullptr));
    case 6:
        return of(readv(fd, nullptr, 0));
    default:
        return of(listen(plain_pipe()[0], 1));
    }
}

} // namespace

std::string Step::text() const
{
    static const char *const names[] = {
        "Send",   "Receive",   "Shutdown", "Close",   "Poll", "Control", "Wait",    "Nested",  "Nonblocking",
        "Unread", "Duplicate", "CloseOne", "Timeout", "Bad",  "Fill",    "Blocked", "DeadSend"};
    return std::string(names[static_cast<int>(kind)]) + " of end " + std::to_string(end) + ", descriptor " +
           std::to_string(which) + ", call " + std::to_string(how) + ", size " + std::to_string(size) +
           " in " + std::to_string(parts.size()) + ", flags " + std::to_string(flags) + ", option " +
           std::to_string(option) + ", events " + std::to_string(events);
}

bool Outcome::operator==(const Outcome &other) const
{
    return value == other.value && error == other.error && more == other.more;
}

std::string Outcome::text() const
{
    std::string text = std::to_string(value) + " " + error_name(error) + " (";
    for (long each : more) {
        text += " " + std::to_string(each);
    }
    return text + " )";
}

void count_sigpipe()
{
    struct sigaction action = {};
    action.sa_handler = [](int) { sigpipes = sigpipes + 1; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGPIPE, &action, nullptr);
}

long taken_sigpipe()
{
    long count = sigpipes;
    sigpipes = 0;
    return count;
}

Outcome perform(const Step &step, Pair &pair, const Model &model)
{
    switch (step.kind) {
    case Kind::Send:
        return send_some(step, pair);
    case Kind::Receive:
        return receive_some(step, pair);
    case Kind::Shutdown:
        return shut(step, pair);
    case Kind::Close:
        return close_all(step, pair);
    case Kind::Poll:
        return step.how < kSelect ? by_poll(step, polled(pair, model, step.which))
                                  : by_select(step, polled(pair, model, step.which));
    case Kind::Control:
        return control(step, pair);
    case Kind::Wait:
        return model.mode == Mode::edge ? wait_for_edges(pair, model) : wait_for_levels(pair);
    case Kind::Nested:
        return wait_nested(pair);
    case Kind::Nonblocking:
        return nonblock(step, pair);
    case Kind::Unread:
        return unread(step, pair);
    case Kind::Duplicate:
        return duplicate(step, pair);
    case Kind::CloseOne:
        return close_one(step, pair);
    case Kind::Timeout:
        return timeout(step, pair);
    case Kind::Bad:
        return bad(step, pair);
    case Kind::Fill:
        return fill(step, pair, model);
    case Kind::Blocked:
        return blocked(step, pair, model);
    case Kind::DeadSend:
        return dead_send(step, pair, model);
    }
    return {};
}
