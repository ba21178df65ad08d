// SPDX-License-Identifier: MIT
//
// The card's access to memory that a program has passed as a descriptor: shared memory, and its
// own.
#include "raw_client.hpp"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/wait.h>

using namespace adapter_test;

namespace {

constexpr const char *kMemoryFile = R"({"capabilities":{"vipl_memory_file":true}})";
constexpr unsigned kBoth = VFU_DMA_READABLE | VFU_DMA_WRITEABLE;

unsigned open_descriptors()
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr) {
        ++count;
    }
    closedir(folder);
    return count;
}

/** Shared memory that this process has mapped. */
struct Mapped {
    explicit Mapped(size_t size, bool sealed = true) : bytes(size), fd(memory_file(size, sealed))
    {
        at = static_cast<std::uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        REQUIRE(at != MAP_FAILED);
    }
    ~Mapped()
    {
        munmap(at, bytes);
        close(fd);
    }
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;
    size_t bytes;
    int fd;
    std::uint8_t *at;
};

/** The proof that a descriptor is this process's memory, from the program's side. */
struct Cookie {
    alignas(16) std::uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 0xF8};
    bool is_answered() const
    {
        for (int i = 0; i < 8; ++i) {
            if (bytes[8 + i] != static_cast<std::uint8_t>(~bytes[i])) {
                return false;
            }
        }
        return true;
    }
};

std::uint64_t address_of(const void *p)
{
    return reinterpret_cast<std::uintptr_t>(p);
}

/** A client whose own memory is proven. */
struct OwnMemory {
    explicit OwnMemory(const Adapter &adapter) : client(adapter.socket, true, kMemoryFile)
    {
        REQUIRE(vipl_own_memory(&fd) == 0);
        REQUIRE(client.greeting.find("\"vipl_memory_file\":true") != std::string::npos);
        REQUIRE(client.map(1 << 20, sizeof cookie.bytes, {fd}, address_of(cookie.bytes),
                           kBoth | VFU_DMA_MEMORY_FILE) == 0);
        REQUIRE(cookie.is_answered());
    }
    ~OwnMemory() { vipl_fd_close(fd); }
    OwnMemory(const OwnMemory &) = delete;
    OwnMemory &operator=(const OwnMemory &) = delete;
    unsigned map(std::uint64_t iova, const void *at, size_t bytes, unsigned flags = kBoth)
    {
        return client.map(iova, bytes, {}, address_of(at), flags | VFU_DMA_MEMORY_FILE);
    }
    Client client;
    Cookie cookie;
    int fd = -1;
};

} // namespace

TEST_CASE("the card reads and writes shared memory, also over the border of two maps", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket);
    const Mapped one(8192), two(8192);
    for (unsigned i = 0; i < 8192; ++i) {
        one.at[i] = static_cast<std::uint8_t>(i);
        two.at[i] = static_cast<std::uint8_t>(i * 3);
    }
    REQUIRE(client.map(0x100000, 4096, {one.fd}, 4096) == 0);
    REQUIRE(client.map(0x101000, 4096, {two.fd}, 0) == 0);
    REQUIRE(client.run(FAKE_DMA_READ, 0x100FF0, 32));
    Bytes wanted(one.at + 8176, one.at + 8192);
    wanted.insert(wanted.end(), two.at, two.at + 16);
    CHECK(client.read(0, FAKE_BUFFER, 32) == wanted);
    for (const unsigned skew : {0u, 1u, 4u, 7u}) {
        for (const unsigned bytes : {1u, 4u, 8u, 13u, 200u, 4000u}) {
            Bytes data(bytes, static_cast<std::uint8_t>(skew + bytes));
            client.write(0, FAKE_BUFFER, data);
            REQUIRE(client.run(FAKE_DMA_WRITE, 0x101000 + skew, bytes));
            CHECK(std::memcmp(two.at + skew, data.data(), bytes) == 0);
        }
    }
    client.write(0, FAKE_BUFFER, {1, 2, 3, 4});
    REQUIRE(client.run(FAKE_PUBLISH, 0x101010, 0));
    CHECK(std::memcmp(two.at + 16, "\1\2\3\4", 4) == 0);
}

