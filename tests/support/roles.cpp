// SPDX-License-Identifier: MIT
//
// How two roles are played. Each pair of roles has a line (a socket pair) for sync() and values; a
// child has a second one to report on. A role that ends early shuts its line down, so the other
// fails at its next sync() instead of waiting; only the failure that came first is then told first.
#include "roles.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "line.hpp"
#include "system.hpp"
#include "zygote.hpp"

namespace vipl_test {

namespace {

/** The other role's end, seen on the line: a consequence, not a cause. */
class LineLost : public Failure {
public:
    using Failure::Failure;
};

struct Outcome {
    enum Kind : char { passed = 'P', consequence = 'C', not_applicable = 'N', failed = 'F' } kind = passed;
    std::string text;
};

Outcome play(Role role, Side side, const Scene &scene, int line, int report, Nic *shared)
{
    Outcome outcome;
    try {
        if (report >= 0) { // the child
            move_to_peer_host();
        }
        if (shared != nullptr) {
            Peer peer(side, scene, line, report, *shared);
            role(peer);
        } else {
            Nic nic;
            Peer peer(side, scene, line, report, nic);
            role(peer);
        }
    } catch (const NotApplicable &reason) {
        outcome = {Outcome::not_applicable, reason.what()};
    } catch (const LineLost &lost) {
        outcome = {Outcome::consequence, lost.what()};
    } catch (const std::exception &error) {
        outcome = {Outcome::failed, error.what()};
    } catch (...) {
        outcome = {Outcome::failed, "an exception of an unknown type"};
    }
    line_shut(line);
    return outcome;
}

/** The whole life of a child after the zygote's fork. Reports: kind, length, text. */
int child_main(const ChildOrder &order, int line, int report)
{
    static Scene scene; // putenv() keeps a pointer into it
    std::memcpy(&scene, order.scene, sizeof scene);
    if (scene.environment[0] != '\0') {
        putenv(scene.environment);
    }
    const auto role = reinterpret_cast<Role>(order.role);
    const Outcome outcome = play(role, Side::client, scene, line, report, nullptr);
    const auto length = static_cast<std::uint32_t>(outcome.text.size());
    line_write(report, &outcome.kind, 1);
    line_write(report, &length, sizeof length);
    line_write(report, outcome.text.data(), outcome.text.size());
    return 0;
}

struct ChildReport {
    bool came = false;
    bool hung = false;
    int announced_exit = -1; // will_exit(): the code; kKilled: die()
    Outcome outcome;
};

ChildReport read_report(int fd)
{
    ChildReport report;
    const unsigned long long end = now_ms() + case_limit() * 1000ull;
    try {
        char kind = 0;
        while (line_read(fd, &kind, 1, end)) {
            if (kind == 'X') {
                if (!line_read(fd, &report.announced_exit, sizeof report.announced_exit, end)) {
                    break;
                }
                continue;
            }
            std::uint32_t length = 0;
            if (!line_read(fd, &length, sizeof length, end)) {
                break;
            }
            report.outcome.kind = static_cast<Outcome::Kind>(kind);
            report.outcome.text.resize(length);
            report.came = line_read(fd, report.outcome.text.data(), length, end);
        }
    } catch (const Failure &) {
        report.hung = true;
    }
    return report;
}

Outcome judge_child(ChildReport report, int status)
{
    if (report.hung) {
        return {Outcome::failed, "the child process hung and was killed"};
    }
    if (report.announced_exit >= 0 && !report.came) {
        const bool as_announced = ended_so(status, report.announced_exit);
        return as_announced ? Outcome{}
                            : Outcome{Outcome::failed, "the child process " + describe_end(status) +
                                                           ", not as it had announced"};
    }
    if (!report.came) {
        return {Outcome::failed, "the child process " + describe_end(status) + " without a report"};
    }
    if (!ended_so(status, 0)) {
        return {Outcome::failed, "the child process had finished its role, then " + describe_end(status)};
    }
    return report.outcome;
}

/** What went wrong by itself goes before what it led to. Where one role does not apply, the other
 * may miss it, and no more. */
void conclude(const Outcome &server, const Outcome &client)
{
    std::string causes, consequences;
    const auto add = [&](const char *name, const Outcome &outcome) {
        if (outcome.kind == Outcome::failed || outcome.kind == Outcome::consequence) {
            (outcome.kind == Outcome::failed ? causes : consequences) +=
                std::string("[") + name + "] " + outcome.text + '\n';
        }
    };
    add("server", server);
    add("client", client);
    for (const Outcome *one : {&server, &client}) {
        if (one->kind == Outcome::not_applicable && causes.empty()) {
            throw NotApplicable(one->text);
        }
    }
    causes += consequences;
    if (!causes.empty()) {
        causes.pop_back();
        throw Failure(causes);
    }
}

void run_in_one_process(const Scene &scene, Role server, Role client)
{
    LinePair line;
    std::unique_ptr<Nic> shared;
    if (scene.setting == Setting::one_nic) {
        shared = std::make_unique<Nic>();
    }
    Outcome server_outcome, client_outcome;
    std::thread other(
        [&] { client_outcome = play(client, Side::client, scene, line.end[1], -1, shared.get()); });
    server_outcome = play(server, Side::server, scene, line.end[0], -1, shared.get());
    other.join();
    conclude(server_outcome, client_outcome);
}

void run_in_two_processes(const Scene &scene, Role server, Role client)
{
    LinePair line, report;
    ChildOrder order{};
    order.role = reinterpret_cast<void (*)()>(client);
    static_assert(sizeof scene <= sizeof order.scene, "a scene fits into an order");
    std::memcpy(order.scene, &scene, sizeof scene);
    const pid_t child = zygote_spawn(order, line.end[1], report.end[1]);
    line.close_end(1);
    report.close_end(1);

    const Outcome server_outcome = play(server, Side::server, scene, line.end[0], -1, nullptr);
    const ChildReport child_report = read_report(report.end[0]);
    if (child_report.hung) {
        zygote_kill(child);
    }
    const int status = zygote_wait(child);
    conclude(server_outcome, judge_child(child_report, status));
}

} // namespace

void start_zygote()
{
    zygote_start(child_main);
}

const char *setting_name(Setting setting)
{
    switch (setting) {
    case Setting::one_process:
        return "in one process";
    case Setting::one_nic:
        return "on one NIC handle";
    default:
        return "between processes";
    }
}

Peer::Peer(Side side, const Scene &scene, int line, int report, Nic &nic)
    : side_(side), scene_(scene), line_(line), report_(report), nic_(nic)
{
    exchange_hosts();
}

void Peer::exchange_hosts()
{
    struct {
        char bytes[64];
        size_t size;
    } host{};
    own_host_ = nic_.address("").host();
    host.size = own_host_.copy(host.bytes, sizeof host.bytes);
    send(host);
    host = receive<decltype(host)>();
    other_host_.assign(host.bytes, host.size);
}

NetAddress Peer::address(Side side, const std::string &suffix) const
{
    return NetAddress(host(side), scene_.discriminator + suffix);
}

/* What a role does before it writes to the line comes before what the library's threads here do on
 * the other role's behalf once that has read it, and the other way round. ThreadSanitizer does not
 * see an order that goes through another process, but does see the queue's lock, which every
 * arrival takes. */
void Peer::show_order() const
{
#if defined(__SANITIZE_THREAD__)
    for (const VIP_VI_HANDLE vi : ordered_) {
        VIP_VI_STATE state;
        VipQueryVi(vi, &state, nullptr, nullptr, nullptr); // a stale handle is as good: nothing arrives there
    }
#endif
}

void Peer::send_bytes(char kind, const void *data, size_t size)
{
    show_order();
    if (!line_write(line_, &kind, 1) || !line_write(line_, data, size)) {
        throw LineLost("the other side has ended");
    }
}

void Peer::receive_bytes(char kind, void *data, size_t size)
{
    const unsigned long long end = now_ms() + 2 * patience();
    char seen = 0;
    if (!line_read(line_, &seen, 1, end) || (seen == kind && !line_read(line_, data, size, end))) {
        throw LineLost("the other side has ended");
    }
    if (seen != kind) {
        throw Failure("the two roles of this case do not fit: one sends a value where the other syncs");
    }
    show_order();
}

void Peer::sync()
{
    char none = 0;
    send_bytes('S', &none, 1);
    receive_bytes('S', &none, 1);
}

void Peer::will_exit(int code)
{
    const char kind = 'X';
    EXPECT(report_ >= 0);
    line_write(report_, &kind, 1);
    line_write(report_, &code, sizeof code);
}

void Peer::die()
{
    will_exit(kKilled);
    kill_this_process();
}

void Peer::leave_line_to_parent() const
{
    line_close(line_);
    if (report_ >= 0) {
        line_close(report_);
    }
}

void run_two(Setting setting, VIP_RELIABILITY_LEVEL level, Role server, Role client, const char *environment)
{
    Scene scene{};
    scene.setting = setting;
    scene.level = level;
    std::snprintf(scene.discriminator, sizeof scene.discriminator, "%s", unique_discriminator().c_str());
    std::snprintf(scene.environment, sizeof scene.environment, "%s", environment);
    if (setting == Setting::two_processes) {
        run_in_two_processes(scene, server, client);
    } else {
        run_in_one_process(scene, server, client);
    }
}

Endpoint::Endpoint(Peer &peer, VIP_ULONG transfer_size, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq)
    : memory(peer.nic(), 256 * 1024, rdma_memory()),
      vi(peer.nic(), vi_attributes(peer.level(), transfer_size), send_cq, recv_cq), peer_(peer)
{
    peer.orders(vi);
}

Endpoint::Endpoint(Peer &peer, VIP_VI_ATTRIBUTES attributes, size_t memory_bytes)
    : memory(peer.nic(), memory_bytes, rdma_memory(attributes.Ptag)), vi(peer.nic(), attributes), peer_(peer)
{
    peer.orders(vi);
}

void Endpoint::connect()
{
    VIP_VI_ATTRIBUTES attributes{};
    if (peer_.is_server()) {
        NetAddress local = peer_.server_address();
        NetAddress remote;
        VIP_CONN_HANDLE connection = nullptr;
        REQUIRE_VIP(VipConnectWait(peer_.nic(), local, patience(), remote, &attributes, &connection));
        REQUIRE_VIP(VipConnectAccept(connection, vi));
    } else {
        NetAddress local = peer_.client_address();
        NetAddress remote = peer_.server_address();
        REQUIRE_VIP(VipConnectRequest(vi, local, remote, patience(), &attributes));
    }
}

Work Endpoint::receive(size_t size)
{
    const Work work = memory.transfer(memory.bytes(size));
    post_recv(vi, work);
    return work;
}

Work Endpoint::send(Span bytes)
{
    const Work work = memory.transfer(bytes);
    post_send(vi, work);
    return work;
}

} // namespace vipl_test
