// SPDX-License-Identifier: MIT
//
// Who gets which function, and when it is free again.
#include "raw_client.hpp"

#include <algorithm>
#include <atomic>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace adapter_test;

namespace {

/** How often each function has begun tells functions apart that were begun differently often. */
std::uint32_t attaches(Client &client)
{
    return client.get(FAKE_ATTACHES);
}

bool gets_function(const std::string &path)
{
    Client client(path, false);
    Bytes question(VFU_HEADER_BYTES + VFU_VERSION_BYTES);
    const vfu_header header = {1, VFU_VERSION, VFU_HEADER_BYTES + VFU_VERSION_BYTES, 0, 0};
    size_t sent = 0;
    vfu_header_write(question.data(), &header);
    (void)vipl_unix_send(client.fd, question.data(), question.size(), nullptr, 0,
                         &sent); // it may be refused already
    const Message told = client.receive();
    REQUIRE(!told.ended);
    return told.header.error != EBUSY;
}

/** No descriptor can be opened in this process for as long as it lives. */
class NoDescriptors {
public:
    NoDescriptors()
    {
        REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const int next = dup(STDERR_FILENO);
        REQUIRE(next >= 0);
        close(next);
        rlimit limit = before_;
        limit.rlim_cur = static_cast<rlim_t>(next);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptors(const NoDescriptors &) = delete;
    NoDescriptors &operator=(const NoDescriptors &) = delete;

private:
    rlimit before_{};
};

/** A process that ends with the test. */
struct Process {
    ~Process() { end(); }
    void end()
    {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0); // not for a grandchild
        }
        pid = -1;
    }
    pid_t pid;
};

} // namespace

TEST_CASE("each connection gets the next free function, and what it leaves begins anew", "[functions]")
{
    const Adapter adapter(2);
    Client first(adapter.socket);
    first.set(FAKE_SCRATCH, 1);
    Client second(adapter.socket);
    second.set(FAKE_SCRATCH, 2);
    CHECK(first.get(FAKE_SCRATCH) == 1);
    CHECK_FALSE(gets_function(adapter.socket));
    first.hang_up();
    Client third(adapter.socket);
    CHECK(third.get(FAKE_SCRATCH) == 0);
    CHECK(attaches(third) == 2);
    CHECK(second.get(FAKE_SCRATCH) == 2);
    CHECK(attaches(second) == 1);
}

TEST_CASE("a program that connects just before another one ends gets its function", "[functions]")
{
    const Folder folder;
    const std::string path = folder.path + "/s";
    rnic_adapter_config config{};
    char what[256];
    config.card.functions = 1;
    config.socket = path.c_str();
    rnic_adapter *adapter = nullptr;
    REQUIRE(rnic_adapter_create(&config, &adapter, what, sizeof what) == 0);
    Client first(path, false);
    rnic_adapter_turn(adapter);
    REQUIRE(adapter->users == 1);
    Client second(path, false); // what the adapter finds first, in the same turn
    first.hang_up();
    rnic_adapter_turn(adapter);
    second.send(VFU_VERSION, {0, 0, 0, 0});
    rnic_adapter_turn(adapter);
    CHECK(second.receive().header.flags == VFU_REPLY);
    rnic_adapter_destroy(adapter);
}

TEST_CASE("who connects while there are no descriptors left is served later, by a busy adapter too",
          "[functions]")
{
    const Folder folder;
    const std::string path = folder.path + "/s";
    rnic_adapter_config config{};
    char what[256];
    config.card.functions = 1;
    config.socket = path.c_str();
    rnic_adapter *adapter = nullptr;
    REQUIRE(rnic_adapter_create(&config, &adapter, what, sizeof what) == 0);
    Client client(path, false);
    int asker = -1;
    REQUIRE(vipl_unix_connect((path + ".stats").c_str(), &asker) == 0);
    {
        const NoDescriptors none;
        rnic_adapter_turn(adapter);
        CHECK(adapter->users == 0);
        CHECK((adapter->pool.is_deaf && adapter->stats.is_deaf)); // what cannot be done keeps it not awake
    }
    pollfd told = {asker, POLLIN, 0};
    const std::uint64_t end = vipl_now_ns() + std::uint64_t{10000000000} * vipl_test::timeout_scale();
    while ((adapter->users == 0 || poll(&told, 1, 0) == 0) && vipl_now_ns() < end) {
        rnic_adapter_turn(adapter); // one after the other, and never sleeps
    }
    CHECK(adapter->users == 1);
    CHECK(poll(&told, 1, 0) == 1);
    vipl_fd_close(asker);
    rnic_adapter_destroy(adapter);
}

