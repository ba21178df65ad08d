// SPDX-License-Identifier: MIT
// One step of a script, and what comes of it on one pair. The same step on the other pair must have
// the same outcome, but for what the comments here say.
#ifndef VIPL_TEST_SCRIPT_CALLS_HPP
#define VIPL_TEST_SCRIPT_CALLS_HPP

#include "pair.hpp"

enum class Kind {
    Send,    // one of kSends
    Receive, // one of kReceives
    Shutdown,
    Close,       // of all descriptors of the end; with `option`, SO_LINGER 0
    Poll,        // poll, ppoll, select or pselect of both ends, and of a plain pipe that is never ready,
                 // for `flags` milliseconds
    Control,     // epoll_ctl: `option` is the operation
    Wait,        // epoll_wait with the timeout 0
    Nested,      // epoll_wait on the set that has the set in it, and poll of the set
    Nonblocking, // by F_SETFL, or by FIONBIO
    Unread,      // FIONREAD, and the error that is pending
    Duplicate,   // dup, F_DUPFD_CLOEXEC or dup3
    CloseOne,    // a duplicate
    Timeout,     // SO_RCVTIMEO
    Bad,         // arguments that each socket refuses
    Fill,        // sends until it would block; the peer then reads all
    Blocked,     // a call that waits in another thread: blocked.hpp
    DeadSend     // sends to an end that is gone
};

enum { kSend, kWrite, kWritev, kSendmsg, kSendto, kSendfile, kSendmmsg, kSendMore, kSends };
enum { kRecv, kRead, kReadv, kRecvmsg, kRecvfrom, kRecvmmsg, kReceives };
enum { kPoll, kPpoll, kSelect, kPselect, kPolls };

struct Step {
    Kind kind = Kind::Unread;
    int end = 0;
    std::size_t which = 0; // of the end's descriptors
    int how = 0;           // which call
    std::size_t size = 0;
    std::vector<std::size_t> parts; // of the size, some of them 0
    int flags = 0;
    int option = 0;
    std::uint32_t events = 0;

    std::string text() const;
};

struct Outcome {
    long value = 0;
    int error = 0;          // if the value is -1
    std::vector<long> more; // further results: revents, msg_flags, sizes
    bool operator==(const Outcome &other) const;
    std::string text() const;
};

// Does it, and counts the bytes on this pair. Throws Wrong where received bytes are not right.
Outcome perform(const Step &step, Pair &pair, const Model &model);

// SIGPIPE is counted; so many came since the last call of this.
void count_sigpipe();
long taken_sigpipe();

#endif
