// SPDX-License-Identifier: MIT
// What a script of socket calls knows of a connection, which is the same for both pairs: it decides
// which calls are made, and what the script must wait for before the results can be compared.
#ifndef VIPL_TEST_SCRIPT_MODEL_HPP
#define VIPL_TEST_SCRIPT_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <deque>

enum class Mode { blocking, nonblocking, level, edge };

// One end. "The peer" is the other one.
struct End {
    bool open = true;
    std::size_t descriptors = 1; // duplicates of each other
    bool nonblocking = false;
    bool reading = true;              // no shutdown(SHUT_RD) so far
    bool writing = true;              // no shutdown(SHUT_WR) so far
    std::size_t unread = 0;           // bytes that the peer has sent and this end has not read
    std::deque<std::size_t> messages; // the sends that these bytes are of, oldest first
    bool at_end = false;              // the peer has sent all that it will send
    bool reset = false;               // the peer has closed with bytes unread, or aborted
    int timeout_ms = 0;               // SO_RCVTIMEO

    // In the epoll set; the causes of an edge since the last report.
    bool registered = false;
    bool disabled = false; // EPOLLONESHOT has reported
    std::uint32_t events = 0;
    bool data_came = false, end_came = false, reset_came = false, space_came = false, was_set = false;

    bool is_over() const { return at_end || reset || !reading; } // a read of it does not wait
};

struct Model {
    Mode mode = Mode::blocking;
    End ends[2];
    bool has_sent[2] = {false, false};
    // Before, it may not be known what becomes of the connection: a send that must not wait may
    // fail, and there may be no POLLOUT, as while a connection is being made.
    bool is_made() const { return has_sent[0] && has_sent[1]; }

    // A send, so small and with so little unread that each kind of connection must take it whole.
    // What a nonblocking send takes of more is each connection's own affair: step Fill does that.
    static constexpr std::size_t kMostUnread = 32768;
    static constexpr std::size_t kMostMessages = 12;
    std::size_t room(int end) const;

    bool can_send(int end) const; // and the peer gets it
    bool would_block(int end, std::size_t size, int flags) const;
    bool is_peer_gone(int end) const; // a send is answered by a reset, some time later
    void sent(int end, std::size_t size);
    void received(int end, std::size_t size);
    void ended(int end); // its FIN travels
    void was_reset(int end);
    bool epoll() const { return mode == Mode::level || mode == Mode::edge; }
};

#endif
