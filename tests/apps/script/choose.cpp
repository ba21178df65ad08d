// SPDX-License-Identifier: MIT
#include "choose.hpp"
#include "blocked.hpp"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

std::size_t Chooser::size()
{
    switch (below(6)) {
    case 0:
        return below(3);
    case 1:
        return below(20);
    case 2:
        return 4096 * (1 + below(2)) - below(2);
    case 3:
        return below(16000);
    default:
        return below(600);
    }
}

std::vector<std::size_t> Chooser::parts(std::size_t size, bool with_empty)
{
    std::vector<std::size_t> list;
    while (size > 0 && list.size() < 5) {
        if (with_empty && is_one_in(4)) {
            list.push_back(0);
        }
        std::size_t one = list.size() >= 3 ? size : 1 + below(size);
        list.push_back(one);
        size -= one;
    }
    if (size > 0 || list.empty()) {
        list.push_back(size);
    }
    return list;
}

bool Chooser::try_send(Step &step, const Model &model)
{
    const End &one = model.ends[step.end];
    if (!one.open) {
        return false;
    }
    if (one.writing && model.is_peer_gone(step.end)) {
        step.kind = Kind::DeadSend;
        return is_one_in(4);
    }
    std::size_t room = model.can_send(step.end) ? model.room(step.end) : Model::kMostUnread; // or it fails
    step.kind = Kind::Send;
    step.how = static_cast<int>(below(kSends));
    step.size = std::min(size(), room);
    step.flags = (is_one_in(2) ? MSG_NOSIGNAL : 0) | (model.is_made() && is_one_in(3) ? MSG_DONTWAIT : 0);
    step.parts = parts(step.size, step.how != kSendmmsg);
    bool is_several = step.how == kSendmmsg || step.how == kSendMore;
    return room > 0 && !(is_several && (step.size < 2 ||
                                        model.ends[1 - step.end].messages.size() + 5 > Model::kMostMessages));
}

bool Chooser::try_receive(Step &step, const Model &model)
{
    const End &one = model.ends[step.end];
    step.kind = Kind::Receive;
    step.how = static_cast<int>(below(kReceives));
    step.size = is_one_in(3) ? one.unread + below(3) : is_one_in(3) ? below(one.unread + 1) : size();
    step.flags =
        (is_one_in(5) ? MSG_PEEK : 0) | (is_one_in(4) ? MSG_DONTWAIT : 0) | (is_one_in(5) ? MSG_WAITALL : 0);
    step.parts = parts(step.size, step.how != kRecvmmsg);
    if (step.how == kRead || step.how == kReadv) {
        step.flags = 0;
    } else if (step.how == kRecvmmsg) { // of one message: at the end of the stream, the others would be empty
        step.flags = 0;
        step.parts = {step.size};
        if (step.size == 0) {
            return false;
        }
    }
    if (!one.open || ((step.flags & MSG_PEEK) && (step.flags & MSG_WAITALL) && step.size > one.unread)) {
        return false;
    }
    return step.how == kRecvmmsg ||
           !model.would_block(step.end, std::max<std::size_t>(step.size, 1), step.flags);
}

bool Chooser::try_shutdown(Step &step, const Model &model)
{
    const End &one = model.ends[step.end], &peer = model.ends[1 - step.end];
    step.kind = Kind::Shutdown;
    step.option = is_one_in(3) ? SHUT_RD : is_one_in(4) ? SHUT_RDWR : SHUT_WR;
    // When both have said that they send no more, the kernel forgets the connection some time
    // later.
    return is_one_in(12) && one.open && (one.writing || peer.writing);
}

bool Chooser::try_close(Step &step, const Model &model)
{
    const End &one = model.ends[step.end];
    step.kind = Kind::Close;
    // A client whose server aborts before it has read anything cannot tell that from a close.
    step.option = one.writing && model.is_made() && is_one_in(3);
    // Bytes unread make the kernel send a reset; behind a FIN, a reset has another errno: that is
    // not compared.
    return is_one_in(10) && one.open && (one.unread == 0 || one.writing);
}

