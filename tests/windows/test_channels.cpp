// SPDX-License-Identifier: MIT
//
// Messages between processes on Windows: names, callers, messages, the sections that go along, and
// peers that do something else.
#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "channels.hpp"

using namespace vipl_test;
using namespace windows_test;

TEST_CASE("a name is one listener's, and free when that has gone", "[windows]")
{
    const std::string name = unique_name();
    int fd = -1, lock = 5;
    CHECK(vipl_local_connect(name.data(), name.size(), &fd) == ECONNREFUSED);
    CHECK(fd == -1);
    auto listener = std::make_unique<Listener>(name);
    CHECK(vipl_local_listen(name.data(), name.size(), &fd, &lock) == EADDRINUSE);
    CHECK(vipl_local_listen((name + "x").data(), name.size(), &fd, &lock) == EADDRINUSE); // the same bytes
    const Listener longer(name + "x");
    CHECK(vipl_local_accept(listener->fd, &fd) == EAGAIN);
    // a caller that still looks at what the name was keeps nobody from taking it
    const Handle looking(OpenFileMappingA(FILE_MAP_READ, FALSE, section_name(name).c_str()));
    REQUIRE(looking.value != nullptr);
    listener.reset();
    CHECK(vipl_local_connect(name.data(), name.size(), &fd) == ECONNREFUSED);
    const Listener again(name);
    const Joined joined(again);
}

TEST_CASE("messages arrive whole and in order, and then the end", "[windows]")
{
    const Listener listener(unique_name());
    Joined pair(listener);
    CHECK(Heard(pair.accepted.fd, Heard::at_once).error == EAGAIN);
    REQUIRE(say(pair.calling.fd, "!") == 0);
    REQUIRE(say(pair.calling.fd, "a second one") == 0);
    REQUIRE(say(pair.calling.fd, std::string(1024, 'x')) == 0);
    CHECK(say(pair.calling.fd, std::string(1025, 'x')) == EMSGSIZE);
    CHECK(Heard(pair.accepted.fd).text == "!");
    CHECK(Heard(pair.accepted.fd, Heard::waits, 8).text == "a second"); // the rest does not come
    REQUIRE(say(pair.accepted.fd, "back") == 0);
    CHECK(Heard(pair.calling.fd).text == "back");
    CHECK_FALSE(vipl_local_has_hung_up(pair.accepted.fd));
    pair.calling.close();
    await_hang_up(pair.accepted.fd); // before the last message is read
    CHECK(Heard(pair.accepted.fd).text == std::string(1024, 'x'));
    CHECK(Heard(pair.accepted.fd).ends());
    CHECK(Heard(pair.accepted.fd).ends());
    CHECK(say(pair.accepted.fd, "!") == EPIPE);
    CHECK(say(listener.fd, "!") == EBADF);
    CHECK(Heard(listener.fd, Heard::at_once).error == EBADF);
}

TEST_CASE("a set tells an end that has messages, and one that has hung up", "[windows]")
{
    const Listener listener(unique_name());
    Joined pair(listener);
    vipl_pollset set{};
    vipl_ready ready{};
    REQUIRE(vipl_pollset_open(&set) == 0);
    REQUIRE(vipl_pollset_add(&set, pair.accepted.fd, &set) == 0);
    CHECK(vipl_pollset_ready(&set, &ready, 1) == 0);
    REQUIRE(say(pair.calling.fd, "one") == 0);
    vipl_pollset_wait(&set, UINT64_MAX);
    REQUIRE(vipl_pollset_ready(&set, &ready, 1) == 1);
    CHECK_FALSE(ready.hangup);
    CHECK(Heard(pair.accepted.fd).text == "one");
    CHECK(vipl_pollset_ready(&set, &ready, 1) == 0);
    pair.calling.close();
    vipl_pollset_wait(&set, UINT64_MAX);
    REQUIRE(vipl_pollset_ready(&set, &ready, 1) == 1);
    CHECK(ready.hangup);
    CHECK(ready.tag == &set);
    vipl_pollset_close(&set);
}

