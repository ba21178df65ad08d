// SPDX-License-Identifier: MIT
//
// VIPL_TRACE: the calls are in it, each as one whole line of the documented shape, whoever else
// writes to the same file.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include <unistd.h>

#include <vipl/posix.h>

#include "fault_scene.hpp"
#include "trace_file.hpp"

using namespace vipl_test;

TEST_CASE("a trace has the life of a connection", "[trace]")
{
    const TraceFile file;
    {
        const EnvironmentSetting setting("VIPL_TRACE", file.path());
        FaultyPair pair("status=40@2", VIP_SERVICE_UNRELIABLE);
        pair.receive();
        pair.send("1234567");
        sent(pair.client);
        received(pair.server);
        pair.send();
        send_failed(pair.client);
        char name[] = "localhost";
        NetAddress found;
        REQUIRE_VIP(VipNSGetHostByName(pair.client_nic, name, found, 0));
    }
    const std::vector<std::string> lines = file.lines();
    CHECK(has(lines, "open", "-> SUCCESS"));
    CHECK(has(lines, "limits", "levels=7"));
    CHECK(has(lines, "address", "host_bytes=6"));
    CHECK(has(lines, "region_add", "bytes=262144"));
    CHECK(has(lines, "region_remove", "handle=0x"));
    CHECK(has(lines, "vi_create", "-> SUCCESS"));
    CHECK(has(lines, "vi_destroy", "vi=0x"));
    CHECK(has(lines, "listen", "-> SUCCESS"));
    CHECK(has(lines, "connect", "peer=0 -> SUCCESS"));
    CHECK(has(lines, "conn_taken", "conn=0x"));
    CHECK(has(lines, "conn_accept", "-> SUCCESS"));
    const bool at_once = std::strncmp(device_under_test(), "rnic", 4) != 0;
    CHECK(has(lines, "post_send",
              at_once ? "op=send sequence=0 bytes=7 -> DONE status=0x0"
                      : "op=send sequence=0 bytes=7 -> PENDING"));
    CHECK(has(lines, "post_send", "op=send sequence=1 bytes=7 -> DONE status=0x40"));
    CHECK(has(lines, "resolve", "name=localhost index=0 -> SUCCESS"));
    CHECK(has(lines, "revoke", "handle=0x"));
    CHECK(has(lines, "disconnect", "vi=0x"));
    CHECK(has(lines, "close", "nic=0x"));
    CHECK_FALSE(has(lines, "poll", ""));
}

TEST_CASE("a trace has the other calls, and their refusals", "[trace]")
{
    const TraceFile file;
    {
        const EnvironmentSetting setting("VIPL_TRACE", file.path());
        const auto nic = nic_with_faults("resource=@2,names=@1,reach=@2");
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        VIP_VI_HANDLE none = nullptr;
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipCreateVi(*nic, &attributes, nullptr, nullptr, &none));
        const Vi vi(*nic);
        NetAddress local = nic->address("me");
        NetAddress remote = nic->address(unique_discriminator());
        REQUIRE_RC(VIP_NO_MATCH, VipConnectRequest(vi, local, remote, 0, &attributes));
        REQUIRE_RC(VIP_NOT_REACHABLE, VipConnectRequest(vi, local, remote, 0, &attributes));
        char name[256];
        VIP_ULONG length = sizeof name;
        REQUIRE_RC(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(*nic, local, name, &length));
    }
    const std::vector<std::string> lines = file.lines();
    CHECK(has(lines, "vi_create", "-> ERROR_RESOURCE"));
    CHECK(has(lines, "connect_cancel", "-> NO_MATCH"));
    CHECK(has(lines, "connect", "-> NOT_REACHABLE"));
    CHECK(has(lines, "reverse", "host_bytes=6 -> ERROR_NAMESERVICE"));
}

