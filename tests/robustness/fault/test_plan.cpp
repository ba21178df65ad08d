// SPDX-License-Identifier: MIT
//
// Fault plans: what each fault of a send does, which calls it strikes, that a seed fixes the
// course, and what is said about items that are none.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "fault_scene.hpp"
#include "support/stderr_of.hpp"

extern "C" {
#include "base/log.h"
#include "hook/faults.h"
}

using namespace vipl_test;

extern const char *const page_of_faults; // a path

namespace {

/** Which of `count` sends fail, as a string of '.' and 'x'. */
std::string course(const std::string &plan, int count)
{
    FaultyPair pair(plan, VIP_SERVICE_UNRELIABLE);
    std::string seen;
    for (int i = 0; i < count; ++i) {
        const Work out = pair.client_memory.transfer(pair.client_memory.bytes(8));
        post_send(pair.client, out);
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(pair.client, patience(), &done);
        CHECK(done == out.desc);
        seen += rc == VIP_SUCCESS ? '.' : 'x';
    }
    return seen;
}

vipl_faults parse(const char *plan)
{
    vipl_faults faults;
    vipl_faults_read(&faults, plan);
    return faults;
}

/** What the library says on stderr while this runs. */
std::string said(const std::function<void()> &body)
{
    vipl_log_set_level(VIPL_LOG_ERROR, false);
    return stderr_of(body);
}

} // namespace

