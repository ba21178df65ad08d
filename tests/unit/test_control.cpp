// SPDX-License-Identifier: MIT
//
// Connecting over the socket of a link that is there: what a peer may ask there, one request by the
// other, what it hears, and what becomes of the link when it breaks the rules.
#include "listener.hpp"

using namespace unit;

namespace {

/** A listener, and a peer with a link to it, a connected VI, and claim words of its own. */
struct Scene {
    static constexpr std::uint32_t kGeneration = 7;
    static constexpr std::uint16_t kSlot = 5;
    static constexpr std::uint8_t kNumber = 3;

    Scene() : peer(listener), vi(listener, peer, VIP_SERVICE_RELIABLE_DELIVERY)
    {
        must(vipl_shm_create(&claims, "claims", LO_CLAIMS * sizeof(std::uint32_t)) == 0, "claim words");
        set(LO_PENDING, 0);
    }
    ~Scene() { vipl_shm_release(&claims); }
    Scene(const Scene &) = delete;
    Scene &operator=(const Scene &) = delete;

    std::uint32_t &word() const { return static_cast<std::uint32_t *>(claims.base)[kSlot]; }
    void set(lo_claim_state state, unsigned number) const
    {
        word() = lo_claim_word(kGeneration, state, number);
    }
    lo_connect_request request() const
    {
        lo_connect_request r{};
        r.writer = vipl_lo_own_kind();
        vipl_entropy(r.process, sizeof r.process);
        std::memcpy(r.nic, peer.link->peer_uid, LO_UID);
        r.generation = kGeneration;
        r.slot = kSlot;
        r.number = kNumber;
        r.params.max_transfer_size = 65536;
        r.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
        r.local = r.remote = listener.address;
        return r;
    }
    void say(const void *bytes, size_t length, bool with_fds = false) const
    {
        const int fds[2] = {claims.fd, claims.fd};
        REQUIRE(vipl_local_send(peer.socket(), bytes, length, fds, with_fds ? 2 : 0) == 0);
        settle();
        listener.progress();
    }
    void ask(const lo_connect_request &r, bool with_fds = true) const
    {
        std::uint8_t bytes[LO_PACKET];
        say(bytes, vipl_lo_connect_request_write(&r, bytes), with_fds);
    }
    /** The next reply; its type 0: there is none. */
    lo_reply hear() const
    {
        std::uint8_t bytes[LO_PACKET];
        size_t length = 0;
        int fds[2] = {-1, -1};
        lo_reply reply{};
        settle(4); // bytes that wake, and the reply
        while (vipl_local_receive(peer.socket(), bytes, sizeof bytes, &length, fds) == 0 && length == 1) {
        }
        return length > 1 && vipl_lo_reply_read(&reply, bytes, length) ? reply : lo_reply{};
    }
    void withdraw() const
    {
        std::uint8_t bytes[LO_PACKET];
        lo_reply reply{};
        reply.type = LO_REPLY_WITHDRAWN;
        reply.generation = kGeneration;
        reply.slot = kSlot;
        reply.number = kNumber;
        say(bytes, vipl_lo_reply_write(&reply, bytes));
    }

    Listener listener;
    RawPeer peer;
    VictimVi vi;
    vipl_shm claims{};
};

void check_named(const lo_reply &reply, lo_reply_type type)
{
    CHECK(reply.type == type);
    CHECK(reply.generation == Scene::kGeneration);
    CHECK(reply.slot == Scene::kSlot);
    CHECK(reply.number == Scene::kNumber);
}

} // namespace

