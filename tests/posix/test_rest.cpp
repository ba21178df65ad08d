// SPDX-License-Identifier: MIT
//
// POSIX extensions: a program that waits rests, with the library's threads; for something shared,
// too, and so does the process that has it.
#include <vipl/posix.h>

#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include "conformance/connect_roles.hpp"
#include "conformance/notify_log.hpp"
#include "family.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

/** How often each thread of some processes has gone to sleep, by its number. */
using Switches = std::map<std::string, long>;

void add_switches(const std::string &process, Switches &found)
{
    const std::string folder = "/proc/" + process + "/task";
    DIR *const dir = opendir(folder.c_str());
    EXPECT(dir != nullptr);
    while (const dirent *entry = readdir(dir)) {
        std::ifstream status(folder + "/" + entry->d_name + "/status");
        std::string word;
        while (entry->d_name[0] != '.' && status >> word) {
            if (word == "voluntary_ctxt_switches:") {
                status >> found[entry->d_name];
            }
        }
    }
    closedir(dir);
}

Switches switches_of(const std::vector<std::string> &processes)
{
    Switches found;
    for (const std::string &process : processes) {
        add_switches(process, found);
    }
    return found;
}

/** Of threads that are not among the others. */
Switches switches_besides(const Switches &others, const std::vector<std::string> &processes)
{
    Switches found = switches_of(processes);
    for (const auto &[thread, count] : others) {
        found.erase(thread);
    }
    return found;
}

/** Wait until none of them has gone to sleep for a moment: each thread that waits has begun to. */
Switches settled_switches_of(const std::vector<std::string> &processes, const Switches &others = {})
{
    const unsigned long long end = now_ms() + patience();
    Switches before = switches_besides(others, processes);
    for (;;) {
        let_a_moment_pass();
        Switches now = switches_besides(others, processes);
        if (now == before) {
            return now;
        }
        EXPECT(now_ms() < end);
        before.swap(now);
    }
}

void expect_rest(const Switches &before, const Switches &after, long most)
{
    for (const auto &[thread, count] : before) {
        const auto now = after.find(thread);
        EXPECT(now != after.end());
        if (now->second - count > most) {
            throw Failure("a thread went to sleep " + std::to_string(now->second - count) + " times");
        }
    }
}

} // namespace

TEST_CASE("waits for what is shared wake no process more than once a second", "[sharing][posix][tasks]")
{
    constexpr VIP_ULONG kRest = 3000;
    const Nic nic(device_under_test(), true);
    const Cq cq(nic);
    const Vi vi(nic);
    const std::vector<std::function<void()>> waits = {
        [&] {
            VIP_DESCRIPTOR *done = nullptr;
            VipRecvWait(vi, VIP_INFINITE, &done);
        },
        [&] {
            VIP_VI_HANDLE told = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            VipCQWait(cq, VIP_INFINITE, &told, &recv);
        },
        [&] {
            NetAddress listen = nic.address(unique_discriminator());
            NetAddress from;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE request = nullptr;
            VipConnectWait(nic, listen, VIP_INFINITE, from, &attributes, &request);
        },
    };
    std::vector<std::unique_ptr<Fork>> waiters;
    std::vector<std::string> processes = {std::to_string(server())};
    for (const auto &wait : waits) {
        waiters.push_back(std::make_unique<Fork>(wait));
        processes.push_back(std::to_string(waiters.back()->pid()));
    }
    const Switches before = settled_switches_of(processes);
    const unsigned long long start = now_ms();
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT,
               VipSendWait(vi, kRest, &done)); // this process waits, too: the end of that is the event
    const Switches after = switches_of(processes);
    expect_rest(before, after, static_cast<long>((now_ms() - start) / 1000) + 2);
    for (const auto &waiter : waiters) {
        waiter->kill(); // which had not ended
    }
}

TEST_CASE("a program that waits is not woken until what it waits for comes", "[VipRecvWait][posix]")
{
    constexpr unsigned kRest = 2000 / kMoment;
    const Nic bystander;
    const Cq empty(bystander); // this thread waits for it while it looks at those that come now
    const Switches others = switches_of({"self"});
    NotifyLog log;
    ConnectedPair pair;
    REQUIRE_VIP(VipRecvNotify(pair.client, log.context(), NotifyLog::vi_handler)); // a library thread
    const auto receive = [&] { return received(pair.server); };
    const auto expect_message = [&](const std::function<VIP_DESCRIPTOR *()> &receive_it) {
        const Work in = pair.server_memory.transfer(pair.server_memory.bytes(16));
        post_recv(pair.server, in);
        post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("no rest any more")));
        sent(pair.client);
        EXPECT(receive_it() == in.desc);
    };
    expect_message(receive);
    let_moments_pass(empty, kRest); // timers of what was sent run out
    std::future<VIP_DESCRIPTOR *> waiting = std::async(std::launch::async, receive);
    const Switches before = settled_switches_of({"self"}, others);
    EXPECT(before.size() > 1);
    let_moments_pass(empty, kRest);
    expect_rest(before, switches_of({"self"}), 3);
    expect_message([&] { return waiting.get(); });
}
