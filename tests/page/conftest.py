"""What the tests of the page share: Debian's Chromium without a window, and the page in it.

Every test begins with an empty browser and ends with a look at what the browser complained of: a
violation of the Content-Security-Policy, an exception or an error on the console fails it.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from chromium import PATIENCE, make_driver
from stub import ROOT, Stub

# The server's fixtures are those of the black box tests.
_spec = importlib.util.spec_from_file_location("e2e_conftest", ROOT / "tests/e2e/conftest.py")
_e2e = importlib.util.module_from_spec(_spec)
sys.modules["e2e_conftest"] = _e2e
_spec.loader.exec_module(_e2e)
binary, model, tiny, servers, server, small = (
    _e2e.binary,
    _e2e.model,
    _e2e.tiny,
    _e2e.servers,
    _e2e.server,
    _e2e.small,
)

# Runs before the page's own code: remembers what must not happen.
WITNESS = """
window.complaints = [];
addEventListener('securitypolicyviolation', (e) =>
    complaints.push(`policy: ${e.violatedDirective} ${e.blockedURI} `
        + `${e.sourceFile}:${e.lineNumber}`));
addEventListener('error', (e) => complaints.push(`error: ${e.message} ${e.filename}:${e.lineno}`));
addEventListener('unhandledrejection', (e) =>
    complaints.push(`rejection: ${e.reason?.stack ?? e.reason}`));
"""


class Page:
    """The page in the browser, as a person sees and uses it."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url
        self.refused = False  # whether answers of 4xx and 5xx, and lost connections, are expected

    def open(self, path: str = "/") -> "Page":
        self.driver.get(self.url + path)
        self.wait(lambda: self.js("return document.documentElement.dataset.ready"))
        return self

    def reload(self) -> None:
        self.complaints()
        self.driver.refresh()
        self.wait(lambda: self.js("return document.documentElement.dataset.ready"))

    def js(self, script: str, *arguments: object) -> object:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: Callable[[], object], seconds: float = PATIENCE) -> object:
        """Until it is true, and what it was then. Elements may come and go meanwhile."""
        waiting = WebDriverWait(self.driver, seconds, 0.05, _PASSING)
        return waiting.until(lambda _: condition())

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str, text: str = "") -> WebElement:
        """The element, once it is there and can be seen; of several the one with that text."""

        def shown() -> WebElement | bool:
            return next(
                (
                    e
                    for e in self.all(selector)
                    if e.is_displayed() and text in (e.text or e.get_attribute("aria-label") or "")
                ),
                False,
            )

        return self.wait(shown)

    def click(self, selector: str, text: str = "") -> None:
        def clicked() -> bool:
            self.one(selector, text).click()
            return True

        self.wait(clicked)

    def gone(self, selector: str) -> None:
        self.wait(lambda: not any(e.is_displayed() for e in self.all(selector)))

    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def keys(self, *keys: str) -> None:
        """Typed at whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, *keys: str) -> None:
        chain = webdriver.ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    # --- The chat ---

    def send(self, text: str) -> None:
        self.one("#prompt").send_keys(text, Keys.ENTER)

    def ask(self, text: str) -> str:
        """Sends it and returns the whole answer."""
        before = len(self.all(".message.assistant"))
        self.send(text)
        self.wait(lambda: len(self.all(".message.assistant")) > before)
        return self.answer()

    def answer(self) -> str:
        """The last answer's text, once it is complete."""
        self.idle()
        return self.all(".message.assistant")[-1].find_element(By.CLASS_NAME, "text").text

    def idle(self) -> None:
        self.wait(lambda: self.all("#send[data-does=send]") and not self.all("[aria-busy=true]"))

    def texts(self, selector: str) -> list[str]:
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector
        )

    # --- The end ---

    def complaints(self) -> None:
        """Fails on what the browser complained of since it was last asked."""
        found = self.js("return (window.complaints ?? []).splice(0)")
        for entry in self.driver.get_log("browser"):
            expected = self.refused and "Failed to load resource" in entry["message"]
            if entry["level"] == "SEVERE" and not expected:
                found.append(entry["message"])
        assert found == []


_PASSING = tuple(
    getattr(__import__("selenium.common.exceptions", fromlist=[name]), name)
    for name in (
        "NoSuchElementException",
        "StaleElementReferenceException",
        "ElementClickInterceptedException",
        "ElementNotInteractableException",
    )
)


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory, downloads: Path) -> Iterator[webdriver.Chrome]:
    browser = make_driver(tmp_path_factory.mktemp("chromium"))
    browser.set_script_timeout(PATIENCE)
    browser.set_page_load_timeout(PATIENCE)
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WITNESS})
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    yield browser
    browser.quit()


@pytest.fixture(autouse=True)
def look(driver: webdriver.Chrome) -> Iterator[Callable[..., None]]:
    """look(width=360, height=740, scheme="dark", motion="reduce"): how the browser presents
    itself."""

    def set_look(
        width: int = 1280, height: int = 800, scheme: str = "light", motion: str = "no-preference"
    ) -> None:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    set_look()
    yield set_look
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def visit(driver: webdriver.Chrome) -> Iterator[Callable[..., Page]]:
    """visit(url, path="/", refused=False): the page of that server in an empty browser."""
    visited: list[Page] = []

    def go(url: str, path: str = "/", refused: bool = False) -> Page:
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "all"})
        driver.get_log("browser")
        visited.append(Page(driver, url))
        visited[-1].refused = refused
        return visited[-1].open(path)

    yield go
    for page in visited[-1:]:
        page.complaints()
    driver.execute_script("sessionStorage.clear()")
    driver.get("about:blank")


@pytest.fixture
def page(visit: Callable[..., Page], server) -> Page:
    """The page of a real server with the default model."""
    return visit(server.url)


@pytest.fixture(scope="session")
def stubs(small) -> Iterator[Callable[..., Stub]]:
    started: list[Stub] = []

    def start() -> Stub:
        started.append(Stub(small.url))
        return started[-1]

    yield start
    for stub in started:
        stub.close()


@pytest.fixture
def stub(stubs) -> Stub:
    """A server that serves the real one's page, and answers what the test says."""
    return stubs()
