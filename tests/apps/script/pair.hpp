// SPDX-License-Identifier: MIT
// Two ends of one TCP connection, in this process, with an epoll set; what is done with it is in
// calls.hpp.
#ifndef VIPL_TEST_SCRIPT_PAIR_HPP
#define VIPL_TEST_SCRIPT_PAIR_HPP

#include "model.hpp"

#include <string>
#include <vector>

// The script cannot go on: what is wrong, for the end of the output.
struct Wrong {
    std::string what;
};

// The name of errno's value.
std::string error_name(int error);

// What a test may wait for one event.
int limit_ms();

// A listening socket of 127.0.0.1. Port 0: any that is free.
int listen_at(int port);
int port_of(int fd);

class Pair {
public:
    Pair(const char *name, int listener, bool nonblocking);
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;
    ~Pair();

    const char *name;
    std::vector<int> fds[2];           // duplicates; the first is the one in the epoll set
    int set = -1, outer = -1;          // an epoll set, and one that has that one in it
    bool disabled[2] = {false, false}; // edge triggered: EPOLLONESHOT has reported, on this pair
    std::uint64_t sent[2] = {0, 0}, received[2] = {0, 0}; // bytes by each end

    int fd(int end, std::size_t which = 0) const { return fds[end][which % fds[end].size()]; }
    short state(int end, int timeout_ms = 0) const; // all events that poll() reports
    void close_end(int end);

    // The bytes that an end sends next, which depend on their place in the stream; and whether
    // these are those that it should receive at `offset` behind what it has received.
    std::vector<unsigned char> next(int end, std::size_t size) const;
    bool is_right(int end, const unsigned char *bytes, std::size_t size, std::uint64_t offset = 0) const;

    // One byte there and one back: what the connection is to become, it is then. Before, a
    // nonblocking send may have to wait, as one of a connection that is still being made.
    void warm_up();

    // Waits until each end has got what the model says that is on its way.
    void settle(const Model &model) const;

private:
    void send_first(int end);
};

#endif
