"""The other side of shim.c: arms calls of a running server so that they fail, and counts."""

import mmap
import os
import struct
from pathlib import Path

KINDS = ["alloc", "read", "write", "open", "mmap", "thread"]
FIELDS = ["calls", "fail_at", "lasting", "failed", "err"]
COUNTERS = 8 * len(KINDS) * len(FIELDS)
MAX_SITES = 8192
SIZE = COUNTERS + 8 * 4 + 8 * 3 * MAX_SITES


class Shim:
    """The counters of one process."""

    def __init__(self, library: Path, path: Path):
        path.write_bytes(bytes(SIZE))
        self.environment = os.environ | {"LD_PRELOAD": str(library), "FIRSTLIGHT_SHIM": str(path)}
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)

    def _at(self, kind: str, field: str) -> int:
        return 8 * (KINDS.index(kind) * len(FIELDS) + FIELDS.index(field))

    def get(self, kind: str, field: str) -> int:
        return struct.unpack_from("q", self.memory, self._at(kind, field))[0]

    def set(self, kind: str, field: str, value: int) -> None:
        struct.pack_into("q", self.memory, self._at(kind, field), value)

    def arm(self, kind: str, n: int, lasting: bool = False, err: int = 0) -> None:
        """The n-th call from now on fails, and with `lasting` all after it."""
        self.disarm(kind)
        self.set(kind, "failed", 0)
        self.set(kind, "lasting", lasting)
        self.set(kind, "err", err)
        self.set(kind, "calls", 0)
        self.set(kind, "fail_at", n)

    def disarm(self, kind: str) -> int:
        """How many failed."""
        self.set(kind, "fail_at", 0)
        return self.get(kind, "failed")

    def live(self) -> int:
        """Allocations that were not freed."""
        return struct.unpack_from("q", self.memory, COUNTERS)[0]

    def find_sites(self) -> None:
        struct.pack_into("q", self.memory, COUNTERS + 16, 1)

    def sites(self, kind: str) -> list[int]:
        """The number of the first call from each place in the program."""
        n = struct.unpack_from("q", self.memory, COUNTERS + 24)[0]
        kinds = struct.unpack_from(f"{n}q", self.memory, COUNTERS + 32)
        calls = struct.unpack_from(f"{n}q", self.memory, COUNTERS + 32 + 8 * MAX_SITES)
        return sorted(call for k, call in zip(kinds, calls) if k == KINDS.index(kind))
