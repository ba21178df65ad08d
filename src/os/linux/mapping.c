/* SPDX-License-Identifier: MIT */
/* The kernel's list of a process's mappings. Two processes share memory that has the same file and
 * offset in both lists. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "os/os.h"

/* One mapping: a line of the list. */
struct line {
    uint64_t begin;
    uint64_t end;
    uint64_t offset;
    uint64_t device;
    uint64_t inode;
    bool shared; /* and writable */
    bool readable;
    bool writable;
    /* the kernel's name of the mapping: a path, which may be cut off or end in " (deleted)", or
     * another name */
    char path[256];
};

/* Opens the process's list, or the thread's list where the former is empty: it is once main() has
 * ended by pthread_exit(). An emulator translates the addresses of the process's list alone. */
static FILE *open_list(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    int first = file == NULL ? EOF : getc(file);
    if (first != EOF && ungetc(first, file) == first) {
        return file;
    }
    if (file != NULL) {
        fclose(file);
    }
    return fopen("/proc/thread-self/maps", "re");
}

static bool read_maps_line(FILE *file, struct line *line)
{
    char text[512];
    char rights[5];
    unsigned major;
    unsigned minor;
    if (fgets(text, sizeof(text), file) == NULL) {
        return false;
    }
    /* skips the rest of a long name */
    for (int c = 0; strchr(text, '\n') == NULL && c != '\n' && c != EOF;) {
        c = fgetc(file);
    }
    line->path[0] = '\0';
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %255[^\n]", &line->begin,
               &line->end, rights, &line->offset, &major, &minor, &line->inode, line->path) < 7) {
        return false;
    }
    line->device = (uint64_t)major << 32 | minor;
    line->readable = rights[0] == 'r';
    line->writable = rights[1] == 'w';
    line->shared = rights[0] == 'r' && rights[1] == 'w' && rights[3] == 's';
    return true;
}

/* The lines are in order of their addresses: the bytes may span several that continue each
 * other. */
int vipl_shared_mapping(const void *address, size_t bytes, struct vipl_mapping *out)
{
    uint64_t next = (uint64_t)(uintptr_t)address;
    uint64_t end = next + bytes;
    struct line line;
    bool found = false;
    FILE *file = open_list();
    if (file == NULL) {
        return errno;
    }
    while (next < end && read_maps_line(file, &line)) {
        if (line.end <= next) {
            continue;
        }
        uint64_t offset = line.offset + (next - line.begin);
        bool goes_on = found && line.device == out->device && line.inode == out->inode &&
                       offset == out->offset + (next - (uint64_t)(uintptr_t)address);
        if (line.begin > next || !line.shared || (found && !goes_on)) {
            break;
        }
        if (!found) {
            *out = (struct vipl_mapping){line.device, line.inode, offset};
            found = true;
        }
        next = line.end;
    }
    fclose(file);
    return next >= end ? 0 : EINVAL;
}

/* --- private memory --- */

/* The kernel's answer about one mapping (PROCMAP_QUERY of <linux/fs.h>, since Linux 6.11), for
 * systems whose headers are older. */
