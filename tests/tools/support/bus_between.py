# SPDX-License-Identifier: MIT
"""A card behind a socket that is another card with changes: it stands between a host and the adapter, and what the adapter sends goes
through a function."""
import socket
import struct
import threading

HEADER = struct.Struct("<IHHQIHBBQQ")  # length, kind, function, time, id, width, space, status, address, value
HELLO, READ, WRITE, RESET, DONE, DMA_READ, DMA_DATA, DMA_WRITE, INTERRUPT, BYE = range(1, 11)


class Message:
    def __init__(self, kind, data=b"", id=0, width=0, space=0, status=0, address=0, value=0):
        self.kind, self.data, self.id, self.width, self.space = kind, data, id, width, space
        self.status, self.address, self.value = status, address, value

    def send(self, stream):
        stream.sendall(HEADER.pack(HEADER.size + len(self.data), self.kind, 0, 0, self.id, self.width, self.space, self.status, self.address,
                                   self.value) + self.data)


def receive(file):
    """The next message; None at the end of the stream."""
    head = file.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    length, kind, _, _, id, width, space, status, address, value = HEADER.unpack(head)
    return Message(kind, file.read(length - HEADER.size), id, width, space, status, address, value)


class Connection:
    """One host's. `change` gets each message of the card, and returns those that the host gets. A DMA_READ may be answered by several
    DMA_DATAs: those of the pieces that it became."""

    def __init__(self, host, card, change):
        self.host, self.card, self.change = host, card, change
        self.pieces = {}  # of a piece's id: the DMA_READ, and where in it the piece is
        self.reads = {}  # of a DMA_READ's id: its data so far, and how many pieces are missing
        self.next_id = 1
        for run in (self.serve_card, self.serve_host):
            threading.Thread(target=run, daemon=True).start()

    def serve_card(self):
        try:
            self.change_all(self.card.makefile("rb"))
        except OSError:  # the host has ended
            pass
        self.end()

    def change_all(self, file):
        while (message := receive(file)) is not None:
            changed = self.change(message)
            if changed is None:
                break
            id, address = message.id, message.address
            if message.kind == DMA_READ:
                self.reads[id] = [bytearray(message.value), len(changed)]
            for piece in changed:
                if piece.kind == DMA_READ:
                    self.pieces[self.next_id] = (id, piece.address - address)
                    piece.id = self.next_id
                    self.next_id += 1
                piece.send(self.host)

    def serve_host(self):
        file = self.host.makefile("rb")
        try:
            while (message := receive(file)) is not None:
                self.answer(message) if message.kind == DMA_DATA else message.send(self.card)
        except OSError:
            pass
        self.end()

    def answer(self, message):
        id, offset = self.pieces.pop(message.id)
        read = self.reads.get(id)
        if read is None:  # a piece before has failed, and the card has its answer
            return
        read[0][offset:offset + len(message.data)] = message.data
        read[1] -= 1
        if message.status != 0 or read[1] == 0:
            del self.reads[id]
            Message(DMA_DATA, b"" if message.status else bytes(read[0]), id=id, status=message.status).send(self.card)

    def end(self):
        for stream in (self.host, self.card):
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Between:
    """Listens at `path`, and connects to the adapter at `card` for each host that comes."""

    def __init__(self, path, card, change):
        self.card, self.change = card, change
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                host, _ = self.listener.accept()
                card = socket.socket(socket.AF_UNIX)
                card.connect(self.card)
                Connection(host, card, self.change)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
