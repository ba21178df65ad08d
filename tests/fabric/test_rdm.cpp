// SPDX-License-Identifier: MIT
//
// Datagram endpoints of the provider's own (FI_VIPL_RDM): tags, order, messages before their
// receives, long messages, peeks, and peers that end or send what they must not.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>

#include <catch2/catch.hpp>
#include <rdma/fi_tagged.h>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

constexpr size_t kEager = 16384, kInject = 224;

Info datagram_hints(uint64_t caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE)
{
    Info wanted(fi_allocinfo());
    EXPECT(wanted != nullptr);
    wanted->caps = caps;
    wanted->ep_attr->type = FI_EP_RDM;
    wanted->tx_attr->msg_order = wanted->rx_attr->msg_order = FI_ORDER_SAS;
    wanted->domain_attr->name = strdup(device_under_test());
    wanted->fabric_attr->prov_name = strdup("vipl");
    return wanted;
}

struct Done {
    fi_cq_tagged_entry entry;
    fi_addr_t source;
    int error;
    size_t excess;
};

/** An endpoint with a domain, an address vector and queues of its own. */
struct Datagrams {
    explicit Datagrams(fi_wait_obj wait = FI_WAIT_NONE, const Info &wanted = datagram_hints())
        : node(wait, wanted.get())
    {
        fi_av_attr av_attributes = {};
        fid_av *an_av = nullptr;
        FABRIC(fi_av_open(node.domain.get(), &av_attributes, &an_av, nullptr));
        av.reset(an_av);
        fi_cq_attr cq_attributes = {};
        cq_attributes.format = FI_CQ_FORMAT_TAGGED;
        cq_attributes.wait_obj = wait;
        fid_cq *a_cq = nullptr;
        FABRIC(fi_cq_open(node.domain.get(), &cq_attributes, &a_cq, nullptr));
        tx.reset(a_cq);
        FABRIC(fi_cq_open(node.domain.get(), &cq_attributes, &a_cq, nullptr));
        rx.reset(a_cq);
        ep = another(node.info.get(), rx.get());
        FABRIC(fi_enable(ep.get()));
    }

    /** A further endpoint of the domain, not enabled, with a queue of its own for receives. */
    Fid<fid_ep> another(fi_info *info, fid_cq *receives) const
    {
        fid_ep *an_ep = nullptr;
        FABRIC(fi_endpoint(node.domain.get(), info, &an_ep, nullptr));
        Fid<fid_ep> owned(an_ep);
        FABRIC(fi_ep_bind(an_ep, &av->fid, 0));
        FABRIC(fi_ep_bind(an_ep, &tx->fid, FI_TRANSMIT));
        FABRIC(fi_ep_bind(an_ep, &receives->fid, FI_RECV));
        return owned;
    }

    Address address() const
    {
        Address name(64);
        size_t bytes = name.size();
        FABRIC(fi_getname(&ep->fid, name.data(), &bytes));
        name.resize(bytes);
        return name;
    }

    fi_addr_t knows(const Datagrams &other) const { return knows(other.address()); }
    fi_addr_t knows(const Address &name) const
    {
        fi_addr_t at = FI_ADDR_NOTAVAIL;
        FABRIC_RC(1, fi_av_insert(av.get(), name.data(), 1, &at, 0, nullptr));
        return at;
    }

    static std::optional<Done> look(fid_cq *cq)
    {
        Done done = {};
        const ssize_t rc = fi_cq_readfrom(cq, &done.entry, 1, &done.source);
        if (rc == -FI_EAGAIN) {
            return std::nullopt;
        }
        if (rc == -FI_EAVAIL) {
            fi_cq_err_entry failed = {};
            EXPECT_EQ(1, fi_cq_readerr(cq, &failed, 0));
            done.entry = {failed.op_context, failed.flags, failed.len, failed.buf, failed.data, failed.tag};
            done.error = failed.err;
            done.excess = failed.olen;
            return done;
        }
        EXPECT_EQ(1, rc);
        return done;
    }

    /** The next completion; the peer goes on meanwhile. */
    static Done next(fid_cq *cq, fid_cq *peers = nullptr)
    {
        std::optional<Done> done;
        eventually("a completion", [&] {
            if (peers != nullptr) {
                (void)fi_cq_read(peers, nullptr, 0);
            }
            done = look(cq);
            return done.has_value();
        });
        return *done;
    }

    Node node;
    Fid<fid_av> av;
    Fid<fid_cq> tx, rx;
    Fid<fid_ep> ep;
};

std::vector<uint8_t> bytes_of(size_t count, unsigned seed)
{
    std::vector<uint8_t> bytes(count);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed * 31);
    }
    return bytes;
}

/** Repeats while the endpoint has no room; both sides go on meanwhile. */
void send_when_possible(const Datagrams &from, const Datagrams &to, const std::function<ssize_t()> &send)
{
    eventually("room for a message", [&] {
        const ssize_t rc = send();
        EXPECT(rc == 0 || rc == -FI_EAGAIN);
        if (rc != 0) {
            (void)fi_cq_read(from.tx.get(), nullptr, 0);
            (void)fi_cq_read(to.rx.get(), nullptr, 0);
        }
        return rc == 0;
    });
}