TEST_CASE("what a full pipe refuses is not there, and what it took is there whole", "[windows]")
{
    const Listener listener(unique_name());
    const Joined pair(listener);
    const auto text = [](unsigned i) { return std::string(1 + i % 320, static_cast<char>('a' + i % 26)); };
    unsigned sent = 0, received = 0;
    int error = 0;
    for (; (error = say(pair.calling.fd, text(sent))) == 0; ++sent) {
        REQUIRE(sent < 1000000);
    }
    CHECK(error == EAGAIN);
    REQUIRE(sent > 64);
    for (unsigned more = 0; more < 100;) { // what comes behind it is whole, too
        REQUIRE(Heard(pair.accepted.fd).text == text(received));
        ++received;
        while (more < 100 && say(pair.calling.fd, text(sent)) == 0) {
            ++sent;
            ++more;
        }
    }
    for (; received < sent; ++received) {
        REQUIRE(Heard(pair.accepted.fd).text == text(received));
    }
    CHECK(Heard(pair.accepted.fd, Heard::at_once).error == EAGAIN);
}

TEST_CASE("callers wait to be accepted, as many as the queue has room for", "[windows]")
{
    const std::string name = unique_name();
    const Listener listener(name);
    std::vector<End> callers;
    const unsigned long long end = now_ms() + 500;
    while (callers.size() <= 128 && (callers.size() < 128 || now_ms() < end)) {
        int fd = -1;
        const int error = vipl_local_connect(name.data(), name.size(), &fd); // EAGAIN: so many at once
        REQUIRE((error == 0 || error == EAGAIN));
        if (error == 0) {
            callers.emplace_back(fd);
            REQUIRE(say(fd, std::to_string(callers.size())) == 0);
        } else {
            give_way();
        }
    }
    CHECK(callers.size() == 128);
    std::set<std::string> heard;
    for (size_t i = 0; i < callers.size(); ++i) {
        const End accepted = listener.accept();
        heard.insert(Heard(accepted.fd).text);
    }
    CHECK(heard.size() == callers.size());
    int fd = -1;
    CHECK(vipl_local_accept(listener.fd, &fd) == EAGAIN);
    const Joined another(listener);
}

TEST_CASE("callers that nobody has accepted hang up with the listener", "[windows]")
{
    const std::string name = unique_name();
    int fd = -1;
    {
        const Listener listener(name);
        fd = listener.connect();
        REQUIRE(say(fd, "to nobody") == 0);
    }
    const End caller(fd);
    await_hang_up(caller.fd);
    CHECK(Heard(caller.fd).ends());
}

TEST_CASE("a caller that has gone again is accepted, with what it has said", "[windows]")
{
    const Listener listener(unique_name());
    {
        const End caller(listener.connect());
        REQUIRE(say(caller.fd, "last words") == 0);
    }
    const End accepted = listener.accept();
    CHECK(Heard(accepted.fd).text == "last words");
    CHECK(Heard(accepted.fd).ends());
}

TEST_CASE("ends that are closed leave nothing behind, whatever they were waiting for", "[windows]")
{
    const auto handles = [] { // Wine does not count them
        unsigned count = 0;
        DWORD flags = 0;
        for (std::uintptr_t i = 4; i < 16384; i += 4) {
            count += GetHandleInformation(reinterpret_cast<HANDLE>(i), &flags) ? 1 : 0;
        }
        return count;
    };
    const auto open_and_close = [] {
        for (int i = 0; i < 20; ++i) {
            const Listener listener(unique_name());
            const Joined pair(listener);
            const End waits(listener.connect());
            (void)say(pair.accepted.fd, "unread");
        }
    };
    open_and_close();
    const unsigned before = handles();
    REQUIRE(before > 0);
    open_and_close();
    const unsigned long long end = now_ms() + kLong;
    while (handles() > before && now_ms() < end) { // the library's thread closes the last ones
        give_way();
    }
    CHECK(handles() <= before);
}

