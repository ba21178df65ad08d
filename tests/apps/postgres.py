# SPDX-License-Identifier: MIT
"""PostgreSQL: psql, COPY, pgbench in its several ways, a cancelled query, and pg_dump of much, compared with what plain TCP gives.

The server forks a process for each connection, and the backend is the first to use it. What the database holds is asked for, as the truth, over
its Unix socket and by programs that vipl-run does not run.
"""
import glob
import hashlib
import os
import re
import signal

from harness import cannot_run, wait_until

ROW_BYTES = 1000
CONFIGURATION = """
listen_addresses = '127.0.0.1'
fsync = off
autovacuum = off
max_connections = 60
shared_buffers = 64MB
max_wal_size = 4GB
logging_collector = off
log_min_messages = warning
"""


def programs():
    """The folder of PostgreSQL's programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found:
        cannot_run("not installed: postgresql")
    return os.path.dirname(found[-1])


class Server:
    def __init__(self, machine):
        self.machine, self.folder, self.bin = machine, os.path.join(machine.folder, "data"), programs()
        machine.make_folder("data")
        machine.run("tool", self.tool("initdb"), "-D", self.folder, "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--no-locale")
        self.port = machine.port()
        text = "%sport = %d\nunix_socket_directories = '%s'\n" % (CONFIGURATION, self.port, self.folder)
        machine.make_file("data/postgresql.auto.conf", text)
        self.process = machine.start("server", self.tool("postgres"), "-D", self.folder)
        self.process.wait_text("database system is ready to accept connections")
        self.tcp = ["-h", "127.0.0.1", "-p", self.port, "-U", "tester"]
        self.unix = ["-h", self.folder, "-p", self.port, "-U", "tester"]

    def tool(self, name):
        return os.path.join(self.bin, name)

    def ask(self, query, database="postgres"):
        """What a query gives, over the Unix socket."""
        words = [self.tool("psql"), *self.unix, "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", query]
        return self.machine.run("tool", *words).out.strip()

    def psql(self, *words, **more):
        return self.machine.run("client", self.tool("psql"), *self.tcp, "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres", *words, **more)

    def pgbench(self, *words):
        return self.machine.run("client", self.tool("pgbench"), *self.tcp, *words, "postgres")


def made_table(server, rows):
    """A table of rows of 1,000 characters that differ, by psql; its content is asked for over both ways."""
    machine = server.machine
    server.psql("-c", "create table made as select i, (select string_agg(md5(i::text || '.' || j::text), '') from generate_series(1, %d) j) as t "
                      "from generate_series(1, %d) i" % (ROW_BYTES // 32, rows))
    whole = "select count(*), sum(length(t)), md5(string_agg(md5(t), '' order by i)) from made"
    machine.checks.that(server.psql("-c", whole).out.strip() == server.ask(whole), "WRONG contents of a table")
    rows_text = server.psql("-c", "select t from made order by i limit 2000").out
    machine.checks.that(rows_text.strip() == server.ask("select t from made order by i limit 2000"), "WRONG contents of rows")


def copied_in(server, rows):
    """COPY FROM STDIN: the client sends much."""
    lines = "".join("%d\t%s\n" % (i, hashlib.sha256(b"%d" % i).hexdigest() * 8) for i in range(rows))
    path = server.machine.make_file("copy", lines)
    server.psql("-c", "create table copied (i int, t text)", "-c", "\\copy copied from stdin", text=path)
    told = server.ask("select count(*) || ' ' || bool_and(t = repeat(encode(sha256(i::text::bytea), 'hex'), 8)) from copied")
    server.machine.checks.that(told == "%d true" % rows, "WRONG contents by COPY: " + told)


def dump_digest(server, end, way):
    """The digest of what pg_dump writes, without the two lines that differ each time."""
    dump = server.machine.run(end, server.tool("pg_dump"), *way, "postgres")
    digest, size = hashlib.sha256(), 0
    with open(dump.out_path, "rb") as file:
        for line in file:
            if not line.startswith((b"\\restrict", b"\\unrestrict")):
                digest.update(line)
                size += len(line)
    os.remove(dump.out_path)
    with open(dump.out_path, "wb"):
        pass
    return digest.hexdigest(), size


def dumped(server, least):
    ours, size = dump_digest(server, "client", server.tcp)
    plain, plain_size = dump_digest(server, "tool", server.tcp)
    print("pg_dump: %d bytes" % size)
    server.machine.checks.that(size >= least, "pg_dump writes %d bytes at least, not %d" % (least, size))
    server.machine.checks.that((ours, size) == (plain, plain_size), "WRONG contents: pg_dump gives %d bytes, over plain TCP %d" % (size, plain_size))


def benchmarks(server, seconds):
    """pgbench in several ways; it ends by SIGALRM. Its own books are compared with the tables in the end."""
    machine = server.machine
    server.pgbench("-i", "-q")
    transactions = 0
    for words in (["-S", "-c", 1, "-T", seconds], ["-S", "-M", "prepared", "-c", 4, "-j", 2, "-T", seconds], ["-S", "-C", "-c", 2, "-T", seconds],
                  ["-M", "extended", "-c", 4, "-j", 2, "-t", 50 * seconds]):
        told = server.pgbench("-n", *words).out
        count = re.search(r"transactions actually processed: (\d+)", told)
        right = count is not None and int(count.group(1)) > 0 and "number of failed transactions: 0 " in told
        machine.checks.that(right, "pgbench %s: %s" % (words, told))
        transactions += int(count.group(1)) if "-S" not in words and count else 0
    sums = server.ask("select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches), "
                      "(select sum(tbalance) from pgbench_tellers), (select sum(delta) from pgbench_history), "
                      "(select count(*) from pgbench_history)").split("|")
    machine.checks.that(len(set(sums[:4])) == 1 and sums[4] == str(transactions), "WRONG data in pgbench's tables: %s, %d" % (sums, transactions))


def cancelled(server):
    """SIGINT makes psql ask for the end of its query, over a second connection, from a signal handler; the first one goes on working:
    the backend tells that it has caught this."""
    machine = server.machine
    query = "do $$ begin perform pg_sleep(600); exception when query_canceled then raise notice 'cancelled'; end $$"
    client = machine.start("client", server.tool("psql"), *server.tcp, "-XAtq", "-d", "postgres", "-c", query)
    wait_until("the query runs", lambda: server.ask("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1")
    psql = [pid for pid, stat in client.family().items() if stat["name"] == "psql"]
    machine.checks.that(len(psql) == 1, "psql runs: %s" % psql)
    os.kill(psql[0], signal.SIGINT)
    client.wait()
    machine.checks.that("NOTICE:  cancelled" in client.err, "the query is cancelled, and the backend goes on: " + client.told())


def terminated(server):
    """A backend that ends: its client is told, and does not hang."""
    machine = server.machine
    client = machine.start("client", server.tool("psql"), *server.tcp, "-XAtq", "-d", "postgres", "-c", "select pg_sleep(600)")
    count = "select count(pg_terminate_backend(pid)) from pg_stat_activity where wait_event = 'PgSleep'"
    wait_until("the backend is ended", lambda: server.ask(count) == "1")
    client.wait()
    machine.checks.that("terminating connection due to administrator command" in client.err, "psql is told: " + client.told())


def run(machine, _options):
    server = Server(machine)
    made_table(server, 60000 if machine.full else 4000)
    copied_in(server, 60000 if machine.full else 3000)
    benchmarks(server, 5 if machine.full else 1)
    cancelled(server)
    terminated(server)
    dumped(server, (90 if machine.full else 5) << 20)
    server.process.stop(signal.SIGINT)
    machine.checks.that(server.process.code == 0, "the server ends at SIGINT: " + server.process.told())
    # Each program makes one connection, pgbench one for each client, and with -C one for each transaction.
    machine.check_moved(20, plain=2) # the plain pg_dump's, and one that it has itself
