"""Headless Chromium over its debugging pipe, and checks that count: nothing but Python's standard library."""
import base64
import json
import os
import select
import signal
import subprocess
import tempfile
import time


passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {what}", f"({detail})" if detail != "" else "")


def conclude():
    """The last line of a script, and its exit code."""
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


class Browser:
    """One browser with one tab. Collects what the page complained about and asked for."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="fedloom-page-", ignore_cleanup_errors=True)
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()
        args = [program, "--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + self.profile.name, "--disable-gpu",
                "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                "--disable-dev-shm-usage"]
        if os.getuid() == 0:
            args.append("--no-sandbox")  # Chromium refuses to run as root otherwise

        def pipes():  # the protocol's fixed numbers: it reads 3 and writes 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(args, preexec_fn=pipes, close_fds=False, start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.last, self.session = b"", 0, None
        self.clear()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def clear(self):
        self.complaints, self.requests, self.loaded = [], [], False

    def close(self):
        """Ends the browser. Its helper processes outlive it for a moment and write into the profile, so all of them are
        killed; what they write even then is litter in a temporary folder, not a failure of the page."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(20)
        os.close(self.read_fd)
        os.close(self.write_fd)
        self.profile.cleanup()

    # ---- protocol

    def receive(self, timeout):
        """The next message, None if none comes in time."""
        until = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                return None
            piece = os.read(self.read_fd, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has gone")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_fd, data):]
        while True:
            answer = self.receive(60)
            if answer is None:
                raise RuntimeError(method + ": no answer")
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append("log: " + params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    # ---- what a test does

    def open(self, url, width=1200, height=900, dark=False, scripts=True):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.clear()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + 30
        while not self.loaded and time.monotonic() < until:
            event = self.receive(1)
            if event:
                self.note(event)
        self.wait(0.1)

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            event = self.receive(until - time.monotonic())
            if event:
                self.note(event)

    def js(self, expression):
        """The value of an expression in the page; an exception there is one here."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def until(self, expression, seconds=10):
        """Whether the expression becomes true in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.js(expression):
                return True
            self.wait(0.1)
        return False

    def mouse(self, x, y, click=False):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.wait(0.05)

    def point(self, selector, fx=0.5, fy=0.5, click=False):
        """Moves the mouse to a place within an element (fractions of its size), scrolled into view."""
        box = self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
            return [r.left, r.top, r.width, r.height]; }})()""")
        self.mouse(box[0] + fx * box[2], box[1] + fy * box[3], click)

    def drag(self, selector, fx, to):
        """From one place within an element to another, at half its height."""
        self.point(selector, fx)
        box = self.js(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()")
        y = box[1] + box[3] / 2
        for kind, f in (("mousePressed", fx), ("mouseMoved", (fx + to) / 2), ("mouseMoved", to), ("mouseReleased", to)):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0] + f * box[2], y=y, button="left", clickCount=1)
        self.wait(0.05)

    def file(self, path, seconds=10):
        """A file that the browser saves; b"" if it does not come."""
        end = time.monotonic() + seconds
        while not os.path.exists(path) and time.monotonic() < end:
            self.wait(0.1)
        if not os.path.exists(path):
            return b""
        with open(path, "rb") as f:
            return f.read()

    def key(self, name):
        codes = {"+": 187, "-": 189, "ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36, "Escape": 27, "Tab": 9, " ": 32}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code="Space" if name == " " else name,
                      windowsVirtualKeyCode=codes[name], text=name if len(name) == 1 and kind == "keyDown" else "")
        self.wait(0.05)

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=False, paperWidth=8.27, paperHeight=11.69)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
