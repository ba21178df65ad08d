// SPDX-License-Identifier: MIT
//
// A hostile host: ten thousand streams of noise, damaged requests, and, where a request is
// accepted, FPDUs that break every rule, end anywhere and are split anywhere. A program that
// accepted one loses that VI and nothing else: a good connection in parallel keeps working, and
// nothing is left behind.
#include "stress.hpp"

#include "census.hpp"
#include "good.hpp"
#include "tcp_wire.hpp"

using namespace stress;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr unsigned kStreams = 4000, kWarmUp = 1000; // each takes several times as long
#else
constexpr unsigned kStreams = 10000, kWarmUp = 2000;
#endif
constexpr unsigned kServers = 4;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kSlackKib = 320 * 1024; // freed memory is kept for a while, and shadowed
#else
constexpr long kSlackKib = 4 * 1024; // what allocators may keep
#endif

// --- the attacker --------------------------------------------------------------------------------

/** What a peer sends once it is accepted, rule after rule broken. */
class Speaker {
public:
    Speaker(Random &random, bool crc) : random_(random), crc_(crc) {}

    Bytes speech()
    {
        Bytes all = below(random_, 16) != 0 ? ready_frame(crc_) : Bytes{};
        for (std::uint64_t n = below(random_, 5); n > 0; --n) {
            add(all, below(random_, 3) == 0 ? rightful() : wrongful());
        }
        if (below(random_, 4) == 0) {
            damage(all, random_);
        }
        return all;
    }

private:
    static void add(Bytes &to, const Bytes &more) { to.insert(to.end(), more.begin(), more.end()); }

    std::uint32_t any() { return static_cast<std::uint32_t>(random_()); }
    Bytes payload(std::uint64_t limit) { return random_bytes(random_, below(random_, limit)); }
    Bytes frame(const vipl_ddp &ddp, const Bytes &bytes = {}) { return fpdu(segment(ddp, bytes), crc_); }

    Bytes rightful()
    {
        switch (below(random_, 3)) {
        case 0:
            return frame(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, send_msn_++), payload(200));
        case 1:
            return read_frame({0, 0}, 0, read_msn_++, crc_);
        default:
            return frame(untagged(VIPL_RDMAP_IMMEDIATE, VIPL_DDP_QUEUE_SEND, send_msn_++),
                         random_bytes(random_, VIPL_RDMAP_IMMEDIATE_BYTES));
        }
    }

    Bytes wrongful()
    {
        const auto op = static_cast<vipl_rdmap_op>(below(random_, 16));
        vipl_ddp send = untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, send_msn_);
        Bytes bytes;
        switch (below(random_, 14)) {
        case 0: // says another length
            bytes = frame(send, payload(100));
            put(bytes, 0, any(), 2);
            return bytes;
        case 1: // any operation, tagged or not
            return below(random_, 2) == 0 ? frame(untagged(op, any() % 4, any() % 3), payload(60))
                                          : frame(tagged(op, any(), random_()), payload(60));
        case 2: // another message
            send.msn = any();
            return frame(send, payload(100));
        case 3: // another place in it
            send.mo = any();
            return frame(send, payload(100));
        case 4: // another queue
            send.queue = any();
            return frame(send, payload(100));
        case 5: // some memory
            return write_frame({random_(), any()}, payload(100), crc_);
        case 6:
            return read_frame({random_(), any()}, any(), read_msn_++, crc_);
        case 7: // a wrong CRC
            bytes = frame(send, payload(100));
            bytes.back() ^= 1;
            return bytes;
        case 8: // too many reads
            for (int i = 0; i < 200; ++i) {
                add(bytes, read_frame({0, 0}, 0, read_msn_++, crc_));
            }
            return bytes;
        case 9:
            return frame(untagged(VIPL_RDMAP_TERMINATE, VIPL_DDP_QUEUE_TERMINATE, 1), payload(60));
        case 10: // an answer to nothing
            return frame(tagged(VIPL_RDMAP_READ_RESPONSE, any() % 4, 0), payload(100));
        case 11: // a message without end, longer than any receive
            send.last = false;
            for (int i = 0; i < 4; ++i) {
                add(bytes, frame(send, random_bytes(random_, 60000)));
                send.mo += 60000;
            }
            return bytes;
        case 12: // promises immediate data and sends something else
            send.op = VIPL_RDMAP_SEND_SE;
            send_msn_++;
            return frame(send, payload(100));
        default: // not even a header
            return fpdu(random_bytes(random_, below(random_, 20)), crc_);
        }
    }

    Random &random_;
    bool crc_;
    std::uint32_t send_msn_ = 1, read_msn_ = 1;
};

