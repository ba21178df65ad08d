// SPDX-License-Identifier: MIT
//
// Connections that send nothing, too little or too slowly: they cost little, are dropped in time,
// and keep no other out, be they ten thousand, all from one address, or more than there are
// descriptors.
#include "stress.hpp"

#include "census.hpp"
#include "good.hpp"
#include "tcp_wire.hpp"

using namespace stress;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kUsual = 1000;
constexpr long kKibEach = 128; // with what is noted about it
#else
constexpr unsigned kUsual = 10000;
constexpr long kKibEach = 16;
#endif

/** VIPL_STRESS_HALF_OPEN, or what is usual, as far as the system gives a process descriptors. */
unsigned half_open()
{
    constexpr unsigned kOthers = 200;
    const unsigned wanted = setting("VIPL_STRESS_HALF_OPEN", kUsual);
    return std::min(wanted, allow_many_descriptors(wanted + kOthers) - kOthers);
}

/** An environment variable, for NIC handles that are opened while it lives. */
class Setting {
public:
    Setting(const char *name, unsigned value) : name_(name)
    {
        setenv(name, std::to_string(value).c_str(), 1);
    }
    ~Setting() { unsetenv(name_); }
    Setting(const Setting &) = delete;
    Setting &operator=(const Setting &) = delete;

private:
    const char *name_;
};

/** A thread that waits for requests, and gets none. */
class Waiting {
public:
    Waiting(const Nic &nic, const std::string &name)
    {
        open_port(nic, name);
        crew_.add([this, &nic, name] {
            NetAddress local = nic.address(name), from;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            while (!stop_) {
                REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, 20, from, &attributes, &connection));
            }
        });
    }
    ~Waiting() { stop_ = true; }
    void end()
    {
        stop_ = true;
        crew_.join();
    }

private:
    std::atomic<bool> stop_{false};
    Crew crew_;
};

/** Whether the other side has ended it, now or within some time. */
bool has_ended(const Fd &fd, int limit_ms)
{
    pollfd entry = {fd.get(), POLLIN, 0};
    VIP_UINT8 byte;
    return poll(&entry, 1, limit_ms) == 1 && recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

void say_little(const Scene &scene, Line &line)
{
    const unsigned many = half_open();
    Random random = scene.random();
    const Bytes request = mpa_request(scene.name());
    std::vector<Fd> all;
    for (unsigned i = 0; i < many; ++i) {
        all.push_back(dial());
        put_out(all.back(), request.data(), i % 2 == 0 ? 0 : below(random, request.size()));
    }
    line.sync();
    line.sync();
}

void wait_for_descriptors(unsigned count)
{
    const unsigned long long end = now_ms() + 4 * patience();
    while (count_entries("/proc/self/fd") < count) {
        EXPECT(now_ms() < end);
        give_way();
    }
}

/** Very many come, then a good one does, then all go. */
void crowd(const Nic &nic, const Scene &scene, Child &good)
{
    const unsigned many = half_open();
    const unsigned fds = count_entries("/proc/self/fd") + 1; // the line to the attacker
    const long resident = resident_kib();
    Child attacker(say_little, scene);
    attacker.line.sync();
    wait_for_descriptors(fds + many);
    const long grown = resident_kib() - resident;
    std::cout << many << " half-open connections: " << grown << " KiB" << std::endl;
    EXPECT(grown <= kKibEach * static_cast<long>(many));
    const Vi vi(nic);
    good.line.send('C');
    REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    const unsigned took = good.line.receive<unsigned>();
    std::cout << "a good client got in after " << took << " ms" << std::endl;
    EXPECT(took < 1000 * timeout_scale());
    attacker.line.sync();
    attacker.finish();
}

void send_and_expect(const Fd &fd, const Vi &vi, const Work &receive, std::uint32_t msn)
{
    receive.desc->CS.Length = receive.buffer.size;
    post_recv(vi, receive);
    put_out(fd, fpdu(segment(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, msn), Bytes(20, 7)), false));
    EXPECT(received(vi) == receive.desc);
    EXPECT(receive.buffer.part(0, 20).all(7));
}

unsigned long long cpu_ms()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto ms = [](const timeval &t) {
        return static_cast<unsigned long long>(t.tv_sec) * 1000 +
               static_cast<unsigned long long>(t.tv_usec) / 1000;
    };
    return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/** Take every descriptor that this process may still have. */
