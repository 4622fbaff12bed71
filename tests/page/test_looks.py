"""Narrow and wide, light and dark, and what a screen reader finds."""

import re
from pathlib import Path

import pytest
from stub import ROOT, say
from test_dashboard import Feed

LONG = (
    "# A heading\n\nText with `code`, **bold** and a [link](https://example.org/).\n\n"
    "> A quote.\n\n| a | b | c | d | e | f | g | h |\n|--|--|--|--|--|--|--|--|\n"
    "| one | two | three | four | five | six | seven | eight |\n\n"
    "```c\nint a_line_that_is_much_longer_than_a_phone_is_wide = 1234567890 + 1234567890;\n```\n"
    "- [x] done\n- " + "w" * 300
)

HERE = Path(__file__).parent
CONTRAST = (HERE / "contrast.js").read_text()
NAMES = (HERE / "names.js").read_text()


def no_sideways(page, width: int) -> None:
    wide = page.js("""return [...document.querySelectorAll('body *')].filter((e) =>
        e.checkVisibility()
        && !e.closest('.code, .table, .side, .offscreen, .skip, .item-tools, svg')
        && e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => `${e.tagName}.${e.className}`)""")
    assert page.js("return document.documentElement.scrollWidth") <= width
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_chat(visit, stub, look, width, scheme) -> None:
    look(width=width, height=800, scheme=scheme)
    stub.chat = say(LONG)
    page = visit(stub.url)
    assert page.js(CONTRAST) == []
    page.ask("hi " + "m" * 200)
    page.click(".waterfall summary")
    no_sideways(page, width)
    assert page.js(CONTRAST) == []
    assert page.js(NAMES) == []
    page.click("#params")
    page.one("#system")
    assert page.js(CONTRAST) == []
    assert page.js(NAMES) == []
    no_sideways(page, width)
    background = page.js("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 380) == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_dashboard(visit, stub, look, width, scheme) -> None:
    look(width=width, height=800, scheme=scheme)
    feed = Feed(stub)
    page = visit(stub.url, "/#/dashboard")
    feed.start(page)
    page.one(".tile.bad")
    page.wait(lambda: page.all("tr[data-id]"))
    page.wait(
        lambda: all(
            c.get_attribute("aria-label").endswith("0") or "now:" in c.get_attribute("aria-label")
            for c in page.all("canvas")
        )
    )
    no_sideways(page, width)
    assert page.js(CONTRAST) == []
    assert page.js(NAMES) == []


def test_the_switch_of_colours(visit, stub) -> None:
    page = visit(stub.url)
    background = "return getComputedStyle(document.body).backgroundColor"
    light = page.js(background)
    page.click("#theme")  # system -> light
    assert page.js(background) == light
    page.click("#theme")  # -> dark
    dark = page.js(background)
    assert dark != light
    page.reload()
    assert page.js(background) == dark


def test_less_motion(visit, stub, look) -> None:
    look(motion="reduce")
    page = visit(stub.url)
    page.js(
        "const dot = document.createElement('span'); dot.className = 'pulse';"
        "document.querySelector('.log').append(dot)"
    )
    assert (
        page.js("return getComputedStyle(document.querySelector('.pulse')).animationName") == "none"
    )


def test_live_regions_do_not_chatter(visit, stub) -> None:
    """A screen reader is told that an answer came, not each of its tokens."""
    stub.chat = say(*(f"word{i} " for i in range(300)))
    page = visit(stub.url)
    page.js("""const status = document.querySelector('#status'); window.said = [];
               new MutationObserver(() => said.push(status.textContent))
                   .observe(status, {childList: true, subtree: true});""")
    page.ask("hi")
    said = [words for words in page.js("return said") if words]
    assert said == ["The answer is complete."]
    live = page.js("""return [...document.querySelectorAll(
                          '[aria-live], [role=status], [role=alert], [role=log]')]
                      .map((e) => e.id || e.className)""")
    assert set(live) <= {"status", "banner", "invalid"}


def test_both_darks_are_alike() -> None:
    """The colours of the system's dark and of the chosen one are written twice."""
    for name in ("style.css", "dashboard.css"):
        css = (ROOT / "src/web/page" / name).read_text()
        system = re.search(r":root:not\(\[data-theme='light'\]\) \{(.*?)\}", css, re.S)[1]
        chosen = re.search(r":root\[data-theme='dark'\] \{(.*?)\}", css, re.S)[1]
        assert system.split() == chosen.split()


def test_nothing_is_parsed_as_markup() -> None:
    """The page's own code has no way to turn a string into markup or script."""
    for file in (ROOT / "src/web/page").glob("*.js"):
        text = file.read_text()
        found = re.findall(
            r"innerHTML\s*=|outerHTML|insertAdjacentHTML|document\.write|DOMParser|"
            r"createContextualFragment|\beval\(|new Function|srcdoc|setHTML",
            text,
        )
        assert found == [], file.name
