"""Headless Chromium, controlled by the DevTools protocol: JSON messages over a WebSocket."""

import base64
import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from websockets.sync.client import connect

from tools import runtimes
from tools.peers.daemon import Program
from tools.setup.web_tools import axe

_LIMIT_S = 240
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0",
)  # fmt: skip


_CHOSEN = os.environ.get("INFLIGHT_CHROMIUM")  # else the one that the set-up found or installed


def unavailable():
    """Why there is no browser; empty when there is one."""
    return "" if _CHOSEN else runtimes.unavailable("chromium")


def no_axe():
    """Why violations() cannot be asked for; empty when they can."""
    return unavailable() or ("" if axe().exists() else "no axe-core: `make setup-tests` fetches it with npm")


class Chromium:
    def __init__(self, folder):
        """`folder`: a new one, for its profile."""
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        program = [_CHOSEN] if _CHOSEN else runtimes.program("chromium")
        command = [*program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = Program(self._folder / "chromium.log", command)
        self._process.group = True
        self._number = 0
        self.events = []  # (session, method, parameters), as they came

    def __enter__(self):
        told = self._folder / "DevToolsActivePort"
        with contextlib.ExitStack() as stack:
            stack.callback(self._process.off)  # its child processes, too
            self._process.on(stdin=subprocess.DEVNULL)
            self._process.wait(lambda: told.exists() and told.read_text())
            port, path = told.read_text().split()
            address = f"ws://127.0.0.1:{port}{path}"
            self._socket = stack.enter_context(connect(address, max_size=None, ping_interval=None))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _event(self, deadline):
        message = json.loads(self._socket.recv(max(0, deadline - time.monotonic())))
        if "method" in message:
            self.events.append((message.get("sessionId"), message["method"], message["params"]))
        return message

    def call(self, method, session=None, **parameters):
        """Sends a command and returns its result. Records the events that come before."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps({**message, "sessionId": session} if session else message))
        deadline = time.monotonic() + _LIMIT_S
        while True:
            answer = self._event(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def wait(self, session, method):
        deadline = time.monotonic() + _LIMIT_S
        while not any(event[:2] == (session, method) for event in self.events):
            self._event(deadline)

    def open(self, url, width=1280, height=900, dark=False, zone="UTC", script=True, before=""):
        """Loads a page, and returns its Page. `script`: whether scripts of the page may run. `before`: a script that
        runs before them."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.call("Emulation.setTimezoneOverride", timezoneId=zone)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.call("Emulation.setEmulatedMedia", features=features)
        page.call("Emulation.setScriptExecutionDisabled", value=not script)
        page.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        page.call("Page.navigate", url=url)
        self.wait(session, "Page.loadEventFired")
        return page


class Page:
    def __init__(self, browser, session):
        self._browser, self._session = browser, session

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width, height=900):
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def ask(self, expression):
        """The value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", answer["exceptionDetails"]))
        return answer["result"].get("value")

    def violations(self):
        """What axe-core objects to: [(rule, HTML of the first element)]. The page may have its scripts switched off."""
        self.call("Emulation.setScriptExecutionDisabled", value=False)
        self.ask(axe().read_text(encoding="utf-8") + "; 0")
        return self.ask("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key], **text)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path=None, height=None):
        """A PNG of the whole page, or of so much of its top."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        image = base64.b64decode(taken)
        if path:
            path.write_bytes(image)
        return image

    def _seen(self, *methods):
        here = (event for event in self._browser.events if event[0] == self._session)
        return [data for _, method, data in here if method in methods]

    def loads(self):
        """How many pages have loaded here."""
        self.call("Page.enable")  # with its answer comes what has happened before
        return len(self._seen("Page.loadEventFired"))

    def requests(self):
        """The URLs of all requests of the page."""
        return [data["request"]["url"] for data in self._seen("Network.requestWillBeSent")]

    def errors(self):
        """Errors and warnings of the console and of the browser, for example about the page's security policy."""
        return self._seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


_KEYS = {"Enter": 13, "Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
