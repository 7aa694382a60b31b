"""A headless Chromium over its pipe, for tests that look at a page."""
import base64, json, os, select, subprocess, time

failures = []
def fail(text):
    failures.append(text)
    print("FAIL:", text)
def check(holds, text):
    if not holds: fail(text)

class Browser:
    """Chromium over its pipe: JSON with a NUL behind each."""
    def __init__(self, path, folder):
        self.folder = folder
        here, there = os.pipe()
        back, forth = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{here} 4>&{forth}', "sh", path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir=" + folder + "/browser"],
            pass_fds=(here, forth), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(here), os.close(forth)
        self.out, self.back, self.text, self.count, self.session = there, back, b"", 0, None
        self.console, self.requests, self.answers = [], [], {}
    def receive(self, seconds):
        if select.select([self.back], [], [], seconds)[0]:
            more = os.read(self.back, 1 << 20)
            if not more: raise EOFError("the browser has ended")
            self.text += more
        *messages, self.text = self.text.split(b"\0")
        for m in map(json.loads, messages):
            method, p = m.get("method"), m.get("params", {})
            if "id" in m: self.answers[m["id"]] = m
            elif method == "Runtime.consoleAPICalled": self.console.append(str(p["args"]))
            elif method == "Runtime.exceptionThrown": self.console.append(str(p["exceptionDetails"]))
            elif method == "Log.entryAdded": self.console.append(str(p["entry"]))
            elif method == "Network.requestWillBeSent": self.requests.append(p["request"]["url"])
    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session: message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while self.count not in self.answers and time.monotonic() < end: self.receive(1)
        answer = self.answers.pop(self.count)
        if "error" in answer: raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]
    def open(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"): self.call(domain + ".enable")
    def go(self, url, width=1200, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
    def value(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in r: raise RuntimeError(f"{expression}: {r['exceptionDetails']}")
        return r["result"].get("value")
    def wait(self, expression, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.value(expression): return True
            except RuntimeError: pass
            time.sleep(0.05)
        fail(f"in {seconds} s not: {expression}; {self.value('document.body && document.body.innerText')[:300]}")
        return False
    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
    def picture(self, name):
        height = self.value("document.documentElement.scrollHeight")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": self.value("innerWidth"), "height": height, "scale": 1})
        open(f"{self.folder}/{name}.png", "wb").write(base64.b64decode(shot["data"]))

def begin(path, folder):
    for _ in range(3):  # on a machine that is busy it may not come up
        b = Browser(path, folder)
        try:
            b.open()
            return b
        except (EOFError, BrokenPipeError, KeyError):
            b.process.kill()
            b.process.wait()
    print("chromium does not start here: the page was not looked at")