TEST_CASE("threads that end leave what they have begun", "[windows]")
{
    const std::string name = unique_name();
    int listener = -1, lock = -1, called = -1, calling = -1;
    const auto in_a_thread = [](const auto &what) {
        std::thread thread(what);
        thread.join();
    };
    in_a_thread([&] { vipl_local_listen(name.data(), name.size(), &listener, &lock); });
    in_a_thread([&] { vipl_local_connect(name.data(), name.size(), &calling); });
    REQUIRE(calling >= 0);
    REQUIRE(vipl_poll(&listener, 1, kLong, nullptr) == 0);
    in_a_thread([&] { vipl_local_accept(listener, &called); });
    REQUIRE(called >= 0);
    for (int i = 0; i < 30; ++i) { // reads go on, and begin again after each message
        in_a_thread([&] { say(calling, std::to_string(i)); });
        std::string text;
        in_a_thread([&] { text = Heard(called).text; });
        REQUIRE(text == std::to_string(i));
    }
    const End first(called), second(calling);
    const Joined more(name, listener);
    vipl_local_unlisten(name.data(), name.size(), listener, lock);
}

TEST_CASE("threads send, receive and close at once", "[windows]")
{
    const Listener listener(unique_name());
    for (int times = 0; times < 20; ++times) {
        Joined pair(listener);
        std::atomic<bool> stop{false};
        std::thread sender([&] {
            while (!stop) {
                (void)say(pair.calling.fd, "!");
            }
        });
        std::thread receiver([&] {
            while (!stop) {
                (void)Heard(pair.accepted.fd, Heard::at_once);
            }
        });
        vipl_pause(1000000);
        vipl_fd_close(times % 2 == 0 ? pair.calling.fd : pair.accepted.fd);
        vipl_pause(1000000);
        stop = true;
        sender.join();
        receiver.join();
        (times % 2 == 0 ? pair.calling.fd : pair.accepted.fd) = -1;
    }
}

TEST_CASE("sections come with their message", "[windows]")
{
    const Listener listener(unique_name());
    const Joined pair(listener);
    const Segment first("first"), second("second");
    REQUIRE(say(pair.calling.fd, "none") == 0);
    REQUIRE(say(pair.calling.fd, "two", {first.fd(), second.fd()}) == 0);
    REQUIRE(say(pair.calling.fd, "one", {second.fd()}) == 0);
    CHECK(say(pair.calling.fd, "no section", {listener.fd}) == EBADF);
    CHECK(say(pair.calling.fd, "no section", {60000}) == EBADF);
    {
        const Heard none(pair.accepted.fd), two(pair.accepted.fd), one(pair.accepted.fd);
        CHECK(none.fds[0] == -1);
        CHECK(text_in(two.fds[0]) == "first");
        CHECK(text_in(two.fds[1]) == "second");
        CHECK(text_in(one.fds[0]) == "second");
        CHECK(one.fds[1] == -1);
    }
    int error = 0;
    unsigned more = 0;
    for (; more < 20 && error == 0; ++more) { // the end keeps each until it closes
        error = say(pair.calling.fd, "more", {first.fd()});
    }
    CHECK(error == EMFILE);
    CHECK(more == 14);
    CHECK(say(pair.calling.fd, "none again") == 0);
}

TEST_CASE("a name that something else has is refused", "[windows]")
{
    const std::string name = unique_name();
    int fd = -1, lock = -1;
    const auto refused = [&] {
        CHECK(vipl_local_listen(name.data(), name.size(), &fd, &lock) == EADDRINUSE);
        CHECK(vipl_local_connect(name.data(), name.size(), &fd) == ECONNREFUSED);
    };
    SECTION("an event")
    {
        const Handle event(CreateEventA(nullptr, TRUE, FALSE, section_name(name).c_str()));
        REQUIRE(event.value != nullptr);
        refused();
    }
    SECTION("memory that is not there")
    {
        const Handle section(CreateFileMappingA(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE | SEC_RESERVE,
                                                0, 65536, section_name(name).c_str()));
        REQUIRE(section.value != nullptr);
        refused();
    }
    SECTION("a process without a pipe")
    {
        const Entry entry(name, GetCurrentProcessId(), 0x1234);
        refused();
    }
    SECTION("a pipe that another process has")
    {
        RawPipe pipe(0x77, PIPE_TYPE_MESSAGE);
        const Entry entry(name, GetCurrentProcessId() + 4, 0x77);
        refused();
    }
    SECTION("a pipe that does not keep messages whole")
    {
        RawPipe pipe(0x78, PIPE_TYPE_BYTE);
        const Entry entry(name, GetCurrentProcessId(), 0x78);
        refused();
    }
    const std::string too_long(1000, '/');
    CHECK(vipl_local_listen(too_long.data(), too_long.size(), &fd, &lock) == ENAMETOOLONG);
    CHECK(vipl_local_connect(too_long.data(), too_long.size(), &fd) == ENAMETOOLONG);
}

