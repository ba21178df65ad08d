# SPDX-License-Identifier: MIT
"""An echo server and its client, both of asyncio: nonblocking sockets and epoll.

    asyncio_echo.py server PORT
    asyncio_echo.py client PORT CONNECTIONS MESSAGES

All connections of the client are open at the same time. What comes back is compared with what was sent; the client ends with 1 if it differs.
"""
import asyncio
import random
import signal
import sys

import pattern

SIZES = (1, 2, 100, 1000, 4096, 16384, 70000, 300000)


async def echo(reader, writer):
    while True:
        some = await reader.read(65536)
        if not some:
            break
        writer.write(some)
        await writer.drain()
    writer.close()


async def serve(port):
    server = await asyncio.start_server(echo, "127.0.0.1", port, backlog=512)
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()
    server.close()


class Barrier:
    """Lets tasks go on once all have come."""

    def __init__(self, count):
        self.missing, self.all_here = count, asyncio.Event()

    async def reach(self):
        self.missing -= 1
        if self.missing == 0:
            self.all_here.set()
        await self.all_here.wait()


async def talk(port, number, messages, all_open):
    """One connection: messages of several sizes, written while their echo is read, then the end of the stream. True: all came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await all_open.reach()
    rng = random.Random(number)
    sent = [pattern.data("%d.%d" % (number, i), rng.choice(SIZES)) for i in range(messages)]

    async def write():
        for some in sent:
            writer.write(some)
            await writer.drain()
        writer.write_eof()
    writing = asyncio.ensure_future(write())
    right = True
    for some in sent:
        right = right and await reader.readexactly(len(some)) == some
    right = right and await reader.read() == b""
    await writing
    writer.close()
    return right


async def connect(port, connections, messages):
    all_open = Barrier(connections)
    results = await asyncio.gather(*(talk(port, number, messages, all_open) for number in range(connections)))
    print("%d of %d connections right" % (sum(results), connections))
    return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1] == "server":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        sys.exit(asyncio.run(connect(*map(int, sys.argv[2:5]))))
