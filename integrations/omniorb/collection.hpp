// SPDX-License-Identifier: MIT
//
// The connections of an endpoint, or those that this process has made: which of them the ORB wants
// to know of when a message comes, and which have one. It has the part of omniORB's
// SocketCollection, for connections without a descriptor.
//
// A connection is selectable while the ORB wants to know of it. A selectable connection is watched,
// which means that a thread waits for its messages, if the ORB has said "now", or at the next scan.
// So a call that ends soon costs no more than two flags.
#ifndef OMNIVIPL_COLLECTION_HPP
#define OMNIVIPL_COLLECTION_HPP

#include <condition_variable>
#include <list>
#include <mutex>
#include <vector>

#include <omniORB4/CORBA.h>
#include <omniORB4/giopEndpoint.h>

namespace omnivipl {

class Connection;

/** What a collection knows of a connection. Guarded by the collection's lock. */
struct Selection {
    bool selectable = false; // the ORB wants to know when a message has come
    bool watched = false;    // its NIC handle's monitor waits for messages
    bool in_buffer = false;  // the ORB itself has the message already
    bool queued = false;     // in `queue`
    bool peeking = false;    // a thread waits in peek(), which takes what comes
};

class Collection {
public:
    Collection() = default;
    Collection(const Collection &) = delete;
    Collection &operator=(const Collection &) = delete;

    void add(Connection *connection);
    /** No thread uses the connection through the collection any more. */
    void remove(Connection *connection);
    bool is_empty();

    /** As SocketHolder's. now: 0, 1, or 2: now if it is selectable. */
    void set_selectable(Connection *connection, int now, bool in_buffer);
    void clear_selectable(Connection *connection);
    /** Waits a moment for a message. True: one is there, and the connection is not selectable any
     * more. */
    bool peek(Connection *connection);

    /** Something may have come for a connection: for its watch, with the stream's lock held. */
    void on_news(Connection *connection);

    /** Waits until messages have come, and notifies the ORB of them; or until wake(). One thread at
     * a time. */
    void wait(omni::giopConnection::notifyReadable_t notify, void *cookie);
    void wake();

private:
    using Lock = std::unique_lock<std::mutex>;

    void sleep(Lock &lock);
    void scan_locked();
    void watch_locked(Connection *connection);
    void unwatch_locked(Connection *connection);
    void queue_locked(Connection *connection);
    bool take_ready(Lock &lock, Connection *connection);

    std::mutex lock_;
    std::condition_variable change_; // of what wait() waits for, with lock_
    std::condition_variable idle_;   // checking_ has changed, with lock_
    // All below: guarded by lock_
    std::vector<Connection *> all_;
    std::list<Connection *> queue_;  // those to look at
    Connection *checking_ = nullptr; // that wait() is looking at, without lock_
    bool woken_ = false;
    unsigned scans_left_ = 0; // until wait() sleeps without a time limit
    bool unlimited_ = false;  // it does
};

} // namespace omnivipl

#endif
