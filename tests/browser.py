"""A real browser for tests: opens a page, points, clicks and types as a person does, and reads what it shows.

It speaks the DevTools protocol over a pipe, so that nothing but the browser is needed.
"""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
needs_browser = pytest.mark.skipif(not BROWSER, reason="needs a browser (Debian: chromium)")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run")
FLAGS += ("--disable-features=SpareRendererForSitePerProcess,BackForwardCache",)  # they prepare for pages not opened
PATIENCE = 60.0  # seconds


class Browser:
    """One tab of a browser of its own; `problems` are the errors that its pages logged or threw."""

    def __init__(self, profile: Path, width: int = 1200, height: int = 900) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in (theirs_in, theirs_out)]
        self._process = subprocess.Popen(
            [BROWSER, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"],
            preexec_fn=lambda: [os.dup2(descriptor, target) for target, descriptor in enumerate(high, start=3)],
            pass_fds=[3, 4],  # where the browser reads and writes
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for descriptor in (theirs_in, theirs_out, *high):
            os.close(descriptor)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")
        self._numbers, self._buffer, self._session = itertools.count(1), b"", None
        self.problems, self._loads = list[str](), 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._out.write(json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        loads = self._loads
        self.call("Page.navigate", url=url)
        self.wait_for_load(loads)

    def reload(self) -> None:
        """Load the page again and wait until it is loaded."""
        loads = self._loads
        self.call("Page.reload")
        self.wait_for_load(loads)

    def wait_for_load(self, loads: int) -> None:
        """Wait until more than this many pages have been loaded."""
        while self._loads <= loads:
            self._read()

    def read(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """Give the page another size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def point(self, selector: str, part: tuple[float, float] = (0.5, 0.5)) -> tuple[float, float]:
        """Move the pointer onto an element, into its middle or another part of it; return where that is."""
        x, y = self.read(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            f"return [b.left + b.width * {part[0]}, b.top + b.height * {part[1]}] }})()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector: str, part: tuple[float, float] = (0.5, 0.5)) -> None:
        """Click the middle of an element or another part of it."""
        x, y = self.point(selector, part)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, x: float, y: float) -> None:
        """Tap a point of the window with a finger; only a phone is touched."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def drag(self, selector: str, first: tuple[float, float], last: tuple[float, float]) -> None:
        """Press inside an element at one part of it and release at another."""
        start, end = self.point(selector, first), self.point(selector, last)
        for kind, (x, y) in (
            ("mouseMoved", start),
            ("mousePressed", start),
            ("mouseMoved", end),
            ("mouseReleased", end),
        ):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key: str) -> None:
        """Press and release a key, such as Enter or ArrowDown."""
        text = {"Enter": "\r"}.get(key, "")
        number = {"Tab": 9}.get(key, 0)  # only with it the browser moves the focus
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text, windowsVirtualKeyCode=number)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=number)

    def set(self, selector: str, value: object, event: str = "change") -> None:
        """Set the value of a control as if it was chosen."""
        self.read(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(str(value))};"
            f"e.dispatchEvent(new Event('{event}', {{bubbles: true}})) }})()"
        )

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], PATIENCE)[0], "the browser does not answer"
            read = os.read(self._in.fileno(), 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"]["exception"].get("description", "an exception"))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(str([argument.get("value") for argument in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        return message