class Exhaustion {
public:
    Exhaustion()
    {
        getrlimit(RLIMIT_NOFILE, &before_);
        const Fd lowest(dup(0));
        const rlimit tight = {static_cast<rlim_t>(lowest.get()) + 20, before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &tight);
        for (int fd = dup(0); fd >= 0; fd = dup(0)) {
            taken_.emplace_back(fd);
        }
        EXPECT_EQ(EMFILE, errno);
    }
    ~Exhaustion() { setrlimit(RLIMIT_NOFILE, &before_); }
    Exhaustion(const Exhaustion &) = delete;
    Exhaustion &operator=(const Exhaustion &) = delete;

private:
    rlimit before_{};
    std::vector<Fd> taken_;
};

} // namespace

TEST_CASE("ten thousand half-open connections cost little and keep no other out", "[flood]")
{
    const Setting most("VIPL_TCP_HALF_OPEN", 2 * half_open());
    const Setting time("VIPL_TCP_HANDSHAKE_MS", 600000);
    const Scene scene = make_scene();
    Child good(be_good, scene);
    const Nic nic;
    Peers peers(nic);
    REQUIRE_VIP(accept_on(nic, scene.name(), peers.vi));
    note_port();
    Crew crew;
    crew.add([&] { echo(peers); });
    try {
        Census before = take_census();
        before.fds += 2; // of threads that sleep for the first time meanwhile
        crowd(nic, scene, good);
        expect_census(before, [] {});
        good.line.send('E');
        EXPECT(good.line.receive<unsigned>() > 0);
        good.finish();
    } catch (...) {
        good.kill();
        throw;
    }
    crew.join();
}

TEST_CASE("a flood from one address does not shut out another", "[flood]")
{
    constexpr unsigned kMost = 8, kFlood = 100;
    const Setting most("VIPL_TCP_HALF_OPEN", kMost);
    const Nic nic;
    const std::string name = unique_discriminator();
    Waiting waiting(nic, name);
    Claim claim;
    claim.crc = true; // two addresses: there is one in any case
    const Bytes request = mpa_request(name, claim);
    const Fd slow = dial("127.0.0.2");
    put_out(slow, request.data(), request.size() / 2);
    std::vector<Fd> flood;
    for (unsigned i = 0; i < kFlood; ++i) {
        flood.push_back(dial());
    }
    for (unsigned i = 0; i <= kFlood - kMost; ++i) { // the oldest go
        REQUIRE(has_ended(flood[i], static_cast<int>(patience())));
    }
    for (unsigned i = kFlood - kMost + 1; i < kFlood; ++i) {
        REQUIRE_FALSE(has_ended(flood[i], 0));
    }
    REQUIRE_FALSE(has_ended(slow, 0));
    waiting.end();
    Crew rest;
    rest.add([&] {
        put_out(slow, request.data() + request.size() / 2, request.size() - request.size() / 2);
        EXPECT(mpa_accepted(slow));
        put_out(slow, ready_frame(true));
    });
    const Vi vi(nic);
    const VIP_RETURN accepted = accept_on(nic, name, vi);
    rest.join();
    REQUIRE(accepted == VIP_SUCCESS);
    REQUIRE(vi.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("bytes that dribble in do not put off the end of a half-open connection", "[flood]")
{
    constexpr unsigned kLimit = 500, kPause = 100;
    const Setting time("VIPL_TCP_HANDSHAKE_MS", kLimit);
    const Nic nic;
    const std::string name = unique_discriminator();
    Waiting waiting(nic, name);
    const Bytes request = mpa_request(name);
    REQUIRE(request.size() > 5 * kLimit / kPause);
    const unsigned long long start = now_ms();
    const Fd silent = dial(), slow = dial();
    size_t at = 0;
    while (at < request.size() - 1 && put_out(slow, &request[at], 1) && !has_ended(slow, kPause)) {
        ++at;
    }
    const unsigned long long took = now_ms() - start;
    std::cout << "dropped after " << took << " ms and " << at << " bytes of " << request.size() << std::endl;
    REQUIRE(at < request.size() - 1);
    REQUIRE(took >= kLimit);
    REQUIRE(has_ended(silent, static_cast<int>(patience())));
    waiting.end();
}

TEST_CASE("a lack of descriptors is waited out at rest", "[flood]")
{
    constexpr unsigned kMs = 1000;
    const Nic nic;
    const std::string name = unique_discriminator();
    open_port(nic, name);
    NetAddress local = nic.address(name), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    Memory memory(nic);
    const Vi vi(nic);
    const Work receive = memory.transfer(memory.bytes(64));
    const Fd fd = accept_raw(nic, name, vi);
    send_and_expect(fd, vi, receive, 1);
    {
        std::vector<Fd> sockets;
        for (unsigned i = 0; i < 50; ++i) {
            sockets.push_back(tcp_socket());
        }
        const Exhaustion exhaustion; // Catch2's assertions under UBSan need descriptors
        for (const Fd &each : sockets) {
            const sockaddr_in target = inet("127.0.0.1", target_port());
            EXPECT(connect(each.get(), reinterpret_cast<const sockaddr *>(&target), sizeof target) == 0);
        }
        const unsigned long long cpu = cpu_ms();
        REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, kMs, from, &attributes, &connection));
        const unsigned long long used = cpu_ms() - cpu;
        std::cout << used << " ms of CPU in " << kMs << " ms" << std::endl;
        EXPECT(used < kMs / 5);
        send_and_expect(fd, vi, receive, 2);
    }
    const Vi another(nic);
    const Fd later = accept_raw(nic, name, another);
    send_and_expect(later, another, receive, 1);
    send_and_expect(fd, vi, receive, 3);
}

