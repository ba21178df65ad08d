// SPDX-License-Identifier: MIT
//
// Listeners of another process, as it seems, that do what they like with a request of ours: with
// its packets and with its claim word. The requests are symmetric ones, which do not block, and the
// clock is ours (clock.hpp): no case waits for real but where that is said.
#include <catch2/catch.hpp>

#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "clock.hpp"
#include "raw_peer.hpp"

using namespace unit;

namespace {

vipl_address address_of(const Victim &victim, std::uint64_t name)
{
    vipl_address address = victim.be->address;
    address.disc_len = 8;
    std::memcpy(address.disc, &name, 8);
    return address;
}

/** What came over a connection of a request's. */
struct Heard {
    lo_connect_request request{};
    bool hung_up = false, something = false;
};

/** One end of such a connection. */
class Connection {
public:
    explicit Connection(int fd) : fd_(fd) {}
    ~Connection()
    {
        hang_up();
        vipl_shm_release(&claims_);
    }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    Heard hear()
    {
        Heard heard;
        std::uint8_t bytes[LO_PACKET];
        size_t length = 0;
        int fds[2];
        settle();
        const int error = vipl_local_receive(fd_, bytes, sizeof bytes, &length, fds);
        if (error == EAGAIN) {
            return heard;
        }
        heard.hung_up = error != 0 || length == 0;
        heard.something = !heard.hung_up && vipl_lo_connect_request_read(&heard.request, bytes, length);
        if (error == 0 && fds[1] >= 0 && claims_.base == nullptr) {
            REQUIRE(vipl_shm_attach(&claims_, fds[1], LO_CLAIMS * sizeof(std::uint32_t), true) == 0);
            fds[1] = -1;
        }
        if (error == 0) {
            vipl_fd_close(fds[0]);
            vipl_fd_close(fds[1]);
        }
        request = heard.something ? heard.request : request;
        return heard;
    }
    void say(lo_reply_type type, std::uint8_t code = 0) const
    {
        std::uint8_t bytes[LO_PACKET];
        lo_reply reply{};
        reply.type = static_cast<std::uint8_t>(type);
        reply.code = code;
        REQUIRE(vipl_local_send(fd_, bytes, vipl_lo_reply_write(&reply, bytes), nullptr, 0) == 0);
        settle();
    }
    void hang_up()
    {
        vipl_fd_close(fd_);
        fd_ = -1;
        settle();
    }
    std::uint32_t &word() const { return static_cast<std::uint32_t *>(claims_.base)[request.slot]; }
    std::uint32_t as(lo_claim_state state, unsigned number) const
    {
        return lo_claim_word(request.generation, state, number);
    }

    lo_connect_request request{};

private:
    int fd_;
    vipl_shm claims_{-1, nullptr, 0};
};

/** A name that requests find. */
class Name {
public:
    Name(const vipl_address &address, unsigned place, char kind = 'p')
    {
        vipl_lo_name_begin(&name_, vipl_local_user(), kind, vipl_lo_hash_of(&address));
        length_ = vipl_lo_name_at(&name_, place);
        REQUIRE(vipl_local_listen(name_.text, length_, &fd_, &lock_) == 0);
    }
    ~Name() { vipl_local_unlisten(name_.text, length_, fd_, lock_); }
    Name(const Name &) = delete;
    Name &operator=(const Name &) = delete;

    bool await() const { return comes(fd_); }
    /** The next connection, after its first packet; NULL: there is none. */
    std::unique_ptr<Connection> take() const
    {
        int fd;
        settle();
        if (vipl_local_accept(fd_, &fd) != 0) {
            return nullptr;
        }
        auto connection = std::make_unique<Connection>(fd);
        REQUIRE(comes(fd)); // the requester may be a thread that has not got further yet
        REQUIRE(connection->hear().something);
        return connection;
    }

private:
    lo_name name_;
    std::size_t length_;
    int fd_;
    int lock_;
};

/** A symmetric request of the victim's, with two names that it is to be offered to. */
struct Scene {
    explicit Scene(bool symmetric = true)
    {
        std::uint64_t name = 0;
        vipl_entropy(&name, sizeof name);
        local = address_of(victim, name);
        remote = address_of(victim, name + 1);
        first = std::make_unique<Name>(remote, 3);
        second = std::make_unique<Name>(remote, 9);
        VIP_VI_ATTRIBUTES attributes{};
        attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        attributes.MaxTransferSize = 65536;
        REQUIRE(VipCreateVi(victim.handle, &attributes, nullptr, nullptr, &vi) == VIP_SUCCESS);
        if (symmetric) {
            REQUIRE(request(10000) == VIP_SUCCESS);
            progress(21); // the first name alone has it before
        }
    }
    ~Scene()
    {
        VipDisconnect(vi);
        must(VipDestroyVi(vi) == VIP_SUCCESS, "VipDestroyVi");
    }
    Scene(const Scene &) = delete;
    Scene &operator=(const Scene &) = delete;

