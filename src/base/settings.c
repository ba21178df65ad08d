/* SPDX-License-Identifier: MIT */
/* The table of settings, and what their values mean. */
#include "base/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NAME = 32,
    MAX_LIKE = 2 /* letters that are wrong, missing or too many in a name that is like another */
};

#if UINTPTR_MAX > 0xFFFFFFFFu
enum { SHARED_MIB = 1024, MAX_SHARED_MIB = 1048576 };
#else
enum { SHARED_MIB = 64, MAX_SHARED_MIB = 1024 };
#endif

#define TEXT(name) \
    { \
        name, VIPL_SETTING_TEXT, false, NULL, 0, 0, 0, 0 \
    }
#define DEVICE(name) \
    { \
        name, VIPL_SETTING_DEVICE, false, NULL, 0, 0, 0, 0 \
    }
#define ALIASES(name) \
    { \
        name, VIPL_SETTING_ALIASES, false, NULL, 0, 0, 0, 0 \
    }
#define PATH(name) \
    { \
        name, VIPL_SETTING_PATH, false, NULL, 0, 0, 0, 0 \
    }
#define PATH_OF_ENVIRONMENT(name) \
    { \
        name, VIPL_SETTING_PATH, true, NULL, 0, 0, 0, 0 \
    }
#define NUMBER(name, default_value, min, max) \
    { \
        name, VIPL_SETTING_NUMBER, false, NULL, min, max, default_value, 0 \
    }
#define RANGE(name, first, last, min, max) \
    { \
        name, VIPL_SETTING_RANGE, false, NULL, min, max, first, last \
    }
#define WORD(name, words) \
    { \
        name, VIPL_SETTING_WORD, false, words, 0, 0, 0, 0 \
    }
#define WORDS(name, words) \
    { \
        name, VIPL_SETTING_WORDS, false, words, 0, 0, 0, 0 \
    }

static const struct vipl_setting settings[] = {
    PATH_OF_ENVIRONMENT("VIPL_CONFIG"),
    PATH_OF_ENVIRONMENT("VIPL_RNICD"),
    PATH_OF_ENVIRONMENT("VIPL_SERVER"),
    PATH("VIPL_RNIC"),
    PATH("VIPL_RNIC_HOSTS"),
    PATH("VIPL_TRACE"),
    DEVICE("VIPL_DEVICE"),
    ALIASES("VIPL_DEVICE_ALIASES"),
    TEXT("VIPL_FAULTS"),
    TEXT("VIPL_RNIC_FAULTS"),
    TEXT("VIPL_RNIC_IMPAIR"),
    TEXT("VIPL_TRACE_OPS"),
    WORD("VIPL_LOG", "error reason info debug off"),
    WORD("VIPL_LOOPBACK_PULL", "auto on off"),
    WORD("VIPL_MPA_CRC", "auto on off"),
    WORD("VIPL_PROGRESS", "auto inline thread"),
    WORDS("VIPL_STRICT", "cq"),
    NUMBER("VIPL_ATFORK", 1, 0, 1),
    NUMBER("VIPL_LINGER", 5000, 0, 3600000),
    NUMBER("VIPL_LOOPBACK_INLINE", 4096, 0, 16384),
    NUMBER("VIPL_LOOPBACK_RING", 262144, 65536, 16777216),
    NUMBER("VIPL_RESTART", 0, 0, 1),
    NUMBER("VIPL_RNIC_SEED", 1, 0, UINT32_MAX),
    NUMBER("VIPL_SAFE_COPY", 0, 0, 1),
    NUMBER("VIPL_SHARED_MIB", SHARED_MIB, 1, MAX_SHARED_MIB),
    NUMBER("VIPL_TCP_BUFFER", 0, 0, 1u << 30),
    NUMBER("VIPL_TCP_HALF_OPEN", 256, 1, 65536),
    NUMBER("VIPL_TCP_HANDSHAKE_MS", 10000, 10, 600000),
    NUMBER("VIPL_TCP_IDLE_MS", 10000, 1000, 86400000),
    NUMBER("VIPL_TCP_TIMEOUT_MS", 20000, 1000, 86400000),
    RANGE("VIPL_TCP_PORTS", 18514, 18769, 1, 65535), /* below the ports that systems hand out by themselves */
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

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters are to be changed, left out or put in to make one name the other. */
static unsigned distance(const char *a, const char *b)
{
    unsigned
        row[MAX_NAME + 1]; /* for each beginning of b: from the beginning of a that has been gone through */
    size_t length = strlen(b);
    if (strlen(a) > MAX_NAME || length > MAX_NAME) {
        return MAX_NAME;
    }
    for (unsigned j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (unsigned i = 0; a[i] != '\0'; i++) {
        unsigned before = row[0]; /* of both beginnings without their last letter */
        row[0] = i + 1;
        for (unsigned j = 1; j <= length; j++) {
            unsigned changed = before + (a[i] == b[j - 1] ? 0 : 1);
            before = row[j];
            row[j] = least(changed, 1 + least(row[j], row[j - 1]));
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
    if (value[0] < '0' || value[0] > '9') { /* strtoul() lets blanks and signs pass */
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

/* The next of words with `between` between them, and its length; NULL: there is none. */
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

/* "name=device,...": an alias may have blanks in front of it. */
static bool allows_aliases(const char *value)
{
    size_t n;
    for (const char *each = value; *each != '\0'; each += n + (each[n] == ',' ? 1 : 0)) {
        n = strcspn(each, ",");
        size_t blanks = strspn(each, " ");
        const char *equals = memchr(each, '=', n);
        bool empty = n == 0 || blanks == n; /* as behind a last comma */
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

/* "a, b or c" */
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