bool Chooser::try_ask(Step &step, const Model &model)
{
    static const std::uint32_t kEvents[] = {
        POLLIN, POLLOUT,           POLLIN | POLLOUT, POLLRDHUP, POLLPRI | POLLRDNORM | POLLWRNORM,
        0,      POLLIN | POLLRDHUP};
    step.which = below(4);
    if (is_one_in(4)) {
        step.kind = is_one_in(3) ? Kind::Bad : Kind::Unread;
        step.how = static_cast<int>(below(8));
        return model.ends[step.end].open;
    }
    step.kind = Kind::Poll;
    step.how = static_cast<int>(below(kPolls));
    step.events = kEvents[below(7)];
    step.option = 1 + static_cast<int>(below(7));
    step.flags = is_one_in(8);
    return model.is_made();
}

bool Chooser::try_set(Step &step, const Model &model)
{
    const End &one = model.ends[step.end];
    if (!one.open || !is_one_in(3)) {
        return false;
    }
    switch (below(4)) {
    case 0:
        step.kind = Kind::Duplicate;
        step.how = static_cast<int>(below(3));
        return one.descriptors < 4;
    case 1:
        step.kind = Kind::CloseOne;
        step.which = below(8);
        return one.descriptors > 1;
    case 2:
        step.kind = Kind::Nonblocking;
        step.how = static_cast<int>(below(2));
        step.option = mode_ == Mode::blocking ? is_one_in(4) : !is_one_in(4);
        return model.is_made();
    default:
        step.kind = Kind::Timeout;
        step.option = is_one_in(2) ? 0 : 10;
        return mode_ == Mode::blocking;
    }
}

bool Chooser::try_epoll(Step &step, const Model &model)
{
    const End &one = model.ends[step.end];
    if (!model.epoll()) {
        return false;
    }
    if (!is_one_in(4)) {
        step.kind = mode_ == Mode::level && is_one_in(3) ? Kind::Nested : Kind::Wait;
        return true;
    }
    step.kind = Kind::Control;
    step.option = is_one_in(8)                     ? EPOLL_CTL_DEL
                  : one.registered != is_one_in(8) ? EPOLL_CTL_MOD
                                                   : EPOLL_CTL_ADD;
    step.events = (is_one_in(5) ? 0u : static_cast<std::uint32_t>(EPOLLIN)) | (is_one_in(2) ? EPOLLOUT : 0u) |
                  (is_one_in(2) ? EPOLLRDHUP : 0u) | (is_one_in(4) ? EPOLLONESHOT : 0u) |
                  (mode_ == Mode::edge ? static_cast<std::uint32_t>(EPOLLET) : 0u);
    return one.open;
}

bool Chooser::try_fill(Step &step, const Model &model)
{
    const End &peer = model.ends[1 - step.end];
    step.kind = Kind::Fill;
    step.size = is_one_in(2) ? 65536 : 1 + below(20000);
    return is_one_in(20) && model.is_made() && model.can_send(step.end) && peer.open && peer.reading &&
           peer.unread == 0;
}

bool Chooser::try_blocked(Step &step, const Model &model)
{
    const End &one = model.ends[step.end], &peer = model.ends[1 - step.end];
    step.kind = Kind::Blocked;
    step.how = static_cast<int>(below(kWaits));
    step.option = static_cast<int>(below(kWakes));
    step.flags = is_one_in(2);
    if (!is_one_in(3) || !one.open || !peer.open) {
        return false;
    }
    if (step.how == kWaitSend) {
        step.size = 500000 + below(3000000);
        return !one.nonblocking && model.can_send(step.end) && peer.reading && peer.unread == 0;
    }
    step.size = 1 + below(6000);
    step.parts =
        step.how == kWaitRecvAll ? parts(step.size, false) : std::vector<std::size_t>{1 + below(step.size)};
    bool can_wait = one.unread == 0 && !one.is_over() && one.timeout_ms == 0 &&
                    (step.how > kWaitRecvAll || !one.nonblocking);
    bool can_end =
        model.can_send(1 - step.end) && (step.option != kWakeAbort || (peer.writing && model.is_made()));
    return can_wait && can_end && (one.writing || step.option != kWakeOwnShutdown);
}

Step Chooser::next(const Model &model)
{
    for (;;) {
        Step step;
        step.end = static_cast<int>(below(2));
        step.which = below(4);
        bool found = false;
        switch (below(16)) {
        case 0:
        case 1:
        case 2:
        case 3:
            found = try_send(step, model);
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            found = try_receive(step, model);
            break;
        case 8:
            found = try_shutdown(step, model);
            break;
        case 9:
            found = try_close(step, model);
            break;
        case 10:
            found = try_ask(step, model);
            break;
        case 11:
            found = try_set(step, model);
            break;
        case 12:
        case 13:
            found = try_epoll(step, model);
            break;
        case 14:
            found = try_fill(step, model);
            break;
        default:
            found = try_blocked(step, model);
            break;
        }
        if (found) {
            return step;
        }
    }
}

