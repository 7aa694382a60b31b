/* runs.js - the page of runs: what data/*.js tell by take() is kept, and drawn on canvases */
"use strict"

/* --- what is known ------------------------------------------------------------------------------------- */
let index = null                 // of data/index.js
const numbers = {}               // file -> run key -> {stamp, data}
const waiting = {}               // file -> functions to call when it has come
const hidden = new Set()         // labels of groups that are not drawn
const view = {sort: "", down: false, from: null, to: null, cursor: null, fine: null, series: ""} // fine: the file of from .. to; series: wanted, and not there yet
let frozen = 0

function take(file, what) {
  if (file === "index") index = what
  else {
    const kept = numbers[file] = numbers[file] || {}
    for (const key in what) kept[key] = {data: what[key], stamp: (runOf(key) || {}).stamp}
  }
}

/* A script: from a disk nothing else can be read. Of a server, runs: the keys of those that are wanted; behind @ the
   steps that are. */
function load(file, runs) {
  const script = document.createElement("script"), [name, steps] = file.split("@")
  const some = (runs && runs.length && runs.length < 300 ? "&runs=" + runs.join(",") : "") + (steps ? "&steps=" + steps : "")
  script.src = "data/" + name + ".js" + (index && index.live ? "?n=" + ++frozen + some : "")
  return new Promise((done, failed) => {
    script.onload = () => { script.remove(); done() }
    script.onerror = () => { script.remove(); failed(new Error(file)) }
    document.head.append(script)
  })
}

/* What is missing of a file for these runs, or old, is asked for; `then` when something has come. A run without a stamp
   the server has not read yet. */
function want(file, runs, then) {
  const kept = numbers[file] || {}
  const old = runs.filter(r => r.stamp && (!kept[r.key] || kept[r.key].stamp !== r.stamp))
  if (!old.length || waiting[file]) return
  const stamps = old.map(r => [r.key, r.stamp])
  waiting[file] = true
  load(file, old.map(r => r.key)).then(() => {
    const now = numbers[file] = numbers[file] || {}
    for (const [key, stamp] of stamps) (now[key] = now[key] || {data: null}).stamp = stamp // null: it has none
    delete waiting[file]
    then()
  }, () => { delete waiting[file] })
}
const dataOf = (file, run) => ((numbers[file] || {})[run.key] || {}).data

