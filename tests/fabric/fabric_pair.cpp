// SPDX-License-Identifier: MIT
#include "fabric_pair.hpp"

#include <csignal>
#include <cstdlib>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vipl_test;

namespace fabric_test {

void check_call(const char *file, int line, const char *call, long expected, long seen)
{
    if (seen != expected) {
        const auto text = [](long rc) {
            return std::to_string(rc) + " (" + (rc < 0 ? fi_strerror(static_cast<int>(-rc)) : "no error") +
                   ")";
        };
        fail(file, line,
             std::string(call) + "\n    expected " + text(expected) + "\n    seen     " + text(seen));
    }
}

Info hints()
{
    Info wanted(fi_allocinfo());
    EXPECT(wanted != nullptr);
    wanted->caps = FI_MSG | FI_RMA;
    wanted->mode = FI_RX_CQ_DATA;
    wanted->ep_attr->type = FI_EP_MSG;
    wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    wanted->domain_attr->name = strdup(device_under_test());
    wanted->fabric_attr->prov_name = strdup("vipl");
    return wanted;
}

Info offer(const fi_info *wanted)
{
    fi_info *info = nullptr;
    FABRIC(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted, &info));
    return Info(info);
}

void eventually(const char *what, const std::function<bool()> &done)
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience());
    while (!done()) {
        if (std::chrono::steady_clock::now() > end) {
            fail(__FILE__, __LINE__, std::string("it has not come: ") + what);
        }
        sched_yield();
    }
}

Node::Node(fi_wait_obj wait, const fi_info *wanted)
    : info(wanted != nullptr ? offer(wanted) : offer(hints().get()))
{
    fid_fabric *a_fabric = nullptr;
    FABRIC(fi_fabric(info->fabric_attr, &a_fabric, nullptr));
    fabric.reset(a_fabric);
    fi_eq_attr eq_attributes = {};
    eq_attributes.wait_obj = wait;
    fid_eq *an_eq = nullptr;
    FABRIC(fi_eq_open(fabric.get(), &eq_attributes, &an_eq, nullptr));
    eq.reset(an_eq);
    fid_domain *a_domain = nullptr;
    FABRIC(fi_domain(fabric.get(), info.get(), &a_domain, nullptr));
    domain.reset(a_domain);
    fi_cq_attr cq_attributes = {};
    cq_attributes.format = FI_CQ_FORMAT_DATA;
    cq_attributes.wait_obj = wait;
    fid_cq *a_cq = nullptr;
    FABRIC(fi_cq_open(domain.get(), &cq_attributes, &a_cq, nullptr));
    tx.reset(a_cq);
    FABRIC(fi_cq_open(domain.get(), &cq_attributes, &a_cq, nullptr));
    rx.reset(a_cq);
}

Memory::Memory(Node &node, size_t bytes, uint64_t access) : bytes_(bytes)
{
    fid_mr *region = nullptr;
    FABRIC(fi_mr_reg(node.domain.get(), bytes_.data(), bytes, access, 0, 0, 0, &region, nullptr));
    region_.reset(region);
}

static uint8_t byte_at(unsigned seed, size_t at)
{
    return static_cast<uint8_t>(at * 7 + at / 256 + seed * 31);
}

void Memory::fill(unsigned seed)
{
    for (size_t i = 0; i < bytes_.size(); i++) {
        bytes_[i] = byte_at(seed, i);
    }
}

bool Memory::is_filled(unsigned seed, size_t first, size_t bytes) const
{
    for (size_t i = 0; i < bytes; i++) {
        if (bytes_[first + i] != byte_at(seed, i)) {
            return false;
        }
    }
    return true;
}

Listener::Listener(Node &its_node) : node(its_node)
{
    fid_pep *a_pep = nullptr;
    FABRIC(fi_passive_ep(node.fabric.get(), node.info.get(), &a_pep, nullptr));
    pep.reset(a_pep);
    FABRIC(fi_pep_bind(a_pep, &node.eq->fid, 0));
    FABRIC(fi_listen(a_pep));
}

Address Listener::address() const
{
    Address address(64);
    size_t bytes = address.size();
    FABRIC(fi_getname(&pep->fid, address.data(), &bytes));
    address.resize(bytes);
    return address;
}

Event next_event(Node &node)
{
    Event event = {};
    eventually("an event", [&] {
        uint8_t room[256] = {};
        const ssize_t bytes = fi_eq_read(node.eq.get(), &event.type, room, sizeof(room), 0);
        if (bytes == -FI_EAGAIN) {
            return false;
        }
        if (bytes == -FI_EAVAIL) {
            fi_eq_err_entry failed = {};
            EXPECT(fi_eq_readerr(node.eq.get(), &failed, 0) > 0);
            event.fid = failed.fid;
            event.error = failed.err;
            event.data.assign(static_cast<const char *>(failed.err_data), failed.err_data_size);
            return true;
        }
        EXPECT(bytes >= static_cast<ssize_t>(sizeof(fi_eq_cm_entry)));
        fi_eq_cm_entry entry;
        memcpy(&entry, room, sizeof(entry));
        event.fid = entry.fid;
        event.info.reset(entry.info);
        event.data.assign(reinterpret_cast<const char *>(room) + sizeof(entry),
                          static_cast<size_t>(bytes) - sizeof(entry));
        return true;
    });
    return event;
}