TEST_CASE("a refused connection is told that it is, whatever it asks", "[functions]")
{
    const Adapter adapter(1);
    Client first(adapter.socket);
    Client second(adapter.socket, false);
    const Message told = second.receive();
    CHECK((told.header.command == VFU_VERSION && told.header.error == EBUSY));
    CHECK(second.receive().ended);
    CHECK(first.get(FAKE_ID) == RNIC_ID_VALUE);
}

TEST_CASE("all programs are told that the card was removed, but not QEMU", "[functions]")
{
    const bool fixed = GENERATE(false, true);
    const Adapter adapter(4, fixed);
    Client reader(adapter.socket), sleeper(adapter.socket);
    reader.set(FAKE_COMMAND, FAKE_REMOVE);
    pollfd end = {sleeper.fd, POLLIN, 0};
    if (fixed) {
        while (reader.get(FAKE_DONE) == 0) {
        }
        REQUIRE(reader.get(FAKE_DONE) == 1); // an adapter that hung up would have done so by now
        CHECK(poll(&end, 1, 0) == 0);
    } else {
        REQUIRE(poll(&end, 1, wait_ms()) == 1);
        CHECK(sleeper.receive().ended);
    }
}

TEST_CASE("a program is told that its function was reset, and no other", "[functions]")
{
    const Adapter adapter;
    Client loser(adapter.socket), other(adapter.socket);
    loser.set(FAKE_COMMAND, FAKE_LOSE);
    pollfd end = {loser.fd, POLLIN, 0};
    REQUIRE(poll(&end, 1, wait_ms()) == 1);
    CHECK(loser.receive().ended);
    CHECK(other.get(FAKE_ID) == RNIC_ID_VALUE);
    Client next(adapter.socket);
    CHECK(attaches(next) == 2);
    CHECK(next.get(FAKE_ID) == RNIC_ID_VALUE);
}

