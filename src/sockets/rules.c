/* SPDX-License-Identifier: MIT */
/* The rules are read at the first call that asks for them, and then stay as they are. Any number of
 * threads may read them at the same time; one wins, and its rules are everybody's. No lock is held,
 * so that a child that is forked meanwhile goes on. */
#include "sockets/rules.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/config_check.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "sockets/device.h"
#include "sockets/hello.h"
#include "sockets/program.h"

enum {
    MOST_BYTES = 1 << 20, /* of the file */
    PROGRAM_BYTES = 64,   /* of a pattern */
    WORDS = 4,            /* of a rule without a device, which has two more */
    ALL_WORDS = 6,
    PATH_BYTES = PATH_MAX
};

struct rule {
    bool vipl;
    bool connects;
    char program[PROGRAM_BYTES];
    uint8_t host[16];
    unsigned host_bytes; /* 4 or 16; 0: any address */
    unsigned bits;       /* of the address that count */
    uint16_t first_port;
    uint16_t last_port;
    char device[SOCK_DEVICE_BYTES]; /* "": the rule names none */
};

struct sock_rules {
    bool all_tcp; /* the file is wrong */
    unsigned count;
    struct rule rules[];
};

/* --- addresses ------------------------------------------------------------------------------- */

/* Reads an address; an IPv4 address that is written as an IPv6 one becomes what it is. False: it is
 * of another family, or too short. */
static bool read_address(const struct sockaddr *address, socklen_t length, struct vipl_inet *out)
{
    memset(out, 0, sizeof(*out));
    if (length >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        out->host_len = 4;
        out->port = ntohs(v4.sin_port);
        memcpy(out->host, &v4.sin_addr, 4);
        return true;
    }
    if (length >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        out->host_len = mapped ? 4 : 16;
        out->port = ntohs(v6.sin6_port);
        out->scope = v6.sin6_scope_id;
        memcpy(out->host, v6.sin6_addr.s6_addr + (mapped ? 12 : 0), out->host_len);
        return true;
    }
    return false;
}

/* The unspecified address is what a program connects to that means this host. */
static bool is_this_host(const struct vipl_inet *inet)
{
    static const uint8_t zeros[15];
    bool v4 = inet->host_len == 4;
    bool loopback = v4 ? inet->host[0] == 127 : memcmp(inet->host, zeros, 15) == 0 && inet->host[15] <= 1;
    bool unspecified = v4 && memcmp(inet->host, zeros, 4) == 0;
    return loopback || unspecified || vipl_inet_is_own(inet);
}

static bool begins_alike(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned rest = bits % 8;
    unsigned mask = rest == 0 ? 0 : 0xFFu << (8 - rest) & 0xFFu;
    return memcmp(a, b, bits / 8) == 0 && (mask == 0 || ((a[bits / 8] ^ b[bits / 8]) & mask) == 0);
}

static bool matches(const struct rule *rule, bool connects, const char *program, const struct vipl_inet *inet)
{
    return rule->connects == connects && inet->port >= rule->first_port && inet->port <= rule->last_port &&
           (rule->host_bytes == 0 ||
            (rule->host_bytes == inet->host_len && begins_alike(rule->host, inet->host, rule->bits))) &&
           fnmatch(rule->program, program, 0) == 0;
}

/* --- reading --------------------------------------------------------------------------------- */

static bool read_number(const char *text, unsigned most, unsigned *number)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') { /* strtoul() would accept blanks and signs */
        return false;
    }
    unsigned long n = strtoul(text, &end, 10);
    *number = (unsigned)n;
    return *end == '\0' && n <= most;
}

static bool read_ports(struct rule *rule, char *text)
{
    unsigned first = 0;
    unsigned last = UINT16_MAX;
    if (strcmp(text, "*") != 0) {
        char *dash = strchr(text, '-');
        if (dash != NULL) {
            *dash = '\0';
        }
        if (!read_number(text, UINT16_MAX, &first) ||
            !read_number(dash == NULL ? text : dash + 1, UINT16_MAX, &last) || first > last) {
            return false;
        }
    }
    rule->first_port = (uint16_t)first;
    rule->last_port = (uint16_t)last;
    return true;
}

