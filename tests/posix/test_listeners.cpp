// SPDX-License-Identifier: MIT
//
// POSIX, several processes that wait for requests for one name: a request is one program's, and
// each of them gets its own. One that a program leaves unanswered is another's.
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "readiness.hpp"
#include "stopped.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

/** A process that waits for one request and accepts it, perhaps after a pause without end. */
class Waiter {
public:
    explicit Waiter(const std::string &name, bool accepts = true)
        : child_([=] {
              const Nic nic;
              const Vi vi(nic);
              ready_.open();
              VIP_RETURN rc = VIP_TIMEOUT;
              while (rc == VIP_TIMEOUT) { // over tcp two may take a request, and one gets it
                  const Incoming incoming = wait_for_request(nic, nic.address(name));
                  took_.open();
                  while (!accepts) {
                      pause();
                  }
                  rc = VipConnectAccept(incoming.connection, vi);
              }
              REQUIRE_VIP(rc);
              end_.pass(); // the connection is to be there for as long as the case
          })
    {
        ready_.pass();
        await_rest(std::to_string(child_.pid()));
    }

    pid_t pid() const { return child_.pid(); }
    void await_request() const { took_.pass(); }
    void kill() { child_.kill(); }
    void finish()
    {
        end_.open();
        child_.finish();
    }

private:
    Gate ready_, took_, end_; // before the child, which has them too
    Fork child_;
};

/** A process's requests, each from a VI of its own. */
struct Asker {
    VIP_RETURN ask(const std::string &name)
    {
        vis.push_back(std::make_unique<Vi>(nic));
        return request(*vis.back(), nic.address(name + "c" + std::to_string(vis.size())), nic.address(name));
    }

    const Nic nic;
    std::vector<std::unique_ptr<Vi>> vis;
};

} // namespace

TEST_CASE("of several processes that wait for one name each gets a request of its own",
          "[VipConnectWait][posix][private][fork]")
{
    for (const unsigned count : {2u, 5u}) {
        const std::string name = unique_discriminator();
        std::vector<std::unique_ptr<Waiter>> waiters;
        while (waiters.size() < count) {
            waiters.push_back(std::make_unique<Waiter>(name));
        }
        Asker asker;
        for (unsigned i = 0; i < count; ++i) {
            REQUIRE_VIP(asker.ask(name));
        }
        for (const auto &waiter : waiters) {
            waiter->finish();
        }
    }
}

TEST_CASE("requests that come at the same time are shared out among the processes that wait",
          "[VipConnectWait][posix][private][fork]")
{
    constexpr unsigned kCount = 4;
    const std::string name = unique_discriminator();
    std::vector<std::unique_ptr<Waiter>> waiters;
    while (waiters.size() < kCount) {
        waiters.push_back(std::make_unique<Waiter>(name));
    }
    std::vector<std::unique_ptr<Asker>> askers;
    std::vector<std::future<VIP_RETURN>> answers;
    for (unsigned i = 0; i < kCount; ++i) {
        askers.push_back(std::make_unique<Asker>());
        answers.push_back(std::async(std::launch::async, [&, i] { return askers[i]->ask(name); }));
    }
    for (std::future<VIP_RETURN> &answer : answers) {
        REQUIRE_VIP(answer.get());
    }
    for (const auto &waiter : waiters) {
        waiter->finish();
    }
}

TEST_CASE("requests that come at the same time are taken by one brief listener after the other",
          "[VipConnectWait][VipxOpenNic][posix][private][fork]")
{
    if (!device_is_loopback()) {
        throw NotApplicable("several NIC handles of a process listen for one name over loopback alone");
    }
    constexpr unsigned kRounds = 10;
    const std::string name = unique_discriminator();
    const Gate ready, end;
    Fork child([&] {
        const Nic always;
        expect_no_request(always, always.address(name), 0);
        ready.open();
        std::vector<std::unique_ptr<Nic>> nics;
        std::vector<std::unique_ptr<Vi>> vis;
        while (vis.size() < 2 * kRounds) {
            nics.push_back(std::make_unique<Nic>(device_under_test(), Nic::Flags{VIPX_BRIEF_LISTENER}));
            vis.push_back(std::make_unique<Vi>(*nics.back()));
            const Incoming incoming = wait_for_request(*nics.back(), nics.back()->address(name));
            REQUIRE_VIP(VipConnectAccept(incoming.connection, *vis.back()));
        }
        end.pass();
    });
    ready.pass();
    Asker first, second;
    for (unsigned i = 0; i < kRounds; ++i) {
        std::future<VIP_RETURN> answer = std::async(std::launch::async, [&] { return first.ask(name); });
        REQUIRE_VIP(second.ask(name));
        REQUIRE_VIP(answer.get());
    }
    end.open();
    child.finish();
}

TEST_CASE("a request that a process took and left unanswered when it was killed is another's",
          "[VipConnectWait][posix][private][fork]")
{
    const std::string name = unique_discriminator();
    Waiter holder(name, false);
    Asker asker;
    std::future<VIP_RETURN> answer = std::async(std::launch::async, [&] { return asker.ask(name); });
    holder.await_request();
    Waiter waiter(name);
    holder.kill();
    REQUIRE_VIP(answer.get());
    waiter.finish();
}

TEST_CASE("a request goes past a process that waits for it and is stopped",
          "[VipConnectWait][posix][private][fork]")
{
    if (device_is_tcp()) {
        throw NotApplicable("the system accepts for a stopped process: a request over tcp waits for it");
    }
    const std::string name = unique_discriminator();
    Waiter first(name), second(name);
    Asker asker;
    {
        const Stopped stopped(first.pid());
        REQUIRE_VIP(asker.ask(name));
        second.await_request();
    }
    REQUIRE_VIP(asker.ask(name)); // of the one before the first has heard, and that it is over
    first.finish();
    second.finish();
}

