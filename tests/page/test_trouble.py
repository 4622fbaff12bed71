"""What a person sees when something is wrong: refusals, keys, lost connections, waiting."""

import threading

from selenium.webdriver.common.by import By
from stub import FACTS, say


def full(seconds: int):
    def answer(x) -> None:
        x.error(
            429,
            "the queue is full (--max-queued-requests 8)",
            "rate_limit_error",
            Retry_After=seconds,
            Retry_After_Ms=seconds * 1000,
        )

    return answer


def test_a_full_server_is_tried_again_on_request(visit, stub) -> None:
    stub.chat = full(3)
    page = visit(stub.url, refused=True)
    page.send("hi")
    trouble = page.one(".trouble").text
    assert "The server is full. It says to come back in 3 s." in trouble
    assert "the queue is full (--max-queued-requests 8)" in trouble
    page.click(".retry-later", "Try again in")
    page.one(".retry-later[aria-pressed=true]", "Tries again in")
    stub.chat = say("There.")
    page.wait(lambda: page.texts(".assistant .text") == ["There."])
    assert len(stub.asked) == 2
    page.gone(".trouble")
    page.gone(".variants")


def test_a_full_server_is_not_tried_by_itself(visit, stub) -> None:
    stub.chat = full(1)
    page = visit(stub.url, refused=True)
    page.send("hi")
    page.one(".trouble")
    page.gone(".retry-later")
    assert len(stub.asked) == 1
    stub.chat = say("Now.")
    page.click(".retry", "Try again")
    page.wait(lambda: page.texts(".assistant .text") == ["Now."])


def test_a_key_is_asked_for(visit, stub) -> None:
    stub.key = "geheim"
    page = visit(stub.url, refused=True)
    page.one("#api-key").send_keys("geheim")
    page.click("dialog .primary")
    page.gone("dialog")
    assert page.ask("hi") == "Hello."
    assert page.js(
        "return [sessionStorage.getItem('firstlight.key'), localStorage.getItem('firstlight.key')]"
    ) == ["geheim", None]
    page.reload()
    page.one("#model", "stub")


def test_a_wrong_key_is_told_and_kept_only_on_request(visit, stub) -> None:
    stub.key = "right"
    page = visit(stub.url, refused=True)
    page.one("dialog")
    page.click("dialog [aria-label=Close]")
    page.gone("dialog")
    page.send("hi")
    assert "The server wants an API key." in page.one(".trouble").text
    page.click(".trouble .primary", "Enter a key")
    page.one("#api-key").send_keys("right")
    page.click("#api-key-remember")
    page.click("dialog .primary")
    page.gone("dialog")
    page.click(".retry", "Try again")
    page.wait(lambda: page.texts(".assistant .text") == ["Hello."])
    assert page.js(
        "return [sessionStorage.getItem('firstlight.key'), localStorage.getItem('firstlight.key')]"
    ) == [None, "right"]


def test_a_lost_connection_keeps_what_came(visit, stub) -> None:
    def answer(x) -> None:
        x.stream()
        x.text("Half of")

    stub.chat = answer
    page = visit(stub.url, refused=True)
    page.send("hi")
    trouble = page.one(".trouble").text
    assert "The connection was lost in the middle of the answer." in trouble
    assert "What had come is kept." in trouble
    assert page.answer() == "Half of"
    stub.chat = say("Whole.")
    page.click(".retry", "Ask again")
    page.one(".variants", "2 of 2")


def test_an_error_inside_the_stream(visit, stub) -> None:
    def answer(x) -> None:
        x.stream()
        x.text("Begun")
        x.chunk(
            {
                "error": {
                    "message": "the answer was not done in the time it was given",
                    "type": "timeout_error",
                }
            }
        )

    stub.chat = answer
    page = visit(stub.url, refused=True)
    page.send("hi")
    assert "The time for this answer was up." in page.one(".trouble").text
    assert page.answer() == "Begun"


def test_a_real_refusal_names_the_field(visit, server) -> None:
    page = visit(server.url, refused=True)
    page.js("""localStorage.setItem('firstlight.defaults',
               JSON.stringify({system: '', params: {temperature: 9}}))""")
    page.reload()
    page.send("hi")
    trouble = page.one(".trouble").text
    assert "The server did not take the request." in trouble and "temperature" in trouble


def test_a_server_that_is_away(visit, stubs) -> None:
    stub = stubs()
    page = visit(stub.url, refused=True)
    stub.close()
    page.send("hi")
    assert "The server cannot be reached." in page.one(".trouble").text


def test_how_many_wait_before_it(visit, stub) -> None:
    """The queue is told by the debug stream, under the request's own id; it is open no longer."""
    go_on, ids = threading.Event(), []

    def chat(x) -> None:
        ids.append(x.headers["X-Request-Id"])
        x.stream()
        go_on.wait(60)
        x.text("At last.")
        x.finish()

    closed = threading.Event()

    def debug(x) -> None:
        x.stream()
        x.event("server", FACTS)
        x.event(
            "waiting",
            {
                "requests": [
                    {
                        "id": "a",
                        "request_id": "another",
                        "waited_ms": 900,
                        "prompt_tokens": 9,
                        "ahead": 1,
                    },
                    {
                        "id": "b",
                        "request_id": ids[0],
                        "waited_ms": 600,
                        "prompt_tokens": 9,
                        "ahead": 2,
                    },
                ]
            },
        )
        try:
            while not closed.wait(0.05):
                x.write(":\n\n")
        except OSError:
            closed.set()

    stub.chat, stub.debug = chat, debug
    page = visit(stub.url)
    page.send("hi")
    page.one(".waiting", "Waiting behind 2 requests")
    assert stub.debugged == 1
    go_on.set()
    assert page.answer() == "At last."
    assert closed.wait(30), "the debug stream is left when the answer begins"


def test_loading_and_draining_are_shown(visit, stub) -> None:
    stub.state = "loading"
    page = visit(stub.url)
    page.one("#banner", "The model is loading.")
    stub.state = "draining"
    page.one("#banner", "shutting down")
    stub.state = "failed"
    page.reload()
    page.one("#banner", "started again")
    stub.state = "ok"
    page.reload()
    page.one("#model", "stub")
    page.gone("#banner")


def test_an_answer_at_the_limit_says_so(visit, stub) -> None:
    def answer(x) -> None:
        x.stream()
        x.text("and so")
        x.finish("length")

    stub.chat = answer
    page = visit(stub.url)
    page.ask("hi")
    assert (
        "limit of tokens" in page.one(".message.assistant").find_element(By.CLASS_NAME, "note").text
    )
