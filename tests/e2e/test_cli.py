"""The command line: help, version, and errors that name the thing and say what to do."""

import json

import pytest
from limits_header import limit

SUBCOMMANDS = ["serve", "run", "engines", "inspect", "tokenize", "logits", "perplexity", "bench",
               "version"]


def fails(result, *words: str) -> None:
    """Status 1 or 2, nothing on stdout, one short message on stderr with all the words."""
    assert result.returncode in (1, 2), (result.returncode, result.stderr)
    assert result.stdout == ""
    assert 0 < len(result.stderr) < 2000
    for word in words:
        assert word.lower() in result.stderr.lower(), result.stderr


def test_help_lists_the_subcommands(run):
    result = run("--help")
    assert result.returncode == 0
    assert all(name in result.stdout for name in SUBCOMMANDS)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_each_subcommand(run, name):
    result = run(name, "--help")
    assert result.returncode == 0
    assert f"firstlight {name}" in result.stdout


def test_version(run):
    result = run("version")
    assert result.returncode == 0 and result.stdout.startswith("firstlight ")


def test_no_subcommand_shows_how_to_go_on(run):
    result = run()
    assert result.returncode != 0 and "--help" in result.stdout + result.stderr


def test_unknown_subcommand(run):
    fails(run("sing"), "sing", "--help")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_unknown_flag(run, name):
    fails(run(name, "--no-such-flag"), "--no-such-flag")


def test_flag_without_its_value(run):
    fails(run("serve", "--model"), "--model")


@pytest.mark.parametrize("flag, value", [
    ("--port", "65536"), ("--port", "-1"), ("--port", "http"),
    ("--threads", "0"), ("--threads", "many"), ("--threads", "100000"),
    ("--ctx", "-5"), ("--kv-memory", "12Q"),
])
def test_values_out_of_range(run, tiny, flag, value):
    fails(run("serve", "--model", tiny, flag, value), flag)


@pytest.mark.parametrize("mask", ["avx9", "-sse", "0xzz"])
def test_bad_cpu_mask(run, tiny, mask):
    fails(run("run", "--model", tiny, f"--cpu-mask={mask}", "hello"), mask.lstrip("-"))


def test_missing_model_file(run, tmp_path):
    path = tmp_path / "absent.gguf"
    for result in (run("run", "--model", path, "hello"), run("inspect", path)):
        fails(result, str(path), "no such file")
        assert result.stderr.count(str(path)) == 1


def test_no_model_given(run):
    fails(run("serve"), "--model")


def test_a_file_that_is_no_gguf(run, tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("This is no model. " * 100)
    fails(run("inspect", path), str(path), "GGUF")


@pytest.mark.parametrize("kept", [0, 3, 4, 8, 23, 24, 100, 1000, 5000, 0.5, 0.999])
def test_truncated_model(run, tiny, tmp_path, kept):
    whole = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:kept if isinstance(kept, int) else int(len(whole) * kept)])
    fails(run("run", "--model", path, "hello"), str(path))


def patched(tiny, tmp_path, old: bytes, new: bytes):
    """A copy of the tiny model with one string replaced by another of the same length."""
    assert len(old) == len(new)
    whole = tiny.read_bytes()
    assert old in whole
    path = tmp_path / "patched.gguf"
    path.write_bytes(whole.replace(old, new))
    return path


def test_unknown_architecture(run, tiny, tmp_path):
    fails(run("run", "--model", patched(tiny, tmp_path, b"llama", b"lemma"), "hello"), "lemma")


def test_missing_tensor(run, tiny, tmp_path):
    path = patched(tiny, tmp_path, b"blk.1.attn_q.weight", b"blk.1.attn_x.weight")
    fails(run("run", "--model", path, "hello"), "blk.1.attn_q.weight")


@pytest.mark.parametrize("size, says", [("900000G", "available"), ("1", "1 bytes")])
def test_too_little_memory(run, tiny, size, says):
    fails(run("serve", "--model", tiny, "--port", 0, "--kv-memory", size), "kv-memory", says)


def test_bench_refuses_its_output_before_it_measures(run, tiny, tmp_path):
    path = tmp_path / "absent" / "out.json"
    fails(run("bench", "model", "--model", tiny, "--output", path), str(path), "no such file")


def test_perplexity_of_a_text_that_is_too_short(run, tiny, tmp_path):
    path = tmp_path / "text"
    path.write_text("")
    fails(run("perplexity", "--model", tiny, "--file", path), "--file", "0 tokens")


def test_prompt_longer_than_the_context(run, tiny):
    fails(run("run", "--model", tiny, "--raw", "--ctx", 16, "word " * 100), "context")


def test_logits_refuse_an_id_outside_the_vocabulary(run, tiny, tmp_path):
    out = tmp_path / "out.npy"
    fails(run("logits", "--model", tiny, "--npy", out, stdin="[1, 2, 274]"), "274")
    assert not out.exists()


@pytest.mark.parametrize("text", ["", "[", "{}", '["a"]', "[1.5]", "[-1]", "[]"])
def test_logits_refuse_bad_input(run, tiny, tmp_path, text):
    fails(run("logits", "--model", tiny, "--npy", tmp_path / "out.npy", stdin=text))


def test_perplexity_refuses_a_window_with_nothing_to_score(run, tiny, tmp_path):
    text = tmp_path / "text"
    text.write_text("one two three four five six")
    fails(run("perplexity", "--model", tiny, "--file", text, "--ctx", "2", "--compare-f32"),
          "--ctx", "needs 3")


