"""The default page in a headless Firefox, over Marionette. firefox.py PAGE FOLDER"""
import json, os, socket, subprocess, sys, time

class Firefox:
    """Messages are LENGTH:JSON."""
    def __init__(self, folder):
        with socket.socket() as s:  # a free port
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        profile = folder + "/firefox"
        os.mkdir(profile)
        open(profile + "/user.js", "w").write(f'user_pref("marionette.port", {port});\n')
        self.process = subprocess.Popen(["firefox-esr", "--headless", "--marionette", "--no-remote", "--profile", profile],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try: self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
            except OSError:
                if time.monotonic() > end: raise
                time.sleep(0.2)
                continue
            break
        self.text, self.count = b"", 0
        self.receive()
        self.call("WebDriver:NewSession", capabilities={})
    def more(self):
        part = self.socket.recv(1 << 16)
        if not part: raise EOFError("firefox has ended")
        self.text += part
    def receive(self):
        while b":" not in self.text: self.more()
        length, _, self.text = self.text.partition(b":")
        while len(self.text) < int(length): self.more()
        message, self.text = self.text[:int(length)], self.text[int(length):]
        return json.loads(message)
    def call(self, name, **parameters):
        self.count += 1
        message = json.dumps([0, self.count, name, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, value = self.receive()
        if error: raise RuntimeError(f"{name}: {error}")
        return value
    def value(self, expression):
        return self.call("WebDriver:ExecuteScript", script="return " + expression, args=[])["value"]
    def go(self, url):
        self.call("WebDriver:Navigate", url="about:blank")
        self.call("WebDriver:Navigate", url=url)
    def close(self):
        self.process.kill()
        self.process.wait()

def main():
    try: session = Firefox(sys.argv[2])
    except (OSError, EOFError, RuntimeError) as problem: return print("FAIL: firefox:", problem) or 1
    try:
        session.go("file://" + os.path.realpath(sys.argv[1]))
        end = time.monotonic() + 240
        while time.monotonic() < end:
            text = session.value("document.body.innerText")
            if text.count("finished, step 600 of 600") == 2 and "equal to the reference" in text: break
            time.sleep(0.5)
        missing = [word for word in ("muon: head 0 of layer 1 passed 100 at step 430", "QK-Clip holds every head at or below about 30",
                                     "equal to the reference") if word not in text]
        for word in missing: print(f"FAIL: firefox: no '{word}' in: {text[:1500]}")
        return bool(missing)
    finally: session.close()

if __name__ == "__main__": sys.exit(main())
