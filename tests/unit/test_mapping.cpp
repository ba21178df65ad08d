// SPDX-License-Identifier: MIT
//
// What memory is, in a process whose main() has ended by pthread_exit() while other threads go on.
#include <catch2/catch.hpp>

#include <cerrno>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.hpp"

namespace {

constexpr std::size_t kBytes = 65536;

/** A child whose first thread ends, so that the other one does this when it has; the child's end
 * status. */
[[maybe_unused]] int without_first_thread(void *(*body)(void *))
{
    const pid_t child = fork();
    if (child == 0) {
        pthread_t other;
        if (pthread_create(&other, nullptr, body, nullptr) != 0) {
            _exit(2);
        }
        syscall(SYS_exit, 0); // as pthread_exit() does, which would unwind the test as well
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/** Until the system has no list of the first thread's any more. */
[[maybe_unused]] void await_end_of_first()
{
    char byte;
    ssize_t length = 1;
    while (length > 0) {
        FILE *file = std::fopen("/proc/self/maps", "r");
        length = file != nullptr ? static_cast<ssize_t>(std::fread(&byte, 1, 1, file)) : 0;
        if (file != nullptr) {
            std::fclose(file);
        }
    }
}

} // namespace

#if !defined(__SANITIZE_THREAD__) // a child of a program with threads
TEST_CASE("the first thread's end does not hide the memory of the process", "[mapping]")
{
    CHECK(without_first_thread([](void *) -> void * {
              const int flags = MAP_SHARED | MAP_ANONYMOUS;
              void *shared = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
              void *read_only = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              vipl_mapping mapping{};
              vipl_part part{};
              await_end_of_first();
              const bool good = vipl_shared_mapping(shared, kBytes, &mapping) == 0 && mapping.inode != 0 &&
                                vipl_shared_mapping(read_only, kBytes, &mapping) != 0 &&
                                vipl_may_write(shared, kBytes) && !vipl_may_write(read_only, kBytes) &&
                                vipl_plain_parts(shared, kBytes, &part, 1) == 1 && part.bytes == kBytes;
              _exit(good ? 0 : 1);
          }) == 0);
}

TEST_CASE("the first thread's end does not keep shared memory from being handed over", "[mapping]")
{
    CHECK(without_first_thread([](void *) -> void * {
              const int file = memfd_create("unit", 0);
              vipl_shared_file files[8];
              unsigned count = 0;
              bool found = false;
              if (file < 0 || ftruncate(file, kBytes) != 0) {
                  _exit(2);
              }
              void *shared = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
              await_end_of_first();
              const int error = vipl_shared_files(files, 8, &count);
              for (unsigned i = 0; i < count; ++i) {
                  found = found || files[i].address == reinterpret_cast<std::uintptr_t>(shared);
              }
              _exit(error == 0 && found ? 0 : 1);
          }) == 0);
}
#endif
