# SPDX-License-Identifier: MIT
"""Sends to a server that returns each byte, says that it sends no more, and compares what comes back.

    cat_client.py PORT CONNECTIONS AT-A-TIME
"""
import socket
import sys
import threading

import pattern

SIZES = (0, 1, 1000, 100000, 1 << 20, 3 << 20)


def talk(port, number):
    contents = pattern.data(number, SIZES[number % len(SIZES)])
    received = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        def send():
            connection.sendall(contents)
            connection.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        while True:
            some = connection.recv(1 << 16)
            if not some:
                break
            received += some
        sender.join()
    return received == contents


def main(port, connections, at_a_time):
    numbers, right, lock = iter(range(connections)), [], threading.Lock()

    def work():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            if talk(port, number):
                right.append(number)
    threads = [threading.Thread(target=work) for _ in range(at_a_time)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("%d of %d connections right" % (len(right), connections))
    return 0 if len(right) == connections else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
