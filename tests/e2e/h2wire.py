"""HTTP/2 as frames: what no client library would send. HPACK comes from the `hpack` package."""

import socket
import ssl
import struct

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"",
          length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(data: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """A message as gRPC frames it."""
    return struct.pack(">BI", flag, len(data) if length is None else length) + data


class Client:
    """One connection. Reads frames as they come; answers nothing by itself."""

    authority = "localhost"

    def __init__(self, address: str, window: int = 65535, timeout: float = 20,
                 receive: int | None = None, source: str = "",
                 tls: ssl.SSLContext | None = None) -> None:
        host, port = address.split(":")
        self.sock = socket.socket()
        self.sock.settimeout(timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect((host, int(port)))
        if tls:
            self.sock = tls.wrap_socket(self.sock, server_hostname=host)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.next_stream = 1
        self.bytes = b""
        settings = struct.pack(">HI", 4, window)  # INITIAL_WINDOW_SIZE
        self.sock.sendall(PREFACE + frame(SETTINGS, payload=settings))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def fields(self, path: str, *more: tuple[str, str], method: str = "POST") -> bytes:
        return self.encoder.encode([(":method", method), (":scheme", "http"), (":path", path),
                                    (":authority", self.authority), *more])

    def open(self, path: str, *more: tuple[str, str], end: bool = False,
             method: str = "POST") -> int:
        """Headers of a new stream; its number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        flags = END_HEADERS | (END_STREAM if end else 0)
        self.send(frame(HEADERS, flags, stream, self.fields(path, *more, method=method)))
        return stream

    def post(self, path: str, kind: str, body: bytes, *more: tuple[str, str]) -> int:
        """A whole request with a body; its stream."""
        stream = self.open(path, ("content-type", kind), *more)
        for at in range(0, len(body), 16384):
            flags = END_STREAM if at + 16384 >= len(body) else 0
            self.send(frame(DATA, flags, stream, body[at:at + 16384]))
        if not body:
            self.send(frame(DATA, END_STREAM, stream))
        return stream

    def ask(self, path: str, body: bytes, *more: tuple[str, str]) -> int:
        """A whole call of gRPC."""
        return self.post(path, "application/grpc", body, ("te", "trailers"), *more)

    def read(self) -> tuple[int, int, int, bytes] | None:
        """The next frame: kind, flags, stream, payload; None at the end of the connection."""
        while len(self.bytes) < 9 or len(self.bytes) < 9 + int.from_bytes(self.bytes[:3]):
            try:
                more = self.sock.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self.bytes += more
        size = int.from_bytes(self.bytes[:3])
        kind, flags, stream = struct.unpack(">BBI", self.bytes[3:9])
        payload, self.bytes = self.bytes[9:9 + size], self.bytes[9 + size:]
        return kind, flags, stream, payload

    def answer(self, stream: int) -> tuple[dict, bytes]:
        """Headers and trailers as one, and the body; RST_STREAM's code as "rst"."""
        fields, body = {}, b""
        while (got := self.read()) is not None:
            kind, flags, number, payload = got
            if kind == HEADERS:
                decoded = self.decoder.decode(payload)
                if number == stream:
                    fields |= dict(decoded)
            if number != stream:
                continue
            if kind == DATA:
                body += payload
            if kind == RST:
                return fields | {"rst": int.from_bytes(payload)}, body
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return fields, body
        raise AssertionError("the connection ended before its answer")

    def headers(self, streams: list[int]) -> None:
        """Reads until the answers to all of them have begun, without their bodies."""
        waiting = set(streams)
        while waiting:
            kind, _, stream, payload = self.read()
            assert kind not in (DATA, RST, GOAWAY)
            if kind == HEADERS:
                fields = dict(self.decoder.decode(payload))
                assert fields[":status"] == "200" and fields.get("grpc-status", "0") == "0", fields
                waiting.discard(stream)

    def answers(self, streams: list[int]) -> dict[int, tuple[dict, bytes]]:
        """As answer() has it, of many at once; trailers only of headers."""
        fields, bodies = {stream: {} for stream in streams}, {stream: [] for stream in streams}
        waiting = set(streams)
        while waiting:
            kind, flags, stream, payload = self.read()
            assert kind != GOAWAY
            if kind == HEADERS:
                fields[stream] |= dict(self.decoder.decode(payload))
            elif kind == DATA:
                bodies[stream].append(payload)
            elif kind == RST and stream in waiting:
                fields[stream]["rst"] = int.from_bytes(payload)
            if kind == RST or (kind in (HEADERS, DATA) and flags & END_STREAM):
                waiting.discard(stream)
        return {stream: (fields[stream], b"".join(bodies[stream])) for stream in streams}

    def open_windows(self, size: int = 1 << 24) -> None:
        """All streams, and the connection, may send so much more."""
        self.send(frame(SETTINGS, payload=struct.pack(">HI", 4, size))
                  + frame(WINDOW, payload=struct.pack(">I", size)))

    def grpc(self, path: str, body: bytes, *more: tuple[str, str]) -> dict:
        return self.answer(self.ask(path, body, *more))[0]

    def end(self) -> int | None:
        """Reads on until the connection ends; GOAWAY's code if one came."""
        code = None
        while (got := self.read()) is not None:
            if got[0] == GOAWAY:
                code = int.from_bytes(got[3][4:8])
        return code
