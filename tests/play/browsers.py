"""Steps per second of one run in the page that trains, in Chromium and Firefox. browsers.py PAGE [CHROMIUM]

By the clock, drawing and recording included, of the last of some steps. `speed` has the program's and those of Node.
"""
import os, sys, tempfile, time
from urllib.parse import urlencode
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..", "app")]
import browser, firefox

page = "file://" + os.path.realpath(sys.argv[1])
rows = ("adam", 60), ("muon", 60), ("adam model.width=32", 200), ("muon model.width=32", 200)
none = "train.steps=100000 train.val_every=0 record.spectra_every=0 qk_clip.tau=100"

def measure(go, value, words, steps):
    go(page + "#" + urlencode([("arm", words), ("set", none), ("view", "loss")]))
    begin = first = None
    while True:
        now, count = value('[performance.now(), +(/step (\\d+) of/.exec((document.getElementById("arms") || {}).innerText) || [0, 0])[1]]')
        if begin is None and count > steps / 4: begin, first = now, count
        if begin is not None and count - first >= steps: return (count - first) * 1e3 / (now - begin)
        time.sleep(0.05)

def best(go, value):
    return [max(measure(go, value, *row) for _ in range(3)) for row in rows]

with tempfile.TemporaryDirectory() as folder:
    columns = {}
    b = browser.begin(sys.argv[2] if sys.argv[2:] else "chromium", folder)
    if b: columns["Chromium"] = best(lambda url: b.go(url, 1280, 900), b.value)
    f = firefox.Firefox(folder)
    try: columns["Firefox"] = best(f.go, f.value)
    finally: f.close()
print(f"{'run':<26}" + "".join(f"{name:>10}" for name in columns))
for i, (words, _) in enumerate(rows):
    print(f"preset={words:<19}" + "".join(f"{c[i]:10.1f}" for c in columns.values()))
