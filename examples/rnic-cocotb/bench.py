# SPDX-License-Identifier: MIT
"""Has the card of card.v behind a socket, by the bus protocol (docs/rnic/socket.md): a cocotb test that ends with its host.

CARD_SOCKET is where it listens.
"""
import os
import select
import socket
import struct

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

HEADER = struct.Struct("<IHHQIHBBQQ")  # length, kind, function, time, id, width, space, status, address, value
HELLO, READ, WRITE, RESET, DONE, DMA_READ, DMA_DATA, DMA_WRITE, INTERRUPT, BYE = range(1, 11)
BAR_BYTES = (0x200000, 0, 0x1000000, 0, 0, 0)


class Host:
    """The host at the other end, as long as it is connected."""

    def __init__(self, path):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path + "~")
            listener.listen()
            os.rename(path + "~", path)  # a host that sees it can connect
            self.stream, _ = listener.accept()
        self.waiting = []  # what came while a DMA_DATA was awaited
        hello = self.receive()
        assert hello["kind"] == HELLO and hello["value"] == 1, hello
        self.send(HELLO, struct.pack("<6Q", *BAR_BYTES), id=hello["id"], value=1)

    def send(self, kind, data=b"", id=0, status=0, address=0, value=0):
        self.stream.sendall(HEADER.pack(HEADER.size + len(data), kind, 0, 0, id, 0, 0, status, address, value) + data)

    def take(self, count):
        data = b""
        while len(data) < count:
            part = self.stream.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def receive(self):
        names = "length", "kind", "function", "time", "id", "width", "space", "status", "address", "value"
        message = dict(zip(names, HEADER.unpack(self.take(HEADER.size))))
        return dict(message, data=self.take(message["length"] - HEADER.size))

    def next(self, waits):
        """The next message; None if there is none yet, unless the caller waits for it."""
        if self.waiting:
            return self.waiting.pop(0)
        return self.receive() if waits or select.select([self.stream], [], [], 0)[0] else None

    def read(self, address, count):
        self.send(DMA_READ, id=1, address=address, value=count)
        while (message := self.receive())["kind"] != DMA_DATA:
            self.waiting.append(message)
        return message["data"] if message["status"] == 0 else b"\xff" * count


async def cycle(dut, host):
    """A cycle of the clock, and what the card does with the host in it."""
    await RisingEdge(dut.clk)
    if dut.dma_done.value:
        dut.dma_done.value = 0
    elif dut.dma_valid.value:
        address = int(dut.dma_address.value)
        if dut.dma_write.value:
            host.send(DMA_WRITE, int(dut.dma_wdata.value).to_bytes(8, "little"), address=address)
        else:
            dut.dma_rdata.value = int.from_bytes(host.read(address, 8), "little")
        dut.dma_done.value = 1
    if dut.interrupt.value:
        host.send(INTERRUPT, value=0)


async def access(dut, host, message):
    dut.valid.value, dut.write.value = 1, message["kind"] == WRITE
    dut.address.value, dut.wdata.value = message["address"], message["value"] & 0xFFFFFFFF
    await cycle(dut, host)
    while not dut.done.value:
        await cycle(dut, host)
    dut.valid.value = 0
    return int(dut.rdata.value)


async def reset(dut, host):
    dut.reset.value = 1
    for name in "valid", "write", "address", "wdata", "dma_rdata", "dma_done":
        getattr(dut, name).value = 0
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.reset.value = 0
    await cycle(dut, host)


async def execute(dut, host, message):
    """A READ or WRITE. All that this card has are words of BAR0."""
    is_there = message["space"] == 0 and message["width"] == 4
    value = await access(dut, host, message) if is_there else 0
    if message["kind"] == READ:
        host.send(DONE, id=message["id"], status=0 if is_there else 1, value=value)


async def step(dut, host):
    """Executes a message, or a cycle if there is none; whether the host goes on. Time stands still while nobody has anything to do."""
    message = host.next(waits=not (dut.busy.value or dut.interrupt.value))
    if message is None:
        await cycle(dut, host)
    elif message["kind"] == RESET:
        await reset(dut, host)
        host.send(DONE, id=message["id"])
    elif message["kind"] in (READ, WRITE):
        await execute(dut, host, message)
    return message is None or message["kind"] != BYE


@cocotb.test()
async def serve(dut):
    host = Host(os.environ["CARD_SOCKET"])
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    await reset(dut, host)
    with host.stream:
        while await step(dut, host):
            pass
