"""A client of vfio-user written from the protocol's text alone, as generous as others are: every request that may be
longer than its structure is, and every message that may carry a file descriptor does.

Usage: foreign.py SOCKET mapped|message|spdk. It attaches twice, and says what it did; a failure is a traceback.
`spdk`: what SPDK's client sends, in its order. That is from memory of its source (lib/vfio_user, nvme_vfio_user.c), not
recorded.
"""

import ctypes
import mmap
import os
import select
import socket
import struct
import sys
import time

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION_INFO, GET_REGION_IO_FDS, GET_IRQ_INFO = 1, 2, 3, 4, 5, 6, 7
SET_IRQS, REGION_READ, REGION_WRITE, RESET, WRITE_MULTI = 8, 9, 10, 13, 15
BAR0, CONFIG, MSIX = 0, 7, 2
PADDING = 2048
MEMORY, IOVA = 1 << 20, 0x4000_0000
# Where things lie in the client's memory: rings a page each, then data.
ADMIN_SQ, ADMIN_CQ, IO_SQ, IO_CQ, DATA = 0, 0x1000, 0x2000, 0x3000, 0x10000
ENTRIES, BLOCK, LIMIT = 16, 512, 60


class Refused(Exception):
    """The server's answer is an errno."""


class Connection:
    """Messages, one after the other."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(LIMIT)
        self.socket.connect(path)
        self.identifier = 0
        self.spare = os.memfd_create("spare")

    def exactly(self, count):
        """So many bytes, and the descriptors that came with them."""
        data, descriptors = b"", []
        while len(data) < count:
            more, files, _, _ = socket.recv_fds(self.socket, count - len(data), 16)
            assert more, "the server closed the connection"
            data, descriptors = data + more, descriptors + files
        return data, descriptors

    def ask(self, command, payload, files=(), padding=PADDING):
        """The payload of the answer, and its descriptors."""
        payload += bytes(padding)
        self.identifier += 1
        header = struct.pack("=HHIII", self.identifier, command, 16 + len(payload), 0, 0)
        # A message without a use for a descriptor brings one all the same.
        files = list(files) if files or command in (VERSION, SET_IRQS) or self.spare is None else [self.spare]
        sent = socket.send_fds(self.socket, [header + payload], files)
        assert sent == 16 + len(payload)
        header, descriptors = self.exactly(16)
        identifier, answered, size, flags, error = struct.unpack("=HHIII", header)
        assert (identifier, answered, flags & 0xF) == (self.identifier, command, 1), header
        body, more = self.exactly(size - 16) if size > 16 else (b"", [])
        if flags & 0x20:
            raise Refused(f"command {command}: {os.strerror(error)}")
        return body, descriptors + more

    def read(self, region, offset, count):
        body, _ = self.ask(REGION_READ, struct.pack("=QII", offset, region, count))
        assert body[:16] == struct.pack("=QII", offset, region, count) and len(body) == 16 + count
        return body[16:]

    def write(self, region, offset, data):
        # Its length says how much is written: nothing may follow.
        body, _ = self.ask(REGION_WRITE, struct.pack("=QII", offset, region, len(data)) + data, padding=0)
        assert body == struct.pack("=QII", offset, region, len(data))


class Client:
    """A driver of the controller behind a socket."""

    def __init__(self, path, mapped):
        self.connection = Connection(path)
        capabilities = b'{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}}\0'
        body, _ = self.connection.ask(VERSION, struct.pack("=HH", 0, 1) + capabilities)
        assert struct.unpack("=HH", body[:4]) == (0, 1) and body.endswith(b"\0")
        self.regions()
        assert (self.page is not None) == mapped, "whether the doorbells can be mapped"
        self.file = os.memfd_create("client")
        os.truncate(self.file, MEMORY)
        self.memory = mmap.mmap(self.file, MEMORY)
        self.map()

    def regions(self):
        argsz = 16 + PADDING
        body, _ = self.connection.ask(GET_INFO, struct.pack("=IIII", argsz, 0, 0, 0))
        _, flags, regions, interrupts = struct.unpack("=IIII", body[:16])
        assert flags & 3 == 3 and regions >= 9 and interrupts >= 3
        self.page, self.sizes = None, []
        for index in range(regions):
            argsz = 32 + PADDING
            body, files = self.connection.ask(GET_REGION_INFO, struct.pack("=IIIIQQ", argsz, 0, index, 0, 0, 0))
            _, flags, _, capability, size, offset = struct.unpack("=IIIIQQ", body[:32])
            self.sizes.append(size)
            if index == BAR0 and flags & 4:
                identifier, _, _, areas = struct.unpack("=HHII", body[capability:capability + 12])
                assert (identifier, areas, len(files)) == (1, 1, 1)
                at, length = struct.unpack("=QQ", body[capability + 16:capability + 32])
                assert at == 0x1000
                self.page = mmap.mmap(files[0], length, offset=offset + at)
        body, _ = self.connection.ask(GET_IRQ_INFO, struct.pack("=IIII", 16 + PADDING, 0, MSIX, 0))
        assert struct.unpack("=IIII", body[:16])[3] >= 2, "vectors"
        self.connection.ask(GET_REGION_IO_FDS, struct.pack("=IIII", 16 + PADDING, 0, BAR0, 0))

    def map(self):
        argsz = 32 + PADDING
        self.connection.ask(DMA_MAP, struct.pack("=IIQQQ", argsz, 3, 0, IOVA, MEMORY), [self.file])

    def unmap(self):
        # As SPDK does: with the file that was mapped.
        request = struct.pack("=IIQQ", 24 + PADDING, 0, IOVA, MEMORY)
        body, _ = self.connection.ask(DMA_UNMAP, request, [self.file])
        assert body == request

    def register(self, offset, length=4):
        return int.from_bytes(self.connection.read(BAR0, offset, length), "little")

    def set_register(self, offset, value, length=4):
        self.connection.write(BAR0, offset, value.to_bytes(length, "little"))

    def until_ready(self, ready):
        end = time.monotonic() + LIMIT
        while self.register(0x1C) & 1 != ready:
            assert time.monotonic() < end, "CSTS.RDY"

    def enable(self):
        self.connection.write(CONFIG, 4, struct.pack("<H", 6))
        self.stride = 4 << (self.register(0, 8) >> 32 & 0xF)
        self.memory[:DATA] = bytes(DATA)
        self.queues = {0: [ADMIN_SQ, ADMIN_CQ, 0, 0]}
        self.set_register(0x24, (ENTRIES - 1) << 16 | ENTRIES - 1)
        self.set_register(0x28, IOVA + ADMIN_SQ, 8)
        self.set_register(0x30, IOVA + ADMIN_CQ, 8)
        self.set_register(0x14, 4 << 20 | 6 << 16 | 1)
        self.until_ready(1)

    def ring(self, queue, head, value):
        offset = (2 * queue + head) * self.stride
        if self.page is None:
            self.set_register(0x1000 + offset, value)
        else:
            ctypes.c_uint32.from_buffer(self.page, offset).value = value

    def command(self, queue, opcode, nsid=0, prp=0, dwords=(0, 0, 0)):
        """Submits a command and waits for its completion; dword 0 of it."""
        sq, cq, count, _ = self.queues[queue]
        slot, phase = count % ENTRIES, count // ENTRIES & 1 ^ 1
        entry = struct.pack("<BBHIQQQQ", opcode, 0, count & 0x7FFF, nsid, 0, 0, prp, 0)
        entry += struct.pack("<IIIIII", *dwords, 0, 0, 0)
        self.memory[sq + 64 * slot:sq + 64 * slot + 64] = entry
        self.queues[queue][2] += 1
        self.ring(queue, 0, (slot + 1) % ENTRIES)
        status = ctypes.c_uint32.from_buffer(self.memory, cq + 16 * slot + 12)
        end = time.monotonic() + LIMIT
        while status.value >> 16 & 1 != phase:
            assert time.monotonic() < end, f"opcode {opcode:#x} has no completion"
        value = status.value
        del status
        assert value & 0xFFFF == count & 0x7FFF and value >> 17 == 0, f"opcode {opcode:#x}: {value:#x}"
        self.ring(queue, 1, (slot + 1) % ENTRIES)

    def identify(self):
        self.command(0, 0x06, prp=IOVA + DATA, dwords=(1, 0, 0))
        return self.memory[DATA + 4:DATA + 24].decode().strip()

    def connect(self, vector):
        event = os.eventfd(0)
        request = struct.pack("=IIIII", 20 + PADDING, 1 << 2 | 1 << 5, MSIX, vector, 1)
        self.connection.ask(SET_IRQS, request, [event])
        return event

    def make_queue(self, interrupts=1 << 16 | 0b10):
        size = (ENTRIES - 1) << 16 | 1
        self.queues[1] = [IO_SQ, IO_CQ, 0, 0]
        self.command(0, 0x05, prp=IOVA + IO_CQ, dwords=(size, interrupts | 1, 0))
        self.command(0, 0x01, prp=IOVA + IO_SQ, dwords=(size, 1 << 16 | 1, 0))

    def write_and_read(self, seed, event=None):
        for lba in range(3 * ENTRIES):
            data = bytes((seed + lba + index) % 256 for index in range(BLOCK))
            self.memory[DATA:DATA + BLOCK] = data
            self.command(1, 0x01, nsid=1, prp=IOVA + DATA, dwords=(lba, 0, 0))
            self.memory[DATA:DATA + BLOCK] = bytes(BLOCK)
            self.command(1, 0x02, nsid=1, prp=IOVA + DATA, dwords=(lba, 0, 0))
            assert self.memory[DATA:DATA + BLOCK] == data, f"block {lba}"
            if event is not None:
                ready, _, _ = select.select([event], [], [], LIMIT)
                assert ready and os.eventfd_read(event) > 0, "an interrupt"

    def reset(self):
        self.connection.ask(RESET, b"")
        assert self.register(0x1C) & 1 == 0 and self.register(0x14) & 1 == 0, "as after a reset"

    def disable(self):
        self.set_register(0x14, 0)
        self.until_ready(0)


class Spdk(Client):
    """Bare structures but for DEVICE_GET_REGION_INFO, no word on capabilities, no interrupts, and a shutdown at the end."""

    def __init__(self, path):
        self.connection = Connection(path)
        self.connection.spare = None
        body, _ = self.connection.ask(VERSION, struct.pack("=HH", 0, 1), padding=0)
        assert struct.unpack("=HH", body[:4]) == (0, 1)
        body, _ = self.connection.ask(GET_INFO, struct.pack("=IIII", 16, 0, 0, 0), padding=0)
        _, _, regions, _ = struct.unpack("=IIII", body)
        self.page = None
        for index in range(regions):
            # Room for the answer is in the request.
            request = struct.pack("=IIIIQQ", 4096, 0, index, 0, 0, 0)
            body, files = self.connection.ask(GET_REGION_INFO, request, padding=4096 - len(request))
            argsz, flags, _, capability, _, offset = struct.unpack("=IIIIQQ", body[:32])
            assert argsz == len(body) <= 4096, "it is all in there"
            if index == BAR0 and flags & 4:
                at, length = struct.unpack("=QQ", body[capability + 16:capability + 32])
                self.page = mmap.mmap(files[0], length, offset=offset + at)
        assert self.page is not None, "it maps doorbells, and has no other way"
        # Hugepages, a mapping for each.
        self.file = os.memfd_create("client")
        os.truncate(self.file, 2 * MEMORY)
        self.memory = mmap.mmap(self.file, 2 * MEMORY)
        self.each(DMA_MAP, "=IIQQQ", lambda at: (32, 3, at, IOVA + at, MEMORY))

    def each(self, command, form, fields):
        for at in (0, MEMORY):
            self.connection.ask(command, struct.pack(form, *fields(at)), [self.file], padding=0)

    def enable(self):
        (command,) = struct.unpack("<H", self.connection.read(CONFIG, 4, 2))
        self.connection.write(CONFIG, 4, struct.pack("<H", command | 0x404))
        assert self.register(8) >= 0x10000 and self.register(0x14) & 1 == 0, "VS and CC"
        super().enable()

    def end(self):
        self.set_register(0x14, self.register(0x14) | 1 << 14)
        end = time.monotonic() + LIMIT
        while self.register(0x1C) >> 2 & 3 != 2:
            assert time.monotonic() < end, "CSTS.SHST"
        self.each(DMA_UNMAP, "=IIQQ", lambda at: (24, 0, IOVA + at, MEMORY))
        self.connection.socket.close()


def life_of_spdk(path, seed):
    client = Spdk(path)
    client.enable()
    name = client.identify()
    client.make_queue(interrupts=0)
    client.write_and_read(seed)
    client.end()
    print(f"{name}: attached, identified, I/O, shut down, detached", flush=True)


def life(path, mapped, seed):
    """From attaching to detaching."""
    client = Client(path, mapped)
    for again in range(2):
        client.enable()
        name = client.identify()
        event = client.connect(1)
        client.make_queue()
        client.write_and_read(seed + again, event)
        client.reset()
        os.close(event)
    client.unmap()
    # The same place once more: nothing may be left of the mapping.
    client.map()
    client.enable()
    assert client.identify() == name
    client.disable()
    client.unmap()
    client.connection.socket.close()
    print(f"{name}: attached, identified, I/O with interrupts, reset twice, mapped again, detached", flush=True)


def main():
    path, doorbells = sys.argv[1:]
    for seed in (1, 100):
        if doorbells == "spdk":
            life_of_spdk(path, seed)
        else:
            life(path, doorbells == "mapped", seed)


if __name__ == "__main__":
    main()
