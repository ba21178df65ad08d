// SPDX-License-Identifier: MIT
#include "connection.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "hello.hpp"

namespace omnivipl {

namespace {

// From this size on, the peer reads the bytes out of this process's memory.
constexpr size_t OFFER_BYTES = 32 * 1024;

constexpr uint64_t NS_PER_S = 1000000000;

} // namespace

uint64_t to_deadline(const omni_time_t &time)
{
    if (!time) {
        return UINT64_MAX;
    }
    omni_time_t now;
    omni_thread::get_time(now);
    if (time <= now) {
        return 0;
    }
    omni_time_t left(time);
    left -= now;
    return vipl_now_ns() + left.s * NS_PER_S + left.ns;
}

Connection::Connection(std::shared_ptr<Nic> nic, vipl_stream *stream, std::shared_ptr<Collection> collection,
                       const std::string &own_address, const std::string &peer_address)
    : nic_(std::move(nic)), stream_(stream), collection_(std::move(collection)), own_address_(own_address),
      peer_address_(peer_address), direct_(nic_->begin_direct())
{
    watch_.notify = on_news;
    watch_.connection = this;
    collection_->add(this);
    vipl_stream_begin(stream_, vipl_stream_own_window());
    vipl_stream_add_watch(stream_, &watch_);
    send_hello();
}

Connection::~Connection()
{
    vipl_stream_remove_watch(stream_, &watch_);
    collection_->remove(this);
    vipl_stream_close(stream_);
    if (direct_) {
        nic_->end_direct();
    }
}

void Connection::on_news(vipl_stream_watch *watch)
{
    Connection *connection = static_cast<Watch *>(watch)->connection;
    connection->collection_->on_news(connection);
    if (!connection->direct_) {
        const std::lock_guard<std::mutex> guard(connection->news_lock_);
        connection->news_++;
        connection->heard_.notify_all();
    }
}

/* As vipl_stream_wait(), for a thread that the monitor's thread wakes: it needs no descriptor. */
int Connection::wait_for_news(unsigned wanted, uint64_t deadline)
{
    std::unique_lock<std::mutex> guard(news_lock_);
    for (;;) {
        const uint64_t seen = news_;
        guard.unlock(); // the stream's lock comes before it
        if (((vipl_stream_events(stream_) ^ VIPL_STREAM_OFFERING) & wanted) != 0) {
            return 0;
        }
        const uint64_t now = vipl_now_ns();
        if (now >= deadline) {
            return ETIMEDOUT;
        }
        guard.lock();
        const auto is_new = [&] { return news_ != seen; };
        if (deadline == UINT64_MAX) {
            heard_.wait(guard, is_new);
        } else {
            heard_.wait_for(guard, std::chrono::nanoseconds(deadline - now), is_new);
        }
    }
}

/* Waits until one of the wanted events holds, as vipl_stream_wait(). */
int Connection::wait(unsigned wanted, uint64_t deadline)
{
    return direct_ || !nic_->monitor().stay() ? vipl_stream_wait(stream_, wanted, deadline, nullptr)
                                              : wait_for_news(wanted, deadline);
}

/* There is room for it: it is the first message. If the connection has gone, the next call sees
 * that. */
void Connection::send_hello()
{
    Hello hello = make_hello(vipl_stream_own_window());
    vipl_iov piece = {hello.data(), hello.size()};
    size_t sent;
    (void)vipl_stream_send(stream_, &piece, 1, &sent);
}

bool Connection::receive_hello(uint64_t deadline, bool &timed_out)
{
    Hello hello;
    for (size_t have = 0; have < hello.size();) {
        const int n = receive(hello.data() + have, hello.size() - have, deadline);
        if (n <= 0) {
            timed_out = n == 0;
            return false;
        }
        have += static_cast<size_t>(n);
    }
    if (!is_hello(hello, vipl_stream_own_window())) {
        if (omniORB::trace(1)) {
            omniORB::logger log;
            log << "giop:vipl: " << peer_address_.c_str() << " does not speak this version of the protocol\n";
        }
        timed_out = false;
        return false;
    }
    expects_hello_ = false;
    return true;
}

/* Receives what is there, or waits: the bytes, 0 if none came in time, or -1. */
int Connection::receive(void *buffer, size_t size, uint64_t deadline)
{
    for (;;) {
        vipl_iov piece = {buffer, size};
        size_t received;
        int rc = vipl_stream_receive(stream_, &piece, 1, false, &received);
        if (rc == 0) {
            return received > 0 ? static_cast<int>(received) : -1;
        }
        if (rc == EAGAIN) {
            rc = wait(VIPL_STREAM_READABLE, deadline);
        }
        if (rc == ETIMEDOUT) {
            return 0;
        }
        if (rc != 0 && rc != EINTR) {
            return -1;
        }
    }
}

int Connection::Recv(void *buffer, size_t size, const omni_time_t &time)
{
    const uint64_t deadline = to_deadline(time);
    bool timed_out;
    if (!nic_->is_own() || shut_) {
        return -1;
    }
    if (expects_hello_ && !receive_hello(deadline, timed_out)) {
        return timed_out ? 0 : -1;
    }
    return receive(buffer, size, deadline);
}

int Connection::send_copy(void *buffer, size_t size, uint64_t deadline)
{
    for (;;) {
        vipl_iov piece = {buffer, size};
        size_t sent;
        int rc = vipl_stream_send(stream_, &piece, 1, &sent);
        if (rc == 0) {
            return static_cast<int>(sent);
        }
        if (rc == EAGAIN) {
            rc = wait(VIPL_STREAM_WRITABLE, deadline);
        }
        if (rc == ETIMEDOUT) {
            return 0;
        }
        if (rc != 0 && rc != EINTR) {
            return -1;
        }
    }
}

/* An offer that the peer has not read ends the connection, as the ORB does when a message was sent
 * in part. */
int Connection::send_offer(void *buffer, size_t size, uint64_t deadline)
{
    const size_t bytes = size < VIPL_STREAM_MAX_OFFER ? size : static_cast<size_t>(VIPL_STREAM_MAX_OFFER);
    int rc = vipl_stream_offer_begin(stream_, buffer, bytes);
    if (rc == EAGAIN || rc == ENOMEM) {
        return send_copy(buffer, size, deadline);
    }
    if (rc != 0) {
        return -1;
    }
    do {
        rc = wait(VIPL_STREAM_OFFERING | VIPL_STREAM_ENDED, deadline);
    } while (rc == EINTR);
    const bool read = vipl_stream_offer_end(stream_) == 0;
    return read ? static_cast<int>(bytes) : rc == ETIMEDOUT ? 0 : -1;
}

int Connection::Send(void *buffer, size_t size, const omni_time_t &time)
{
    const uint64_t deadline = to_deadline(time);
    if (!nic_->is_own()) {
        return -1;
    }
    if (deadline == 0) {
        return 0;
    }
    return size >= OFFER_BYTES ? send_offer(buffer, size, deadline) : send_copy(buffer, size, deadline);
}

void Connection::Shutdown()
{
    shut_ = true;
    if (nic_->is_own()) {
        vipl_stream_stop(stream_);   // a thread that receives ends
        vipl_stream_finish(stream_); // the peer receives what was sent before
    }
}

void Connection::setSelectable(int now, CORBA::Boolean data_in_buffer)
{
    collection_->set_selectable(this, now, data_in_buffer);
}

void Connection::clearSelectable()
{
    collection_->clear_selectable(this);
}

CORBA::Boolean Connection::Peek()
{
    return collection_->peek(this);
}

bool Connection::wait_readable(uint64_t ns)
{
    return wait(VIPL_STREAM_READABLE, vipl_now_ns() + ns) == 0;
}

} // namespace omnivipl