const runOf = key => index && index.runs.find(r => r.key === key)
const number = x => typeof x === "number" ? x : x === "NaN" ? NaN : x === "Infinity" ? Infinity : x === "-Infinity" ? -Infinity : null
const nameOf = run => run.path.replace(/^.*\//, "")
const parameter = (run, key) => key in run.own ? run.own[key] : index.common[key]

function valueOf(run, key) {
  const place = p => p ? number(p.value) : null
  switch (key) {
    case "name": return run.group
    case "kind": case "state": case "id": case "seed": case "date": return run[key]
    case "steps": return run.step
    case "loss": case "val": return number(run[key])
    case "peak": case "last": return place(run[key])
    case "file": return nameOf(run)
  }
  return parameter(run, key)
}

/* --- the table ----------------------------------------------------------------------------------------- */
const columns = [["name", "run"], ["seed", "seed"], ["state", "state"], ["steps", "steps"],
  ["loss", "loss", "wide"], ["val", "val"], ["peak", "peak max logit"], ["last", "last max logit", "wide"],
  ["date", "started", "wide"], ["file", "file", "wide"]]
const measured = ["loss", "val", "peak", "last"] // metrics; a group has a mean of each

function duration(s) {
  if (s === null || !Number.isFinite(s)) return ""
  s = Math.max(0, Math.round(s))
  return s < 60 ? s + " s" : s < 3600 ? Math.round(s / 60) + " min" : s < 172800 ? (s / 3600).toFixed(1) + " h" : (s / 86400).toFixed(1) + " days"
}

/* The conditions of --where, joined by &; else words that the line of a run has to have. */
function readFilter(text) {
  const parts = text.split("&").map(x => x.trim()).filter(x => x)
  const conditions = parts.map(x => /^([\w./]+)\s*(!=|<=|>=|=|<|>)\s*(.*)$/.exec(x))
  if (!parts.length) return {holds: () => true, where: ""}
  if (conditions.some(c => !c)) {
    const words = text.toLowerCase().split(/\s+/)
    return {holds: r => { const line = [r.group, r.state, r.path, r.id, "seed " + r.seed].join(" ").toLowerCase()
      return words.every(w => line.includes(w)) }}
  }
  for (const [, key] of conditions)
    if (!(key in index.common) && !["kind", "state", "id", "seed", "steps", "date", ...measured].includes(key) && !index.runs.some(r => key in r.own))
      return {holds: () => true, where: "", wrong: key + ": no run has such a key"}
  const holds = (run, [, key, op, wanted]) => {
    const x = valueOf(run, key), known = x !== undefined && x !== null && x !== ""
    const same = w => known && (String(x) === w || (w !== "" && Number(x) === Number(w)))
    const order = w => w.trim() !== "" && !isNaN(x) && !isNaN(w) ? Number(x) - Number(w) : String(x) < w ? -1 : String(x) > w ? 1 : 0
    const any = wanted.split(",").some(w => same(w.trim()))
    return op === "=" ? any : op === "!=" ? !any : known && (op === "<" ? order(wanted) < 0 : op === "<=" ? order(wanted) <= 0 :
      op === ">" ? order(wanted) > 0 : order(wanted) >= 0)
  }
  return {holds: r => conditions.every(c => holds(r, c)), where: parts.join(" & ")}
}

function compare(a, b) {
  const none = x => x === null || x === undefined || x === ""
  if (none(a) || none(b)) return none(a) - none(b)
  if (typeof a === "number" && typeof b === "number" && (Number.isNaN(a) || Number.isNaN(b))) return Number.isNaN(a) - Number.isNaN(b)
  const x = Number(a), y = Number(b)
  if (!isNaN(x) && !isNaN(y)) return x - y
  return String(a).localeCompare(String(b))
}

/* The runs that are shown, as groups: [{label, kind, runs, colour, dash}]. */
function groups() {
  const filter = readFilter(byId("filter").value), by = byId("group").value, out = new Map()
  byId("wrong").hidden = !filter.wrong
  byId("wrong").textContent = filter.wrong || ""
  for (const run of index.runs) {
    const label = by === "seeds" ? run.group : by === "none" ? run.group + " seed " + run.seed + " " + run.id : String(valueOf(run, by) ?? "none")
    if (!out.has(label)) out.set(label, {label: by === "seeds" || by === "none" ? label : by + "=" + label, kind: run.kind, runs: []})
    out.get(label).runs.push(run)
  }
  const all = [...out.values()]
  paint(all, by)
  const shown = all.map(g => ({...g, runs: g.runs.filter(filter.holds)})).filter(g => g.runs.length)
  if (view.sort) {
    const order = (a, b) => { // what has no value stays at the end
      const x = valueOf(a, view.sort), y = valueOf(b, view.sort), there = v => v !== null && v !== undefined && v !== ""
      return there(x) && there(y) && view.down ? -compare(x, y) : compare(x, y)
    }
    for (const g of shown) g.runs.sort(order)
    shown.sort((a, b) => order(a.runs[0], b.runs[0]))
  }
  return shown
}

/* The colours of plots/style.gp in its order, so that a run has one colour in figures and pages; beyond them, other dashes. */
const known = {adam: "#D55E00", adamclip: "#E69F00", muon: "#0072B2", muonclip: "#56B4E9"}
const spare = ["#009E73", "#CC79A7", "ink", "#8C6D31", "#7A5195", "#6B8E23", "#A0A0A0", "#00A5B5", "#B22222", "#4B4BC8", "#1B5E20", "#F06292",
  "#5D4037", "#9E9D24", "#37474F", "#FF8A65"]
const ramp = ["#440154", "#472D7B", "#3B528B", "#2C728E", "#21918C", "#28AE80", "#5EC962", "#ADDC30"].map(partsOf)
const hexOf = parts => "#" + parts.map(x => x.toString(16).padStart(2, "0")).join("")
const dark = () => matchMedia("(prefers-color-scheme: dark)").matches
const onRamp = t => hexOf(along(ramp, dark() ? 1 / 3 + t * 2 / 3 : t)) // the darkest third is left out on dark paper
const paler = (hex, t) => hexOf(along([hex, "#FFFFFF"].map(partsOf), t))
/* Groups that differ in one number alone ("lr=0.01") have a place in its sequence, 0 to 1, where there are three or more of them. */
function shades(all, by) {
  for (const g of all) {
    g.bare = by !== "seeds" || !g.label.startsWith(g.kind) // the label is a value, without a kind
    const found = by === "none" ? null : /^ ?([^ =]+)=(\S+)$/.exec(g.bare ? g.label : g.label.slice(g.kind.length))
    g.number = found && Number.isFinite(Number(found[2])) ? {of: (g.bare ? "" : g.kind) + " " + found[1], value: Number(found[2])} : null
  }
  for (const g of all) {
    const alike = all.filter(o => g.number && o.number && o.number.of === g.number.of)
    g.shade = alike.length < 3 ? NaN : alike.filter(o => o.number.value < g.number.value).length / (alike.length - 1)
  }
}
function paint(all, by) {
  const used = new Map(), bases = new Map(), oneKind = all.length > 1 && all.every(g => g.kind === all[0].kind && g.label !== g.kind)
  let spares = 0
  shades(all, by)
  for (const g of all) {
    const shaded = !Number.isNaN(g.shade)
    let base = shaded && !g.bare && bases.get(g.kind)
    g.dash = []
    if (shaded && (oneKind || g.bare)) { g.colour = onRamp(g.shade); continue }
    if (!base) {
      base = by !== "none" && known[g.kind]
      if (!base || used.has(base)) while (used.has(base = spare[spares % spare.length]) && spares++ < 2 * spare.length);
      const times = used.get(base) || 0
      used.set(base, times + 1)
      if (base === spare[spares % spare.length]) spares++
      g.dash = dashes[times % dashes.length]
      if (!bases.has(g.kind)) bases.set(g.kind, base)
    }
    g.colour = shaded ? paler(base === "ink" ? dark() ? "#BBBBBB" : "#222222" : base, 0.55 * g.shade) : base
  }
}
function cell(row, text, name) {
  const td = row.insertCell()
  td.className = name || ""
  td.textContent = text
  return td
}
function swatch(g) {
  const s = document.createElement("span")
  s.className = "swatch"
  s.style.borderTopColor = inked(g.colour)
  s.style.borderTopStyle = g.dash.length ? (g.dash[0] < 3 ? "dotted" : "dashed") : "solid"
  return s
}
const counted = runs => runs.filter(r => r.state !== "diverged" && r.state !== "blown-up")
/* The mean over a group, as it is drawn: "2.31 [2.28, 2.34]". */
function meanOf(runs, key) {
  const values = counted(runs).map(r => valueOf(r, key)).filter(Number.isFinite), geometric = key === "peak" || key === "last"
  if (!values.length || (geometric && values.some(v => v <= 0))) return ""
  const {m: [m], lo: [lo], hi: [hi]} = bandOf(values.map(v => ({s: [0], m: [v], w: 1})), geometric, index.t)
  return short(m) + (Number.isFinite(lo) ? " [" + short(lo) + ", " + short(hi) + "]" : "")
}
function drawTable(shown) {
  const body = document.createElement("tbody"), place = p => p ? short(number(p.value)) + (p.layer === null ? "" : " L" + p.layer) + (p.head === null ? "" : "H" + p.head) : ""
  for (const g of shown) {
    if (shown.length > 1 || g.runs.length > 1) {
      const row = body.insertRow(), th = document.createElement("th")
      row.className = "group"
      th.colSpan = 4
      th.scope = "rowgroup"
      th.append(swatch(g), g.label + "  (" + g.runs.length + " run" + (g.runs.length > 1 ? "s" : "") + ")")
      row.append(th)
      for (const [key, , wide] of columns.slice(4)) cell(row, g.runs.length > 1 && measured.includes(key) ? meanOf(g.runs, key) : "", "n " + (wide || ""))
    }
    for (const run of g.runs) {
      const row = body.insertRow()
      cell(row, run.group).title = run.path
      cell(row, run.seed, "n")
      cell(row, run.state, run.state)
      const steps = cell(row, "", "n")
      if (run.state === "running" || run.step < run.steps) {
        const bar = document.createElement("progress")
        bar.max = run.steps
        bar.value = run.step
        steps.append(bar, " ")
      }
      const left = duration(number(run.left))
      steps.append((run.step < run.steps ? run.step + " of " + run.steps : String(run.step)) + (left && ", " + left + " left"))
      cell(row, short(number(run.loss)), "n wide")
      cell(row, short(number(run.val)), "n")
      cell(row, place(run.peak), "n")
      cell(row, place(run.last), "n wide")
      cell(row, run.date.slice(0, 16).replace("T", " "), "n wide")
      cell(row, nameOf(run), "wide").title = run.path
    }
  }
  byId("runs").tBodies[0].replaceWith(body)
  for (const th of byId("runs").tHead.rows[0].cells)
    th.setAttribute("aria-sort", th.dataset.key !== view.sort ? "none" : view.down ? "descending" : "ascending")
}

/* --- curves --------------------------------------------------------------------------------------------- */
const named = s => s.about + (s.unit ? ", " + s.unit : "")
const seriesOf = id => index.series.find(s => String(s.file) === byId(id).value)
const seriesNow = () => seriesOf("series") || index.series[0]
const fileNow = () => seriesNow().file + "." + (seriesNow().heads ? byId("reduce").value : "max")
/* What a step is on the axis: 1, tokens, or seconds (the mean of the run); NaN: not known, or not the same for all. */
const over = () => byId("over").value
const scaleOf = run => over() === "tokens" ? parameter(run, "train.batch") * parameter(run, "model.context") : over() === "time" ? number(run.seconds_per_step) ?? NaN : 1
const axisOf = last => over() === "step" ? {} : over() === "tokens" ? {titlex: "tokens"} : {titlex: "time, s", grain: 10 ** Math.floor(Math.log10(last / 2000))}
const meanScale = runs => {
  const known = runs.map(scaleOf).filter(k => k > 0)
  return over() === "tokens" && new Set(known).size > 1 ? NaN : known.reduce((a, b) => a + b, 0) / known.length
}

/* Running means over a share of the steps, geometric where means are. */
function smooth(curve, percent, geometric) {
  const half = percent / 200 * (curve.s.at(-1) - curve.s[0]), f = geometric ? Math.log : y => y, back = geometric ? Math.exp : y => y
  const running = list => list && list.map((y, i) => {
    if (!Number.isFinite(f(y))) return y
    let sum = 0, n = 0
    for (let k = i; k >= 0 && curve.s[i] - curve.s[k] <= half; k--) if (Number.isFinite(f(list[k]))) sum += f(list[k]), n++
    for (let k = i + 1; k < list.length && curve.s[k] - curve.s[i] <= half; k++) if (Number.isFinite(f(list[k]))) sum += f(list[k]), n++
    return back(sum / n)
  })
  const out = {...curve, m: running(curve.m)}
  if (curve.lo) out.lo = running(curve.lo), out.hi = running(curve.hi)
  delete out.l
  delete out.h
  return out
}

/* While a part of the steps is shown, the file of these steps, where it is finer and there; else that of all. */
function fileShown(shown) {
  const file = fileNow(), runs = shown.flatMap(g => g.runs).filter(r => r.stamp)
  for (const name of Object.keys(numbers)) if (name.includes("@") && name !== view.fine) delete numbers[name]
  view.fine = null
  if (!index.live || view.from === null || over() !== "step") return file
  const first = Math.max(0, Math.floor(view.from)), last = Math.ceil(view.to)
  let width = 1
  while (last - first + 1 > 512 * width) width *= 2
  if (!runs.some(r => (dataOf(file, r) || {}).w > width)) return file
  view.fine = file + "@" + first + "-" + last
  want(view.fine, runs, drawSeries)
  return runs.every(r => dataOf(view.fine, r) !== undefined) ? view.fine : file
}

/* The curves that are drawn: {group, label, s, m, lo, hi, l, h, n}: middle, interval over seeds, extremes. */
function curvesOf(shown, file, name) {
  const out = [], geometric = isGeometric(name), percent = +byId("smooth").value
  for (const g of shown) {
    if (hidden.has(g.label)) continue
    const fit = counted(g.runs), runs = byId("draw").value === "runs" ? g.runs : fit.length ? fit : g.runs.slice(0, 1)
    const data = runs.map(r => [r, dataOf(file, r)]).filter(([, d]) => d && d.s.length)
    if (!data.length) continue
    if (byId("draw").value === "runs" || data.length === 1)
      for (const [r, d] of data) out.push({group: g, label: g.label + (g.runs.length > 1 ? " seed " + r.seed : ""), s: d.s, m: d.m, l: d.l, h: d.h, w: d.w, run: r})
    else out.push({group: g, label: g.label, ...bandOf(data.map(x => x[1]), geometric, index.t)})
  }
  return out.map(curve => {
    const k = curve.run ? scaleOf(curve.run) : meanScale(counted(curve.group.runs)), scaled = k === 1 ? curve : {...curve, s: curve.s.map(s => s * k), w: curve.w * k}
    return {...(percent ? smooth(scaled, percent, geometric) : scaled), k, colour: curve.group.colour, dash: curve.group.dash, thick: curve.run && out.length > 12 ? 1 : 1.8}
  })
}

let plot = null // the axes as they were drawn
const curves = new Curves(byId("curves"), byId("values"), view, () => {
  const shown = curves.shown, runs = shown.flatMap(g => hidden.has(g.label) ? [] : g.runs)
  const taus = seriesNow().name === "attn/max_logit" ? new Set(runs.map(r => number(r.tau)).filter(t => t !== null)) : []
  const last = Math.max(...shown.flatMap(g => g.runs).map(r => ((dataOf(fileNow(), r) || {s: []}).s.at(-1) ?? 0) * scaleOf(r)).filter(Number.isFinite), 0) || 1
  const all = curvesOf(shown, fileShown(shown), seriesNow().name), list = all.filter(curve => curve.k > 0)
  curves.unknown = all.length - list.length
  return {list, logx: byId("logx").checked, logy: byId("logy").checked, title: named(seriesNow()), last, ...axisOf(last),
    lines: [...taus].map(tau => [tau, "threshold " + short(tau)]), // of clips and caps
    over: byId("events").checked ? drawEvents : null, happened}
}, draw, redraw)
function redraw() {
  curves.draw()
  plot = curves.plot
}

/* A mark on its curve for each interval that has some of a kind; clips and checkpoints below. */
const marks = {spike: "▲", nonfinite: "✕", clip: "|", checkpoint: "·", resume: "↻"}
function eventsOf(run) { return dataOf("events", run) || [] }
function drawEvents(c, plot) {
  c.textAlign = "center"
  c.textBaseline = "middle"
  for (const curve of plot.list) {
    c.fillStyle = inked(curve.group.colour)
    for (const run of curve.run ? [curve.run] : curve.group.runs)
      for (const [step, kind] of eventsOf(run)) {
        const i = nearest(curve.s, step * curve.k), low = kind === "clip" || kind === "checkpoint"
        const y = low || !Number.isFinite(curve.m[i]) || (plot.y.log && curve.m[i] <= 0) ? plot.bottom - 6 : plot.y.at(curve.m[i])
        if (!plot.x.log || step > 0) c.fillText(marks[kind] || "◆", plot.x.at(step * curve.k), y)
      }
  }
}

/* The events near the cursor. */
function happened() {
  if (!byId("events").checked) return ""
  const counts = new Map(), near = (plot.x.high - plot.x.low) / 100
  for (const curve of plot.list)
    for (const run of curve.run ? [curve.run] : curve.group.runs)
      for (const [step, kind, count, layer, head, value] of eventsOf(run))
        if (Math.abs(step * curve.k - view.cursor) <= Math.max(near, curve.w)) {
          const x = counts.get(kind) || {count: 0, value: -Infinity}
          x.count += count
          if (!(value <= x.value)) x.value = value, x.place = layer >= 0 ? " L" + layer + (head >= 0 ? "H" + head : "") : ""
          counts.set(kind, x)
        }
  return [...counts].map(([kind, x]) => "  ·  " + kind + " × " + x.count + (x.place ? ", largest" + x.place + " " + short(x.value) : "")).join("")
}

function drawLegend(shown) {
  const items = shown.map(g => {
    const li = document.createElement("li"), button = document.createElement("button")
    button.type = "button"
    button.setAttribute("aria-pressed", String(!hidden.has(g.label)))
    button.append(swatch(g), g.label)
    button.onclick = () => { hidden.has(g.label) ? hidden.delete(g.label) : hidden.add(g.label); draw() }
    li.append(button)
    return li
  })
  const at = [...byId("legend").querySelectorAll("button")].indexOf(document.activeElement)
  byId("legend").replaceChildren(...items)
  if (at >= 0 && items[at]) items[at].firstChild.focus()
}

/* --- heads ---------------------------------------------------------------------------------------------- */
const heads = new Heat(byId("heads"), byId("headvalue"), () => {
  const run = runOf(byId("headrun").value), file = byId("headseries").value + ".heads"
  if (!run) return {text: ""}
  want(file, [run], () => heads.draw())
  const d = dataOf(file, run)
  return d && d.s.length ? {d, log: byId("logcolour").checked} :
    {text: d === undefined ? "Loading ..." : run.state === "running" ? "this series comes with the first snapshot of the run" : "this run has no such series"}
})

/* --- the overview --------------------------------------------------------------------------------------- */
const overview = [["loss", "max"], ["val_loss", "max"], ["attn/max_logit", "max"], ["attn/entropy", "mean"]].map(([name, reduce]) => {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption"), button = document.createElement("button"), canvas = document.createElement("canvas")
  button.type = "button"
  button.onclick = () => { byId("series").value = figure.dataset.file; byId("reduce").value = reduce; chooseSeries() }
  caption.append(button)
  canvas.setAttribute("role", "img")
  figure.append(caption, canvas)
  figure.hidden = true
  byId("overview").append(figure)
  return {name, reduce, figure, button, canvas}
})
function drawOverview(shown = groups()) {
  const runs = shown.flatMap(g => g.runs)
  for (const {name, reduce, figure, button, canvas} of overview) {
    const s = index.series.find(x => x.name === name)
    figure.hidden = !s
    if (!s) continue
    const file = s.file + "." + (s.heads ? reduce : "max")
    figure.dataset.file = s.file
    button.textContent = s.about + (s.heads ? ", " + {max: "largest", mean: "mean"}[reduce] + " of heads" : "")
    want(file, runs, drawSeries)
    const {c, width, height} = canvasOf(canvas), list = curvesOf(shown, file, name).filter(curve => curve.k > 0)
    drawCurves(c, width, height, {list, logy: isGeometric(name), title: s.unit, ...axisOf(Math.max(...list.map(curve => curve.s.at(-1)), 0) || 1)})
    canvas.setAttribute("aria-label", button.textContent + ", " + list.length + " curves")
  }
}

/* --- saving ----------------------------------------------------------------------------------------------- */
const fileName = text => text.replace(/\W+/g, "-")
byId("save-curves").append(...saveButtons({
  canvas: curves.canvas,
  get name() { return fileName(seriesNow().name) },
  paint: (c, width, height) => drawCurves(c, width, height, {...curves.describe(), from: view.from, to: view.to}),
  table: () => [["curve", curves.describe().titlex || "step", "value", "interval from", "interval to", "least", "largest", "runs"], ...plot.list.flatMap(x => x.s.map((s, i) =>
    [x.label, s, x.m[i], ...[x.lo, x.hi, x.l, x.h].map(of => (of || [])[i]), x.n ? x.n[i] : 1].map(y => y === undefined ? "" : String(y))))],
}, "the curves"))
byId("save-heads").append(...saveButtons({
  canvas: heads.canvas,
  get name() { return fileName(seriesOf("headseries").name) + "-heads" },
  paint: (c, width, height) => { const {d, log} = heads.describe(); if (d) drawHeat(c, width, height, d, log) },
  table: () => { const {d} = heads.describe(); return d ? [["head", ...d.s], ...d.n.map((n, h) => [n, ...d.v[h]])].map(row => row.map(String)) : [] },
}, "the map of heads"))

/* --- differences ------------------------------------------------------------------------------------------ */
function drawDifferences() {
  const a = runOf(byId("runa").value), b = runOf(byId("runb").value), body = document.createElement("tbody")
  if (a && b) {
    const keys = differingKeys([a, b])
    const rows = keys.filter(k => parameter(a, k) !== parameter(b, k)).map(k => [k, parameter(a, k) ?? "–", parameter(b, k) ?? "–"])
    if (!rows.length) rows.push([a === b ? "the same run" : "no key differs", "", ""])
    for (const texts of rows) { const row = body.insertRow(); texts.forEach(t => cell(row, t)) }
  }
  byId("differences").tBodies[0].replaceWith(body)
  byId("compare").textContent = a && b && a !== b ? "maxlogit compare " + quote(a.path) + " " + quote(b.path) : ""
}

/* --- command lines ----------------------------------------------------------------------------------------- */
/* A word as a shell reads it back, by the rules of shell_add (src/base/markup.c). */
function quote(word) {
  const x = word.replace(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]/g, "?")
  return /^[\w@%+=:,./-]+$/.test(x) ? x : "'" + x.replace(/'/g, "'\\''") + "'"
}
function choice(shown) {
  const filter = readFilter(byId("filter").value), by = byId("group").value
  const words = filter.where === undefined || index.words.includes("--last") ? shown.flatMap(g => g.runs.map(r => quote(r.path))) : [...index.words.map(quote), ...(filter.where ? ["--where", quote(filter.where)] : [])]
  return [...words, ...(by === "seeds" || by === "none" ? [] : ["--by", quote(by)])].join(" ")
}
function tellCommands(shown) {
  const words = choice(shown), s = seriesNow(), band = byId("draw").value === "band"
  const sortable = view.sort && ![...measured, "name", "file"].includes(view.sort)
  byId("show").textContent = shown.length ? "maxlogit show " + words + (sortable ? " --sort " + quote((view.down ? "-" : "") + view.sort) : "") : ""
  const reduce = s && s.heads && byId("reduce").value !== "min" ? " --reduce=" + byId("reduce").value : ""
  byId("export").textContent = shown.length && s ? "maxlogit export " + words + " " + quote(s.name) + reduce + (band ? isGeometric(s.name) ? " --band=geometric" : " --band" : "") +
    (s.name === "attn/max_logit" ? "\nmaxlogit plot " + words + " --figure=logits" : s.name === "loss" || s.name === "val_loss" ? "\nmaxlogit plot " + words + " --figure=loss" : "") : ""
  const run = runOf(byId("headrun").value), heads = seriesOf("headseries")
  byId("heatmap").textContent = !run || !heads ? "" : heads.name === "attn/max_logit" ? "maxlogit plot " + quote(run.path) + " --figure=heatmap" : "maxlogit export " + quote(run.path) + " " + quote(heads.name)
}

/* --- all of it ---------------------------------------------------------------------------------------------- */
function options(id, list, fallback) {
  const select = byId(id), now = select.value, text = JSON.stringify(list)
  if (select.dataset.list === text) return
  select.dataset.list = text
  select.replaceChildren(...list.map(([value, label]) => new Option(label, value)))
  select.value = list.some(([v]) => String(v) === now) ? now : fallback
  if (select.selectedIndex < 0 && list.length) select.selectedIndex = 0
}

const differingKeys = runs => [...new Set(runs.flatMap(r => Object.keys(r.own)))].filter(k => k !== "record.path").sort()

function fillChoices() {
  document.title = "maxlogit: " + index.words.join(" ")
  const wanted = new URLSearchParams(location.hash.slice(1)), was = !byId("series").dataset.list
  const differing = differingKeys(index.runs).filter(k => k !== "train.seed")
  options("group", [["seeds", "seeds"], ["none", "every run"], ["kind", "kind"], ["state", "state"], ...differing.map(k => [k, k])], wanted.get("group") || "seeds")
  const named = index.series.map(s => [s.file, s.name + (s.unit ? " (" + s.unit + ")" : "")])
  const place = name => (index.series.find(s => s.name === name) || {file: -1}).file
  const begin = name => place(name) >= 0 ? place(name) : (index.series[0] || {}).file
  options("series", named, begin(wanted.get("series") || "attn/max_logit"))
  options("headseries", index.series.filter(s => s.heads).map(s => named.find(([file]) => file === s.file)), begin(wanted.get("heads") || "attn/max_logit"))
  const runs = index.runs.map(r => [r.key, r.group + " seed " + r.seed + "  " + nameOf(r)])
  options("headrun", runs, wanted.get("run") || (runs[0] || [])[0])
  options("runa", runs, wanted.get("a") || (runs[0] || [])[0])
  const other = index.runs.find(r => r.group !== index.runs[0].group) || index.runs[1] || index.runs[0]
  options("runb", runs, wanted.get("b") || (other || {}).key)
  byId("heads-section").hidden = !index.series.some(s => s.heads)
  if (view.series && place(view.series) >= 0) byId("series").value = place(view.series), view.series = "" // has come since
  if (!was) return
  if (wanted.get("series") && place(wanted.get("series")) < 0) view.series = wanted.get("series")
  byId("filter").value = wanted.get("filter") || ""
  for (const id of ["reduce", "draw", "over", "smooth"]) if ([...byId(id).options].some(o => o.value === wanted.get(id))) byId(id).value = wanted.get(id)
  for (const id of ["logx", "events", "logcolour"]) byId(id).checked = wanted.get(id) === "1"
  byId("logy").checked = wanted.has("logy") ? wanted.get("logy") === "1" : isLog()
  if (wanted.get("sort")) view.sort = wanted.get("sort").replace(/^-/, ""), view.down = wanted.get("sort")[0] === "-"
  if (wanted.get("from")) view.from = +wanted.get("from"), view.to = +wanted.get("to")
}

/* The view stands in the address: to be kept, sent, and found again. */
function keepView() {
  const p = new URLSearchParams(), heads = seriesOf("headseries")
  const put = (key, value, standard) => { if (value && value !== standard) p.set(key, value) }
  put("filter", byId("filter").value, "")
  put("group", byId("group").value, "seeds")
  put("sort", view.sort && (view.down ? "-" : "") + view.sort, "")
  put("series", (seriesNow() || {}).name, "attn/max_logit")
  put("reduce", byId("reduce").value, "max")
  put("draw", byId("draw").value, "band")
  put("over", over(), "step")
  put("smooth", byId("smooth").value, "0")
  for (const id of ["logx", "events", "logcolour"]) put(id, byId(id).checked ? "1" : "", "")
  put("logy", byId("logy").checked ? "1" : "0", isLog() ? "1" : "0")
  if (view.from !== null) p.set("from", +view.from.toPrecision(7)), p.set("to", +view.to.toPrecision(7))
  put("run", byId("headrun").value, (index.runs[0] || {}).key)
  put("heads", (heads || {}).name, "attn/max_logit")
  put("a", byId("runa").value, (index.runs[0] || {}).key)
  put("b", byId("runb").value, "")
  history.replaceState(null, "", "#" + p)
}

/* Max logits grow by factors: at first their axis is logarithmic. */
const isLog = () => isGeometric((seriesNow() || {name: ""}).name)
function chooseSeries() {
  byId("logy").checked = isLog()
  draw()
}
function draw() {
  const shown = groups()
  drawTable(shown)
  drawSeries(shown)
  drawLegend(shown)
  heads.draw()
  drawDifferences()
  tellCommands(shown)
  tellAbout(shown.flatMap(g => g.runs))
  keepView()
}

/* All that numbers which have come can change: a table of hundreds of runs is not laid out again for them. */
function drawSeries(shown = groups()) {
  const runs = shown.flatMap(g => g.runs), s = seriesNow()
  if (!s) return
  byId("ofwhat").hidden = !s.heads
  want(fileNow(), runs, drawSeries)
  if (byId("events").checked) want("events", runs, drawSeries)
  curves.shown = shown
  redraw()
  drawOverview(shown)
  const thinned = plot.list.reduce((w, x) => x.h ? Math.max(w, Math.round(x.w / x.k)) : w, 1), unknown = curves.unknown
  byId("meaning").textContent = named(s) + ". " + (byId("draw").value === "band" ? "Lines: " + (isGeometric(s.name) ? "geometric means" : "means") +
    " over a group's runs that did not diverge or blow up, bands: their 95 % intervals (Student's t)." : "") + (thinned > 1 ? " Lines are means of up to " + thinned + " steps; shades reach from their smallest to their largest value." : "") +
    (byId("smooth").value === "0" ? "" : " Smoothed: running means over " + byId("smooth").value + " % of the steps.") + (over() === "time" ? " Time: steps times the mean duration of a run's steps." : "") +
    (unknown ? " Not drawn: " + unknown + " curve" + (unknown > 1 ? "s" : "") + " whose " + over() + " per step is not known, or not the same for all runs." : "") +
    (plot.list.length || !runs.some(r => r.state === "running") ? "" : " The values of a run that has just begun come with its first snapshot.")
}

let lost = false
function tellAbout(shown) {
  byId("play").hidden = !index.play
  const count = state => index.runs.filter(r => r.state === state).length
  const unread = index.runs.filter(r => !r.stamp).length
  const states = ["running", "finished", "diverged", "blown-up", "stopped", "killed"].filter(count).map(s => count(s) + " " + s).join(", ")
  byId("about").textContent = index.runs.length + " run" + (index.runs.length === 1 ? "" : "s") + (states ? ": " + states : "") + (shown.length < index.runs.length ? "; " + shown.length + " shown" : "") +
    (unread ? "; " + unread + " still to be read" : "") + (index.live ? lost ? ". The server does not answer any more." : ". Live." : index.made ? ". Written " + index.made.slice(0, 16).replace("T", " ") + " UTC." : ".")
}

function listen() {
  const head = byId("runs").tHead.rows[0]
  for (const [key, label, wide] of columns) {
    const th = document.createElement("th"), button = document.createElement("button")
    th.dataset.key = key
    th.scope = "col"
    th.className = wide || ""
    button.type = "button"
    button.textContent = label
    button.onclick = () => { view.down = view.sort === key ? !view.down : false; view.sort = key; draw() }
    th.append(button)
    head.append(th)
  }
  for (const id of ["group", "reduce", "draw", "smooth", "logx", "logy", "events", "headrun", "headseries", "logcolour", "runa", "runb"]) byId(id).onchange = draw
  byId("series").onchange = chooseSeries
  byId("over").onchange = () => { view.from = view.to = view.cursor = null; draw() }
  byId("filter").oninput = draw
  byId("reset").onclick = () => curves.whole()
  new ResizeObserver(() => { if (plot) redraw(), drawOverview(), heads.draw() }).observe(curves.canvas)
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw)
}

function refresh() {
  load("index").then(() => { lost = false; fillChoices(); draw() }, () => { lost = true; if (index) tellAbout(index.runs); else byId("about").textContent = "data/index.js cannot be read" })
    .then(() => { if (index && index.live) setTimeout(refresh, index.runs.some(r => !r.stamp) ? 200 : document.hidden ? 10000 : 2000) })
}
listen()
refresh()
