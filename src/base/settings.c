/* SPDX-License-Identifier: MIT */
/* The table of settings, and the meaning of their values. */
#include "base/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NAME = 32,
    MAX_LIKE = 2 /* characters that differ between two similar names */
};

#if UINTPTR_MAX > 0xFFFFFFFFu
enum { SHARED_MIB = 1024, MAX_SHARED_MIB = 1048576 };
#else
enum { SHARED_MIB = 64, MAX_SHARED_MIB = 1024 };
#endif

#define NUMBER(setting, value, least, most) \
    { \
        .name = (setting), .kind = VIPL_SETTING_NUMBER, .default_value = (value), .min = (least), \
        .max = (most) \
    }

static const struct vipl_setting settings[] = {
    {.name = "VIPL_CONFIG", .kind = VIPL_SETTING_PATH, .environment_only = true},
    {.name = "VIPL_RNICD", .kind = VIPL_SETTING_PATH, .environment_only = true},
    {.name = "VIPL_SERVER", .kind = VIPL_SETTING_PATH, .environment_only = true},
    {.name = "VIPL_DM_DPDK", .kind = VIPL_SETTING_PATH, .environment_only = true},
    {.name = "VIPL_RNIC", .kind = VIPL_SETTING_PATH},
    {.name = "VIPL_RNIC_HOSTS", .kind = VIPL_SETTING_PATH},
    {.name = "VIPL_SOCKETS_RULES", .kind = VIPL_SETTING_PATH},
    {.name = "VIPL_TRACE", .kind = VIPL_SETTING_PATH},
    {.name = "VIPL_DEVICE", .kind = VIPL_SETTING_DEVICE},
    {.name = "VIPL_DM_DPDK_EAL", .kind = VIPL_SETTING_TEXT, .environment_only = true},
    {.name = "VIPL_SOCKETS_FAULT", .kind = VIPL_SETTING_TEXT, .environment_only = true},
    {.name = "VIPL_SOCKETS_DEVICE", .kind = VIPL_SETTING_DEVICE},
    {.name = "VIPL_DEVICE_ALIASES", .kind = VIPL_SETTING_ALIASES},
    {.name = "VIPL_FAULTS", .kind = VIPL_SETTING_TEXT},
    {.name = "VIPL_RNIC_FAULTS", .kind = VIPL_SETTING_TEXT},
    {.name = "VIPL_RNIC_IMPAIR", .kind = VIPL_SETTING_TEXT},
    {.name = "VIPL_TRACE_OPS", .kind = VIPL_SETTING_TEXT},
    {.name = "VIPL_CACHE", .kind = VIPL_SETTING_WORD, .words = "auto off verify"},
    {.name = "VIPL_LOG", .kind = VIPL_SETTING_WORD, .words = "error reason info debug off"},
    {.name = "VIPL_LOOPBACK_PULL", .kind = VIPL_SETTING_WORD, .words = "auto on off"},
    {.name = "VIPL_MPA_CRC", .kind = VIPL_SETTING_WORD, .words = "auto on off"},
    {.name = "VIPL_PROGRESS", .kind = VIPL_SETTING_WORD, .words = "auto inline thread"},
    {.name = "VIPL_STRICT", .kind = VIPL_SETTING_WORDS, .words = "cq"},
    NUMBER("VIPL_ATFORK", 1, 0, 1),
    NUMBER("VIPL_CACHE_MIB", 0, 0, MAX_SHARED_MIB),
    NUMBER("VIPL_CACHE_REGIONS", 1024, 1, 1u << 22),
    NUMBER("VIPL_LINGER", 5000, 0, 3600000),
    NUMBER("VIPL_LOOPBACK_INLINE", 4096, 0, 16384),
    NUMBER("VIPL_LOOPBACK_RING", 262144, 65536, 16777216),
    NUMBER("VIPL_RESTART", 0, 0, 1),
    NUMBER("VIPL_RNIC_BOTF", 0, 0, 464),
    NUMBER("VIPL_RNIC_SEED", 1, 0, UINT32_MAX),
    NUMBER("VIPL_SAFE_COPY", 0, 0, 1),
    NUMBER("VIPL_SHARED_MIB", SHARED_MIB, 1, MAX_SHARED_MIB),
    NUMBER("VIPL_SOCKETS_JOIN_MS", 2000, 10, 600000),
    NUMBER("VIPL_SOCKETS_STATS", 0, 0, UINT32_MAX),
    NUMBER("VIPL_SPIN_US", 50, 0, 10000),
    NUMBER("VIPL_TCP_BUFFER", 0, 0, 1u << 30),
    NUMBER("VIPL_TCP_HALF_OPEN", 256, 1, 65536),
    NUMBER("VIPL_TCP_HANDSHAKE_MS", 10000, 10, 600000),
    NUMBER("VIPL_TCP_IDLE_MS", 10000, 1000, 86400000),
    NUMBER("VIPL_TCP_TIMEOUT_MS", 20000, 1000, 86400000),

    /* The default is below the ports that systems assign by themselves. */
    {.name = "VIPL_TCP_PORTS",
     .kind = VIPL_SETTING_RANGE,
     .default_value = 18514,
     .last = 18769,
     .min = 1,
     .max = 65535},
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

/* --- names --- */

const struct vipl_setting *vipl_setting_find(const char *name)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        if (strcmp(settings[i].name, name) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

static unsigned min_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Returns the edit distance: the number of characters to replace, delete or insert to turn one name
 * into the other. */
static unsigned distance(const char *a, const char *b)
{
    /* For each prefix of b: the distance from the prefix of a that has been read. */
    unsigned row[MAX_NAME + 1];
    size_t length = strlen(b);
    if (strlen(a) > MAX_NAME || length > MAX_NAME) {
        return MAX_NAME;
    }
    for (unsigned j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (unsigned i = 0; a[i] != '\0'; i++) {
        unsigned before = row[0]; /* the distance of both prefixes without their last character */
        row[0] = i + 1;
        for (unsigned j = 1; j <= length; j++) {
            unsigned changed = before + (a[i] == b[j - 1] ? 0 : 1);
            before = row[j];
            row[j] = min_of(changed, 1 + min_of(row[j], row[j - 1]));
        }
    }
    return row[length];
}

const struct vipl_setting *vipl_setting_like(const char *name)
{
    const struct vipl_setting *found = NULL;
    unsigned nearest = MAX_LIKE + 1;
    for (unsigned i = 0; i < SETTINGS; i++) {
        unsigned far = distance(name, settings[i].name);
        if (far < nearest) {
            nearest = far;
            found = &settings[i];
        }
    }
    return found;
}

/* --- values --- */

bool vipl_setting_number(const struct vipl_setting *setting, const char *value, uint32_t *number)
{
    char *end;
    if (value[0] < '0' || value[0] > '9') { /* strtoul() would accept blanks and signs */
        return false;
    }
    unsigned long n = strtoul(value, &end, 10);
    if (*end != '\0' || n < setting->min || n > setting->max) {
        return false;
    }
    *number = (uint32_t)n;
    return true;
}

bool vipl_setting_range(const struct vipl_setting *setting, const char *value, uint32_t *first,
                        uint32_t *last)
{
    char text[MAX_NAME];
    size_t dash = strcspn(value, "-");
    if (value[dash] == '\0' || dash >= sizeof(text)) {
        return false;
    }
    memcpy(text, value, dash);
    text[dash] = '\0';
    uint32_t from;
    uint32_t to;
    if (!vipl_setting_number(setting, text, &from) || !vipl_setting_number(setting, value + dash + 1, &to) ||
        from > to) {
        return false;
    }
    *first = from;
    *last = to;
    return true;
}

/* Finds the next word of a list, and its length. `between` has the characters between words. NULL:
 * there is none. */
static const char *next_word(const char *at, const char *between, size_t *length)
{
    at += strspn(at, between);
    *length = strcspn(at, between);
    return *length == 0 ? NULL : at;
}

static bool find_word(const struct vipl_setting *setting, const char *word, size_t bytes, unsigned *which)
{
    size_t n;
    const char *each = setting->words;
    for (*which = 0; (each = next_word(each, " ", &n)) != NULL; ++*which) {
        if (n == bytes && memcmp(each, word, n) == 0) {
            return true;
        }
        each += n;
    }
    return false;
}

bool vipl_setting_word(const struct vipl_setting *setting, const char *value, unsigned *which)
{
    return find_word(setting, value, strlen(value), which);
}

bool vipl_setting_lists(const char *value, const char *word)
{
    size_t n;
    while ((value = next_word(value, ", ", &n)) != NULL) {
        if (n == strlen(word) && memcmp(value, word, n) == 0) {
            return true;
        }
        value += n;
    }
    return false;
}

static bool allows_words(const struct vipl_setting *setting, const char *value)
{
    unsigned which;
    size_t n;
    while ((value = next_word(value, ", ", &n)) != NULL) {
        if (!find_word(setting, value, n, &which)) {
            return false;
        }
        value += n;
    }
    return true;
}

/* Returns true for a list "name=device,...". Blanks before an alias are allowed. */
static bool allows_aliases(const char *value)
{
    size_t n;
    for (const char *each = value; *each != '\0'; each += n + (each[n] == ',' ? 1 : 0)) {
        n = strcspn(each, ",");
        size_t blanks = strspn(each, " ");
        const char *equals = memchr(each, '=', n);
        bool empty = n == 0 || blanks == n; /* for example after the last comma */
        if (!empty && (equals == NULL || equals == each + blanks || equals == each + n - 1)) {
            return false;
        }
    }
    return true;
}

bool vipl_setting_names_no_file(const struct vipl_setting *setting, const char *value)
{
    switch (setting->kind) {
    case VIPL_SETTING_PATH:
        return false;
    case VIPL_SETTING_DEVICE:
    case VIPL_SETTING_ALIASES:
        return strchr(value, '/') == NULL && strstr(value, ":socket:") == NULL;
    case VIPL_SETTING_TEXT:
    case VIPL_SETTING_NUMBER:
    case VIPL_SETTING_RANGE:
    case VIPL_SETTING_WORD:
    case VIPL_SETTING_WORDS:
        break;
    }
    return true;
}

bool vipl_setting_allows(const struct vipl_setting *setting, const char *value)
{
    uint32_t number;
    uint32_t last;
    unsigned which;
    switch (setting->kind) {
    case VIPL_SETTING_NUMBER:
        return vipl_setting_number(setting, value, &number);
    case VIPL_SETTING_RANGE:
        return vipl_setting_range(setting, value, &number, &last);
    case VIPL_SETTING_WORD:
        return vipl_setting_word(setting, value, &which);
    case VIPL_SETTING_WORDS:
        return allows_words(setting, value);
    case VIPL_SETTING_ALIASES:
        return allows_aliases(value);
    case VIPL_SETTING_TEXT:
    case VIPL_SETTING_PATH:
    case VIPL_SETTING_DEVICE:
        break;
    }
    return true;
}

/* Writes the words as "a, b or c". */
static void list_words(const char *words, char *text, size_t size)
{
    size_t at = 0;
    size_t n;
    size_t after;
    const char *each = next_word(words, " ", &n);
    text[0] = '\0';
    for (bool first = true; each != NULL && at < size; first = false) {
        const char *next = next_word(each + n, " ", &after);
        const char *between = first ? "" : next == NULL ? " or " : ", ";
        at += (size_t)snprintf(text + at, size - at, "%s%.*s", between, (int)n, each);
        each = next;
        n = after;
    }
}

void vipl_setting_describe(const struct vipl_setting *setting, char *text, size_t size)
{
    char words[64];
    switch (setting->kind) {
    case VIPL_SETTING_NUMBER:
        snprintf(text, size, "a number from %u to %u", (unsigned)setting->min, (unsigned)setting->max);
        break;
    case VIPL_SETTING_RANGE:
        snprintf(text, size, "first-last, of numbers from %u to %u", (unsigned)setting->min,
                 (unsigned)setting->max);
        break;
    case VIPL_SETTING_WORD:
        list_words(setting->words, text, size);
        break;
    case VIPL_SETTING_WORDS:
        list_words(setting->words, words, sizeof(words));
        snprintf(text, size, "a list of %s", words);
        break;
    case VIPL_SETTING_ALIASES:
        snprintf(text, size, "name=device,...");
        break;
    case VIPL_SETTING_TEXT:
    case VIPL_SETTING_PATH:
    case VIPL_SETTING_DEVICE:
        snprintf(text, size, "any text");
        break;
    }
}
