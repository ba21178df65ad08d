// SPDX-License-Identifier: MIT
//
// The contract checks of debug builds: a device that keeps the contract passes, and each breach
// ends a child process with its own line. The device is made up here and does nothing; only the
// hook around it is under test, so core's NIC is never touched.
#include <csignal>
#include <cstring>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

#include "fault_scene.hpp"

#define _Thread_local thread_local // vi.h

extern "C" {
#include "base/lock_rank.h"
#include "core/nic.h"
#include "core/vi.h"
#include "hook/hook.h"
}

using namespace vipl_test;

namespace {

/** What the made-up device answers. */
struct Answers {
    vipl_limits limits{};
    vipl_posted posted = VIPL_POSTED_DONE;
    VIP_UINT32 status = 0;
    VIP_RETURN cancelled = VIP_TIMEOUT;
    VIP_RETURN accepted = VIP_SUCCESS;
    std::function<void()> in_connect;
    std::function<VIP_RETURN()> in_listen;
} answers;

VIP_RETURN open(vipl_nic *, const char *, vipl_be_nic **out)
{
    *out = nullptr;
    return VIP_SUCCESS;
}

vipl_backend made_up_device()
{
    vipl_backend ops{};
    ops.name = "made-up";
    ops.open = open;
    ops.close = [](vipl_be_nic *) {};
    ops.limits = [](vipl_be_nic *, vipl_limits *out) { *out = answers.limits; };
    ops.address = [](vipl_be_nic *, vipl_address *out) { *out = vipl_address{}; };
    ops.vi_create = [](vipl_be_nic *, vipl_vi *) { return VIP_SUCCESS; };
    ops.vi_destroy = [](vipl_be_nic *, vipl_vi *) {};
    ops.connect = [](vipl_be_nic *, vipl_vi *, const vipl_address *, const vipl_address *,
                     vipl_connect_kind) {
        if (answers.in_connect) {
            answers.in_connect();
        }
        return VIP_SUCCESS;
    };
    ops.listen = [](vipl_be_nic *, const vipl_address *) { return answers.in_listen(); };
    ops.connect_cancel = [](vipl_be_nic *, vipl_vi *, bool) { return answers.cancelled; };
    ops.conn_accept = [](vipl_be_nic *, vipl_conn *, vipl_vi *) { return answers.accepted; };
    ops.revoke = [](vipl_be_nic *, vipl_vi *) {};
    ops.post_send = [](vipl_be_nic *, vipl_vi *, vipl_send *send) {
        send->status = answers.status;
        return answers.posted;
    };
    ops.poll = [](vipl_be_nic *) {};
    return ops;
}

/** The device behind the hook, and a connected VI with one send posted. */
struct Hooked {
    Hooked() : device(made_up_device()), nic(new vipl_nic()), vi(new vipl_vi())
    {
        answers = Answers();
        answers.limits.reliability_levels = VIP_SERVICE_UNRELIABLE;
        vipl_biased_init(&vi->send.lock, VIPL_RANK_SEND);
        vipl_biased_init(&vi->recv.lock, VIPL_RANK_RECV);
        vi->nic = nic.get();
        vi->state = VIP_STATE_CONNECTED;
        vi->attributes.MaxTransferSize = 4096;
        vi->send.posted = 1;
        REQUIRE_VIP(vipl_hook_open(&device, nic.get(), "", &ops, &be));
        EXPECT(ops != &device);
    }
    void send(VIP_UINT32 sequence = 0)
    {
        auto work = std::make_unique<vipl_send>();
        work->op = VIP_CONTROL_OP_SENDRECV;
        work->status = 0;
        work->has_outstanding = false;
        work->local.count = 0;
        work->local.bytes = 0;
        work->sequence = sequence;
        ops->post_send(be, vi.get(), work.get());
    }
    void locked_send(VIP_UINT32 sequence = 0)
    {
        vipl_biased_lock(&vi->send.lock);
        send(sequence);
        vipl_biased_unlock(&vi->send.lock);
    }