/** Two endpoints that know each other. */
struct Two {
    Datagrams one, two;
    fi_addr_t to_two = one.knows(two), to_one = two.knows(one);

    void send(const std::vector<uint8_t> &bytes, uint64_t tag, void *context = nullptr)
    {
        send_when_possible(one, two, [&] {
            return fi_tsend(one.ep.get(), bytes.data(), bytes.size(), nullptr, to_two, tag, context);
        });
    }
    void receive(std::vector<uint8_t> &bytes, uint64_t tag, uint64_t ignored = 0, void *context = nullptr)
    {
        FABRIC(fi_trecv(two.ep.get(), bytes.data(), bytes.size(), nullptr, FI_ADDR_UNSPEC, tag, ignored,
                        context));
    }
    Done sent() { return Datagrams::next(one.tx.get(), two.rx.get()); }
    Done received() { return Datagrams::next(two.rx.get(), one.tx.get()); }
};

/** A process with an endpoint, which does what its role says. */
struct OtherProcess {
    explicit OtherProcess(const Datagrams &here, const char *role) : peer(here.address(), role) {}
    Peer peer;
};

/** fi_trecvmsg() with these flags, and its completion. */
Done ask(Two &pair, std::vector<uint8_t> *to, uint64_t tag, uint64_t flags, fi_context *context)
{
    iovec iov = {to != nullptr ? to->data() : nullptr, to != nullptr ? to->size() : 0};
    fi_msg_tagged message = {};
    message.msg_iov = &iov;
    message.iov_count = to != nullptr ? 1 : 0;
    message.addr = FI_ADDR_UNSPEC;
    message.tag = tag;
    message.context = context;
    FABRIC(fi_trecvmsg(pair.two.ep.get(), &message, flags));
    const Done done = pair.received();
    CHECK(done.entry.op_context == context);
    return done;
}

/** Peeks until the message has come. */
Done peek(Two &pair, uint64_t tag, uint64_t flags, fi_context *context)
{
    Done done = {};
    eventually("the message", [&] {
        done = ask(pair, nullptr, tag, FI_PEEK | flags, context);
        return done.error == 0;
    });
    return done;
}

const size_t kSizes[] = {0, 1, 8, kInject, kInject + 1, 4096, kEager, kEager + 1, 65536, size_t{5} << 20};

} // namespace

TEST_CASE("messages with tags of any size arrive whole, before and after their receive", "[rdm]")
{
    Two pair;
    unsigned seed = 0;
    for (const size_t count : kSizes) {
        for (const bool first : {true, false}) {
            INFO(count << (first ? ", receive first" : ", message first"));
            const std::vector<uint8_t> from = bytes_of(count, ++seed);
            std::vector<uint8_t> to(count + 8, 0xee);
            if (first) {
                pair.receive(to, seed, 0, &to);
            }
            pair.send(from, seed, &seed);
            if (!first) {
                eventually("the message", [&] { // and another one behind it, which is matched first
                    return fi_tinject(pair.one.ep.get(), &seed, sizeof seed, pair.to_two, 1000) == 0;
                });
                unsigned number = 0;
                FABRIC(fi_trecv(pair.two.ep.get(), &number, sizeof number, nullptr, FI_ADDR_UNSPEC, 1000, 0,
                                &number));
                CHECK(pair.received().entry.op_context == &number);
                CHECK(number == seed);
                pair.receive(to, seed, 0, &to);
            }
            const Done done = pair.received();
            CHECK(done.error == 0);
            CHECK(done.entry.op_context == &to);
            CHECK(done.entry.flags == (FI_RECV | FI_TAGGED));
            CHECK(done.entry.len == count);
            CHECK(done.entry.tag == seed);
            CHECK(done.source == pair.to_one);
            CHECK(std::equal(from.begin(), from.end(), to.begin()));
            CHECK(to[count] == 0xee);
            const Done sent = pair.sent();
            CHECK(sent.error == 0);
            CHECK(sent.entry.op_context == &seed);
            CHECK(sent.entry.flags == (FI_SEND | FI_TAGGED));
        }
    }
    CHECK(!Datagrams::look(pair.one.tx.get()));
    CHECK(!Datagrams::look(pair.two.rx.get()));
}

TEST_CASE("messages without tags are matched by themselves, with eight bytes of data", "[rdm]")
{
    Two pair;
    uint32_t tagged = 0, plain = 0;
    const uint32_t one = 1, two = 2;
    const uint64_t data = UINT64_C(0x0102030405060708);
    FABRIC(fi_trecv(pair.two.ep.get(), &tagged, sizeof tagged, nullptr, FI_ADDR_UNSPEC, 0, ~UINT64_C(0),
                    &tagged));
    FABRIC(fi_recv(pair.two.ep.get(), &plain, sizeof plain, nullptr, FI_ADDR_UNSPEC, &plain));
    send_when_possible(pair.one, pair.two,
                       [&] { return fi_injectdata(pair.one.ep.get(), &one, sizeof one, data, pair.to_two); });
    const Done first = pair.received();
    CHECK(first.entry.op_context == &plain);
    CHECK(first.entry.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA));
    CHECK(first.entry.data == data);
    CHECK(plain == 1);
    FABRIC(fi_tsenddata(pair.one.ep.get(), &two, sizeof two, nullptr, data + 1, pair.to_two, 7, nullptr));
    const Done second = pair.received();
    CHECK(second.entry.op_context == &tagged);
    CHECK(second.entry.data == data + 1);
    CHECK(tagged == 2);
}

