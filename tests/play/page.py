"""The page that trains, in a headless Chromium without a network. page.py PROGRAM PAGE FOLDER CHROMIUM"""
import base64, glob, json, math, os, re, subprocess, sys, time, xml.etree.ElementTree
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import browser
from browser import check, fail, failures

program, folder = sys.argv[1], sys.argv[3]
url = "file://" + os.path.realpath(sys.argv[2])

b = browser.begin(sys.argv[4], folder)
if not b: sys.exit(77)
value, wait = b.value, b.wait
b.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
saved = folder + "/saved"
os.mkdir(saved)
b.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=saved)

ended = "page.arms.length && page.arms.every(a => a.runs.every(r => r.done))"
tiny = "model.width=16 model.heads=2 model.context=16 train.batch=2 train.val_every=20 record.spectra_every=10 train.steps=60 train.lr=0.03"
def link(arms=("muon", "muonclip"), settings=tiny, **more):
    from urllib.parse import urlencode
    return url + "#" + urlencode([("arm", a) for a in arms] + [("set", settings)] + list(more.items()))
def text_of(id):
    return value(f'byId("{id}").innerText')
def look(name, width, height=900):
    """A picture of the whole page; figures draw only where they are seen."""
    whole = value("document.documentElement.scrollHeight")
    b.call("Emulation.setDeviceMetricsOverride", width=width, height=whole, deviceScaleFactor=1, mobile=width < 500)
    time.sleep(0.8)
    open(f"{folder}/{name}.png", "wb").write(base64.b64decode(b.call("Page.captureScreenshot")["data"]))
def pixels(name):
    return value("""(() => { const c = figures.find(f => f.name === "%s").canvas, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data
      const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size })()""" % name)
