/* SPDX-License-Identifier: MIT */
/*
 * vipl-run: whether the system loads a library into a program by LD_PRELOAD. It does not if the
 * program is static, if the program has more rights than its user, or if the program is of another
 * CPU or word size than the library. What is read here may change before exec: the message is for
 * the user, and nothing is decided by it but whether LD_PRELOAD is set.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run.h"

enum { MOST_SCRIPTS = 5 /* that run each other: what Linux allows */, HEAD_BYTES = 256 };

/* What the library is built for: that of this program. */
#if UINTPTR_MAX > 0xFFFFFFFFu
enum { OWN_CLASS = ELFCLASS64 };
#else
enum { OWN_CLASS = ELFCLASS32 };
#endif

static bool cannot(char why[RUN_WHY_BYTES], const char *program, const char *what)
{
    snprintf(why, RUN_WHY_BYTES, "%s %s", program, what);
    return false;
}

/* The machine of this program; 0: not known. */
static unsigned own_machine(void)
{
    ElfW(Ehdr) head;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool read = fd >= 0 && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head);
    if (fd >= 0) {
        close(fd);
    }
    return read ? head.e_machine : 0;
}

static bool has_more_rights(int fd)
{
    struct stat file;
    char value[64];
    if (fstat(fd, &file) != 0) {
        return false;
    }
    bool user = (file.st_mode & S_ISUID) != 0 && file.st_uid != geteuid();
    bool group = (file.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && file.st_gid != getegid();
    /* Root has them all already. */
    bool capable = geteuid() != 0 && fgetxattr(fd, "security.capability", value, sizeof(value)) > 0;
    return user || group || capable;
}

/* Whether a dynamic linker is named in the program, which is an ELF file of this machine. */
static bool is_dynamic(int fd, const ElfW(Ehdr) * head)
{
    for (unsigned i = 0; i < head->e_phnum; i++) {
        ElfW(Phdr) part;
        off_t at = (off_t)head->e_phoff + (off_t)i * head->e_phentsize;
        if (pread(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part)) {
            return true; /* left to exec */
        }
        if (part.p_type == PT_INTERP) {
            return true;
        }
    }
    return false;
}

static bool look_at_elf(int fd, const char *program, char why[RUN_WHY_BYTES])
{
    ElfW(Ehdr) head;
    unsigned machine = own_machine();
    if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head)) {
        return true; /* left to exec */
    }
    if (head.e_ident[EI_CLASS] != OWN_CLASS || (machine != 0 && head.e_machine != machine)) {
        return cannot(why, program, "is for another CPU or word size than this library");
    }
    if (!is_dynamic(fd, &head)) {
        return cannot(why, program, "is a static program, into which no library can be loaded");
    }
    if (has_more_rights(fd)) {
        return cannot(why, program,
                      "has more rights than its user (set-user-ID or the like): the system "
                      "loads no library of the user's into it");
    }
    return true;
}

/* Finds the program that runs a script, in its first line. False: it names none. */
static bool find_interpreter(const char *head, char path[PATH_MAX])
{
    const char *at = head + 2;
    at += strspn(at, " \t");
    size_t length = strcspn(at, " \t\n");
    if (length == 0) {
        return false;
    }
    memcpy(path, at, length); /* shorter than HEAD_BYTES */
    path[length] = '\0';
    return true;
}

bool run_can_help(const char *program, char why[RUN_WHY_BYTES])
{
    char head[HEAD_BYTES + 1];
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", program);
    for (int i = 0; i < MOST_SCRIPTS; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return true; /* a program that may be run and not read; or exec says what is wrong */
        }
        ssize_t n = pread(fd, head, HEAD_BYTES, 0);
        head[n < 0 ? 0 : n] = '\0';
        bool is_script = n > 2 && memcmp(head, "#!", 2) == 0;
        bool is_elf = n > SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0;
        bool helps = !is_elf || look_at_elf(fd, path, why);
        close(fd);
        if (!is_script || !find_interpreter(head, path)) {
            return helps;
        }
    }
    return true;
}
