# SPDX-License-Identifier: MIT
"""A client of memcached that checks contents.

    memcached_client.py PORT KEYS CONNECTIONS

Each connection, in a thread of its own, writes its keys (some without a reply), reads them back alone and many at once, and counts a number up.
"""
import socket
import sys
import threading

import pattern

SIZES = (0, 1, 10, 100, 1000, 5000, 20000, 100000, 500000)
AT_ONCE = 20


def value(key):
    return pattern.data(key, SIZES[pattern.data("size" + key, 1)[0] % len(SIZES)])


class Client:
    def __init__(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.replies = self.connection.makefile("rb")

    def store(self, key, contents, is_answered):
        self.connection.sendall(b"set %s 0 0 %d%s\r\n%s\r\n" % (key.encode(), len(contents), b"" if is_answered else b" noreply", contents))
        return not is_answered or self.replies.readline() == b"STORED\r\n"

    def fetch(self, keys):
        """{key: contents} of those that the server has."""
        self.connection.sendall(b"get %s\r\n" % b" ".join(key.encode() for key in keys))
        found = {}
        while True:
            words = self.replies.readline().split()
            if words[0] != b"VALUE":
                return found
            found[words[1].decode()] = self.replies.read(int(words[3]))
            self.replies.readline()

    def count_up(self):
        self.connection.sendall(b"incr count 1\r\n")
        return int(self.replies.readline())


def exchange(port, keys, wrong):
    client = Client(port)
    for number, key in enumerate(keys):
        if not client.store(key, value(key), number % 3 > 0):
            wrong.append(key)
    for key in keys:
        if client.fetch([key]) != {key: value(key)}:
            wrong.append(key)
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start:start + AT_ONCE]
        if client.fetch(some) != {key: value(key) for key in some}:
            wrong.append(some[0])
    for _ in keys:
        client.count_up()


def main(port, count, connections):
    wrong, done = [], []
    first = Client(port)
    first.store("count", b"0", True)

    def work(number):
        exchange(port, ["%d:%d" % (number, i) for i in range(count // connections)], wrong)
        done.append(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = first.fetch(["count"])["count"].strip()
    if wrong or len(done) != connections or int(counted) != count:
        print("WRONG values: %s; %d of %d connections to their end; counted %r of %d" % (wrong[:10], len(done), connections, counted, count))
        return 1
    print("%d keys right" % count)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
