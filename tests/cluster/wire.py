"""A client of the controllers' protocol that shares no code with the product: SP framing and a little of protobuf.

Reads a controller's own word (position, digest, role) from its Unix socket, and makes what no honest client would send."""
import os
import socket
import struct

ASK_PING, ASK_DIGEST = 21, 23 - 1


def varint(n):
    out = bytearray()
    while True:
        out.append((n & 0x7F) | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(out)


def field(number, value):
    """One field: an int as varint, bytes or str with a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def fields(data):
    """{number: [values]} of a message; sub-messages stay bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif kind == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        elif kind == 5:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        else:
            raise ValueError("wire type %d" % kind)
        found.setdefault(number, []).append(value)
    return found


def one(found, number, default=0):
    return found.get(number, [default])[-1]


class Peer:
    """One connection that speaks REQ to a REP server."""

    def __init__(self, address, timeout=10):
        if isinstance(address, str):
            self.unix = True
            self.socket = socket.socket(socket.AF_UNIX)
            # The path of a socket has 107 bytes: go there by the folder's descriptor when it is longer.
            folder = os.open(os.path.dirname(address), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self.socket.settimeout(timeout)
                self.socket.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(address)))
            finally:
                os.close(folder)
        else:
            self.unix = False
            self.socket = socket.create_connection(address, timeout)
        self.count = 0

    def greet(self):
        self.socket.sendall(b"\0SP\0\0\x30\0\0")
        hello = self.receive(8)
        if hello != b"\0SP\0\0\x31\0\0":
            raise ConnectionError("no REP server: %r" % hello)
        return self

    def receive(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("closed after %d of %d bytes" % (len(data), count))
            data += piece
        return data

    def frame(self, payload):
        return (b"\1" if self.unix else b"") + struct.pack(">Q", len(payload)) + payload

    def ask(self, payload):
        """Sends PAYLOAD as a request and gives the reply's payload."""
        self.count += 1
        self.socket.sendall(self.frame(struct.pack(">I", 0x80000000 | self.count) + payload))
        if self.unix:
            self.receive(1)
        size = struct.unpack(">Q", self.receive(8))[0]
        return self.receive(size)[4:]

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def envelope(body):
    return field(1, 1) + field(2, body)


def request(path, body, timeout=10):
    """Sends the packed Request BODY to a controller's Unix socket; gives the fields of its Reply."""
    with Peer(path, timeout) as peer:
        reply = fields(peer.greet().ask(envelope(body)))
    return fields(one(reply, 2, b""))


def digest(path, timeout=10):
    """(pos, digest, chain) as this controller itself has it."""
    answer = fields(one(request(path, field(ASK_DIGEST, b""), timeout), 22, b""))
    return one(answer, 1), one(answer, 2, b"").hex(), one(answer, 3, b"").hex()


def controllers(path, timeout=10):
    """{name: {...}} of the cluster's controllers as this one sees them."""
    answer = fields(one(request(path, field(ASK_PING, b""), timeout), 21, b""))
    seen = {}
    for row in answer.get(1, []):
        row = fields(row)
        name = one(row, 2, b"").decode()
        seen[name] = {"replica": one(row, 1), "role": one(row, 4, b"").decode(), "term": one(row, 5), "pos": one(row, 6),
                      "voter": bool(one(row, 9))}
    return seen