TEST_CASE("maps that overlap, wrap or are nothing are refused, and unmapping nothing is not", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, kMemoryFile);
    const Mapped memory(65536);
    REQUIRE(client.map(0x10000, 0x1000, {memory.fd}) == 0);
    CHECK(client.map(0x10000, 0x1000, {memory.fd}) == EEXIST);
    CHECK(client.map(0xF001, 0x1000, {memory.fd}) == EEXIST);
    CHECK(client.map(0x10FFF, 1, {memory.fd}) == EEXIST);
    CHECK(client.map(0x20000, 0, {memory.fd}) == EINVAL);
    CHECK(client.map(UINT64_MAX, 2, {memory.fd}) == EINVAL);
    CHECK(client.map(0x20000, 0x1000, {memory.fd}, 65536) == EINVAL); // behind the file's end
    CHECK(client.map(0x20000, 0x1000, {memory.fd}, UINT64_MAX) == EINVAL);
    CHECK(client.map(0x20000, 0x10001, {memory.fd}) == EINVAL);
    CHECK(client.map(0x20000, 0x1000, {memory.fd, memory.fd}) == EINVAL);
    CHECK(client.error_of(VFU_DMA_MAP, Bytes(31)) == EINVAL);
    REQUIRE(client.map(0x11000, 0x2000, {memory.fd}) == 0);
    CHECK(client.unmap(0x12000, 0x1000) == EINVAL); // half of a map
    CHECK(client.unmap(0x10000, 0x2000) == EINVAL);
    CHECK(client.run(FAKE_DMA_READ, 0x10000, 0x3000)); // nothing has changed
    CHECK(client.unmap(0x40000000, 0x1000) == 0);
    CHECK(client.unmap(0, 0) == EINVAL);
    CHECK(client.unmap(0x10000, 0x3000) == 0); // both at once
    CHECK_FALSE(client.run(FAKE_DMA_READ, 0x10000, 1));
    REQUIRE(client.map(0x10000, 0x1000, {memory.fd}) == 0);
    for (unsigned power = 0; power < 63;
         ++power) { // the whole address space, in powers of two, as under a vIOMMU
        REQUIRE(client.unmap(std::uint64_t{1} << power, std::uint64_t{1} << power) == 0);
    }
    CHECK_FALSE(client.run(FAKE_DMA_READ, 0x10000, 1));
    CHECK(client.error_of(VFU_DMA_UNMAP, Bytes(23)) == EINVAL);
}

TEST_CASE("the card has 65,535 maps of one file, and one descriptor of it at most", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, kMemoryFile);
    const Mapped memory(4096);
    memory.at[7] = 99;
    REQUIRE(client.map(0, 4096, {memory.fd}) == 0);
    const unsigned before = open_descriptors(); // of this process, which is the adapter's
    for (std::uint64_t i = 1; i < 65535; ++i) {
        REQUIRE(client.map(i * 8192, 4096, {memory.fd}) == 0);
    }
    CHECK(client.get(FAKE_ID) == RNIC_ID_VALUE); // the adapter has finished with the last of them
    CHECK(open_descriptors() <= before);
    CHECK(client.map(65535 * std::uint64_t{8192}, 4096, {memory.fd}) == ENOSPC);
    REQUIRE(client.run(FAKE_DMA_READ, 40000 * std::uint64_t{8192} + 7, 1));
    CHECK(client.read(0, FAKE_BUFFER, 1) == Bytes{99});
    CHECK(client.unmap(0, std::uint64_t{1} << 40) == 0);
    CHECK(client.map(65535 * std::uint64_t{8192}, 4096, {memory.fd}) == 0);
}

TEST_CASE("the rights of a map are the adapter's to keep", "[memory]")
{
    const Adapter adapter;
    OwnMemory own(adapter);
    const Mapped memory(4096);
    REQUIRE(own.client.map(0x10000, 4096, {memory.fd}, 0, VFU_DMA_READABLE) == 0);
    CHECK(own.client.run(FAKE_DMA_READ, 0x10000, 8));
    CHECK_FALSE(own.client.run(FAKE_DMA_WRITE, 0x10000, 8));
    REQUIRE(own.client.map(0x20000, 4096, {memory.fd}, 0, VFU_DMA_WRITEABLE) == 0);
    CHECK(own.client.run(FAKE_DMA_WRITE, 0x20000, 8));
    CHECK_FALSE(own.client.run(FAKE_DMA_READ, 0x20000, 8));
    auto *fixed =
        static_cast<std::uint8_t *>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(own.map(0x30000, fixed, 4096, VFU_DMA_READABLE) == 0);
    CHECK(own.client.run(FAKE_DMA_READ, 0x30000, 8));
    own.client.write(0, FAKE_BUFFER, Bytes(8, 0x55));
    CHECK_FALSE(own.client.run(FAKE_DMA_WRITE, 0x30000, 8)); // the kernel would write there
    CHECK(fixed[0] == 0);
    munmap(fixed, 4096);
}

