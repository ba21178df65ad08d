// SPDX-License-Identifier: MIT
//
// Ends of channels as scoped values, and what a peer can make without the library: pipes, named
// segments, sections of other kinds. Children use them, too.
#ifndef VIPL_TESTS_WINDOWS_CHANNELS_HPP
#define VIPL_TESTS_WINDOWS_CHANNELS_HPP

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/escaped.hpp"
#include "support/os_hooks.hpp"
#include "support/windows/ended.hpp"

namespace windows_test {

constexpr int kLong = 60000; // milliseconds: what is waited for comes before

/** A handle of the system. */
struct Handle {
    explicit Handle(HANDLE made) : value(made) {}
    ~Handle() { CloseHandle(value); }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    std::uint64_t number() const { return reinterpret_cast<std::uintptr_t>(value); }
    HANDLE value;
};

inline std::string unique_name()
{
    static unsigned count = 0;
    return "vipl/test/" + std::to_string(GetCurrentProcessId()) + "/" + std::to_string(++count);
}

/** What the segment of a name is called. */
inline std::string section_name(const std::string &name)
{
    return "Local\\vipl-" + vipl_test::escaped(name);
}

/** A descriptor that is closed. */
struct End {
    explicit End(int number) : fd(number) {}
    End(End &&other) noexcept : fd(other.fd) { other.fd = -1; }
    ~End() { close(); }
    End(const End &) = delete;
    End &operator=(const End &) = delete;
    End &operator=(End &&) = delete;
    void close()
    {
        vipl_fd_close(fd);
        fd = -1;
    }
    int fd;
};

/** Connects to a name, as soon as the listener has room. */
inline int connect_to(const std::string &name)
{
    const unsigned long long end = vipl_test::now_ms() + kLong;
    int fd = -1, error = EAGAIN;
    while ((error = vipl_local_connect(name.data(), name.size(), &fd)) == EAGAIN &&
           vipl_test::now_ms() < end) {
        vipl_test::give_way();
    }
    EXPECT(error == 0);
    return fd;
}

inline End accept_at(int listener)
{
    int fd = -1;
    EXPECT(vipl_poll(&listener, 1, kLong, nullptr) == 0);
    EXPECT(vipl_local_accept(listener, &fd) == 0);
    return End(fd);
}

struct Listener {
    explicit Listener(std::string which) : name(std::move(which))
    {
        EXPECT(vipl_local_listen(name.data(), name.size(), &fd, &lock) == 0);
    }
    ~Listener() { vipl_local_unlisten(name.data(), name.size(), fd, lock); }
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;
    int connect() const { return connect_to(name); }
    End accept() const { return accept_at(fd); }

    std::string name;
    int fd = -1, lock = -1;
};

/** Two connected ends in this process. */
struct Joined {
    explicit Joined(const Listener &listener) : Joined(listener.name, listener.fd) {}
    Joined(const std::string &name, int listener) : calling(connect_to(name)), accepted(accept_at(listener))
    {
    }
    End calling, accepted;
};

inline int say(int fd, const std::string &text, const std::vector<int> &pass = {})
{
    return vipl_local_send(fd, text.data(), text.size(), pass.data(), static_cast<unsigned>(pass.size()));
}

/** What one call receives. */
struct Heard {
    enum When { waits, at_once };
    explicit Heard(int fd, When when = waits, size_t room = 2000) : text(room, '?')
    {
        if (when == waits) {
            vipl_poll(&fd, 1, kLong, nullptr);
        }
        error = vipl_local_receive(fd, &text[0], room, &length, fds);
        text.resize(error == 0 ? length : 0);
    }
    ~Heard()
    {
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
    }
    Heard(const Heard &) = delete;
    Heard &operator=(const Heard &) = delete;
    bool ends() const { return error == 0 && length == 0; }

    std::string text;
    int error = -1;
    size_t length = 1234;
    int fds[2] = {-2, -2};
};

inline void await_hang_up(int fd)
{
    const unsigned long long end = vipl_test::now_ms() + kLong;
    while (!vipl_local_has_hung_up(fd) && vipl_test::now_ms() < end) {
        vipl_test::give_way();
    }
    EXPECT(vipl_local_has_hung_up(fd));
}

/** A segment with a text. */
struct Segment {
    explicit Segment(const char *text)
    {
        EXPECT(vipl_shm_create(&shm, "test", 4096) == 0);
        std::strcpy(static_cast<char *>(shm.base), text);
    }
    ~Segment() { vipl_shm_release(&shm); }
    Segment(const Segment &) = delete;
    Segment &operator=(const Segment &) = delete;
    int fd() const { return shm.fd; }
    vipl_shm shm{};
};

/** The text in a segment that a peer has passed. The descriptor stays open. */
inline std::string text_in(int fd)
{
    vipl_shm shm{};
    if (vipl_shm_attach(&shm, fd, 4096, false) != 0) {
        return "(not mapped)";
    }
    const std::string text = static_cast<const char *>(shm.base);
    shm.fd = -1; // the caller closes it
    vipl_shm_release(&shm);
    return text;
}

/** Says that a process has a name, by a pipe of this number. */
struct Entry {
    Entry(const std::string &name, DWORD process, std::uint64_t pipe)
        : section(CreateFileMappingA(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE, 0, 4096,
                                     section_name(name).c_str()))
    {
        struct {
            std::uint32_t owner, unused;
            std::uint64_t pipe[2];
        } content = {process, 0, {pipe, pipe}};
        void *there = MapViewOfFile(section.value, FILE_MAP_WRITE, 0, 0, 0);
        EXPECT(there != nullptr);
        std::memcpy(there, &content, sizeof content);
        UnmapViewOfFile(there);
    }
    Handle section;
};

/** The server's end of a pipe of a number, without the library. */
struct RawPipe : Handle {
    RawPipe(std::uint64_t id, DWORD type)
        : Handle(CreateNamedPipeA(name_of(id).c_str(), PIPE_ACCESS_DUPLEX, type, PIPE_UNLIMITED_INSTANCES,
                                  65536, 65536, 0, nullptr))
    {
        EXPECT(value != INVALID_HANDLE_VALUE);
    }
    static std::string name_of(std::uint64_t id)
    {
        char name[80];
        std::snprintf(name, sizeof name, "\\\\.\\pipe\\vipl-%016llx%016llx",
                      static_cast<unsigned long long>(id), static_cast<unsigned long long>(id));
        return name;
    }
    void write(const std::string &bytes) const
    {
        DWORD written = 0;
        EXPECT(WriteFile(value, bytes.data(), static_cast<DWORD>(bytes.size()), &written, nullptr));
    }
    void write_frame(std::uint64_t first, std::uint64_t second, const std::string &text) const
    {
        const std::uint64_t passed[] = {first, second};
        write(std::string(reinterpret_cast<const char *>(passed), sizeof passed) + text);
    }
};

/** A section of a file, which is deleted. */
struct FileSection : Handle {
    FileSection() : Handle(make()) { EXPECT(value != nullptr); }

private:
    static HANDLE make()
    {
        char folder[MAX_PATH], path[MAX_PATH];
        GetTempPathA(sizeof folder, folder);
        GetTempFileNameA(folder, "vip", 0, path);
        const HANDLE file = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, nullptr, CREATE_ALWAYS,
                                        FILE_FLAG_DELETE_ON_CLOSE, nullptr);
        const HANDLE section = CreateFileMappingA(file, nullptr, PAGE_READWRITE, 0, 65536, nullptr);
        CloseHandle(file);
        return section;
    }
};

} // namespace windows_test

#endif
