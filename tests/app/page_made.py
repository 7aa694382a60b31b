"""The page of runs over made-up numbers, whole: tests/golden/page.txt has lines of JavaScript (`$ ...`), each followed by
what has become of the page: texts, choices, commands, and all that is drawn. MAXLOGIT_TEST_RENEW=1 writes it anew:
every line that changes is to be read."""
import json, os, shutil

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "page.txt")

KEYS = "abcdefghi"
STEPS = [0, 2, 4, 8, 16, 32]

def value(run, series, i):  # a number of its own, in quarters
    return 1 + (run * 37 + series * 11 + i * (5 + run) + i * i) % 53 / 4

def run(key, kind, seed, state, step, **more):
    place = lambda x, l, h: {"value": x, "step": 4, "layer": l, "head": h}
    n = KEYS.index(key)
    out = {"key": key, "stamp": "s" + key, "path": f"runs/{key}.h5", "id": "00" + key, "group": kind, "kind": kind.split()[0], "seed": seed,
           "date": f"2026-0{n + 1}-03T04:05:06Z", "state": state, "step": step, "steps": 40, "left": None, "seconds_per_step": None if n == 6 else (n + 1) / 4, "loss": 2.5 - n / 8, "val": 3 + (5 * n % 7) / 16,
           "peak": place(10.123456 * (n + 1), 0, n % 2), "last": place(9.5 - n, 1, 0), "tau": None, "own": {"train.lr": "0.01", "train.seed": str(seed)}}
    own = more.pop("own", {})
    return {**out, **more, "own": {**out["own"], **own}}

INDEX = {
    "live": False, "made": "2026-02-03T04:05:06Z", "words": ["runs", "it's odd"], "t": [12.7062047, 4.30265273, 3.18244631],
    "common": {"model.layers": "2", "preset": "", "train.batch": "2", "model.context": "8"},
    "series": [{"name": "loss", "unit": "nat", "about": "training loss", "heads": False}, {"name": "attn/max_logit", "unit": "", "about": "max logit", "heads": True},
               {"name": "val_loss", "unit": "nat", "about": "validation loss", "heads": False}, {"name": "grad_norm", "unit": "", "about": "gradient norm", "heads": False},
               {"name": "moe/load", "unit": "", "about": "share of tokens", "heads": True}],
    "runs": [run("a", "muon", 1, "finished", 40), run("b", "muon", 2, "finished", 40), run("c", "muon", 3, "diverged", 17, loss="NaN", peak={"value": "Infinity", "step": 4, "layer": 0, "head": 1}),
             run("d", "muonclip", 1, "finished", 40, tau=6, own={"qk_clip.tau": "6"}), run("e", "muonclip", 2, "finished", 40, tau=6, own={"qk_clip.tau": "6"}),
             run("f", "muonclip", 11, "killed", 33, tau=9.5, path="runs/it's f.h5", own={"qk_clip.tau": "9.5"}),
             run("g", "muon lr=0.02", 1, "running", 5, left=5400, val=None, last=None, own={"train.lr": "0.02"}),
             run("h", "sgd", 4, "stopped", 1, peak=None, last=None, val="-Infinity", loss=1.25e-5, own={"train.lr": "1e9", "arm": "wild"}),
             run("i", "adam", 1, "finished", 40, path="other/i.h5", loss=2.5e7)],
}

for number, series in enumerate(INDEX["series"]): series["file"] = number

def curve(r, s):
    n = 1 if r == 7 else 2 if r == 6 else len(STEPS)
    out = {"w": 1, "s": STEPS[:n], "m": [value(r, s, i) for i in range(n)]}
    if r == 2: out["m"][3:6] = [float("nan"), float("inf"), -1.5]
    if r == 8: out["m"][2] = -0.5
    if r in (4, 5): out.update(w=4, l=[x / 2 for x in out["m"]], h=[x + 3 for x in out["m"]])
    if r == 5: out["h"][1] = out["l"][1] = out["m"][1]
    return out

def heads(r, s):
    n = 1 if r == 7 else len(STEPS)
    out = {"w": 4 if r == 5 else 1, "s": STEPS[:n], "n": ["l0h0", "l0h1", "l1h0", "l1h1"], "v": [[value(r, s + h, i) for i in range(n)] for h in range(4)]}
    if r == 2: out["v"][1][2:4] = [float("nan"), -2]
    if r == 8: out["v"] = [[3] * n for _ in out["n"]]
    return out

EVENTS = {"a": [[4, "spike", 1, -1, -1, 7.5], [8, "checkpoint", 1, -1, -1, float("nan")]],
          "c": [[8, "nonfinite", 1, -1, -1, float("nan")], [16, "odd", 2, 1, -1, 3]],
          "d": [[0, "clip", 3, 0, 1, 0.5], [2, "clip", 2, 1, 0, 0.75], [16, "resume", 1, -1, -1, float("nan")]],
          "e": [[2, "clip", 4, 1, 1, 0.25], [3, "clip", 1, 0, 0, 0.625]]}

