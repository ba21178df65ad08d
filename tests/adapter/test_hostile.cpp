// SPDX-License-Identifier: MIT
//
// Programs that mean harm: whatever they send, the adapter goes on, and another program notices
// nothing.
#include "raw_client.hpp"

#include <dirent.h>
#include <random>

#include <sys/eventfd.h>

using namespace adapter_test;

namespace {

/** A program beside the hostile one, whose state must stay. */
class Witness {
public:
    explicit Witness(const Adapter &adapter) : client_(adapter.socket), memory_(memory_file(4096, true))
    {
        client_.set(FAKE_SCRATCH, 0x1234567);
        REQUIRE(client_.map(0x10000, 4096, {memory_}) == 0);
    }
    ~Witness() { close(memory_); }
    Witness(const Witness &) = delete;
    Witness &operator=(const Witness &) = delete;
    void check()
    {
        REQUIRE(client_.get(FAKE_SCRATCH) == 0x1234567);
        REQUIRE(client_.get(FAKE_ATTACHES) == 1);
        REQUIRE(client_.run(FAKE_DMA_WRITE, 0x10000, 64));
    }

private:
    Client client_;
    int memory_;
};

Bytes message(unsigned command, std::uint32_t bytes, const Bytes &payload, unsigned flags = 0)
{
    Bytes out(VFU_HEADER_BYTES);
    const vfu_header header = {7, static_cast<std::uint16_t>(command), bytes, flags, 0};
    vfu_header_write(out.data(), &header);
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

unsigned open_descriptors()
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr) {
        ++count;
    }
    closedir(folder);
    return count;
}

/** Reads and drops what comes, so that the adapter can go on; false: it has hung up. */
bool drain(int fd)
{
    std::uint8_t part[65536];
    for (;;) {
        const ssize_t n = recv(fd, part, sizeof part, MSG_DONTWAIT);
        if (n <= 0) {
            return n < 0 && errno == EAGAIN;
        }
    }
}

} // namespace

TEST_CASE("lengths that cannot be end the connection", "[hostile]")
{
    const Adapter adapter;
    Witness witness(adapter);
    for (const std::uint32_t bytes : {0u, 15u, VFU_MAX_BYTES + 1u, 0x80000000u, UINT32_MAX}) {
        Client client(adapter.socket);
        client.send_bytes(message(VFU_GET_INFO, bytes, Bytes(16)));
        CHECK(client.receive().ended);
        witness.check();
    }
    Client client(adapter.socket);
    client.send_bytes(message(VFU_GET_INFO, 32, Bytes(16), 2)); // neither command nor reply
    CHECK(client.receive().ended);
}

TEST_CASE("messages may come byte by byte, with a descriptor at any of them", "[hostile]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, R"({"capabilities":{"vipl_memory_file":true}})");
    const int memory = memory_file(4096, true);
    Bytes payload(VFU_DMA_MAP_BYTES);
    const vfu_dma_map map = {3, 0, 0x1000, 4096};
    vfu_dma_map_write(payload.data(), &map);
    const Bytes bytes = message(VFU_DMA_MAP, VFU_HEADER_BYTES + VFU_DMA_MAP_BYTES, payload);
    for (size_t i = 0; i < bytes.size(); ++i) {
        client.send_bytes({bytes[i]}, i == 20 ? std::vector<int>{memory} : std::vector<int>{});
    }
    CHECK(client.receive().header.error == 0);
    CHECK(client.run(FAKE_DMA_WRITE, 0x1000, 4096));
    close(memory);
}

TEST_CASE("more descriptors than a message may have end the connection, and none stays open", "[hostile]")
{
    const Adapter adapter;
    Witness witness(adapter);
    const int event = eventfd(0, EFD_CLOEXEC);
    const unsigned before = open_descriptors();
    {
        Client client(adapter.socket);
        const Bytes bytes = message(VFU_GET_INFO, 32, Bytes(16));
        client.send_bytes(Bytes(bytes.begin(), bytes.begin() + 20), std::vector<int>(16, event));
        client.send_bytes(Bytes(bytes.begin() + 20, bytes.end()), std::vector<int>(16, event));
        CHECK(client.receive().ended);
    }
    {
        Client client(adapter.socket);
        for (int i = 0; i < 100; ++i) { // which nobody asked for
            client.send(VFU_REGION_READ, Client::access(0, FAKE_ID, 4), std::vector<int>(16, event));
            CHECK(client.receive().header.error == 0);
        }
    }
    witness.check();
    witness.check();
    CHECK(open_descriptors() <= before);
    close(event);
}

