# SPDX-License-Identifier: MIT
"""A client of Redis that checks contents.

    resp_client.py PORT KEYS CONNECTIONS

Each connection, in a thread of its own, writes its keys in pipelines, reads them back in pipelines, in another order, and compares each value.
"""
import random
import socket
import sys
import threading

import pattern

SIZES = (0, 1, 10, 100, 1000, 5000, 20000, 100000)
PIPELINE = 50
wrong = []


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def value(key):
    return pattern.data(key, SIZES[pattern.data("size" + key, 1)[0] % len(SIZES)])


def bulk(replies):
    """One bulk string."""
    line = replies.readline()
    if line[:1] != b"$":
        raise ValueError("not a bulk string: %r" % line)
    contents = replies.read(int(line[1:]))
    if replies.read(2) != b"\r\n":
        raise ValueError("a bulk string has another length")
    return contents


def pipelined(connection, commands):
    """Sends while the replies are read, as both may be larger than what the connection holds: the thread that sends."""
    sender = threading.Thread(target=lambda: [connection.sendall(each) for each in commands])
    sender.start()
    return sender


def exchange(port, keys):
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as replies:
        for start in range(0, len(keys), PIPELINE):
            some = keys[start:start + PIPELINE]
            sender = pipelined(connection, [command(b"SET", key.encode(), value(key)) for key in some])
            wrong.extend(key for key in some if replies.readline() != b"+OK\r\n")
            sender.join()
        random.Random(len(keys)).shuffle(keys)
        for start in range(0, len(keys), PIPELINE):
            some = keys[start:start + PIPELINE]
            sender = pipelined(connection, [command(b"GET", key.encode()) for key in some])
            wrong.extend(key for key in some if bulk(replies) != value(key))
            sender.join()


def main(port, count, connections):
    done = []

    def work(number):
        exchange(port, ["%d:%d" % (number, i) for i in range(count // connections)])
        done.append(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong or len(done) != connections:
        print("WRONG values: %s; %d of %d connections to their end" % (wrong[:10], len(done), connections))
        return 1
    print("%d keys right" % count)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
