// SPDX-License-Identifier: MIT
//
// PCI functions of this machine, and memory for them: names that no function has, and what the
// pages for DMA promise.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "internal.hpp"

extern "C" {
#include "backends/rnic/pci/pci.h"
#include "rnic/registers.h"
}

namespace {

constexpr size_t kLarge = 2 << 20;

/** Whether the calling process has this byte there: where a page was, another's may be by now. */
bool holds(const void *byte, unsigned char value)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return true;
    }
    unsigned char found = 0;
    const bool is_there = write(ends[1], byte, 1) == 1 && read(ends[0], &found, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return is_there && found == value;
}

/** A function of which only CTRL and STATUS are there. */
struct Resettable : rnic_pci {
    explicit Resettable(uint32_t status_after) : rnic_pci{}, status(0), after(status_after)
    {
        table.read = [](rnic_pci *pci, unsigned bar, uint32_t offset) {
            REQUIRE(bar == 0);
            REQUIRE(offset == RNIC_REG_STATUS);
            return static_cast<Resettable *>(pci)->status;
        };
        table.write = [](rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value) {
            REQUIRE(bar == 0);
            REQUIRE(offset == RNIC_REG_CTRL);
            REQUIRE(value == RNIC_CTRL_RESET);
            static_cast<Resettable *>(pci)->status = static_cast<Resettable *>(pci)->after;
        };
        ops = &table;
    }
    rnic_pci_ops table{};
    uint32_t status, after;
};

} // namespace

TEST_CASE(
    "a reset by register is over when the card says so; one that has gone, or does not obey, is told apart")
{
    Resettable good(RNIC_STATUS_READY | RNIC_STATUS_LINK_UP), gone(0xFFFFFFFF), stuck(RNIC_STATUS_LINK_UP);
    CHECK(rnic_pci_reset_by_register(&good) == 0);
    CHECK(rnic_pci_reset_by_register(&gone) == ENODEV);
    CHECK(rnic_pci_reset_by_register(&stuck) == ETIMEDOUT);
}

TEST_CASE("names that are no PCI address are refused before a file is opened")
{
    for (const char *name : {"", "0000:00:05", "0000:00:05.00", "000g:00:05.0", "0000-00-05.0",
                             "../../../tmp", "0000:00:05.0/", " 000:00:05.0"}) {
        INFO(name);
        CHECK_FALSE(vipl_pci_is_address(name));
        vipl_vfio vfio;
        int fd;
        CHECK(vipl_vfio_open(name, &vfio) == ENODEV);
        CHECK(vipl_pci_open(name, "config", &fd) == ENODEV);
        CHECK(vipl_pci_set(name, "enable", "1") == ENODEV);
        CHECK_FALSE(vipl_pci_has_iommu(name));
    }
    CHECK(vipl_pci_is_address("0000:00:05.0"));
    CHECK(vipl_pci_is_address("00fF:aB:1f.7"));
}

TEST_CASE("a function that is not there is no device, by VFIO and by sysfs")
{
    const char *const absent = "pci:ffff:ff:1f.7";
    rnic_pci *pci = nullptr;
    CHECK(rnic_pci_vfio_open(absent, &pci) == ENODEV);
    CHECK(rnic_pci_sysfs_open(absent, &pci) == ENODEV);
    CHECK(rnic_pci_vfio_open("inproc", &pci) == ENODEV);
    CHECK(rnic_pci_sysfs_open("pci", &pci) == ENODEV);
    CHECK(rnic_pci_sysfs_open("", &pci) == ENODEV);
    CHECK(pci == nullptr);
}

TEST_CASE("the card in this process is there in a library with the model, and no device in one without")
{
    rnic_pci *pci = nullptr;
    const bool has_model = std::strstr(VipxBuildOptions(), " rnic_model=on") != nullptr;
    CHECK((rnic_pci_open_model != nullptr) == has_model);
    CHECK(rnic_pci_open("inproc", &pci) == (has_model ? 0 : ENODEV));
    CHECK((pci != nullptr) == has_model);
    if (pci != nullptr) {
        CHECK(std::strcmp(pci->ops->name, "inproc") == 0);
        pci->ops->close(pci);
    }
}

TEST_CASE("pages for DMA are zeroed, aligned to 2 MiB, and not a forked child's")
{
    for (const size_t bytes : {kLarge, 3 * kLarge}) {
        auto *pages = static_cast<unsigned char *>(vipl_dma_pages(bytes, false));
        REQUIRE(pages != nullptr);
        CHECK(reinterpret_cast<uintptr_t>(pages) % kLarge == 0);
        CHECK(pages[0] == 0);
        CHECK(pages[bytes - 1] == 0);
        std::memset(pages, 0x5A, bytes);
        const pid_t child = fork();
        if (child == 0) {
            _exit(holds(pages, 0x5A) || holds(pages + bytes - 1, 0x5A) ? 1 : 0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        CHECK(holds(pages, 0x5A));
        vipl_dma_pages_free(pages, bytes);
        CHECK_FALSE(holds(pages, 0x5A));
    }
}

TEST_CASE("one physical range is 2 MiB, or refused")
{
    CHECK(vipl_dma_pages(2 * kLarge, true) == nullptr);
    CHECK(vipl_dma_pages(4096, true) == nullptr);
}

TEST_CASE("two addresses of one page have one physical address, and a page that was not touched has none")
{
    const size_t page = vipl_page_bytes();
    const int file = memfd_create("pages", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    REQUIRE(ftruncate(file, static_cast<off_t>(3 * page)) == 0);
    auto *one = static_cast<char *>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    auto *other = static_cast<char *>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    REQUIRE(one != MAP_FAILED);
    REQUIRE(other != MAP_FAILED);
    one[0] = one[page] = other[0] = other[page] = 1;
    uint64_t found[3], again[2];
    const int error = vipl_physical_pages(one, 2, found);
    if (error == EPERM || error == ENOENT) {
        SUCCEED("this process may not know");
    } else {
        CHECK(error == 0);
        CHECK(vipl_physical_pages(other, 2, again) == 0);
        CHECK(found[0] == again[0]);
        CHECK(found[1] == again[1]);
        CHECK(found[0] != found[1]);
        CHECK(found[0] % page == 0);
        uint64_t all[3] = {1, 1, 1};
        CHECK(vipl_physical_pages(one + page, 2, all) == EFAULT);
        CHECK(all[0] == found[1]);
        CHECK(all[1] == 0);
    }
    munmap(one, 3 * page);
    munmap(other, 3 * page);
    close(file);
}