TEST_CASE("every line is whole and of the documented shape, with several writers", "[trace]")
{
    const TraceFile file;
    constexpr int kThreads = 4;
    constexpr int kSends = 200;
    {
        const EnvironmentSetting setting("VIPL_TRACE", file.path());
        FaultyPair pairs[kThreads] = {
            FaultyPair("drop", VIP_SERVICE_UNRELIABLE), FaultyPair("drop", VIP_SERVICE_UNRELIABLE),
            FaultyPair("drop", VIP_SERVICE_UNRELIABLE), FaultyPair("drop", VIP_SERVICE_UNRELIABLE)};
        std::vector<std::thread> threads;
        for (FaultyPair &pair : pairs) {
            threads.emplace_back([&pair] {
                for (int i = 0; i < kSends; ++i) {
                    pair.send();
                    sent(pair.client);
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    }
    int sends = 0;
    std::map<std::string, unsigned> threads;
    for (const std::string &line : file.lines()) {
        unsigned long long us;
        unsigned ns, thread;
        int process;
        char name[32];
        void *nic;
        INFO(line);
        REQUIRE(std::sscanf(line.c_str(), "%llu.%3u %d.%u %31s nic=%p vi=", &us, &ns, &process, &thread, name,
                            &nic) == 6);
        REQUIRE(process == getpid());
        sends += std::strcmp(name, "post_send") == 0 ? 1 : 0;
        threads[std::to_string(thread)]++;
    }
    CHECK(sends == kThreads * kSends);
    CHECK(threads.size() >= kThreads);
}

extern const char *const page_of_faults; // a path

namespace {

/** The names of the operations that are in the trace of a connection and a message; `said`: what
 * comes to the log. */
std::set<std::string> traced(const char *only, std::string *said)
{
    const TraceFile file;
    REQUIRE_VIP(VipxSetLogHandler(
        VIPX_LOG_ERROR,
        [](VIP_PVOID context, VIPX_LOG_LEVEL, const char *line) {
            static_cast<std::string *>(context)->append(line);
        },
        said));
    {
        const EnvironmentSetting setting("VIPL_TRACE", file.path());
        const EnvironmentSetting selection("VIPL_TRACE_OPS", only);
        FaultyPair pair("");
        pair.receive();
        pair.send();
        sent(pair.client);
        received(pair.server);
    }
    REQUIRE_VIP(VipxSetLogHandler(VIPX_LOG_ERROR, nullptr, nullptr));
    std::set<std::string> names;
    for (const std::string &line : file.lines()) {
        names.insert(operation(line));
    }
    return names;
}

} // namespace

TEST_CASE("a trace has the operations that VIPL_TRACE_OPS names, and no others", "[trace]")
{
    std::string said;
    using Names = std::set<std::string>;
    CHECK(traced("connect", &said) == Names{"connect"});
    CHECK(traced("post_send", &said) == Names{"post_send"});
    CHECK(traced(" region_add,, region_remove ,", &said) == Names{"region_add", "region_remove"});
    CHECK(traced("describe", &said).empty());
    CHECK(traced("", &said).count("close") == 1); // as if it were not set
    CHECK(traced(" ,", &said).count("post_send") == 1);
    CHECK(said.find("VIPL_TRACE_OPS") == std::string::npos);
}

TEST_CASE("what is no operation is named, and the others count", "[trace]")
{
    std::string said;
    using Names = std::set<std::string>;
    CHECK(traced("sned,connect", &said) == Names{"connect"});
    CHECK(said.find("VIPL_TRACE_OPS: \"sned\" is no operation") != std::string::npos);
    said.clear();
    CHECK(traced("post", &said).empty());
    CHECK(said.find("\"post\"") != std::string::npos);
}

TEST_CASE("the operations of docs/use/faults.md are those that a trace can have", "[trace]")
{
    std::string word, said;
    std::ifstream page(page_of_faults);
    REQUIRE(page.is_open());
    std::string text(std::istreambuf_iterator<char>(page), {});
    const std::size_t begin = text.find("The operations are ");
    REQUIRE(begin != std::string::npos);
    const std::string listed = text.substr(begin, text.find('.', begin) - begin); // one sentence
    std::set<std::string> names;
    std::istringstream words(listed);
    for (std::string part; std::getline(words, part, '`') && std::getline(words, word, '`');) {
        names.insert(word);
        traced(word.c_str(), &said);
    }
    INFO(said);
    CHECK(said.find("VIPL_TRACE_OPS") == std::string::npos);
    for (const std::string &each : traced("", &said)) {
        INFO(each);
        CHECK(names.count(each) == 1);
    }
}

TEST_CASE("a trace is appended to", "[trace]")
{
    const TraceFile file;
    const EnvironmentSetting setting("VIPL_TRACE", file.path());
    {
        const Nic nic;
    }
    const size_t once = file.lines().size();
    {
        const Nic nic;
    }
    CHECK(once == 5); // open, limits, address, regions_end, close
    CHECK(file.lines().size() == 2 * once);
}

TEST_CASE("a file that cannot be written is no reason to fail", "[trace]")
{
    const EnvironmentSetting setting("VIPL_TRACE", "/nonexistent/folder/trace");
    const Nic nic;
    const Vi vi(nic);
    CHECK(vi.state() == VIP_STATE_IDLE);
}