TEST_CASE("a program that takes no replies is not served any more, and disturbs nobody", "[hostile]")
{
    const Adapter adapter;
    Witness witness(adapter);
    Client client(adapter.socket);
    const Bytes request =
        message(VFU_REGION_READ, VFU_HEADER_BYTES + VFU_ACCESS_BYTES, Client::access(0, FAKE_BUFFER, 4096));
    size_t sent_all = 0, requests = 0;
    for (int idle = 0; idle < 50;) {
        size_t sent = 0;
        if (vipl_unix_send(client.fd, request.data() + sent_all % request.size(),
                           request.size() - sent_all % request.size(), nullptr, 0, &sent) == EAGAIN) {
            witness.check(); // in which time the adapter does with the other one what it can
            ++idle;
        }
        sent_all += sent;
    }
    requests = sent_all / request.size();
    std::vector<Message> replies;
    for (size_t i = 0; i < requests; ++i) { // all are answered as soon as it takes them
        REQUIRE(client.receive().payload.size() == VFU_ACCESS_BYTES + 4096);
    }
    witness.check();
}

TEST_CASE("any bytes at all leave the adapter and the other programs alone", "[hostile]")
{
    std::mt19937 random(3);
    const Adapter adapter;
    Witness witness(adapter);
    for (int round = 0; round < 60; ++round) {
        Client client(adapter.socket, round % 2 == 0);
        bool open = true;
        for (int i = 0; i < 40 && open; ++i) {
            Bytes noise(random() % 300);
            for (auto &byte : noise) {
                byte = static_cast<std::uint8_t>(random());
            }
            size_t sent = 0;
            (void)vipl_unix_send(client.fd, noise.data(), noise.size(), nullptr, 0, &sent);
            open = drain(client.fd);
        }
        witness.check();
    }
}

TEST_CASE("messages that are whole and say anything leave the adapter and the other programs alone",
          "[hostile]")
{
    std::mt19937 random(4);
    const std::uint64_t odd[] = {0,         1,          4,          0x1000,     0x10000,          0x200000,
                                 0x1000000, 0x7FFFFFFF, 0xFFFFFFFF, UINT64_MAX, UINT64_MAX - 4095};
    const Adapter adapter;
    Witness witness(adapter);
    const int fds[] = {memory_file(65536, true), memory_file(65536, false), eventfd(0, EFD_CLOEXEC),
                       adapter_test::memory_file(1, true)};
    for (int round = 0; round < 40; ++round) {
        Client client(adapter.socket, true,
                      R"({"capabilities":{"vipl_memory_file":true,"write_multiple":true}})");
        bool open = true;
        for (int i = 0; i < 400 && open; ++i) {
            Bytes payload;
            for (unsigned n = random() % 6; n > 0; --n) {
                put(payload, random() % 3 == 0 ? odd[random() % 11] : random() % 32,
                    random() % 2 == 0 ? 4 : 8);
            }
            std::vector<int> pass;
            for (unsigned n = random() % 8; n < 2; ++n) {
                pass.push_back(fds[random() % 4]);
            }
            const unsigned command = random() % 20;
            const Bytes bytes = message(
                command == VFU_VERSION || command == VFU_DMA_READ ? unsigned{VFU_REGION_WRITE} : command,
                static_cast<std::uint32_t>(VFU_HEADER_BYTES + payload.size()), payload,
                random() % 8 == 0 ? VFU_NO_REPLY : 0);
            size_t sent = 0;
            (void)vipl_unix_send(client.fd, bytes.data(), bytes.size(), pass.data(),
                                 static_cast<unsigned>(pass.size()), &sent);
            open = drain(client.fd);
        }
        witness.check();
    }
    for (const int fd : fds) {
        close(fd);
    }
}
