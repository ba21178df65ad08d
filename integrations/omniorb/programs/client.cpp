// SPDX-License-Identifier: MIT
//
// Calls Sample::Service: client FILE TIMES WORD [NUMBER]..., with the object reference in a file.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "sample.hh"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string &what)
{
    std::printf("client: WRONG: %s\n", what.c_str());
    std::exit(1);
}

void must(bool holds, const char *what)
{
    if (!holds) {
        fail(what);
    }
}

Sample::Octets pattern(CORBA::ULong bytes)
{
    Sample::Octets data;
    data.length(bytes);
    for (CORBA::ULong i = 0; i < bytes; i++) {
        data[i] = static_cast<CORBA::Octet>((i * 2654435761u) >> 11);
    }
    return data;
}

bool same(const Sample::Octets &a, const Sample::Octets &b)
{
    return a.length() == b.length() &&
           std::equal(a.get_buffer(), a.get_buffer() + a.length(), b.get_buffer());
}

void check_octets(Sample::Service_ptr service, CORBA::ULong bytes)
{
    const Sample::Octets data = pattern(bytes);
    Sample::Octets_var back = service->reflect(data);
    must(same(data, back), "bytes");
}

/* Strings go in fragments of GIOP: the ORB does not know their length before. */
void check_strings(Sample::Service_ptr service, CORBA::ULong count)
{
    Sample::Strings data;
    data.length(count);
    for (CORBA::ULong i = 0; i < count; i++) {
        data[i] = std::string(i % 300, static_cast<char>('a' + i % 26)).c_str();
    }
    Sample::Strings_var back = service->reflect_strings(data);
    must(back->length() == count, "the number of strings");
    for (CORBA::ULong i = 0; i < count; i++) {
        must(std::string(data[i]) == static_cast<const char *>(back[i]), "strings");
    }
}

void check_doubles(Sample::Service_ptr service, CORBA::ULong count)
{
    Sample::Doubles data;
    data.length(count);
    for (CORBA::ULong i = 0; i < count; i++) {
        data[i] = i * 0.37;
    }
    Sample::Doubles_var back = service->reflect_doubles(data);
    must(back->length() == count &&
             std::equal(data.get_buffer(), data.get_buffer() + count, back->get_buffer()),
         "doubles");
}

void contents(Sample::Service_ptr service)
{
    for (CORBA::ULong bytes :
         {0u, 1u, 100u, 8000u, 8192u, 16383u, 16384u, 32767u, 32768u, 65536u, 1000000u, 5000001u}) {
        check_octets(service, bytes);
    }
    for (CORBA::ULong count : {0u, 1u, 1000u, 100000u}) {
        check_doubles(service, count);
        check_strings(service, count / 10);
    }
    Sample::Octets_var got = service->get(3000000);
    must(got->length() == 3000000 && got[2999999] == static_cast<CORBA::Octet>(2999999u * 7),
         "bytes of get()");
}

/* Calls of all sizes. */
void many(Sample::Service_ptr service, int times)
{
    unsigned random = 1;
    for (int i = 0; i < times; i++) {
        random = random * 1103515245 + 12345;
        if (i % 3 == 0) {
            check_strings(service, (random >> 8) % 500);
        } else {
            check_octets(service, (random >> 8) % (1u << (random >> 16) % 19));
        }
    }
}

