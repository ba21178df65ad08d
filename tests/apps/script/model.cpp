// SPDX-License-Identifier: MIT
#include "model.hpp"

#include <algorithm>
#include <sys/socket.h>

std::size_t Model::room(int end) const
{
    const End &peer = ends[1 - end];
    return peer.messages.size() >= kMostMessages ? 0 : kMostUnread - std::min(kMostUnread, peer.unread);
}

bool Model::can_send(int end) const
{
    return ends[end].open && ends[end].writing && !ends[end].reset && !is_peer_gone(end);
}

bool Model::would_block(int end, std::size_t size, int flags) const
{
    const End &one = ends[end];
    if (one.nonblocking || (flags & MSG_DONTWAIT) || one.timeout_ms > 0 || one.is_over()) {
        return false;
    }
    return one.unread == 0 || ((flags & MSG_WAITALL) && one.unread < size);
}

bool Model::is_peer_gone(int end) const
{
    const End &peer = ends[1 - end];
    return !ends[end].reset && (!peer.open || (!peer.reading && !peer.writing));
}

void Model::sent(int end, std::size_t size)
{
    has_sent[end] = true;
    if (size > 0) {
        ends[1 - end].unread += size;
        ends[1 - end].messages.push_back(size);
        ends[1 - end].data_came = true;
    }
}

void Model::received(int end, std::size_t size)
{
    End &one = ends[end];
    one.unread -= size;
    while (size > 0) {
        std::size_t of_first = std::min(size, one.messages.front());
        size -= of_first;
        one.messages.front() -= of_first;
        if (one.messages.front() == 0) {
            one.messages.pop_front();
        }
    }
}

void Model::ended(int end)
{
    if (!ends[1 - end].at_end) {
        ends[1 - end].at_end = ends[1 - end].end_came = true;
    }
}

void Model::was_reset(int end)
{
    ends[end].reset = ends[end].reset_came = true;
}