namespace {

/** A request of a process that is stopped while a VI accepts it. */
class StoppedRequester {
public:
    StoppedRequester()
        : requester_([this] {
              Asker asker;
              REQUIRE_VIP(asker.ask(name_));
              end_.pass(); // the connection is to be there for as long as the case
          }),
          vi_(nic_), incoming_(wait_for_request(nic_, nic_.address(name_))), stopped_(requester_.pid()),
          accepted_(
              std::async(std::launch::async, VipConnectAccept, incoming_.connection, VIP_VI_HANDLE(vi_)))
    {
    }

    bool is_answered_in(std::chrono::seconds time) const
    {
        return accepted_.wait_for(time) == std::future_status::ready;
    }
    void go_on() { stopped_.go_on(); }
    void kill() { requester_.kill(); }
    VIP_RETURN accepted() { return accepted_.get(); }
    void finish()
    {
        end_.open();
        requester_.finish();
    }

private:
    const std::string name_ = unique_discriminator();
    Gate end_; // before the process, which has it too
    Fork requester_;
    const Nic nic_;
    const Vi vi_;
    const Incoming incoming_;
    Stopped stopped_;
    std::future<VIP_RETURN> accepted_;
};

} // namespace

TEST_CASE("a requester that does not run for two seconds while a VI accepts is waited for",
          "[VipConnectAccept][posix][private][fork]")
{
    StoppedRequester requester;
    CHECK(!requester.is_answered_in(std::chrono::seconds(2)));
    requester.go_on();
    REQUIRE_VIP(requester.accepted());
    requester.finish();
}

TEST_CASE("a requester that is killed while a VI accepts is not waited for",
          "[VipConnectAccept][posix][private][fork]")
{
    StoppedRequester requester;
    requester.kill();
    CHECK(requester.is_answered_in(std::chrono::seconds(3)));
    REQUIRE_RC(VIP_TIMEOUT, requester.accepted());
}

namespace {

/** A NIC handle that listens, and has heard of a request that its program has not asked for. */
struct Closing {
    explicit Closing(const std::string &name) { expect_no_request(nic, nic.address(name), 0); }
    void await_request() const { expect_readable(fd_of(VIPX_FD_CONNECT, nic)); }

    const Nic nic;
};

VIP_RETURN ask_at_once(const Asker &asker, const Vi &vi, const std::string &name)
{
    VIP_VI_ATTRIBUTES attributes{};
    NetAddress local = asker.nic.address("x"), remote = asker.nic.address(name);
    return VipxConnectRequest(vi, local, remote, VIPX_AT_ONCE, VIP_INFINITE, &attributes);
}

void accept_next(const std::string &name)
{
    const Nic nic;
    const Vi vi(nic);
    REQUIRE_VIP(VipConnectAccept(wait_for_request(nic, nic.address(name)).connection, vi));
}

} // namespace

TEST_CASE("a request that no VipConnectWait has returned goes past a NIC handle that is closed",
          "[VipCloseNic][posix]")
{
    const std::string name = unique_discriminator();
    auto closing = std::make_unique<Closing>(name);
    Asker asker;
    std::future<VIP_RETURN> answer = std::async(std::launch::async, [&] { return asker.ask(name); });
    closing->await_request();
    closing.reset();
    accept_next(name);
    REQUIRE_VIP(answer.get());
}

TEST_CASE("a request that no VipConnectWait has returned goes past a NIC handle that is closed, to a process",
          "[VipCloseNic][posix][private][fork]")
{
    const std::string name = unique_discriminator();
    Gate asks, listens;
    Fork child([&] {
        asks.pass();
        Asker asker;
        REQUIRE_VIP(asker.ask(name));
    });
    Fork next([&] {
        listens.pass();
        accept_next(name);
    });
    auto closing = std::make_unique<Closing>(name);
    asks.open();
    closing->await_request();
    closing.reset();
    listens.open();
    next.finish();
    child.finish();
}

TEST_CASE(
    "a request at once that no VipConnectWait has returned is VIP_NO_MATCH when the NIC handle is closed",
    "[VipCloseNic][posix]")
{
    const std::string name = unique_discriminator();
    auto closing = std::make_unique<Closing>(name);
    const Asker asker;
    const Vi vi(asker.nic);
    std::future<VIP_RETURN> answer =
        std::async(std::launch::async, [&] { return ask_at_once(asker, vi, name); });
    closing->await_request();
    closing.reset();
    REQUIRE_RC(VIP_NO_MATCH, answer.get());
}

TEST_CASE("a request that VipConnectWait has returned is rejected by the close of the NIC handle",
          "[VipCloseNic][posix]")
{
    const std::string name = unique_discriminator();
    auto closing = std::make_unique<Closing>(name);
    Asker asker;
    std::future<VIP_RETURN> answer = std::async(std::launch::async, [&] { return asker.ask(name); });
    wait_for_request(closing->nic, closing->nic.address(name));
    closing.reset();
    REQUIRE_RC(VIP_REJECT, answer.get());
}

TEST_CASE("a request whose time was up before the listener looked is not returned", "[VipConnectWait][posix]")
{
    const std::string name = unique_discriminator();
    const Closing listener(name);
    const Nic nic;
    const Vi vi(nic);
    REQUIRE_RC(VIP_TIMEOUT, request(vi, nic.address("x"), nic.address(name), kMoment));
    expect_no_request(listener.nic, listener.nic.address(name), 0);
}
