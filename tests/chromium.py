"""A real browser for tests: Chromium without a window, told what to do over a pipe.

Chromium's own protocol (DevTools) goes over two file descriptors, as JSON with a zero byte after
each message, so nothing but Chromium itself is needed.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from processes import HANGS

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
)
PATIENCE = HANGS
"""Seconds that a single answer may take on a busy machine."""

# Chromium reads from descriptor 3 and writes to 4; a process of its own puts them there, whatever
# numbers the pipes have here.
LAUNCH = """
import os, sys
reads, writes = int(sys.argv[1]), int(sys.argv[2])
high = os.dup(reads), os.dup(writes)
while min(high) < 5:
    high = os.dup(high[0]), os.dup(high[1])
os.dup2(high[0], 3), os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium():
    """The path of Chromium, or skip and say how to get it."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("Chromium is missing; get it with: apt-get install chromium")
    return path


class Chromium:
    """One browser with one page at a time."""

    def __init__(self):
        path = find_chromium()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        its_input, self._to = os.pipe()
        self._from, its_output = os.pipe()
        command = [path, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(its_input), str(its_output), *command],
            pass_fds=(its_input, its_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        self._buffer, self._number, self._session = b"", 0, None
        self.events = []

    def close(self):
        self._session = None
        try:
            self.ask("Browser.close")
        finally:
            os.close(self._to)
            os.close(self._from)
            self._process.wait(PATIENCE)
            self._profile.cleanup()

    def ask(self, method, **parameters):
        """Send a command and return its answer; what happens meanwhile is kept in `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _receive(self):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            assert ready, "Chromium did not answer"
            read = os.read(self._from, 1 << 20)
            assert read, "Chromium has gone"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer = json.loads(message)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, path, *, width=1100, height=900, dark=False, fragment=""):
        """Open a file in a page of its own, of this size in pixels."""
        self._session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.url = path.resolve().as_uri()
        self.ask("Page.navigate", url=self.url + fragment)
        self.wait("document.readyState === 'complete'")

    def run(self, expression):
        """Return the value of an expression in the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression):
        """Wait until an expression in the page is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(expression):
            assert time.monotonic() < end, f"never became true: {expression}"
            time.sleep(0.02)

    def press(self, *keys):
        """Press keys one after another, as a keyboard would."""
        for key in keys:
            codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, " ": 32}
            event = {"key": key, "windowsVirtualKeyCode": codes[key]}
            text = {"Enter": "\r", " ": " "}.get(key)
            kind = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
            self.ask("Input.dispatchKeyEvent", **event, **kind)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def complaints(self):
        """All that the page or the browser had to say against it."""
        named = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event["method"] in named]

    def requests(self):
        """The addresses of all that was asked for beside the page itself."""
        asked = [e["params"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in asked if one["request"]["url"] != self.url]
