"""Talking: typing, streaming, stopping, asking again, editing, and what is kept."""

import json
import re
import threading

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from stub import LAST, ROOT, say, until_gone

PARTS = ["receive", "tokenize", "submit", "queue", "cache", "prefill", "first_write", "network"]


# --- With a real model ---


def test_an_answer_streams_and_its_waterfall_adds_up(page, server) -> None:
    page.js("""window.lengths = new Set();
               new MutationObserver(() => lengths.add(document.querySelector('.assistant .text')
                   ?.textContent.length ?? 0)).observe(document.querySelector('#log'),
                   {childList: true, subtree: true, characterData: true});""")
    answer = page.ask("Write a poem about the sun.")
    assert len(answer) > 20
    assert page.js("return lengths.size") > 5, "the text came at once instead of streaming"
    page.click(".waterfall summary")
    rows = page.js("""return [...document.querySelectorAll('.parts tbody tr')].map((r) =>
                      [r.dataset.part, r.querySelector('.ms').textContent])""")
    assert [row[0] for row in rows] == PARTS
    times = {part: shown.split()[0] for part, shown in rows}
    shown = page.one(".parts .total").text
    total = float(shown.split()[0])
    assert round(sum(map(float, times.values())), 2) == total
    assert f"First token after {shown}" in page.one(".waterfall-head").text
    widths = page.js("""return [...document.querySelectorAll('.stack .part')].map((p) =>
                        parseFloat(p.style.width))""")
    assert abs(sum(widths) - 100) < 0.01
    debug = server.get("/v1/debug/requests?limit=1")[1]["data"][0]
    decimals = len(times["prefill"].partition(".")[2])
    assert abs(float(times["prefill"]) - debug["ttft"]["prefill_ms"]) <= 1.01 * 10**-decimals
    assert total >= round(debug["ttft"]["total_ms"], 1)
    facts = page.one(".facts").text
    assert "tokens/s" in facts and "prompt tokens cached" in facts
    assert f"{debug['completion_tokens']} tokens" in facts


def test_stop_keeps_what_came(page, server) -> None:
    page.send("Write a very long story about a king, in many chapters.")
    page.wait(lambda: len(page.texts(".assistant .text")[0]) > 10)
    page.click("#send[data-does=stop]")
    page.one(".note", "Stopped here")
    assert len(page.answer()) > 10
    page.wait(lambda: server.get("/v1/debug/requests?limit=1")[1]["data"][0]["gone"])


def test_reload_keeps_conversations(page) -> None:
    answer = page.ask("Say hello.")
    page.click("#new-chat")
    page.one(".welcome")
    page.ask("Name a colour.")
    page.reload()
    page.wait(lambda: page.texts(".conversations .open") == ["Name a colour.", "Say hello."])
    assert page.texts(".user .text") == ["Name a colour."], "the one in the address"
    page.click(".conversations .open", "Say hello.")
    page.wait(lambda: page.texts(".user .text") == ["Say hello."])
    assert page.answer() == answer
    page.one(".waterfall-head")


# --- With answers made for the test ---


def test_stop_reaches_the_server(visit, stub) -> None:
    gone = threading.Event()
    stub.chat = lambda x: until_gone(x, gone)
    page = visit(stub.url)
    page.send("go on")
    page.wait(lambda: "word 3" in page.texts(".assistant .text")[0])
    page.keys(Keys.ESCAPE)
    assert gone.wait(30)
    page.one(".note", "Stopped here")
    assert page.answer().startswith("word 0 word 1 word 2 word 3")
    stub.chat = say("Whole.")
    assert page.ask("again") == "Whole."


def test_regenerate_keeps_the_first_answer(visit, stub) -> None:
    page = visit(stub.url)
    stub.chat = say("One.")
    assert page.ask("hi") == "One."
    stub.chat = say("Two.")
    page.click(".regenerate-button")
    page.one(".variants", "2 of 2")
    assert page.answer() == "Two."
    page.click("[aria-label='Previous variant']")
    page.one(".variants", "1 of 2")
    assert page.answer() == "One."
    assert [m["content"] for m in stub.asked[1]["messages"]] == ["hi"]
    page.reload()
    assert page.answer() == "One.", "the variant that was shown"


