"""Everything without a mouse: keys, the order of tabs, where the focus goes."""

from selenium.webdriver.common.keys import Keys
from stub import say


def focus(page) -> str:
    return page.js("""const e = document.activeElement;
                      return e === document.body ? ''
                          : e.getAttribute('aria-label') || e.innerText.trim() || e.id""")


def test_a_whole_talk(visit, stub) -> None:
    stub.chat = say("One.")
    page = visit(stub.url)
    assert page.js("return document.activeElement.id") == "prompt", "one can type at once"
    page.keys("first")
    page.chord(Keys.SHIFT, Keys.ENTER)
    page.keys("second line", Keys.ENTER)
    page.wait(lambda: page.texts(".assistant .text") == ["One."])
    page.idle()
    assert stub.asked[0]["messages"][0]["content"] == "first\nsecond line"
    assert page.js("return document.activeElement.id") == "prompt"

    page.keys(Keys.ARROW_UP)  # edit the last message
    field = page.one(".edit")
    assert page.focused() == field
    page.keys(Keys.ESCAPE)
    page.gone(".edit")
    assert focus(page) == "Edit", "back where it began"
    page.keys("e")
    page.one(".edit")
    page.keys("!", Keys.ENTER)
    page.wait(lambda: len(stub.asked) == 2)
    page.idle()
    assert stub.asked[1]["messages"][0]["content"].endswith("!")

    page.click(".log")
    page.keys("r")
    page.wait(lambda: len(stub.asked) == 3)
    page.idle()
    page.keys("/")
    assert page.js("return document.activeElement.id") == "prompt"


def test_the_focus_is_not_lost(visit, stub) -> None:
    page = visit(stub.url)
    page.one(".examples button").send_keys(Keys.ENTER)
    page.wait(lambda: page.js("return document.activeElement.id") == "prompt")
    page.idle()
    page.one(".regenerate-button").send_keys(Keys.ENTER)
    page.wait(lambda: len(stub.asked) == 2)
    page.idle()
    assert page.js("return document.activeElement.id") == "prompt"
    page.one("[aria-label='Previous variant']").send_keys(Keys.ENTER)
    page.wait(lambda: focus(page) == "Next variant")
    page.click("[aria-label^=Delete]")
    page.wait(lambda: focus(page) == "Cancel")
    page.keys(Keys.TAB, Keys.ENTER)
    page.wait(lambda: page.js("return document.activeElement.id") == "new-chat")


def test_views_and_dialogs(visit, stub) -> None:
    page = visit(stub.url)
    page.keys(Keys.TAB)  # out of the field
    page.keys("d")
    page.one("#dashboard h1")
    page.keys("c")
    page.one("#prompt")
    page.keys("?")
    help_ = page.one("dialog")
    assert "regenerate the last answer" in help_.text and "Shift + Enter" in help_.text
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.keys("p")
    assert page.one("dialog #system") == page.focused()
    page.keys("d", Keys.ESCAPE)  # typed into a field: no shortcut
    page.gone("dialog")
    assert page.js("return location.hash") == "#/chat"


def test_typing_works_after_a_dialog(visit, stub) -> None:
    """Chromium gives the focus back to a text field without its caret."""
    page = visit(stub.url)
    page.keys("a")
    page.js("document.querySelector('#help').click()")
    page.one("dialog")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.keys("b")
    page.wait(lambda: page.one("#prompt").get_attribute("value") == "ab")


def test_the_order_of_tabs(visit, stub) -> None:
    page = visit(stub.url)
    page.ask("hi")
    page.wait(lambda: page.keys(Keys.TAB) or focus(page) == "")  # beyond the end
    seen = []
    for _ in range(20):
        page.keys(Keys.TAB)
        seen.append(focus(page).split("\n")[0])
    expected = [
        "Skip to content",
        "firstlight",
        "Chat",
        "Dashboard",
        "Colours: system",
        "Keyboard shortcuts",
        "New chat",
        "hi",
        "Rename hi",
        "Export hi as JSON",
        "Delete hi",
        "Messages",
        "Copy",
        "Edit",
    ]
    assert seen[: len(expected)] == expected
    rest = seen[len(expected) :]
    assert rest[0].startswith("First token after") and rest[1:5] == [
        "Copy",
        "Regenerate",
        "Message",
        "Parameters",
    ]


def test_focus_is_seen(visit, stub) -> None:
    page = visit(stub.url)
    page.ask("hi")
    page.wait(lambda: page.keys(Keys.TAB) or focus(page) == "")
    for _ in range(16):
        page.keys(Keys.TAB)
        outline = page.js("""const s = getComputedStyle(document.activeElement);
                             const box = getComputedStyle(
                                 document.activeElement.closest('.box') ?? document.body);
                             return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0
                                 || box.outlineStyle !== 'none'""")
        assert outline, focus(page)


def test_conversations_by_keys(visit, stub) -> None:
    page = visit(stub.url)
    page.ask("one")
    page.keys(Keys.TAB)
    page.keys("n")
    page.one(".welcome")
    page.keys("two", Keys.ENTER)
    page.wait(lambda: page.texts(".user .text") == ["two"])
    page.idle()
    page.keys(Keys.TAB)
    page.keys("]")
    page.wait(lambda: page.texts(".user .text") == ["one"])
    page.keys("[")
    page.wait(lambda: page.texts(".user .text") == ["two"])


def test_single_keys_can_be_switched_off(visit, stub) -> None:
    page = visit(stub.url)
    page.click("#help")
    page.click("dialog label.check input")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")
    page.keys("d")
    page.keys(Keys.TAB)
    assert page.js("return location.hash") == "#/chat" or page.js("return location.hash") == ""


def test_the_list_on_a_phone(visit, stub, look) -> None:
    look(width=360, height=740)
    page = visit(stub.url)
    page.ask("hi")
    assert not page.one("#menu").get_attribute("aria-expanded") == "true"
    page.one("#menu").send_keys(Keys.ENTER)
    page.one("#new-chat")
    page.wait(lambda: page.js("return document.activeElement.id") == "new-chat")
    page.keys(Keys.ESCAPE)
    page.wait(lambda: page.js("return document.activeElement.id") == "menu")
    assert page.js("return document.querySelector('#side').inert")
