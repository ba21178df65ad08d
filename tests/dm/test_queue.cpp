// SPDX-License-Identifier: MIT
//
// Transfers of a file by each kind of queue.
#include "recordings.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

extern "C" {
#include "dm/queue.h"
}

using namespace dm_test;

namespace {

struct File {
    int fd;
    explicit File(const Bytes &bytes)
    {
        char name[] = "/tmp/vipl-dm-queue-XXXXXX";
        fd = mkstemp(name);
        REQUIRE(fd >= 0);
        unlink(name);
        REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    }
    ~File() { close(fd); }
};

std::vector<const dm_queue_kind *> kinds()
{
    std::vector<const dm_queue_kind *> all{&dm_queue_thread};
#if VIPL_DM_URING
    all.push_back(&dm_queue_uring);
#endif
    return all;
}

/** NULL: this system has no such queue. */
dm_queue *create(const dm_queue_kind *kind, int fd, dm_direction direction)
{
    dm_queue *queue = kind->create(fd, direction);
    if (queue == nullptr) {
        WARN(kind->name << ": " << std::strerror(errno));
        REQUIRE(kind != &dm_queue_thread);
    }
    return queue;
}

} // namespace

TEST_CASE("transfers move what they say, all that are taken at a time", "[dm_queue]")
{
    for (const dm_queue_kind *kind : kinds()) {
        Bytes bytes;
        for (std::uint32_t i = 0; i < 1000; ++i) {
            const Bytes part = frame(i, 1000);
            bytes.insert(bytes.end(), part.begin(), part.end());
        }
        const File file(bytes);
        dm_queue *queue = create(kind, file.fd, DM_READ);
        if (queue == nullptr) {
            continue;
        }
        Bytes got(65 * 16384);
        unsigned taken = 0;
        for (std::uint32_t i = 0; i < 64; ++i) {
            const dm_transfer one = {got.data() + i * 16384, i * 16384ull, 16384, i};
            taken += kind->submit(queue, &one) == 0 ? 1 : 0;
        }
        CHECK(taken == DM_MAX_TRANSFERS);
        const dm_transfer more = {got.data(), 0, 512, 64};
        dm_transferred ended[100];
        unsigned count = 0;
        std::uint64_t total = 0;
        std::vector<bool> seen(64);
        while (count < 64) {
            const unsigned now = kind->reap(queue, ended, 7, true);
            REQUIRE(now > 0);
            for (unsigned i = 0; i < now; ++i) {
                REQUIRE(ended[i].error == 0);
                REQUIRE_FALSE(seen[ended[i].cookie]);
                seen[ended[i].cookie] = true;
                total += ended[i].bytes;
            }
            count += now;
        }
        CHECK(total == bytes.size()); // the last one reaches the end
        CHECK(std::memcmp(got.data(), bytes.data(), bytes.size()) == 0);
        CHECK(kind->reap(queue, ended, 7, true) == 0); // none is on its way
        CHECK(kind->submit(queue, &more) == 0);
        CHECK(kind->reap(queue, ended, 7, true) == 1);
        kind->destroy(queue);
    }
}

TEST_CASE("more transfers than a queue takes are refused", "[dm_queue]")
{
    for (const dm_queue_kind *kind : kinds()) {
        const File file(Bytes(4096));
        dm_queue *queue = create(kind, file.fd, DM_READ);
        if (queue == nullptr) {
            continue;
        }
        Bytes got(4096);
        const dm_transfer one = {got.data(), 0, 4096, 0};
        for (unsigned i = 0; i < DM_MAX_TRANSFERS; ++i) {
            REQUIRE(kind->submit(queue, &one) == 0);
        }
        CHECK(kind->submit(queue, &one) == EAGAIN); // none has been reaped
        dm_transferred ended;
        for (unsigned i = 0; i < DM_MAX_TRANSFERS; ++i) {
            REQUIRE(kind->reap(queue, &ended, 1, true) == 1);
        }
        kind->destroy(queue);
    }
}

TEST_CASE("a transfer that fails says why", "[dm_queue]")
{
    for (const dm_queue_kind *kind : kinds()) {
        const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        REQUIRE(fd >= 0);
        dm_queue *queue = create(kind, fd, DM_WRITE);
        if (queue != nullptr) {
            Bytes bytes(4096);
            const dm_transfer one = {bytes.data(), 0, 4096, 9};
            REQUIRE(kind->submit(queue, &one) == 0);
            dm_transferred ended{};
            REQUIRE(kind->reap(queue, &ended, 1, true) == 1);
            CHECK(ended.error == ENOSPC);
            CHECK(ended.cookie == 9);
            kind->destroy(queue);
        }
        close(fd);
    }
}

TEST_CASE("results of a transfer: short ones go on, a read ends early at the end of the file", "[dm_queue]")
{
    dm_queued one = {{nullptr, 0, 8192, 0}, 0, 0};
    CHECK_FALSE(dm_queued_ends(&one, DM_WRITE, 512));
    CHECK_FALSE(dm_queued_ends(&one, DM_WRITE, -EINTR));
    CHECK(dm_queued_ends(&one, DM_WRITE, 7680));
    CHECK(one.error == 0);
    one = {{nullptr, 0, 8192, 0}, 0, 0};
    CHECK(dm_queued_ends(&one, DM_WRITE, 0));
    CHECK(one.error == EIO);
    one = {{nullptr, 0, 8192, 0}, 0, 0};
    CHECK_FALSE(dm_queued_ends(&one, DM_READ, 4096));
    CHECK(dm_queued_ends(&one, DM_READ, 0));
    CHECK(one.error == 0);
    CHECK(one.moved == 4096);
    one = {{nullptr, 0, 8192, 0}, 0, 0};
    CHECK(dm_queued_ends(&one, DM_READ, 4100));
    CHECK(dm_queued_ends(&one, DM_READ, -EIO));
    CHECK(one.error == EIO);
}