TEST_CASE("bytes that are no message end the connection", "[windows]")
{
    const std::string name = unique_name();
    RawPipe pipe(0x79, PIPE_TYPE_MESSAGE);
    const Entry entry(name, GetCurrentProcessId(), 0x79);
    int fd = -1;
    REQUIRE(vipl_local_connect(name.data(), name.size(), &fd) == 0);
    const End end(fd);
    pipe.write_frame(0, 0, "good");
    const size_t bytes = GENERATE(size_t{0}, size_t{1}, size_t{15}, size_t{1041}, size_t{20000});
    pipe.write(std::string(bytes, 'x'));
    CHECK(Heard(end.fd).text == "good");
    CHECK(Heard(end.fd).ends());
    CHECK(vipl_local_has_hung_up(end.fd));
}

TEST_CASE("a number that is no section of the peer's gives none", "[windows]")
{
    const std::string name = unique_name();
    RawPipe pipe(0x7a, PIPE_TYPE_MESSAGE);
    const Entry entry(name, GetCurrentProcessId(), 0x7a);
    const Handle event(CreateEventA(nullptr, TRUE, FALSE, nullptr));
    const Handle reserved(
        CreateFileMappingA(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE | SEC_RESERVE, 0, 65536, nullptr));
    const FileSection file;
    int fd = -1;
    REQUIRE(vipl_local_connect(name.data(), name.size(), &fd) == 0);
    const End end(fd);
    const std::uint64_t all = ~std::uint64_t{0};
    for (const std::uint64_t number : {std::uint64_t{0xdeadbeec}, all, all - 1, event.number(),
                                       reserved.number(), file.number(), pipe.number()}) {
        pipe.write_frame(number, number, "with something");
        const Heard heard(end.fd);
        CHECK(heard.text == "with something");
        for (const int each : heard.fds) {
            vipl_shm shm{};
            const int error = vipl_shm_attach(&shm, each, 1, true);
            CAPTURE(number, each, error);
            CHECK((error == EINVAL || error == EPERM || error == EBADF || error == EACCES));
        }
    }
}

TEST_CASE("what the system refuses leaves names and callers as they are", "[windows]")
{
    const std::string name = unique_name();
    int fd = -1, lock = -1;
    for (long count = 1, error = 1; error != 0; ++count) {
        REQUIRE(count < 100);
        vipl_alloc_fail_after(count);
        error = vipl_local_listen(name.data(), name.size(), &fd, &lock);
        vipl_alloc_fail_after(-1);
        CHECK((error == 0 || error == ENOMEM));
    }
    vipl_local_unlisten(name.data(), name.size(), fd, lock);
    vipl_resource_fail_after(1);
    CHECK(vipl_local_listen(name.data(), name.size(), &fd, &lock) == EMFILE);
    const Listener listener(name);
    vipl_resource_fail_after(1);
    CHECK(vipl_local_connect(name.data(), name.size(), &fd) == EMFILE);
    const End gone = listener.accept(); // of the call that failed
    CHECK(Heard(gone.fd).ends());
    const End caller(listener.connect());
    REQUIRE(vipl_poll(&listener.fd, 1, kLong, nullptr) == 0);
    vipl_resource_fail_after(1);
    CHECK(vipl_local_accept(listener.fd, &fd) == EMFILE);
    CHECK(vipl_poll(&listener.fd, 1, 0, nullptr) == 0);
    const End accepted = listener.accept();
    REQUIRE(say(caller.fd, "still here") == 0);
    CHECK(Heard(accepted.fd).text == "still here");
}
