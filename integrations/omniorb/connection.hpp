// SPDX-License-Identifier: MIT
//
// A GIOP connection over a byte stream.
#ifndef OMNIVIPL_CONNECTION_HPP
#define OMNIVIPL_CONNECTION_HPP

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "collection.hpp"
#include "vipl_nic.hpp"

#include <omniORB4/CORBA.h>
#include <omniORB4/giopEndpoint.h>

namespace omnivipl {

/** Threads: any thread may make any call; the ORB deletes the connection when none does. */
class Connection : public omni::giopConnection {
public:
    /** Takes a stream whose VI is connected, and sends the peer this end's hello. */
    Connection(std::shared_ptr<Nic> nic, vipl_stream *stream, std::shared_ptr<Collection> collection,
               const std::string &own_address, const std::string &peer_address);
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    /** Waits for the peer's hello and checks it. False: none came in time, or it is not one, and
     * the connection is of no use. The first Recv() does it otherwise. */
    bool receive_hello(uint64_t deadline, bool &timed_out);

    int Send(void *buffer, size_t size, const omni_time_t &time) override;
    int Recv(void *buffer, size_t size, const omni_time_t &time) override;
    void Shutdown() override;
    const char *myaddress() override { return own_address_.c_str(); }
    const char *peeraddress() override { return peer_address_.c_str(); }
    void setSelectable(int now, CORBA::Boolean data_in_buffer) override;
    void clearSelectable() override;
    CORBA::Boolean isSelectable() override { return true; }
    CORBA::Boolean Peek() override;

    // For the collection.
    Selection selection;
    Nic &nic() { return *nic_; }
    bool is_readable() { return (vipl_stream_events(stream_) & VIPL_STREAM_READABLE) != 0; }
    /** Waits for a message for some nanoseconds. */
    bool wait_readable(uint64_t ns);

protected:
    ~Connection() override;

private:
    struct Watch : vipl_stream_watch {
        Connection *connection;
    };

    static void on_news(vipl_stream_watch *watch);
    void send_hello();
    int receive(void *buffer, size_t size, uint64_t deadline);
    int send_offer(void *buffer, size_t size, uint64_t deadline);
    int send_copy(void *buffer, size_t size, uint64_t deadline);
    int wait(unsigned wanted, uint64_t deadline);
    int wait_for_news(unsigned wanted, uint64_t deadline);

    const std::shared_ptr<Nic> nic_;
    vipl_stream *const stream_;
    const std::shared_ptr<Collection> collection_;
    const std::string own_address_;
    const std::string peer_address_;
    const bool direct_;             // its threads wait on the NIC handle, and not for news
    std::mutex news_lock_;          // taken after the stream's lock
    std::condition_variable heard_; // of news_, with news_lock_
    uint64_t news_ = 0;             // the stream's notices so far; guarded by news_lock_
    Watch watch_{};                 // constant
    std::atomic<bool> shut_{false}; // by Shutdown()
    // Whether the peer's hello is yet to come. The ORB has one thread receive at a time.
    bool expects_hello_ = true;
};

/** The ORB's absolute time as vipl_now_ns(); no time is UINT64_MAX. */
uint64_t to_deadline(const omni_time_t &time);

} // namespace omnivipl

#endif
