"""System calls from outside in a thread of another process, through ptrace(2).

    with Thread(pid, tid) as thread:
        error = thread.call(OPENAT, AT_FDCWD, b"/etc/passwd", 0)   # negative: -errno

A tracer may do what the thread itself may not, but a call that it makes the thread do is the
thread's own: its filters and rules apply. x86-64 only.
"""

import ctypes
import errno
import os

OPENAT, EXECVE, SOCKET, CLOSE = 257, 59, 41, 3
AT_FDCWD = -100

CONT, SINGLESTEP, GETREGS, SETREGS, DETACH, SEIZE, INTERRUPT = 7, 9, 12, 13, 17, 0x4206, 0x4207
WALL = 0x40000000
PATHS = 4096  # below the stack pointer, beyond the red zone: where texts are written
NO_CALL = 2**64 - 1

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
        "fs_base gs_base ds es fs gs").split()]


def ptrace(request: int, tid: int, data: object = None) -> None:
    if libc.ptrace(request, tid, None, data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def find_syscall(pid: int) -> int:
    """The address of a `syscall` instruction in the process's C library."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            if "r-xp" in line and "libc.so" in line:
                begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                memory.seek(begin)
                if (at := memory.read(end - begin).find(b"\x0f\x05")) >= 0:
                    return begin + at
    raise AssertionError("no C library in the process")


class Thread:
    """A stopped thread; it goes on, as if nothing had been, at the end of the block."""

    def __init__(self, pid: int, tid: int) -> None:
        self.pid, self.tid = pid, tid
        self.syscall = find_syscall(pid)

    def __enter__(self) -> "Thread":
        ptrace(SEIZE, self.tid)
        ptrace(INTERRUPT, self.tid)
        self._stopped()
        self.before = self._registers()
        return self

    def __exit__(self, *_: object) -> None:
        ptrace(SETREGS, self.tid, ctypes.byref(self.before))
        ptrace(DETACH, self.tid)

    def _stopped(self) -> None:
        _, status = os.waitpid(self.tid, WALL)
        assert os.WIFSTOPPED(status), f"thread {self.tid} ended: status {status:#x}"

    def _registers(self) -> Registers:
        registers = Registers()
        ptrace(GETREGS, self.tid, ctypes.byref(registers))
        return registers

    def _text(self, text: bytes) -> int:
        at = self.before.rsp - PATHS
        with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(at)
            memory.write(text + b"\0")
        return at

    def call(self, number: int, *arguments: int | bytes) -> int:
        """Its result; at most one argument is a text."""
        registers = Registers.from_buffer_copy(self.before)
        values = [self._text(a) if isinstance(a, bytes) else a & (2**64 - 1) for a in arguments]
        for name, value in zip(["rdi", "rsi", "rdx", "r10", "r8", "r9"], values, strict=False):
            setattr(registers, name, value)
        registers.rax, registers.orig_rax, registers.rip = number, NO_CALL, self.syscall
        ptrace(SETREGS, self.tid, ctypes.byref(registers))
        ptrace(SINGLESTEP, self.tid)
        self._stopped()
        after = self._registers()
        assert after.rip == self.syscall + 2, "the thread did something else"
        return ctypes.c_int64(after.rax).value


def why_not() -> str | None:
    """Why no process can be traced here; None: it can."""
    child = os.fork()
    if child == 0:
        while True:
            os.read(os.pipe()[0], 1)
    try:
        ptrace(SEIZE, child)
        return None
    except OSError as error:
        return f"ptrace: {errno.errorcode[error.errno]}"
    finally:
        os.kill(child, 9)
        os.waitpid(child, WALL)