TEST_CASE("drop: an unreliable message vanishes and its send succeeds", "[plan]")
{
    FaultyPair pair("drop=@2", VIP_SERVICE_UNRELIABLE);
    const Work in[2] = {pair.receive(), pair.receive()};
    for (const char *text : {"1", "2", "3"}) {
        const Work out = pair.send(text);
        CHECK(sent(pair.client) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
        CHECK(out.desc->CS.Length == 1);
    }
    CHECK(received(pair.server) == in[0].desc);
    CHECK(received(pair.server) == in[1].desc);
    CHECK(in[1].buffer.data[0] == '3');
    CHECK(pair.client.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("drop: a reliable transport that loses a message has failed", "[plan]")
{
    for (const VIP_RELIABILITY_LEVEL level :
         {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}) {
        FaultyPair pair("drop=@1", level);
        const Work in = pair.receive();
        const Work out = pair.send();
        CHECK(send_failed(pair.client) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_TRANSPORT_ERROR, out.desc);
        CHECK(receive_failed(pair.server) == in.desc);
        CHECK(pair.client.state() == VIP_STATE_ERROR);
        CHECK(pair.server.state() == VIP_STATE_ERROR);
    }
}

TEST_CASE("disconnect: the connection breaks after that send, at every level", "[plan]")
{
    for (const VIP_RELIABILITY_LEVEL level : {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY}) {
        FaultyPair pair("disconnect=@3", level);
        ErrorLog client_errors(pair.client_nic);
        ErrorLog server_errors(pair.server_nic);
        for (int i = 0; i < 3; ++i) {
            const Work in = pair.receive();
            pair.send();
            sent(pair.client);
            CHECK(received(pair.server) == in.desc);
        }
        client_errors.expect(pair.client, VIP_ERROR_CONN_LOST);
        server_errors.expect(pair.server, VIP_ERROR_CONN_LOST);
        CHECK(pair.client.state() == VIP_STATE_ERROR);
        CHECK(pair.server.state() == VIP_STATE_ERROR);
        const Work late = pair.send();
        CHECK(send_failed(pair.client) == late.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR, late.desc);
        REQUIRE_VIP(VipDisconnect(pair.client));
        REQUIRE_VIP(VipDisconnect(pair.server));
        connect_pair(pair.server_nic, pair.server, pair.client_nic, pair.client);
        pair.receive();
        pair.send();
        sent(pair.client);
    }
}

TEST_CASE("delay: every message arrives, in order, and every send completes, in order", "[plan]")
{
    for (const char *plan : {"delay", "seed=7,delay=0.5", "delay=@3/4"}) {
        FaultyPair pair(plan);
        std::vector<Work> in, out;
        for (int i = 0; i < 200; ++i) {
            in.push_back(pair.receive(8));
            out.push_back(pair.send(std::to_string(i)));
        }
        for (int i = 0; i < 200; ++i) {
            REQUIRE(received(pair.server) == in[i].desc);
            REQUIRE(in[i].desc->CS.Length == std::to_string(i).size());
            REQUIRE(in[i].buffer.text().substr(0, in[i].desc->CS.Length) == std::to_string(i));
            REQUIRE(sent(pair.client) == out[i].desc);
        }
    }
}

TEST_CASE("delay: a disconnect sends first what is held back; a destroyed VI's is forgotten", "[plan]")
{
    FaultyPair pair("delay");
    const Work in = pair.receive();
    const Work out = pair.send();
    REQUIRE_VIP(VipDisconnect(pair.client));
    CHECK(received(pair.server) == in.desc);
    CHECK(sent(pair.client) == out.desc);

    FaultyPair closed("delay", VIP_SERVICE_UNRELIABLE);
    closed.receive();
    for (int i = 0; i < 10; ++i) {
        closed.send();
    }
    REQUIRE_VIP(VipDisconnect(closed.client));
    REQUIRE_VIP(VipDestroyVi(closed.client));
    const Vi next(closed.client_nic);
    VIP_DESCRIPTOR *done = nullptr;
    for (int i = 0; i < 20; ++i) {
        REQUIRE_RC(VIP_NOT_DONE, VipSendDone(next, &done));
    }
}

TEST_CASE("delay goes together with other faults, and a held send keeps its number", "[plan]")
{
    CHECK(course("delay,corrupt=@3/3", 9) == "..x..x..x");
    CHECK(course("seed=5,delay=0.3,corrupt=@2,status=8@4,drop=@5", 6) == ".x.x..");
}

TEST_CASE("@N/M strikes the N-th and then every M-th", "[plan]")
{
    CHECK(course("corrupt=@3", 9) == "..x......");
    CHECK(course("corrupt=@3/2", 9) == "..x.x.x.x");
    CHECK(course("status=40@2/5,corrupt=@1", 9) == "xx....x..");
    CHECK(course("corrupt", 3) == "xxx");
    CHECK(course("corrupt=1.000", 3) == "xxx");
    CHECK(course("corrupt=0", 3) == "...");
}

TEST_CASE("the same seed brings the same faults, another seed others", "[plan]")
{
    const std::string first = course("seed=7,corrupt=0.3", 300);
    CHECK(course("seed=7,corrupt=0.3", 300) == first);
    CHECK(course("seed=8,corrupt=0.3", 300) != first);
    CHECK(course("corrupt=0.3,seed=7", 300) == first);
    const auto hits = std::count(first.begin(), first.end(), 'x');
    CHECK(hits > 50);
    CHECK(hits < 130);
    CHECK(course("seed=7,status=2:0.3", 300) == first);
}

TEST_CASE("an item that is none is named once, with its place, and the others count", "[plan]")
{
    vipl_faults faults;
    const std::string text = said([&] { faults = parse("drop=0.5, dorp=0.5,corrupt=@7"); });
    CHECK(faults.count == 2);
    CHECK(text.find("VIPL_FAULTS, character 11: \"dorp=0.5\"") != std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(said([&] { faults = parse(" ,, seed=3 ,drop,"); }).empty());
    CHECK(faults.count == 1);
    CHECK(faults.seed == 3);
}

TEST_CASE("what is no fault", "[plan]")
{
    const char *const bad[] = {"drop=",
                               "drop=1.1",
                               "drop=2",
                               "drop=-1",
                               "drop=@0",
                               "drop=@",
                               "drop=@1/0",
                               "drop=@1/",
                               "drop=@1x",
                               "drop=0,5",
                               "drop=@99999999999",
                               "=",
                               "=0.5",
                               "status",
                               "status=",
                               "status=0@1",
                               "status=1@1",
                               "status=200@1",
                               "status=g@1",
                               "status=40@",
                               "status=4 0",
                               "event=11@1",
                               "event=",
                               "event=LOST@1",
                               "event=CONN_LOSTX@1",
                               "rdmaread",
                               "rdmaread=on",
                               "seed",
                               "seed=x",
                               "seed=",
                               "names=maybe",
                               "drop=."};
    for (const char *plan : bad) {
        INFO(plan);
        const std::string text = said([&] { parse(plan); });
        CHECK(text.find("VIPL_FAULTS") != std::string::npos);
    }
    std::string long_plan(500, 'x');
    CHECK(said([&] { CHECK(parse(long_plan.c_str()).count == 0); }).size() < 512);
    std::string many;
    for (int i = 0; i < 40; ++i) {
        many += "drop=@7,";
    }
    CHECK_FALSE(said([&] { CHECK(parse(many.c_str()).count == VIPL_FAULT_RULES); }).empty());
}

TEST_CASE("a NIC handle opens under a plan with a wrong item, and the rest of the plan holds", "[plan]")
{
    said([] { CHECK(course("bogus=1,corrupt=@2", 3) == ".x."); });
}

TEST_CASE("the examples of docs/use/faults.md are plans, and every fault has one", "[plan]")
{
    std::ifstream page(page_of_faults);
    REQUIRE(page.is_open());
    bool seen[VIPL_FAULT_KINDS] = {};
    for (std::string line; std::getline(page, line);) {
        const size_t cell = line.find(" | `");
        const bool row =
            line.rfind("| ", 0) == 0 && line.rfind("| form", 0) != 0 && line.rfind("| `", 0) != 0;
        if (!row || cell == std::string::npos) {
            continue;
        }
        const std::string example = line.substr(cell + 4, line.find('`', cell + 4) - cell - 4);
        INFO(example);
        vipl_faults faults;
        CHECK(said([&] { faults = parse(example.c_str()); }).empty());
        REQUIRE(faults.count == 1);
        seen[faults.rules[0].kind] = true;
        const std::string name = line.substr(2, line.find(' ', 2) - 2);
        CHECK(example.rfind(name, 0) == 0);
    }
    CHECK(std::count(std::begin(seen), std::end(seen), true) == VIPL_FAULT_KINDS);
}

TEST_CASE("the examples of docs/use/faults.md do what the page says", "[plan]")
{
    CHECK(course("seed=7,corrupt=@3", 4) == "..x.");
    CHECK(course("status=8@2", 3) == ".x.");
    CHECK(course("delay=0.5", 5) == ".....");
    CHECK(course("drop=0.01", 5) == ".....");
    CHECK(course("disconnect=@1000", 1001).substr(998) == "..x");
    FaultyPair pair("event=CATASTROPHIC@1");
    ErrorLog errors(pair.client_nic);
    pair.receive();
    pair.send();
    sent(pair.client);
    CHECK(errors.next().ResourceCode == VIP_RESOURCE_NIC);
    // resource=@3, reach=@1, names, rdmaread=off: test_returns.cpp
}