/* Reads "ADDRESS" or "ADDRESS/BITS". */
static bool read_host(struct rule *rule, char *text)
{
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    if (strcmp(text, "*") == 0) {
        return slash == NULL;
    }
    size_t length = strlen(text);
    bool v6 = length > 2 && text[0] == '[' && text[length - 1] == ']';
    if (v6) {
        text[length - 1] = '\0';
        text++;
    }
    rule->host_bytes = v6 ? 16 : 4;
    rule->bits = 8 * rule->host_bytes;
    return inet_pton(v6 ? AF_INET6 : AF_INET, text, rule->host) == 1 &&
           (slash == NULL || read_number(slash + 1, 8 * rule->host_bytes, &rule->bits));
}

/* Returns what is wrong with the two words that may follow a rule; NULL: nothing. */
static const char *read_device(char *const words[2], struct rule *rule)
{
    if (strcmp(words[0], "device") != 0) {
        return "the word behind ADDRESS:PORT is not device";
    }
    if (!rule->vipl) {
        return "a rule that says tcp has no device";
    }
    if (strlen(words[1]) >= sizeof(rule->device)) {
        return "the device's name is too long";
    }
    if (sock_device_is_local(words[1])) {
        return "the device loopback reaches no other host";
    }
    memcpy(rule->device, words[1], strlen(words[1]));
    return NULL;
}

/* Returns what is wrong; NULL: nothing. */
static const char *read_words(char *const words[WORDS], struct rule *rule)
{
    memset(rule, 0, sizeof(*rule));
    rule->vipl = strcmp(words[0], "vipl") == 0;
    if (!rule->vipl && strcmp(words[0], "tcp") != 0) {
        return "the first word is not vipl or tcp";
    }
    rule->connects = strcmp(words[1], "connect") == 0;
    if (!rule->connects && strcmp(words[1], "listen") != 0) {
        return "the second word is not connect or listen";
    }
    if (strlen(words[2]) >= sizeof(rule->program)) {
        return "the program's name is too long";
    }
    memcpy(rule->program, words[2], strlen(words[2]));
    char *colon = strrchr(words[3], ':');
    if (colon == NULL) {
        return "the last word is not ADDRESS:PORT";
    }
    *colon = '\0';
    if (!read_ports(rule, colon + 1)) {
        return "the port is not a number up to 65535, first-last, or *";
    }
    return read_host(rule, words[3]) ? NULL
                                     : "the address is not that of an IPv4 network, [an IPv6 network], or *";
}

/* Splits a line into words, at most `most` and one more. Returns their number. */
static unsigned split(char *line, char *words[], unsigned most)
{
    unsigned count = 0;
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r", &rest); word != NULL && count <= most;
         word = strtok_r(NULL, " \t\r", &rest)) {
        words[count++] = word;
    }
    return count;
}

struct sock_rules *sock_rules_read(char *text, unsigned *line, const char **why)
{
    unsigned lines = 1;
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    struct sock_rules *rules = vipl_zalloc(sizeof(*rules) + lines * sizeof(struct rule));
    *line = 0;
    *why = rules == NULL ? "no memory" : NULL;
    for (char *each; *why == NULL && (each = vipl_config_next_line(&text)) != NULL;) {
        char *words[ALL_WORDS + 1];
        unsigned count = split(each, words, ALL_WORDS);
        struct rule *rule = &rules->rules[rules->count];
        ++*line;
        if (count == 0) {
            continue;
        }
        *why = count == WORDS || count == ALL_WORDS
                   ? read_words(words, rule)
                   : "a rule is: vipl|tcp connect|listen PROGRAM ADDRESS:PORT [device NAME]";
        if (*why == NULL && count == ALL_WORDS) {
            *why = read_device(words + WORDS, rule);
        }
        rules->count++;
    }
    if (*why != NULL) {
        vipl_free(rules);
        return NULL;
    }
    return rules;
}

/* --- the user's ------------------------------------------------------------------------------ */

static void *users; /* atomic: struct sock_rules; set once */
static struct sock_rules only_tcp = {.all_tcp = true};
static struct sock_rules no_rules;

struct reading { /* what has been read, to be logged by the thread that wins */
    char path[PATH_BYTES];
    char *text;
    int error;
    unsigned line;
    const char *why;
};

