// SPDX-License-Identifier: MIT
//
// An adapter in a thread of its own, and programs that speak vfio-user with it message by message.
#ifndef VIPL_ADAPTER_RAW_CLIENT_HPP
#define VIPL_ADAPTER_RAW_CLIENT_HPP

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.hpp"
#include "support/environment.hpp"

namespace adapter_test {

using Bytes = std::vector<std::uint8_t>;

/** A folder that goes with all that is in it. */
class Folder {
public:
    Folder()
    {
        char name[] = "/tmp/vipl-adapter-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        path = name;
    }
    ~Folder() { (void)!std::system(("rm -rf " + path).c_str()); }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    std::string path;
};

/** What a command prints, and its exit status in a line behind that. */
inline std::string printed(const std::string &command)
{
    FILE *output = popen(("(" + command + ") 2>&1; echo $?").c_str(), "r");
    REQUIRE(output != nullptr);
    std::string text;
    char line[1024];
    while (fgets(line, sizeof line, output) != nullptr) {
        text += line;
    }
    pclose(output);
    return text;
}

constexpr std::uint32_t kDeviceMemory = 65536; ///< of each function

/** A running adapter with the card of fake_card.h. */
/** A port that was free a moment ago. */
inline std::string port()
{
    vipl_inet any{};
    any.host_len = 4;
    any.host[0] = 127;
    any.host[3] = 1;
    for (std::uint16_t number = static_cast<std::uint16_t>(20000 + getpid() % 20000);; ++number) {
        int fd = -1;
        any.port = number;
        if (vipl_datagram_open(&any, &fd) == 0) {
            static std::vector<int> ports;
            const bool taken = std::find(ports.begin(), ports.end(), number) != ports.end();
            ports.push_back(number);
            vipl_fd_close(fd);
            if (!taken) {
                return std::to_string(number);
            }
        }
    }
}

class Adapter {
public:
    explicit Adapter(unsigned functions = 4, bool fixed = false, const char *wire = nullptr)
        : socket(folder.path + "/pool"), bus(folder.path + "/bus")
    {
        rnic_adapter_config config{};
        char what[256];
        config.card.functions = functions;
        config.card.dram_bytes = kDeviceMemory;
        config.socket = socket.c_str();
        config.folder = fixed ? folder.path.c_str() : nullptr;
        config.bus = bus.c_str();
        config.wire = wire;
        REQUIRE(rnic_adapter_create(&config, &adapter_, what, sizeof what) == 0);
        thread_ = std::thread([this] { rnic_adapter_run(adapter_); });
    }
    ~Adapter()
    {
        rnic_adapter_end(adapter_);
        thread_.join();
        rnic_adapter_destroy(adapter_);
    }
    Adapter(const Adapter &) = delete;
    Adapter &operator=(const Adapter &) = delete;

    Folder folder;
    std::string socket; ///< vfio-user
    std::string bus;    ///< the bus protocol

private:
    rnic_adapter *adapter_ = nullptr;
    std::thread thread_;
};

struct Message {
    vfu_header header{};
    Bytes payload;
    std::vector<int> fds;
    bool ended = false; // instead of a message, the stream did
};

inline int wait_ms()
{
    return 10000 * vipl_test::timeout_scale();
}

inline void put(Bytes &to, std::uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; ++i) {
        to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
    }
}

/** A shared file of zeros; sealed: nobody can cut it. */
inline int memory_file(size_t bytes, bool sealed)
{
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(fd >= 0);
    REQUIRE(ftruncate(fd, static_cast<off_t>(bytes)) == 0);
    if (sealed) {
        REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    }
    return fd;
}

class Client {
public:
    explicit Client(const std::string &path, bool greets = true, const char *capabilities = "")
    {
        REQUIRE(vipl_unix_connect(path.c_str(), &fd) == 0);
        if (greets) {
            Bytes payload = {0, 0, 0, 0};
            payload.insert(payload.end(), capabilities, capabilities + std::strlen(capabilities));
            const Message reply = ask(VFU_VERSION, payload);
            REQUIRE(reply.header.flags == VFU_REPLY);
            greeting.assign(reply.payload.begin() + 4, reply.payload.end());
        }
    }
    ~Client() { hang_up(); }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    void hang_up()
    {
        vipl_fd_close(fd);
        fd = -1;
    }

    void send_bytes(const Bytes &bytes, const std::vector<int> &fds = {})
    {
        size_t done = 0;
        while (done < bytes.size()) {
            size_t sent = 0;
            const int error = vipl_unix_send(fd, bytes.data() + done, bytes.size() - done, fds.data(),
                                             done == 0 ? static_cast<unsigned>(fds.size()) : 0, &sent);
            if (error == EAGAIN) {
                pollfd entry = {fd, POLLOUT, 0};
                REQUIRE(poll(&entry, 1, wait_ms()) == 1);
                continue;
            }
            REQUIRE(error == 0);
            done += sent;
        }
    }

    std::uint16_t send(unsigned command, const Bytes &payload, const std::vector<int> &fds = {},
                       unsigned flags = 0, int id = -1)
    {
        vfu_header header{};
        header.id = id < 0 ? ++id_ : static_cast<std::uint16_t>(id);
        header.command = static_cast<std::uint16_t>(command);
        header.bytes = static_cast<std::uint32_t>(VFU_HEADER_BYTES + payload.size());
        header.flags = flags;
        Bytes bytes(VFU_HEADER_BYTES);
        vfu_header_write(bytes.data(), &header);
        bytes.insert(bytes.end(), payload.begin(), payload.end());
        send_bytes(bytes, fds);
        return header.id;
    }