def come(pattern, seconds=20):
    """The file that was saved under this name."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = [f for f in glob.glob(f"{saved}/{pattern}") if not f.endswith(".crdownload") and os.path.getsize(f)]
        if found: return found[0]
        b.receive(0.1)
    fail("not saved: " + pattern)
def maxlogit(*words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=300)
def slide(key, at):
    """Move the slider of a key to a stop."""
    value(f"""(() => {{ const s = document.querySelector('#sliders input[data-key="{key}"]'); s.value = {at}; s.dispatchEvent(new Event("input")) }})()""")

# --- the first screen -----------------------------------------------------------------------------------------------
first = []
for _ in range(3):  # the machine may be busy
    b.go(url, 1280, 900)
    wait('typeof page !== "undefined" && page.arms.every(a => a.runs.every(r => r.count > 1)) && figures[0].curves.plot.list.length > 2', 60)
    first.append(value("performance.now()") / 1000)
    if first[-1] < 2: break
check(min(first) < 2, f"the first curves come after {first} s")
wait(ended, 240)
time.sleep(0.5)
sentence = text_of("sentence")
check(re.search(r"muon: head \d of layer \d passed 100 at step \d+; the largest score is \d+\.\s+muonclip: QK-Clip holds every head at or below about 30 \(largest: \d+\)\.\s+The loss of muon(clip)? is lower by 0\.\d+ nat", sentence), "the sentence: " + sentence)
wait('byId("bits").innerText.includes("equal to the reference")', 60)

# the commands give the same numbers
for i, command in enumerate(text_of("command").split("\n")):
    path = f"{folder}/again{i}.h5"
    words = command.split()
    check(words[:2] == ["maxlogit", "run"], "command: " + command)
    done = maxlogit("run", *words[2:], "record.path=" + path)
    check(done.returncode == 0, f"{command}: {done.stderr}")
    for series, digits in (("loss", 6), ("attn/max_logit", 6)):
        rows = [[float(x) for x in line.split()] for line in maxlogit("export", path, series).stdout.splitlines() if line[0] != "#"]
        page = value(f'(() => {{ const x = page.arms[{i}].runs[0].series.get("{series}"); return x.s.map((s, k) => [s, ...x.v.map(v => v[k])]) }})()')
        check(len(rows) == len(page) == 600 and all(math.isclose(x, y, rel_tol=10.0 ** -digits, abs_tol=1e-12) for r, p in zip(rows, page) for x, y in zip(r, p)), f"{series} of {command}: {page[-1]}, the program {rows[-1]}")

# --- figures: each draws, shows values, is saved ----------------------------------------------------------------------
value("""window.files = {}; window.save = download; download = async (name, type, content) => {
  files[name] = content instanceof Blob ? [...new Uint8Array(await content.arrayBuffer()).slice(0, 4)].join() : content }""")
look("play-1280", 1280)
for name in value("figures.map(f => f.name)"):
    check(pixels(name) > 3, f"{name}: nothing is drawn")
    for kind in ("PNG", "SVG", "CSV"):
        value(f'[...document.querySelectorAll("#figure-{name} .save button")].find(b => b.textContent === "{kind}").click()')
        path = f"{name}.{kind.lower()}"
        wait(f'files["{path}"]')
        content = value(f'files["{path}"]')
        if kind == "PNG": check(content == "137,80,78,71", f"{path} is not PNG")
        if kind == "SVG": check(len(list(xml.etree.ElementTree.fromstring(content).iter())) > 10, f"{path} is empty")
        if kind == "CSV": check(content.count("\n") > 5, f"{path}: {content[:200]}")
    if name == "logits": open(folder + "/logits.svg", "w").write(value('files["logits.svg"]'))
value("download = save")
value('document.getElementById("figure-logits").querySelector("canvas").focus()')
b.key("ArrowRight"), b.key("ArrowRight")
wait('/^step 1\\s/.test(figures[0].output.innerText) && range.cursor === 1')
look("play-values", 1280)
b.key("+", "+")
wait("range.to - range.from < 310")
b.key("0", "0"), b.key("Escape")
wait("range.from === null && range.cursor === null && !figures[0].output.innerText")
box = value('(() => { const r = figures[0].canvas.getBoundingClientRect(); return [r.left, r.top] })()')
for kind, x in (("mousePressed", 200), ("mouseMoved", 400), ("mouseReleased", 400)):
    b.mouse(kind, box[0] + x, box[1] + 90, button="left", clickCount=1)
wait("range.from > 50 && range.to < 400 && figures[1].curves.plot.x.low === range.from")
value('byId("whole").click()')
value('figures.find(f => f.name === "attention").heads.value = "l0h1"; figures.find(f => f.name === "attention").heads.onchange()')
wait('figures.find(f => f.name === "attention").output.innerText.includes("l0h1") && figures.find(f => f.name === "spectrum").answers.every(x => x.head.join() === "0,1")')

# --- downloads that the program reads ---------------------------------------------------------------------------------
value('document.querySelector("#arms button").click()')
csv = come("muon-seed-1.csv")
if csv:
    made = maxlogit("import", csv, "-o", folder + "/imported.h5")
    check(made.returncode == 0, "import: " + made.stderr)
    peak = lambda path: json.loads(maxlogit("show", path, "--json").stdout)[0]["peak_max_logit"]
    check(made.returncode or peak(folder + "/imported.h5") == peak(folder + "/again0.h5"), "the imported run has another peak")

# --- controls ---------------------------------------------------------------------------------------------------------
b.go(link())
wait(ended)
for key, at, shown in (("train.lr", 8, "0.01"), ("qk_clip.tau", 4, "7"), ("train.weight_decay", 4, "0.1"), ("model.width", 2, "32"), ("model.heads", 2, "4"), ("model.layers", 0, "1"),
                       ("model.context", 2, "32"), ("train.batch", 2, "4")):
    slide(key, at)
    wait(f'page.arms.every(a => a.runs[0].setting("{key}") === "{shown}" || !isClipped(a.runs[0]) && "{key}" === "qk_clip.tau") && byId("set").value.includes("{key}={shown}") && location.hash.includes("{shown}")')
wait(ended)
value("window.kept = page.arms[0].runs[0]")
slide("train.steps", 1)
wait('kept === page.arms[0].runs[0] && kept.count === 100 && kept.done')  # more steps: the runs go on
check(value('kept.series.get("loss").s.length === 100 && kept.series.get("loss").s.every((s, i) => s === i)'), "a run that went on has other rows")
slide("train.steps", 0)
wait('kept !== page.arms[0].runs[0] && page.arms[0].runs[0].steps === 50')  # fewer: they restart
slide("seeds", 2)
wait('page.arms.every(a => a.runs.length === 3) && ' + ended, 60)
check(value('figures[0].curves.describe().list.every(c => c.lo && c.n.at(-1) === 3)'), "no intervals over seeds")
for seed in (1, 2, 3):
    words = text_of("command").split("\n")[0].split()[2:]
    maxlogit("run", *words, f"train.seed={seed}", f"record.path={folder}/seeds/{seed}.h5")
band = [float(x) for x in maxlogit("export", folder + "/seeds", "attn/max_logit", "--reduce=max", "--band=geometric").stdout.splitlines()[-1].split()]
drawn = value('(() => { const c = figures[0].curves.describe().list[0]; return [c.s.at(-1), c.n.at(-1), c.m.at(-1), c.lo.at(-1), c.hi.at(-1)] })()')
check(all(math.isclose(x, y, rel_tol=1e-4) for x, y in zip(band, drawn)), f"the band over seeds: {drawn}, exported {band}")
check(value('new Set(page.arms[0].runs.map(r => r.setting("train.seed"))).size') == 3, "seeds")

b.go(link(("muon", "muon train.steps=400"), tiny.replace("=60", "=1300").replace("train.batch=2", "train.batch=1")))  # more steps than points
wait(ended + " && rows.size", 60)
wait('figures[1].note.innerText.includes("mean of 3 rows") && figures[0].note.innerText.includes("largest of 3 rows")')
got = value('(() => { const run = page.arms[0].runs[0], x = run.series.get("loss").v[0], c = figures[1].curves.describe().list[0]; return [c.s[7], c.m[7], (x[21] + x[22] + x[23]) / 3] })()')
check(got[0] == 21 and math.isclose(got[1], got[2], rel_tol=1e-9), f"thinned: {got}")
got = value("""(() => { const {d} = figures.find(f => f.name === "map").describe(), v = d.v.at(-1), i = d.s.findIndex(s => s > 399)
  return [d.w, d.v.every(v => v.length === d.s.length), v.slice(0, i).every(Number.isFinite), v.slice(i).every(Number.isNaN)] })()""")
check(got == [3, True, True, True], f"the map of arms with other steps: {got}")

b.go(link(settings=tiny.replace("=60", "=100000")))
wait('page.arms.every(a => a.runs[0].count > 5)')
value('byId("pause").click()')
time.sleep(0.4)
before = value("page.arms.map(a => a.runs[0].count)")
time.sleep(0.4)
check(value("page.arms.map(a => a.runs[0].count)") == before and text_of("pause") == "Continue", "paused, it trains")
value('take({set: withKey(page.state.set, "train.steps", 200000)})')  # paused, more steps keep the rows
wait("page.arms.every(a => a.runs[0].steps === 200000)")
check(value('page.arms.every(a => a.runs[0].series.get("loss").s.length === a.runs[0].count)') and "-∞" not in text_of("sentence"), "more steps while paused: " + text_of("sentence"))
value('byId("step").click()')
wait(f"page.arms.map(a => a.runs[0].count).join() === '{','.join(str(n + 1) for n in before)}'")
value('byId("pause").click()')
wait(f"page.arms[0].runs[0].count > {before[0] + 5}")
value('Object.defineProperty(document, "hidden", {value: true, configurable: true}); document.onvisibilitychange()')
time.sleep(0.4)
before = value("page.arms.map(a => a.runs[0].count)")
time.sleep(0.4)
check(value("page.arms.map(a => a.runs[0].count)") == before, "hidden, it trains")
value('delete document.hidden; document.onvisibilitychange()')
wait(f"page.arms[0].runs[0].count > {before[0]}")
value('byId("add").click()')
wait('page.arms.length === 3 && page.arms[2].preset === "adam" && document.querySelectorAll("#arms li").length === 3')
value('document.querySelectorAll("#arms button")[1].click()')
wait('page.arms.length === 2 && page.arms[0].preset === "muonclip"')
value('(() => { const s = document.querySelector("#arms select"); s.value = "adamclip"; s.onchange() })()')
wait('page.arms[0].preset === "adamclip" && page.arms[0].runs[0].count > 0')

# --- all settings -----------------------------------------------------------------------------------------------------
b.go(link())
wait(ended + ' && completion')
for words, wrong in (("train.lt=1", "unknown key; did you mean 'train.lr'?"), ("train.lr=abc", "'abc' is not a number"), ("model.width=33", "is not whole"), ("nonsense", "")):
    value(f'window.kept = page.arms[0].runs[0]; byId("set").value = "{tiny} {words}"; byId("set").onchange()')
    wait(f'byId("wrong").innerText.includes({json.dumps(wrong)}) && byId("wrong").innerText && byId("set").getAttribute("aria-invalid") === "true"')
    check(value("kept === page.arms[0].runs[0]"), f"{words}: the runs were lost")
theirs = maxlogit("run", "preset=muon", "train.lt=1").stderr.split("command line: ")[1].strip()
value(f'byId("set").value = "{tiny} train.lt=1"; byId("set").onchange()')
wait(f'byId("wrong").innerText.endsWith({json.dumps(theirs)})')
value('(() => { const i = document.querySelector("#arms input"); i.value = "train.lr=x"; byId("set").value = page.state.set; i.onchange() })()')
wait('page.arms[0].wrong.innerText.includes("not a number") && !byId("wrong").innerText')
value('byId("set").value = ""; byId("set").focus()')
for letter in "clip.ta": b.key(letter, letter)
check(value('[...byId("choices").children].some(li => li.dataset.text === "qk_clip.tau=") && byId("set").getAttribute("aria-expanded") === "true"'), "no completion: " + value('byId("choices").innerText'))
b.key("ArrowDown")
check(value('byId(byId("set").getAttribute("aria-activedescendant")).getAttribute("aria-selected")') == "true", "no active completion")
b.key("Tab")
check(value('byId("set").value') == "qk_clip.tau=" and value("document.activeElement.id") == "set", "completed: " + value('byId("set").value'))
check("default 100" in text_of("help"), "help: " + text_of("help"))
value('byId("set").value = "qk_clip.scope="; byId("set").setSelectionRange(14, 14); completion.open()')
check(value('[...byId("choices").children].map(li => li.dataset.text).join()') == "qk_clip.scope=head,qk_clip.scope=layer", "choices of a key")
b.key("Escape")
check(value('byId("choices").hidden'), "Escape does not close")

# --- runs that fail say so ----------------------------------------------------------------------------------------------
for rate, word in (("1000", "diverged"), ("3", "blew up")):
    b.go(link(("muon",), f"train.steps=100 train.lr={rate} model.context=32"))
    wait(ended, 60)
    wait(f'byId("sentence").innerText.includes("{word}")')
got = value('[figures[1].curves.describe().ceiling, Math.max(...page.arms[0].runs[0].series.get("loss").v[0].slice(10))]')
check(got[0] >= got[1], f"the axis cuts off the blow-up: {got}")
b.go(link(("muon",), tiny + " train.lr=abc"))
wait('page.arms[0].runs[0].state === "failed" && byId("sentence").innerText.includes("not a number")')

# --- sentences --------------------------------------------------------------------------------------------------------
for settings, words in (("train.lr=3", "QK-Clip does not hold"), ("train.lr=0.003", "at or below about 1 (largest after the first step")):
    b.go(link(("muonclip",), f"{tiny} {settings} qk_clip.tau=1"))
    wait(ended + f' && byId("sentence").innerText.includes("{words}")')
b.go(link(("muon", "muon train.steps=100 train.lr=0.01")))
wait(ended + r' && /At step \d+ the loss/.test(byId("sentence").innerText) && byId("regime").innerText.includes("learning rate 0.03 or 0.01")')
slide("train.steps", 3)  # more steps for the arm without its own
wait('page.arms[0].runs[0].count === 300 && page.arms[1].runs[0].count === 100 && ' + ended)
for seeds, there in ((2, [7, 8]), (1, [7])):
    b.go(link(("muon train.seed=7",), seeds=seeds))
    wait(ended)
    check(value('page.arms[0].runs.map(r => r.seed)') == value('page.arms[0].runs.map(r => Number(r.setting("train.seed")))') == there, f"the seeds of an arm: not {there}")

# too large for the module: the message, and the next settings are taken
b.go(link())
wait(ended + " && completion")
value(f'byId("set").value = "model.width=32768"; byId("set").onchange()')
wait('byId("wrong").innerText', 40)
value(f'byId("set").value = "{tiny} train.seed=7"; byId("set").onchange()')
wait('!byId("wrong").innerText && page.arms[0].runs[0].setting("train.seed") === "7"')

# the other module: the same bits, or those of base, and it says so
value("""unpack("exact").then(bytes => WebAssembly.compile(bytes)).then(async module => { const engine = new Engine(() => {})
  await engine.ready; await engine.call("load", module); window.exact = await engine.call("doctor"); engine.end() })""")
wait("window.exact", 60)
check(value('exact.bits === exact.reference || exact.level === "base" && exact.bits.length === 16'), f"the other module: {value('exact')}")

# --- links ----------------------------------------------------------------------------------------------------------------
b.go(link(("muonclip qk_clip.tau=7", "adam"), head="l1h0", other="lr", seeds=2))
wait(ended)
value("keep()")
here = value("location.href")
state = value("JSON.stringify(page.state)")
b.go(here)
wait(ended)
check(value("JSON.stringify(page.state)") == state and value('page.arms[0].tau === 7 && page.state.other === "lr" && page.arms[0].runs.length === 2'), "the link is another state")
b.go(link(embed=1, view="logits"))
wait(ended)
check(value('[...document.querySelectorAll("header, #controls, footer, .figure:not(#figure-logits)")].every(e => getComputedStyle(e).display === "none" || e.offsetHeight === 0)'), "embedded: more than a figure")
look("play-embed", 800)
b.go(url + "#arm=%3Cimg%20src%3Dx%3E&set=a%27%22%3Cb&seeds=-5&lesson=99&head=%00&view=none")  # from a stranger
wait('page.arms[0].runs[0].state === "failed"')

# --- lessons --------------------------------------------------------------------------------------------------------------
count = value("lessons.length")
check(count == 8, f"{count} lessons")
for n in range(1, count + 1):
    b.go(f"{url}#lesson={n}")
    wait('!byId("lesson").hidden && page.arms.every(a => a.runs[0].count > 2) && lessonSlide && rows.size')
    check(value(f"lessons[{n - 1}].text.length") == 5, f"lesson {n} has other than five sentences")
    shown = value('[...document.querySelectorAll(".figure")].filter(f => f.offsetHeight).map(f => f.id.slice(7)).join()')
    check(shown == value(f'lessons[{n - 1}].state.view.join()'), f"lesson {n} shows {shown}")
    check(all(e == "" for e in value("page.arms.map(a => a.runs[0].error)")), f"lesson {n}: {value('page.arms.map(a => a.runs[0].error)')}")
    value('(() => { const s = lessonSlide.root.querySelector("input"); s.value = Number(s.value) - 1 < 0 ? 1 : Number(s.value) - 1; s.dispatchEvent(new Event("input")) })()')
    wait('byId("answer").innerText')
    if n == 1:
        wait(ended, 120)
        wait('byId("answer").innerText === lessons[0].answer')
        value('byId("all").click()')
        check(value('[...document.querySelectorAll(".figure")].every(f => f.offsetHeight > 0)'), "not all figures")

# --- keyboard and screen reader ---------------------------------------------------------------------------------------------
b.go(link())
wait(ended + " && rows.size")
nameless = [n["role"]["value"] for n in b.call("Accessibility.getFullAXTree")["nodes"]
            if n.get("role", {}).get("value") in ("button", "slider", "combobox", "textbox", "link", "image", "listbox") and not n.get("name", {}).get("value")]
check(not nameless, f"without a name: {nameless}")
reached = set()
value("document.body.focus()")
for _ in range(150):
    for kind in ("keyDown", "keyUp"): b.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    reached.add(value('(e => e.id || e.dataset.key || e.textContent || e.tagName)(document.activeElement)'))
    value('byId("choices").hidden = true')
check({"pause", "step", "restart", "set", "add", "train.lr", "seeds", "free"} <= reached, f"by Tab: {sorted(reached)}")
check(value('byId("spoken").getAttribute("role") === "status" && byId("spoken").textContent.includes("muonclip")'), "a screen reader hears nothing")

# --- narrow, wide, dark, calm ------------------------------------------------------------------------------------------------
for width, dark in ((360, False), (360, True), (1280, True), (3840, False)):
    b.go(link(), width, 800, dark)
    wait(ended + " && rows.size")
    check(value("document.documentElement.scrollWidth") <= width, f"at {width} px it is {value('document.documentElement.scrollWidth')} wide")
    light = sum(map(int, re.findall(r"\d+", value("getComputedStyle(document.body).backgroundColor"))[:3]))
    check((light < 200) == dark, f"paper {light} where the system is {'dark' if dark else 'light'}")
    look(f"play-{width}{'-dark' if dark else ''}", width)
b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
check(value("calm.matches"), "reduced motion")

# --- a hundred runs -----------------------------------------------------------------------------------------------------------
b.go(link(settings=tiny.replace("=60", "=20")), 1280, 900)
wait(ended)
def resident():
    """Bytes of the browser's processes."""
    parents = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try: fields = open(stat).read().rpartition(")")[2].split()
        except OSError: continue
        parents[int(stat.split("/")[2])] = (int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGESIZE"))
    def is_ours(p):
        while p in parents and p != b.process.pid: p = parents[p][0]
        return p == b.process.pid
    return sum(size for p, (_, size) in parents.items() if is_ours(p))
def restart(times):
    for _ in range(times):
        value('byId("restart").click()')
        wait(ended)
restart(10)
begun = resident()
restart(50)
check(resident() < begun + 150e6, f"after 100 runs {resident() / 1e6:.0f} MB, before {begun / 1e6:.0f}")

check(not b.console, f"on the console: {b.console[:3]}")
asked = [r for r in b.requests if not r.startswith((url, "about:", "data:", "blob:"))]
check(not asked, f"asks for {asked[:3]}")
b.process.kill()
b.process.wait()
print("first curves after %.2f s" % min(first))
print("ok" if not failures else f"{len(failures)} failures")
sys.exit(bool(failures))
