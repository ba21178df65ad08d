// SPDX-License-Identifier: MIT
//
// The link between two hosts is pulled: connections are lost within the configured time, nothing
// hangs, and what is short enough goes unnoticed. network.py makes the hosts and says by
// VIPL_TEST_UNPLUG and VIPL_TEST_PLUG which commands pull the link and put it back; the server's
// side runs them.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "support/error_log.hpp"
#include "support/held_handler.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

void run_command(const char *variable)
{
    const char *command = std::getenv(variable);
    EXPECT(command != nullptr && std::system(command) == 0);
}

/** The link, pulled while this object lives. Both roles have one; the server's pulls. */
class Unplugged {
public:
    explicit Unplugged(Peer &peer) : peer_(peer)
    {
        peer_.sync(); // neither side is to be in the middle of connecting
        if (peer_.is_server()) {
            run_command("VIPL_TEST_UNPLUG");
        }
        peer_.sync();
    }
    ~Unplugged()
    {
        if (peer_.is_server()) {
            try {
                run_command("VIPL_TEST_PLUG");
            } catch (const Failure &) {
            } // then the next case fails
        }
    }
    Unplugged(const Unplugged &) = delete;
    Unplugged &operator=(const Unplugged &) = delete;

private:
    Peer &peer_;
};

/** Milliseconds by which a broken connection must have been noticed: as configured, and what a slow
 * machine adds. */
unsigned long long configured_time()
{
    const char *text = std::getenv("VIPL_TCP_TIMEOUT_MS");
    EXPECT(text != nullptr);
    return std::strtoul(text, nullptr, 10) + 2000ul * timeout_scale();
}

/** A thread that repeats something until that says false, and counts. */
class Repeated {
public:
    explicit Repeated(std::function<bool()> step)
        : thread_([this, step] {
              while (step()) {
                  ++count_;
              }
          })
    {
    }
    ~Repeated() { join(); }
    Repeated(const Repeated &) = delete;
    Repeated &operator=(const Repeated &) = delete;

    void join()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    void await(unsigned count) const
    {
        const unsigned long long end = now_ms() + patience();
        while (count_ < count) {
            EXPECT(now_ms() < end);
            give_way();
        }
    }
    unsigned count() const { return count_; }

private:
    std::atomic<unsigned> count_{0};
    std::thread thread_;
};

constexpr VIP_UINT32 kSize = 4000;

VIP_VI_ATTRIBUTES unreliable()
{
    return vi_attributes(VIP_SERVICE_UNRELIABLE);
}

/** A connection in each condition, both ways; "flooding" writes without an answer from the other
 * side. */
struct Connections {
    explicit Connections(Peer &peer)
        : errors(peer.nic()), quiet(peer), waiting(peer), answering(peer), flooding(peer, unreliable()),
          writing(peer)
    {
        waiting.receive(8);
        answering.receive(kSize);
        for (Endpoint *end : all()) {
            end->connect();
        }
        for (Writer *each : {&flood, &write}) {
            peer.send(each->end.memory.bytes(kSize).remote());
            each->work = each->end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(),
                                               each->end.memory.bytes(kSize));
        }
    }

    std::vector<Endpoint *> all() { return {&quiet, &waiting, &answering, &flooding, &writing}; }

    ErrorLog errors;
    Endpoint quiet, waiting, answering, flooding, writing;

    struct Writer {
        Endpoint &end;
        Work work{};
    };
    Writer flood{flooding}, write{writing};
};

/** Posts one descriptor and waits for it, without a limit. */
bool send_one(VIP_VI_HANDLE vi, const Work &work)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipPostSend(vi, work.desc, work.handle) == VIP_SUCCESS &&
           VipSendWait(vi, VIP_INFINITE, &done) == VIP_SUCCESS;
}

/** Takes a message, without a limit, and has its descriptor posted again. */
bool receive_one(Endpoint &end)
{
    VIP_DESCRIPTOR *done = nullptr;
    if (VipRecvWait(end.vi, VIP_INFINITE, &done) != VIP_SUCCESS) {
        return false;
    }
    done->CS.Length = kSize;
    return VipPostRecv(end.vi, done, end.memory.handle()) == VIP_SUCCESS;
}