struct map_query {
    uint64_t size;
    uint64_t flags;
    uint64_t address;
    uint64_t begin;
    uint64_t end;
    uint64_t kind;
    uint64_t page_bytes;
    uint64_t offset;
    uint64_t inode;
    uint32_t device[2];
    uint32_t name_bytes;
    uint32_t build_id_bytes;
    uint64_t name;
    uint64_t build_id;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
enum { MAP_QUERY_RIGHTS = 3, MAP_QUERY_SHARED = 8, MAP_QUERY_FILE = 32 };

/* What a mapping is: its rights, as a sum, if it is private memory of no file; else OTHER. */
enum { OTHER = -1, MAY_READ = 1, MAY_WRITE = 2 };

/* One mapping, as far as vipl_private_extent() needs it. */
struct piece {
    uint64_t begin;
    uint64_t end;
    int kind;
};

/* The private mappings that have a range of addresses: `next` is the first address that has not
 * been looked for yet. */
struct extent {
    uint64_t begin;
    uint64_t next;
    uint64_t end;   /* of the range */
    int first_kind; /* of the mappings found so far; OTHER: none is */
    int last_kind;
};

/* Adds the next mapping. Returns false if it is not private memory of no file, or not the next. */
static bool add_private(struct extent *extent, const struct piece *piece)
{
    if (piece->begin > extent->next || piece->kind == OTHER) {
        return false;
    }
    extent->first_kind = extent->first_kind == OTHER ? piece->kind : extent->first_kind;
    extent->last_kind = piece->kind;
    extent->begin = piece->begin < extent->begin ? piece->begin : extent->begin;
    extent->next = piece->end;
    return true;
}

/* Adds the mappings before and after the range, as far as they adjoin it and have its rights. */
static void add_adjoining(struct extent *extent, const struct piece *before, const struct piece *after)
{
    if (before->kind == extent->first_kind && before->end == extent->begin) {
        extent->begin = before->begin;
    }
    if (after->kind == extent->last_kind && after->begin == extent->next) {
        extent->next = after->end;
    }
}

/* Asks for the mapping that has an address. Returns ENOENT if there is none, ENOTTY if the kernel
 * does not know the query. */
static int query_piece(int maps, uint64_t address, struct piece *out)
{
    struct map_query query = {.size = sizeof(query), .address = address};
    *out = (struct piece){.kind = OTHER};
    if (ioctl(maps, MAP_QUERY, &query) != 0) {
        return errno == ENOENT ? ENOENT : ENOTTY;
    }
    bool is_private = (query.kind & (MAP_QUERY_SHARED | MAP_QUERY_FILE)) == 0 && query.inode == 0;
    *out = (struct piece){query.begin, query.end, is_private ? (int)(query.kind & MAP_QUERY_RIGHTS) : OTHER};
    return 0;
}

/* Returns ENOTTY if the kernel does not know the query, EINVAL if a mapping is not private. */
static int query_extent(int maps, struct extent *extent, bool adjoining)
{
    struct piece piece;
    while (extent->next < extent->end) {
        int error = query_piece(maps, extent->next, &piece);
        if (error != 0 || !add_private(extent, &piece)) {
            return error == ENOTTY ? ENOTTY : EINVAL;
        }
    }
    if (adjoining) {
        struct piece before;
        (void)query_piece(maps, extent->begin - 1, &before);
        (void)query_piece(maps, extent->next, &piece);
        add_adjoining(extent, &before, &piece);
    }
    return 0;
}

static struct piece piece_of(const struct line *line)
{
    int rights = (line->readable ? MAY_READ : 0) | (line->writable ? MAY_WRITE : 0);
    return (struct piece){line->begin, line->end, !line->shared && line->inode == 0 ? rights : OTHER};
}

static int list_extent(FILE *file, struct extent *extent, bool adjoining)
{
    struct piece before = {.kind = OTHER};
    struct piece after = {.kind = OTHER};
    struct line line;
    while (read_maps_line(file, &line)) {
        struct piece piece = piece_of(&line);
        if (piece.end <= extent->next) {
            before = piece;
        } else if (extent->next >= extent->end) {
            after = piece;
            break;
        } else if (!add_private(extent, &piece)) {
            return EINVAL;
        }
    }
    if (adjoining) {
        add_adjoining(extent, &before, &after);
    }
    return extent->next >= extent->end ? 0 : EINVAL;
}

/* Through the thread's own entry, which is there when main() has ended by pthread_exit(). */
int vipl_maps_open(int *out)
{
    vipl_fd_begin();
    *out = vipl_resource_fails(EMFILE) ? -1 : open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    int error = vipl_fd_adopt(out);
    vipl_fd_end();
    return error;
}

/* Reads the list from its beginning, for a kernel that does not know the query. */
static int read_extent(struct extent *extent, bool adjoining)
{
    FILE *file = open_list();
    if (file == NULL) {
        return errno;
    }
    int error = list_extent(file, extent, adjoining);
    fclose(file);
    return error;
}

int vipl_private_extent(int maps, bool adjoining, uintptr_t *first, uintptr_t *end)
{
    struct extent extent = {.begin = *first, .next = *first, .end = *end, .first_kind = OTHER};
    int error = query_extent(maps, &extent, adjoining);
    error = error == ENOTTY ? read_extent(&extent, adjoining) : error;
    if (error == 0) {
        *first = (uintptr_t)extent.begin;
        *end = (uintptr_t)extent.next;
    }
    return error;
}

/* --- handing mappings to another program --- */

bool vipl_may_write(const void *address, size_t bytes)
{
    uint64_t first = (uint64_t)(uintptr_t)address;
    uint64_t end = first + bytes;
    struct line line;
    bool may = true;
    FILE *file = open_list();
    while (file != NULL && may && read_maps_line(file, &line) && line.begin < end) {
        may = line.end <= first || line.writable;
    }
    if (file != NULL) {
        fclose(file);
    }
    return may;
}

static bool has_prefix(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether the library has made the segment (vipl_shm_create()), for certain processes only. */
static bool is_own(const struct line *line)
{
    return has_prefix(line->path, "/memfd:vipl-link") || has_prefix(line->path, "/memfd:vipl-window") ||
           has_prefix(line->path, "/memfd:vipl-shared") || has_prefix(line->path, "/memfd:vipl-rnic");
}

/* Whether the mapping is of a device, or of something else that is no file. */
static bool is_device(const struct line *line)
{
    bool in_dev = has_prefix(line->path, "/dev/") && !has_prefix(line->path, "/dev/shm/") &&
                  !has_prefix(line->path, "/dev/zero") && !has_prefix(line->path, "/dev/hugepages/");
    return in_dev || (line->path[0] != '/' && !has_prefix(line->path, "[anon_shmem"));
}

/* --- what other processes can reach --- */

/* Whether other processes can reach the memory: not that of memfd_secret(), and perhaps not that of
 * a device. */
static bool is_plain(const struct line *line)
{
    return line->readable && line->writable && !has_prefix(line->path, "/secretmem") &&
           (line->inode == 0 || !is_device(line));
}

unsigned vipl_plain_parts(const void *address, size_t bytes, struct vipl_part *out, unsigned most)
{
    uint64_t first = (uint64_t)(uintptr_t)address;
    uint64_t end = first + bytes;
    unsigned count = 0;
    struct line line;
    FILE *file = open_list();
    while (file != NULL && read_maps_line(file, &line) && line.begin < end) {
        uint64_t from = line.begin > first ? line.begin : first;
        uint64_t to = line.end < end ? line.end : end;
        if (line.end <= first || !is_plain(&line)) {
            continue;
        }
        if (count > 0 && out[count - 1].first + out[count - 1].bytes == from) {
            out[count - 1].bytes += (size_t)(to - from);
        } else if (count < most) {
            out[count++] = (struct vipl_part){(uintptr_t)from, (size_t)(to - from)};
        } else {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

/* --- descriptors of mappings --- */

static bool is_file_of(int fd, const struct line *line)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_ino == line->inode &&
           ((uint64_t)major(st.st_dev) << 32 | minor(st.st_dev)) == line->device;
}

static int open_path(const char *path, const struct line *line)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && !is_file_of(fd, line)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Opens the mapping's file by a descriptor that the program has: a memfd has no path. */
static int open_descriptor(const struct line *line)
{
    int found = -1;
    DIR *folder = opendir("/proc/thread-self/fd");
    struct dirent *entry;
    while (folder != NULL && found < 0 && (entry = readdir(folder)) != NULL) {
        char path[64];
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && is_file_of(fd, line)) {
            snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
            found = open_path(path, line);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

/* Returns a descriptor of what is mapped, or -1. The kernel's own list of mapped files needs a
 * capability, so that the path and the program's descriptors are tried too. */
static int open_mapped(const struct line *line)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, line->begin, line->end);
    int fd = open_path(path, line);
    fd = fd >= 0 ? fd : open_path(line->path, line);
    return fd >= 0 ? fd : open_descriptor(line);
}

int vipl_shared_files(struct vipl_shared_file *out, unsigned most, unsigned *count)
{
    struct line line;
    int error = 0;
    FILE *file = open_list();
    *count = 0;
    if (file == NULL) {
        return errno;
    }
    while (error == 0 && read_maps_line(file, &line)) {
        if (!line.shared || is_own(&line) || is_device(&line)) {
            continue;
        }
        vipl_fd_begin();
        int fd = *count == most ? -1 : open_mapped(&line);
        error = fd < 0 || vipl_fd_adopt(&fd) != 0 ? ENOTSUP : 0;
        vipl_fd_end();
        if (error == 0) {
            out[(*count)++] = (struct vipl_shared_file){fd, (uintptr_t)line.begin,
                                                        (size_t)(line.end - line.begin), line.offset};
        }
    }
    fclose(file);
    return error;
}

int vipl_shared_file_map(const struct vipl_shared_file *file)
{
    void *address = (void *)file->address;
    void *base = mmap(address, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                      file->fd, (off_t)file->offset);
    if (base != MAP_FAILED && base != address) { /* a kernel that does not know the flag */
        munmap(base, file->bytes);
        return EEXIST;
    }
    return base == MAP_FAILED ? errno : 0;
}