TEST_CASE("messages are matched in the order in which they were sent, whatever their size", "[rdm]")
{
    constexpr unsigned kCount = 600; // more than a link has receives, operations or buffers
    Two pair;
    std::vector<std::vector<uint8_t>> from, to;
    for (unsigned i = 0; i < kCount; i++) {
        const size_t count = 4 + (i % 7 == 0 ? kEager + i : i % 3 == 0 ? size_t{2000} : size_t{16});
        from.push_back(bytes_of(count, i));
        to.emplace_back(count);
    }
    for (unsigned i = 0; i < kCount; i++) {
        pair.send(from[i], i % 2, &from[i]);
        while (Datagrams::look(pair.one.tx.get())) {
        }
    }
    for (const unsigned tag : {1, 0}) { // those of the second tag have all come before a receive
        for (unsigned i = tag; i < kCount; i += 2) {
            pair.receive(to[i], tag, 0, &to[i]);
            const Done done = pair.received();
            REQUIRE(done.error == 0);
            REQUIRE(done.entry.op_context == &to[i]);
            REQUIRE(to[i] == from[i]);
        }
    }
}

TEST_CASE("a receive takes the first message whose tag fits, bits aside that it ignores", "[rdm]")
{
    Two pair;
    std::vector<uint8_t> any(8), exact(8);
    pair.receive(exact, 0x21, 0, &exact);
    pair.receive(any, 0x20, 0x0f, &any);
    pair.send(bytes_of(8, 1), 0x2a);
    CHECK(pair.received().entry.op_context == &any);
    CHECK(any == bytes_of(8, 1));
    pair.send(bytes_of(8, 2), 0x21);
    CHECK(pair.received().entry.op_context == &exact);
}

TEST_CASE("a directed receive takes messages of its peer alone", "[rdm]")
{
    Datagrams server, one, two;
    const fi_addr_t to_server[] = {one.knows(server), two.knows(server)};
    const fi_addr_t from_two = server.knows(two);
    uint32_t number = 1, got = 0, other = 0;
    FABRIC(fi_trecv(server.ep.get(), &got, sizeof got, nullptr, from_two, 5, 0, &got));
    send_when_possible(one, server,
                       [&] { return fi_tinject(one.ep.get(), &number, sizeof number, to_server[0], 5); });
    // A receive for any peer gets it, and the sender has a name once it is in the address vector.
    FABRIC(fi_trecv(server.ep.get(), &other, sizeof other, nullptr, FI_ADDR_UNSPEC, 5, 0, &other));
    const Done first = Datagrams::next(server.rx.get(), one.tx.get());
    CHECK(first.entry.op_context == &other);
    CHECK(first.source == FI_ADDR_NOTAVAIL);
    const fi_addr_t from_one = server.knows(one);
    number = 2;
    send_when_possible(two, server,
                       [&] { return fi_tinject(two.ep.get(), &number, sizeof number, to_server[1], 5); });
    const Done second = Datagrams::next(server.rx.get(), two.tx.get());
    CHECK(second.entry.op_context == &got);
    CHECK(second.source == from_two);
    CHECK(got == 2);
    number = 3;
    FABRIC(fi_trecv(server.ep.get(), &got, sizeof got, nullptr, from_one, 5, 0, &got));
    send_when_possible(one, server,
                       [&] { return fi_tinject(one.ep.get(), &number, sizeof number, to_server[0], 5); });
    CHECK(Datagrams::next(server.rx.get(), one.tx.get()).source == from_one);
    CHECK(got == 3);
}

TEST_CASE("a message longer than its receive is cut, and said so", "[rdm]")
{
    Two pair;
    for (const size_t count : {size_t{100}, kEager + 100}) {
        std::vector<uint8_t> to(60);
        pair.receive(to, 1, 0, &to);
        const std::vector<uint8_t> from = bytes_of(count, 3);
        pair.send(from, 1);
        const Done done = pair.received();
        CHECK(done.error == FI_ETRUNC);
        CHECK(done.entry.len == 60);
        CHECK(done.excess == count - 60);
        CHECK(std::equal(to.begin(), to.end(), from.begin()));
        CHECK(pair.sent().error == 0);
    }
}

TEST_CASE("pieces of memory are gathered and scattered", "[rdm]")
{
    Two pair;
    for (const size_t piece : {size_t{10}, size_t{1000}, size_t{20000}}) {
        const std::vector<uint8_t> from = bytes_of(4 * piece, 9);
        std::vector<uint8_t> to(4 * piece);
        auto *const out = const_cast<uint8_t *>(from.data());
        const iovec gather[] = {
            {out, piece}, {out + piece, 0}, {out + piece, 2 * piece}, {out + 3 * piece, piece}};
        const iovec scatter[] = {{to.data(), 3 * piece + 1},
                                 {to.data() + 3 * piece + 1, 0},
                                 {to.data() + 3 * piece + 1, piece - 1}};
        FABRIC(fi_trecvv(pair.two.ep.get(), scatter, nullptr, 3, FI_ADDR_UNSPEC, 1, 0, &to));
        send_when_possible(pair.one, pair.two, [&] {
            return fi_tsendv(pair.one.ep.get(), gather, nullptr, 4, pair.to_two, 1, nullptr);
        });
        const Done done = pair.received();
        CHECK(done.error == 0);
        CHECK(done.entry.len == from.size());
        CHECK(to == from);
        CHECK(pair.sent().error == 0);
    }
}