Bytes noise(Random &random)
{
    Bytes bytes = random_bytes(random, 1 + below(random, 600));
    if (below(random, 2) == 0 && bytes.size() >= 16) {
        std::memcpy(bytes.data(), "MPA ID Req Frame", 16);
    }
    return bytes;
}

/** Most ends let the other side read everything first; some throw away what it has not read. */
void hang_up(const Fd &fd, Random &random)
{
    switch (below(random, 6)) {
    case 0:
        reset_at_close(fd);
        return;
    case 1:
        return;
    default:
        shutdown(fd.get(), SHUT_WR);
        take_all(fd);
    }
}

void throw_stream(const std::string &name, Random random)
{
    const Fd fd = dial();
    Claim claim;
    claim.kind = below(random, 16) == 0 ? static_cast<VIP_UINT8>(random()) : VIP_UINT8{1};
    claim.level = static_cast<VIP_UINT16>(1u << below(random, 3));
    claim.crc = below(random, 2) == 0;
    const bool noisy = below(random, 5) == 0;
    Bytes request = noisy ? noise(random) : mpa_request(name, claim);
    Speaker speaker(random, claim.crc);
    const auto how = below(random, 10);
    if (how < 3) {
        damage(request, random);
    } else if (how < 4) { // does not wait for the answer
        const Bytes more = speaker.speech();
        request.insert(request.end(), more.begin(), more.end());
    }
    put_out_split(fd, request, random);
    if (how >= 4 && !noisy && mpa_accepted(fd)) {
        Bytes speech = speaker.speech();
        if (below(random, 4) == 0) {
            speech.resize(below(random, speech.size() + 1));
        }
        put_out_split(fd, speech, random);
    }
    hang_up(fd, random);
}

void attack(const Scene &scene, Line &line)
{
    for (unsigned i = 0; i < kStreams; ++i) {
        try {
            throw_stream(scene.name(), Random(scene.seed + i));
        } catch (const std::exception &error) {
            throw Failure("stream " + std::to_string(i) + ": " + error.what());
        }
        if (i == kWarmUp) {
            line.sync();
        }
    }
    line.sync();
}

// --- who is attacked -----------------------------------------------------------------------------

/** What all servers have in common. */
struct Target {
    Nic nic;
    std::string name;
    std::atomic<VIP_VI_HANDLE> good{nullptr};
    std::atomic<bool> stop{false};
    std::atomic<unsigned> requests{0}, connected{0}, reports{0};
    std::atomic<const char *> wrong{nullptr};
};

void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    auto &target = *static_cast<Target *>(context);
    const VIP_ERROR_CODE code = error->ErrorCode;
    if (code != VIP_ERROR_CONN_LOST && code != VIP_ERROR_RECVQ_EMPTY && code != VIP_ERROR_RDMAW_PROT &&
        code != VIP_ERROR_RDMAR_PROT && code != VIP_ERROR_RDMA_TRANSPORT) {
        target.wrong = "an error that no peer can cause";
    } else if (error->ViHandle == target.good.load()) {
        target.wrong = "an error of the good VI";
    }
    target.reports++;
}

/** Buffers of one server, with bytes around each that no peer may write. */
class Bait {
public:
    explicit Bait(const Nic &nic) : memory_(nic, 64 * 1024, rdma_memory())
    {
        for (Work &work : receives_) {
            fence(64);
            work = memory_.transfer(memory_.bytes(1000));
        }
        fence(4096);
    }

    /** Take what comes until the connection has ended, as it does. */
    void suffer(const Vi &vi)
    {
        while (vi.state() == VIP_STATE_CONNECTED) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipRecvWait(vi, 2 * patience(), &done);
            EXPECT_EQ(VIP_SUCCESS, rc == VIP_DESCRIPTOR_ERROR ? VIP_SUCCESS : rc);
            EXPECT(done->CS.Length <= 1000);
            done->CS.Length = 1000;
            REQUIRE_VIP(VipPostRecv(vi, done, memory_.handle()));
        }
        EXPECT_EQ(VIP_STATE_ERROR, vi.state());
    }
    void prepare(const Vi &vi)
    {
        for (const Work &work : receives_) {
            work.desc->CS.Length = 1000;
            post_recv(vi, work);
        }
    }
    /** Take back what was posted, and see that nothing else was touched. */
    void clean_up(const Vi &vi)
    {
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipDisconnect(vi));
        EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        while (VipRecvDone(vi, &done) != VIP_NOT_DONE) {
        }
        for (const Span &fence : fences_) {
            EXPECT(fence.holds(1));
        }
    }

