/* SPDX-License-Identifier: MIT */
/* Text that the library writes for the user, and files that it reads and appends to. */
#include <errno.h>
#include <string.h>

#include "os/os_atomic.h"
#include "os/windows/descriptor.h"

struct file {
    struct vipl_object object;
    HANDLE handle; /* constant */
};

static uint32_t is_asked_for; /* atomic: lines go to the standard error output, whatever it is */

static void end_file(struct vipl_object *object)
{
    (void)CloseHandle(((struct file *)(void *)object)->handle);
    vipl_free(object);
}

/* --- the standard error output --- */

void vipl_error_output_begin(bool asked)
{
    vipl_store_relaxed(&is_asked_for, asked);
}

bool vipl_error_output_is_open(void)
{
    DWORD type = GetFileType(GetStdHandle(STD_ERROR_HANDLE));
    return type == FILE_TYPE_CHAR || type == FILE_TYPE_PIPE ||
           (vipl_load_relaxed(&is_asked_for) != 0 && type != FILE_TYPE_UNKNOWN);
}

static void write_all(HANDLE to, const char *text, size_t length)
{
    DWORD n = 0;
    while (length > 0 && WriteFile(to, text, (DWORD)length, &n, NULL) && n > 0) {
        text += n;
        length -= n;
    }
}

void vipl_print_error(const char *text, size_t length)
{
    if (vipl_error_output_is_open()) {
        write_all(GetStdHandle(STD_ERROR_HANDLE), text, length);
    }
}

/* --- files --- */

void vipl_write_text(int fd, const char *text, size_t length)
{
    struct vipl_object *object = vipl_object_get(fd, end_file);
    if (object != NULL) {
        write_all(((struct file *)(void *)object)->handle, text, length);
        vipl_object_put(object);
    } else if (fd == 2) {
        write_all(GetStdHandle(STD_ERROR_HANDLE), text, length);
    }
}

int vipl_fd_append(const char *path, int *fd)
{
    struct file *file = vipl_zalloc(sizeof(*file));
    if (file == NULL) {
        return ENOMEM;
    }
    file->handle = CreateFileA(path, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                               NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file->handle == INVALID_HANDLE_VALUE) {
        int error = vipl_errno_of(GetLastError());
        vipl_free(file);
        return error;
    }
    int error = vipl_object_add(&file->object, end_file, fd);
    if (error != 0) {
        end_file(&file->object);
    }
    return error;
}

static int read_whole_file(HANDLE file, size_t most, char **text)
{
    LARGE_INTEGER size;
    size_t length = 0;
    DWORD n = 1;
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &size)) {
        return EINVAL;
    }
    if ((uint64_t)size.QuadPart > most) {
        return EFBIG;
    }
    size_t room = (size_t)size.QuadPart;
    char *bytes = vipl_alloc(room + 1);
    if (bytes == NULL) {
        return ENOMEM;
    }
    while (length < room && n > 0) {
        if (!ReadFile(file, bytes + length, (DWORD)(room - length), &n, NULL)) {
            int error = vipl_errno_of(GetLastError());
            vipl_free(bytes);
            return error;
        }
        length += n;
    }
    bytes[length] = '\0';
    *text = bytes;
    return 0;
}

int vipl_read_text(const char *path, size_t most, char **text)
{
    DWORD kind = GetFileAttributesA(path);
    if (kind != INVALID_FILE_ATTRIBUTES && (kind & FILE_ATTRIBUTE_DIRECTORY) != 0) {
        return EISDIR;
    }
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                              NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        return vipl_errno_of(GetLastError());
    }
    int error = read_whole_file(file, most, text);
    (void)CloseHandle(file);
    return error;
}