std::optional<Completion> try_completion(fid_cq *cq)
{
    Completion done = {};
    const ssize_t rc = fi_cq_read(cq, &done.entry, 1);
    if (rc == -FI_EAGAIN) {
        return std::nullopt;
    }
    if (rc == -FI_EAVAIL) {
        fi_cq_err_entry failed = {};
        EXPECT_EQ(1, fi_cq_readerr(cq, &failed, 0));
        done.entry = {failed.op_context, failed.flags, failed.len, failed.buf, failed.data};
        done.error = failed.err;
        return done;
    }
    EXPECT_EQ(1, rc);
    return done;
}

Completion next_completion(fid_cq *cq)
{
    std::optional<Completion> done;
    eventually("a completion", [&] {
        done = try_completion(cq);
        return done.has_value();
    });
    return *done;
}

Fid<fid_ep> make_endpoint(Node &node, fi_info *info, uint64_t tx_flags)
{
    fid_ep *ep = nullptr;
    FABRIC(fi_endpoint(node.domain.get(), info, &ep, nullptr));
    Fid<fid_ep> owned(ep);
    FABRIC(fi_ep_bind(ep, &node.eq->fid, 0));
    FABRIC(fi_ep_bind(ep, &node.tx->fid, FI_TRANSMIT | tx_flags));
    FABRIC(fi_ep_bind(ep, &node.rx->fid, FI_RECV));
    FABRIC(fi_enable(ep));
    return owned;
}

Pair::Pair(fi_wait_obj wait, const fi_info *wanted, uint64_t tx_flags)
    : server_side(wait, wanted), client_side(wait, wanted), listener(server_side)
{
    client = make_endpoint(client_side, client_side.info.get(), tx_flags);
    FABRIC(fi_connect(client.get(), listener.address().data(), nullptr, 0));
    const Event request = next_event(server_side);
    EXPECT_EQ(uint32_t{FI_CONNREQ}, request.type);
    server = make_endpoint(server_side, request.info.get(), tx_flags);
    FABRIC(fi_accept(server.get(), nullptr, 0));
    EXPECT_EQ(uint32_t{FI_CONNECTED}, next_event(server_side).type);
    EXPECT_EQ(uint32_t{FI_CONNECTED}, next_event(client_side).type);
}

void Pair::exchange(Memory &from, Memory &to, size_t bytes, unsigned seed)
{
    from.fill(seed);
    memset(to.data(), 0, to.size());
    FABRIC(fi_recv(server.get(), to.data(), to.size(), to.desc(), 0, &to));
    FABRIC(fi_send(client.get(), from.data(), bytes, from.desc(), 0, &from));
    const Completion sent = next_completion(client_side.tx.get());
    EXPECT_EQ(0, sent.error);
    EXPECT(sent.entry.op_context == &from);
    EXPECT_EQ(uint64_t{FI_SEND | FI_MSG}, sent.entry.flags);
    const Completion received = next_completion(server_side.rx.get());
    EXPECT_EQ(0, received.error);
    EXPECT(received.entry.op_context == &to);
    EXPECT_EQ(uint64_t{FI_RECV | FI_MSG}, received.entry.flags);
    EXPECT_EQ(bytes, received.entry.len);
    EXPECT(to.is_filled(seed, 0, bytes));
}

bool reaches_processes()
{
    return std::string(device_under_test()).find("inproc") == std::string::npos;
}

std::string log_of(const std::string &environment, const std::string &test)
{
    std::string self(4096, '\0');
    const ssize_t bytes = readlink("/proc/self/exe", self.data(), self.size());
    EXPECT(bytes > 0);
    self.resize(static_cast<size_t>(bytes));
    const std::string command = environment + " FI_LOG_PROV=vipl '" + self + "' '" + test + "' 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    EXPECT(pipe != nullptr);
    std::string text;
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
        text += static_cast<char>(c);
    }
    EXPECT_EQ(0, pclose(pipe));
    return text;
}

Peer::Peer(const Address &listener, const char *role)
{
    std::string text;
    for (const uint8_t byte : listener) {
        char digits[3];
        snprintf(digits, sizeof(digits), "%02x", byte);
        text += digits;
    }
    pid_ = fork();
    if (pid_ == 0) {
        setenv("FABRIC_PEER_ADDRESS", text.c_str(), 1);
        setenv("FABRIC_PEER_ROLE", role, 1);
        const std::string word = std::string(role).substr(0, std::string(role).find(' '));
        const bool has_case =
            word == "datagrams" || word == "garbage" || word == "answers" || word == "parts";
        const std::string cases = has_case ? "[." + word + "]" : "[.peer]";
        execl("/proc/self/exe", "vipl-fabric-tests", cases.c_str(), static_cast<char *>(nullptr));
        _exit(127);
    }
    EXPECT(pid_ > 0);
}

void Peer::kill_it()
{
    if (pid_ > 0) {
        (void)kill(pid_, SIGKILL);
        (void)waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
}

bool Peer::has_ended()
{
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) {
        return false;
    }
    pid_ = -1;
    EXPECT_EQ(0, status);
    return true;
}

Address peer_address()
{
    const std::string text = getenv("FABRIC_PEER_ADDRESS");
    Address address;
    for (size_t i = 0; i < text.size(); i += 2) {
        address.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
    }
    return address;
}

Peer::~Peer()
{
    kill_it();
}

} // namespace fabric_test