/* Runs a function in several threads at once. */
void in_threads(int count, const std::function<void(int)> &function)
{
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; i++) {
        threads.emplace_back([&function, i] {
            try {
                function(i);
            } catch (const CORBA::Exception &exception) {
                fail(std::string("in a thread: ") + exception._name());
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

/* A call that returns when another one has come, and calls between the two that overtake it, on one
 * connection if the ORB's options say so. Where calls wait for one another none returns. */
void overtake(Sample::Service_ptr service)
{
    const CORBA::ULong before = service->met();
    std::thread slow([&] { service->meet(2); });
    while (service->met() == before) { // the slow call is not there yet
    }
    for (int i = 0; i < 10; i++) {
        check_octets(service, 100000);
    }
    service->meet(2);
    slow.join();
}

class Called : public POA_Sample::Callback {
    CORBA::ULong call(CORBA::ULong n) override { return n + 1; }
};

void call_back(CORBA::ORB_ptr orb, Sample::Service_ptr service)
{
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var root = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = root->the_POAManager();
    CORBA::Any both;
    both <<= BiDirPolicy::BOTH;
    CORBA::PolicyList policies;
    policies.length(1);
    policies[0] = orb->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, both);
    PortableServer::POA_var poa = root->create_POA("both", manager, policies);
    auto *servant = new Called;
    PortableServer::ObjectId_var id = poa->activate_object(servant);
    Sample::Callback_var reference = servant->_this();
    manager->activate();
    must(service->call_back(reference, 100) == 5050, "the sum of the calls back");
}

/* A child has none of its parent's connections, and makes one of its own; the parent's goes on. */
void fork_client(Sample::Service_ptr service)
{
    service->null();
    const pid_t child = fork();
    if (child == 0) {
        int code = 0;
        try {
            service->null();
        } catch (const CORBA::COMM_FAILURE &) {
            code = 3;
        } catch (const CORBA::Exception &) {
            code = 4;
        }
        _exit(code);
    }
    int status = -1;
    waitpid(child, &status, 0);
    std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    contents(service);
}

/* Waits until there is a file with the reference's name and ".go" behind. */
void pause_for(const std::string &file)
{
    std::puts("paused");
    std::fflush(stdout);
    while (access((file + ".go").c_str(), F_OK) != 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

/* Calls until the server is gone. */
void until_gone(Sample::Service_ptr service)
{
    std::puts("calling");
    std::fflush(stdout);
    try {
        for (;;) {
            check_octets(service, 200000);
        }
    } catch (const CORBA::SystemException &exception) {
        std::printf("gone %s\n", exception._name());
    }
}

void measure(const char *what, int times, const std::function<void()> &call)
{
    std::vector<double> us;
    for (int i = 0; i < times / 10 + 1; i++) {
        call();
    }
    for (int i = 0; i < times; i++) {
        const auto begin = Clock::now();
        call();
        us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    double sum = 0;
    for (const double one : us) {
        sum += one;
    }
    std::sort(us.begin(), us.end());
    std::printf("%s|%.2f|%.2f|%.2f\n", what, us[us.size() / 2], sum / times, us[us.size() * 99 / 100]);
    std::fflush(stdout);
}

/* NAME|median|mean|p99, in microseconds. */
void bench(Sample::Service_ptr service, int times)
{
    const Sample::Octets small = pattern(1024);
    const Sample::Octets middle = pattern(65536);
    const Sample::Octets large = pattern(1 << 20);
    measure("null", times, [&] { service->null(); });
    measure("echo 1,024 B", times, [&] { Sample::Octets_var back = service->reflect(small); });
    measure("put 64 KiB", times / 4, [&] { service->put(middle); });
    measure("put 1 MiB", times / 40, [&] { service->put(large); });
    measure("echo 1 MiB", times / 40, [&] { Sample::Octets_var back = service->reflect(large); });
}

/* What a word of the command line does; n is the number behind it. */
void run(CORBA::ORB_ptr orb, Sample::Service_ptr service, const std::string &file, const std::string &word,
         int n)
{
    const std::map<std::string, std::function<void()>> words = {
        {"bench", [&] { bench(service, n); }},
        {"call-back", [&] { call_back(orb, service); }},
        {"contents", [&] { contents(service); }},
        {"fork", [&] { fork_client(service); }},
        {"fork-server", [&] { service->fork_child(static_cast<CORBA::ULong>(n)); }},
        {"many", [&] { many(service, n); }},
        {"null",
         [&] {
             for (int i = 0; i < n; i++) {
                 service->null();
             }
         }},
        {"pause", [&] { pause_for(file); }},
        {"put",
         [&] {
             const Sample::Octets data = pattern(65536);
             for (int i = 0; i < n; i++) {
                 service->put(data);
             }
         }},
        {"overtake", [&] { overtake(service); }},
        {"sleep", [&] { std::this_thread::sleep_for(std::chrono::milliseconds(n)); }},
        {"slow", [&] { service->slow(static_cast<CORBA::ULong>(n)); }},
        {"stop", [&] { service->stop(); }},
        {"threads", [&] { in_threads(n, [&](int) { many(service, 30); }); }},
        {"until-gone", [&] { until_gone(service); }},
        {"at-once", [&] { in_threads(n, [&](int) { service->slow(1000); }); }},
        {"meet", [&] { in_threads(n, [&](int) { service->meet(static_cast<CORBA::ULong>(n)); }); }},
        {"caller",
         [&] {
             CORBA::String_var caller = service->caller();
             std::printf("caller %s\n", static_cast<const char *>(caller));
         }},
        {"count",
         [&] {
             for (int i = 0; i < n; i++) {
                 service->count();
             }
         }},
        {"counted", [&] { std::printf("counted %u\n", static_cast<unsigned>(service->counted())); }},
        {"exit", [&] { std::exit(n); }}, // without an end of the ORB
    };
    const auto found = words.find(word);
    if (found == words.end()) {
        fail("no such word: " + word);
    }
    found->second();
    std::fflush(stdout);
}

/* Does what the words say, which are separated by numbers where they have one. */
void run_all(int argc, char **argv)
{
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    std::ifstream file(argv[1]);
    std::string text;
    std::getline(file, text);
    CORBA::Object_var object = orb->string_to_object(text.c_str());
    Sample::Service_var service = Sample::Service::_narrow(object);
    must(!CORBA::is_nil(service), "the object reference");
    for (int i = 2; i < argc; i++) {
        const bool has_number = i + 1 < argc && std::isdigit(static_cast<unsigned char>(argv[i + 1][0])) != 0;
        run(orb, service, argv[1], argv[i], has_number ? std::atoi(argv[i + 1]) : 1);
        i += has_number ? 1 : 0;
    }
    orb->destroy();
}

} // namespace

/* client FILE TIMES WORD [NUMBER]...: TIMES ORBs, one after the other, each of which does all. */
int main(int argc, char **argv)
{
    if (argc < 4) {
        std::fprintf(stderr, "usage: client FILE TIMES WORD [NUMBER]...\n");
        return 2;
    }
    try {
        const int times = std::atoi(argv[2]);
        for (int i = 0; i < times; i++) {
            std::vector<char *> words = {argv[0], argv[1]}; // the ORB takes its options out
            words.insert(words.end(), argv + 3, argv + argc + 1);
            run_all(argc - 1, words.data());
        }
        std::puts("client: done");
        return 0;
    } catch (const CORBA::SystemException &exception) {
        std::printf("client: %s %s\n", exception._name(), exception.NP_minorString());
        return 1;
    } catch (const CORBA::Exception &exception) {
        std::printf("client: %s\n", exception._name());
        return 1;
    }
}
