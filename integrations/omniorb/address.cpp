// SPDX-License-Identifier: MIT
#include "address.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <unistd.h>

#include "active.hpp"
#include "turn.hpp"
#include "vipl_nic.hpp"

namespace omnivipl {

namespace {

constexpr uint64_t NS_PER_MS = 1000000;
// How long a request waits for a server that does not answer, where the ORB sets no time limit. A
// server that runs answers in less than a millisecond, or in seconds where the CPUs have twenty
// times as much to do.
constexpr uint64_t MOST_CONNECT_NS = 10000 * NS_PER_MS;

int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool from_hex(const std::string &text, std::string &bytes)
{
    bytes.clear();
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        if (digit(text[i]) < 0 || digit(text[i + 1]) < 0) {
            return false;
        }
        bytes.push_back(static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1])));
    }
    return text.size() % 2 == 0 && !bytes.empty() && bytes.size() <= VIPL_MAX_HOST_ADDRESS;
}

std::string to_hex(const std::string &bytes)
{
    std::string text;
    for (const char byte : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
        text += digits;
    }
    return text;
}

/* The name by which this process asks. */
std::string own_name()
{
    static std::atomic<unsigned> serial{0};
    return "call." + std::to_string(getpid()) + "." + std::to_string(++serial);
}

void log_failure(const std::string &address, const char *why)
{
    if (omniORB::trace(10)) {
        omniORB::logger log;
        log << "giop:vipl: no connection to " << address.c_str() << ": " << why << "\n";
    }
}

/* The milliseconds until a deadline, rounded up. */
VIP_ULONG ms_left(uint64_t deadline)
{
    const uint64_t now = vipl_now_ns();
    return deadline <= now ? 0 : static_cast<VIP_ULONG>((deadline - now + NS_PER_MS - 1) / NS_PER_MS);
}

/* A request for a connection, and what it has come to. */
struct Request {
    VIP_VI_HANDLE vi;
    NetAddress local;
    NetAddress remote;
    VIP_ULONG ms;
    VIP_RETURN rc;
};

/* Where no program listens, the ORB goes on to the next address at once. */
void make_request(void *of)
{
    auto *request = static_cast<Request *>(of);
    VIP_VI_ATTRIBUTES attributes;
    request->rc = VipxConnectRequest(request->vi, &request->local.net, &request->remote.net, VIPX_AT_ONCE,
                                     request->ms, &attributes);
}

/* A thread that has waited on a NIC handle keeps a descriptor until it ends. A thread of the ORB
 * whose connection's NIC handle is shared does not wait there later, so it has another thread
 * request the connection. */
void make_request_elsewhere(Request &request)
{
    vipl_thread thread;
    request.rc = VIP_ERROR_RESOURCE;
    if (vipl_thread_start(&thread, make_request, &request) == 0) {
        vipl_thread_join(&thread);
    }
}

} // namespace

std::string Location::text() const
{
    return PREFIX + kind + ":" + to_hex(host) + ":" + name;
}

bool Location::parse(const std::string &text, Location &location)
{
    const size_t last = text.rfind(':');
    const size_t first =
        last == std::string::npos || last == 0 ? std::string::npos : text.rfind(':', last - 1);
    if (first == std::string::npos) {
        return false;
    }
    location.kind = text.substr(0, first);
    location.name = text.substr(last + 1);
    return !location.kind.empty() && location.kind.find(':') == std::string::npos && is_name(location.name) &&
           from_hex(text.substr(first + 1, last - first - 1), location.host);
}

bool is_name(const std::string &name)
{
    if (name.empty() || name.size() > VIPL_MAX_DISCRIMINATOR) {
        return false;
    }
    for (const char c : name) {
        if (c <= ' ' || c > '~' || c == ':') {
            return false;
        }
    }
    return true;
}

const std::string &this_host()
{
    static const std::string text = [] {
        char space[64] = "";
        std::string boot;
        std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
        const ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
        return boot + " " + std::string(space, length > 0 ? static_cast<size_t>(length) : 0);
    }();
    return text;
}

omni::giopActiveConnection *Address::Connect(const omni_time_t &time, CORBA::ULong /*flags*/,
                                             CORBA::Boolean &timed_out) const
{
    const uint64_t asked = to_deadline(time);
    vipl_stream *stream;
    timed_out = asked == 0;
    if (timed_out) {
        return nullptr;
    }
    const Turn turn(text_, asked);
    if (!turn.has()) {
        log_failure(text_, "its time was up before its turn came");
        timed_out = true;
        return nullptr;
    }
    const uint64_t deadline = std::min(asked, vipl_now_ns() + MOST_CONNECT_NS); // the server's time
    const std::shared_ptr<Nic> nic = Nic::for_client(device_of(location_.kind));
    if (!nic || vipl_stream_new(nic->get(), &stream) != 0) {
        return nullptr;
    }
    const Location own = {location_.kind, nic->address(), own_name()};
    Request request = {vipl_stream_vi(stream), NetAddress(own.host, own.name),
                       NetAddress(location_.host, location_.name), ms_left(deadline), VIP_NOT_DONE};
    if (nic->is_shared()) {
        make_request_elsewhere(request);
    } else {
        make_request(&request);
    }
    if (request.rc != VIP_SUCCESS) {
        log_failure(text_, VipxExplainError(request.rc));
        vipl_stream_close(stream);
        timed_out = asked <= vipl_now_ns();
        return nullptr;
    }
    auto *connection = new ActiveConnection(nic, stream, own.text(), text_);
    bool late = false;
    if (!connection->receive_hello(deadline, late)) {
        log_failure(text_, "the server has not sent its hello");
        timed_out = late && asked <= vipl_now_ns();
        connection->decrRefCount(1);
        return nullptr;
    }
    return connection;
}

} // namespace omnivipl
