// SPDX-License-Identifier: MIT
//
// The default error handler: what no handler of the program's hears of is a line in the log, once.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>
#include <string>

#include "internal.hpp"
#include "support/objects.hpp"
#include "support/stderr_of.hpp"

using namespace vipl_test;

namespace {

std::ptrdiff_t lines_of(const std::string &log)
{
    return std::count(log.begin(), log.end(), '\n');
}

std::string handle_text(const char *what, const void *handle)
{
    char text[64];
    std::snprintf(text, sizeof text, "%s %p", what, handle);
    return text;
}

} // namespace

TEST_CASE("a lost connection is one line of the default error handler", "[default_handler]")
{
    set_environment("VIPL_LOG", nullptr); // what a program gets that asks for nothing
    ConnectedPair pair;
    const std::string log = stderr_of([&] {
        REQUIRE(VipDisconnect(pair.client) == VIP_SUCCESS);
        pair.server.await(VIP_STATE_ERROR);
        VipErrorCallback(pair.server_nic, nullptr, nullptr);
        let_a_moment_pass(); // the line follows the state
    });
    INFO(log);
    REQUIRE(lines_of(log) == 1);
    REQUIRE(log.find("error: connection lost") != std::string::npos);
    REQUIRE(log.find(handle_text("vi", pair.server)) != std::string::npos);
}

TEST_CASE("a denied access is one line too, and VIPL_LOG=off is none", "[default_handler]")
{
    for (const bool off : {false, true}) {
        set_environment("VIPL_LOG", off ? "off" : "error");
        ConnectedPair pair(VIP_SERVICE_UNRELIABLE);
        set_environment("VIPL_LOG", nullptr);
        const std::string log = stderr_of([&] {
            const Span bytes = pair.client_memory.bytes(8);
            post_send(pair.client, pair.client_memory.rdma(VIP_CONTROL_OP_RDMAWRITE, {4096, 77}, bytes));
            VIP_DESCRIPTOR *done = nullptr;
            VipSendWait(pair.client, patience(), &done);
            let_a_moment_pass();
        });
        INFO(log);
        REQUIRE(lines_of(log) == (off ? 0 : 1));
        REQUIRE((log.find("error: RDMA write refused") != std::string::npos) == !off);
    }
    vipl_log_set_level(VIPL_LOG_ERROR, false);
}
