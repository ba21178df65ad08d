// SPDX-License-Identifier: MIT
//
// Datagram endpoints of the provider's own (FI_VIPL_RDM), in this process and in others.
#ifndef VIPL_RDM_PAIR_HPP
#define VIPL_RDM_PAIR_HPP

#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <rdma/fi_tagged.h>

#include "fabric_pair.hpp"

namespace fabric_test {

/** What goes with the head; what is copied, on any device; and what is offered, on all of them. */
constexpr size_t kInject = 224, kEager = 16384, kOffered = 65537;

inline Info datagram_hints(uint64_t caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE)
{
    Info wanted(fi_allocinfo());
    EXPECT(wanted != nullptr);
    wanted->caps = caps;
    wanted->ep_attr->type = FI_EP_RDM;
    wanted->tx_attr->msg_order = wanted->rx_attr->msg_order = FI_ORDER_SAS;
    wanted->domain_attr->name = strdup(vipl_test::device_under_test());
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

inline std::vector<uint8_t> bytes_of(size_t count, unsigned seed)
{
    std::vector<uint8_t> bytes(count);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed * 31);
    }
    return bytes;
}

/** What an endpoint of this domain is that has the address of another one. */
inline Info with_address(const Datagrams &of, const Address &name)
{
    Info info(fi_dupinfo(of.node.info.get()));
    free(info->src_addr);
    info->src_addr = malloc(name.size());
    memcpy(info->src_addr, name.data(), name.size());
    info->src_addrlen = name.size();
    return info;
}

/** The address as it asks for a link. */
inline std::vector<uint8_t> link_name(const Address &address)
{
    sockaddr_storage name = {};
    memcpy(&name, address.data(), address.size());
    const bool is_4 = name.ss_family == AF_INET;
    std::vector<uint8_t> bytes = {static_cast<uint8_t>(is_4 ? 4 : 6), 0};
    const auto *port = address.data() + 2; // of both kinds; and the address of sockaddr_in, or sockaddr_in6
    bytes.insert(bytes.end(), port, port + 2);
    const auto *at = address.data() + (is_4 ? 4 : 8);
    bytes.insert(bytes.end(), at, at + (is_4 ? 4 : 16));
    return bytes;
}

/** Repeats while the endpoint has no room; both sides go on meanwhile. */
inline void send_when_possible(const Datagrams &from, const Datagrams &to,
                               const std::function<ssize_t()> &send)
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
    /** A short message has come, so the link is there. */
    void connect()
    {
        std::vector<uint8_t> to(8);
        receive(to, 1);
        send(bytes_of(8, 1), 1);
        CHECK(received().error == 0);
        CHECK(sent().error == 0);
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
inline Done ask(Two &pair, std::vector<uint8_t> *to, uint64_t tag, uint64_t flags, fi_context *context)
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
inline Done peek(Two &pair, uint64_t tag, uint64_t flags, fi_context *context)
{
    Done done = {};
    eventually("the message", [&] {
        done = ask(pair, nullptr, tag, FI_PEEK | flags, context);
        return done.error == 0;
    });
    return done;
}

} // namespace fabric_test

#endif
