// SPDX-License-Identifier: MIT
#include "transfers.hpp"

#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

constexpr std::size_t kChunk = 65536;
constexpr std::uint64_t kMostFill =
    256u << 20; // no connection may take that much from a sender whose peer does not read

std::vector<iovec> vectors(std::vector<unsigned char> &bytes, const std::vector<std::size_t> &parts)
{
    std::vector<iovec> list;
    std::size_t at = 0;
    for (std::size_t part : parts) {
        list.push_back({bytes.data() + at, part});
        at += part;
    }
    return list;
}

msghdr header(std::vector<iovec> &list)
{
    msghdr one{};
    one.msg_iov = list.data();
    one.msg_iovlen = list.size();
    return one;
}

// One message for each part. The value is the number of bytes, or -1.
long send_messages(int fd, std::vector<iovec> &list, int flags, std::vector<long> &more)
{
    std::vector<mmsghdr> messages(list.size());
    for (std::size_t i = 0; i < list.size(); i++) {
        messages[i].msg_hdr.msg_iov = &list[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int count = sendmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()), flags);
    long bytes = count < 0 ? -1 : 0;
    more.push_back(count);
    for (int i = 0; i < count; i++) {
        more.push_back(messages[static_cast<std::size_t>(i)].msg_len);
        bytes += messages[static_cast<std::size_t>(i)].msg_len;
    }
    return bytes;
}

long receive_messages(int fd, std::vector<iovec> &list, int flags, std::vector<long> &more)
{
    std::vector<mmsghdr> messages(list.size());
    for (std::size_t i = 0; i < list.size(); i++) {
        messages[i].msg_hdr.msg_iov = &list[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int count =
        recvmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()), flags | MSG_DONTWAIT, nullptr);
    long bytes = count < 0 ? -1 : 0;
    more.push_back(count);
    for (int i = 0; i < count; i++) {
        more.push_back(messages[static_cast<std::size_t>(i)].msg_len);
        bytes += messages[static_cast<std::size_t>(i)].msg_len;
    }
    return bytes;
}

long send_file(int fd, const std::vector<unsigned char> &bytes, std::vector<long> &more)
{
    int file = memfd_create("script", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
        throw Wrong{"memfd_create"};
    }
    off_t offset = 0;
    long result = sendfile(fd, file, &offset, bytes.size());
    int error = errno;
    more.push_back(offset);
    close(file);
    errno = error;
    return result;
}

// The first half with MSG_MORE, the rest without.
long send_more(int fd, const std::vector<unsigned char> &bytes, int flags)
{
    std::size_t half = bytes.size() / 2;
    long first = send(fd, bytes.data(), half, flags | MSG_MORE);
    if (first < 0) {
        return first;
    }
    long second = send(fd, bytes.data() + half, bytes.size() - half, flags);
    return second < 0 ? second : first + second;
}

bool is_past(std::chrono::steady_clock::time_point end)
{
    return std::chrono::steady_clock::now() > end;
}

std::chrono::steady_clock::time_point limit()
{
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms());
}

} // namespace

Outcome send_some(const Step &step, Pair &pair)
{
    auto bytes = pair.next(step.end, step.size);
    auto list = vectors(bytes, step.parts);
    auto message = header(list);
    int fd = pair.fd(step.end, step.which);
    Outcome outcome;
    errno = 0;
    switch (step.how) {
    case kSend:
        outcome.value = send(fd, bytes.data(), step.size, step.flags);
        break;
    case kWrite:
        outcome.value = write(fd, bytes.data(), step.size);
        break;
    case kWritev:
        outcome.value = writev(fd, list.data(), static_cast<int>(list.size()));
        break;
    case kSendmsg:
        outcome.value = sendmsg(fd, &message, step.flags);
        break;
    case kSendto:
        outcome.value = sendto(fd, bytes.data(), step.size, step.flags, nullptr, 0);
        break;
    case kSendfile:
        outcome.value = send_file(fd, bytes, outcome.more);
        break;
    case kSendmmsg:
        outcome.value = send_messages(fd, list, step.flags, outcome.more);
        break;
    default:
        outcome.value = send_more(fd, bytes, step.flags);
        break;
    }
    outcome.error = outcome.value < 0 ? errno : 0;
    outcome.more.push_back(taken_sigpipe());
    pair.sent[step.end] += static_cast<std::uint64_t>(outcome.value > 0 ? outcome.value : 0);
    return outcome;
}