    VIP_RETURN request(VIP_ULONG timeout, bool symmetric = true)
    {
        struct {
            VIP_NET_ADDRESS address;
            char rest[VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
        } from{}, to{};
        vipl_address_write(&local, &from.address);
        vipl_address_write(&remote, &to.address);
        return symmetric ? VipConnectPeerRequest(vi, &from.address, &to.address, timeout)
                         : VipConnectRequest(vi, &from.address, &to.address, timeout, nullptr);
    }
    void progress(unsigned ms = 0) const
    {
        pass_ms(ms);
        victim.progress();
    }
    VIP_RETURN done() const { return VipConnectPeerDone(vi, nullptr); }

    Victim victim;
    vipl_address local{}, remote{};
    std::unique_ptr<Name> first, second;
    VIP_VI_HANDLE vi = nullptr;
};

/** A new listener that gives notice to the pending socket of that discriminator, which comes within
 * moments. */
class Notice {
public:
    explicit Notice(const vipl_address &address)
    {
        lo_name name;
        vipl_lo_name_begin(&name, vipl_local_user(), 'r', vipl_lo_hash_of(&address));
        const size_t length = vipl_lo_name_at(&name, 0);
        for (int i = 0; i < 10000 && vipl_local_connect(name.text, length, &fd_) != 0; ++i) {
            vipl_poll(nullptr, 0, 1, nullptr);
        }
    }
    ~Notice() { vipl_fd_close(fd_); }
    Notice(const Notice &) = delete;
    Notice &operator=(const Notice &) = delete;

