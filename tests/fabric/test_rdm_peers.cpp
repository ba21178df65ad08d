// SPDX-License-Identifier: MIT
//
// Datagram endpoints of the provider's own, and peers that end, or send what they must not.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <pthread.h>

#include <catch2/catch.hpp>

#include "rdm_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

TEST_CASE("an endpoint whose port is taken is enabled when the port is free", "[rdm]")
{
    auto first = std::make_unique<Datagrams>();
    Datagrams other;
    const Address name = first->address();
    const Fid<fid_ep> second = other.another(with_address(other, name).get(), other.rx.get());
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
        send_when_possible(other, other,
                           [&] { return fi_tinject(other.ep.get(), from.data(), kInject, to, 1); });
    }
    for (const std::vector<uint8_t> &one : in) {
        CHECK(Datagrams::next(other.rx.get(), other.tx.get()).error == 0);
        CHECK(std::equal(one.begin(), one.begin() + kInject, from.begin()));
    }
    for (std::vector<uint8_t> &one : in) { // the one that was enabled twice sends, too
        send_when_possible(other, other, [&] {
            return fi_tsend(second.get(), from.data(), from.size(), nullptr, to, 2, nullptr);
        });
        FABRIC(fi_trecv(second.get(), one.data(), one.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
        CHECK(Datagrams::next(other.rx.get(), other.tx.get()).error == 0);
        CHECK(one == from);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) // which make a stack as large as they are asked for
/** While it lives no thread is made, unless its maker says how large its stack is. */
struct NoThreads {
    NoThreads()
    {
        pthread_attr_t none;
        REQUIRE(pthread_getattr_default_np(&before) == 0);
        REQUIRE(pthread_attr_init(&none) == 0);
        REQUIRE(pthread_attr_setstacksize(&none, size_t{1} << 47) == 0); // there is no such address
        REQUIRE(pthread_setattr_default_np(&none) == 0);
        pthread_attr_destroy(&none);
    }
    ~NoThreads()
    {
        pthread_setattr_default_np(&before);
        pthread_attr_destroy(&before);
    }
    NoThreads(const NoThreads &) = delete;
    NoThreads &operator=(const NoThreads &) = delete;
    pthread_attr_t before;
};

TEST_CASE("an endpoint for which there is no thread is enabled when there is one", "[rdm]")
{
    Datagrams other(FI_WAIT_FD);
    const Fid<fid_ep> second = other.another(other.node.info.get(), other.rx.get());
    {
        const NoThreads now;
        FABRIC_RC(-FI_EAGAIN, fi_enable(second.get()));
    }
    FABRIC(fi_enable(second.get()));
    FABRIC_RC(-FI_EOPBADSTATE, fi_enable(second.get()));
}
#endif

TEST_CASE("a message that is offered by a peer that has died is an error", "[rdm]")
{
    if (!reaches_processes()) {
        return;
    }
    Two pair; // by which the server goes on meanwhile
    OtherProcess other(pair.two, "datagrams");
    fi_context context = {};
    CHECK(peek(pair, 5, 0, &context).entry.len == kOffered);
    other.peer.kill_it();
    std::vector<uint8_t> to(kOffered);
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
    for (const size_t count : {size_t{8}, size_t{1000}, kOffered}) {
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
    pair.connect();
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

TEST_CASE("a peer that listens later gets what is sent then, whatever was sent before", "[rdm]")
{
    Datagrams one, place;
    Address name;
    {
        Datagrams other;
        name = other.address();
    }
    const fi_addr_t to = one.knows(name);
    const std::vector<uint8_t> from = bytes_of(40000, 1);
    FABRIC(fi_tsend(one.ep.get(), from.data(), from.size(), nullptr, to, 1, nullptr));
    CHECK(Datagrams::next(one.tx.get()).error != 0);
    const Fid<fid_ep> late = place.another(with_address(place, name).get(), place.rx.get());
    FABRIC(fi_enable(late.get()));
    std::vector<uint8_t> in(1000);
    FABRIC(fi_trecv(late.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
    eventually("a message without an error", [&] {
        return fi_tsend(one.ep.get(), from.data(), in.size(), nullptr, to, 2, nullptr) == 0 &&
               Datagrams::next(one.tx.get(), place.rx.get()).error == 0;
    });
    CHECK(std::equal(in.begin(), in.end(), from.begin()));
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
    std::vector<uint8_t> cut(65536);
    pair.receive(cut, 0x78, 0, &cut); // of which the rest does not come
    setenv("FI_VIPL_RDM", "0", 1);
    const OtherProcess right(pair.two, "garbage not");
    OtherProcess hostile(pair.two, "garbage");
    setenv("FI_VIPL_RDM", "1", 1);
    Done done = pair.received(); // of the one that sends what a message is
    Done aborted = pair.received();
    if (done.entry.op_context != &whole) {
        std::swap(done, aborted);
    }
    CHECK(aborted.error == FI_ECONNABORTED);
    CHECK(aborted.entry.op_context == &cut);
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
    eventually("the end of the peer", [&] { // which sees the end of its connections
        (void)Datagrams::look(pair.two.rx.get());
        return hostile.peer.has_ended();
    });
    fi_context context = {};
    for (const uint64_t tag : {UINT64_C(0x1112131415161718), UINT64_C(0x77), UINT64_C(0x78)}) {
        CHECK(ask(pair, nullptr, tag, FI_PEEK, &context).error == FI_ENOMSG);
    }
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
        const std::vector<uint8_t> bytes = bytes_of(kOffered, 1);
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

TEST_CASE("a message of which a part is still to come is matched, or claimed, and received", "[rdm]")
{
    if (!reaches_processes()) {
        return;
    }
    for (const unsigned way : {0u, 1u, 2u}) { // matched, claimed; matched, and its peer dies
        const uint64_t flags = way == 1 ? FI_CLAIM : 0;
        Two pair;
        setenv("FI_VIPL_RDM", "0", 1);
        OtherProcess other(pair.two, "parts");
        setenv("FI_VIPL_RDM", "1", 1);
        Address name(64); // the other process says where it listens
        FABRIC(fi_trecv(pair.two.ep.get(), name.data(), name.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        name.resize(pair.received().entry.len);
        const fi_addr_t to = pair.two.knows(name);
        fi_context context = {};
        CHECK(peek(pair, 5, flags, &context).entry.len == kEager + 6);
        std::vector<uint8_t> in(kEager + 7, 0xee);
        const iovec iov = {in.data(), in.size()};
        fi_msg_tagged message = {};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = FI_ADDR_UNSPEC;
        message.tag = 5;
        message.context = &context;
        FABRIC(fi_trecvmsg(pair.two.ep.get(), &message, flags));
        for (int i = 0; i < 1000; i++) {
            REQUIRE(!Datagrams::look(pair.two.rx.get()));
        }
        if (way == 2) {
            other.peer.kill_it();
        } else {
            send_when_possible(pair.two, pair.one,
                               [&] { return fi_tinject(pair.two.ep.get(), &to, sizeof to, to, 2); });
        }
        const Done done = Datagrams::next(pair.two.rx.get(), pair.two.tx.get());
        CHECK(done.error == (way == 2 ? FI_ECONNABORTED : 0));
        CHECK(done.entry.op_context == &context);
        if (way == 2) {
            continue;
        }
        CHECK(done.entry.len == kEager + 6);
        const std::vector<uint8_t> from = bytes_of(kEager + 6, 5);
        CHECK(std::equal(from.begin(), from.end(), in.begin()));
        CHECK(in.back() == 0xee);
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
    const std::vector<uint8_t> bytes = bytes_of(kOffered, 1);
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
    std::vector<uint8_t> bytes(kOffered);
    FABRIC(fi_tsend(here.ep.get(), bytes.data(), kOffered, nullptr, to, 5, nullptr));
    for (;;) { // until it is killed
        fi_cq_tagged_entry entry = {};
        FABRIC(fi_trecv(here.ep.get(), bytes.data(), bytes.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
        while (fi_cq_sread(here.rx.get(), &entry, 1, nullptr, -1) == -FI_EAGAIN) {
        }
    }
}

TEST_CASE("a peer process that sends the last part of a message when it is told to", "[.parts]")
{
    Node node(FI_WAIT_FD);
    Memory memory(node, size_t{2} << 16);
    const Listener listener(node);
    const Address own = listener.address(), address = peer_address();
    const std::vector<uint8_t> name = link_name(own), bytes = bytes_of(kEager + 6, 5);
    const Fid<fid_ep> to = make_endpoint(node, node.info.get());
    FABRIC(fi_connect(to.get(), address.data(), name.data(), name.size()));
    CHECK(next_event(node).type == FI_CONNECTED);
    const auto send = [&](uint8_t kind, uint8_t tag, size_t length, const uint8_t *from, size_t count) {
        memset(memory.data(), 0, 32);
        memory.data()[0] = kind;
        memory.data()[1] = 1;
        memory.data()[15] = tag;
        memory.data()[30] = static_cast<uint8_t>(length >> 8);
        memory.data()[31] = static_cast<uint8_t>(length);
        memcpy(memory.data() + 32, from, count);
        FABRIC(fi_send(to.get(), memory.data(), 32 + count, memory.desc(), 0, nullptr));
        CHECK(next_completion(node.tx.get()).error == 0);
    };
    send(1, 1, own.size(), own.data(), own.size());
    send(1, 5, bytes.size(), bytes.data(), kEager);
    const Event request = next_event(node);
    REQUIRE(request.type == FI_CONNREQ);
    const Fid<fid_ep> from = make_endpoint(node, request.info.get());
    FABRIC(fi_recv(from.get(), memory.data() + 65536, 1024, memory.desc(), 0, nullptr));
    FABRIC(fi_accept(from.get(), nullptr, 0));
    CHECK(next_completion(node.rx.get()).error == 0);
    send(4, 0, 6, bytes.data() + kEager, 6);
    for (;;) { // until it is killed
        (void)fi_cq_sread(node.rx.get(), memory.data(), 1, nullptr, -1);
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
    const std::vector<uint8_t> name = link_name(own);
    FABRIC(fi_connect(to.get(), address.data(), name.data(), name.size()));
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

/** A head, and zeros behind it: kind, flags, pieces, 0, id, tag, data, length; and of a piece:
 * address, length. */
static std::vector<uint8_t> head(uint8_t kind, size_t size, size_t length = 0, uint8_t tag = 0,
                                 uint8_t pieces = 0, size_t piece = 0)
{
    std::vector<uint8_t> bytes(std::max(size, size_t{48}));
    bytes[0] = kind;
    bytes[1] = 1;
    bytes[2] = pieces;
    bytes[15] = tag;
    bytes[30] = static_cast<uint8_t>(length >> 8);
    bytes[31] = static_cast<uint8_t>(length);
    bytes[46] = static_cast<uint8_t>(piece >> 8);
    bytes[47] = static_cast<uint8_t>(piece);
    bytes.resize(size);
    return bytes;
}

/** Sends this by a link of its own, and that ten times behind it; until the link has ended. */
static void send_by_a_link(const std::vector<uint8_t> &first, const std::vector<uint8_t> &behind)
{
    Node node(FI_WAIT_FD);
    Memory memory(node, size_t{2} << 16);
    const Fid<fid_ep> ep = make_endpoint(node, node.info.get());
    const Address address = peer_address();
    const std::vector<uint8_t> name = link_name(address); // it says that it is the listener
    FABRIC(fi_connect(ep.get(), address.data(), name.data(), name.size()));
    CHECK(next_event(node).type == FI_CONNECTED);
    memcpy(memory.data(), first.data(), first.size());
    FABRIC(fi_send(ep.get(), memory.data(), first.size(), memory.desc(), 0, nullptr));
    uint8_t *const more = memory.data() + first.size();
    memcpy(more, behind.data(), behind.size());
    for (int i = 0; i < 10 && !behind.empty(); i++) {
        (void)fi_send(ep.get(), more, behind.size(), memory.desc(), 0, nullptr);
    }
    const Event event = next_event(node);
    CHECK(event.type == FI_SHUTDOWN);
}

TEST_CASE("a peer process that sends garbage", "[.garbage]")
{
    const std::vector<uint8_t> right = {
        1,    3,    0,    0,    0,    0,    0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22,
        0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0, 0, 0,    0,    0,    0,    0,    4,    'a',  'b',  'c',  'd'};
    if (std::string(getenv("FABRIC_PEER_ROLE")) == "garbage not") {
        send_by_a_link(right, {});
        return;
    }
    for (const std::vector<uint8_t> &wrong : {
             head(1, 31),                                 // too short
             head(0, 32),                                 // of no kind
             std::vector<uint8_t>(32, 9), head(1, 40, 9), // a length that is not there
             head(2, 32),                                 // an offer of nothing
             head(2, 32, 0, 0, 5),                        // of too many pieces
             head(2, 32, 0, 0, 1),                        // of a piece that is not described
             head(2, 56, 20000, 0, 1, 19999),             // whose piece is not the whole message
             head(2, 57, 20000, 0, 1, 20000),             // with bytes behind its pieces
             head(3, 32),                                 // an answer, by the wrong link
             head(4, 36, 4),                              // the rest of no message
             head(1, 32 + kEager, kEager + 6, 0x77),      // a first part, and then another message
         }) {
        send_by_a_link(wrong, right); // what is right comes too late
    }
    send_by_a_link(head(1, 32 + kEager, kEager + 6, 0x78), head(4, 39, 7)); // and then too much
}