def make(page, folder):
    shutil.copytree(page, folder, ignore=shutil.ignore_patterns("data"))
    os.mkdir(folder + "/data")
    def put(name, what):
        open(f"{folder}/data/{name}.js", "w").write(f'take("{name}",{json.dumps(what)})')
    put("index", INDEX)
    put("events", EVENTS)
    for s, series in enumerate(INDEX["series"]):
        for part in range(3 if series["heads"] else 1):
            put(f"{s}.{('max', 'min', 'mean')[part]}", {k: curve(r, 10 * s + part) for r, k in enumerate(KEYS) if not (s == 2 and k == "h")})
        put(f"{s}.heads", {k: heads(r, s) for r, k in enumerate(KEYS) if series["heads"] and not (s == 4 and k == "b")})

# What is drawn is told instead; canvases have one size, and letters one width.
DRIVER = r"""(() => {
  const log = {}, r = x => typeof x !== "number" ? String(x) : String(Math.abs(x) < 1e4 ? +x.toFixed(1) : +x.toPrecision(4))
  for (const id of ["curves", "heads"]) {
    const canvas = byId(id), state = {}, stack = []
    let path = []
    const mark = (what, ...rest) => { const at = log[id]; at.push(what + " " + rest.join(" ")) }
    const how = () => (state.globalAlpha ?? 1) !== 1 ? " alpha " + r(state.globalAlpha) : ""
    const own = {
      setTransform: (...a) => { state.paper = a }, clearRect: (...a) => { log[id] = [`paper ${state.paper} ${a} of ${canvas.width} x ${canvas.height}`] }, measureText: t => ({width: 7 * t.length}),
      save: () => stack.push({...state}), restore: () => Object.assign(state, stack.pop()),
      beginPath: () => { path = [] }, moveTo: (x, y) => path.push("M" + r(x) + "," + r(y)), lineTo: (x, y) => path.push(r(x) + "," + r(y)),
      arc: (x, y, s) => path.push("o" + r(x) + "," + r(y) + "," + s), rect: (...a) => path.push("[]" + a.map(r)), clip: () => mark("clip", ...path),
      stroke: () => mark("line", state.strokeStyle, state.lineWidth, "(" + (state.dash || []) + ")" + how(), ...path),
      fill: () => mark("area", state.fillStyle + how(), ...path), setLineDash: d => { state.dash = d },
      fillRect: (...a) => mark("rect", state.fillStyle + how(), a.map(r)), strokeRect: (...a) => mark("frame", state.strokeStyle, state.lineWidth, a.map(r)),
      fillText: (t, x, y, most) => mark("text", JSON.stringify(t), r(x) + "," + r(y), state.textAlign, state.textBaseline, state.fillStyle + (most === undefined ? "" : " within " + r(most))),
      translate: (...a) => mark("move", a.map(r)), rotate: a => mark("turn", r(a)),
    }
    canvas.getContext = () => new Proxy(state, {get: (s, k) => own[k] || s[k], set: (s, k, v) => { s[k] = v; return true }})
    for (const [k, v] of [["clientWidth", 800], ["clientHeight", id === "curves" ? 346 : 244]]) Object.defineProperty(canvas, k, {get: () => window.narrow && k === "clientWidth" ? 400 : v})
    canvas.getBoundingClientRect = () => ({left: 100, top: 50})
  }
  log.asked = []
  const append = document.head.append.bind(document.head)
  document.head.append = s => { log.asked.push(s.src.replace(/^.*data\//, "")); append(s) }
  const swatch = e => { const s = e.querySelector(".swatch"); return s ? s.style.borderTopColor + " " + s.style.borderTopStyle : "" }
  const select = id => { const s = byId(id); return id + ": " + [...s.options].map(o => (o.selected ? "*" : "") + (o.value === o.label ? "" : o.value + " ") + o.label).join(" | ") }
  const table = e => [...e.rows].map(row => row.className === "group" ? "== " + [...row.cells].map(c => c.textContent).join(" | ") + " " + swatch(row) + " " + row.cells[0].colSpan :
    [...row.cells].map(c => c.textContent + (c.querySelector("progress") ? " (" + c.querySelector("progress").value + "/" + c.querySelector("progress").max + ")" : "") + (c.title ? " {" + c.title + "}" : "")).join(" | ") + "  <" + [...row.cells].map(c => c.className) + ">")
  const dump = () => ({
    title: [document.title], address: [location.hash], about: [byId("about").textContent], wrong: [byId("wrong").hidden + " " + byId("wrong").textContent],
    show: [byId("show").textContent], export: byId("export").textContent.split("\n"), heatmap: [byId("heatmap").textContent], compare: [byId("compare").textContent],
    meaning: [byId("meaning").textContent], values: [byId("values").innerText.replace(/\s+/g, " ").trim()], headvalue: [byId("headvalue").textContent],
    choices: ["group", "series", "headseries", "headrun", "runa", "runb", "reduce", "draw", "over", "smooth"].map(select).concat(["logx", "logy", "events", "logcolour"].map(id => id + ": " + byId(id).checked)),
    hidden: ["ofwhat", "heads-section"].map(id => id + ": " + byId(id).hidden), heading: [...byId("runs").tHead.rows[0].cells].map(c => c.dataset.key + " " + c.getAttribute("aria-sort") + " " + c.textContent + " " + c.className),
    table: table(byId("runs").tBodies[0]), legend: [...byId("legend").children].map(li => li.textContent + " " + li.firstChild.getAttribute("aria-pressed") + " " + swatch(li)),
    differences: table(byId("differences").tBodies[0]), labels: ["curves", "heads"].map(id => byId(id).getAttribute("aria-label")),
    asked: log.asked.splice(0), curves: [...log.curves || []], heads: [...log.heads || []]})
  let before = {}
  window.loading = 0
  const own = load
  window.load = (...what) => { loading++; return own(...what).finally(() => loading--) }
  window.told = () => {
    const now = dump(), out = []
    for (const k in now) {
      const old = before[k] || [], fresh = now[k].filter(x => !old.includes(x)), gone = old.filter(x => !now[k].includes(x)).length
      for (const x of fresh) if (x || old.length) out.push(k + ": " + x)
      if (k !== "asked" && gone > fresh.length) out.push(k + ": " + (gone - fresh.length) + " fewer")
      else if (!fresh.length && !["curves", "heads"].includes(k) && JSON.stringify(old) !== JSON.stringify(now[k]) && old.length === now[k].length) out.push(k + ": another order: " + now[k].map(x => x.slice(0, 12).trim()).join("; "))
    }
    before = now
    return out
  }
  window.pick = (id, value) => { const e = byId(id); if (e.type === "checkbox") e.checked = value; else e.value = value; (e.oninput || e.onchange)() }
  window.sort = key => document.querySelector("#runs th[data-key=" + key + "] button").click()
  window.press = (id, ...keys) => keys.map(key => { const e = new KeyboardEvent("keydown", {key, cancelable: true}); byId(id).onkeydown(e); return e.defaultPrevented })
  window.point = (id, kind, x, y, button = 0) => { byId(id)["onpointer" + kind]({clientX: 100 + x, clientY: 50 + (y || 0), button, pointerId: 1}) }
  window.tell = x => typeof x === "number" ? Object.is(x, -0) ? "-0" : String(+x.toPrecision(9)) : typeof x === "string" ? JSON.stringify(x) : Array.isArray(x) ? "[" + x.map(tell).join(",") + "]" : x && typeof x === "object" ? "{" + Object.entries(x).map(([k, v]) => k + ":" + tell(v)).join(",") + "}" : String(x)
  window.ask = async lines => {
    const out = []
    for (const line of lines) {
      const x = eval(line), said = x === undefined || x === null || x instanceof Element ? [] : [tell(x)]
      do await new Promise(done => setTimeout(done, 0)); while (loading)
      out.push(said.concat(told()))
    }
    return out
  }
  draw()
})()"""