TEST_CASE("a peek says what there is, and a claim keeps it", "[rdm]")
{
    Two pair;
    fi_context context = {};
    CHECK(ask(pair, nullptr, 4, FI_PEEK, &context).error == FI_ENOMSG);
    for (const size_t count : {size_t{50}, kEager + 50}) {
        const std::vector<uint8_t> first = bytes_of(count, 1), second = bytes_of(count, 2);
        std::vector<uint8_t> to(count);
        pair.send(first, 4);
        pair.send(second, 4);
        CHECK(peek(pair, 4, 0, &context).entry.len == count);
        CHECK(peek(pair, 4, FI_CLAIM, &context).entry.tag == 4);
        pair.receive(to, 4); // the second one: the first is claimed
        CHECK(pair.received().error == 0);
        CHECK(to == second);
        CHECK(ask(pair, &to, 4, FI_CLAIM, &context).error == 0);
        CHECK(to == first);
        CHECK(pair.sent().error == 0);
        CHECK(pair.sent().error == 0);
        CHECK(ask(pair, nullptr, 4, FI_PEEK, &context).error == FI_ENOMSG);
        pair.send(first, 4);
        CHECK(peek(pair, 4, FI_DISCARD, &context).entry.len == count);
        CHECK(ask(pair, nullptr, 4, FI_PEEK, &context).error == FI_ENOMSG);
        CHECK(pair.sent().error == 0);
    }
    fi_msg_tagged message = {};
    message.context = &pair; // not of a claim
    FABRIC_RC(-FI_EINVAL, fi_trecvmsg(pair.two.ep.get(), &message, FI_CLAIM));
}

TEST_CASE("a receive that no message has matched is cancelled", "[rdm]")
{
    Two pair;
    std::vector<uint8_t> first(8), second(8);
    pair.receive(first, 1, 0, &first);
    pair.receive(second, 1, 0, &second);
    FABRIC(fi_cancel(&pair.two.ep->fid, &first));
    const Done done = pair.received();
    CHECK(done.error == FI_ECANCELED);
    CHECK(done.entry.op_context == &first);
    FABRIC_RC(-FI_ENOENT, fi_cancel(&pair.two.ep->fid, &first));
    pair.send(bytes_of(8, 5), 1);
    CHECK(pair.received().entry.op_context == &second);
}

