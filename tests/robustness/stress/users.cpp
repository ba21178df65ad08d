// SPDX-License-Identifier: MIT
//
// Another user's process knows the name of a listening socket, and speaks the language: it is hung
// up on, unheard; where the name is a path, the process does not even reach the socket. The same
// bytes of the same user are a request.
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "stress.hpp"
#include "support/forked.hpp"

#include "hostile_wire.hpp"

using namespace stress;

namespace {

constexpr int kAtOnceMs = 8000; // the library waits ten seconds for a stranger's first word

constexpr uid_t kNobody = 65534;

/** Asks, as that user, at the place of the program's user, over a line that stays: the reply;
 * empty: hung up. */
Bytes ask_as(uid_t user, const std::string &wanted, Fd &line)
{
    Random random;
    const Claims claims;
    const Fd window(open("/dev/null", O_RDWR | O_CLOEXEC)); // which is none, and taken for none
    sockaddr_un address;
    const socklen_t length = make_name(address, wanted); // which has the user's number in it
    EXPECT(user == geteuid() || setuid(user) == 0);
    line = packet_socket();
    if (connect(line.get(), reinterpret_cast<sockaddr *>(&address), length) != 0) {
        EXPECT(errno == EACCES && library_is_portable());
        return {};
    }
    send_packet(line, make_request(wanted, random), {window.get(), claims.fd.get()});
    pollfd entry = {line.get(), POLLIN, 0};
    EXPECT(poll(&entry, 1, kAtOnceMs) == 1); // no time limit is behind it
    return receive_packet(line, 0);
}

/** Whether a request of such a user comes before the program. */
bool arrives(const Nic &nic, uid_t user)
{
    const std::string name = unique_discriminator();
    NetAddress local = nic.address(name), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, 0, remote, &attributes, &request));
    Forked child([&](const ParentLine &parent) {
        Fd line;
        const Bytes reply = ask_as(user, name, line);
        EXPECT(user == kNobody ? reply.empty() : is_reply(reply, kRejected));
        parent.await();
    });
    const VIP_RETURN rc =
        VipConnectWait(nic, local, user == kNobody ? 1000 : patience(), remote, &attributes, &request);
    if (rc == VIP_SUCCESS) {
        VipConnectReject(request);
    }
    child.tell();
    child.finish();
    return rc == VIP_SUCCESS;
}

} // namespace

TEST_CASE("a process of another user is hung up on, whatever it says", "[users]")
{
    if (geteuid() != 0) {
        std::cout << "not tried: only root may become another user" << std::endl;
        return;
    }
    const Nic nic;
    CHECK(arrives(nic, geteuid()));
    CHECK_FALSE(arrives(nic, kNobody));
}
