"""The page of runs: `report` and `serve`, asked by HTTP as friend and as foe, and seen in a headless Chromium where
there is one. page.py PROGRAM FOLDER, which has runs/ (two presets x two seeds), bad/ and live.conf. Pictures stay in FOLDER."""
import http.client, json, math, os, re, shutil, signal, socket, subprocess, sys, time
import browser as browsers, page_made
from browser import check, fail, failures

program, folder = sys.argv[1], sys.argv[2]
def told(text, name):  # what a script of data/ says
    found = re.match(r'take\("%s",(.*)\)\s*\Z' % re.escape(name), text, re.S)
    if not found: fail(f"{name}: no take(): {text[:80]}"); return {}
    text = re.sub(r'([{,])(w|s|m|l|h|n|v):', r'\1"\2":', found.group(1)) if name != "index" else found.group(1)
    return json.loads(text)
def rows_of(path, *words):  # what export tells
    return [[float(y) for y in x.split()] for x in maxlogit("export", path, *words).stdout.splitlines() if x[0] != "#"]
def check_thinned(curve, rows, what):
    """Of each interval the mean, and its peaks."""
    check(curve["s"] and len(curve["s"]) == len({s // curve["w"] for s, _ in rows}), f"{what}: {len(curve['s'])} points of {len(rows)} rows")
    for i, step in enumerate(curve["s"]):
        of = [y for s, y in rows if s // curve["w"] == step // curve["w"]]
        found = [curve[k][i] if k in curve else curve["m"][i] for k in "lmh"]
        check(of and all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(found, (min(of), sum(of) / len(of), max(of)))), f"{what}: interval of step {step}: {found}")
def maxlogit(*words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=300)

# --- report: the numbers are those of show and export ----------------------------------------------------------------
runs, page = folder + "/runs", folder + "/page"
made = maxlogit("report", runs, "-o", page)
check(made.returncode == 0 and made.stdout.strip() == page + "/index.html", "report: " + made.stderr)
index = told(open(page + "/data/index.js").read(), "index")
shown = json.loads(maxlogit("show", runs, "--json").stdout)
check(len(index["runs"]) == len(shown) == 4, f"{len(index['runs'])} runs in the page")
number = {s["name"]: s["file"] for s in index["series"]}
for run in index["runs"]:
    one = [s for s in shown if s["id"] == run["id"]][0]
    check(run["state"] == one["state"] and run["step"] == one["steps"], f"{run['id']}: {run['state']} {run['step']}")
    exported = [x.split() for x in maxlogit("export", run["path"], "attn/max_logit", "--reduce=max").stdout.splitlines() if x[0] != "#"]
    for part, best in (("max", max), ("min", min)):
        curve = told(open(f"{page}/data/{number['attn/max_logit']}.{part}.js").read(), f"{number['attn/max_logit']}.{part}")[run["key"]]
        check(curve["w"] == 1 and len(curve["s"]) == len(exported), f"{len(curve['s'])} points of {len(exported)}")
        every = [x.split() for x in maxlogit("export", run["path"], "attn/max_logit").stdout.splitlines() if x[0] != "#"]
        for i, row in enumerate(every):
            true = best(float(x) for x in row[1:])
            check(abs(curve["m"][i] - true) <= 1e-5 * abs(true), f"step {row[0]}: {curve['m'][i]}, exported {true}")
    check(abs(run["peak"]["value"] - max(float(x[1]) for x in exported)) < 1e-4, f"peak {run['peak']}")
    heads = told(open(f"{page}/data/{number['attn/max_logit']}.heads.js").read(), f"{number['attn/max_logit']}.heads")[run["key"]]
    check(math.isclose(max(max(v) for v in heads["v"]), run["peak"]["value"], rel_tol=1e-5), "the peak is not in the map of heads")
    check(len(heads["v"]) == len(heads["n"]) == 8 and heads["n"][5] == "l1h1", f"heads {heads['n']}")

# a long run: at most 512 points, and every peak stays (a spike of one step in the copy of it)
long = told(open(page + "/data/index.js").read(), "index") and maxlogit("report", folder + "/long", "-o", folder + "/longpage")
check(long.returncode == 0, "report long: " + long.stderr)
index_long = told(open(folder + "/longpage/data/index.js").read(), "index")
place = [s["file"] for s in index_long["series"] if s["name"] == "grad_norm"][0]
curve = list(told(open(f"{folder}/longpage/data/{place}.max.js").read(), f"{place}.max").values())[0]
rows = rows_of(folder + "/long", "grad_norm")
check(len(rows) > 600 and 150 < len(curve["s"]) <= 512, f"{len(curve['s'])} points of {len(rows)}")
check_thinned(curve, rows, "long")

# events: clips of the clipped runs, as many as show --events tells
clips = told(open(page + "/data/events.js").read(), "events")
for run in index["runs"]:
    true = sum(" clip " in x for x in maxlogit("show", run["path"], "--events").stdout.splitlines())
    check(sum(e[2] for e in clips[run["key"]] if e[1] == "clip") == true, f"{run['group']}: clips, {true} in the file")
check(any(clips[r["key"]] for r in index["runs"]), "no run has a clip")

bad = maxlogit("report", folder + "/nowhere", "-o", folder + "/x")
check(bad.returncode == 2 and bad.stderr.count("\n") == 1, f"report of nothing: exit {bad.returncode}, {bad.stderr}")

# a run that was killed: its steps are those of the journal, which the run file has not yet
training = subprocess.Popen([program, "run", folder + "/live.conf", f"record.path={folder}/killed/a.h5", "train.steps=100000", "checkpoint.seconds=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
lines = lambda: maxlogit("export", "--follow", folder + "/killed/a.h5").stdout.splitlines()
while not os.path.exists(folder + "/killed/a.journal") or os.path.getsize(folder + "/killed/a.journal") < 40000: time.sleep(0.05)
training.kill()
training.wait()
last = lines()[-1].split("\t")
killed = maxlogit("report", folder + "/killed", "-o", folder + "/killedpage")
check(killed.returncode == 0, "report of a killed run: " + killed.stderr)
run = told(open(folder + "/killedpage/data/index.js").read(), "index")["runs"][0]
check(run["step"] == int(last[0]) + 1 and math.isclose(run["loss"], float(last[1]), rel_tol=1e-5), f"a killed run: step {run['step']}, loss {run['loss']}, its last row is {last}")

# --- serve -------------------------------------------------------------------------------------------------------------
def serve(*words):
    s = subprocess.Popen([program, "serve", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    url = s.stdout.readline().strip()
    return s, url
server, url = serve(runs)
if not url:
    text = server.stderr.read()
    check(server.wait() == 2 and "libmicrohttpd" in text and "maxlogit report" in text, f"without a server: {text}")
    print("no libmicrohttpd in this build: serve not tried")
    sys.exit(bool(failures))
found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", url)
check(found, "address: " + url)
port, token = int(found.group(1)), found.group(2)

def ask(path, method="GET", headers={}, raw=None, port=port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        if raw is None:
            c.request(method, path, headers=headers)
            r = c.getresponse()
            return r.status, r.read().decode("utf-8", "replace"), r
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(raw)
            text = b""
            while b"\r\n" not in text and (x := s.recv(65536)): text += x
            return int(text.split()[1]) if text else 0, text.decode("latin-1"), None
    except (ConnectionError, socket.timeout, http.client.HTTPException) as e:
        return 0, repr(e), None
    finally:
        c.close()

status, text, r = ask(f"/{token}/")
check(status == 200 and "<canvas" in text and r.getheader("Content-Type").startswith("text/html"), f"the page: {status}")
check("default-src 'none'" in (r.getheader("Content-Security-Policy") or "") and r.getheader("Referrer-Policy") == "no-referrer", "headers")
for name in ("draw.js", "save.js", "runs.js", "runs.css", "style.css"):
    status, text, _ = ask(f"/{token}/{name}")
    check(status == 200 and text == open(f"{page}/{name}").read(), f"{name}: {status}")
status, text, r = ask(f"/{token}/play.html")
check(status == (200 if index["play"] else 404) and index["play"] == os.path.exists(page + "/play.html"), f"play.html: {status}, built: {index['play']}")
check(status != 200 or "script-src 'sha256-" in text and r.getheader("Content-Security-Policy") == "frame-ancestors 'none'", "policy of play.html")
def read_index(token, port):
    """When all runs have been read, in the background."""
    for _ in range(200):
        live = told(ask(f"/{token}/data/index.js", port=port)[1], "index")
        if all(r["stamp"] for r in live["runs"]): return live
        check(all(r["loss"] is None and r["peak"] is None for r in live["runs"] if not r["stamp"]), "numbers of a run that was not read")
        time.sleep(0.05)
    fail("not all runs were read in ten seconds")
    return live
live = read_index(token, port)
check(live["live"] and [r["id"] for r in live["runs"]] == [r["id"] for r in index["runs"]], "the list of runs")
key = live["runs"][0]["key"]
some = told(ask(f"/{token}/data/{number['loss']}.max.js?runs={key}")[1], f"{number['loss']}.max")
check(list(some) == [key], f"of one run came {list(some)}")
check(len(told(ask(f"/{token}/data/{number['loss']}.max.js")[1], f"{number['loss']}.max")) == 4, "of all runs")
check(ask(f"/{token}/", "HEAD")[:2] == (200, ""), "HEAD")
for steps in ("", "5", "9-5", "-1-5", "0-5x", "00-5", " 1-5", "1-99999999999999999999", "a-b", "1.0-5"):
    check(ask(f"/{token}/data/0.max.js?steps={steps.replace(' ', '%20')}")[0] == 404, f"steps={steps} is answered")
check(ask(f"/{token}/data/{number['attn/max_logit']}.heads.js?steps=1-5")[0] == 404, "steps of heads")
# a part of the steps is thinned less: of a long run none of these is
other, there = serve(folder + "/long")
found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", there)
read_index(found.group(2), int(found.group(1)))
for first, last, width in ((100, 300, 1), (0, 511, 1), (37, 37, 1), (0, 512, 2), (650, 5000, 16)):
    name = f"{place}.max"
    curve = list(told(ask(f"/{found.group(2)}/data/{name}.js?steps={first}-{last}", port=int(found.group(1)))[1], f"{name}@{first}-{last}").values())[0]
    check(curve["w"] == width, f"steps {first} to {last}: intervals of {curve['w']}")
    check_thinned(curve, [r for r in rows if first // width <= r[0] // width <= last // width], f"steps {first} to {last}")
other.terminate()
other.wait()
# nobody without the token
wrong = ("0" if token[0] != "0" else "1") + token[1:]
for path in ("/", "", "/index.html", f"/{token}", f"/{token[:-1]}/", f"/{wrong}/", f"/{wrong}/data/index.js", f"//{token}/", f"/?{token}/", f"/{token[:-1]}0{'1' if token[-1] == '0' else ''}/runs.js"):
    status, text, _ = ask(path or "/", raw=None)
    check(status == 403 and "canvas" not in text and token not in text, f"{path}: {status}")
# nor by another name of this machine, which a page of a stranger may have been given (DNS rebinding)
for host, wanted in (("localhost", 200), (f"127.0.0.1:{port}", 200), ("LOCALHOST:9", 200), ("localhost:evil.example", 403), ("127.0.0.1:80a", 403), ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403)):
    status, text, _ = ask("", raw=f"GET /{token}/runs.css HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    check(status == wanted, f"Host {host!r}: {status}")
# many requests at once on one connection: each is answered in its turn, and one without the token is the last
def ask_at_once(count, last):
    one = f"GET /{token}/runs.css HTTP/1.1\r\nHost: localhost\r\n"
    text = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall((f"{one}\r\n" * count + last.replace("ONE", one)).encode())
        while x := s.recv(65536): text += x
    return [int(x) for x in re.findall(rb"HTTP/1.1 (\d+)", text)], text.count(b"Connection: close")
for last, wanted in (("ONEConnection: close\r\n\r\n", 200), ("ONEContent-Length: 3\r\n\r\nabcONE\r\n", 200), ("ONETransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nONE\r\n", 200), (f"GET /{wrong}/ HTTP/1.1\r\nHost: localhost\r\n\r\nONE\r\n", 403)):
    check(ask_at_once(51, last) == ([200] * 51 + [wanted], 1), f"51 requests at once, then {last}: {ask_at_once(51, last)}")
# no path leaves what there is
for path in ("../index.html", "../../etc/passwd", "data/../../runs", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd",
             "data/../runs.js", "data//index.js", "data/", "data", "runs.js/", "runs.js%00", "data/0.max.js/x", "data/00.max.js", "data/-1.max.js",
             "data/99999999999999999999.max.js", "data/4000.max.js", "data/0.%6dax.jsx", "data/0.heads.js%20", "..%5c..%5cwin.ini", "ledger.css",
             os.path.basename(live["runs"][0]["path"]), "%252e%252e/etc/passwd", "page/runs.js"):
    status, text, _ = ask(f"/{token}/{path}")
    check(status in (404, 403) and "root:" not in text, f"{path}: {status} {text[:40]!r}")
    status, text, _ = ask("", raw=f"GET /{token}/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    check(status in (400, 403, 404), f"raw {path}: {status}")
check(ask("", raw=f"GET /{token}/../{token}/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())[0] == 404, "dots in a raw path")
# only reads
for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "XYZZY"):
    check(ask(f"/{token}/runs.js", method)[0] in (405, 501, 400), f"{method}: {ask(f'/{token}/runs.js', method)[0]}")
# huge and broken
huge = b"GET /" + token.encode() + b"/?" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
check(ask("", raw=huge)[0] in (0, 413, 414, 431, 400), f"a long line: {ask('', raw=huge)[0]}")
huge = b"GET /" + token.encode() + b"/ HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 200) for i in range(2000)) + b"\r\n"
check(ask("", raw=huge)[0] in (0, 413, 431, 400), f"many headers: {ask('', raw=huge)[0]}")
body = b"POST /" + token.encode() + b"/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n" + b"z" * 4096
check(ask("", raw=body)[0] in (405, 413, 400, 0), f"a large body: {ask('', raw=body)[0]}")
for raw in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"\r\n" * 50):
    ask("", raw=raw)
many = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]  # more than it takes, all silent
begun = time.monotonic()
check(ask(f"/{token}/runs.css")[0] == 200 and time.monotonic() - begun < 2, f"beside silent connections: {time.monotonic() - begun:.1f} s")
for s in many: s.close()
for _ in range(100):  # until it has seen that they are gone
    answer = ask(f"/{token}/runs.css")[0]
    if answer == 200: break
    time.sleep(0.1)
check(answer == 200, "after all this: no answer")
# requests that come a byte now and then
slow = []
for first in (b"", b"GET /" + token.encode() + b"/ HTTP/1.1\r\n"):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(first)
    slow.append(s)
begun = time.monotonic()
while slow and time.monotonic() < begun + 15:
    time.sleep(0.5)
    for s in list(slow):
        s.setblocking(False)
        try:
            s.sendall(b"X")
            gone = s.recv(10) == b""
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        if gone:
            slow.remove(s)
check(not slow, f"{len(slow)} slow requests are still there after 15 s")
other = maxlogit("serve", runs, f"--port={port}")
check(other.returncode == 1 and "port" in other.stderr and not other.stdout, f"a port that is taken: {other.returncode} {other.stderr}")
other = maxlogit("serve", runs, "--address=here")
check(other.returncode == 2 and "IPv4" in other.stderr, f"no address: {other.stderr}")

# runs that differ in their rate alone, as the figure draws them
class sequence:
    group_labels = [f"muon lr={rate}" for rate in ("0.01", "0.02", "0.04")]
    svg = ""
for label in sequence.group_labels:
    rate = label.split("=")[1]
    maxlogit("run", "-q", "model.width=8", "model.layers=1", "model.heads=2", "model.context=8", "train.batch=1", "train.steps=4",
             "train.val_every=0", f"train.lr={rate}", f"record.path={folder}/sequence/{rate}.h5")
made = maxlogit("plot", folder + "/sequence", "-o", folder + "/sequence")
check(made.returncode == 0, "plot: " + made.stderr)
sequence.svg = open(folder + "/sequence/logits.svg").read()

# --- in a browser ------------------------------------------------------------------------------------------------------
def drawn(b):  # colours on the canvas of the curves, but that of the paper
    return b.value("""(() => { const c = document.getElementById("curves"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data
      const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add(d[i] + "," + d[i + 1] + "," + d[i + 2]); return [...seen] })()""")

ready = 'plot && index.runs.every(r => r.stamp && dataOf(fileNow(), r) !== undefined)'

def look(b, url, what):
    """All that a page has to do, wherever it comes from."""
    b.go(url)
    b.wait('document.querySelectorAll("#runs tbody tr").length === 6 && plot.list.length === 2 && ' + ready)
    text = b.value("document.body.innerText")
    for word in ("4 runs: 4 finished", "muonclip", "Heads over time", f"maxlogit show {runs}", "--band=geometric", "maxlogit compare"):
        check(word in text, f"{what}: no '{word}'")
    colours = drawn(b)
    check("0,114,178" in colours and "86,180,233" in colours, f"{what}: the curves' colours are not drawn")
    # groups that differ in one number have the colours of the figures
    labels = sequence.group_labels
    painted = b.value("(() => { const all = " + json.dumps([{"label": x, "kind": "muon"} for x in labels]) + "; paint(all, 'seeds'); return all.map(g => g.colour) })()")
    inks = {"rgb(%3d,%4d,%4d)" % tuple(int(x[i:i + 2], 16) for i in (1, 3, 5)) for x in painted}
    check(len(inks) == 3 and all(x in sequence.svg for x in inks), f"{what}: a sequence is painted {painted}")
    # the axes and the threshold say what they are
    words = b.value("""(() => { const own = CanvasRenderingContext2D.prototype.fillText, words = []
      CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { words.push(text); return own.call(this, text, ...at) }
      draw(); CanvasRenderingContext2D.prototype.fillText = own; return words })()""")
    for word in ("step", "max logit, nat", "threshold 5"): check(word in words, f"{what}: not drawn: {word}")
    # the band over seeds is that of export
    band = [x.split() for x in maxlogit("export", runs, "--where", "kind=muon", "attn/max_logit", "--reduce=max", "--band=geometric").stdout.splitlines() if x and x[0] != "#"]
    row = band[40]
    got = b.value('(() => { const c = plot.list.find(c => c.group.kind === "muon"), i = c.s.indexOf(%s); return [c.n[i], c.m[i], c.lo[i], c.hi[i]] })()' % row[0])
    check(all(math.isclose(a, float(x), rel_tol=2e-5) for a, x in zip(got, row[1:])), f"{what}: band at step {row[0]}: {got}, exported {row}")
    # hover tells the step and its values
    box = b.value('(() => { const r = document.getElementById("curves"); r.scrollIntoView(); const x = r.getBoundingClientRect(); return [x.left + plot.x.at(%s), x.top + 90] })()' % row[0])
    b.mouse("mouseMoved", box[0], box[1])
    said = b.value('document.getElementById("values").innerText')
    value = re.search(r"muon\t([0-9.]+)\t\[([0-9.]+), ([0-9.]+)\] n=2", said)
    check(f"step {row[0]}" in said and value and math.isclose(float(value.group(1)), float(row[2]), rel_tol=1e-4), f"{what}: hover says '{said}'")
    # dragging zooms, 0 shows all again; arrows move the line
    b.mouse("mousePressed", box[0], box[1], button="left", clickCount=1)
    b.mouse("mouseMoved", box[0] + 200, box[1], button="left")
    b.mouse("mouseReleased", box[0] + 200, box[1], button="left", clickCount=1)
    zoomed = b.value("[plot.x.low, plot.x.high]")
    check(abs(zoomed[0] - float(row[0])) <= 1 and zoomed[1] < 100, f"{what}: dragged to {zoomed}")
    b.value('document.getElementById("curves").focus()')
    b.key("0", "0")
    check(b.value("plot.x.low") == 0 and b.value("plot.x.high") > 100, f"{what}: 0 does not show all")
    b.key("+", "+")
    check(b.value("plot.x.high - plot.x.low") < 100, f"{what}: + does not zoom")
    b.key("0", "0")
    b.key("Escape")
    b.key("ArrowRight"), b.key("ArrowRight"), b.key("ArrowRight")
    check("step 2" in b.value('document.getElementById("values").innerText'), f"{what}: arrows: " + b.value('document.getElementById("values").innerText'))
    # log axes, a filter, sorting, events, differences
    check(b.value("plot.y.log"), f"{what}: max logits are not on a logarithmic axis")
    b.value('for (const id of ["logx", "events"]) document.getElementById(id).click()')
    b.wait('plot.x.log && plot.y.log && plot.x.low >= 1 && numbers.events')
    b.value('document.getElementById("filter").value = "kind=muon & train.seed<2"; document.getElementById("filter").oninput()')
    b.wait('document.querySelectorAll("#runs tbody tr").length === 1 && plot.list.length === 1')
    shown = b.value('document.getElementById("show").innerText')
    again = subprocess.run(shown.replace("maxlogit", program, 1), shell=True, capture_output=True, text=True)
    check(again.returncode == 0 and again.stdout.count("\n") == 2, f"{what}: '{shown}' does not say one run: {again.stdout}{again.stderr}")
    b.value('document.getElementById("filter").value = "kindd=muon"; document.getElementById("filter").oninput()')
    check("no run has such a key" in b.value('document.getElementById("wrong").innerText'), f"{what}: a key that is none")
    b.value('document.getElementById("filter").value = ""; document.getElementById("filter").oninput()')
    for down in (False, True):
        b.value('document.querySelector("#runs th[data-key=val] button").click()')
        order = [float(x) for x in b.value('[...document.querySelectorAll("#runs tbody tr:not(.group)")].map(r => r.cells[5].innerText)')]
        groups = [order[:2], order[2:]]
        check(all(g == sorted(g, reverse=down) for g in groups) and (groups[0][0] > groups[1][0]) == down, f"{what}: sorted by val: {order}")
    check(b.value('document.querySelector("#runs th[data-key=val]").getAttribute("aria-sort")') == "descending", f"{what}: aria-sort")
    differences = b.value('document.getElementById("differences").innerText')
    check("stabilizers" in differences and "qk_clip" in differences and "train.lr" not in differences, f"{what}: differences: {differences}")
    # another grouping; every run; another series; the map of heads by keys
    b.value('document.getElementById("group").value = "kind"; document.getElementById("draw").value = "runs"; document.getElementById("group").onchange()')
    b.wait("plot.list.length === 4")
    b.value('document.getElementById("series").selectedIndex = index.series.findIndex(s => s.name === "loss"); document.getElementById("series").onchange()')
    b.wait('plot.list.length === 4 && document.getElementById("ofwhat").hidden && document.getElementById("export").innerText.includes(" loss")')
    # numbers that come are drawn, the table is not made again for them
    b.value("""window.made = 0; new MutationObserver(() => made++).observe(byId("runs"), {childList: true})
      byId("series").selectedIndex = index.series.findIndex(s => s.name === "grad_norm"); byId("series").onchange()""")
    b.wait('plot.list.length === 4 && seriesNow().name === "grad_norm"')
    if what == "report": check(b.value("made") == 1, f"{what}: for another series the table was made {b.value('made')} times")
    b.wait("heads.heat && heads.heat.d.n.length === 8")
    b.value('document.getElementById("heads").focus()')
    for k in ("ArrowDown", "ArrowDown", "ArrowRight"): b.key(k)
    check(re.match(r"l0h1, .*step \d+: [0-9.]+", b.value('document.getElementById("headvalue").innerText')), f"{what}: mark: " + b.value('document.getElementById("headvalue").innerText'))
    # the address keeps the view
    kept = b.value("location.href")
    b.go(kept)
    b.wait('plot && plot.list.length === 4 && plot.x.log && document.getElementById("group").value === "kind"')
    # narrow and dark
    for width, dark in ((1200, False), (400, False), (400, True), (1200, True)):
        b.go(url, width, 900, dark)
        b.wait("plot && plot.list.length === 2 && heads.heat")
        check(b.value("document.documentElement.scrollWidth") <= width, f"{what}: at {width} px it is {b.value('document.documentElement.scrollWidth')} wide")
        light = sum(map(int, re.findall(r"\d+", b.value("getComputedStyle(document.body).backgroundColor"))[:3]))
        check((light < 200) == dark, f"{what}: paper {light} where the system is {'dark' if dark else 'light'}")
        b.picture(f"{what}-{width}{'-dark' if dark else ''}")
    if dark: check(not b.console, f"{what}: on the console: {b.console[:3]}")
    wrong = [r for r in b.requests if not r.startswith((url.rsplit("/index.html")[0], "about:", "data:"))]
    check(not wrong, f"{what}: asks for {wrong[:3]}")

def in_browser(path):
    b = browsers.begin(path, folder)
    if not b: return
    try:
        page_made.session(b, page, folder + "/made", fail)
        b.requests.clear()
        look(b, "file://" + os.path.realpath(page) + "/index.html", "report")
        b.requests.clear()
        look(b, url, "serve")
        if index["play"]:
            check(b.value('!byId("play").hidden'), "no link to the page that trains")
            b.go(url + "play.html")
            b.wait("page.arms.every(a => a.runs[0].count > 3)")
            b.go(url)
            b.wait("plot")
        server.send_signal(signal.SIGINT)
        check(server.wait(20) == 0, "serve after Ctrl-C")
        b.wait('document.getElementById("about").innerText.includes("does not answer")')
        zoomed(b)
        watched(b)
        if "PAGE_LOAD" in os.environ: loaded(b, os.environ["PAGE_LOAD"])
    finally:
        b.process.kill()
        b.process.wait()

def zoomed(b):
    """A part of a long run comes finer, and goes again."""
    b.console.clear()
    server, url = serve(folder + "/long")
    b.go(url + "#series=grad_norm")
    b.wait('plot && plot.list.length && plot.list[0].w === 2 && ' + ready)
    b.value('view.from = 101; view.to = 300; draw()')
    b.wait('plot.list[0].w === 1')
    got = b.value('plot.list[0].s.map((s, i) => [s, plot.list[0].m[i]])')
    true = [r for r in rows if 101 <= r[0] <= 300]
    check(len(got) == 200 and all(a[0] == t[0] and math.isclose(a[1], t[1], rel_tol=1e-5) for a, t in zip(got, true)), f"zoomed: {got[:3]}, exported {true[:3]}")
    check("Lines are means of up to" not in b.value('document.getElementById("meaning").innerText'), "zoomed: still thinned, it says")
    b.value('document.getElementById("curves").focus()')
    for _ in range(8): b.key("-", "-")
    b.wait('view.from === null && plot.list[0].w === 2 && plot.x.high > 600')
    check(not b.value('Object.keys(numbers).some(n => n.includes("@"))'), "zoomed: what was fine is kept")
    check(not b.console, f"zoomed: on the console: {b.console[:3]}")
    b.call("Page.navigate", url="about:blank")  # or it would miss its server
    server.terminate()
    server.wait()

def loaded(b, runs):
    """How long a page of many runs takes, from the command on: PAGE_LOAD names them, and this prints it."""
    for _ in range(5):
        begun = time.monotonic()
        server, url = serve(runs)
        times = [time.monotonic() - begun]
        b.go(url)
        for done in ('document.querySelectorAll("#runs tbody tr").length > 1', ready, 'plot.list.length > 1'):
            b.wait(done)
            times.append(time.monotonic() - begun)
        print("load: address %.2f s, table %.2f s, all runs read and their curves there %.2f s, drawn %.2f s" % tuple(times))
        server.terminate()
        server.wait()

def watched(b):
    """A run that is being written: what is new comes by itself, and in the end that it is done."""
    b.console.clear()
    os.makedirs(folder + "/live", exist_ok=True)
    training = subprocess.Popen([program, "run", folder + "/live.conf", f"record.path={folder}/live/a.h5", "train.steps=100000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(folder + "/live/a.h5"): time.sleep(0.1)
    server, url = serve(folder + "/live")
    try:
        b.go(url)
        b.wait('index && index.runs[0].state === "running" && plot && plot.list.length && plot.list[0].s.length > 5')
        first = b.value("[index.runs[0].step, plot.list[0].s.at(-1)]")
        b.wait(f"index.runs[0].step > {first[0]} && plot.list[0].s.at(-1) > {first[1]}")
        check("left" in b.value('document.getElementById("runs").innerText'), "no time left: " + b.value('document.getElementById("runs").innerText'))
        training.send_signal(signal.SIGTERM)
        training.wait(60)
        b.wait('index.runs[0].state === "stopped"')
        done = int(maxlogit("show", folder + "/live", "--json").stdout.split('"steps": ')[1].split(",")[0])
        check(b.value("index.runs[0].step") == done, f"stopped after {b.value('index.runs[0].step')} steps, the file says {done}")
        shutil.copy(index["runs"][0]["path"], folder + "/live/b.h5")
        b.wait("index.runs.length === 2")
        check(not b.console, f"live: on the console: {b.console[:3]}")
    finally:
        training.kill()
        server.terminate()
        server.wait()

browser = shutil.which("chromium") or shutil.which("chromium-browser")
if browser:
    in_browser(browser)
else:
    print("chromium: not installed, the page was not looked at")
server.terminate()
check(server.wait(20) == 0, "serve after SIGTERM")
print("ok" if not failures else f"{len(failures)} failures")
sys.exit(bool(failures))