    Message receive()
    {
        Message message;
        Bytes bytes;
        while (bytes.size() < VFU_HEADER_BYTES ||
               bytes.size() < static_cast<size_t>(vipl_header(bytes).bytes)) {
            std::uint8_t part[4096];
            const size_t wanted = bytes.size() < VFU_HEADER_BYTES ? VFU_HEADER_BYTES - bytes.size()
                                                                  : vipl_header(bytes).bytes - bytes.size();
            size_t length = 0;
            int fds[VFU_MAX_FDS];
            unsigned count = 0;
            const int error =
                vipl_unix_receive(fd, part, std::min(wanted, sizeof part), &length, fds, VFU_MAX_FDS, &count);
            if (error == EAGAIN) {
                pollfd entry = {fd, POLLIN, 0};
                REQUIRE(poll(&entry, 1, wait_ms()) == 1);
                continue;
            }
            message.fds.insert(message.fds.end(), fds, fds + count);
            if (error != 0 || length == 0) {
                message.ended = true;
                return message;
            }
            bytes.insert(bytes.end(), part, part + length);
        }
        message.header = vipl_header(bytes);
        message.payload.assign(bytes.begin() + VFU_HEADER_BYTES, bytes.end());
        return message;
    }

    Message ask(unsigned command, const Bytes &payload, const std::vector<int> &fds = {})
    {
        const std::uint16_t id = send(command, payload, fds);
        Message reply = receive();
        REQUIRE(!reply.ended);
        CHECK(reply.header.id == id);
        CHECK(reply.header.command == command);
        REQUIRE((reply.header.flags & VFU_TYPE) == VFU_REPLY);
        return reply;
    }
    /** The error of the reply; 0: there was none. */
    unsigned error_of(unsigned command, const Bytes &payload, const std::vector<int> &fds = {})
    {
        const Message reply = ask(command, payload, fds);
        if ((reply.header.flags & VFU_ERROR) != 0) {
            CHECK(reply.payload.empty());
            REQUIRE(reply.header.error != 0);
        }
        return reply.header.error;
    }

    static Bytes access(unsigned region, std::uint64_t offset, std::uint32_t bytes)
    {
        Bytes payload(VFU_ACCESS_BYTES);
        const vfu_access a = {offset, region, bytes};
        vfu_access_write(payload.data(), &a);
        return payload;
    }
    Bytes read(unsigned region, std::uint64_t offset, std::uint32_t bytes)
    {
        const Message reply = ask(VFU_REGION_READ, access(region, offset, bytes));
        REQUIRE(reply.header.flags == VFU_REPLY);
        REQUIRE(reply.payload.size() == VFU_ACCESS_BYTES + bytes);
        return Bytes(reply.payload.begin() + VFU_ACCESS_BYTES, reply.payload.end());
    }
    static Bytes write_message(unsigned region, std::uint64_t offset, const Bytes &data)
    {
        Bytes payload = access(region, offset, static_cast<std::uint32_t>(data.size()));
        payload.insert(payload.end(), data.begin(), data.end());
        return payload;
    }
    void write(unsigned region, std::uint64_t offset, const Bytes &data)
    {
        REQUIRE(ask(VFU_REGION_WRITE, write_message(region, offset, data)).header.flags == VFU_REPLY);
    }
    std::uint32_t get(std::uint64_t offset, unsigned region = 0)
    {
        const Bytes bytes = read(region, offset, 4);
        return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
    }
    static Bytes number(std::uint64_t value, unsigned bytes)
    {
        Bytes out;
        put(out, value, bytes);
        return out;
    }
    void set(std::uint64_t offset, std::uint64_t value, unsigned bytes = 4)
    {
        write(0, offset, number(value, bytes));
    }

    unsigned map(std::uint64_t iova, std::uint64_t bytes, const std::vector<int> &fds,
                 std::uint64_t offset = 0, unsigned flags = VFU_DMA_READABLE | VFU_DMA_WRITEABLE)
    {
        Bytes payload(VFU_DMA_MAP_BYTES);
        const vfu_dma_map map = {flags, offset, iova, bytes};
        vfu_dma_map_write(payload.data(), &map);
        return error_of(VFU_DMA_MAP, payload, fds);
    }
    unsigned unmap(std::uint64_t iova, std::uint64_t bytes)
    {
        Bytes payload(VFU_DMA_UNMAP_BYTES);
        const vfu_dma_unmap unmap = {0, iova, bytes};
        vfu_dma_unmap_write(payload.data(), &unmap);
        return error_of(VFU_DMA_UNMAP, payload);
    }

    void begin(unsigned command, std::uint64_t iova, std::uint32_t bytes)
    {
        set(FAKE_IOVA, iova, 8);
        set(FAKE_BYTES, bytes);
        set(FAKE_COMMAND, command);
    }
    std::uint32_t result()
    {
        std::uint32_t result;
        while ((result = get(FAKE_RESULT)) == 0) {
        }
        return result;
    }
    /** Has the card do it; whether it could. */
    bool run(unsigned command, std::uint64_t iova, std::uint32_t bytes)
    {
        begin(command, iova, bytes);
        return result() == 1;
    }

    int fd = -1;
    std::string greeting;

private:
    static vfu_header vipl_header(const Bytes &bytes)
    {
        vfu_header header;
        vfu_header_read(bytes.data(), &header);
        return header;
    }
    std::uint16_t id_ = 0;
};

} // namespace adapter_test

#endif