TEST_CASE("a file that may only be read is not written", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, kMemoryFile);
    const Mapped memory(4096);
    const int fixed = open(("/proc/self/fd/" + std::to_string(memory.fd)).c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(fixed >= 0);
    REQUIRE(client.map(0x10000, 4096, {fixed}) == 0);
    CHECK(client.run(FAKE_DMA_READ, 0x10000, 8));
    CHECK_FALSE(client.run(FAKE_DMA_WRITE, 0x10000, 8));
    close(fixed);
}

TEST_CASE("shared memory cannot be taken away from the adapter that has mapped it", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, kMemoryFile);
    const int fd = memory_file(8192, false); // without seals, as it was made
    REQUIRE(client.map(0x10000, 8192, {fd}) == 0);
    CHECK((ftruncate(fd, 0) == -1 && errno == EPERM));
    REQUIRE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) == 0);
    CHECK(client.run(FAKE_DMA_WRITE, 0x10000, 8192));
    REQUIRE(ftruncate(fd, 16384) == 0); // it may grow, and be mapped again
    CHECK(client.map(0x20000, 16384, {fd}) == 0);
    CHECK(client.run(FAKE_DMA_WRITE, 0x22000, 8192));
    CHECK(client.run(FAKE_DMA_WRITE, 0x10000, 8192));
    close(fd);
}

TEST_CASE("a shared file that is cut off is an error, and no signal", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, kMemoryFile);
    char name[] = "/dev/shm/vipl-test-XXXXXX";
    const int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) {
        WARN("there is no /dev/shm");
        return;
    }
    unlink(name);
    REQUIRE(ftruncate(fd, 8192) == 0);
    REQUIRE(client.map(0x10000, 8192, {fd}) == 0);
    client.write(0, FAKE_BUFFER, {1, 2, 3});
    REQUIRE(client.run(FAKE_DMA_WRITE, 0x10000 + 5000, 3));
    std::uint8_t seen[3] = {};
    REQUIRE((pread(fd, seen, 3, 5000) == 3 && seen[2] == 3));
    REQUIRE(ftruncate(fd, 4096) == 0);
    CHECK_FALSE(client.run(FAKE_DMA_READ, 0x10000 + 5000, 3));
    CHECK(client.run(FAKE_DMA_READ, 0x10000, 4096));
    close(fd);
}

TEST_CASE("a program's own memory is read and written through its descriptor, without its help", "[memory]")
{
    const Adapter adapter;
    OwnMemory own(adapter);
    std::vector<std::uint8_t> memory(300000, 7); // ordinary memory, at any address
    REQUIRE(own.map(0x1000000 + 5, memory.data(), memory.size()) == 0);
    own.client.write(0, FAKE_BUFFER, Bytes(4096, 0xAB));
    for (const unsigned bytes : {1u, 3u, 4u, 8u, 9u, 100u, 4096u}) {
        REQUIRE(own.client.run(FAKE_DMA_WRITE, 0x1000000 + 5 + 1001, bytes));
        CHECK((memory[1000] == 7 && memory[1001] == 0xAB && memory[1000 + bytes] == 0xAB &&
               memory[1001 + bytes] == 7));
        std::fill(memory.begin(), memory.end(), std::uint8_t{7});
    }
    for (size_t i = 0; i < memory.size(); ++i) {
        memory[i] = static_cast<std::uint8_t>(i * 11);
    }
    REQUIRE(own.client.run(FAKE_DMA_READ, 0x1000000 + 5 + 70000, FAKE_BUFFER_BYTES));
    for (unsigned at = 0; at < FAKE_BUFFER_BYTES; at += 4096) {
        REQUIRE(own.client.read(0, FAKE_BUFFER + at, 4096) ==
                Bytes(memory.begin() + 70000 + at, memory.begin() + 70000 + at + 4096));
    }
}

