// SPDX-License-Identifier: MIT
//
// A hostile process of the same user: it sends nonsense and mutated packets to the listening
// sockets, claims other versions, opens a thousand calls and says nothing, answers requests with
// lies, and scribbles over the shared segments it is given. Meanwhile a good connection to another
// process keeps working, and a good client still gets in.
#include "stress.hpp"

#include "good.hpp"
#include "hostile_wire.hpp"

using namespace stress;

namespace {

constexpr unsigned kPackets = 10000, kHalfOpen = 1000;

// --- the attacker --------------------------------------------------------------------------------

void expect_refused(const std::string &name, size_t spoiled, VIP_UINT8 value, Random &random)
{
    Bytes request = make_request(name, random);
    request[spoiled] = value;
    const Fd line = call(name);
    send_packet(line, request);
    const Bytes reply = receive_packet(line, static_cast<int>(patience()));
    EXPECT(is_reply(reply, kRefused));
    EXPECT_EQ(kVersion, reply[5]);
}

void throw_packets(const std::string &name, Random &random)
{
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (unsigned i = 0; i < kPackets;) {
        const Fd line = call(name);
        const Claims claims(below(random, 16) != 0);
        bool whole = true;
        for (std::uint64_t n = 1 + below(random, 3); n > 0; --n, ++i) {
            Bytes packet = below(random, 4) == 0 ? noise(random) : make_request(name, random);
            if (below(random, 16) != 0) {
                mutate(packet, random);
                whole = false;
            }
            std::vector<int> fds(below(random, 4) == 0 ? below(random, 5) : 0, null.get());
            if (below(random, 2) == 0) { // without claim words no program gets it
                fds = {null.get(), claims.fd.get()};
            }
            send_packet(line, packet, fds);
        }
        if (whole || below(random, 8) == 0) {
            Fd segment;
            Bytes reply = receive_packet(line, 20);
            while (!reply.empty() && !is_reply(reply, kRejected)) {
                if (is_reply(reply, kAccept) && segment.get() >= 0) {
                    scribble(segment.get(), random);
                    send_packet(line, {'!'});
                }
                reply = receive_packet(line, 20, &segment);
            }
        }
    }
}

void attack(const Scene &scene, Line &line)
{
    allow_many_descriptors();
    Random random = scene.random();
    const std::string name = scene.name();
    expect_refused(name, 4, 255, random);
    expect_refused(name, 4, 0, random);
    expect_refused(name, 5, own_byte_order() == 1 ? 2 : 1, random);
    expect_refused(name, 6, sizeof(void *) == 8 ? 4 : 8, random);
    line.sync();
    throw_packets(name, random);
    line.sync();
    {
        std::vector<Fd> half_open;
        for (unsigned i = 0; i < kHalfOpen; ++i) {
            half_open.push_back(call(name));
        }
        line.sync(); // the good client connects now
        line.sync();
    }
}

/** Answer every call with some lie. */
void lie(const Scene &scene, Line &line)
{
    Random random = scene.random();
    const Fd listener = listen_as(scene.name());
    line.sync();
    pollfd either[2] = {{listener.get(), POLLIN, 0}, {line.fd(), POLLIN, 0}};
    while (poll(either, 2, -1) > 0 && either[1].revents == 0) {
        const Fd caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        Fd exports, claims;
        const Bytes request = receive_packet(caller, static_cast<int>(patience()), &exports, &claims);
        if (below(random, 8) != 0) {
            lie_about(request, claims.get(), random);
        }
        const Fd segment(memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        const size_t bytes = kSegmentHead + 2 * (kRingHead + 1024 * kSlot);
        EXPECT(ftruncate(segment.get(), static_cast<off_t>(below(random, 4) == 0 ? 4096 : bytes)) == 0);
        const std::uint32_t head[] = {0x56504C31, kVersion, 0x01020304, sizeof(void *) * 8, 1024};
        EXPECT(pwrite(segment.get(), head, sizeof head, 0) == sizeof head);
        if (below(random, 4) != 0) {
            fcntl(segment.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        }
        Bytes reply = below(random, 8) == 0
                          ? noise(random)
                          : make_reply(static_cast<VIP_UINT8>(below(random, 3) != 0 ? +kAccept : random()),
                                       random(), random);
        if (below(random, 3) == 0) {
            mutate(reply, random);
        }
        const std::vector<int> fds(below(random, 4), segment.get());
        if (below(random, 2) == 0) {
            scribble(segment.get(), random);
        }
        send_packet(caller, reply, fds);
        receive_packet(caller, 20); // "!", or it hangs up
        scribble(segment.get(), random);
        send_packet(caller, {'!'});
        receive_packet(caller, 20);
    }
    free_name(scene.name());
    line.sync();
}

// --- the good server -----------------------------------------------------------------------------

/** Take requests: the good client's are accepted, of the others most are rejected. */
void serve(const Nic &nic, const std::string &name, const std::atomic<bool> &stop, Random random)
{
    const Vi spare(nic), bait(nic);
    NetAddress local = nic.address(name);
    unsigned evil = 0;
    while (!stop) {
        NetAddress from(2 * 65536);
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        const VIP_RETURN rc = VipConnectWait(nic, local, 20, from, &attributes, &connection);
        if (rc != VIP_SUCCESS) {
            EXPECT_EQ(VIP_TIMEOUT, rc);
            continue;
        }
        if (from.discriminator() == "me") {
            VipDisconnect(spare);
            REQUIRE_VIP(VipConnectAccept(connection, spare));
        } else if (below(random, 8) != 0 || VipConnectAccept(connection, bait) != VIP_SUCCESS) {
            VipConnectReject(connection); // may be gone already
            ++evil;
        } else {
            VipDisconnect(bait);
        }
    }
    std::cout << evil << " requests of the attacker were rejected" << std::endl;
}

} // namespace

TEST_CASE("nonsense at a listening socket hurts nobody else", "[hostile]")
{
    allow_many_descriptors();
    const Scene scene = make_scene();
    Child good(be_good, scene);
    const Nic nic;
    REQUIRE_VIP(VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
    Peers peers(nic);
    REQUIRE_VIP(accept_on(nic, scene.name(), peers.vi));
    std::atomic<bool> stop{false};
    Crew crew;
    crew.add([&] { echo(peers); });
    crew.add([&] { serve(nic, scene.name(), stop, scene.random()); });
    try {
        Child attacker(attack, scene);
        attacker.line.sync(); // other versions were refused
        EXPECT(attacker.line.receive<char>(8 * patience()) == 'S');
        attacker.line.send('S'); // all packets are sent
        attacker.line.sync();    // a thousand calls are open
        good.line.send('C');
        const unsigned took = good.line.receive<unsigned>();
        std::cout << "a good client got in after " << took << " ms" << std::endl;
        EXPECT(took < 1000 * timeout_scale());
        attacker.line.sync();
        attacker.finish();
        good.line.send('E');
        std::cout << good.line.receive<unsigned>() << " good messages meanwhile" << std::endl;
        good.finish();
    } catch (...) {
        stop = true;
        good.kill();
        crew.join();
        throw;
    }
    stop = true;
    crew.join();
}

TEST_CASE("lies in answer to a request hurt only that request", "[hostile]")
{
    const Scene scene = make_scene();
    Child liar(lie, scene);
    liar.line.sync();
    let_a_moment_pass();
    std::thread([] {}).join();
    const Census before = take_census();
    {
        const Nic nic;
        REQUIRE_VIP(VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
        const Vi vi(nic);
        Memory memory(nic, 4096);
        const Work work = memory.transfer(memory.bytes(64));
        unsigned connected = 0;
        for (unsigned round = 0; round < 300; ++round) {
            if (request_to(nic, scene.name(), vi, 30 * slowness()) == VIP_SUCCESS) {
                ++connected;
                VIP_DESCRIPTOR *done = nullptr;
                post_send(vi, work);
                VipSendWait(vi, 1, &done);
            }
            REQUIRE_VIP(VipDisconnect(vi));
            VIP_DESCRIPTOR *done = nullptr;
            VipSendDone(vi, &done);
        }
        std::cout << connected << " of 300 requests believed a lie" << std::endl;
        EXPECT(connected > 0); // else the lies are of another version
        liar.line.sync();
        liar.finish();
    }
    expect_census(before, [] {});
}
