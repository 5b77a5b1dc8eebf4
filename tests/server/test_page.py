"""The page of `serve` in a browser: what users see and do, by mouse and by keyboard."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from gpuparse.commands import train
from tests.browser import CHROMIUM
from tests.server.conftest import Process

pytest.importorskip("selenium", reason="selenium is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("chromium or chromedriver is not installed", allow_module_level=True)

from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver import ActionChains, Chrome, ChromeOptions  # noqa: E402 (may be missing)
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--window-size=1400,1000",
)  # fmt: skip
CATS = "She wants to see cats with telescopes."
TWO = f"{CATS} They don't know it."
LONG = ("The old people see that " * 12) + "the cats sleep."
# Contrast of each text with the nearest background below it, of those that are too weak.
WEAK = """
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgb(colour, under) {
  canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
}
function light(data) {
  const [r, g, b] = [...data].map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const weak = [];
const paper = getComputedStyle(document.body).backgroundColor;
for (const each of document.querySelectorAll('body *')) {
  const own = [...each.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || !each.getClientRects().length || each.closest('[hidden], title')) continue;
  if (each.matches(':disabled')) continue;
  let ground = paper;
  for (let up = each; up; up = up.parentElement) {
    const found = getComputedStyle(up).backgroundColor;
    if (!found.startsWith('rgba(0, 0, 0, 0')) { ground = found; break; }
  }
  const style = getComputedStyle(each);
  const ink = each.namespaceURI.endsWith('svg') ? style.fill : style.color;
  const [a, b] = [light(rgb(ink, ground)), light(rgb(ground, paper))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) weak.push([each.outerHTML.slice(0, 90), contrast]);
}
return weak;
"""


class Page:
    """The page in a browser, and what it shows."""

    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, fragment: str = "", *, width: int = 1400, dark: bool = False) -> None:
        """Load the page anew."""
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        self.driver.get(self.address + (f"#{fragment}" if fragment else ""))
        self.wait(lambda: self.one("#parse").is_enabled())

    def open_parsed(self, text: str, **more: Any) -> None:
        """Load the page by a link to a text, with fields of the link and arguments of `open`."""
        arguments = {key: more.pop(key) for key in ("width", "dark") if key in more}
        self.open(urlencode({"text": text, "model": "english", **more}), **arguments)
        self.wait(lambda: self.all("svg.tree"))

    def wait(self, condition: Any) -> None:
        redrawn = [StaleElementReferenceException]
        waiting = WebDriverWait(self.driver, 30, poll_frequency=0.05, ignored_exceptions=redrawn)
        waiting.until(lambda _: condition())

    def wait_for_status(self, text: str) -> None:
        self.wait(lambda: text in self.one("#status").text)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def keys(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def button(self, text: str) -> WebElement:
        return next(each for each in self.all("button") if each.text == text)

    def word(self, word: int, *, sentence: int = 1, tree: int = 1) -> WebElement:
        drawings = self.all(".sentence")[sentence - 1].find_elements(By.CSS_SELECTOR, "svg.tree")
        return drawings[tree - 1].find_elements(By.CSS_SELECTOR, ".word")[word - 1]

    def focus(self, word: int) -> None:
        self.run("arguments[0].closest('svg').focusWord(arguments[1])", self.word(word), word)

    def notes(self, tree: int = 1) -> list[str]:
        """The notes of the arcs of a tree of the first sentence, by word."""
        script = "return [...arguments[0].querySelectorAll('.arc title')].map(t => t.textContent)"
        return self.run(script, self.all("svg.tree")[tree - 1])

    def is_wider_than_window(self) -> bool:
        return self.run("return document.documentElement.scrollWidth > innerWidth")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "english"
    keys = ["quickstart", "tokenizer.learn=true", "tagger.learn=true", "lemmatizer.learn=true"]
    keys += ["tagger.folds=1"]
    assert train.main([*keys, f"output={folder}"]) == 0
    return folder


@contextmanager
def served(model: Path, *options: str) -> Iterator[str]:
    """The address of a service of its own."""
    process = Process(f"english={model}", model.parent, *options)
    try:
        yield f"{process.url}/"
    finally:
        process.stop()


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    with served(model) as found:
        yield found


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in FLAGS:
        options.add_argument(flag)
    downloads = tmp_path_factory.mktemp("downloads")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = Chrome(options, Service(DRIVER))
    found.downloads = downloads
    yield found
    found.quit()


@pytest.fixture
def page(driver: Chrome, address: str) -> Iterator[Page]:
    """A page; after the test, its console was silent and it asked no other host.

    A test that expects answers with an error sets `expects_errors`.
    """
    driver.get("about:blank")
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    found = Page(driver, address)
    found.expects_errors = False
    yield found
    messages = [entry["message"] for entry in driver.get_log("browser")]
    if found.expects_errors:
        messages = [m for m in messages if "the server responded with a status of 4" not in m]
    assert messages == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert not [url for url in asked if not url.startswith((address, "data:", "blob:"))]


def test_text_is_parsed_and_drawn(page: Page) -> None:
    page.open()
    page.one("#text").clear()
    page.one("#text").send_keys(TWO)
    page.one("#parse").click()
    page.wait_for_status("2 sentences, 14 words")
    texts = [each.text for each in page.all(".sentence:first-child .word")]
    assert texts[1] == "wants\nVERB\nwant"
    assert len(page.all(".sentence:first-child .arc")) == 8
    assert len(page.all(".sentence:first-child .arc.root")) == 1
    assert page.one(".sentence:last-child .span + text").text == "don't"
    label = page.word(1).get_attribute("aria-label")
    assert label == "She, PRON, head see (4), relation nsubj"


def test_lines_that_were_joined_are_told_and_can_be_kept_apart(page: Page) -> None:
    page.open()
    page.one("#text").clear()
    page.one("#text").send_keys("- the owl\n- the cats\n- two men")
    page.one("#parse").click()
    page.wait_for_status(
        "3 lines that look like sentences or items of their own became 1 sentence: choose"
    )
    page.one("#input option[value=lines]").click()
    page.one("#text").send_keys(Keys.CONTROL, Keys.ENTER)
    page.wait_for_status("3 sentences")
    assert "lines" not in page.one("#status").text
    assert "input=lines" in page.driver.current_url


def test_rows_are_switched(page: Page) -> None:
    page.open_parsed(CATS)
    page.one("#rows input[value=xpos]").click()
    page.one("#rows input[value=lemma]").click()
    assert page.word(2).text == "wants\nVERB\nVBZ"
    assert "rows=upos.xpos" in page.driver.current_url


def test_probabilities_have_shades_notes_and_a_legend(page: Page) -> None:
    page.open_parsed(CATS)
    lines = "return [...document.querySelectorAll('.tree .line')].map(" \
        "l => Number(getComputedStyle(l).strokeOpacity))"  # fmt: skip
    assert set(page.run(lines)) == {0.55}
    assert page.one("#legend").text == ""
    page.one("#probabilities").click()
    page.wait(lambda: "Probability of a head" in page.one("#legend").text)
    probabilities = [float(note.split("of the head ")[1].split(",")[0]) for note in page.notes()]
    assert page.run(lines) == pytest.approx([0.5 + 0.5 * p for p in probabilities], abs=0.006)
    assert min(probabilities) < 0.95


def test_best_trees_stand_beside_one_another_and_differences_are_marked(page: Page) -> None:
    page.open_parsed(CATS)
    page.one("#kbest").send_keys("3")
    page.wait(lambda: len(page.all("svg.tree")) == 3)
    first, second, _ = page.all(".of-tree")
    assert first.location["y"] + first.size["height"] > second.location["y"]
    assert first.location["x"] < second.location["x"]
    best, other = page.notes(1), page.notes(2)
    marked = [k for k, note in enumerate(other) if "than in tree 1" in note]
    heads = [[note.split(", probability")[0] for note in notes] for notes in (best, other)]
    heads[1] = [note.split(", another")[0] for note in heads[1]]
    assert marked == [k for k in range(8) if heads[0][k] != heads[1][k]]
    assert marked
    group = page.all("svg.tree")[1].find_elements(By.CSS_SELECTOR, ".arc")[marked[0]]
    line = group.find_element(By.CSS_SELECTOR, ".line")
    assert line.value_of_css_property("stroke-dasharray") != "none"
    assert "1 arc not as in tree 1" in second.text


def test_a_click_explains_the_head(page: Page) -> None:
    page.open_parsed(TWO)
    page.word(5).click()
    page.wait(lambda: page.all(".panel"))
    assert "Why cats (5) has its head" in page.one(".panel h3").text
    assert "The head of cats (5) is" in page.one(".panel pre").text
    rows = [row.text for row in page.all(".panel tbody tr")]
    assert len(rows) == 2
    difference = float(rows[1].split()[-1])  # in nats, as in the text below
    assert f"{difference:+.2f} nats in all" in page.one(".panel pre").text
    assert page.all(".sentence")[0].find_elements(By.CSS_SELECTOR, ".panel")
    page.one(".panel select").send_keys("the root")
    page.button("Compare").click()
    page.wait(lambda: "the best tree that was found with that head" in page.one("pre").text)
    assert "Compared with the root (0) as its head." in page.one("pre").text
    page.button("Close").click()
    assert not page.all(".panel")
    assert page.run("return document.activeElement.dataset.word") == "5"


def test_a_word_of_a_further_tree_is_compared_with_its_head_there(page: Page) -> None:
    page.open_parsed(CATS, k=2)
    k = next(k for k, note in enumerate(page.notes(2)) if "another head" in note)
    page.word(k + 1, tree=2).click()
    page.wait(lambda: page.all(".panel"))
    head = page.notes(2)[k].split(": head ")[1].split(",")[0]
    assert f"Compared with {head} as its head." in page.one("pre").text


def test_words_are_reached_and_explained_by_keyboard(page: Page) -> None:
    page.open_parsed(CATS)
    page.run("document.querySelector('summary').focus()")
    steps = 0
    while page.run("return document.activeElement.dataset.word") != "1":
        page.keys(Keys.TAB)
        steps += 1
        assert steps < 10
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.END, Keys.HOME)
    page.keys(Keys.ARROW_RIGHT)
    assert page.run("return document.activeElement.dataset.word") == "2"
    ring = "return getComputedStyle(document.activeElement.querySelector('.hit')).strokeWidth"
    assert page.run(ring) == "2.5px"
    page.keys(Keys.ENTER)
    page.wait(lambda: page.all(".panel"))
    assert "Why wants (2) has its head" in page.one(".panel h3").text
    page.keys(Keys.TAB, Keys.ESCAPE)
    assert not page.all(".panel")
    assert page.run("return document.activeElement.dataset.word") == "2"


def drag(page: Page, word: int, target: WebElement | None) -> None:
    actions = ActionChains(page.driver).click_and_hold(page.word(word))
    if target is None:  # the root is at the top of the drawing
        svg = page.one("svg.tree")
        actions.move_to_element_with_offset(svg, 20, 5 - svg.size["height"] // 2)
    else:
        actions.move_to_element(target)
    actions.release().perform()


def test_a_head_is_fixed_by_dragging(page: Page) -> None:
    page.open_parsed(TWO)
    drag(page, 7, page.word(5))
    page.wait_for_status("The head of telescopes is fixed: cats (5).")
    assert page.notes()[6].startswith("telescopes: head cats (5)")
    assert "fixed" in page.notes()[6]
    assert len(page.all(".arc.fixed .pin")) == 1
    assert page.one(".pins").text == "telescopes (7): head cats (5) Remove"
    assert not page.all(".panel")
    assert "heads=1.7.5" in page.driver.current_url
    drag(page, 5, None)
    page.wait_for_status("The head of cats is fixed: the root (0).")
    assert page.notes()[4].startswith("cats: head the root (0)")
    assert len(page.all(".pins li")) == 2
    page.button("Remove").click()
    page.wait_for_status("found by the parser again")
    assert len(page.all(".pins li")) == 1


def test_a_head_is_fixed_by_keyboard(page: Page) -> None:
    page.open_parsed(CATS)
    page.focus(7)
    page.keys("h", Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    page.wait_for_status("Head of telescopes: to (3). Enter fixes it, Escape cancels.")
    assert page.one(".candidate").text.startswith("to")
    page.keys(Keys.ESCAPE)
    assert not page.all(".candidate")
    page.keys("h", Keys.HOME, Keys.ENTER)
    page.wait_for_status("The head of telescopes is fixed: She (1).")
    assert page.notes()[6].startswith("telescopes: head She (1)")
    assert page.run("return document.activeElement.dataset.word") == "7"
    page.keys(Keys.DELETE)
    page.wait_for_status("The head of telescopes is found by the parser again.")
    page.keys("r")
    page.wait_for_status("The head of telescopes is fixed: the root (0).")
    page.keys("h", Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ENTER)
    page.wait_for_status("The head of telescopes is fixed: . (8).")


def test_a_head_is_fixed_in_the_panel(page: Page) -> None:
    page.open_parsed(CATS)
    page.word(7).click()
    page.wait(lambda: page.all(".panel"))
    page.one(".panel select").send_keys("She")
    page.button("Fix this head").click()
    page.wait_for_status("The head of telescopes is fixed: She (1).")


def test_a_head_that_makes_a_cycle_is_taken_back(page: Page) -> None:
    page.expects_errors = True
    page.open_parsed(CATS, heads="1.5.4")
    before = page.notes()
    drag(page, 4, page.word(5))
    page.wait(lambda: page.one("#error").is_displayed())
    assert "cycle" in page.one("#error-text").text
    assert page.notes() == before
    assert [each.text for each in page.all(".pins li")] == ["cats (5): head see (4) Remove"]
    assert "1.4.5" not in page.driver.current_url


def test_fixed_heads_of_another_text_are_dropped(page: Page) -> None:
    page.open_parsed(CATS, heads="1.7.5")
    page.one("#text").send_keys(" They sleep.")
    page.one("#parse").click()
    page.wait_for_status("Fixed heads of the old text are gone.")
    assert not page.all(".pins")


def test_a_link_brings_the_state_back(page: Page) -> None:
    page.open_parsed(TWO, k=2, p=1, rows="xpos", heads="1.7.5_2.5.0")
    link, notes = page.driver.current_url, page.notes(2)
    page.open(link.partition("#")[2])
    page.wait(lambda: page.all("svg.tree"))
    assert page.notes(2) == notes
    assert page.one("#text").get_property("value") == TWO
    assert page.one("#kbest").get_property("value") == "2"
    assert page.one("#probabilities").is_selected()
    assert page.word(2).text == "wants\nVBZ"
    assert len(page.all(".pins li")) == 2
    assert page.driver.current_url == link
    page.run("location.hash = 'model=english&text=Cats sleep.'")  # as pasted over the old one
    page.wait_for_status("1 sentence, 3 words")
    assert not page.all(".pins")


MALFORMED = [
    "%", "text", "text=a&model=none", "text=a&model=english&k=9", "text=a&model=english&k=1e0",
    "text=a&model=english&p=x", "text=a&model=english&rows=form", "text=a&model=english&x=1",
    "text=a&model=english&heads=1.1", "text=a&model=english&heads=1.1.1",
    "text=a&model=english&heads=1.1.2_1.1.0", "text=a&text=b&model=english",
    "text=a&model=english&input=html", "text=%FF&model=%FF", "model=english",
    "__proto__=1&text=a&model=english", f"model=english&text={'a' * 9000}",
]  # fmt: skip


def test_a_malformed_link_is_ignored_with_a_message(page: Page) -> None:
    for fragment in MALFORMED:
        page.open(fragment)
        assert page.one("#error-text").text.startswith("The link was not used: "), fragment
        assert not page.all("svg.tree")
    page.one("#parse").click()  # the page works without it
    page.wait(lambda: page.all("svg.tree"))
    assert not page.one("#error").is_displayed()


def test_a_link_to_words_that_are_not_there_is_an_error_of_the_service(page: Page) -> None:
    page.expects_errors = True
    page.open(urlencode({"text": CATS, "model": "english", "heads": "1.2.77"}))
    page.wait(lambda: page.one("#error").is_displayed())
    assert "77" in page.one("#error-text").text


def test_a_text_that_is_too_long_for_a_link_has_none(page: Page) -> None:
    page.open()
    page.run("document.getElementById('text').value = arguments[0]", LONG * 40)
    page.one("#parse").click()
    page.wait(lambda: page.all("svg.tree"))
    assert "#" not in page.driver.current_url
    page.button("Copy link").click()
    page.wait(lambda: page.one("#error").is_displayed())
    assert "too long for a link" in page.one("#error-text").text


EVIL = '<img/src=x onerror=alert(1)> <script>alert(1)</script> "><svg/onload=alert(1)> \u202eabc'


@pytest.mark.parametrize("kind", ["text", "words"])
def test_markup_in_texts_is_inert(page: Page, kind: str) -> None:
    page.open_parsed(EVIL, input=kind, k=2, p=1, heads="1.2.1")
    assert "<script>" in page.one("#sentences").get_property("textContent")
    page.word(1).click()
    page.wait(lambda: page.all(".panel"))
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    assert page.run("return document.querySelectorAll('[onerror], [onload]').length") == 0
    words = "return [...document.querySelectorAll('.tree text')].map(t => t.textContent).join('')"
    assert "\u202e" not in page.run(words)


def test_markup_in_columns_is_inert(page: Page) -> None:
    evil = "<img/src=x>"
    row = f"1\t{evil}\t{evil}\tX\t{evil}\t_\t_\t_\t_\t_\n\n"
    page.open_parsed(row, input="conllu", rows="upos.xpos.lemma")
    assert page.word(1).text.split("\n")[0] == evil
    page.word(1).click()
    page.wait(lambda: page.all(".panel") or page.one("#error").is_displayed())
    assert not page.all("main img")
    page.expects_errors = True  # one word has no other head


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_as_wide_as_the_window_and_can_be_read(
    page: Page, width: int, dark: bool
) -> None:
    text, more = f"{CATS}\n{LONG}", {"width": width, "dark": dark}
    page.open_parsed(text, input="words", k=3, p=1, heads="1.5.2", **more)
    page.word(2).click()
    page.wait(lambda: page.all(".panel"))
    assert not page.is_wider_than_window()
    pre = page.one(".panel pre")
    assert page.run("return arguments[0].scrollWidth <= arguments[0].clientWidth", pre)
    box = page.all(".sentence")[1].find_element(By.CSS_SELECTOR, ".wide")
    assert page.run("return arguments[0].scrollWidth > arguments[0].clientWidth", box)
    assert page.run(WEAK) == []
    paper = page.run("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(23, 24, 26)" if dark else "rgb(255, 255, 255)")


def test_words_from_right_to_left_are_drawn_so(page: Page) -> None:
    page.open_parsed("الولد يقرأ الكتاب\n\nShe sees cats.")
    assert page.word(1).location["x"] > page.word(2).location["x"]
    assert page.word(1, sentence=2).location["x"] < page.word(2, sentence=2).location["x"]
    page.focus(1)
    page.keys(Keys.ARROW_LEFT)
    assert page.run("return document.activeElement.dataset.word") == "2"
    assert page.one(".source").get_attribute("dir") == "rtl"


def test_controls_have_names(page: Page) -> None:
    page.open_parsed(CATS, k=2, heads="1.5.2")
    page.word(7).click()
    page.wait(lambda: page.all(".panel"))
    for each in page.all("main button, main select, main textarea, main input, main [role]"):
        if each.is_displayed():
            assert each.accessible_name or each.aria_role in ("status", "alert"), each.text


def copied(page: Page, button: str) -> str:
    """The text that a button copies."""
    page.run("""window.copied = null;
        navigator.clipboard.writeText = async text => { window.copied = text; };""")
    page.button(button).click()
    page.wait(lambda: page.run("return window.copied !== null"))
    return page.run("return window.copied")


def test_results_are_copied_and_saved(page: Page) -> None:
    page.open_parsed(CATS, heads="1.7.5")
    assert "\n7\ttelescopes\ttelescope\tNOUN\tNNS\t" in copied(page, "Copy CoNLL-U")
    assert copied(page, "Copy link") == page.driver.current_url
    svg = copied(page, "Copy SVG")
    assert svg.startswith("<svg")
    assert "telescopes" in svg
    assert "tikzpicture" in copied(page, "Copy LaTeX")
    page.button("Save SVG").click()
    file: Path = page.driver.downloads / "sentence-1.svg"
    page.wait(file.exists)
    assert file.read_text(encoding="utf-8") == svg


def test_many_sentences_are_drawn_in_steps(page: Page) -> None:
    page.open_parsed("She sees cats.\n\n" * 30)
    assert len(page.all(".sentence")) == 20
    page.one("#more").click()
    assert len(page.all(".sentence")) == 30
    assert not page.one("#more").is_displayed()


def test_a_sentence_that_is_too_long_is_not_drawn(page: Page) -> None:
    page.open()
    page.one("#input").send_keys("words")
    page.run("document.getElementById('text').value = arguments[0]", f"{LONG} " * 7 + "\na cat")
    page.one("#parse").click()
    page.wait_for_status("2 sentences")
    assert "at most 400 are drawn" in page.all(".sentence")[0].text
    assert len(page.all("svg.tree")) == 1


def test_the_latest_request_wins(page: Page) -> None:
    page.open()
    page.run("""
        const real = window.fetch; let calls = 0;
        window.fetch = (path, options) => path !== 'api/parse' || calls++ ? real(path, options)
          : new Promise((_, fail) => options.signal.addEventListener('abort', () => {
              window.aborted = true;
              fail(new DOMException('aborted', 'AbortError'));
            }));""")
    page.one("#parse").click()
    page.wait_for_status("Parsing")
    assert page.one("#result").get_attribute("aria-busy") == "true"
    page.run("document.getElementById('text').value = 'She sees cats.'")
    page.one("#parse").click()
    page.wait_for_status("1 sentence, 4 words")
    assert page.run("return window.aborted")
    assert not page.one("#error").is_displayed()
    assert page.one("#result").get_attribute("aria-busy") is None


def test_what_the_service_says_is_shown(page: Page) -> None:
    page.open()
    for body, shown in [
        ('{"error": {"status": 413, "message": "Too many words: <b>x</b>.", "where": "text"}}',
         "Too many words: <b>x</b>. (in: text)"),
        ("<html>Bad gateway", "The service answered with the status 413."),
        (None, "The service does not answer. Is it still running?"),
    ]:  # fmt: skip
        page.run("""window.fetch = async () => {
            if (arguments[0] === null) throw new TypeError('gone');
            return new Response(arguments[0], {status: 413});
        }""".replace("arguments[0]", json.dumps(body)))  # fmt: skip
        page.one("#parse").click()
        page.wait(lambda shown=shown: page.one("#error-text").text == shown)
    page.one("#text").clear()
    page.one("#parse").click()
    assert page.one("#error-text").text == "There is no text to parse. Write some above."


def test_fragments_may_be_escaped_in_any_way(page: Page) -> None:
    page.open(f"model=english&text={quote('Straße & «1+1» 🦊 sleeps.')}")
    page.wait(lambda: page.all("svg.tree"))
    assert page.one("#text").get_property("value") == "Straße & «1+1» 🦊 sleeps."


def test_another_model_parses_the_text_that_is_shown(model, driver):
    with served(model, f"second={model}") as address:
        page = Page(driver, address)
        page.open_parsed(CATS)
        page.one("#model").send_keys("second")
        page.wait(lambda: "model=second" in driver.current_url)
        page.wait(lambda: page.all("svg.tree"))
        assert page.one("#about-model").text.startswith("Model second")
        page.one("#text").send_keys(" They sleep.")  # which nobody has asked to be parsed
        page.one("#model").send_keys("english")
        assert page.one("#about-model").text.startswith("Model english")
        assert "model=second" in driver.current_url


def test_the_page_asks_for_the_token(driver, model, tmp_path):
    (tmp_path / "token").write_text("0123456789abcdef\n")
    with served(model, f"--token-file={tmp_path / 'token'}") as address:
        page = Page(driver, address)
        driver.get(address)
        page.wait(lambda: page.one("#ask").is_displayed())
        assert "needs a token" in page.one("#ask-why").text
        assert page.run("return document.activeElement.id") == "token"
        assert page.one("#token").get_attribute("type") == "password"
        page.keys("wrong-wrong-wrong", Keys.ENTER)
        page.wait(lambda: "does not take this token" in page.one("#ask-why").text)
        assert not page.one("#parse").is_enabled()
        page.keys("0123456789abcdef", Keys.ENTER)
        page.wait(lambda: page.one("#parse").is_enabled())
        assert not page.one("#ask").is_displayed()
        page.open_parsed(CATS)  # this tab has it still
        page.word(1).click()
        page.wait(lambda: page.all(".panel"))
        assert "0123456789abcdef" not in driver.current_url + driver.page_source

        page.run("sessionStorage.setItem('gpuparse-token', 'another')")  # as after a new token
        page.one("#parse").click()
        page.wait(lambda: page.one("#ask").is_displayed())
        page.keys("0123456789abcdef", Keys.ENTER)
        page.wait(lambda: not page.one("#ask").is_displayed())
        page.one("#parse").click()
        page.wait_for_status("1 sentence")
        assert len(page.all("#model option")) == 1
        page.run("sessionStorage.clear()")
        driver.get_log("browser")  # the refusals