namespace {

// Each part of a call that sends several times takes room of its own.
void apply_send(const Step &step, std::size_t size, Model &model)
{
    std::vector<std::size_t> sends = {size};
    if (step.how == kSendmmsg) {
        sends = step.parts;
    } else if (step.how == kSendMore) {
        sends = {step.size / 2, step.size - step.size / 2};
    }
    for (std::size_t each : sends) {
        each = std::min(each, size);
        size -= each;
        model.sent(step.end, each);
    }
}

void apply_close(int end, bool aborts, Model &model)
{
    End &one = model.ends[end], &peer = model.ends[1 - end];
    if (peer.open && !peer.reset && !one.reset) {
        if (aborts || one.unread > 0) {
            model.was_reset(1 - end);
        } else {
            model.ended(end);
        }
    }
    one = End();
    one.open = false;
    one.reading = one.writing = false;
}

void apply_shutdown(int end, int how, const Outcome &outcome, Model &model)
{
    End &one = model.ends[end];
    if (outcome.value != 0) {
        return;
    }
    if (how != SHUT_WR) {
        one.reading = false;
        one.end_came = true;
    }
    if (how != SHUT_RD && one.writing) {
        one.writing = false;
        model.ended(end);
    }
}

void apply_control(const Step &step, const Outcome &outcome, End &one)
{
    if (outcome.value != 0) {
        return;
    }
    one.registered = step.option != EPOLL_CTL_DEL;
    one.events = one.registered ? step.events : 0;
    one.disabled = false;
    one.was_set = true;
}

void apply_wait(const Outcome &outcome, Model &model)
{
    for (int end : {0, 1}) {
        End &one = model.ends[end];
        one.data_came = one.end_came = one.reset_came = one.space_came = one.was_set = false;
        if (model.mode == Mode::level && outcome.more[static_cast<std::size_t>(end)] != 0 &&
            (one.events & EPOLLONESHOT) != 0) {
            one.disabled = true;
        }
    }
}

void apply_blocked(const Step &step, const Outcome &outcome, Model &model)
{
    if (sends_to_waiter(step)) {
        for (std::size_t part : step.parts) {
            model.sent(1 - step.end, part);
        }
    }
    if (step.how <= kWaitRecvAll && outcome.value > 0) {
        model.received(step.end, static_cast<std::size_t>(outcome.value));
    }
    if (step.how == kWaitSend) {
        return; // it may have been taken at once: there need be no edge
    }
    if (step.option == kWakeEnd) {
        apply_shutdown(1 - step.end, SHUT_WR, {}, model);
    } else if (step.option == kWakeOwnShutdown) {
        apply_shutdown(step.end, SHUT_RD, {}, model);
    } else if (step.option == kWakeAbort) {
        apply_close(1 - step.end, true, model);
    }
}

} // namespace

void Chooser::apply(const Step &step, const Outcome &outcome, Model &model)
{
    End &one = model.ends[step.end];
    switch (step.kind) {
    case Kind::Send:
        if (outcome.value > 0) {
            apply_send(step, static_cast<std::size_t>(outcome.value), model);
        }
        break;
    case Kind::Receive:
        if (outcome.value > 0 && !(step.flags & MSG_PEEK)) {
            model.received(step.end, static_cast<std::size_t>(outcome.value));
        }
        break;
    case Kind::Shutdown:
        apply_shutdown(step.end, step.option, outcome, model);
        break;
    case Kind::Close:
        apply_close(step.end, step.option != 0, model);
        break;
    case Kind::Control:
        apply_control(step, outcome, one);
        break;
    case Kind::Wait:
        apply_wait(outcome, model);
        break;
    case Kind::Nonblocking:
        one.nonblocking = step.option != 0;
        break;
    case Kind::Duplicate:
        one.descriptors++;
        break;
    case Kind::CloseOne:
        one.descriptors--;
        break;
    case Kind::Timeout:
        one.timeout_ms = step.option;
        break;
    case Kind::Fill:
        one.space_came = true;
        break;
    case Kind::Blocked:
        apply_blocked(step, outcome, model);
        break;
    default:
        break;
    }
}
