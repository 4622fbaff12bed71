"""HTTP/2 as frames: what no client library would send. HPACK comes from the `hpack` package."""

import socket
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

    def __init__(self, address: str, window: int = 65535, timeout: float = 20) -> None:
        host, port = address.split(":")
        self.sock = socket.create_connection((host, int(port)), timeout=timeout)
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
                                    (":authority", "test"), *more])

    def open(self, path: str, *more: tuple[str, str], end: bool = False,
             method: str = "POST") -> int:
        """Headers of a new stream; its number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        flags = END_HEADERS | (END_STREAM if end else 0)
        self.send(frame(HEADERS, flags, stream, self.fields(path, *more, method=method)))
        return stream

    def ask(self, path: str, body: bytes, *more: tuple[str, str]) -> int:
        """A whole call of gRPC."""
        stream = self.open(path, ("content-type", "application/grpc"), ("te", "trailers"), *more)
        self.send(frame(DATA, END_STREAM, stream, body))
        return stream

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

    def grpc(self, path: str, body: bytes, *more: tuple[str, str]) -> dict:
        return self.answer(self.ask(path, body, *more))[0]

    def end(self) -> int | None:
        """Reads on until the connection ends; GOAWAY's code if one came."""
        code = None
        while (got := self.read()) is not None:
            if got[0] == GOAWAY:
                code = int.from_bytes(got[3][4:8])
        return code
