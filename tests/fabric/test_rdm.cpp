// SPDX-License-Identifier: MIT
//
// Datagram endpoints of the provider's own: tags, order, messages before their receives, long
// messages, peeks.
#include <numeric>
#include <thread>

#include <catch2/catch.hpp>

#include "rdm_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

static const size_t kSizes[] = {0,          1,          8,     kInject, kInject + 1, 4096,           kEager,
                                kEager + 1, 3 * kEager, 65535, 65536,   kOffered,    size_t{5} << 20};

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
    for (const size_t count : {size_t{100}, kEager + 100, kOffered}) {
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
    for (const size_t piece : {size_t{10}, size_t{1000}, size_t{10000}, size_t{20000}}) {
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
    for (const size_t count : {size_t{50}, kEager + 50, kOffered}) {
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
    const std::vector<uint8_t> from = bytes_of(kOffered, 1); // its end is told by the queue of receives
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

TEST_CASE("messages that wait for the peer are as many as there are buffers for them", "[rdm]")
{
    Two pair;
    for (unsigned i = 0; i < 3; i++) { // of several buffers each, which are free again
        const std::vector<uint8_t> from = bytes_of(40000, i);
        std::vector<uint8_t> to(from.size());
        pair.receive(to, 2);
        pair.send(from, 2);
        REQUIRE(pair.received().error == 0);
        REQUIRE((to == from));
        REQUIRE(pair.sent().error == 0);
    }
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
    for (const size_t count : {size_t{8}, kEager + 1, kOffered}) {
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