def test_edit_goes_on_from_there(visit, stub) -> None:
    page = visit(stub.url)
    stub.chat = say("First.")
    page.ask("one")
    page.ask("two")
    assert [m["content"] for m in stub.asked[1]["messages"]] == ["one", "First.", "two"]
    page.click(".message.user:first-child .edit-button")
    field = page.one(".edit")
    assert field.get_attribute("value") == "one"
    field.clear()
    field.send_keys("uno", Keys.ENTER)
    page.wait(lambda: page.texts(".user .text") == ["uno"])
    page.idle()
    assert [m["content"] for m in stub.asked[2]["messages"]] == ["uno"]
    page.click("[aria-label='Previous variant']")
    page.wait(lambda: page.texts(".user .text") == ["one", "two"])


def test_parameters_are_sent(visit, stub) -> None:
    page = visit(stub.url)
    page.click("#params")
    page.wait(lambda: page.one("#param-temperature").get_attribute("placeholder") == "0.25")
    page.one("#system").send_keys("Be brief.")
    values = {
        "temperature": "0.5",
        "top_p": "0.9",
        "top_k": "20",
        "min_p": "0.05",
        "max_tokens": "64",
        "seed": "7",
    }
    for name, value in values.items():
        page.one(f"#param-{name}").send_keys(value)
    page.one("#param-stop").send_keys("END", Keys.ENTER, "\\n\\n")
    page.click("dialog button", "Use")
    page.gone("dialog")
    page.ask("hi")
    asked = stub.asked[0]
    assert {name: asked[name] for name in values} == {k: float(v) for k, v in values.items()}
    assert asked["stop"] == ["END", "\n\n"]
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    page.reload()
    page.click("#params")
    assert page.one("#param-seed").get_attribute("value") == "7"
    page.click("dialog button", "Clear all")
    page.click("dialog .primary", "Use")
    page.ask("again")
    assert not set(values) & set(stub.asked[1])
    assert stub.asked[1]["messages"][0]["role"] == "user"


def test_every_sampling_parameter_is_offered(visit, stub) -> None:
    rows = (ROOT / "src/params/sampling_params.def").read_text()
    names = re.findall(r"^PARAM\((\w+),", rows, re.MULTILINE)
    page = visit(stub.url)
    page.click("#params")
    for name in names:
        page.one(f"#param-{name}").send_keys("1")
    assert page.one("#hint-top_k").text.startswith("whole, 0 to 1000000; only this many")
    assert page.one("#hint-top_p").text.startswith("above 0, up to 1; only the likeliest")
    page.click("dialog .primary", "Use")
    page.gone("dialog")
    page.ask("hi")
    assert {name: stub.asked[0][name] for name in names} == dict.fromkeys(names, 1)


def test_parameters_out_of_range_are_named(visit, stub) -> None:
    page = visit(stub.url)
    page.click("#params")
    page.one("#param-temperature").send_keys("3")
    page.click("dialog .primary", "Use")
    message = page.one(".invalid")
    page.wait(
        lambda: (
            message.text == 'Temperature: expected 0 to 2; 0 always takes the likeliest, found "3"'
        )
    )
    assert page.focused().get_attribute("id") == "param-temperature"


def test_conversations_are_renamed_exported_deleted(visit, stub, downloads) -> None:
    page = visit(stub.url)
    page.ask("A title of one's own")
    page.click("[aria-label^='Rename']")
    page.one(".conversations input")
    page.keys("Renamed", Keys.ENTER)
    page.one(".conversations .open", "Renamed")
    page.click("[aria-label^='Export']")
    file = downloads / "renamed.json"
    page.wait(file.exists)
    saved = json.loads(file.read_text())
    assert saved["format"] == "firstlight-conversation" and saved["title"] == "Renamed"
    assert [m["text"] for m in saved["messages"]] == ["A title of one's own", "Hello."]
    assert saved["messages"][1]["meta"]["ttft"] == LAST["ttft"]
    page.reload()
    page.click("[aria-label^='Delete']")
    page.click("dialog .danger")
    page.one(".welcome")
    page.wait(lambda: page.texts(".conversations .open") == [])
    page.reload()
    assert page.texts(".conversations .open") == []