private:
    void fence(size_t bytes)
    {
        fences_.push_back(memory_.bytes(bytes));
        fences_.back().fill(1);
    }
    Memory memory_;
    Work receives_[4];
    std::vector<Span> fences_;
};

void serve(Target &target, Random random)
{
    Bait bait(target.nic);
    NetAddress local = target.nic.address(target.name);
    while (!target.stop) {
        NetAddress from(2 * 65536);
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        const VIP_RETURN rc = VipConnectWait(target.nic, local, 20, from, &attributes, &connection);
        if (rc != VIP_SUCCESS) {
            EXPECT_EQ(VIP_TIMEOUT, rc);
            continue;
        }
        if (from.discriminator() == "me") {
            const Vi vi(target.nic);
            REQUIRE_VIP(VipConnectAccept(connection, vi));
            vi.await(VIP_STATE_ERROR); // the client leaves soon
            continue;
        }
        target.requests++;
        const auto level = attributes.ReliabilityLevel;
        const bool plausible = level == 1 || level == 2 || level == 4;
        const Vi vi(target.nic, vi_attributes(plausible ? level : VIP_SERVICE_UNRELIABLE));
        bait.prepare(vi);
        if (below(random, 16) != 0 && VipConnectAccept(connection, vi) == VIP_SUCCESS) {
            target.connected++;
            bait.suffer(vi);
        } else {
            VipConnectReject(connection); // may be gone already
            EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        }
        bait.clean_up(vi);
    }
}

/** The attacker's sign, which takes its time; or some server has failed, and says why when it is
 * joined. */
void await_sign(Child &attacker, const Crew &crew)
{
    pollfd entry = {attacker.line.fd(), POLLIN, 0};
    const unsigned long long end = now_ms() + 240u * 1000 * timeout_scale();
    while (!crew.failed() && now_ms() < end && poll(&entry, 1, 100) == 0) {
    }
    EXPECT(!crew.failed());
    EXPECT(attacker.line.receive<char>() == 'S');
}

void watch_the_attack(Target &target, Child &attacker, Child &good, const Crew &crew)
{
    await_sign(attacker, crew);
    const Census census = take_census();
    const long resident = resident_kib();
    attacker.line.send('S');
    await_sign(attacker, crew);
    const long grown = resident_kib() - resident;
    std::cout << kStreams << " streams: " << target.requests << " requests, " << target.connected
              << " connections, " << target.reports << " reports; memory grew by " << grown << " KiB"
              << std::endl;
    EXPECT(grown < kSlackKib);
    EXPECT(target.connected > kStreams / 10);
    attacker.line.send('S');
    attacker.finish();
    expect_census(census, [] {});
    good.line.send('C');
    std::cout << "a good client got in after " << good.line.receive<unsigned>() << " ms" << std::endl;
    EXPECT(target.wrong == nullptr);
    target.good = nullptr; // it may be reported from here on
    good.line.send('E');
    const unsigned messages = good.line.receive<unsigned>();
    std::cout << messages << " good messages meanwhile" << std::endl;
    EXPECT(messages > 100);
    good.finish();
}

} // namespace

TEST_CASE("ten thousand hostile streams cost the program that accepts them that VI and nothing else",
          "[hostile]")
{
    setenv("VIPL_TCP_HANDSHAKE_MS", "500", 1); // who accepts a silent one waits that long
    const Scene scene = make_scene();
    Child good(be_good, scene);
    Target target;
    target.name = scene.name();
    REQUIRE_VIP(VipErrorCallback(target.nic, &target, on_error));
    Peers peers(target.nic);
    target.good = peers.vi;
    REQUIRE_VIP(accept_on(target.nic, scene.name(), peers.vi));
    note_port();
    Crew crew;
    crew.add([&] { echo(peers); });
    for (unsigned i = 0; i < kServers; ++i) {
        crew.add([&target, &scene, i] { serve(target, Random(scene.seed + i)); });
    }
    try {
        Child attacker(attack, scene);
        watch_the_attack(target, attacker, good, crew);
    } catch (...) {
        target.stop = true;
        good.kill();
        crew.join(); // a server's failure says more
        throw;
    }
    target.stop = true;
    crew.join();
    const char *wrong = target.wrong;
    INFO((wrong != nullptr ? wrong : "every report was in order"));
    REQUIRE(wrong == nullptr);
    unsetenv("VIPL_TCP_HANDSHAKE_MS");
}