TEST_CASE("when descriptors are short streams that we have ended give way, and a newcomer does not",
          "[flood]")
{
    constexpr unsigned kMs = 1000; // else the ended ones go after two seconds
    const unsigned ended = GENERATE(20u, 0u);
    const bool one_is_free = ended == 0; // for the newcomer, and none behind it
    const Nic nic;
    const std::string name = unique_discriminator();
    const Bytes wrong = mpa_request(unique_discriminator());
    std::vector<Fd> refused;
    {
        Waiting waiting(nic, name);
        for (unsigned i = 0; i < ended; ++i) {
            refused.push_back(dial());
            put_out(refused.back(), wrong);
            EXPECT(!mpa_accepted(refused.back()));
        }
        waiting.end();
    }
    const Fd late = tcp_socket();
    let_a_moment_pass(); // this thread has what it needs to wait
    const Exhaustion exhaustion;
    const Fd last(one_is_free ? -1 : dup(0));
    const sockaddr_in target = inet("127.0.0.1", target_port());
    EXPECT(connect(late.get(), reinterpret_cast<const sockaddr *>(&target), sizeof target) == 0);
    put_out(late, mpa_request(name));
    NetAddress local = nic.address(name), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    const VIP_RETURN rc = VipConnectWait(nic, local, kMs, from, &attributes, &connection);
    EXPECT(rc == VIP_SUCCESS);
    EXPECT(VipConnectReject(connection) == VIP_SUCCESS);
}

TEST_CASE("a peer that sends without end does not keep a call of the program", "[flood]")
{
    constexpr unsigned kFrames = 50000;
    const Nic nic;
    const std::string name = unique_discriminator();
    open_port(nic, name);
    const Vi vi(nic);
    const Fd fd = accept_raw(nic, name, vi);
    const Bytes smallest = ready_frame(false);
    Bytes stream;
    for (unsigned i = 0; i < kFrames; ++i) { // small ones arrive faster than they can be handled
        stream.insert(stream.end(), smallest.begin(), smallest.end());
    }
    std::atomic<unsigned> rounds{0};
    Crew crew;
    crew.add([&] {
        const unsigned long long end = now_ms() + patience();
        while (now_ms() < end && put_out(fd, stream)) {
            rounds++;
        }
    });
    while (rounds < 10) {
        VIP_DESCRIPTOR *done = nullptr;
        const unsigned long long start = now_ms();
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(vi, &done));
        EXPECT(now_ms() - start < patience() / 2);
    }
    const unsigned long long start = now_ms();
    REQUIRE_VIP(VipDisconnect(vi));
    EXPECT(now_ms() - start < patience() / 2);
    crew.join();
}
