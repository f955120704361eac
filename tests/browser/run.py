#!/usr/bin/env python3
"""Tests the page of `kopf ui` in a real browser, on a sandbox with 10,000 objects.

    tests/browser/run.py KOPF [--screenshots FOLDER]

KOPF is the `kopf` command of the Rust crate or of the Python package.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import urllib.error
import urllib.request
from typing import Any

from browser import Browser, find

COUNT = 10_000
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
BASE = "kopf.zalando.org/last-handled-configuration"

MARKUP = "<img src=x onerror='window.injected=1'><script>window.injected=1</script>"

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "bakeries.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "bakeries", "singular": "bakery", "kind": "Bakery"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def bakery(name: str, loaves: object, annotations: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Bakery",
        "metadata": {"name": name, "namespace": "town", "annotations": annotations, **metadata},
        "spec": {"bread": "rye", "loaves": loaves},
    }


def record(**fields: Any) -> str:
    return json.dumps({"purpose": "update", "success": False, "failure": False, **fields})


def objects() -> list[dict[str, Any]]:
    """Returns one object in each tested state, and many settled ones."""
    now = datetime.datetime.now(datetime.timezone.utc)
    moment = lambda seconds: (now + datetime.timedelta(seconds=seconds)).isoformat()  # noqa: E731
    handled = json.dumps({"spec": {"bread": "rye", "loaves": 10}})
    made = [
        bakery("harbour", 25, {
            BASE: handled,
            "kopf.zalando.org/change": record(started=moment(-40), delayed=moment(3600), retries=2,
                                              message="no flour is left", subrefs=["change/oven"]),
            "kopf.zalando.org/change.oven": record(started=moment(-40), stopped=moment(-39), retries=1,
                                                   success=True),
        }, finalizers=[FINALIZER]),
        bakery("hostile", MARKUP, {
            BASE: handled,
            "kopf.zalando.org/change": record(started=moment(-40), delayed=moment(3600), retries=1, message=MARKUP),
        }, finalizers=[FINALIZER]),
        bakery("market", 10, {
            "kopf.zalando.org/open": record(started=moment(-9), stopped=moment(-8), retries=1, failure=True,
                                            message="the rent is too high"),
        }),
        bakery("station", 30, {BASE: handled}),
        bakery("tower", 1, {}),
        bakery("garbled", 10, {BASE: "{"}),
    ]  # fmt: skip
    made += [bakery(f"shop-{number:05}", 10, {BASE: handled}) for number in range(COUNT - len(made))]
    return made


def check_rejections(url: str) -> None:
    """Requests without the token, and from other origins, are rejected."""
    root, token = url.split("?token=")
    for path, headers in [
        ("", {}),
        (f"?token={token}x", {}),
        ("api/overview", {}),
        (f"?token={token}", {"Host": "evil.example"}),
        (f"?token={token}", {"Origin": "http://evil.example"}),
    ]:
        try:
            urllib.request.urlopen(urllib.request.Request(root + path, headers=headers))
        except urllib.error.HTTPError as error:
            assert error.code == 403, (path, headers, error.code)
        else:
            raise AssertionError(f"not rejected: {path} {headers}")


ROW = "[...document.querySelectorAll('#window .row')]"


def filter_rows(page: Browser, text: str) -> None:
    """Sets the text of the search box without moving the focus."""
    page.run(f"document.querySelector('#search').value = '{text}'")
    page.run("document.querySelector('#search').dispatchEvent(new Event('input'))")


def check_list(page: Browser) -> None:
    page.until(f"document.querySelector('#states')?.innerText.includes('settled {COUNT - 6}')", "all rows")
    page.until("document.querySelector('#connection').innerText == 'live'", "the stream")
    rows = page.run(f"{ROW}.map(row => row.innerText.split('\\n').map(cell => cell.trim()))")
    names = [[cell for cell in row if cell] for row in rows]
    states = [row[0] for row in names[:6]]
    assert states == ["failed", "unreadable", "retrying", "retrying", "changed", "not seen"], names[:7]
    # Only the visible rows are in the document.
    count = page.run("document.querySelectorAll('#window .row').length")
    assert count < 100, count
    page.run("document.querySelector('#list').focus()")
    page.press("End")
    page.until(f"{ROW}.some(row => row.innerText.includes('shop-{COUNT - 7:05}'))", "the last row")
    page.press("Home")


def check_search(page: Browser) -> None:
    page.press("/")
    page.write("flour")
    page.until(f"{ROW}.length == 1 && {ROW}[0].innerText.includes('harbour')", "the found row")
    page.press("Enter")
    page.press("Enter")
    page.until("document.querySelector('#detail h2')?.innerText == 'bakery town/harbour'", "the details")
    text = page.run("document.querySelector('#detail').innerText")
    for part in ["- spec.loaves: 10", "+ spec.loaves: 25", "change/oven", "no flour is left", "the operator"]:
        assert part in text, (part, text)


def check_markup(page: Browser) -> None:
    """Values of objects are shown as text."""
    filter_rows(page, "hostile")
    page.until(f"{ROW}.length == 1 && {ROW}[0].innerText.includes('onerror')", "the row with markup")
    page.run("document.querySelector('#list').focus()")
    page.press("Enter")
    page.until("document.querySelector('#detail h2')?.innerText == 'bakery town/hostile'", "the details")
    text = page.run("document.querySelector('#detail').innerText")
    assert text.count(MARKUP) >= 2, text
    assert page.run("window.injected === undefined")
    page.press("Escape")
    page.until("document.querySelector('#detail').hidden", "the list without details")


def check_retriggering(page: Browser) -> None:
    page.press("r")
    page.until("document.querySelector('#confirm').open", "the dialog")
    page.press("Escape")
    page.until("!document.querySelector('#confirm').open", "the end of the dialog")
    assert "no flour is left" in page.run("document.querySelector('#detail').innerText")
    page.press("r")
    page.until("document.querySelector('#confirm').open", "the dialog")
    page.press("Enter")
    # The record is removed, and the page receives the change.
    filter_rows(page, "harbour")
    page.until(f"{ROW}.length == 1 && {ROW}[0].innerText.includes('handling')", "the new state")
    advice = "document.querySelector('#detail .advice')?.innerText"
    page.until(f"{advice}.startsWith('Wait for the handlers')", "the new details")
    page.press("Escape")
    page.until("document.querySelector('#detail').hidden", "the list without details")


def check_changes_by_other_clients(page: Browser, kopf: list[str]) -> None:
    filter_rows(page, "market")
    page.until(f"{ROW}.length == 1 && {ROW}[0].innerText.includes('failed')", "the failed object")
    subprocess.run([*kopf, "retrigger", "bakery", "market", "-n", "town"], check=True)
    page.until(f"{ROW}.length == 1 && {ROW}[0].innerText.includes('not seen')", "the change")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kopf")
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    kopf = [os.path.abspath(arguments.kopf)]
    find()
    with tempfile.TemporaryDirectory() as folder:
        manifests = pathlib.Path(folder, "objects.json")
        manifests.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [CRD, *objects()]}))
        command = [*kopf, "sandbox", "-f", str(manifests), "--", "python3", __file__, "--inside", *kopf]
        if arguments.screenshots:
            command += ["--screenshots", str(arguments.screenshots.absolute())]
        raise SystemExit(subprocess.run(command).returncode)


def inside(kopf: list[str], screenshots: pathlib.Path | None) -> None:
    ui = subprocess.Popen([*kopf, "ui"], stdout=subprocess.PIPE, text=True)
    try:
        assert ui.stdout is not None
        url = next(line.split()[1] for line in ui.stdout if line.startswith("Open "))
        check_rejections(url)
        for dark in (False, True):
            with Browser(dark=dark) as page:
                page.open(url)
                if dark:
                    page.until(f"{ROW}.length > 5", "the rows")
                else:
                    check_list(page)
                    shoot(page, screenshots, "ui-list.png")
                    check_search(page)
                    shoot(page, screenshots, "ui-object.png")
                    check_retriggering(page)
                    check_changes_by_other_clients(page, kopf)
                    check_markup(page)
                if dark:
                    shoot(page, screenshots, "ui-dark.png")
                assert page.errors == [], page.errors
    finally:
        ui.terminate()
        ui.wait(timeout=20)
    print("browser: all checks passed")


def shoot(page: Browser, folder: pathlib.Path | None, name: str) -> None:
    if folder:
        page.screenshot(folder / name)


if __name__ == "__main__":
    import sys

    if "--inside" in sys.argv:
        position = sys.argv.index("--inside")
        shots = None
        rest = sys.argv[position + 1 :]
        if "--screenshots" in rest:
            at = rest.index("--screenshots")
            shots, rest = pathlib.Path(rest[at + 1]), rest[:at]
        inside(rest, shots)
    else:
        main()
