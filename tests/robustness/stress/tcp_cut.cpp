// SPDX-License-Identifier: MIT
//
// Connections that are reset: behind data that has not been read yet, and, by a relay between two
// good ends, after every single byte of a connection's set-up, messages, RDMA and end, in either
// direction. No call hangs: a request that is cut is tried again, and a connection that is cut is
// an error at both ends.
#include "stress.hpp"

#include "support/os_hooks.hpp"
#include "tcp_wire.hpp"

using namespace stress;

namespace {

// --- a relay that cuts ---------------------------------------------------------------------------

/** The probe-th of a discriminator's eight ports: vipl_tcp_port(). */
std::uint16_t port_of(const std::string &name, unsigned probe)
{
    unsigned first = 18514, last = 18769;
    if (const char *text = std::getenv("VIPL_TCP_PORTS")) {
        EXPECT(std::sscanf(text, "%u-%u", &first, &last) == 2);
    }
    const std::uint32_t hash = vipl_crc32c(0, name.data(), name.size());
    return static_cast<std::uint16_t>(first + (hash + probe * (1 + (hash >> 16) % 7)) % (last - first + 1));
}

/** Where the relay is: an address of this process alone. */
std::string relay_host()
{
    const unsigned id = static_cast<unsigned>(getpid());
    return "127." + std::to_string(1 + (id >> 8) % 254) + "." + std::to_string(id % 256) + ".2";
}

enum Way : unsigned { kToServer, kToClient };

/** Takes connections at its own address to 127.0.0.1, one after the other. The first one is cut. */
class Relay {
public:
    Relay(const std::string &name, Way way, size_t cut_at) : way_(way), cut_at_(cut_at)
    {
        EXPECT(pipe2(stop_, O_CLOEXEC) == 0);
        for (unsigned probe = 0; probe < 8 && listener_.get() < 0; ++probe) {
            Fd fd = tcp_socket();
            const int on = 1;
            setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            const sockaddr_in address = inet(relay_host().c_str(), port_of(name, probe));
            if (bind(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0 &&
                listen(fd.get(), 16) == 0) {
                listener_ = std::move(fd);
            }
        }
        EXPECT(listener_.get() >= 0);
        crew_.add([this] { run(); });
    }
    ~Relay()
    {
        finish();
        close(stop_[0]);
    }

    /** Stop; the bytes that the first connection carried that way. */
    size_t finish()
    {
        if (stop_[1] >= 0) {
            close(stop_[1]);
            stop_[1] = -1;
            crew_.join();
        }
        return carried_;
    }
    bool has_cut() const { return cut_; }

private:
    void run()
    {
        pollfd either[2] = {{listener_.get(), POLLIN, 0}, {stop_[0], POLLIN, 0}};
        for (bool first = true; poll(either, 2, -1) > 0 && either[1].revents == 0; first = false) {
            const Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            EXPECT(client.get() >= 0);
            carry(client, dial(), first);
        }
    }

    /** True: there may be more that way. */
    bool pass(const Fd &from, const Fd &to, Way way, bool first)
    {
        VIP_UINT8 buffer[4096];
        const bool counts = first && way == way_;
        const size_t most = counts ? std::min(sizeof buffer, cut_at_ - carried_) : sizeof buffer;
        const ssize_t n = recv(from.get(), buffer, most, 0);
        if (n <= 0 || !put_out(to, buffer, static_cast<size_t>(n))) {
            shutdown(to.get(), SHUT_WR);
            return false;
        }
        carried_ += counts ? static_cast<size_t>(n) : 0;
        return true;
    }

    void carry(const Fd &client, const Fd &server, bool first)
    {
        const int nothing = -1; // poll() leaves it out
        pollfd sides[3] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}, {stop_[0], POLLIN, 0}};
        while (sides[0].fd != nothing || sides[1].fd != nothing) {
            if (first && carried_ == cut_at_) {
                cut_ = true;
                reset_at_close(client);
                reset_at_close(server);
                return;
            }
            EXPECT(poll(sides, 3, static_cast<int>(2 * patience())) > 0);
            if (sides[0].revents != 0 && !pass(client, server, kToServer, first)) {
                sides[0].fd = nothing;
            }
            if (first && carried_ == cut_at_) {
                continue;
            }
            if (sides[1].revents != 0 && !pass(server, client, kToClient, first)) {
                sides[1].fd = nothing;
            }
            if (sides[2].revents != 0) {
                return;
            }
        }
    }