/** What goes on over the connections; it ends when they do. */
class Traffic {
public:
    Traffic(Peer &peer, Connections &all)
        : all_(all), waits_([&all] { return receive_one(all.waiting); }),
          answers_([&all, server = peer.is_server(), out = message(all.answering)] {
              return server ? send_one(all.answering.vi, out) && receive_one(all.answering)
                            : receive_one(all.answering) && send_one(all.answering.vi, out);
          }),
          floods_([&all] { return send_one(all.flooding.vi, all.flood.work); }),
          writes_([&all] { return send_one(all.writing.vi, all.write.work); })
    {
    }
    ~Traffic()
    {
        for (Endpoint *end : all_.all()) {
            VipDisconnect(end->vi);
        }
    }
    Traffic(const Traffic &) = delete;
    Traffic &operator=(const Traffic &) = delete;

    /** Until everything has moved on a good deal. */
    void await_progress()
    {
        Repeated *const moving[] = {&answers_, &floods_, &writes_};
        for (Repeated *each : moving) {
            each->await(each->count() + 100);
        }
    }
    void join()
    {
        for (Repeated *each : {&waits_, &answers_, &floods_, &writes_}) {
            each->join();
        }
    }

private:
    static Work message(Endpoint &end) { return end.memory.transfer(end.memory.bytes(kSize)); }
    Connections &all_;
    Repeated waits_, answers_, floods_, writes_;
};

void connections_break(Peer &peer)
{
    Connections all(peer);
    Traffic traffic(peer, all);
    traffic.await_progress();
    {
        const Unplugged unplugged(peer);
        const unsigned long long end = now_ms() + configured_time();
        for (Endpoint *each : all.all()) {
            all.errors.expect(each->vi, VIP_ERROR_CONN_LOST);
            EXPECT(now_ms() <= end);
            EXPECT_EQ(VIP_STATE_ERROR, each->vi.state());
        }
        traffic.join(); // whoever waited without a limit does not any more
        all.errors.expect_none();
        peer.sync();
    }
    Endpoint &again = all.quiet; // the link is back, and the VI is good for another connection
    REQUIRE_VIP(VipDisconnect(again.vi));
    const Work in = again.receive(5);
    peer.sync();
    again.connect();
    again.send("again");
    sent(again.vi);
    EXPECT(received(again.vi) == in.desc);
    peer.sync();
}

/** How a request to the other side ends that cannot reach it, and that it takes its time and no
 * more. */
void expect_no_connection(Peer &peer, VIP_VI_HANDLE vi, bool symmetric)
{
    NetAddress server = peer.server_address(), client = peer.client_address();
    NetAddress &local = peer.is_server() ? server : client, &remote = peer.is_server() ? client : server;
    const VIP_ULONG timeout = 700;
    const unsigned long long start = now_ms();
    VIP_RETURN rc;
    if (symmetric) {
        REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, timeout));
        rc = VipConnectPeerWait(vi, nullptr);
    } else {
        VIP_VI_ATTRIBUTES attributes{};
        rc = VipConnectRequest(vi, local, remote, timeout, &attributes);
    }
    const unsigned long long took = now_ms() - start;
    EXPECT(rc == VIP_NOT_REACHABLE || rc == VIP_TIMEOUT || (symmetric && rc == VIP_NO_MATCH));
    EXPECT(took + 1 >= timeout);
    EXPECT(took <= timeout + 1500ul * timeout_scale());
}

void requests_time_out(Peer &peer)
{
    Endpoint end(peer);
    {
        const Unplugged unplugged(peer);
        expect_no_connection(peer, end.vi, false);
        expect_no_connection(peer, end.vi, true);
        peer.sync();
    }
    end.connect();
    peer.sync();
}

/** The link comes back while the client asks. */
void request_outlives_a_gap(Peer &peer)
{
    Endpoint end(peer);
    if (peer.is_server()) {
        const Unplugged unplugged(peer);
        let_a_moment_pass();
    } else {
        const Unplugged unplugged(peer);
    }
    end.connect();
    peer.sync();
}

/** As Endpoint::connect(), on any NIC handle. */
void connect(Peer &peer, const Nic &nic, VIP_VI_HANDLE vi)
{
    VIP_VI_ATTRIBUTES attributes{};
    NetAddress local = peer.is_server() ? peer.server_address("n") : peer.client_address(), remote;
    if (peer.is_server()) {
        VIP_CONN_HANDLE connection = nullptr;
        REQUIRE_VIP(VipConnectWait(nic, local, patience(), remote, &attributes, &connection));
        REQUIRE_VIP(VipConnectAccept(connection, vi));
    } else {
        REQUIRE_VIP(VipConnectRequest(vi, local, peer.server_address("n"), patience(), &attributes));
    }
}

