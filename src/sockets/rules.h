/* SPDX-License-Identifier: MIT */
/*
 * Which connections are to be moved: the user's rules, in a file that VIPL_SOCKETS_RULES names, one
 * a line, as libsdp.conf has them; '#' starts a comment:
 *
 *     vipl|tcp connect|listen PROGRAM ADDRESS[/BITS]:PORT [device NAME]
 *
 * PROGRAM is a pattern for the program's name. ADDRESS is an IPv4 address, an IPv6 address in
 * brackets, or '*'; PORT is a port, first-last, or '*'. The first rule that matches decides: of
 * connect, by the remote address; of listen, by the local one. Without a match, connections are
 * moved if both ends are on this host, they are not likely to be short (places.h), and the server
 * is not sshd, which forks when it has begun.
 * NAME is the VIPL device of connections with other hosts: these are moved only if a rule says so.
 * A file that cannot be read, or that has a wrong line, is logged once, and everything stays with
 * TCP.
 */
#ifndef VIPL_SOCKETS_RULES_H
#define VIPL_SOCKETS_RULES_H

#include <stdbool.h>
#include <sys/socket.h>

enum sock_rule_answer { SOCK_RULE_VIPL, SOCK_RULE_TCP, SOCK_RULE_NONE };

/* Whether a connection to this remote address may be moved: a rule says so, or SOCK_RULE_NONE: no
 * rule says anything, and the address is one of this host. */
enum sock_rule_answer sock_rules_connect(const struct sockaddr *remote, socklen_t length);
/* Whether the connections of a listener with this local address may be moved. */
bool sock_rules_allow_listen(const struct sockaddr *local, socklen_t length);
/* The device of a connection with another host: by its remote address if this end connects, by the
 * local one if it listens. "": the process's own one (sock_device_name()); NULL: no rule says that
 * the connection may be moved. */
const char *sock_rules_device(bool connects, const struct sockaddr *address, socklen_t length);

/* --- the rules of one text ------------------------------------------------------------------- */

struct sock_rules;

/* Reads rules, and changes the text. NULL: *why says what is wrong, in line *line, or that there is
 * no memory (line 0). The caller frees what is returned with vipl_free(). */
struct sock_rules *sock_rules_read(char *text, unsigned *line, const char **why);
/* What the first rule that matches says. */
enum sock_rule_answer sock_rules_answer(const struct sock_rules *rules, bool connects, const char *program,
                                        const struct sockaddr *address, socklen_t length);
/* sock_rules_device() of these rules. */
const char *sock_rules_device_of(const struct sock_rules *rules, bool connects, const char *program,
                                 const struct sockaddr *address, socklen_t length);

#endif