Outcome receive_some(const Step &step, Pair &pair)
{
    std::vector<unsigned char> bytes(step.size + 1, 0x5A); // the last one is not the call's
    auto list = vectors(bytes, step.parts);
    auto message = header(list);
    int fd = pair.fd(step.end, step.which);
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    Outcome outcome;
    errno = 0;
    switch (step.how) {
    case kRecv:
        outcome.value = recv(fd, bytes.data(), step.size, step.flags);
        break;
    case kRead:
        outcome.value = read(fd, bytes.data(), step.size);
        break;
    case kReadv:
        outcome.value = readv(fd, list.data(), static_cast<int>(list.size()));
        break;
    case kRecvmsg:
        message.msg_name = &address;
        message.msg_namelen = size;
        outcome.value = recvmsg(fd, &message, step.flags);
        break;
    case kRecvfrom:
        outcome.value =
            recvfrom(fd, bytes.data(), step.size, step.flags, reinterpret_cast<sockaddr *>(&address), &size);
        break;
    default:
        outcome.value = receive_messages(fd, list, step.flags, outcome.more);
        break;
    }
    outcome.error = outcome.value < 0 ? errno : 0;
    if (outcome.value >= 0 && step.how == kRecvmsg) {
        outcome.more = {message.msg_flags, static_cast<long>(message.msg_namelen)};
    } else if (outcome.value >= 0 && step.how == kRecvfrom) {
        outcome.more = {static_cast<long>(size)};
    }
    auto count = static_cast<std::size_t>(outcome.value > 0 ? outcome.value : 0);
    if (!pair.is_right(step.end, bytes.data(), count)) {
        throw Wrong{std::string("WRONG bytes: ") + pair.name + ", " + step.text()};
    }
    if (bytes[count] != 0x5A && step.how != kRecvmmsg) { // each message fills its part
        throw Wrong{std::string("WRONG bytes behind those that were received: ") + pair.name + ", " +
                    step.text()};
    }
    if ((step.flags & MSG_PEEK) == 0) {
        pair.received[step.end] += count;
    }
    return outcome;
}

long drain(Pair &pair, int end, std::uint64_t until)
{
    std::vector<unsigned char> bytes(kChunk);
    auto end_of_time = limit();
    long taken = 0;
    while (pair.received[end] < until) {
        long count = recv(pair.fd(end), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN && !is_past(end_of_time)) {
            pair.state(1 - end); // one thread has both ends: each may have to act
            pollfd one{pair.fd(end), POLLIN, 0};
            poll(&one, 1, 1);
            continue;
        }
        if (count <= 0) {
            throw Wrong{std::string(pair.name) + ": of bytes that were sent " +
                        std::to_string(until - pair.received[end]) +
                        " do not come: " + (count == 0 ? "the end of the stream" : error_name(errno))};
        }
        if (!pair.is_right(end, bytes.data(), static_cast<std::size_t>(count))) {
            throw Wrong{std::string("WRONG bytes: ") + pair.name};
        }
        pair.received[end] += static_cast<std::uint64_t>(count);
        taken += count;
    }
    return taken;
}

Outcome fill(const Step &step, Pair &pair, const Model & /* model */)
{
    std::uint64_t before = pair.sent[step.end];
    Outcome outcome;
    for (;;) {
        auto bytes = pair.next(step.end, step.size);
        long count =
            send(pair.fd(step.end, step.which), bytes.data(), step.size, MSG_DONTWAIT | MSG_NOSIGNAL);
        outcome.error = count < 0 ? errno : 0;
        if (count > 0) {
            pair.sent[step.end] += static_cast<std::uint64_t>(count);
        } else if (count == 0 || outcome.error != EAGAIN) {
            break;
        } else if ((pair.state(step.end, 5) & POLLOUT) == 0) { // the kernel may find some room a moment later
            pollfd one{pair.fd(step.end), POLLOUT, 0};
            if (poll(&one, 1, 5) == 0) {
                break;
            }
        }
        if (pair.sent[step.end] - before > kMostFill) {
            throw Wrong{std::string(pair.name) + ": it takes bytes without end while the peer does not read"};
        }
    }
    outcome.more.push_back(pair.sent[step.end] > before);
    drain(pair, 1 - step.end, pair.sent[step.end]);
    pollfd one{pair.fd(step.end), POLLOUT, 0};
    outcome.more.push_back(poll(&one, 1, limit_ms()));
    outcome.more.push_back(one.revents);
    return outcome;
}

Outcome dead_send(const Step &step, Pair &pair, const Model &model)
{
    auto end_of_time = limit();
    Outcome outcome;
    for (;;) {
        unsigned char byte = 0;
        long count = send(pair.fd(step.end, step.which), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN) {
            outcome.error = errno == ECONNRESET ? EPIPE : errno;
            break;
        }
        if (is_past(end_of_time)) {
            throw Wrong{std::string("HUNG: ") + pair.name + ": sends to an end that " +
                        (model.ends[1 - step.end].open ? "has shut down both ways" : "is closed") +
                        " do not fail, the last one: " + (count < 0 ? "EAGAIN" : "1")};
        }
        pollfd one{pair.fd(step.end), 0, 0}; // until POLLHUP
        poll(&one, 1, 10);
    }
    std::size_t unread = model.ends[step.end].unread;
    drain(pair, step.end, pair.received[step.end] + unread);
    unsigned char byte = 0;
    long last = recv(pair.fd(step.end), &byte, 1, MSG_DONTWAIT);
    outcome.more.push_back(last == 0 || (last < 0 && errno != EAGAIN)); // the end, or a reset
    return outcome;
}
