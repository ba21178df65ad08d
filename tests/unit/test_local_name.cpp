// SPDX-License-Identifier: MIT
//
// Names of local sockets: one process has a name at a time, and the name of a process that was
// killed is free. Where names are paths: what is left in the folder, and what stays there.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "internal.hpp"
#include "support/environment.hpp"
#if __has_include(<sys/socket.h>) // else names are not of sockets, which may be files
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/forked.hpp"
#include "support/system_name.hpp"
#endif

namespace {

/** A name that no other test has. */
std::string new_name()
{
    return "vipl/test/" + vipl_test::unique_discriminator();
}

struct Listener {
    int fd = -1;
    int lock = -1;
};

int take(const std::string &name, Listener &listener)
{
    return vipl_local_listen(name.data(), name.size(), &listener.fd, &listener.lock);
}

void give_back(const std::string &name, const Listener &listener)
{
    vipl_local_unlisten(name.data(), name.size(), listener.fd, listener.lock);
}

/** What a caller gets, as soon as there is room for it. */
int call(const std::string &name)
{
    const unsigned long long end = vipl_test::now_ms() + vipl_test::patience();
    int fd = -1, error = EAGAIN;
    while ((error = vipl_local_connect(name.data(), name.size(), &fd)) == EAGAIN &&
           vipl_test::now_ms() < end) {
        vipl_test::give_way();
    }
    vipl_fd_close(fd);
    return error;
}

/** Whether a file of the name is left, or a lock of it. */
bool leaves_a_file([[maybe_unused]] const std::string &name)
{
#if __has_include(<sys/socket.h>)
    const std::string path = vipl_test::system_name(name);
    return access(path.c_str(), F_OK) == 0 || access((path + ".lock").c_str(), F_OK) == 0;
#else
    return false;
#endif
}

} // namespace

TEST_CASE("a name is one listener's at a time, and free behind it", "[local_name]")
{
    const std::string name = new_name();
    Listener first, second;
    CHECK(call(name) == ECONNREFUSED);
    REQUIRE(take(name, first) == 0);
    CHECK(take(name, second) == EADDRINUSE);
    CHECK(call(name) == 0); // and the first one was not disturbed
    give_back(name, first);
    CHECK(call(name) == ECONNREFUSED);
    CHECK_FALSE(leaves_a_file(name));
    REQUIRE(take(name, second) == 0);
    give_back(name, second);
    CHECK_FALSE(leaves_a_file(name));
}

// A child of a program with threads.
#if __has_include(<sys/socket.h>) && !defined(__SANITIZE_THREAD__)
TEST_CASE("the name of a process that was killed is free, and that of a living one is not", "[local_name]")
{
    const std::string name = new_name();
    Listener listener;
    vipl_test::Forked owner([&](const vipl_test::ParentLine &parent) {
        if (take(name, listener) != 0) {
            _exit(1);
        }
        parent.tell();
        parent.await();
    });
    owner.await();
    CHECK(call(name) == 0);
    CHECK(take(name, listener) == EADDRINUSE);
    REQUIRE(kill(owner.pid(), SIGKILL) == 0);
    owner.finish_with_signal(SIGKILL);
    CHECK(leaves_a_file(name) == vipl_test::library_is_portable());
    CHECK(call(name) == ECONNREFUSED);
    REQUIRE(take(name, listener) == 0);
    CHECK(call(name) == 0);
    give_back(name, listener);
    CHECK_FALSE(leaves_a_file(name));
}
#endif

TEST_CASE("a name that many take and leave at once has one owner at a time", "[local_name]")
{
    constexpr int kThreads = 4, kTimes = 200;
    const std::string name = new_name();
    std::atomic<int> owners{0}, most{0}, failures{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            for (int times = 0; times < kTimes && failures == 0;) {
                Listener mine;
                const int error = take(name, mine);
                if (error == 0) {
                    const int now = ++owners;
                    most = std::max(most.load(), now);
                    failures += call(name) != 0 ? 1 : 0; // its socket is where the name leads
                    ++times;
                    --owners;
                    give_back(name, mine);
                } else if (error != EADDRINUSE) {
                    ++failures;
                }
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(failures == 0);
    CHECK(most == 1);
    CHECK_FALSE(leaves_a_file(name));
}

#if __has_include(<sys/socket.h>)
TEST_CASE("a folder for sockets is this user's alone, whatever the umask", "[local_name]")
{
    char made[] = "/tmp/vipl-unit-XXXXXX";
    REQUIRE(mkdtemp(made) != nullptr);
    const std::string folder = made, mine = folder + "/mine", link = folder + "/link",
                      file = folder + "/file";
    const mode_t before = umask(0777);
    CHECK(vipl_private_folder(mine.c_str()) == 0);
    umask(before);
    struct stat st {};
    REQUIRE(stat(mine.c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0700);
    CHECK(vipl_private_folder(mine.c_str()) == 0); // which is there
    REQUIRE(chmod(mine.c_str(), 0710) == 0);
    CHECK(vipl_private_folder(mine.c_str()) == EPERM);
    REQUIRE(symlink("/tmp", link.c_str()) == 0);
    CHECK(vipl_private_folder(link.c_str()) == EPERM);
    REQUIRE(close(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    CHECK(vipl_private_folder(file.c_str()) == EPERM);
    CHECK(vipl_private_folder((folder + "/no/folder").c_str()) == ENOENT);
    CHECK(unlink(file.c_str()) == 0);
    CHECK(unlink(link.c_str()) == 0);
    CHECK(rmdir(mine.c_str()) == 0);
    CHECK(rmdir(folder.c_str()) == 0);
}

TEST_CASE("a path is no other name's, is too long for the system, or is another file's", "[local_name]")
{
    if (!vipl_test::library_is_portable()) {
        SUCCEED("names are no paths here");
        return;
    }
    const std::string name = new_name();
    Listener first, second;

    // What stands for a byte in a path may be in a name.
    REQUIRE(take(name + "/", first) == 0);
    REQUIRE(take(name + "_2f", second) == 0);
    give_back(name + "/", first);
    CHECK(call(name + "_2f") == 0);
    give_back(name + "_2f", second);

    const std::string long_name(200, 'x');
    CHECK(take(long_name, first) == ENAMETOOLONG);
    CHECK(call(long_name) == ENAMETOOLONG);

    const std::string path = vipl_test::system_name(name);
    REQUIRE(close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    CHECK(take(name, first) == EEXIST);
    CHECK(access((path + ".lock").c_str(), F_OK) != 0);
    CHECK(unlink(path.c_str()) == 0); // it is still there
}
#endif
