// SPDX-License-Identifier: MIT
//
// One end of a connection of the bus protocol, which sends what a test says, right or wrong. A
// thread beside the test's may use it: nothing here is checked by Catch2.
#ifndef VIPL_ADAPTER_BUS_END_HPP
#define VIPL_ADAPTER_BUS_END_HPP

#include "raw_client.hpp"

extern "C" {
#include "bus/message.h"
}

namespace adapter_test {

struct BusMessage {
    rnic_bus_message header{};
    Bytes data;
    bool ended = false; ///< instead of a message, the stream did, or nothing came
};

class BusEnd {
public:
    explicit BusEnd(int socket) : fd(socket) {}
    ~BusEnd() { hang_up(); }
    BusEnd(const BusEnd &) = delete;
    BusEnd &operator=(const BusEnd &) = delete;

    void hang_up()
    {
        vipl_fd_close(fd);
        fd = -1;
    }

    /** Whether all of it could be sent. */
    bool send_bytes(const Bytes &bytes) const
    {
        size_t done = 0;
        int error = 0;
        while (error == 0 && done < bytes.size()) {
            size_t sent = 0;
            error = vipl_unix_send(fd, bytes.data() + done, bytes.size() - done, nullptr, 0, &sent);
            if (error == EAGAIN) {
                pollfd entry = {fd, POLLOUT, 0};
                error = poll(&entry, 1, wait_ms()) == 1 ? 0 : ETIMEDOUT;
            }
            done += sent;
        }
        return error == 0;
    }

    /** Its length is set here, unless it says a wrong one. */
    static Bytes bytes_of(rnic_bus_message m, const Bytes &data = {})
    {
        Bytes bytes(BUS_HEADER_BYTES);
        m.bytes = m.bytes != 0 ? m.bytes : static_cast<std::uint32_t>(BUS_HEADER_BYTES + data.size());
        rnic_bus_message_write(bytes.data(), &m);
        bytes.insert(bytes.end(), data.begin(), data.end());
        return bytes;
    }
    bool send(const rnic_bus_message &m, const Bytes &data = {}) const
    {
        return send_bytes(bytes_of(m, data));
    }

    BusMessage receive() const
    {
        BusMessage m;
        Bytes bytes(BUS_HEADER_BYTES);
        if (!fill(bytes, 0)) {
            m.ended = true;
            return m;
        }
        rnic_bus_message_read(bytes.data(), &m.header);
        m.data.resize(m.header.bytes - BUS_HEADER_BYTES);
        m.ended = !fill(m.data, 0);
        return m;
    }

    /** Whether the peer ends the stream, whatever it sends before. */
    bool ends() const
    {
        while (!receive().ended) {
        }
        return has_ended();
    }
    /** Whether the peer ends the stream, and sends nothing before. */
    bool ends_next() const { return receive().ended && has_ended(); }

    /** Whether the peer has sent nothing that is not received. */
    bool has_nothing() const
    {
        pollfd entry = {fd, POLLIN, 0};
        return poll(&entry, 1, 0) == 0;
    }

    static rnic_bus_message message(unsigned kind, std::uint32_t id = 0)
    {
        rnic_bus_message m{};
        m.kind = static_cast<std::uint16_t>(kind);
        m.id = id;
        return m;
    }
    static rnic_bus_message hello(std::uint64_t version = BUS_VERSION)
    {
        rnic_bus_message m = message(BUS_HELLO, BUS_MAGIC);
        m.value = version;
        return m;
    }
    static rnic_bus_message access(unsigned kind, std::uint32_t id, std::uint64_t address, unsigned width = 4,
                                   unsigned space = 0, std::uint64_t value = 0)
    {
        rnic_bus_message m = message(kind, id);
        m.width = static_cast<std::uint16_t>(width);
        m.space = static_cast<std::uint8_t>(space);
        m.address = address;
        m.value = value;
        return m;
    }
    static rnic_bus_message dma(unsigned kind, std::uint64_t address, std::uint64_t value = 0,
                                std::uint32_t id = 0)
    {
        rnic_bus_message m = message(kind, id);
        m.address = address;
        m.value = value;
        return m;
    }
    static rnic_bus_message answer(unsigned kind, std::uint32_t id, std::uint64_t value = 0,
                                   unsigned status = 0)
    {
        rnic_bus_message m = message(kind, id);
        m.value = value;
        m.status = static_cast<std::uint8_t>(status);
        return m;
    }

    int fd;

private:
    /** After receive().ended: it was not the time. */
    bool has_ended() const { return !has_nothing(); }
    bool fill(Bytes &bytes, size_t done) const
    {
        while (done < bytes.size()) {
            size_t length = 0;
            unsigned count = 0;
            const int error =
                vipl_unix_receive(fd, bytes.data() + done, bytes.size() - done, &length, nullptr, 0, &count);
            pollfd entry = {fd, POLLIN, 0};
            if (error == EAGAIN && poll(&entry, 1, wait_ms()) == 1) {
                continue;
            }
            if (error != 0 || length == 0) {
                return false;
            }
            done += length;
        }
        return true;
    }
};

} // namespace adapter_test

#endif
