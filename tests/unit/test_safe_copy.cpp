// SPDX-License-Identifier: MIT
//
// Copying through the kernel: the same results, and memory that is not there is told of, not died
// of. Also where the system has no copying between processes. What is set for a process stays, so
// each case is a child of its own.
#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.hpp"
#include "support/environment.hpp"

namespace {

constexpr size_t kPage = 65536; // or a multiple of one

void need(bool condition, int line)
{
    if (!condition) {
        dprintf(2, "test_safe_copy.cpp:%d: not so\n", line);
        _exit(1);
    }
}
#define NEED(condition) need(condition, __LINE__)

/** Runs it in a child, copying safely from now on. */
void in_child(const std::function<void()> &body)
{
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(60 * vipl_test::timeout_scale());
        vipl_iov_set_safe();
        body();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
}

bool has_process_vm()
{
    char from = 0, to = 0;
    const iovec local = {&to, 1}, there = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &there, 1, 0) == 1;
}

/** From now on no call copies between processes. */
void forbid_process_vm()
{
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {4, filter};
    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        NEED(!has_process_vm()); // an emulator, which has neither
    }
}

/** Two pages, of which the second can be taken away. */
struct Pages {
    Pages()
        : bytes(static_cast<unsigned char *>(
              mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
    {
        NEED(bytes != MAP_FAILED);
        std::memset(bytes, 0x5A, 2 * kPage);
    }
    ~Pages() { munmap(bytes, 2 * kPage); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;
    void lose() const /* but nobody else's memory comes there */
    {
        NEED(mmap(bytes + kPage, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
             bytes + kPage);
    }
    void protect() const { NEED(mprotect(bytes + kPage, kPage, PROT_READ) == 0); }
    unsigned char *bytes;
};

std::unique_ptr<unit::LongList> list(std::initializer_list<vipl_iov> pieces)
{
    auto sg = std::make_unique<unit::LongList>();
    sg->count = 0;
    sg->bytes = 0;
    for (const vipl_iov &piece : pieces) {
        sg->iov[sg->count++] = piece;
        sg->bytes += piece.len;
    }
    return sg;
}

/** Everything that copies, from and to pages that are there, half there, and gone. */
void all_ways()
{
    Pages good, lost, fixed;
    for (size_t i = 0; i < kPage; ++i) {
        good.bytes[i] = static_cast<unsigned char>(i * 7);
    }
    NEED(vipl_iov_bytes(lost.bytes, good.bytes, 2 * kPage));
    NEED(std::memcmp(lost.bytes, good.bytes, 2 * kPage) == 0);
    lost.lose();
    fixed.protect();
    const auto from = list({{good.bytes, 100}, {good.bytes + 100, 9000}});
    const auto there = list({{lost.bytes, 50}, {lost.bytes + kPage - 10000, 9050}});
    NEED(vipl_iov_copy(there.get(), from.get()) == VIPL_IOV_DONE);
    NEED(std::memcmp(lost.bytes, good.bytes, 50) == 0);
    NEED(std::memcmp(lost.bytes + kPage - 10000, good.bytes + 50, 9050) == 0);
    for (unsigned char *end : {lost.bytes + kPage, fixed.bytes + kPage}) {
        for (const size_t in : {0u, 1u, 8u, 100u}) {
            const auto beyond = list({{lost.bytes, 50}, {end - in, 9050}});
            NEED(vipl_iov_copy(beyond.get(), from.get()) == VIPL_IOV_FAULT_TO);
            NEED(!vipl_iov_scatter(beyond.get(), 0, good.bytes, 9100));
            NEED(vipl_iov_ordered(end - in, from.get()) == VIPL_IOV_FAULT_TO);
        }
    }
    for (const size_t in : {0u, 1u, 8u, 100u}) {
        const auto beyond = list({{good.bytes, 50}, {lost.bytes + kPage - in, 9050}});
        std::vector<unsigned char> out(10000);
        const auto to = list({{out.data(), 10000}});
        NEED(vipl_iov_copy(to.get(), beyond.get()) == VIPL_IOV_FAULT_FROM);
        NEED(!vipl_iov_gather(out.data(), beyond.get(), 0, 9100));
        NEED(vipl_iov_gather(out.data(), beyond.get(), 0, 50));
        NEED(vipl_iov_ordered(out.data(), beyond.get()) == VIPL_IOV_FAULT_FROM);
        NEED(!vipl_iov_can_read(lost.bytes + kPage - in, in + 1));
        NEED(vipl_iov_can_read(lost.bytes + kPage - in, in));
    }
    NEED(vipl_iov_may_write(reinterpret_cast<uint32_t *>(good.bytes)));
    NEED(!vipl_iov_may_write(reinterpret_cast<uint32_t *>(fixed.bytes + kPage)));
    NEED(!vipl_iov_may_write(reinterpret_cast<uint32_t *>(lost.bytes + kPage)));
}

#ifdef SYS_memfd_secret
/** Memory that the system shows to the process itself alone. False: it has none. */
bool secret_ways()
{
    const int file = static_cast<int>(syscall(SYS_memfd_secret, 0));
    if (file < 0) {
        return false;
    }
    const size_t bytes = 2 * kPage;
    NEED(ftruncate(file, static_cast<off_t>(bytes)) == 0);
    auto *secret =
        static_cast<unsigned char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (secret == MAP_FAILED) {
        return false; // more than may be locked
    }
    std::vector<unsigned char> in(bytes), out(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        in[i] = static_cast<unsigned char>(i * 7);
    }
    NEED(vipl_copy_checked(secret, in.data(), bytes) == 0);
    NEED(std::memcmp(secret, in.data(), bytes) == 0);
    NEED(vipl_copy_checked(out.data(), secret, bytes) == 0);
    NEED(out == in);
    NEED(vipl_iov_can_read(secret, bytes));
    NEED(vipl_iov_may_write(reinterpret_cast<uint32_t *>(secret)));
    NEED(mprotect(secret + kPage, kPage, PROT_NONE) == 0);
    NEED(vipl_copy_checked(out.data(), secret, bytes) == EFAULT);
    Pages half; // and memory of which only the second half is secret
    NEED(mmap(half.bytes + kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
         half.bytes + kPage);
    std::memset(half.bytes, 1, kPage);
    NEED(vipl_copy_checked(out.data(), half.bytes, bytes) == 0);
    NEED(std::memcmp(out.data(), half.bytes, bytes) == 0);
    return true;
}
#endif

/** A reader that spins on the last aligned item sees it whole, and all before it. */
template <class Item>
[[maybe_unused]] void item_comes_whole_and_last()
{
    if (!has_process_vm()) {
        return; // an emulator copies by bytes what the kernel stores whole
    }
    alignas(64) static unsigned char target[256];
    std::atomic<bool> over{false};
    std::atomic<unsigned> seen{0}, bad{0};
    auto *last = reinterpret_cast<Item *>(target + 256 - sizeof(Item));
    std::thread reader([&] {
        while (!over) {
            const Item now = __atomic_load_n(last, __ATOMIC_ACQUIRE);
            const auto byte = static_cast<unsigned char>(now);
            Item whole;
            std::memset(&whole, byte, sizeof whole);
            const unsigned char before = __atomic_load_n(&target[256 - sizeof(Item) - 1], __ATOMIC_ACQUIRE);
            const bool still =
                __atomic_load_n(last, __ATOMIC_ACQUIRE) == now; // else any number of rounds lies between
            bad += now != whole || (still && static_cast<unsigned char>(before - byte) > 1) ? 1 : 0;
            seen++;
        }
    });
    unsigned char source[256];
    const auto from = list({{source, 256}});
    for (unsigned round = 0; round < 20000 || seen < 1000; ++round) {
        std::memset(source, static_cast<int>(round & 255), sizeof source);
        NEED(vipl_iov_ordered(target, from.get()) == VIPL_IOV_DONE);
    }
    over = true;
    reader.join();
    NEED(bad == 0);
}

} // namespace

TEST_CASE("memory that is not there is a fault of its side", "[safe_copy]")
{
    in_child(all_ways);
}

TEST_CASE("where the system forbids copying between processes a pipe does it", "[safe_copy]")
{
    in_child([] {
        forbid_process_vm();
        all_ways();
        int fds[2];
        NEED(pipe(fds) == 0);
        close(fds[0]);
        close(fds[1]);
        const int lowest = fds[0];
        unsigned char a = 1, b = 0;
        NEED(vipl_copy_checked(&b, &a, 1) == 0 && b == 1);
        NEED(pipe(fds) == 0 && fds[0] == lowest);
    });
}

TEST_CASE("memory that the system shows to no other process is copied", "[safe_copy]")
{
#ifdef SYS_memfd_secret
    in_child([] {
        if (!secret_ways()) {
            dprintf(2, "the system has no secret memory: not tried\n");
        }
    });
#else
    WARN("the system has no secret memory: not tried");
#endif
}

#if !defined(__SANITIZE_THREAD__) // which takes the kernel's copy for no store that a program may spin on
TEST_CASE("a copy through the kernel has its last item whole, and last", "[safe_copy]")
{
    in_child(item_comes_whole_and_last<std::uint32_t>);
    if (sizeof(void *) == 8) { // iov.h: items of 8 bytes are whole on 64-bit hosts
        in_child(item_comes_whole_and_last<std::uint64_t>);
    }
}
#endif
