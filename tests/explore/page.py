#!/usr/bin/env python3
"""Tests the page of `kopf explore` in a real browser.

    tests/explore/page.py KOPF [--screenshots FOLDER]

KOPF is the `kopf` command of the Rust crate or of the Python package.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "tests/explore/zoo"
sys.path.insert(0, str(ROOT / "tests/browser"))

from browser import Browser, find  # noqa: E402

MARKUP = "<img src=x onerror='window.injected=1'>"
STEPS = f"""
steps:
- apply:
    apiVersion: zoo.example.com/v1
    kind: Shop
    metadata: {{name: corner}}
    spec: {{size: 1, color: "{MARKUP}"}}
- delete: {{apiVersion: zoo.example.com/v1, kind: Shop, name: corner}}
"""


def explore(kopf: str, folder: pathlib.Path) -> str:
    """Explores an operator with a bug, and returns the address of the page."""
    (folder / "steps.yaml").write_text(STEPS, encoding="utf-8")
    command = [
        kopf, "explore", "-f", str(ZOO / "crd.yaml"), "--scenario", str(folder / "steps.yaml"),
        "--only", "crash-after,respec", "--settle", "600ms", "--limit", "5s", "--no-reduce",
        "--report", str(folder / "report"),
        "--", "python3", str(ZOO / "python/two_children.py"), "--bug",
    ]
    process = subprocess.run(command, check=False)
    assert process.returncode == 1, process.returncode
    return (folder / "report/index.html").as_uri()


def check(page: Browser, url: str) -> None:
    page.open(url)
    count = page.until("document.querySelectorAll('details.finding').length", "findings")
    assert page.run("document.querySelectorAll('details.finding[open]').length") == 1
    assert page.run("document.querySelectorAll('svg .fault').length") >= count, "each has its fault"
    assert page.run("[...document.querySelectorAll('svg text')].map(t => t.textContent).slice(0, 3).join()") == \
        "user,API server,operator"
    # The page is complete in itself, and what operators write is text.
    assert page.run("document.querySelectorAll('[src], link, iframe').length") == 0
    assert page.run("performance.getEntriesByType('resource').length") == 0
    assert page.run("window.injected === undefined")
    # Everything is reached by the keyboard: j focuses the first finding, Enter closes and opens it.
    page.press("j")
    page.until("document.activeElement.matches('#finding-1 > summary')", "the focus on the first finding")
    page.press("Enter")
    page.until("!document.querySelector('#finding-1').open", "the first finding to close")
    page.press("Enter")
    page.until("document.querySelector('#finding-1').open", "the first finding to open")
    if count > 1:
        page.press("j")
        page.until("document.activeElement.matches('#finding-2 > summary')", "the second finding")
        page.press("k")
        page.until("document.activeElement.matches('#finding-1 > summary')", "the first finding")
    # Wide diagrams scroll, and not the page.
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
    assert not page.errors, page.errors


#: The contrast of the text with its background, by the definition of WCAG.
CONTRAST = """(selector => {
  const light = text => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const element = document.querySelector(selector);
  let back = element;
  while (getComputedStyle(back).backgroundColor === 'rgba(0, 0, 0, 0)' && back.parentElement) back = back.parentElement;
  const [one, other] = [getComputedStyle(element).color, getComputedStyle(back).backgroundColor].map(light);
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
})"""


def check_contrast(page: Browser) -> None:
    for selector in ["body", ".dim", ".badge", "del", "ins", "pre"]:
        contrast = page.run(f"{CONTRAST}('{selector}')")
        assert contrast >= 4.5, f"{selector}: {contrast}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kopf")
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    find()
    with tempfile.TemporaryDirectory(prefix="kopf-page-") as name:
        url = explore(arguments.kopf, pathlib.Path(name))
        for is_dark in [False, True]:
            with Browser(dark=is_dark) as page:
                check(page, url)
                check_contrast(page)
                background = page.run("getComputedStyle(document.body).backgroundColor")
                assert (background == "rgb(13, 17, 23)") == is_dark, background
                if arguments.screenshots:
                    page.run("window.scrollTo(0, 0)")
                    page.screenshot(arguments.screenshots / f"explore-{'dark' if is_dark else 'light'}.png")
    print("the page works in both colour schemes")


main()