TEST_CASE("endpoints that share the queue of their sends each go on when it is read", "[rdm]")
{
    Datagrams first, peer;
    const fi_addr_t to = first.knows(peer);
    fi_cq_attr attributes = {};
    attributes.format = FI_CQ_FORMAT_TAGGED;
    attributes.wait_obj = FI_WAIT_NONE;
    fid_cq *a_cq = nullptr;
    FABRIC(fi_cq_open(first.node.domain.get(), &attributes, &a_cq, nullptr));
    const Fid<fid_cq> rx(a_cq);
    const Fid<fid_ep> second = first.another(first.node.info.get(), rx.get());
    FABRIC(fi_enable(second.get()));
    const std::vector<uint8_t> from = bytes_of(kEager + 1, 1); // its end is told by the queue of receives
    for (fid_ep *const ep : {first.ep.get(), second.get()}) {
        std::vector<uint8_t> in(from.size());
        FABRIC(fi_trecv(peer.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        send_when_possible(first, peer,
                           [&] { return fi_tsend(ep, from.data(), from.size(), nullptr, to, 1, nullptr); });
        CHECK(Datagrams::next(first.tx.get(), peer.rx.get()).error == 0);
        CHECK(Datagrams::next(peer.rx.get(), first.tx.get()).error == 0);
        CHECK(in == from);
    }
}

TEST_CASE("an endpoint whose port is taken is enabled when the port is free", "[rdm]")
{
    auto first = std::make_unique<Datagrams>();
    Datagrams other;
    const Address name = first->address();
    const Info info(fi_dupinfo(other.node.info.get()));
    free(info->src_addr);
    info->src_addr = malloc(name.size());
    memcpy(info->src_addr, name.data(), name.size());
    info->src_addrlen = name.size();
    const Fid<fid_ep> second = other.another(info.get(), other.rx.get());
    FABRIC_RC(-FI_EADDRINUSE, fi_enable(second.get()));
    first.reset();
    FABRIC(fi_enable(second.get()));
    const fi_addr_t to = other.knows(name);
    const std::vector<uint8_t> from = bytes_of(1000, 1);
    std::vector<std::vector<uint8_t>> in(100, std::vector<uint8_t>(from.size()));
    for (std::vector<uint8_t> &one : in) { // more than there are bounce buffers
        FABRIC(fi_trecv(second.get(), one.data(), one.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    }
    for (size_t i = 0; i < in.size(); i++) {
        eventually("room for a message", [&] {
            const ssize_t rc = fi_tinject(other.ep.get(), from.data(), kInject, to, 1);
            EXPECT(rc == 0 || rc == -FI_EAGAIN);
            (void)fi_cq_read(other.tx.get(), nullptr, 0);
            return rc == 0;
        });
    }
    for (const std::vector<uint8_t> &one : in) {
        CHECK(Datagrams::next(other.rx.get(), other.tx.get()).error == 0);
        CHECK(std::equal(one.begin(), one.begin() + kInject, from.begin()));
    }
    for (std::vector<uint8_t> &one : in) { // the one that was enabled twice sends, too
        eventually("room for a message", [&] {
            const ssize_t rc = fi_tsend(second.get(), from.data(), from.size(), nullptr, to, 2, nullptr);
            EXPECT(rc == 0 || rc == -FI_EAGAIN);
            (void)Datagrams::look(other.tx.get());
            return rc == 0;
        });
        FABRIC(fi_trecv(second.get(), one.data(), one.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
        CHECK(Datagrams::next(other.rx.get(), other.tx.get()).error == 0);
        CHECK(one == from);
    }
}

TEST_CASE("messages that wait for the peer are as many as there are buffers for them", "[rdm]")
{
    Two pair;
    std::vector<uint8_t> first(8);
    pair.receive(first, 1);
    pair.send(bytes_of(8, 1), 1); // the link is there
    CHECK(pair.received().error == 0);
    CHECK(pair.sent().error == 0);
    const std::vector<uint8_t> from = bytes_of(1000, 2);
    unsigned count = 0;
    while (fi_tsend(pair.one.ep.get(), from.data(), from.size(), nullptr, pair.to_two, 2, nullptr) == 0) {
        count++;
    }
    CHECK(count == 64); // no completion is read meanwhile
    for (unsigned i = 0; i < count; i++) {
        std::vector<uint8_t> to(from.size());
        pair.receive(to, 2);
        REQUIRE(pair.received().error == 0);
        REQUIRE(to == from);
        REQUIRE(pair.sent().error == 0);
    }
}

TEST_CASE("a message that is offered by a peer that has died is an error", "[rdm]")
{
    if (!reaches_processes()) {
        return;
    }
    Two pair; // by which the server goes on meanwhile
    OtherProcess other(pair.two, "datagrams");
    fi_context context = {};
    CHECK(peek(pair, 5, 0, &context).entry.len == kEager + 1);
    other.peer.kill_it();
    std::vector<uint8_t> to(kEager + 1);
    pair.receive(to, 5);
    CHECK(pair.received().error != 0);
    pair.receive(to, 6); // nothing is left of it that keeps others waiting
    pair.send(bytes_of(8, 1), 6);
    CHECK(pair.received().error == 0);
}

TEST_CASE("an address that is removed is no peer any more", "[rdm]")
{
    Two pair;
    pair.send(bytes_of(8, 1), 1);
    std::vector<uint8_t> to(8);
    pair.receive(to, 1);
    CHECK(pair.received().error == 0);
    FABRIC(fi_av_remove(pair.one.av.get(), &pair.to_two, 1, 0));
    FABRIC_RC(-FI_EINVAL, fi_tinject(pair.one.ep.get(), to.data(), 8, pair.to_two, 1));
    FABRIC_RC(-FI_EINVAL, fi_av_remove(pair.one.av.get(), &pair.to_two, 1, 0));
}

TEST_CASE("an endpoint ends with messages under way, and takes what was not read of it along", "[rdm]")
{
    for (const size_t count : {size_t{8}, size_t{1000}, kEager + 1}) {
        Two pair;
        const std::vector<uint8_t> from = bytes_of(count, 1);
        std::vector<uint8_t> to(count);
        pair.receive(to, 1);
        for (int i = 0; i < 20; i++) {
            pair.send(from, 1);
        }
        CHECK(pair.received().error == 0);
        pair.one.ep.reset();
        CHECK(!Datagrams::look(pair.one.tx.get()));
        pair.two.ep.reset();
        CHECK(!Datagrams::look(pair.two.rx.get()));
    }
}

TEST_CASE("messages that were sent before their sender has ended arrive", "[rdm]")
{
    Two pair;
    std::vector<uint8_t> to(8);
    pair.receive(to, 1);
    pair.send(bytes_of(8, 1), 1); // the link is there
    CHECK(pair.received().error == 0);
    CHECK(pair.sent().error == 0);
    for (unsigned i = 0; i < 20; i++) {
        pair.send(bytes_of(8, i), 2);
        CHECK(Datagrams::next(pair.one.tx.get()).error == 0);
    }
    pair.one.ep.reset();
    fi_context context = {};
    (void)peek(pair, 2, 0, &context);
    for (int i = 0; i < 1000; i++) { // by now the end has been seen
        (void)Datagrams::look(pair.two.rx.get());
    }
    for (unsigned i = 0; i < 20; i++) {
        pair.receive(to, 2);
        REQUIRE(pair.received().error == 0);
        REQUIRE(to == bytes_of(8, i));
    }
}

TEST_CASE("an endpoint sends to itself", "[rdm]")
{
    Datagrams self;
    const fi_addr_t here = self.knows(self);
    for (const size_t count : kSizes) {
        const std::vector<uint8_t> from = bytes_of(count, 4);
        std::vector<uint8_t> to(count);
        FABRIC(fi_trecv(self.ep.get(), to.data(), count, nullptr, here, 1, 0, nullptr));
        send_when_possible(self, self, [&] {
            return fi_tsend(self.ep.get(), from.data(), count, nullptr, here, 1, nullptr);
        });
        CHECK(Datagrams::next(self.rx.get(), self.tx.get()).error == 0);
        CHECK(Datagrams::next(self.tx.get(), self.rx.get()).error == 0);
        CHECK(to == from);
    }
}

TEST_CASE("a thread that sleeps is woken by a message", "[rdm]")
{
    Datagrams one(FI_WAIT_FD), two(FI_WAIT_FD);
    const fi_addr_t to_two = one.knows(two);
    for (const size_t count : {size_t{8}, kEager + 1}) {
        const std::vector<uint8_t> from = bytes_of(count, 6);
        std::vector<uint8_t> to(count);
        fi_cq_tagged_entry received = {}, sent = {};
        FABRIC(fi_trecv(two.ep.get(), to.data(), count, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        std::thread sleeper([&] {
            while (fi_cq_sread(two.rx.get(), &received, 1, nullptr, -1) == -FI_EAGAIN) {
            }
        });
        FABRIC(fi_tsend(one.ep.get(), from.data(), count, nullptr, to_two, 1, &sent));
        ssize_t rc = -FI_EAGAIN; // the answer to an offer comes by the other queue
        while (rc == -FI_EAGAIN) {
            rc = fi_cq_sread(one.tx.get(), &sent, 1, nullptr, static_cast<int>(patience()));
        }
        CHECK(rc == 1);
        sleeper.join();
        CHECK(received.len == count);
        CHECK(to == from);
    }
}

TEST_CASE("what datagram endpoints do not do is refused", "[rdm]")
{
    Two pair;
    std::vector<uint8_t> bytes(kInject + 1);
    FABRIC_RC(-FI_EMSGSIZE, fi_tinject(pair.one.ep.get(), bytes.data(), bytes.size(), pair.to_two, 1));
    FABRIC_RC(-FI_EINVAL, fi_tinject(pair.one.ep.get(), bytes.data(), 1, pair.to_two + 1, 1));
    FABRIC_RC(-FI_EINVAL, fi_tinject(pair.one.ep.get(), bytes.data(), 1, FI_ADDR_UNSPEC, 1));
    const iovec iov[5] = {};
    FABRIC_RC(-FI_EINVAL, fi_tsendv(pair.one.ep.get(), iov, nullptr, 5, pair.to_two, 1, nullptr));
    FABRIC_RC(-FI_EINVAL, fi_trecvv(pair.one.ep.get(), iov, nullptr, 5, pair.to_two, 1, 0, nullptr));
    fi_msg_tagged message = {};
    message.addr = pair.to_two;
    FABRIC_RC(-FI_EOPNOTSUPP, fi_tsendmsg(pair.one.ep.get(), &message, FI_FENCE));
    FABRIC_RC(-FI_EOPNOTSUPP, fi_trecvmsg(pair.one.ep.get(), &message, FI_MULTI_RECV));
    fid_ep *ep = nullptr;
    FABRIC(fi_endpoint(pair.one.node.domain.get(), pair.one.node.info.get(), &ep, nullptr));
    const Fid<fid_ep> owned(ep);
    FABRIC_RC(-FI_ENOAV, fi_enable(ep));
    FABRIC(fi_ep_bind(ep, &pair.one.av->fid, 0));
    FABRIC_RC(-FI_ENOCQ, fi_enable(ep));
    FABRIC_RC(-FI_EOPBADSTATE, fi_tinject(ep, bytes.data(), 1, pair.to_two, 1));
    FABRIC_RC(-FI_EBUSY, fi_close(&pair.one.av->fid));
    fi_info *none = nullptr;
    Info wanted = datagram_hints(FI_MSG | FI_ATOMIC);
    FABRIC_RC(-FI_ENODATA, fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted.get(), &none));
}

TEST_CASE("a peer that nobody listens for is an error of each message, and is asked again", "[rdm]")
{
    Datagrams one;
    Address gone;
    {
        Datagrams other;
        gone = other.address();
    }
    const fi_addr_t to = one.knows(gone);
    for (int i = 0; i < 2; i++) {
        uint32_t number = 1;
        FABRIC(fi_tsend(one.ep.get(), &number, sizeof number, nullptr, to, 1, &number));
        const Done done = Datagrams::next(one.tx.get());
        CHECK(done.error != 0);
        CHECK(done.entry.op_context == &number);
        FABRIC(fi_tinject(one.ep.get(), &number, sizeof number, to, 1)); // which is not lost silently
        CHECK(Datagrams::next(one.tx.get()).error != 0);
        eventually("the end of the link", [&] { // a message before that is an error at once
            return fi_tsend(one.ep.get(), &number, sizeof number, nullptr, to, 1, nullptr) == 0;
        });
        CHECK(Datagrams::next(one.tx.get()).error != 0);
    }
}

TEST_CASE("a peer that sends what is no message loses its link, and nobody else does", "[rdm]")
{
    if (!reaches_processes()) {
        return;
    }
    Two pair;
    uint32_t whole = 0;
    FABRIC(fi_trecv(pair.two.ep.get(), &whole, sizeof whole, nullptr, FI_ADDR_UNSPEC,
                    UINT64_C(0x1112131415161718), 0, &whole));
    setenv("FI_VIPL_RDM", "0", 1);
    const OtherProcess right(pair.two, "garbage 10");
    std::vector<std::unique_ptr<OtherProcess>> hostile;
    for (int i = 0; i < 10; i++) {
        hostile.push_back(std::make_unique<OtherProcess>(pair.two, ("garbage " + std::to_string(i)).c_str()));
    }
    setenv("FI_VIPL_RDM", "1", 1);
    const Done done = pair.received(); // of the one that sends what a message is
    CHECK(done.error == 0);
    CHECK(done.entry.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
    CHECK(done.entry.tag == UINT64_C(0x1112131415161718));
    CHECK(done.entry.data == UINT64_C(0x2122232425262728));
    CHECK(done.entry.len == 4);
    CHECK(memcmp(&whole, "abcd", 4) == 0);
    for (unsigned i = 0; i < 200; i++) {
        std::vector<uint8_t> to(64);
        pair.receive(to, i);
        pair.send(bytes_of(64, i), i);
        REQUIRE(pair.received().error == 0);
        REQUIRE(to == bytes_of(64, i));
        REQUIRE(pair.sent().error == 0);
    }
    for (const auto &one : hostile) {
        eventually("the end of a peer", [&] { // which sees the end of its connection
            (void)Datagrams::look(pair.two.rx.get());
            return one->peer.has_ended();
        });
    }
    fi_context context = {};
    CHECK(ask(pair, nullptr, UINT64_C(0x1112131415161718), FI_PEEK, &context).error == FI_ENOMSG);
}

TEST_CASE("a peer that says that it has read what was not offered loses its link", "[rdm]")
{
    if (!reaches_processes()) {
        return;
    }
    for (const char *const role : {"answers another", "answers twice", "answers by a message"}) {
        INFO(role);
        Two pair;
        setenv("FI_VIPL_RDM", "0", 1);
        const OtherProcess other(pair.two, role);
        setenv("FI_VIPL_RDM", "1", 1);
        Address name(64); // the other process says where it listens
        FABRIC(fi_trecv(pair.two.ep.get(), name.data(), name.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        name.resize(pair.received().entry.len);
        const fi_addr_t to = pair.two.knows(name);
        const std::vector<uint8_t> bytes = bytes_of(kEager + 1, 1);
        for (int i = 0; i < 2; i++) {
            FABRIC(fi_tsend(pair.two.ep.get(), bytes.data(), bytes.size(), nullptr, to, 2, nullptr));
        }
        const bool twice = std::string(role) == "answers twice"; // then the first one is believed
        CHECK(Datagrams::next(pair.two.tx.get()).error == (twice ? 0 : FI_ECANCELED));
        CHECK(Datagrams::next(pair.two.tx.get()).error == FI_ECANCELED);
        std::vector<uint8_t> in(8);
        pair.receive(in, 3); // the other peer has lost nothing
        pair.send(bytes_of(8, 2), 3);
        CHECK(pair.received().error == 0);
    }
}

TEST_CASE("each message has one completion when the peer dies", "[rdm]")
{
    if (!reaches_processes()) {
        return;
    }
    Datagrams here;
    OtherProcess other(here, "datagrams");
    Address name(64); // the other process says its own
    FABRIC(fi_trecv(here.ep.get(), name.data(), name.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    name.resize(Datagrams::next(here.rx.get()).entry.len);
    const fi_addr_t to = here.knows(name);
    const std::vector<uint8_t> bytes = bytes_of(kEager + 1, 1);
    std::vector<int> completed(500);
    size_t posted = 0, over = 0, failed = 0;
    const auto reap = [&] {
        while (const auto done = Datagrams::look(here.tx.get())) {
            completed[static_cast<size_t>(static_cast<int *>(done->entry.op_context) - completed.data())]++;
            over++;
            failed += done->error != 0 ? 1 : 0;
        }
    };
    eventually("messages, and the peer's end", [&] {
        const size_t count = posted % 3 == 0 ? bytes.size() : posted % 3 == 1 ? 1000 : 8;
        if (fi_tsend(here.ep.get(), bytes.data(), count, nullptr, to, 2, &completed[posted]) == 0) {
            posted++;
        }
        reap();
        if (posted == 300) {
            other.peer.kill_it();
        }
        return posted == completed.size();
    });
    eventually("a completion of each", [&] {
        reap();
        return over == posted;
    });
    CHECK(std::all_of(completed.begin(), completed.end(), [](int times) { return times == 1; }));
    CHECK(failed > 0);
}

TEST_CASE("a peer process of datagrams", "[.datagrams]")
{
    Datagrams here(FI_WAIT_FD);
    const fi_addr_t to = here.knows(peer_address());
    const Address own = here.address();
    FABRIC(fi_tinject(here.ep.get(), own.data(), own.size(), to, 1));
    std::vector<uint8_t> bytes(size_t{1} << 16);
    FABRIC(fi_tsend(here.ep.get(), bytes.data(), kEager + 1, nullptr, to, 5, nullptr));
    for (;;) { // until it is killed
        fi_cq_tagged_entry entry = {};
        FABRIC(fi_trecv(here.ep.get(), bytes.data(), bytes.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
        while (fi_cq_sread(here.rx.get(), &entry, 1, nullptr, -1) == -FI_EAGAIN) {
        }
    }
}

TEST_CASE("a peer process that answers what it was not asked", "[.answers]")
{
    const std::string role = getenv("FABRIC_PEER_ROLE");
    const bool twice = role == "answers twice";
    Node node(FI_WAIT_FD);
    Memory memory(node, 4096);
    const Listener listener(node);
    const Address own = listener.address(), address = peer_address();
    const Fid<fid_ep> to = make_endpoint(node, node.info.get());
    FABRIC(fi_connect(to.get(), address.data(), own.data(), own.size()));
    CHECK(next_event(node).type == FI_CONNECTED);
    memset(memory.data(), 0, memory.size());
    memory.data()[0] = memory.data()[1] = memory.data()[15] = 1; // a message, with tag 1
    memory.data()[31] = static_cast<uint8_t>(own.size());
    memcpy(memory.data() + 32, own.data(), own.size());
    FABRIC(fi_send(to.get(), memory.data(), 32 + own.size(), memory.desc(), 0, nullptr));
    CHECK(next_completion(node.tx.get()).error == 0);
    const Event request = next_event(node);
    REQUIRE(request.type == FI_CONNREQ);
    const Fid<fid_ep> from = make_endpoint(node, request.info.get());
    FABRIC(fi_recv(from.get(), memory.data(), 1024, memory.desc(), 0, nullptr));
    FABRIC(fi_recv(from.get(), memory.data() + 1024, 1024, memory.desc(), 0, nullptr));
    FABRIC(fi_accept(from.get(), nullptr, 0));
    for (int i = 0; i < 2; i++) {
        CHECK(next_completion(node.rx.get()).error == 0);
    }
    uint8_t *const answer = memory.data() + 2048;
    answer[0] = role == "answers by a message" ? 1 : 3;
    memcpy(answer + 4, memory.data() + 4, 4);                         // the id of the first offer,
    answer[7] = static_cast<uint8_t>(answer[7] ^ (twice ? 0 : 0x80)); // or of one that was not made
    for (int i = 0; i < 2; i++) {
        (void)fi_send(from.get(), answer, 32, memory.desc(), 0, nullptr);
    }
    for (;;) { // until it is killed
        (void)fi_cq_sread(node.rx.get(), answer, 1, nullptr, -1);
    }
}

TEST_CASE("a peer process that sends garbage", "[.garbage]")
{
    const std::string role = getenv("FABRIC_PEER_ROLE");
    const auto kind = static_cast<unsigned>(std::stoul(role.substr(role.find(' '))));
    // Of a head: kind, flags, pieces, 0, id, tag, data, length.
    std::vector<uint8_t> heads[] = {
        std::vector<uint8_t>(31, 1), // too short
        std::vector<uint8_t>(32, 0), // of no kind
        {1, 1, 0, 0, 0, 0, 0, 0},    // a length that is not there
        {2, 1, 0, 0, 0, 0, 0, 0},    // an offer of nothing
        {2, 1, 5, 0, 0, 0, 0, 0},    // of too many pieces
        {2, 1, 1, 0, 0, 0, 0, 0},    // of a piece that is not described
        {3, 0, 0, 0, 0, 0, 0, 1},    // an answer, by the wrong link
        {9, 9, 9, 9, 9, 9, 9, 9},    // of no kind, whatever else
        {2, 1, 1, 0, 0, 0, 0, 0},    // an offer whose piece is not the whole message
        {2, 1, 1, 0, 0, 0, 0, 0},    // with bytes behind its pieces
        // A message, with a tag and data:
        {1,    3,    0,    0,    0,    0,    0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22,
         0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0, 0, 0,    0,    0,    0,    0,    4,    'a',  'b',  'c',  'd'},
    };
    heads[2].resize(40);
    heads[2][31] = 9;
    for (int i = 3; i < 8; i++) {
        heads[i].resize(32);
    }
    for (int i = 8; i < 10; i++) { // of 20,000 bytes
        heads[i].resize(i == 8 ? 56 : 57);
        heads[i][30] = 0x4e;
        heads[i][31] = 0x20;
        heads[i][46] = 0x4e;
        heads[i][47] = i == 8 ? 0x1f : 0x20;
    }
    Node node(FI_WAIT_FD);
    Memory memory(node, 4096);
    const Fid<fid_ep> ep = make_endpoint(node, node.info.get());
    const Address address = peer_address();
    FABRIC(fi_connect(ep.get(), address.data(), address.data(),
                      address.size())); // it says that it is the listener
    CHECK(next_event(node).type == FI_CONNECTED);
    memcpy(memory.data(), heads[kind].data(), heads[kind].size());
    FABRIC(fi_send(ep.get(), memory.data(), heads[kind].size(), memory.desc(), 0, nullptr));
    memcpy(memory.data() + 128, heads[10].data(), heads[10].size());
    for (int i = 0; i < 10 && kind != 10; i++) { // what is right comes too late
        (void)fi_send(ep.get(), memory.data() + 128, heads[10].size(), memory.desc(), 0, nullptr);
    }
    const Event event = next_event(node);
    CHECK(event.type == FI_SHUTDOWN);
}
