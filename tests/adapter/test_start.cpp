// SPDX-License-Identifier: MIT
//
// An adapter that the library starts: once for all programs of a user, and gone after the last of
// them.
#include "raw_client.hpp"

#include <atomic>
#include <csignal>
#include <fstream>

#include <netinet/in.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "support/as_parent.hpp"
#include "support/in_place_of_stderr.hpp"

extern "C" {
#include "rnic/start.h"
#include "start/socket_path.h"
}

using namespace adapter_test;

namespace {

/** Programs of a user whose adapter is this build's. */
struct User {
    User() : socket(folder.path + "/rnic.sock")
    {
        setenv("VIPL_RNIC", socket.c_str(), 1);
        setenv("VIPL_RNICD", fake_rnicd, 1);
    }
    ~User()
    {
        unsetenv("VIPL_RNIC");
        unsetenv("VIPL_RNICD");
        unsetenv("XDG_RUNTIME_DIR");
    }
    Folder folder;
    std::string socket;
};

std::uint32_t get(rnic_pci *pci, std::uint32_t offset)
{
    return pci->ops->read(pci, 0, offset);
}

bool is_served(const std::string &path)
{
    int fd = -1;
    const bool served = vipl_unix_connect(path.c_str(), &fd) == 0;
    vipl_fd_close(fd);
    return served;
}

/** Without connecting, which would make it wait longer. */
void await_end(const std::string &path)
{
    while (access(path.c_str(), F_OK) == 0) {
        vipl_test::give_way(); // CTest's time limit ends this
    }
}

/** An adapter in a process of its own, started by hand. It is killed if it does not end before. */
class Started {
public:
    Started(const std::string &socket, std::vector<std::string> options)
    {
        options.insert(options.begin(), {fake_rnicd, "--socket", socket, "--functions=2"});
        std::vector<char *> arguments;
        for (auto &option : options) {
            arguments.push_back(option.data());
        }
        arguments.push_back(nullptr);
        REQUIRE(posix_spawn(&pid_, fake_rnicd, nullptr, nullptr, arguments.data(), environ) == 0);
        while (!is_served(socket)) {
            REQUIRE(waitpid(pid_, nullptr, WNOHANG) == 0);
            vipl_test::give_way(); // CTest's time limit ends this
        }
    }
    ~Started()
    {
        if (pid_ > 0) {
            end(SIGKILL);
        }
    }
    Started(const Started &) = delete;
    Started &operator=(const Started &) = delete;
    void send(int signal) const { kill(pid_, signal); }
    /** The status that it ends with. */
    int end(int signal)
    {
        int status = -1;
        send(signal);
        waitpid(pid_, &status, 0);
        pid_ = -1;
        return status;
    }

private:
    pid_t pid_ = -1;
};

/** A file may have no bytes. */
class NoFiles {
public:
    NoFiles()
    {
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
        const rlimit none = {0, before_.rlim_max};
        REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
    }
    ~NoFiles() { end(); }
    NoFiles(const NoFiles &) = delete;
    NoFiles &operator=(const NoFiles &) = delete;
    void end() const { setrlimit(RLIMIT_FSIZE, &before_); }

private:
    rlimit before_{};
};

} // namespace

TEST_CASE("the first program starts the adapter, others find it, and it ends after the last", "[start]")
{
    const User user;
    rnic_pci *first = nullptr, *second = nullptr;
    REQUIRE(rnic_pci_vfio_user_open("", &first) == 0);
    REQUIRE(rnic_pci_vfio_user_open("", &second) == 0);
    first->ops->write(first, 0, FAKE_SCRATCH, 1);
    second->ops->write(second, 0, FAKE_SCRATCH, 2);
    CHECK((get(first, FAKE_SCRATCH) == 1 && get(second, FAKE_SCRATCH) == 2)); // two functions
    CHECK(waitpid(-1, nullptr, WNOHANG) == -1); // the adapter is no child of this program
    CHECK(errno == ECHILD);
    first->ops->close(first);
    CHECK(get(second, FAKE_SCRATCH) == 2);
    second->ops->close(second);
    await_end(user.socket);
    CHECK(access(user.socket.c_str(), F_OK) != 0);
}

