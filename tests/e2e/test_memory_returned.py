"""Memory goes back to the system when a server has been quiet for some seconds."""

import json
import re
import time
from pathlib import Path

# Of no use to the server; each becomes a number of some 40 bytes until the request is read.
IGNORED = [1] * 1_000_000
MIB = 1 << 20
SECONDS = 60


def held(server) -> int:
    """Bytes of no file that are resident."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+([0-9]+) kB", text)[1]) * 1024


def settled(server, most: int) -> int:
    """What is held once that is at most so much, or after a minute."""
    deadline = time.monotonic() + SECONDS
    while (now := held(server)) > most and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


def test_after_a_peak(servers, tiny):
    server = servers(tiny)
    before = held(server)
    body = json.dumps({"prompt": "a", "max_tokens": 1, "ignored": IGNORED}).encode()
    for _ in range(2):  # the second peak as well
        for _ in range(3):
            assert server.post("/v1/completions", body)[0] == 200
        risen = held(server) - before
        assert risen > 24 * MIB, "no peak to test with"
        assert settled(server, before + risen // 2) <= before + risen // 2
        assert server.get("/health")[0] == 200
    assert server.stop() == 0