    Way way_;
    size_t cut_at_;
    size_t carried_ = 0;
    std::atomic<bool> cut_{false};
    int stop_[2];
    Fd listener_;
    Crew crew_;
};

// --- the exchange --------------------------------------------------------------------------------

constexpr VIP_UINT32 kBytes = 24;

struct End {
    explicit End(const Nic &its_nic) : nic(its_nic), memory(nic, 16 * 1024, rdma_memory()), vi(nic)
    {
        in = memory.transfer(memory.bytes(kBytes));
        out = memory.transfer(memory.bytes(kBytes)).immediate(77);
        window = memory.bytes(2 * kBytes);
        out.buffer.fill(1);
        window.fill(2);
        post_recv(vi, in);
    }
    const Nic &nic;
    Memory memory;
    Vi vi;
    Work in, out;
    Span window;
};

using Wait = VIP_RETURN(VI_CALL *)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR **);

/** Whether the next one went well; if not, the connection is lost, and it says so in time. */
bool went_well(Wait wait, const End &end)
{
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = wait(end.vi, patience(), &done);
    if (rc != VIP_SUCCESS) {
        EXPECT_EQ(VIP_DESCRIPTOR_ERROR, rc);
        end.vi.await(VIP_STATE_ERROR);
    }
    return rc == VIP_SUCCESS;
}

/** True: everything was said, heard, written and read. */
bool speak(End &end, const Span &remote)
{
    const Work write =
        end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote.part(kBytes, kBytes).remote(), end.out.buffer);
    const Work read = end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote.remote(), end.memory.bytes(kBytes));
    post_send(end.vi, write);
    post_send(end.vi, read);
    post_send(end.vi, end.out);
    for (int i = 0; i < 3; ++i) {
        if (!went_well(VipSendWait, end)) {
            return false;
        }
    }
    EXPECT(read.buffer.holds(2));
    if (!went_well(VipRecvWait, end)) {
        return false;
    }
    EXPECT(end.in.buffer.holds(1));
    return true;
}

bool answer(End &end)
{
    if (!went_well(VipRecvWait, end)) {
        return false;
    }
    EXPECT(end.in.buffer.holds(1));
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE, end.in.desc);
    for (VIP_UINT32 i = 0; i < kBytes; ++i) {
        EXPECT_EQ(end.out.buffer.data[i], end.window.data[kBytes + i]);
    }
    post_send(end.vi, end.out);
    const bool whole = went_well(VipSendWait, end);
    end.vi.await(VIP_STATE_ERROR); // the other side leaves, or has been cut off
    return whole;
}

NetAddress at_the_relay(const Nic &nic, const std::string &name)
{
    NetAddress address = nic.address(name);
    const sockaddr_in relay = inet(relay_host().c_str(), 0);
    std::memcpy(static_cast<VIP_NET_ADDRESS *>(address)->HostAddress, &relay.sin_addr, 4);
    return address;
}

struct Outcome {
    bool client, server;
    bool cut;
    size_t carried;
};

Outcome exchange(const Nic &server_nic, const Nic &client_nic, const std::string &name, Way way, size_t cut)
{
    Relay relay(name, way, cut);
    End server(server_nic), client(client_nic);
    Outcome outcome{};
    std::atomic<bool> over{false};
    Crew crew;
    crew.add([&] {
        VIP_RETURN rc = VIP_TIMEOUT;
        while (rc != VIP_SUCCESS && !over) { // the one that was cut does not count
            rc = accept_on(server_nic, name, server.vi, 20);
            EXPECT(rc == VIP_SUCCESS || rc == VIP_TIMEOUT || rc == VIP_INVALID_PARAMETER);
        }
        outcome.server = rc == VIP_SUCCESS && answer(server);
    });
    try {
        NetAddress local = client_nic.address("me"), remote = at_the_relay(client_nic, name);
        REQUIRE_VIP(VipConnectRequest(client.vi, local, remote, patience(), nullptr));
        outcome.client = speak(client, server.window);
        REQUIRE_VIP(VipDisconnect(client.vi));
    } catch (...) {
        over = true;
        VipDisconnect(client.vi);
        throw;
    }
    over = true;
    crew.join();
    REQUIRE_VIP(VipDisconnect(server.vi));
    outcome.carried = relay.finish();
    outcome.cut = relay.has_cut();
    return outcome;
}