TEST_CASE("programs that start at the same time have one adapter", "[start]")
{
    const User user;
    std::atomic<unsigned> failed{0};
    std::vector<rnic_pci *> opened(8);
    std::vector<std::thread> programs;
    for (auto &pci : opened) {
        programs.emplace_back([&pci, &failed] { failed += rnic_pci_vfio_user_open("", &pci) == 0 ? 0 : 1; });
    }
    for (auto &program : programs) {
        program.join();
    }
    REQUIRE(failed == 0);
    for (rnic_pci *pci : opened) {
        CHECK(get(pci, FAKE_ATTACHES) == 1); // each its own function of the one card
        pci->ops->close(pci);
    }
    await_end(user.socket);
}

TEST_CASE("what reads a program's errors by a pipe is not held up by the adapter that the program started",
          "[start]")
{
    const User user;
    if (GENERATE(false, true) && rnic_adapter_in_fork != nullptr) {
        setenv("VIPL_RNICD", "", 1); // a fork of the program
    }
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    rnic_pci *pci = nullptr;
    int error = 0;
    {
        const vipl_test::InPlaceOfStderr writing(ends[1]);
        close(ends[1]);
        error = rnic_pci_vfio_user_open("", &pci);
    }
    REQUIRE(error == 0);
    char byte;
    pollfd entry{ends[0], POLLIN, 0};
    REQUIRE(poll(&entry, 1, wait_ms()) == 1);
    CHECK(read(ends[0], &byte, 1) == 0); // no process has the other end any more
    CHECK(get(pci, FAKE_ID) == RNIC_ID_VALUE);
    close(ends[0]);
    pci->ops->close(pci);
    await_end(user.socket);
}

TEST_CASE("an adapter that was killed is started again", "[start]")
{
    const User user;
    rnic_pci *pci = nullptr;
    REQUIRE(rnic_pci_vfio_user_open("", &pci) == 0);
    int fd = -1, pid = 0;
    std::uint32_t uid = 0;
    REQUIRE(vipl_unix_connect(user.socket.c_str(), &fd) == 0);
    REQUIRE(vipl_local_peer(fd, &pid, &uid) == 0); // of whoever listens
    REQUIRE(pid != getpid());
    REQUIRE(kill(pid, SIGKILL) == 0);
    while (!pci->ops->is_gone(pci)) {
    }
    vipl_fd_close(fd);
    pci->ops->close(pci);
    REQUIRE(rnic_pci_vfio_user_open("", &pci) == 0);
    CHECK(get(pci, FAKE_ID) == RNIC_ID_VALUE);
    pci->ops->close(pci);
    await_end(user.socket);
}

