// SPDX-License-Identifier: MIT
//
// Cases with two sides. A case is two captureless functions, the server's role and the client's;
// run_two() plays them as two threads of this process or as this process and a child. Children
// come from a zygote: a process forked by main() before any thread exists, so that a role's
// address is valid in it and no thread's lock is ever copied. Windows has no fork: there a child is
// this program once more. Whatever goes wrong in either role (a check, a crash, a hang) ends as a
// Failure in the caller of run_two().
#ifndef VIPL_TESTS_ROLES_HPP
#define VIPL_TESTS_ROLES_HPP

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "objects.hpp"

namespace vipl_test {

/** Fork the zygote. First thing in main(), before any thread and any use of the library. */
void start_zygote();

enum class Side { server, client };

enum class Setting {
    one_process,   // two threads, each with a NIC handle of its own
    one_nic,       // two threads that share one NIC handle
    two_processes, // the client is a child process
};

const char *setting_name(Setting setting);

/** What both roles are told. Plain bytes: it crosses to the child. */
struct Scene {
    Setting setting;
    VIP_RELIABILITY_LEVEL level;
    char discriminator[20]; // no other case uses it
    char environment[36];   // NAME=VALUE for the child, or empty
};

/** A role's view of its case: its NIC handle, its names, and a line to the other role. */
class Peer {
public:
    Peer(Side side, const Scene &scene, int line, int report, Nic &nic);

    Side side() const { return side_; }
    bool is_server() const { return side_ == Side::server; }
    VIP_RELIABILITY_LEVEL level() const { return scene_.level; }
    bool reliable() const { return level() != VIP_SERVICE_UNRELIABLE; }
    bool in_other_process() const { return scene_.setting == Setting::two_processes; }
    Nic &nic() { return nic_; }

    /** Addresses of this case's own on the server's host, the first of which is the one it listens
     * on. */
    NetAddress server_address(const std::string &suffix = "") { return address(Side::server, suffix); }
    /** Addresses of this case's own on the client's host. */
    NetAddress client_address(const std::string &suffix = "c") { return address(Side::client, suffix); }

    /** The bytes of a NIC address: the server's, the client's. */
    const std::string &host(Side side) const { return side == side_ ? own_host_ : other_host_; }
    /** Whether both sides' NICs have one address. */
    bool one_address() const { return own_host_ == other_host_; }

    /** Wait until the other role calls sync() too. */
    void sync();

    /** Give the other role a value; take the one it gives. */
    template <class T>
    void send(const T &value)
    {
        static_assert(std::is_trivially_copyable_v<T>, "values cross between processes");
        send_bytes('V', &value, sizeof value);
    }
    template <class T>
    T receive()
    {
        static_assert(std::is_trivially_copyable_v<T>, "values cross between processes");
        T value{};
        receive_bytes('V', &value, sizeof value);
        return value;
    }

    /** Child only: from here on this process is meant to end by exit(code), or by SIGKILL. */
    void will_exit(int code);
    [[noreturn]] void die();

    /** In a child that this role forks: the line to the other role is the parent's alone. */
    void leave_line_to_parent() const;

    /** A VI whose arrivals the line between the roles orders too. */
    void orders(VIP_VI_HANDLE vi) { ordered_.push_back(vi); }

private:
    NetAddress address(Side side, const std::string &suffix) const;
    void exchange_hosts();
    void show_order() const;
    void send_bytes(char kind, const void *data, size_t size);
    void receive_bytes(char kind, void *data, size_t size);

    Side side_;
    Scene scene_;
    int line_;
    int report_; // to the runner; -1 in the runner's own process
    Nic &nic_;
    std::string own_host_, other_host_;
    std::vector<VIP_VI_HANDLE> ordered_;
};

using Role = void (*)(Peer &);

/**
 * Play both roles. Throws Failure with every role's complaint, or NotApplicable. A child may be
 * given one environment variable, which is set before its first use of the library.
 */
void run_two(Setting setting, VIP_RELIABILITY_LEVEL level, Role server, Role client,
             const char *environment = "");

/** One side of a connection: memory, and a VI with the case's reliability level. */
class Endpoint {
public:
    explicit Endpoint(Peer &peer, VIP_ULONG transfer_size = kTransferSize, VIP_CQ_HANDLE send_cq = nullptr,
                      VIP_CQ_HANDLE recv_cq = nullptr);
    Endpoint(Peer &peer, VIP_VI_ATTRIBUTES attributes, size_t memory_bytes = 256 * 1024);

    /** The server waits and accepts, the client requests. Both roles must call it. */
    void connect();

    /** Post a receive into `size` fresh bytes. */
    Work receive(size_t size);
    /** Post a send of these bytes, or of this text. */
    Work send(Span bytes);
    Work send(const std::string &text) { return send(memory.text(text)); }

    Memory memory;
    Vi vi;

private:
    Peer &peer_;
};

} // namespace vipl_test

#endif
