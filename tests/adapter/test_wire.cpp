// SPDX-License-Identifier: MIT
//
// Wires: frames between adapters as datagrams, on interfaces and through virtual ones.
#include "raw_client.hpp"

#include <sys/wait.h>

extern "C" {
#include "devices/rnic/efe/frame.h"
}

using namespace adapter_test;

namespace {

struct Wire {
    explicit Wire(const std::string &text)
    {
        const int error = rnic_adapter_wire_open(text.c_str(), false, &wire, &address);
        INFO(text);
        REQUIRE(error == 0);
    }
    ~Wire() { rnic_adapter_wire_close(wire); }
    Wire(const Wire &) = delete;
    Wire &operator=(const Wire &) = delete;
    void send(const Bytes &frame) const
    {
        rnic_adapter_wire_send(wire, frame.data(), static_cast<std::uint32_t>(frame.size()));
    }
    Bytes receive(int ms) const
    {
        Bytes frame(9100);
        const int fd = rnic_adapter_wire_fd(wire);
        std::uint32_t bytes = 0;
        while (bytes == 0 && vipl_poll(&fd, 1, ms, nullptr) == 0) {
            bytes = rnic_adapter_wire_receive(wire, frame.data(), static_cast<std::uint32_t>(frame.size()));
        }
        frame.resize(bytes);
        return frame;
    }
    bool gets(const Bytes &wanted) const { return receive(wait_ms()) == wanted; }
    bool gets_nothing() const { return receive(vipl_test::kMoment).empty(); }
    rnic_adapter_wire *wire = nullptr;
    rnic_adapter_wire_address address{};
};

/** A frame of EFE between cards whose addresses end in these bytes. */
Bytes frame(std::uint8_t to, std::uint8_t from, bool broken = false)
{
    Bytes out(2000);
    efe_header header{};
    const std::uint8_t mac[6] = {2, 0, 0, 0, 0, 0};
    std::copy(mac, mac + 6, header.to_mac);
    std::copy(mac, mac + 6, header.from_mac);
    header.to_mac[5] = to;
    header.from_mac[5] = from;
    header.type = EFE_PROBE;
    header.epoch = 1;
    efe_frame_write(out.data(), &header);
    out.resize(efe_frame_seal(out.data()));
    efe_header back;
    REQUIRE(efe_frame_read(out.data(), out.size(), &back) == EFE_FRAME_OK);
    out.back() = static_cast<std::uint8_t>(out.back() ^ (broken ? 1 : 0));
    return out;
}

} // namespace

TEST_CASE("the switch alone is no wire, and wrong texts are refused", "[wire]")
{
    rnic_adapter_wire *wire = nullptr;
    rnic_adapter_wire_address address{};
    CHECK(rnic_adapter_wire_open("switch", false, &wire, &address) == 0);
    CHECK(wire == nullptr);
    for (const std::string &text :
         {std::string(""), std::string("switc"), std::string("udp:"), std::string("udp:127.0.0.1"),
          std::string("udp:127.0.0.1:0"), std::string("udp:127.0.0.1:65536"), std::string("udp:127.0.0.1:x"),
          std::string("udp:127.0.0.1:9x"), std::string("udp::9"), std::string("udp:127.0.0.1:9,"),
          std::string("udp:127.0.0.1:9,peer"), std::string("udp:127.0.0.1:9,peer=127.0.0.1"),
          std::string("udp:127.0.0.1:9,peer=02:00:00:00:00@127.0.0.1:9"),
          std::string("udp:127.0.0.1:9,peer=@127.0.0.1:9"), std::string("udp:[::1:9"),
          "udp:" + std::string(1000, 'x') + ":9"}) {
        INFO(text);
        CHECK(rnic_adapter_wire_open(text.c_str(), false, &wire, &address) == EINVAL);
    }
    CHECK(rnic_adapter_wire_open("packet:nosuchinterface", false, &wire, &address) != 0);
    CHECK(rnic_adapter_wire_open("packet:lo", false, &wire, &address) != 0); // no Ethernet, or no right
    CHECK(wire == nullptr);
}

TEST_CASE("frames in datagrams go where their address is known to be", "[wire]")
{
    const std::string a = port(), b = port(), c = port();
    const Wire one("udp:127.0.0.1:" + a + ",peer=02:00:00:00:00:0B@127.0.0.1:" + b +
                   ",peer=02:00:00:00:00:0c@127.0.0.1:" + c);
    const Wire two("udp:127.0.0.1:" + b), three("udp:127.0.0.1:" + c);
    CHECK(one.address.mtu == 1400);
    one.send(frame(0x0B, 0x0A));
    CHECK(two.gets(frame(0x0B, 0x0A)));
    two.send(frame(0x0A, 0x0B)); // whose place it has just learnt
    CHECK(one.gets(frame(0x0A, 0x0B)));
    one.send(frame(0x0C, 0x0A));
    CHECK(three.gets(frame(0x0C, 0x0A)));
    one.send(frame(0x0D, 0x0A)); // which is nowhere
    two.send(frame(0x0C, 0x0B)); // and which two has not heard of
    CHECK((two.gets_nothing() && three.gets_nothing()));
    const auto *counted = rnic_adapter_wire_counted(one.wire);
    CHECK((counted->sent == 2 && counted->received == 1 && counted->lost == 1));
}

