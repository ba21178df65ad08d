// SPDX-License-Identifier: MIT
//
// Connecting: events, private data, refusals, and the end of a connection.
#include <netinet/in.h>

#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

/** A client that has asked a listener for a connection, with the listener's event. */
struct Request {
    explicit Request(const std::string &data)
        : server_side(), client_side(), listener(server_side),
          client(make_endpoint(client_side, client_side.info.get()))
    {
        FABRIC(fi_connect(client.get(), listener.address().data(), data.data(), data.size()));
        event = next_event(server_side);
    }
    Node server_side, client_side;
    Listener listener;
    Fid<fid_ep> client;
    Event event;
};

} // namespace

TEST_CASE("private data of a request and of its answer arrive", "[connect]")
{
    const std::string question(40, 'q'), answer = "the answer";
    Request request(question);
    CHECK(request.event.type == FI_CONNREQ);
    CHECK(request.event.fid == &request.listener.pep->fid);
    CHECK(request.event.data == question);
    const Fid<fid_ep> server = make_endpoint(request.server_side, request.event.info.get());
    FABRIC(fi_accept(server.get(), answer.data(), answer.size()));
    const Event here = next_event(request.server_side), there = next_event(request.client_side);
    CHECK(here.type == FI_CONNECTED);
    CHECK(here.fid == &server->fid);
    CHECK(there.type == FI_CONNECTED);
    CHECK(there.fid == &request.client->fid);
    CHECK(there.data == answer);
}

TEST_CASE("more private data than there is room for is refused", "[connect]")
{
    Node node;
    const Listener listener(node);
    const Fid<fid_ep> ep = make_endpoint(node, node.info.get());
    const std::string data(41, 'x');
    size_t most = 0, bytes = sizeof(most);
    FABRIC(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &bytes));
    CHECK(most == 40);
    FABRIC_RC(-FI_EINVAL, fi_connect(ep.get(), listener.address().data(), data.data(), data.size()));
}

TEST_CASE("a rejection is an error event, with its data", "[connect]")
{
    const std::string reason = GENERATE(std::string(), std::string("not today"));
    Request request("hello");
    FABRIC(fi_reject(request.listener.pep.get(), request.event.info->handle, reason.data(), reason.size()));
    const Event event = next_event(request.client_side);
    CHECK(event.error == FI_ECONNREFUSED);
    CHECK(event.fid == &request.client->fid);
    CHECK(event.data == reason);
    FABRIC_RC(-FI_EINVAL, fi_reject(request.listener.pep.get(), request.event.info->handle, nullptr, 0));
}

TEST_CASE("where no program listens, a connect is refused, and may be repeated", "[connect]")
{
    Node node;
    Address address;
    {
        const Listener gone(node);
        address = gone.address();
    }
    const Listener other(node);
    Fid<fid_ep> ep = make_endpoint(node, node.info.get());
    sockaddr_in nobody;
    Address free_port = other.address();
    memcpy(&nobody, free_port.data(), sizeof(nobody)); // the port is at one place in both kinds
    nobody.sin_port = htons(1);
    memcpy(free_port.data(), &nobody, sizeof(nobody));
    FABRIC(fi_connect(ep.get(), free_port.data(), nullptr, 0));
    CHECK(next_event(node).error == FI_ECONNREFUSED);
    FABRIC(fi_connect(ep.get(), other.address().data(), nullptr, 0));
    const Event request = next_event(node);
    CHECK(request.type == FI_CONNREQ);
    FABRIC(fi_reject(other.pep.get(), request.info->handle, nullptr, 0));
    CHECK(next_event(node).error == FI_ECONNREFUSED);
    // A listener that was closed rejects, when its process looks.
    FABRIC(fi_connect(ep.get(), address.data(), nullptr, 0));
    CHECK(next_event(node).error == FI_ECONNREFUSED);
}

TEST_CASE("a request that its listener has not read is rejected when that closes", "[connect]")
{
    Node server_side, client_side;
    auto listener = std::make_unique<Listener>(server_side);
    const Fid<fid_ep> client = make_endpoint(client_side, client_side.info.get());
    FABRIC(fi_connect(client.get(), listener->address().data(), nullptr, 0));
    eventually("the request", [&] {
        uint32_t type = 0;
        fi_eq_cm_entry entry = {};
        return fi_eq_read(server_side.eq.get(), &type, &entry, sizeof(entry), FI_PEEK) > 0;
    });
    FABRIC_RC(-FI_EBUSY, fi_close(&server_side.eq->fid));
    listener.reset();
    CHECK(next_event(client_side).error == FI_ECONNREFUSED);
}

TEST_CASE("an endpoint that is closed while it connects", "[connect]")
{
    Node server_side, client_side;
    const Listener listener(server_side);
    Fid<fid_ep> client = make_endpoint(client_side, client_side.info.get());
    FABRIC(fi_connect(client.get(), listener.address().data(), nullptr, 0));
    client.reset(); // it does not wait for an answer
    Pair pair;
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    pair.exchange(from, to, 64, 1);
}