TEST_CASE("a request over the line of a link is claimed, and answered there", "[control]")
{
    Scene s;
    VIP_CONN_HANDLE connection = nullptr;
    s.ask(s.request());
    CHECK(s.hear().type == 0);
    REQUIRE(s.listener.wait(&connection) == VIP_SUCCESS);
    CHECK(s.word() == lo_claim_word(Scene::kGeneration, LO_TAKEN, Scene::kNumber));
    REQUIRE(VipConnectReject(connection) == VIP_SUCCESS);
    check_named(s.hear(), LO_REPLY_REJECT);
    CHECK(s.listener.remote->incoming_count == 0);
    CHECK(s.vi.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("a request over a line that is repeated is one request", "[control]")
{
    Scene s;
    VIP_CONN_HANDLE connection = nullptr;
    s.ask(s.request());
    s.ask(s.request(), false); // the words are known
    CHECK(s.listener.remote->incoming_count == 1);
    REQUIRE(s.listener.wait(&connection) == VIP_SUCCESS);
    CHECK(s.listener.wait(nullptr) == VIP_TIMEOUT);
    REQUIRE(VipConnectReject(connection) == VIP_SUCCESS);
}

TEST_CASE("a request over a line that nobody can have is answered at once", "[control]")
{
    Scene s;
    lo_connect_request r = s.request();
    SECTION("nobody listens")
    {
        r.remote.disc[0] ^= 1;
    }
    SECTION("the words do not come along")
    {
        CHECK(s.hear().type == 0);
    }
    s.ask(r, r.remote.disc[0] != s.listener.address.disc[0]);
    check_named(s.hear(), LO_REPLY_GONE);
    CHECK(s.listener.remote->incoming_count == 0);
    CHECK(s.vi.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("a request over a line that is withdrawn, or whose link ends, is gone", "[control]")
{
    Scene s;
    s.ask(s.request());
    REQUIRE(s.listener.remote->incoming_count == 1);
    SECTION("withdrawn")
    {
        s.withdraw();
        CHECK(s.vi.state() == VIP_STATE_CONNECTED);
    }
    SECTION("its process has gone")
    {
        s.peer.hang_up();
        s.listener.progress();
        s.listener.progress();
        CHECK(s.vi.state() == VIP_STATE_ERROR);
    }
    CHECK(s.listener.remote->incoming_count == 0);
    CHECK(s.listener.wait(nullptr) == VIP_TIMEOUT);
}

TEST_CASE("a program that does not take a request over a line says so when it ends", "[control]")
{
    Scene s;
    s.ask(s.request());
    {
        Listener other; // of the same process: the request is not its
        CHECK(other.wait(nullptr) == VIP_TIMEOUT);
    }
    CHECK(s.hear().type == 0);
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_lo_incomings_close(s.listener.remote);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    check_named(s.hear(), LO_REPLY_GONE);
}

TEST_CASE("a control message that breaks the rules ends the link, and nothing else", "[control]")
{
    const unsigned wrong = GENERATE(0u, 1u, 2u, 3u, 4u, 5u, 6u);
    Scene s;
    lo_connect_request r = s.request();
    r.peer = wrong == 0;
    r.number = wrong == 1 ? 0 : r.number;
    r.slot = wrong == 2 ? std::uint16_t{LO_CLAIMS} : r.slot;
    r.generation = wrong == 3 ? std::uint32_t{LO_GENERATIONS} : r.generation;
    r.nic[0] ^= wrong == 4 ? 1 : 0;
    r.writer.version ^= wrong == 5 ? 1 : 0;
    if (wrong == 6) {
        s.say("VLxx", 4);
    } else {
        s.ask(r);
    }
    s.listener.progress();
    CHECK(s.vi.state() == VIP_STATE_ERROR);
    CHECK(s.listener.remote->incoming_count == 0);
    CHECK(s.listener.wait(nullptr) == VIP_TIMEOUT);
}

TEST_CASE("who takes a wake-up while looking for requests does what the sleeper was woken for", "[control]")
{
    Scene s;
    VictimMemory memory(s.listener);
    memory.post_recv(s.vi, 1024, 4096);
    const unsigned char text[16] = {0x5A};
    REQUIRE(s.peer.send(whole_send(s.vi, sizeof text), text, sizeof text));
    const int fds[2] = {s.claims.fd, s.claims.fd};
    std::uint8_t bytes[LO_PACKET];
    const lo_connect_request r = s.request();
    REQUIRE(vipl_local_send(s.peer.socket(), "!", 1, fds, 0) == 0); // for a thread that sleeps
    REQUIRE(vipl_local_send(s.peer.socket(), bytes, vipl_lo_connect_request_write(&r, bytes), fds, 2) == 0);
    settle(2);
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE(s.listener.wait(&connection) == VIP_SUCCESS); // at the first look
    CHECK(memory.data()[1024] == 0x5A);                   // though nobody has polled
    CHECK(VipConnectReject(connection) == VIP_SUCCESS);
}

TEST_CASE("replies to what was not asked over the line are nothing", "[control]")
{
    Scene s;
    for (const unsigned type : {LO_REPLY_ACCEPT, LO_REPLY_REJECT, LO_REPLY_GONE, LO_REPLY_WITHDRAWN}) {
        std::uint8_t bytes[LO_PACKET];
        lo_reply reply{};
        reply.type = static_cast<std::uint8_t>(type);
        reply.number = 1;
        s.say(bytes, vipl_lo_reply_write(&reply, bytes), true);
    }
    CHECK(s.hear().type == 0);
    CHECK(s.vi.state() == VIP_STATE_CONNECTED);
}