TEST_CASE("without a setting the socket is in the user's own folder", "[start]")
{
    const User user;
    unsetenv("VIPL_RNIC");
    setenv("XDG_RUNTIME_DIR", user.folder.path.c_str(), 1);
    rnic_pci *pci = nullptr;
    REQUIRE(rnic_pci_vfio_user_open("", &pci) == 0);
    struct stat st {};
    REQUIRE(stat((user.folder.path + "/vipl").c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0700);
    CHECK(is_served(user.folder.path + "/vipl/rnic.sock"));
    pci->ops->close(pci);
    await_end(user.folder.path + "/vipl/rnic.sock");
    setenv("VIPL_LOG", "off", 1);
    setenv("VIPL_RNIC", "relative.sock", 1);
    CHECK(rnic_pci_vfio_user_open("", &pci) == EINVAL);
    unsetenv("VIPL_LOG");
}

namespace {

/** Where the socket is without a setting, with this folder as XDG_RUNTIME_DIR. */
std::string socket_path(const std::string &runtime)
{
    char path[VIPL_SOCKET_PATH_BYTES];
    unsetenv("VIPL_RNIC");
    setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
    REQUIRE(vipl_socket_path("VIPL_RNIC", "rnic.sock", path) == 0);
    return path;
}

/** The process that listens there, to its end. */
void kill_adapter(const std::string &path)
{
    int fd = -1, pid = 0;
    std::uint32_t uid = 0;
    if (vipl_unix_connect(path.c_str(), &fd) != 0 || vipl_local_peer(fd, &pid, &uid) != 0) {
        _exit(64);
    }
    pollfd entry{vipl_unix_peer_process(fd), POLLIN, 0};
    kill(pid, SIGKILL);
    poll(&entry, 1, wait_ms());
    unlink(path.c_str());
}

mode_t mode_of(const std::string &path)
{
    struct stat st {};
    REQUIRE(stat(path.c_str(), &st) == 0);
    return st.st_mode & 07777;
}

} // namespace

TEST_CASE("a folder for sockets that is not this user's alone is passed over", "[start]")
{
    const User user;
    const std::string next = "/tmp/vipl-" + std::to_string(geteuid()) + "/rnic.sock";
    const std::string runtime = user.folder.path + "/runtime";
    CHECK(socket_path(user.folder.path + "/none") == next);
    CHECK(socket_path("relative") == next);
    REQUIRE(mkdir(runtime.c_str(), 0700) == 0);
    CHECK(socket_path(runtime) == runtime + "/vipl/rnic.sock");
    REQUIRE(chmod((runtime + "/vipl").c_str(), 0755) == 0);
    CHECK(socket_path(runtime) == next);
    CHECK(mode_of(runtime + "/vipl") == 0755); // it is left as it is
    REQUIRE(rmdir((runtime + "/vipl").c_str()) == 0);
    REQUIRE(symlink("/tmp", (runtime + "/vipl").c_str()) == 0);
    CHECK(socket_path(runtime) == next);
    REQUIRE(unlink((runtime + "/vipl").c_str()) == 0);
    REQUIRE(chmod(runtime.c_str(), 0777) == 0); // others could put their own folder there
    CHECK(socket_path(runtime) == next);
    REQUIRE(chmod(runtime.c_str(), 0700) == 0);
    CHECK(socket_path(runtime + std::string(120, 'x')) == next);
    if (geteuid() == 0) {
        REQUIRE(chown(runtime.c_str(), 65534, 65534) == 0);
        CHECK(socket_path(runtime) == next);
        CHECK(access((runtime + "/vipl").c_str(), F_OK) != 0); // nothing was made in it
    }
}

TEST_CASE("a folder for sockets can be used whatever the umask is, or was", "[start]")
{
    const User user;
    for (const bool exists : {false, true}) {
        const std::string runtime = user.folder.path + (exists ? "/old" : "/new");
        REQUIRE(mkdir(runtime.c_str(), 0700) == 0);
        REQUIRE((!exists || mkdir((runtime + "/vipl").c_str(), 0) == 0));
        const mode_t before = umask(0777);
        const std::string path = socket_path(runtime);
        umask(before);
        CHECK(path == runtime + "/vipl/rnic.sock");
        CHECK(mode_of(runtime + "/vipl") == 0700);
    }
}

TEST_CASE("a program does not notice the adapter that it starts", "[start]")
{
    const User user;
    using vipl_test::Parent;
    setenv("VIPL_LOG", "off", 1);
    const auto kind = GENERATE(Parent::kProgram, Parent::kSubreaper, Parent::kFirst);
    // a program; a fork of this one, as where there is none; a program that ends at once; one that
    // cannot be run
    const std::string program = GENERATE(std::string(fake_rnicd), std::string(), std::string("/bin/true"),
                                         std::string("/nonexistent/vipl-rnicd"));
    CAPTURE(static_cast<int>(kind), program);
    const bool starts = program == fake_rnicd || (program != "/bin/true" && rnic_adapter_in_fork != nullptr);
    setenv("VIPL_RNICD", program.c_str(), 1);
    rnic_pci *pci = nullptr;
    const std::string noticed = vipl_test::noticed_as(
        kind, [&] { return (rnic_pci_vfio_user_open("", &pci) == 0) == starts; },
        [&] {
            if (pci != nullptr) {
                kill_adapter(user.socket);
                pci->ops->close(pci);
            }
        });
    if (noticed != "n/a") {
        CHECK(noticed.empty());
    }
    unsetenv("VIPL_LOG");
}

TEST_CASE("a program that cannot be run is told as the system says it", "[start]")
{
    const Folder folder;
    const std::string name = folder.path + "/program";
    char *const arguments[] = {const_cast<char *>(name.c_str()), nullptr};
    CHECK(vipl_spawn_program(arguments, environ, nullptr, 0) == ENOENT);
    REQUIRE(close(open(name.c_str(), O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK(vipl_spawn_program(arguments, environ, nullptr, 0) == EACCES);
    REQUIRE(chmod(name.c_str(), 0700) == 0);
    CHECK(vipl_spawn_program(arguments, environ, nullptr, 0) == ENOEXEC);
    std::ofstream(name) << "#!/bin/sh\nexit 127\n";
    CHECK(vipl_spawn_program(arguments, environ, nullptr, 0) == 0); // 127 is its own affair
    const int none = 1000;
    CHECK(vipl_spawn_program(arguments, environ, &none, 1) == EBADF);
}

TEST_CASE("an adapter that cannot be started is an error", "[start]")
{
    const User user;
    rnic_pci *pci = nullptr;
    setenv("VIPL_RNICD", "/bin/true", 1);
    CHECK(rnic_pci_vfio_user_open("", &pci) == ECONNREFUSED);
    setenv("VIPL_RNIC", (user.folder.path + "/no/folder.sock").c_str(), 1);
    setenv("VIPL_RNICD", fake_rnicd, 1);
    CHECK(rnic_pci_vfio_user_open("", &pci) == ECONNREFUSED);
    CHECK(pci == nullptr);
}

#if !defined(__SANITIZE_THREAD__) // a child of a program with threads
TEST_CASE("where there is no program for it, the adapter is a fork of the program", "[start]")
{
    const User user;
    setenv("VIPL_RNICD", "", 1);
    rnic_pci *first = nullptr, *second = nullptr;
    if (rnic_adapter_in_fork == nullptr) { // the library was built without the model
        CHECK(rnic_pci_vfio_user_open("", &first) == ENOTSUP);
        return;
    }
    REQUIRE(rnic_pci_vfio_user_open("", &first) == 0);
    setenv("VIPL_RNICD", "/nowhere/at/all", 1);
    REQUIRE(rnic_pci_vfio_user_open("", &second) == 0); // by the one that runs
    CHECK((get(first, FAKE_ID) == RNIC_ID_VALUE && get(second, FAKE_ATTACHES) == 1));
    CHECK((waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
    first->ops->close(first);
    second->ops->close(second);
    await_end(user.socket);
    REQUIRE(rnic_pci_vfio_user_open("", &first) == 0); // by a fork again
    CHECK(get(first, FAKE_ID) == RNIC_ID_VALUE);
    first->ops->close(first);
    await_end(user.socket);
}
#endif

TEST_CASE("an adapter that is asked to end leaves no socket behind", "[start]")
{
    const User user;
    Started adapter(user.socket, {});
    CHECK(adapter.end(SIGTERM) == 0);
    CHECK(access(user.socket.c_str(), F_OK) != 0);
}

TEST_CASE("an adapter of nohup outlives its terminal, another one ends with it", "[start]")
{
    const User user;
    const auto before =
        std::signal(SIGHUP, SIG_DFL); // which a program inherits, and these tests may run under nohup
    {
        Started adapter(user.socket, {});
        CHECK(adapter.end(SIGHUP) == 0);
    }
    std::signal(SIGHUP, SIG_IGN);
    Started adapter(user.socket, {});
    std::signal(SIGHUP, before);
    adapter.send(SIGHUP);
    Client client(user.socket);
    for (int i = 0; i < 100; ++i) { // more than one that ends still serves
        REQUIRE(client.get(FAKE_ID) == RNIC_ID_VALUE);
    }
    CHECK(adapter.end(SIGTERM) == 0);
}

TEST_CASE("an adapter whose log cannot be written goes on, and says why", "[start]")
{
    const User user;
    const std::string log = user.folder.path + "/log";
    const std::string stats = std::string(fake_rnicd) + " --stats --socket " + user.socket;
    SECTION("nobody reads the pipe any more")
    {
        REQUIRE(mkfifo(log.c_str(), 0600) == 0);
        const int reader = open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        REQUIRE(reader >= 0);
        Started adapter(user.socket, {"--log", log});
        Client client(user.socket); // one that serves has opened its log
        REQUIRE(client.get(FAKE_ID) == RNIC_ID_VALUE);
        close(reader);
        client.set(FAKE_SCRATCH, 1); // which goes into the log
        while (printed(stats).find("log ended: Broken pipe") == std::string::npos) { // as above
        }
        CHECK(client.get(FAKE_SCRATCH) == 1);
        CHECK(adapter.end(SIGTERM) == 0);
    }
#ifndef __SANITIZE_THREAD__ // which has a file of its own
    SECTION("its files may not be so large")
    {
        const NoFiles limit; // which a program inherits
        Started adapter(user.socket, {"--log", log});
        limit.end();
        while (printed(stats).find("log ended: File too large") == std::string::npos) { // as above
        }
        CHECK(adapter.end(SIGTERM) == 0);
    }
#endif
}

TEST_CASE("an adapter that cannot serve names what it could not have", "[start]")
{
    const User user;
    const std::string program = std::string(fake_rnicd) + " ";
    const std::string folder = user.folder.path;
    const auto says = [](const std::string &command, const std::string &what) {
        const std::string text = printed(command);
        INFO(text);
        return text == "vipl-rnicd: " + what + "\n1\n";
    };
    REQUIRE(close(open((folder + "/file").c_str(), O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK(says(program + "--socket " + folder + "/file", folder + "/file: File exists"));
    CHECK(access((folder + "/file").c_str(), F_OK) == 0);
    CHECK(says(program + "--dir " + folder + "/no", folder + "/no/fn-0.sock: No such file or directory"));
    CHECK(says(program + "--socket " + folder + "/s --dir " + folder + "/no",
               folder + "/no/fn-0.sock: No such file or directory"));
    CHECK(says(program + "--wire 5", "--wire 5: Invalid argument"));
    CHECK(says(program + "--log " + folder + "/no/log",
               "--log " + folder + "/no/log: No such file or directory"));
    const Adapter other;
    CHECK(says(program + "--socket " + other.socket, other.socket + ": it is served already"));
    CHECK(says("VIPL_RNIC=here " + program, "VIPL_RNIC: not an absolute path"));
    int port = -1;
    sockaddr_in name{};
    socklen_t size = sizeof(name);
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE((port = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0);
    REQUIRE(bind(port, reinterpret_cast<const sockaddr *>(&name), size) == 0);
    REQUIRE(getsockname(port, reinterpret_cast<sockaddr *>(&name), &size) == 0);
    const std::string wire = "--wire udp:127.0.0.1:" + std::to_string(ntohs(name.sin_port));
    CHECK(says(program + wire, wire + ": " + std::strerror(EADDRINUSE)));
    close(port);
}

TEST_CASE("an adapter that is there and says nothing is given up after one try", "[start]")
{
    const User user;
    const int silent = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    REQUIRE(user.socket.size() < sizeof(name.sun_path));
    user.socket.copy(name.sun_path, user.socket.size());
    REQUIRE(bind(silent, reinterpret_cast<const sockaddr *>(&name), sizeof(name)) == 0);
    REQUIRE(listen(silent, 16) == 0);
    const std::uint64_t begun = vipl_now_ns();
    rnic_pci *pci = nullptr;
    CHECK(rnic_pci_vfio_user_open("", &pci) == ECONNRESET);
    CHECK(pci == nullptr);
    CHECK(vipl_now_ns() - begun >= VFU_PATIENCE_MS * std::uint64_t{1000000});
    CHECK(vipl_now_ns() - begun < 2 * VFU_PATIENCE_MS * std::uint64_t{1000000});
    close(silent);
}