    /** The type of the reply to it; 0: it was hung up, as it is when the offers have been made. */
    int send(std::uint8_t place, std::uint8_t version = LO_VERSION) const
    {
        std::uint8_t bytes[LO_PACKET];
        lo_notice notice{vipl_lo_own_kind(), place};
        lo_reply reply{};
        size_t length = 0;
        int fds[2];
        notice.writer.version = version;
        REQUIRE(vipl_local_send(fd_, bytes, vipl_lo_notice_write(&notice, bytes), nullptr, 0) == 0);
        REQUIRE(comes(fd_));
        REQUIRE(vipl_local_receive(fd_, bytes, sizeof bytes, &length, fds) == 0);
        return length > 0 && vipl_lo_reply_read(&reply, bytes, length) ? reply.type : 0;
    }

private:
    int fd_ = -1;
};

} // namespace

TEST_CASE("a request is offered to every name, each connection with a number of its own", "[listener]")
{
    Scene s;
    const auto a = s.first->take(), b = s.second->take();
    REQUIRE(a != nullptr);
    REQUIRE(b != nullptr);
    CHECK(a->request.number != b->request.number);
    CHECK(a->request.slot == b->request.slot);
    CHECK(a->request.generation == b->request.generation);
    CHECK(a->word() == a->as(LO_PENDING, 0));
    CHECK(s.done() == VIP_NOT_DONE);
}

TEST_CASE("a rejection counts from the program that has the request, and from no other", "[listener]")
{
    Scene s;
    const auto a = s.first->take(), b = s.second->take();
    a->word() = a->as(LO_TAKEN, a->request.number);
    b->say(LO_REPLY_REJECT);
    s.progress();
    CHECK(b->hear().hung_up);
    CHECK(s.done() == VIP_NOT_DONE);
    a->say(LO_REPLY_REJECT);
    s.progress();
    CHECK(s.done() == VIP_REJECT);
}

TEST_CASE("an acceptance of what was not claimed is not believed", "[listener]")
{
    for (const lo_claim_state state : {LO_PENDING, LO_TAKEN, LO_BUSY, LO_ENDED}) {
        Scene s;
        const auto a = s.first->take();
        a->word() = a->as(state, state == LO_TAKEN ? a->request.number : 0);
        a->say(LO_REPLY_ACCEPT);
        s.progress();
        CHECK(a->hear().hung_up);
        CHECK(s.done() == VIP_NOT_DONE);
        CHECK(s.first->take() == nullptr); // nothing more to do with that one
    }
}

TEST_CASE("a request whose program has gone is announced to the others, and offered to that name again",
          "[listener]")
{
    for (const lo_claim_state state : {LO_TAKEN, LO_ACCEPTED}) {
        Scene s;
        const auto a = s.first->take(), b = s.second->take();
        a->word() = a->as(state, a->request.number);
        a->hang_up();
        s.progress();
        CHECK(b->word() == b->as(LO_PENDING, 0));
        CHECK(b->hear().something);
        const auto again = s.first->take();
        REQUIRE(again != nullptr);
        CHECK(again->request.number > b->request.number);
        again->hang_up();
        s.progress();
        CHECK(s.first->take() == nullptr); // not at once
        s.progress(101);
        CHECK(s.first->take() != nullptr);
        CHECK_FALSE(b->hear().something); // it was not taken meanwhile
    }
}

TEST_CASE("what was said before a hang-up counts", "[listener]")
{
    Scene s;
    const auto a = s.first->take();
    a->word() = a->as(LO_TAKEN, a->request.number);
    a->say(LO_REPLY_REJECT);
    a->hang_up();
    s.progress();
    CHECK(s.done() == VIP_REJECT);
}

TEST_CASE("after 255 connections a request goes on with its next generation", "[listener]")
{
    Scene s;
    const auto b = s.second->take();
    const unsigned generation = b->request.generation;
    auto a = s.first->take();
    for (int i = 0; i < 300 && a->request.generation == generation; ++i) {
        a->hang_up();
        s.progress(101);
        auto next = s.first->take();
        if (next == nullptr) {
            s.progress(101);
            next = s.first->take();
        }
        REQUIRE(next != nullptr);
        a = std::move(next);
    }
    CHECK(a->request.generation == generation + 1);
    CHECK(a->request.number <= 2);
    CHECK(b->hear().hung_up);
    const auto renewed = s.second->take();
    REQUIRE(renewed != nullptr);
    CHECK(renewed->request.generation == generation + 1);
    CHECK_FALSE(lo_claim_take(&b->word(), generation, b->request.number)); // as it was, it is not to be had
    a->word() = a->as(LO_TAKEN, a->request.number);
    a->say(LO_REPLY_REJECT);
    s.progress();
    CHECK(s.done() == VIP_REJECT);
}

TEST_CASE("a word that breaks the rules ends that request only, at the end of its time", "[listener]")
{
    for (const std::uint32_t nonsense : {0u, ~0u, 5u, 6u, 7u, 0x80000000u}) {
        Scene s;
        const auto a = s.first->take();
        a->word() = nonsense;
        s.progress();
        CHECK(s.done() == VIP_NOT_DONE);
        s.progress(20000);
        CHECK(s.done() == VIP_TIMEOUT);
        REQUIRE(s.request(10000) == VIP_SUCCESS); // the slot is as good as new
        const auto b = s.first->take();
        REQUIRE(b != nullptr);
        b->word() = b->as(LO_TAKEN, b->request.number);
        b->say(LO_REPLY_REJECT);
        s.progress();
        CHECK(s.done() == VIP_REJECT);
    }
}

TEST_CASE("at the end of its time a request that is ACCEPTED waits a second for the reply", "[listener]")
{
    Scene s;
    const auto a = s.first->take();
    a->word() = a->as(LO_ACCEPTED, a->request.number);
    pass_ms(20000);
    const std::uint64_t begun = vipl_now_ns();
    CHECK(s.done() == VIP_TIMEOUT); // for real
    CHECK(vipl_now_ns() - begun >= 900000000u);
    CHECK(a->hear().hung_up);
    CHECK(a->word() == a->as(LO_ENDED, 0));
}

TEST_CASE("a listener of another version refuses, and is not asked again", "[listener]")
{
    Scene s;
    const auto a = s.first->take(), b = s.second->take();
    a->say(LO_REPLY_REFUSED, 77);
    s.progress(500);
    CHECK(a->hear().hung_up);
    CHECK(s.first->take() == nullptr);
    CHECK_FALSE(b->hear().hung_up);
    CHECK(s.done() == VIP_NOT_DONE);
}

TEST_CASE("a request goes where a listener was found before, and after a moment elsewhere as well",
          "[listener]")
{
    Scene s(false);
    const Name known(s.remote, 3, 'w');
    VIP_RETURN rc = s.request(20, false);
    CHECK(rc == VIP_TIMEOUT);
    const auto before = known.take();
    CHECK(before != nullptr);
    const Name other(s.remote, 9, 'w');
    std::thread requester([&] { rc = s.request(30000, false); });
    CHECK(known.await());
    CHECK(other.await());
    const auto a = other.take();
    REQUIRE(a != nullptr);
    a->word() = a->as(LO_TAKEN, a->request.number);
    a->say(LO_REPLY_REJECT);
    requester.join();
    CHECK(rc == VIP_REJECT);
}

TEST_CASE("a listener that gives notice gets the request, and one of another version does not", "[listener]")
{
    Scene s(false);
    VIP_RETURN rc = VIP_NOT_DONE;
    std::thread requester([&] { rc = s.request(30000, false); });
    CHECK(Notice(s.remote).send(5, LO_VERSION + 1) == LO_REPLY_REFUSED);
    CHECK(Notice(s.remote).send(LO_PLACES) == 0); // there is no such place
    const Name late(s.remote, 5, 'w');
    CHECK(Notice(s.remote).send(5) == 0);
    CHECK(late.await());
    const auto a = late.take();
    CHECK(Notice(s.remote).send(5) == 0);
    CHECK(late.take() == nullptr); // it has it
    a->word() = a->as(LO_TAKEN, a->request.number);
    a->say(LO_REPLY_REJECT);
    requester.join();
    CHECK(rc == VIP_REJECT);
}
