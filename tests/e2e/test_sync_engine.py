"""cpu-sync, the blocking baseline: the same text, delivered at once."""

import pytest
from wire import chunks, text_of

BODY = {"prompt": "One two three", "temperature": 0, "max_tokens": 20}


@pytest.fixture(scope="module")
def blocking(servers, model):
    return servers(model, "--engine", "cpu-sync")


def test_same_text(server, blocking):
    expected = server.post("/v1/completions", BODY)[1]["choices"]
    assert blocking.post("/v1/completions", BODY)[1]["choices"] == expected


def test_stream_comes_at_once(blocking):
    parts = chunks(blocking, "/v1/completions", BODY)
    assert len(parts) == 2  # all the text, then the end
    assert text_of(parts) == blocking.post("/v1/completions", BODY)[1]["choices"][0]["text"]


def test_unknown_engine(run, tiny):
    result = run("serve", "--model", tiny, "--port", 0, "--engine", "warp")
    assert result.returncode == 1 and "warp" in result.stderr
