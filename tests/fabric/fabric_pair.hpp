// SPDX-License-Identifier: MIT
//
// Endpoints of libfabric over the provider vipl, on the device VIPL_TEST_DEVICE. A call that fails
// throws (check.hpp). The test program knows libfabric alone.
#ifndef VIPL_TESTS_FABRIC_PAIR_HPP
#define VIPL_TESTS_FABRIC_PAIR_HPP

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "support/check.hpp"
#include "support/environment.hpp"

namespace fabric_test {

struct CloseInfo {
    void operator()(fi_info *info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, CloseInfo>;

struct CloseFid {
    template <typename Object>
    void operator()(Object *object) const
    {
        (void)fi_close(&object->fid);
    }
};
template <typename Object>
using Fid = std::unique_ptr<Object, CloseFid>;

/** Fails unless the call returned 0. */
void check_call(const char *file, int line, const char *call, long expected, long seen);
#define FABRIC(...) ::fabric_test::check_call(__FILE__, __LINE__, #__VA_ARGS__, 0, (__VA_ARGS__))
#define FABRIC_RC(code, ...) \
    ::fabric_test::check_call(__FILE__, __LINE__, #__VA_ARGS__, (code), (__VA_ARGS__))

/** Hints that the provider fits. */
Info hints();
/** The first offer for these hints, which must be there. */
Info offer(const fi_info *wanted);

/** Repeats until it is true, or fails when the time for what must come is over. */
void eventually(const char *what, const std::function<bool()> &done);

/** What a completion queue has said: the error of fi_cq_readerr(), or 0. */
struct Completion {
    fi_cq_data_entry entry;
    int error;
};

/** A process's side: fabric, domain, queues. */
struct Node {
    explicit Node(fi_wait_obj wait = FI_WAIT_NONE, const fi_info *wanted = nullptr);

    Info info;
    Fid<fid_fabric> fabric;
    Fid<fid_eq> eq;
    Fid<fid_domain> domain;
    Fid<fid_cq> tx, rx;
};

/** Memory that is registered. */
class Memory {
public:
    Memory(Node &node, size_t bytes, uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE);
    uint8_t *data() { return bytes_.data(); }
    size_t size() const { return bytes_.size(); }
    void *desc() { return fi_mr_desc(region_.get()); }
    uint64_t key() { return fi_mr_key(region_.get()); }
    uint64_t address() { return reinterpret_cast<uintptr_t>(bytes_.data()); }
    /** Bytes that differ from place to place, and from seed to seed. */
    void fill(unsigned seed);
    bool is_filled(unsigned seed, size_t first, size_t bytes) const;

private:
    std::vector<uint8_t> bytes_;
    Fid<fid_mr> region_;
};

/** An address as fi_getname() writes it. */
using Address = std::vector<uint8_t>;

struct Listener {
    explicit Listener(Node &its_node);
    Address address() const;

    Node &node;
    Fid<fid_pep> pep;
};

/** An event of an event queue. */
struct Event {
    uint32_t type;
    fid_t fid;
    Info info;
    std::string data;
    int error;
};

/** The next event, which must come. */
Event next_event(Node &node);
/** The next completion of a queue, which must come. */
Completion next_completion(fid_cq *cq);
std::optional<Completion> try_completion(fid_cq *cq);

/** An endpoint that is enabled and not connected. */
Fid<fid_ep> make_endpoint(Node &node, fi_info *info, uint64_t tx_flags = 0);

/** Two connected endpoints of this process. */
struct Pair {
    explicit Pair(fi_wait_obj wait = FI_WAIT_NONE, const fi_info *wanted = nullptr, uint64_t tx_flags = 0);
    /** A message from the client to the server, whose bytes are looked at. */
    void exchange(Memory &from, Memory &to, size_t bytes, unsigned seed);

    Node server_side, client_side;
    Listener listener;
    Fid<fid_ep> server, client;
};

/** Whether the device reaches another process: the emulated card of this process does not. */
bool reaches_processes();

/** What a child writes on its outputs that runs the hidden test case with this environment. */
std::string log_of(const std::string &environment, const std::string &test);

/** Another process, which connects to a listener and then does what "role" says, until it is
 * killed. "datagrams", "garbage" and "answers" are hidden cases of their own. */
class Peer {
public:
    Peer(const Address &listener, const char *role);
    ~Peer();
    void kill_it();
    /** Whether it has ended; fails unless that was a good end. */
    bool has_ended();

private:
    int pid_;
};

/** In that process: the listener's address. */
Address peer_address();

} // namespace fabric_test

#endif
