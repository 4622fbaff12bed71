"""`bench ab`: two servers in turns. Here they differ by tenfold, or not at all, so that the answer
does not hang on how loaded this machine is."""

import json
import os
import signal
import subprocess
import time

import pytest
from fake_openai import Answer, FakeOpenAI

from test_cli import fails

QUICK = ["--num-requests", 1, "--max-new-tokens", 3, "--prompt-tokens", 4, "--warmup-runs", 0]


def slow_by(seconds: float):
    return lambda _index, _body: Answer(delay=seconds)


def ab(run, a, b, *more, **kwargs):
    return run("bench", "ab", "--a", a, "--b", b, *QUICK, *more, **kwargs)


def test_finds_the_slower_server(run, tmp_path):
    path = tmp_path / "ab.json"
    with FakeOpenAI(slow_by(0.01)) as fast, FakeOpenAI(slow_by(0.1)) as slow:
        done = ab(run, fast.url, slow.url, "--pairs", 2, "--width", 1000, "--output", path)
        seen = [(x.received_ns, side) for side, s in (("a", fast), ("b", slow)) for x in s.seen]
    assert done.returncode == 0, done.stderr
    line = next(x for x in done.stdout.splitlines() if x.startswith("ttft_p50"))
    assert line.endswith("95.0 %  worse")
    assert "the interval is as narrow as asked for" in done.stdout
    assert "A was not started anew" in done.stdout and "B was not started anew" in done.stdout
    whole = json.loads(path.read_text())
    found = whole["ab"]["differences"]["ttft_p50"]
    assert found["verdict"] == "worse" and found["low"] > 100 and found["a"] >= 10
    assert whole["ab"]["blocks"] == len(whole["runs"]) == 10
    # Each pair asks both, and not always the same one first.
    order = [side for _, side in sorted(seen)]
    pairs = ["".join(order[i:i + 2]) for i in range(0, len(order), 2)]
    assert len(pairs) == 20 and set(pairs) == {"ab", "ba"}
    # This process serves both: its processor time is known by the port.
    assert whole["runs"][0]["a"]["processor_s"] > 0
    assert whole["ab"]["a"]["requests"] == 20 and whole["ab"]["a"]["failed"] == 0


def test_starts_commands_anew(run, binary, tiny, tmp_path, monkeypatch):
    path = tmp_path / "ab.json"
    monkeypatch.setenv("FIRSTLIGHT_API_KEY", "secret")  # which is for other servers
    serve = f"{binary} serve --model {tiny} --threads 1"
    other = f"LEVEL=1 {serve} --host 127.0.0.1 --port {{port}}"
    done = ab(run, serve, other, "--pairs", 2, "--width", 1000, "--time-limit", 40,
              "--no-stop-on-eos", "--output", path)
    assert done.returncode == 0, done.stderr
    assert f"A       {serve}\n" in done.stdout
    whole = json.loads(path.read_text())["ab"]
    assert whole["starts"] == whole["blocks"] >= 1
    assert whole["a"]["processor_s"] > 0 and whole["b"]["processor_s"] > 0
    assert whole["a"]["model"] == whole["b"]["model"]
    assert whole["a"]["cached_tokens"] == whole["b"]["cached_tokens"]
    left = subprocess.run(["pgrep", "-f", f"serve --model {tiny} --threads 1 --host"],
                          capture_output=True, text=True).stdout
    assert left == ""


def test_a_server_beside_itself(run, small, tmp_path):
    """Prompts of the two sides differ, or the second would find the first one's in the cache."""
    path = tmp_path / "ab.json"
    done = run("bench", "ab", "--a", small.url, "--b", small.url, "--pairs", 2, "--time-limit", 5,
               "--max-new-tokens", 3, "--prompt-tokens", 40, "--no-stop-on-eos", "--output", path)
    assert done.returncode == 0, done.stderr
    whole = json.loads(path.read_text())["ab"]
    for side in "a", "b":
        assert whole[side]["cached_tokens"] < 0.1 * whole[side]["prompt_tokens"]


def test_prompts(run):
    """Of 128 tokens by default, or as they are given."""
    asked = {}
    for name, flags in (("none", []), ("text", ["--prompt", "Why?"]),
                        ("tokens", ["--prompt-tokens", 3])):
        with FakeOpenAI(slow_by(0)) as a, FakeOpenAI(slow_by(0)) as b:
            done = run("bench", "ab", "--a", a.url, "--b", b.url, "--pairs", 1, "--width", 1000,
                       "--warmup-runs", 0, *flags)
            assert done.returncode == 0, done.stderr
            asked[name] = [x.body["prompt"] for x in a.seen]
            assert asked[name] == [x.body["prompt"] for x in b.seen]
    assert {len(text.split()) for text in asked["none"]} == {128}
    assert set(asked["text"]) == {"Why?"}
    assert {len(text.split()) for text in asked["tokens"]} == {3}


def test_failures_end_it(run):
    def script(index, _body):
        return Answer(status=500, message="it said no") if index >= 5 else Answer()
    with FakeOpenAI(script) as bad, FakeOpenAI(slow_by(0)) as good:
        done = ab(run, good.url, bad.url, "--pairs", 1, "--width", 0.01)
    assert done.returncode == 1
    assert "5 blocks in a row had requests that failed" in done.stderr
    assert "it said no" in done.stderr
    assert "no verdict" in done.stdout and "an error ended it" in done.stdout


def test_an_interruption_keeps_what_there_is(binary, tmp_path):
    path = tmp_path / "ab.json"
    with FakeOpenAI(slow_by(0)) as a, FakeOpenAI(slow_by(0)) as b:
        command = [binary, "bench", "ab", "--a", a.url, "--b", b.url, "--width", "0.01", "--pairs",
                   "1", "--output", path, *map(str, QUICK)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        while len(a.seen) < 5 and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert ": interrupted" in out
    whole = json.loads(path.read_text())["ab"]
    assert whole["end"] == "interrupted" and whole["blocks"] >= 3


@pytest.mark.parametrize("command, says", [
    ("no-such-program --model x", "it printed:"),
    ("echo it goes wrong >&2; false", "it goes wrong"),
])
def test_a_command_that_does_not_come_up(run, command, says):
    fails(ab(run, command, command, "--start-timeout", 20), "ended before it was ready", says)


def test_nothing_is_left_behind(run, tmp_path):
    """Also not by a command that leaves its server in the background and ends."""
    pid = tmp_path / "pid"
    command = f"sh -c 'sleep 300 & echo $! > {pid}' #"
    fails(ab(run, command, command, "--start-timeout", 20), "ended before it was ready")
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until whoever inherits it has taken note
            os.kill(int(pid.read_text()), 0)
            state = open(f"/proc/{pid.read_text().strip()}/stat").read().rsplit(")")[-1].split()[0]
            if state == "Z":
                raise ProcessLookupError
            time.sleep(0.05)


def test_one_that_is_never_ready(run):
    fails(ab(run, "sleep 60 #", "sleep 60 #", "--start-timeout", 1), "not ready in time")


def test_what_is_needed(run):
    fails(run("bench", "ab", "--a", "http://127.0.0.1:1"), "--b", "URL", "command")
    fails(run("bench", "ab", "--a", "", "--b", "x"), "--a")
    fails(ab(run, "http://127.0.0.1:1", "http://127.0.0.1:1"), "A: ", "127.0.0.1:1")
    fails(ab(run, "x", "x", "--metric", "speed"), "--metric", "ttft_p50")
    fails(ab(run, "x", "x", "--tokenizer", "none.gguf"), "--tokenizer", "none.gguf")