TEST_CASE("functions may have sockets of their own, one connection each", "[functions]")
{
    const Adapter adapter(3, true);
    Client one(adapter.folder.path + "/fn-1.sock");
    one.set(FAKE_SCRATCH, 11);
    CHECK_FALSE(gets_function(adapter.folder.path + "/fn-1.sock"));
    Client pool(adapter.socket); // the last one, so that the low ones stay free
    CHECK(gets_function(adapter.folder.path + "/fn-0.sock"));
    CHECK_FALSE(gets_function(adapter.folder.path + "/fn-2.sock"));
    one.hang_up();
    Client again(adapter.folder.path + "/fn-1.sock");
    CHECK(attaches(again) == 2);
    struct stat st {};
    REQUIRE(stat(adapter.socket.c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
}

TEST_CASE("one adapter at a time has a path, and a dead one's is taken over", "[functions]")
{
    const Folder folder;
    const std::string path = folder.path + "/s";
    int first = -1, first_lock = -1, second = -1, second_lock = -1;
    REQUIRE(vipl_unix_listen(path.c_str(), &first, &first_lock) == 0);
    CHECK(vipl_unix_listen(path.c_str(), &second, &second_lock) == EADDRINUSE);
    int fd = -1;
    REQUIRE(vipl_unix_connect(path.c_str(), &fd) == 0); // and the first one was not disturbed
    vipl_fd_close(fd);
    vipl_fd_close(first); // as if it had died: the path stays
    vipl_fd_close(first_lock);
    CHECK(vipl_unix_connect(path.c_str(), &fd) == ECONNREFUSED);
    REQUIRE(vipl_unix_listen(path.c_str(), &second, &second_lock) == 0);
    vipl_unix_unlisten(path.c_str(), second, second_lock);
    CHECK(vipl_unix_connect(path.c_str(), &fd) == ENOENT);
    CHECK(rmdir(folder.path.c_str()) == 0); // nothing of them is left there
    REQUIRE(mkdir(folder.path.c_str(), 0700) == 0);
    const std::string long_path = folder.path + "/" + std::string(200, 'x');
    CHECK(vipl_unix_listen(long_path.c_str(), &first, &first_lock) == ENAMETOOLONG);
    CHECK(vipl_unix_connect(long_path.c_str(), &fd) == ENAMETOOLONG);
    CHECK(vipl_unix_listen((folder.path + "/no/s").c_str(), &first, &first_lock) == ENOENT);
}

TEST_CASE("a path that many take and leave at once has one owner at a time", "[functions]")
{
    constexpr int kThreads = 4, kTimes = 300;
    const Folder folder;
    const std::string path = folder.path + "/s";
    std::atomic<int> owners{0}, most{0}, failures{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            for (int times = 0; times < kTimes;) {
                int listener = -1, lock = -1;
                const int error = vipl_unix_listen(path.c_str(), &listener, &lock);
                if (error == 0) {
                    const int now = ++owners;
                    most = std::max(most.load(), now);
                    ++times;
                    --owners;
                    vipl_unix_unlisten(path.c_str(), listener, lock);
                } else if (error != EADDRINUSE) {
                    ++failures;
                    return;
                }
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(failures == 0);
    CHECK(most == 1);
    CHECK(access(path.c_str(), F_OK) != 0);
    CHECK(access((path + ".lock").c_str(), F_OK) != 0);
}

#if !defined(__SANITIZE_THREAD__) // a child of a program with threads
TEST_CASE("a function is free once its program is dead, even if a child has its socket", "[functions]")
{
    const Adapter adapter(1);
    int tell[2];
    REQUIRE(pipe(tell) == 0);
    Process program{fork()};
    if (program.pid == 0) {
        close(tell[0]);
        int fd = -1;
        const bool connected = vipl_unix_connect(adapter.socket.c_str(), &fd) == 0;
        const pid_t child = connected ? fork() : -1;
        if (child == 0) { // keeps the socket for as long as it lives
            pause();
            _exit(0);
        }
        (void)!write(tell[1], &child, sizeof child);
        pause();
        _exit(0);
    }
    Process child{-1};
    REQUIRE(read(tell[0], &child.pid, sizeof child.pid) == sizeof child.pid);
    REQUIRE(child.pid > 0);
    REQUIRE_FALSE(gets_function(adapter.socket));
    program.end();
    while (!gets_function(adapter.socket)) { // CTest's time limit ends this
        vipl_test::give_way();
    }
    CHECK(kill(child.pid, 0) == 0);
    close(tell[0]);
    close(tell[1]);
}
#endif

TEST_CASE("an adapter that lingers ends two seconds after its last program", "[functions]")
{
    const Folder folder;
    const std::string path = folder.path + "/s";
    rnic_adapter_config config{};
    char what[256];
    config.card.functions = 1;
    config.socket = path.c_str();
    config.lingers = true;
    rnic_adapter *adapter = nullptr;
    REQUIRE(rnic_adapter_create(&config, &adapter, what, sizeof what) == 0);
    std::uint64_t hung_up = 0;
    std::thread program([&] {
        Client client(path);
        for (std::uint64_t end = vipl_now_ns() + 2500000000; vipl_now_ns() < end;) { // longer than it lingers
            client.get(FAKE_ID);
        }
        hung_up = vipl_now_ns();
    });
    rnic_adapter_run(adapter);
    const std::uint64_t ended = vipl_now_ns();
    program.join();
    CHECK(ended - hung_up > 1900000000);
    CHECK(ended - hung_up < 3000000000 * vipl_test::timeout_scale());
    rnic_adapter_destroy(adapter);
    CHECK(access(path.c_str(), F_OK) != 0);
}