static struct sock_rules *read_users(struct reading *reading)
{
    if (!vipl_config_text("VIPL_SOCKETS_RULES", reading->path, sizeof(reading->path)) ||
        reading->path[0] == '\0') {
        return &no_rules;
    }
    reading->error = vipl_read_text(reading->path, MOST_BYTES, &reading->text);
    if (reading->error != 0) {
        return &only_tcp;
    }
    struct sock_rules *rules = sock_rules_read(reading->text, &reading->line, &reading->why);
    return rules != NULL ? rules : &only_tcp;
}

static void log_reading(const struct reading *reading)
{
    if (reading->error != 0) {
        char what[PATH_BYTES + 64];
        snprintf(what, sizeof(what), "%s: all connections stay with TCP: reading it", reading->path);
        vipl_log_os(VIPL_LOG_ERROR, what, reading->error);
    } else if (reading->why != NULL) {
        vipl_log(VIPL_LOG_ERROR, "%s:%u: %s: all connections stay with TCP", reading->path, reading->line,
                 reading->why);
    }
}

static const struct sock_rules *users_rules(void)
{
    struct sock_rules *rules = vipl_load_ptr(&users); /* pairs with the exchange below */
    if (rules != NULL) {
        return rules;
    }
    struct reading *reading = vipl_zalloc(sizeof(*reading));
    if (reading == NULL) {
        return &only_tcp;
    }
    vipl_config_begin(); /* the log has its level */
    rules = read_users(reading);
    vipl_config_end();
    if (vipl_compare_exchange_ptr(&users, NULL, rules)) {
        log_reading(reading);
    } else if (rules != &no_rules && rules != &only_tcp) {
        vipl_free(rules);
    }
    vipl_free(reading->text);
    vipl_free(reading);
    return vipl_load_ptr(&users);
}

/* Returns the first rule that matches. */
static const struct rule *find(const struct sock_rules *rules, bool connects, const char *program,
                               const struct vipl_inet *inet)
{
    for (unsigned i = 0; i < rules->count; i++) {
        if (matches(&rules->rules[i], connects, program, inet)) {
            return &rules->rules[i];
        }
    }
    return NULL;
}

static enum sock_rule_answer answer_of(const struct sock_rules *rules, bool connects, const char *program,
                                       const struct vipl_inet *inet)
{
    const struct rule *rule = find(rules, connects, program, inet);
    if (rule == NULL) {
        return rules->all_tcp ? SOCK_RULE_TCP : SOCK_RULE_NONE;
    }
    return rule->vipl ? SOCK_RULE_VIPL : SOCK_RULE_TCP;
}

enum sock_rule_answer sock_rules_answer(const struct sock_rules *rules, bool connects, const char *program,
                                        const struct sockaddr *address, socklen_t length)
{
    struct vipl_inet inet;
    return read_address(address, length, &inet) ? answer_of(rules, connects, program, &inet) : SOCK_RULE_TCP;
}

enum sock_rule_answer sock_rules_connect(const struct sockaddr *remote, socklen_t length)
{
    struct vipl_inet inet;
    if (!read_address(remote, length, &inet)) {
        return SOCK_RULE_TCP;
    }
    enum sock_rule_answer answer = answer_of(users_rules(), true, sock_program_name(), &inet);
    return answer == SOCK_RULE_NONE && !is_this_host(&inet) ? SOCK_RULE_TCP : answer;
}

const char *sock_rules_device_of(const struct sock_rules *rules, bool connects, const char *program,
                                 const struct sockaddr *address, socklen_t length)
{
    struct vipl_inet inet;
    const struct rule *rule =
        read_address(address, length, &inet) ? find(rules, connects, program, &inet) : NULL;
    return rule != NULL && rule->vipl ? rule->device : NULL;
}

const char *sock_rules_device(bool connects, const struct sockaddr *address, socklen_t length)
{
    return sock_rules_device_of(users_rules(), connects, sock_program_name(), address, length);
}

/* Programs that fork after the first bytes, and go on with the connection in the child. */
static bool forks_later(const char *program)
{
    return fnmatch("sshd*", program, 0) == 0;
}

bool sock_rules_allow_listen(const struct sockaddr *local, socklen_t length)
{
    const char *program = sock_program_name();
    enum sock_rule_answer answer = sock_rules_answer(users_rules(), false, program, local, length);
    return answer == SOCK_RULE_NONE ? !forks_later(program) : answer == SOCK_RULE_VIPL;
}