void cut_everywhere(Way way)
{
    const Nic server_nic, client_nic;
    const std::string name = unique_discriminator();
    open_port(server_nic, name);
    const Outcome uncut = exchange(server_nic, client_nic, name, way, ~size_t{0});
    EXPECT(uncut.client && uncut.server && !uncut.cut);
    EXPECT(uncut.carried > 100);
    unsigned whole = 0;
    for (size_t cut = 0; cut < uncut.carried; ++cut) {
        try {
            const Outcome seen = exchange(server_nic, client_nic, name, way, cut);
            EXPECT(seen.cut);
            whole += seen.client && seen.server ? 1 : 0;
        } catch (const std::exception &error) {
            throw Failure("cut after " + std::to_string(cut) + " bytes: " + error.what());
        }
    }
    std::cout << "cut after each of " << uncut.carried << " bytes; " << whole << " times all was said"
              << std::endl;
    EXPECT(whole > 20); // set-ups that were cut
    EXPECT(whole < uncut.carried);
}

} // namespace

TEST_CASE("a reset behind data that has not been read ends the connection", "[cut]")
{
    const Nic nic;
    const std::string name = unique_discriminator();
    open_port(nic, name);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.EnableRdmaRead = attributes.EnableRdmaWrite =
        VIP_FALSE; // no thread receives until this one does
    Memory memory(nic);
    const Vi vi(nic, attributes), second(nic, attributes), third(nic, attributes);
    for (const Vi *each : {&vi, &second}) {
        post_recv(*each, memory.transfer(memory.bytes(100)));
    }
    const Bytes message = fpdu(segment(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, 1), Bytes(20)), false);
    Fd victim = accept_raw(nic, name, vi);
    const Fd other = accept_raw(nic, name, second);
    const Fd silent = accept_raw(nic, name, third); // is looked at first from here on
    put_out(victim, message.data(), message.size() / 2);
    reset_at_close(victim);
    victim = Fd();
    put_out(other, message); // is looked at first once both were read
    VIP_DESCRIPTOR *done = nullptr;
    const unsigned long long start = now_ms();
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvWait(vi, patience(), &done));
    REQUIRE(now_ms() - start < patience() / 2); // it was seen, not found when the time was up
    REQUIRE(vi.state() == VIP_STATE_ERROR);
}

TEST_CASE("of a burst that a reset keeps from leaving no send is told as complete", "[cut]")
{
    constexpr unsigned kSends = 5, kBytes = 64, kFew = 16;
    setenv("VIPL_PROGRESS", "inline", 1); // nothing leaves but in this thread's calls
    const Nic nic;
    unsetenv("VIPL_PROGRESS");
    const std::string name = unique_discriminator();
    open_port(nic, name);
    Memory memory(nic);
    const Vi vi(nic);
    Fd peer = accept_raw(nic, name, vi);
    const int library = facing(peer);
    post_send(vi, memory.transfer(memory.bytes(kBytes))); // leaves at once
    const FewBytes limit(kFew, kFew);
    for (unsigned i = 1; i < kSends; ++i) {
        post_send(vi, memory.transfer(memory.bytes(kBytes)));
    }
    put_out(peer, Bytes(10 * kFew)); // the end is not seen before these are received
    reset_at_close(peer);
    peer = Fd();
    pollfd entry = {library, 0, 0};
    REQUIRE(poll(&entry, 1, static_cast<int>(patience())) == 1);
    unsigned complete = 0, flushed = 0;
    await([&] {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendDone(vi, &done);
        complete += rc == VIP_SUCCESS ? 1 : 0;
        flushed += rc == VIP_DESCRIPTOR_ERROR ? 1 : 0;
        return complete + flushed == kSends;
    });
    REQUIRE(complete == 1);
    REQUIRE(flushed == kSends - 1);
}

TEST_CASE("a connection that is cut after any byte to the server is an error, or tried again", "[cut]")
{
    cut_everywhere(kToServer);
}

TEST_CASE("a connection that is cut after any byte to the client is an error, or tried again", "[cut]")
{
    cut_everywhere(kToClient);
}