TEST_CASE("calls in the wrong state are refused", "[connect]")
{
    Pair pair;
    Memory memory(pair.client_side, 64);
    FABRIC_RC(-FI_EOPBADSTATE, fi_enable(pair.client.get()));
    FABRIC_RC(-FI_EOPBADSTATE, fi_connect(pair.client.get(), pair.listener.address().data(), nullptr, 0));
    FABRIC_RC(-FI_EOPBADSTATE, fi_accept(pair.client.get(), nullptr, 0));
    FABRIC_RC(-FI_EOPBADSTATE, fi_listen(pair.listener.pep.get()));
    FABRIC_RC(-FI_EBUSY, fi_close(&pair.client_side.tx->fid));
    FABRIC_RC(-FI_EBUSY, fi_close(&pair.client_side.domain->fid));
    FABRIC_RC(-FI_EBUSY, fi_close(&pair.client_side.fabric->fid));
    const Fid<fid_ep> ep = make_endpoint(pair.client_side, pair.client_side.info.get());
    FABRIC_RC(-FI_ENOTCONN, fi_send(ep.get(), memory.data(), 1, memory.desc(), 0, nullptr));
    FABRIC_RC(-FI_ENOTCONN, fi_shutdown(ep.get(), 0));
    fid_ep *unbound = nullptr;
    FABRIC(fi_endpoint(pair.client_side.domain.get(), pair.client_side.info.get(), &unbound, nullptr));
    const Fid<fid_ep> owned(unbound);
    FABRIC_RC(-FI_ENOEQ, fi_enable(unbound));
    FABRIC(fi_ep_bind(unbound, &pair.client_side.eq->fid, 0));
    FABRIC_RC(-FI_ENOCQ, fi_enable(unbound));
    FABRIC_RC(-FI_EINVAL, fi_ep_bind(unbound, &pair.client_side.tx->fid, 0));
    FABRIC_RC(-FI_EOPBADSTATE, fi_recv(unbound, memory.data(), 1, memory.desc(), 0, nullptr));
}

TEST_CASE("a port belongs to one listener", "[connect]")
{
    Node node;
    const Listener first(node);
    const Address address = first.address();
    const Info copy(fi_dupinfo(node.info.get()));
    free(copy->src_addr);
    copy->src_addr = malloc(address.size());
    memcpy(copy->src_addr, address.data(), address.size());
    copy->src_addrlen = address.size();
    fid_pep *pep = nullptr;
    FABRIC(fi_passive_ep(node.fabric.get(), copy.get(), &pep, nullptr));
    const Fid<fid_pep> owned(pep);
    FABRIC_RC(-FI_ENOEQ, fi_listen(pep));
    FABRIC(fi_pep_bind(pep, &node.eq->fid, 0));
    FABRIC_RC(-FI_EADDRINUSE, fi_listen(pep));
}

TEST_CASE("each side knows the other's address", "[connect]")
{
    Pair pair;
    Address peer(64), own(64);
    size_t peer_bytes = peer.size(), own_bytes = own.size();
    FABRIC(fi_getpeer(pair.client.get(), peer.data(), &peer_bytes));
    peer.resize(peer_bytes);
    CHECK(peer == pair.listener.address());
    size_t little = 4;
    FABRIC_RC(-FI_ETOOSMALL, fi_getpeer(pair.client.get(), own.data(), &little));
    CHECK(little == peer_bytes);
    FABRIC(fi_getname(&pair.client->fid, own.data(), &own_bytes));
    CHECK(own_bytes == peer_bytes);
    peer.assign(64, 0);
    peer_bytes = peer.size();
    FABRIC(fi_getpeer(pair.server.get(), peer.data(), &peer_bytes));
    CHECK(memcmp(peer.data(), own.data(), own_bytes) == 0);
}

TEST_CASE("a shutdown ends the other side's endpoint too", "[connect]")
{
    const bool by_close = GENERATE(false, true);
    Pair pair;
    Memory memory(pair.server_side, 64);
    FABRIC(fi_recv(pair.server.get(), memory.data(), 64, memory.desc(), 0, &memory));
    if (by_close) {
        pair.client.reset();
    } else {
        FABRIC(fi_shutdown(pair.client.get(), 0));
    }
    const Event event = next_event(pair.server_side);
    CHECK(event.type == FI_SHUTDOWN);
    CHECK(event.fid == &pair.server->fid);
    const Completion flushed = next_completion(pair.server_side.rx.get());
    CHECK(flushed.error == FI_ECANCELED);
    CHECK(flushed.entry.op_context == &memory);
    FABRIC_RC(-FI_ENOTCONN, fi_send(pair.server.get(), memory.data(), 1, memory.desc(), 0, nullptr));
    uint32_t type = 0;
    fi_eq_cm_entry entry = {};
    CHECK(fi_eq_read(pair.client_side.eq.get(), &type, &entry, sizeof(entry), 0) == -FI_EAGAIN);
    CHECK(fi_eq_read(pair.server_side.eq.get(), &type, &entry, sizeof(entry), 0) == -FI_EAGAIN);
}

TEST_CASE("an event queue has what the program writes", "[connect]")
{
    Node node;
    fi_eq_entry in = {&node.eq->fid, &node, 42}, out = {};
    uint32_t type = 0;
    CHECK(fi_eq_write(node.eq.get(), FI_NOTIFY, &in, sizeof(in), 0) == sizeof(in));
    CHECK(fi_eq_read(node.eq.get(), &type, &out, 3, 0) == -FI_ETOOSMALL);
    CHECK(fi_eq_read(node.eq.get(), &type, &out, sizeof(out), FI_PEEK) == sizeof(out));
    out = {};
    CHECK(fi_eq_read(node.eq.get(), &type, &out, sizeof(out), 0) == sizeof(out));
    CHECK(type == FI_NOTIFY);
    CHECK(out.data == 42);
    CHECK(fi_eq_read(node.eq.get(), &type, &out, sizeof(out), 0) == -FI_EAGAIN);
}
