"""Pages in headless Chromium: what a browser says of them."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--log-level=0",
    "--virtual-time-budget=2000", "--window-size=1500,900", "--dump-dom",
)  # fmt: skip
_POLICY = "default-src 'none'"
# Runs when all is there, and sends what it finds to the page around.
_MEASURE = """<script>
addEventListener("load", () => {
  const out = [];
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    const isOut = box.width && box.right > innerWidth + 1 && !one.closest(".wide");
    if (isOut) out.push(one.outerHTML.slice(0, 80));
  }
  parent.postMessage({width: innerWidth, scroll: document.documentElement.scrollWidth, out,
    requests: performance.getEntriesByType("resource").map(each => each.name),
    tables: document.querySelectorAll("table").length,
    pictures: document.querySelectorAll("svg").length,
    background: getComputedStyle(document.body).backgroundColor}, "*");
});
</script>"""
# A window is at least 500 pixels wide, a frame in it is not.
_AROUND = """<!DOCTYPE html><style>:root { color-scheme: light dark } iframe { border: 0 }</style>
<body><script>
addEventListener("message", event => {
  const note = document.createElement("pre");
  note.textContent = JSON.stringify(event.data);
  document.body.append(note);
});
</script>"""


@dataclass(frozen=True)
class Shown:
    """A page in a browser: what was measured at each width, and what the console said."""

    measured: dict[int, dict[str, Any]]
    console: list[str]


def show(page: Path, *, widths: tuple[int, ...] = (400, 1400), dark: bool = False) -> Shown:
    """Open a page without scripts in frames of given widths in pixels."""
    with tempfile.TemporaryDirectory() as folder:
        text = page.read_text(encoding="utf-8").replace("</head>", _MEASURE + "</head>", 1)
        copy = Path(folder) / "page.html"
        copy.write_text(text.replace(_POLICY, f"{_POLICY}; script-src 'unsafe-inline'"), "utf-8")
        frames = [
            f'<iframe src="page.html" width="{width}" height="900"></iframe>' for width in widths
        ]
        around = Path(folder) / "around.html"
        around.write_text(_AROUND + "".join(frames), "utf-8")
        flags = [*_FLAGS, f"--user-data-dir={folder}/user"]
        flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
        opened = subprocess.run(
            [str(CHROMIUM), *flags, around.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    found = [
        json.loads(html.unescape(text))
        for text in re.findall("<pre>(.*?)</pre>", opened.stdout, re.DOTALL)
    ]
    console = [line for line in opened.stderr.splitlines() if "CONSOLE" in line]
    return Shown({each["width"]: each for each in found}, console)


_TEXTS = """<script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("svg")].map(svg => ({
    width: svg.width.baseVal.value, height: svg.height.baseVal.value,
    texts: [...svg.querySelectorAll("text")].map(text => {
      const box = text.getBBox();
      return [box.x, box.y, box.x + box.width, box.y + box.height, text.textContent,
        text.getComputedTextLength()];
    })}));
  const note = document.createElement("pre");
  note.textContent = JSON.stringify(found);
  document.body.append(note);
});
</script>"""


def measured_texts(page: Path) -> list[dict[str, Any]]:
    """The width, height and texts of each picture of a page: box, text and exact width."""
    with tempfile.TemporaryDirectory() as folder:
        text = page.read_text(encoding="utf-8").replace("</head>", _TEXTS + "</head>", 1)
        copy = Path(folder) / "page.html"
        copy.write_text(text.replace(_POLICY, f"{_POLICY}; script-src 'unsafe-inline'"), "utf-8")
        opened = subprocess.run(
            [str(CHROMIUM), *_FLAGS, f"--user-data-dir={folder}/user", copy.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    [found] = re.findall("<pre>(.*?)</pre>", opened.stdout, re.DOTALL)
    pictures: list[dict[str, Any]] = json.loads(html.unescape(found))
    return pictures