def session(browser, page, folder, fail, golden=GOLDEN):
    """What the page says to each line, against the golden file."""
    make(page, folder)
    browser.call("Page.setBypassCSP", enabled=True)  # the lines below are evaluated in the page, which allows no eval
    browser.go(f"file://{os.path.realpath(folder)}/index.html")
    if not browser.wait("plot && !Object.keys(waiting).length"): return
    browser.value(DRIVER)
    wanted = [part.partition("\n") for part in filter(None, ("\n" + open(golden).read()).split("\n$ "))]
    answer = browser.call("Runtime.evaluate", expression=f"ask({json.dumps([line for line, _, _ in wanted])})", awaitPromise=True, returnByValue=True)
    if "exceptionDetails" in answer: return fail(f"the page: {answer['exceptionDetails']}")
    got, wrong = answer["result"]["value"], 0
    for (line, _, told), lines in zip(wanted, got):
        if told.rstrip("\n") == "\n".join(lines): continue
        wrong += 1
        new = [x for x in lines if x not in told.split("\n")] or ["fewer lines, or others' order"]
        if wrong <= 5 and not os.environ.get("MAXLOGIT_TEST_RENEW"): fail(f"the page, after {line}: {new[0][:300]}")
    thrown = [x for x in browser.console if "ERR_FILE_NOT_FOUND" not in x]
    if thrown: fail(f"the page, on the console: {thrown[:3]}")
    browser.console.clear()
    browser.call("Page.setBypassCSP", enabled=False)
    if os.environ.get("MAXLOGIT_TEST_RENEW"): open(golden, "w").write("".join("\n".join(["$ " + line] + lines) + "\n" for (line, _, _), lines in zip(wanted, got)))
    elif wrong > 5: fail(f"the page: after {wrong} lines something else")