TEST_CASE("a page that is not there is an error of the access", "[memory]")
{
    const Adapter adapter;
    OwnMemory own(adapter);
    auto *pages = static_cast<std::uint8_t *>(
        mmap(nullptr, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(own.map(0x2000000, pages, 131072) == 0); // before any page is touched
    CHECK(own.client.run(FAKE_DMA_WRITE, 0x2000000, 4096));
    munmap(pages + 65536, 65536);
    CHECK_FALSE(own.client.run(FAKE_DMA_READ, 0x2000000 + 65536, 1));
    CHECK_FALSE(own.client.run(FAKE_DMA_WRITE, 0x2000000 + 65530, 16));
    CHECK(own.client.run(FAKE_DMA_READ, 0x2000000 + 65530, 6));
    munmap(pages, 65536);
}

TEST_CASE("a descriptor that is not the program's memory proves nothing", "[memory]")
{
    const Adapter adapter;
    Client client(adapter.socket, true, kMemoryFile);
    Cookie cookie;
    const unsigned flags = kBoth | VFU_DMA_MEMORY_FILE;
    const std::uint64_t at = address_of(cookie.bytes);
    int own = -1;
    REQUIRE(vipl_own_memory(&own) == 0);
    const int comm = open("/proc/self/comm", O_RDWR | O_CLOEXEC), memory = memory_file(65536, true);
    CHECK(client.map(0x10000, 16, {}, at, flags) == EFAULT);      // none at all
    CHECK(client.map(0x10000, 16, {comm}, 0, flags) == EFAULT);   // another file of /proc
    CHECK(client.map(0x10000, 16, {memory}, 0, flags) == EFAULT); // shared memory
    CHECK(client.map(0x10000, 16, {own}, 0, flags) == EFAULT);    // nothing is there
    CHECK(client.map(0x10000, 15, {own}, at, flags) == EFAULT);   // too short
    CHECK_FALSE(cookie.is_answered());
    CHECK(client.map(0x10000, 16, {own}, at, flags) == 0);
    CHECK(cookie.is_answered());
    Client stranger(adapter.socket); // has not said that it knows of this
    CHECK(stranger.map(0x10000, 16, {own}, at, flags) == EINVAL);
    for (const int fd : {comm, memory}) {
        close(fd);
    }
    vipl_fd_close(own);
}

#if !defined(__SANITIZE_THREAD__) // a child of a program with threads
TEST_CASE("a file that is only called like a process's memory is none", "[memory]")
{
    const Folder folder;
    const pid_t child = fork();
    if (child == 0) { // with mounts of its own
        const std::string file = folder.path + "/proc/1/mem";
        vipl_file is{};
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", folder.path.c_str(), "tmpfs", 0, nullptr) != 0) {
            _exit(77);
        }
        bool good = std::system(("mkdir -p " + folder.path + "/proc/1").c_str()) == 0;
        const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        good = good && fd >= 0 && umount2(folder.path.c_str(), MNT_DETACH) == 0; // its path begins there now
        char name[64] = "";
        (void)!readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
        good = good && std::string(name) == "/proc/1/mem" && vipl_file_identify(fd, &is) == 0;
        _exit(good && is.kind == VIPL_FILE_MEMORY ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        WARN("this process may not mount anything");
    } else {
        CHECK(status == 0);
    }
}
#endif

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) // a child of a program with threads
TEST_CASE("the memory of a dead program is not there any more", "[memory]")
{
    const Adapter adapter;
    OwnMemory own(adapter);
    int to_parent[2], mem[2];
    REQUIRE((pipe2(to_parent, 0) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, mem) == 0));
    static std::uint8_t buffer[4096] = {42};
    const pid_t child = fork(); // whose memory is passed by this process
    if (child == 0) {
        const int fd = open("/proc/self/mem", O_RDWR);
        size_t sent = 0;
        const bool good = vipl_unix_send(mem[1], "x", 1, &fd, 1, &sent) == 0;
        char wait;
        (void)!read(to_parent[0], &wait, good ? 1 : 0);
        _exit(0);
    }
    char byte;
    size_t length = 0;
    int fd = -1;
    unsigned count = 0;
    pollfd entry = {mem[0], POLLIN, 0};
    REQUIRE(poll(&entry, 1, wait_ms()) == 1);
    REQUIRE((vipl_unix_receive(mem[0], &byte, 1, &length, &fd, 1, &count) == 0 && count == 1));
    Client client(adapter.socket, true, kMemoryFile);
    REQUIRE(client.map(0x10000, 4096, {fd}, address_of(buffer), kBoth | VFU_DMA_MEMORY_FILE) == 0);
    REQUIRE(client.run(FAKE_DMA_READ, 0x10000, 1));
    CHECK(client.read(0, FAKE_BUFFER, 1) == Bytes{42});
    close(to_parent[1]);
    close(to_parent[0]);
    int status = 0;
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_FALSE(client.run(FAKE_DMA_READ, 0x10000, 1));
    vipl_fd_close(fd);
    close(mem[0]);
    close(mem[1]);
}
#endif