/** An end with posts that are not through waits for them, and may find its connection lost. */
void ends_without_the_other_side(Peer &peer)
{
    Connections all(peer);
    Nic closing;
    const Vi last(closing, vi_attributes(peer.level()));
    connect(peer, closing, last);
    Traffic traffic(peer, all);
    traffic.await_progress();
    const Unplugged unplugged(peer);
    const unsigned long long start = now_ms();
    for (Endpoint *each : all.all()) {
        REQUIRE_VIP(VipDisconnect(each->vi));
    }
    traffic.join();
    REQUIRE_VIP(VipCloseNic(closing));
    EXPECT(now_ms() - start <= configured_time());
    peer.sync();
}

/* A program that does not call in for longer than the configured time: it is busy, and its host
 * alive. */

constexpr VIP_UINT32 kPart = 32 * 1024;
constexpr unsigned kParts = 600; // more than all buffers between the two programs hold

VIP_VI_ATTRIBUTES without_rdma()
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY);
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead =
        VIP_FALSE; // then nobody but the program receives, if the library's thread does not
    return attributes;
}

void busy_receiver(Peer &peer)
{
    Endpoint end(peer, without_rdma(), kParts * (kPart + 256));
    std::vector<Work> works;
    for (unsigned i = 0; i < kParts; ++i) {
        works.push_back(end.receive(kPart));
    }
    HeldHandler held;
    REQUIRE_VIP(VipRecvNotify(end.vi, &held, HeldHandler::handler));
    end.connect();
    peer.sync();
    EXPECT(held.await() == works[0].desc); // the thread is as busy as the program
    peer.sync();                           // no call before
    held.release();
    for (unsigned i = 0; i < kParts; ++i) {
        EXPECT(i == 0 || received(end.vi) == works[i].desc);
        EXPECT(works[i].buffer.holds(i));
    }
    peer.sync();
}

void sender_to_busy_receiver(Peer &peer)
{
    ErrorLog errors(peer.nic());
    Endpoint end(peer, without_rdma(), kParts * (kPart + 256));
    end.connect();
    peer.sync();
    std::vector<Work> works;
    for (unsigned i = 0; i < kParts; ++i) {
        const Span part = end.memory.bytes(kPart);
        part.fill(i);
        works.push_back(end.send(part));
    }
    VIP_DESCRIPTOR *done = nullptr;
    VIP_RETURN rc = VIP_SUCCESS;
    unsigned count = 0;
    while (rc == VIP_SUCCESS && count < kParts) {
        rc = VipSendWait(end.vi, configured_time() + 1000, &done);
        count += rc == VIP_SUCCESS;
    }
    EXPECT_EQ(VIP_TIMEOUT, rc); // the buffers are full
    EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
    peer.sync();
    for (; count < kParts; ++count) {
        EXPECT(sent(end.vi) == works[count].desc);
    }
    errors.expect_none();
    peer.sync();
}

void short_gap(Peer &peer)
{
    Connections all(peer);
    Traffic traffic(peer, all);
    traffic.await_progress();
    {
        const Unplugged unplugged(peer);
        for (int i = 0; i < 5; ++i) {
            let_a_moment_pass();
        }
        peer.sync();
    }
    traffic.await_progress();
    for (Endpoint *each : all.all()) {
        EXPECT_EQ(VIP_STATE_CONNECTED, each->vi.state());
    }
    all.errors.expect_none();
    peer.sync();
}

} // namespace

TWO_PROCESS_CASE("connections over a pulled link are lost within the configured time",
                 "[unplugged]") = {connections_break, connections_break};

TWO_PROCESS_CASE("requests over a pulled link end at their timeout", "[unplugged]") = {requests_time_out,
                                                                                       requests_time_out};

TWO_PROCESS_CASE("a request outlives a gap", "[unplugged]") = {request_outlives_a_gap,
                                                               request_outlives_a_gap};

TWO_PROCESS_CASE("connections over a pulled link can be ended within the configured time",
                 "[unplugged]") = {ends_without_the_other_side, ends_without_the_other_side};

TWO_PROCESS_CASE("a gap shorter than the configured time goes unnoticed", "[unplugged]") = {short_gap,
                                                                                            short_gap};

TWO_PROCESS_CASE("a program that does not call in for longer than the configured time is not lost",
                 "[unplugged]") = {busy_receiver, sender_to_busy_receiver};

int vipl_catch_run(int argc, char **argv); // support/catch2/run.cpp

int main(int argc, char **argv)
{
    start_zygote();
    return vipl_catch_run(argc, argv);
}