def test_the_wait_is_told_in_words(visit, stub) -> None:
    page = visit(stub.url)
    page.ask("hi")
    assert "waited 180 ms behind two prompts of 1,024 tokens" in page.one(".facts").text
    assert "32 of 40 prompt tokens cached" in page.one(".facts").text
    assert "most of it queue" in page.one(".waterfall-head").text


def test_markdown_becomes_what_it_means(visit, stub) -> None:
    stub.chat = say(
        "# Title\n\nSome **bold** and `code`.\n\n",
        "- a\n- b\n  1. c\n\n",
        "| n | sq |\n|---|--:|\n| 2 | 4 |\n\n",
        "```python\nprint(1)\n",
        "print(2)\n```\n",
        "\n> quoted\n\nSee https://example.org/x and [this](https://example.org/y).\n",
        "[none](https://\"e.org), whose host has a quote.\n",
    )
    page = visit(stub.url)
    page.ask("hi")
    text = ".assistant .text "
    for selector, words in (
        ("h3.level-1", "Title"),
        ("strong", "bold"),
        ("p code", "code"),
        ("ul > li:nth-child(2) ol li", "c"),
        ("td.align-right", "4"),
        ("blockquote", "quoted"),
        ("pre code", "print(1)\nprint(2)"),
        (".code figcaption span", "python"),
    ):
        assert page.one(text + selector).text == words
    links = page.js(
        """return [...document.querySelectorAll('.text a')].map((a) => [a.href, a.rel])"""
    )
    assert links == [[f"https://example.org/{x}", "noopener noreferrer nofollow"] for x in "xy"]


def test_code_is_copied(visit, stub) -> None:
    stub.chat = say("```c\nint a[1 << 2];\n```")
    page = visit(stub.url)
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"origin": stub.url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    page.ask("hi")
    page.click(".code .copy")
    page.one(".code .copy", "Copied")
    assert page.js("return navigator.clipboard.readText()") == "int a[1 << 2];"


def test_reading_higher_up_is_left_in_peace(visit, stub) -> None:
    more = threading.Event()

    def answer(x) -> None:
        x.stream()
        x.text("line\n\n" * 200)
        more.wait(60)
        x.text("line\n\n" * 200)
        x.finish()

    stub.chat = answer
    page = visit(stub.url)
    page.send("hi")
    page.wait(lambda: page.js("return log.scrollTop") > 1000)
    page.js("log.scrollTop = 500")
    page.one("#latest")
    more.set()
    page.idle()
    assert page.js("return log.scrollTop") == 500
    page.click("#latest")
    page.wait(lambda: page.js("return log.scrollHeight - log.scrollTop - log.clientHeight") < 2)
    page.gone("#latest")


def test_a_second_conversation_while_the_first_is_answered(visit, stub) -> None:
    more = threading.Event()

    def answer(x) -> None:
        x.stream()
        x.text("Slow")
        if x.body["messages"][0]["content"] == "first":
            more.wait(60)
        x.text("ly.")
        x.finish()

    stub.chat = answer
    page = visit(stub.url)
    page.send("first")
    page.wait(lambda: page.texts(".assistant .text") == ["Slow"])
    page.click("#new-chat")
    page.one(".welcome")  # or the first one's answer counts
    assert page.ask("second") == "Slowly."
    more.set()
    page.click(".conversations .open", "first")
    page.wait(lambda: page.texts(".user .text") == ["first"])
    assert page.answer() == "Slowly."
    page.one(".waterfall-head")


def test_no_room_is_told(visit, stub) -> None:
    page = visit(stub.url)
    page.js("""IDBObjectStore.prototype.put = function () {
                   throw new DOMException('full', 'QuotaExceededError'); };""")
    page.ask("hi")
    page.one("#banner", "no room left")


def test_a_busy_answer_survives_a_reload(visit, stub) -> None:
    more = threading.Event()

    def answer(x) -> None:
        x.stream()
        x.text("Kept.")
        more.wait(60)

    stub.chat = answer
    page = visit(stub.url)
    page.send("hi")
    page.wait(lambda: page.texts(".assistant .text") == ["Kept."])
    page.reload()
    more.set()
    page.wait(lambda: page.texts(".assistant .text") == ["Kept."])
    page.one(".regenerate-button")
    assert page.all(".message")[0].find_element(By.CLASS_NAME, "text").text == "hi"
