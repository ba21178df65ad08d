// SPDX-License-Identifier: MIT
//
// A shared VI whose peer is not shared: what most cases about shared objects begin with.
#ifndef VIPL_CONFORMANCE_MIXED_HPP
#define VIPL_CONFORMANCE_MIXED_HPP

#include <string>

#include "family.hpp"

namespace vipl_conformance {

/** A shareable VI here, connected with a private one, as with any other host's. */
struct Mixed {
    Mixed() { connect_pair(nic, server, own, client); }

    Work receive(size_t size = 64) { return post(server, memory, size); }
    Work client_receive(size_t size = 64) { return post(client, own_memory, size); }
    void client_says(const std::string &text)
    {
        post_send(client, own_memory.transfer(own_memory.text(text)));
        sent(client);
    }
    /** One message each way. */
    void exchange()
    {
        const Work in = receive();
        const Work back = client_receive();
        client_says("there");
        EXPECT(received(server) == in.desc);
        post_send(server, memory.transfer(memory.text("back")));
        sent(server);
        EXPECT(received(client) == back.desc);
    }

    Nic nic{device_under_test(), true};
    Nic own{device_under_test(), false};
    Memory memory{nic, 1 << 20, rdma_memory()};
    Memory own_memory{own};
    Vi server{nic}, client{own};

private:
    static Work post(VIP_VI_HANDLE vi, Memory &from, size_t size)
    {
        const Work work = from.transfer(from.bytes(size));
        post_recv(vi, work);
        return work;
    }
};

/** The text that came. */
inline std::string said(const Work &work)
{
    return std::string(reinterpret_cast<const char *>(work.buffer.data), work.desc->CS.Length);
}

} // namespace vipl_conformance

#endif
