// SPDX-License-Identifier: MIT
#include "collection.hpp"

#include <algorithm>
#include <chrono>

#include "connection.hpp"

#include <SocketCollection.h>

namespace omnivipl {

namespace {

std::chrono::nanoseconds scan_interval()
{
    const omni_time_t interval = omni::SocketCollection::scan_interval;
    return std::chrono::seconds(interval.s) + std::chrono::nanoseconds(interval.ns);
}

} // namespace

void Collection::add(Connection *connection)
{
    const Lock lock(lock_);
    all_.push_back(connection);
}

void Collection::remove(Connection *connection)
{
    Lock lock(lock_);
    idle_.wait(lock, [&] { return checking_ != connection; });
    unwatch_locked(connection);
    queue_.remove(connection);
    all_.erase(std::remove(all_.begin(), all_.end(), connection), all_.end());
}

bool Collection::is_empty()
{
    const Lock lock(lock_);
    return all_.empty();
}

void Collection::watch_locked(Connection *connection)
{
    if (!connection->selection.watched) {
        connection->selection.watched = true;
        connection->nic().monitor().watch();
    }
}

void Collection::unwatch_locked(Connection *connection)
{
    if (connection->selection.watched) {
        connection->selection.watched = false;
        connection->nic().monitor().unwatch();
    }
}

void Collection::queue_locked(Connection *connection)
{
    if (!connection->selection.queued) {
        connection->selection.queued = true;
        queue_.push_back(connection);
        change_.notify_one();
    }
}

void Collection::set_selectable(Connection *connection, int now, bool in_buffer)
{
    const Lock lock(lock_);
    Selection &selection = connection->selection;
    if (now == 2 && !selection.selectable) {
        return;
    }
    selection.selectable = true;
    selection.in_buffer = selection.in_buffer || in_buffer;
    if (now != 0 && !selection.in_buffer) {
        watch_locked(connection);
    }
    if (now != 0 || selection.in_buffer) {
        queue_locked(connection); // something may have come before
    } else if (unlimited_) {
        unlimited_ = false;
        change_.notify_one();
    }
    scans_left_ = omni::SocketCollection::idle_scans;
}

void Collection::clear_selectable(Connection *connection)
{
    const Lock lock(lock_);
    connection->selection.selectable = false;
    connection->selection.in_buffer = false;
    unwatch_locked(connection);
}

void Collection::on_news(Connection *connection)
{
    const Lock lock(lock_);
    if (connection->selection.watched && !connection->selection.peeking) {
        queue_locked(connection);
    }
}

bool Collection::peek(Connection *connection)
{
    Selection &selection = connection->selection;
    {
        const Lock lock(lock_);
        if (!selection.selectable || selection.peeking) {
            return false;
        }
        if (selection.in_buffer) {
            selection.selectable = selection.in_buffer = false;
            return true;
        }
        selection.peeking = true;
    }
    const bool readable = connection->wait_readable(static_cast<uint64_t>(scan_interval().count()));
    const Lock lock(lock_);
    selection.peeking = false;
    if (readable && selection.selectable) {
        selection.selectable = false;
        unwatch_locked(connection);
        return true;
    }
    if (selection.selectable && selection.watched) {
        queue_locked(connection); // wait() has left it out meanwhile
    }
    return false;
}

void Collection::wake()
{
    const Lock lock(lock_);
    woken_ = true;
    change_.notify_one();
}

void Collection::scan_locked()
{
    for (Connection *connection : all_) {
        if (connection->selection.selectable && !connection->selection.watched) {
            watch_locked(connection);
            queue_locked(connection);
        }
    }
}

void Collection::sleep(Lock &lock)
{
    const auto until = std::chrono::steady_clock::now() + scan_interval();
    while (queue_.empty() && !woken_) {
        if (scans_left_ == 0) {
            unlimited_ = true;
            change_.wait(lock);
            unlimited_ = false;
        } else if (change_.wait_until(lock, until) == std::cv_status::timeout) {
            scans_left_--;
            scan_locked();
            return;
        }
    }
    woken_ = false;
}

bool Collection::take_ready(Lock &lock, Connection *connection)
{
    Selection &selection = connection->selection;
    bool readable = selection.in_buffer;
    if (!readable) {
        checking_ = connection;
        lock.unlock();
        readable = connection->is_readable();
        lock.lock();
        checking_ = nullptr;
        idle_.notify_all();
    }
    if (!readable || !selection.selectable || selection.peeking) {
        return false;
    }
    selection.selectable = selection.in_buffer = false;
    unwatch_locked(connection);
    return true;
}

void Collection::wait(omni::giopConnection::notifyReadable_t notify, void *cookie)
{
    Lock lock(lock_);
    sleep(lock);
    for (size_t left = queue_.size(); left > 0 && !queue_.empty(); left--) {
        Connection *connection = queue_.front();
        queue_.pop_front();
        connection->selection.queued = false;
        if (connection->selection.selectable && take_ready(lock, connection)) {
            lock.unlock();
            notify(cookie, connection);
            lock.lock();
        }
    }
}

} // namespace omnivipl
