/* SPDX-License-Identifier: MIT */
/* An index as a file: written whole under another name first, mapped to be read. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dm/index.h"
#include "dm/reason.h"

int dm_index_save(const struct dm_index *index, const char *path, struct vipl_dm_reason *reason)
{
    uint64_t bytes = DM_INDEX_HEAD_BYTES + index->entries * DM_INDEX_ENTRY_BYTES;
    char other[PATH_MAX];
    FILE *file;
    bool is_whole;

    if (snprintf(other, sizeof(other), "%s.new", path) >= (int)sizeof(other)) {
        return dm_fail(reason, ENAMETOOLONG, "index \"%s\": the name is too long", path);
    }
    file = fopen(other, "we");
    if (file == NULL) {
        return dm_fail(reason, errno, "index \"%s\": %s", other, strerror(errno));
    }
    is_whole = fwrite(index->all, 1, (size_t)bytes, file) == bytes;
    is_whole = fclose(file) == 0 && is_whole;
    if (!is_whole || rename(other, path) != 0) {
        int error = errno;
        unlink(other);
        return dm_fail(reason, error, "index \"%s\": %s", path, strerror(error));
    }
    return 0;
}

static int map_file(const char *path, uint8_t **all, uint64_t *bytes, struct vipl_dm_reason *reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *mapping = MAP_FAILED;
    int error = 0;

    if (fd < 0) {
        return dm_fail(reason, errno, "index \"%s\": %s", path, strerror(errno));
    }
    if (fstat(fd, &status) != 0) {
        error = errno;
    } else if (status.st_size == 0 || (uint64_t)status.st_size > SIZE_MAX) {
        error = EINVAL;
    } else {
        mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        error = mapping == MAP_FAILED ? errno : 0;
    }
    close(fd);
    if (error != 0) {
        return dm_fail(reason, error, "index \"%s\": %s", path, strerror(error));
    }
    *all = mapping;
    *bytes = (uint64_t)status.st_size;
    return 0;
}

int dm_index_load(const char *path, const struct dm_store *store, struct dm_index *index,
                  struct vipl_dm_reason *reason)
{
    uint8_t *all = NULL;
    uint64_t bytes = 0;
    int error = map_file(path, &all, &bytes, reason);

    if (error != 0) {
        return error;
    }
    error = dm_index_read(all, bytes, index, reason);
    if (error != 0) {
        munmap(all, (size_t)bytes);
        return error;
    }
    index->is_mapped = true;
    if (index->store_bytes != store->bytes || index->identity != store->identity) {
        error = dm_fail(reason, ESTALE,
                        "index \"%s\" is of another recording, or of an older state of this one", path);
    } else {
        error = dm_index_check(index, reason);
    }
    if (error != 0) {
        dm_index_free(index);
    }
    return error;
}