def test_inspect(run, tiny):
    result = run("inspect", tiny, "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert {"metadata", "tensors"} <= answer.keys()
    names = {tensor["name"] for tensor in answer["tensors"]}
    assert "token_embd.weight" in names and "blk.1.ffn_down.weight" in names
    assert run("inspect", tiny).returncode == 0


def test_engines(run):
    result = run("engines")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert any(line.startswith("cpu ") for line in lines)
    assert any(line.startswith("cpu-sync ") for line in lines)


def test_tokenize_round_trip_shapes(run, tiny):
    plain = run("tokenize", "--model", tiny, stdin="the rain")
    assert plain.returncode == 0 and plain.stdout.strip()
    arrays = run("tokenize", "--model", tiny, "--json", stdin=json.dumps(["the rain", ""]))
    ids = json.loads(arrays.stdout)
    assert len(ids) == 2 and ids[0] and ids[1] == []


def test_tokenize_specials(run, tiny):
    def ids(*flags):
        result = run("tokenize", "--model", tiny, "--json", *flags,
                     stdin=json.dumps(["<|im_start|>"]))
        return json.loads(result.stdout)[0]

    assert ids() == [0]
    assert len(ids("--no-special")) > 1


@pytest.mark.parametrize("command, flag, default", [
    ("streaming", "--warmup-runs", "(default 1)"),
    ("streaming", "--repeat-runs", "(default 1)"),
    ("streaming", "--prefill-max-batch-size", "(default 16)"),
    ("curves", "--prefill-max-batch-size", "(default: no bound)"),
    ("replay", "--warmup-runs", "(default: none)"),
    ("model", "--repeat-runs", "(default 5)"),
    ("token-speed", "--repeat-runs", "(default 3)"),
])
def test_help_states_the_command_s_own_default(run, command, flag, default):
    """Also after a flag that sets another value."""
    text = run("bench", command, flag, 7, "--help").stdout
    assert default in " ".join(text[text.index(f"  {flag} "):].split()[:16])


@pytest.mark.parametrize("flag, name", [
    ("--max-requests", "LIMIT_SLOTS"),
    ("--max-batch-size", "LIMIT_BATCH_SEQS"),
    ("--max-queued-tokens", "LIMIT_QUEUED_TOKENS"),
    ("--max-connections", "LIMIT_CONNECTIONS"),
    ("--max-connections-per-address", "LIMIT_ADDRESS_CONNECTIONS"),
    ("--max-requests-per-second", "LIMIT_REQUEST_RATE"),
    ("--max-tokens-per-second", "LIMIT_TOKEN_RATE"),
    ("--rate-burst", "LIMIT_RATE_BURST_SECONDS"),
    ("--drain-timeout", "LIMIT_DRAIN_SECONDS"),
    ("--sse-comment", "LIMIT_SSE_COMMENT_SECONDS"),
])
def test_help_of_serve_states_its_defaults(run, flag, name):
    text = run("serve", "--help").stdout
    default = f"(default {limit(name)})" if limit(name) > 0 else "(default: no bound)"
    entry = text.split(f"\n  {flag} ")[1].split("\n  --")[0]
    assert default in " ".join(entry.split())


def test_serve_alone_leaves_the_bound_of_its_queue_to_the_profile(run):
    for command in ("serve", "run"):
        entry = run(command, "--help").stdout.split("\n  --max-queue-ms ")[1].split("\n  --")[0]
        assert ("(interactive 10000, " in entry) == (command == "serve")
        assert ("(default 0)" in entry) == (command == "run")


@pytest.mark.parametrize("command, flag, name", [
    ("serve", "--threads", "LIMIT_THREADS"),
    ("serve", "--max-requests", "LIMIT_SLOTS_MOST"),
    ("serve", "--grpc-coalesce-ms", "LIMIT_COALESCE_MS"),
    ("serve", "--request-timeout", "LIMIT_TIMEOUT_SECONDS"),
    ("bench streaming", "--warmup-runs", "LIMIT_BENCH_RUNS"),
    ("bench streaming", "--repeat-runs", "LIMIT_BENCH_RUNS"),
    ("bench streaming", "--timeout", "LIMIT_BENCH_SECONDS"),
    ("bench streaming", "--background", "LIMIT_BENCH_BACKGROUND"),
])
def test_a_flag_takes_its_limit_and_no_more(run, command, flag, name):
    assert run(*command.split(), flag, limit(name), "--help").returncode == 0
    fails(run(*command.split(), flag, limit(name) + 1, "--help"), flag, f"and {limit(name)},")


@pytest.mark.parametrize("first, repeated, name, too_many", [
    ("compare --before none.json", "--after none.json", "LIMIT_COMPARE_FILES", "at most {} files"),
    ("history", "none.json", "LIMIT_RESULT_FILES", "unexpected argument"),
    ("report --html none.html", "none.json", "LIMIT_REPORT_FILES", "at most {} files"),
])
def test_a_bench_takes_so_many_files(run, tmp_path, first, repeated, name, too_many):
    """As many as the limit are looked for, and not found."""
    most = limit(name)
    command = ["bench", *first.split()]
    fine = run(*command, *most * repeated.split(), cwd=tmp_path)
    assert fine.returncode == 1 and "none.json: No such file" in fine.stderr
    fails(run(*command, *(most + 1) * repeated.split(), cwd=tmp_path), too_many.format(most))


def test_bench_compare_takes_so_many_requirements(run, tmp_path):
    most = limit("LIMIT_REQUIREMENTS")
    arguments = ["bench", "compare", "--after", "none.json"]
    requirement = ["--require", "ttft_p50<1"]
    fails(run(*arguments, *most * requirement, cwd=tmp_path), "none.json")
    fails(run(*arguments, *(most + 1) * requirement, cwd=tmp_path), f"at most {most} of them")
