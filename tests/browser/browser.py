"""A headless Chromium, controlled over pipes by the DevTools protocol. No packages are required."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "apt-get install --yes --no-install-recommends chromium"

#: Upper bound in seconds for a condition to become true.
TIMEOUT = 60


def find() -> str:
    """Returns the path of Chromium. Installs it if this process runs as root on Debian or Ubuntu."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing Chromium: {INSTALL}", flush=True)
        subprocess.run(INSTALL.split(), check=True, stdout=subprocess.DEVNULL)
        if path := shutil.which("chromium"):
            return path
    raise SystemExit(f"error: Chromium not found in PATH; install it:\n  sudo {INSTALL}")


class Browser:
    """One page in a browser with a new profile."""

    def __init__(self, *, dark: bool = False, size: tuple[int, int] = (1280, 800)) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kopf-browser-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            find(), "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
            "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={self._folder.name}",
            "--no-sandbox",  # required as root; only pages of this test are opened
            "about:blank",
        ]  # fmt: skip
        # The protocol uses the file descriptors 3 and 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol, and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            received = self._receive()
            if received.get("id") == self._number:
                if "error" in received:
                    raise RuntimeError(f"{method}: {received['error']}")
                result: dict[str, Any] = received["result"]
                return result
            self._note(received)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._in, 1 << 16)
            if not read:
                raise RuntimeError("the browser has exited")
            self._buffer += read
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def open(self, url: str) -> None:
        """Opens a page."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Evaluates an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, script: str, what: str) -> Any:
        """Waits until an expression is true, and returns its value."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            if value := self.run(script):
                return value
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText")
                raise AssertionError(f"timeout while waiting for {what}; the page:\n{text[:3000]}")
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Presses and releases a key."""
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9, "End": 35, "Home": 36}
        code = codes.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        """Types text into the focused element."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: pathlib.Path) -> None:
        """Stores the visible part of the page as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