TEST_CASE("addresses are learnt from whole frames only, and those given stay", "[wire]")
{
    const std::string a = port(), b = port(), c = port();
    const Wire one("udp:127.0.0.1:" + a + ",peer=02:00:00:00:00:0B@127.0.0.1:" + b);
    const Wire two("udp:127.0.0.1:" + b), liar("udp:127.0.0.1:" + c + ",peer=127.0.0.1:" + a);
    liar.send(frame(0x0A, 0x0B)); // as if it were two
    CHECK(one.gets(frame(0x0A, 0x0B)));
    one.send(frame(0x0B, 0x0A));
    CHECK(two.gets(frame(0x0B, 0x0A)));
    liar.send(frame(0x0A, 0x0E, true));
    CHECK(one.gets(frame(0x0A, 0x0E, true))); // the card drops it
    one.send(frame(0x0E, 0x0A));
    CHECK(liar.gets_nothing());
    liar.send({1, 2, 3});
    CHECK(one.gets({1, 2, 3}));
    liar.send(frame(0x0A, 0x0E));
    CHECK(one.gets(frame(0x0A, 0x0E)));
    one.send(frame(0x0E, 0x0A));
    CHECK(liar.gets(frame(0x0E, 0x0A)));
}

TEST_CASE("peers without an address get what is for nobody who is known", "[wire]")
{
    const std::string a = port(), b = port(), c = port();
    const Wire one("udp:127.0.0.1:" + a + ",peer=127.0.0.1:" + b + ",peer=127.0.0.1:" + c);
    const Wire two("udp:127.0.0.1:" + b + ",peer=127.0.0.1:" + a), three("udp:127.0.0.1:" + c);
    one.send(frame(0x0B, 0x0A));
    CHECK((two.gets(frame(0x0B, 0x0A)) && three.gets(frame(0x0B, 0x0A))));
    two.send(frame(0x0A, 0x0B));
    CHECK(one.gets(frame(0x0A, 0x0B)));
    one.send(frame(0x0B, 0x0A)); // known now
    CHECK((two.gets(frame(0x0B, 0x0A)) && three.gets_nothing()));
}

TEST_CASE("more addresses than are kept replace those that were learnt first", "[wire]")
{
    const std::string a = port(), b = port();
    const Wire one("udp:127.0.0.1:" + a + ",peer=02:00:00:00:00:FF@127.0.0.1:" + b);
    const Wire two("udp:127.0.0.1:" + b + ",peer=127.0.0.1:" + a);
    for (unsigned i = 0; i < RNIC_ADAPTER_WIRE_MAX_PEERS; ++i) {
        two.send(frame(0x0A, static_cast<std::uint8_t>(i)));
        REQUIRE(one.gets(frame(0x0A, static_cast<std::uint8_t>(i))));
    }
    one.send(frame(0, 0x0A));
    CHECK(two.gets_nothing());
    for (const std::uint8_t known : {1, RNIC_ADAPTER_WIRE_MAX_PEERS - 1, 0xFF}) {
        one.send(frame(known, 0x0A));
        CHECK(two.gets(frame(known, 0x0A)));
    }
}

#if !defined(__SANITIZE_THREAD__) // a child of a program with threads
enum Outcome { kGood, kBad, kMayNot };

/** Has a child with a network of its own run the case; it may not be allowed to make interfaces. */
void in_own_network(Outcome (*run)())
{
    const pid_t child = fork();
    if (child == 0) {
        _exit(unshare(CLONE_NEWNET) == 0 ? run() : kMayNot);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kMayNot) {
        WARN("this process may not make interfaces");
    } else {
        CHECK(WEXITSTATUS(status) == kGood);
    }
}