    vipl_backend device;
    std::unique_ptr<vipl_nic> nic;
    std::unique_ptr<vipl_vi> vi;
    const vipl_backend *ops = nullptr;
    vipl_be_nic *be = nullptr;
};

/** The last line that a child which does this to a hooked device prints; empty if it lives. */
std::string breach(const std::function<void(Hooked &)> &act)
{
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], STDERR_FILENO);
        vipl_error_output_begin(true);
        std::signal(SIGABRT, SIG_DFL);
        Hooked hooked;
        act(hooked);
        _exit(0);
    }
    close(fds[1]);
    std::string text;
    char bytes[256];
    for (ssize_t n; (n = read(fds[0], bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<size_t>(n));
    }
    close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    CHECK((aborted || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
    CHECK(aborted == !text.empty());
    return text;
}

/** That a breach is found: the operation and part of the rule are in its line. */
[[maybe_unused]] void found(const char *op, const char *rule, const std::function<void(Hooked &)> &act)
{
    const std::string text = breach(act);
    INFO(text);
    CHECK(text.find(std::string("contract of backend.h broken: ") + op + ": ") != std::string::npos);
    CHECK(text.find(rule) != std::string::npos);
}

} // namespace

#ifdef NDEBUG

TEST_CASE("without debug there is no hook unless it is asked for", "[contract]")
{
    const vipl_backend device = made_up_device();
    const auto nic = std::make_unique<vipl_nic>();
    const vipl_backend *ops = nullptr;
    vipl_be_nic *be = nullptr;
    REQUIRE_VIP(vipl_hook_open(&device, nic.get(), "", &ops, &be));
    CHECK(ops == &device);
}

#else

TEST_CASE("who keeps the contract lives", "[contract]")
{
    CHECK(breach([](Hooked &h) {
              vipl_limits limits;
              h.ops->limits(h.be, &limits);
              REQUIRE_VIP(h.ops->vi_create(h.be, h.vi.get()));
              REQUIRE_VIP(
                  h.ops->connect(h.be, h.vi.get(), nullptr, new vipl_address(), VIPL_CONNECT_PATIENT));
              h.locked_send();
              answers.posted = VIPL_POSTED_PENDING;
              h.locked_send();
              vipl_vi_lock(h.vi.get());
              h.ops->revoke(h.be, h.vi.get());
              vipl_vi_unlock(h.vi.get());
              h.ops->poll(h.be);
              h.ops->vi_destroy(h.be, h.vi.get());
              h.ops->close(h.be);
          }).empty());
}

TEST_CASE("the child of a signal handler that forks in a call goes on with that call, and lives",
          "[contract][fork]")
{
    CHECK(breach([](Hooked &h) {
              vipl_mutex listening{};
              vipl_mutex_init(&listening, VIPL_RANK_LISTEN);
              answers.in_listen = [] {
                  const pid_t child = fork(); // by the handler, while the call waits for the card
                  if (child != 0) {
                      int status = 0;
                      waitpid(child, &status, 0);
                      _exit(status == 0 ? 0 : 1);
                  }
                  return VIP_ERROR_RESOURCE;
              };
              REQUIRE(vipl_fork_watch([] {}, true) == 0);
              vipl_mutex_lock(&listening);
              const vipl_address where{};
              h.ops->listen(h.be, &where);
              vipl_mutex_unlock(&listening);
          }).empty());
}

TEST_CASE("locks that core must and must not hold", "[contract]")
{
    found("post_send", "send lock is held", [](Hooked &h) { h.send(); });
    found("post_send", "no receive lock", [](Hooked &h) {
        vipl_vi_lock(h.vi.get());
        h.send();
    });
    found("revoke", "receive lock is held", [](Hooked &h) {
        vipl_biased_lock(&h.vi->send.lock);
        h.ops->revoke(h.be, h.vi.get());
    });
    found("revoke", "send lock is held", [](Hooked &h) { h.ops->revoke(h.be, h.vi.get()); });
    found("poll", "no lock held", [](Hooked &h) {
        vipl_biased_lock(&h.vi->recv.lock);
        h.ops->poll(h.be);
    });
    found("vi_create", "no lock held", [](Hooked &h) {
        vipl_biased_lock(&h.vi->send.lock);
        h.ops->vi_create(h.be, h.vi.get());
    });
}

TEST_CASE("sends that core must not hand over", "[contract]")
{
    found("post_send", "in posting order", [](Hooked &h) { h.locked_send(1); });
    found("post_send", "is connected", [](Hooked &h) {
        h.vi->state = VIP_STATE_ERROR;
        h.locked_send();
    });
    found("post_send", "has_outstanding", [](Hooked &h) {
        h.vi->send.posted = 2;
        h.vi->send.executed = 1;
        h.locked_send(1);
    });
}

TEST_CASE("answers that a device must not give", "[contract]")
{
    found("post_send", "DONE, PENDING or AGAIN", [](Hooked &h) {
        answers.posted = static_cast<vipl_posted>(3);
        h.locked_send();
    });
    found("post_send", "error bits only", [](Hooked &h) {
        answers.status = VIP_STATUS_DONE;
        h.locked_send();
    });
    found("connect_cancel", "a code that the contract names", [](Hooked &h) {
        answers.cancelled = VIP_NOT_DONE;
        h.ops->connect_cancel(h.be, h.vi.get(), false);
    });
    found("conn_accept", "a code that the contract names", [](Hooked &h) {
        answers.accepted = VIP_NOT_REACHABLE;
        h.ops->conn_accept(h.be, nullptr, h.vi.get());
    });
    found("limits", "RDMA Read only", [](Hooked &h) {
        vipl_limits limits;
        answers.limits.rdma_read_levels = VIP_SERVICE_RELIABLE_DELIVERY;
        h.ops->limits(h.be, &limits);
    });
    found("limits", "max_segments", [](Hooked &h) {
        vipl_limits limits;
        answers.limits.max_segments = VIPL_MAX_SEGMENTS + 1;
        h.ops->limits(h.be, &limits);
    });
}

TEST_CASE("life times", "[contract]")
{
    found("close", "no VI is left", [](Hooked &h) {
        h.ops->vi_create(h.be, h.vi.get());
        h.ops->close(h.be);
    });
    found("vi_destroy", "once for each", [](Hooked &h) { h.ops->vi_destroy(h.be, h.vi.get()); });
    found("connect", "one request of a VI", [](Hooked &h) {
        const vipl_address where{};
        answers.in_connect = [&] { h.ops->connect(h.be, h.vi.get(), &where, &where, VIPL_CONNECT_PATIENT); };
        h.ops->connect(h.be, h.vi.get(), &where, &where, VIPL_CONNECT_PATIENT);
    });
    found("vi_destroy", "no connect of the VI", [](Hooked &h) {
        const vipl_address where{};
        h.ops->vi_create(h.be, h.vi.get());
        answers.in_connect = [&] { h.ops->vi_destroy(h.be, h.vi.get()); };
        h.ops->connect(h.be, h.vi.get(), &where, &where, VIPL_CONNECT_PATIENT);
    });
}

#endif