TEST_CASE("frames go through an interface of the system, as real frames", "[wire]")
{
    in_own_network([] {
        if (access("/dev/net/tun", R_OK | W_OK) != 0) {
            return kMayNot;
        }
        rnic_adapter_wire *tap = nullptr, *packet = nullptr;
        rnic_adapter_wire_address tap_address{}, address{};
        if (rnic_adapter_wire_open("tap:vipltest0", false, &tap, &tap_address) != 0) {
            return kMayNot;
        }
        const bool up = std::system("ip link set vipltest0 address 02:00:00:00:00:0b mtu 4000 up") == 0;
        bool good = up && rnic_adapter_wire_open("packet:vipltest0", false, &packet, &address) == 0;
        good = good && address.has_mac && address.mac[5] == 0x0B && address.mtu == 4000;
        const Bytes out = frame(0x0C, 0x0B), in = frame(0x0B, 0x0C);
        Bytes got(9100);
        const auto receive = [&](rnic_adapter_wire *wire) {
            const int fd = rnic_adapter_wire_fd(wire);
            std::uint32_t bytes = 0;
            do { // the system sends frames of its own through a tap
                bytes =
                    vipl_poll(&fd, 1, wait_ms(), nullptr) == 0
                        ? rnic_adapter_wire_receive(wire, got.data(), static_cast<std::uint32_t>(got.size()))
                        : 0;
            } while (bytes > 14 && (got[12] != 0x88 || got[13] != 0xB5));
            return Bytes(got.begin(), got.begin() + bytes);
        };
        if (good) {
            rnic_adapter_wire_send(packet, out.data(), static_cast<std::uint32_t>(out.size()));
            good = receive(tap) == out;
            rnic_adapter_wire_send(tap, in.data(), static_cast<std::uint32_t>(in.size()));
            good = receive(packet) == in && good;
            good = good && !rnic_adapter_wire_is_gone(tap) && std::system("ip link delete vipltest0") == 0;
            good = good && receive(tap).empty() && rnic_adapter_wire_is_gone(tap);
        }
        return !up ? kMayNot : good ? kGood : kBad;
    });
}

TEST_CASE("a wire for raw queue pairs takes frames of every type, for whomever, with their tags, and not "
          "its own",
          "[wire]")
{
    in_own_network([] {
        rnic_adapter_wire *a = nullptr, *b = nullptr;
        rnic_adapter_wire_address address{};
        const bool up = std::system("ip link add vipla type veth peer name viplb && "
                                    "for i in vipla viplb; do "
                                    "echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6 2>/dev/null; "
                                    "ip link set $i up; done") == 0;
        if (up) { // until the system sends: what is sent before is lost, and it takes its time on a busy machine
            (void)std::system(
                "for i in vipla viplb; do "
                "until ip -o link show $i | grep 'state UP' | grep -qv 'qdisc noop'; do :; done; done");
        }
        bool good = up && rnic_adapter_wire_open("packet:vipla", true, &a, &address) == 0 &&
                    rnic_adapter_wire_open("packet:viplb", true, &b, &address) == 0;
        Bytes got(9100);
        const auto receive = [&](rnic_adapter_wire *wire, int ms) {
            const int fd = rnic_adapter_wire_fd(wire);
            const std::uint32_t bytes =
                vipl_poll(&fd, 1, ms, nullptr) == 0
                    ? rnic_adapter_wire_receive(wire, got.data(), static_cast<std::uint32_t>(got.size()))
                    : 0;
            return Bytes(got.begin(), got.begin() + bytes);
        };
        for (const char *type : {"\x08\x06", "\x81\x00", "\x88\xa8", "\x88\xb5"}) {
            Bytes out(100, 7); // for somebody else
            std::copy(type, type + 2, out.begin() + 12);
            out[14] = 0x20; // of a tag
            out[15] = 0x05;
            if (good) {
                rnic_adapter_wire_send(a, out.data(), static_cast<std::uint32_t>(out.size()));
                good = receive(b, wait_ms()) == out;
            }
        }
        good = good && receive(a, 0).empty() && rnic_adapter_wire_counted(a)->sent == 4;
        return !up ? kMayNot : good ? kGood : kBad;
    });
}

TEST_CASE("an adapter whose interface is removed has no link any more, and sleeps", "[wire]")
{
    in_own_network([] {
        const Folder folder;
        const std::string path = folder.path + "/s";
        rnic_adapter_config config{};
        char what[256];
        rnic_adapter *adapter = nullptr;
        config.card.functions = 1;
        config.socket = path.c_str();
        config.wire = "tap:vipltest1";
        if (rnic_adapter_create(&config, &adapter, what, sizeof what) != 0) {
            return kMayNot;
        }
        const bool removed = std::system("ip link delete vipltest1") == 0;
        const std::uint64_t end = vipl_now_ns() + std::uint64_t{10000000000} * vipl_test::timeout_scale();
        do { // it is told of the end, and then of nothing more
            adapter->is_active = false;
            rnic_adapter_turn(adapter);
        } while (removed && (adapter->is_active || !fake_card_link_is_down(&adapter->card)) &&
                 vipl_now_ns() < end);
        const bool good = !adapter->is_active && fake_card_link_is_down(&adapter->card);
        rnic_adapter_destroy(adapter);
        return !removed ? kMayNot : good ? kGood : kBad;
    });
}
#endif
