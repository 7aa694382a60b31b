/* views.js - the figures: curves over steps, the map of heads, attention and spectra */
"use strict"

const colours = ["arm0", "arm1", "arm2", "arm3"] // variables of the style
const student = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365] // 97.5 % points for 1 to 7 degrees of freedom
const range = {from: null, to: null, cursor: null} // all curves over steps show the same steps
const element = (tag, properties, ...children) => { const e = Object.assign(document.createElement(tag), properties); e.append(...children); return e }

/* axis: the title of the y axis; floor: of its log; best: which head is drawn thick. */
const overSteps = [
  {id: "logits", series: ["attn/max_logit"], title: "Max logit of every head", log: true, floor: 0.3, best: "largest",
    note: "The largest attention score before the softmax, in each batch. Thin: one head. Thick: the largest of all heads. Each step of the log axis is a factor. Layers and heads count from 0."},
  {id: "loss", series: ["loss", "val_loss"], title: "Loss", axis: "loss, nat per token",
    note: "Thin: training loss of each batch. Thick: validation loss. Lower is better: 1 nat less makes the right token 2.7 times as likely."},
  {id: "entropy", series: ["attn/entropy"], title: "Attention entropy", axis: "entropy, nat", best: "smallest",
    note: "How widely a head spreads its attention. 0: every query attends to one token. Thick: the smallest of all heads."},
  {id: "svd", series: ["head_qk/svd_entropy"], title: "Singular-value entropy", axis: "SVD entropy (1: flat)", best: "smallest",
    note: "Of each head's W_q W_kᵀ. 1: all directions are equally strong. Near 0: one direction rules. Thick: the smallest of all heads."},
  {id: "norms", series: ["head_qk/spectral_norm"], title: "Spectral norm", log: true, axis: "spectral norm", best: "largest",
    note: "The largest singular value of each head's W_q W_kᵀ: how much it can stretch a score. Thick: the largest of all heads."},
  {id: "clips", series: ["qk_clip/gamma"], title: "Clip factors", axis: "clip factor", best: "smallest",
    note: "QK-Clip multiplies a head's scores by this factor. 1: no clip. Thick: the smallest of all heads."},
  {id: "other", series: [], title: "Any series", best: "largest", note: ""},
]

/* A panel with a heading, buttons that save, a canvas and a line of values. */
class Figure {
  constructor(name, title, note) {
    Object.assign(this, {name, seen: false})
    this.canvas = element("canvas", {tabIndex: 0})
    this.canvas.setAttribute("role", "img")
    this.canvas.setAttribute("aria-label", title)
    this.canvas.setAttribute("aria-describedby", "note-" + name)
    this.output = element("output", {ariaLive: "off"}) // read aloud only where the keyboard is
    this.canvas.onfocus = () => { this.output.ariaLive = "polite" }
    this.canvas.onblur = () => { this.output.ariaLive = "off" }
    this.heading = element("h3", {textContent: title})
    this.note = element("p", {className: "soft", id: "note-" + name, textContent: note})
    this.tools = element("span", {className: "save"}, ...saveButtons(this, title))
    this.panel = element("section", {className: "figure", id: "figure-" + name}, element("div", {className: "head"}, this.heading, this.tools), this.canvas, this.output, this.note)
    new IntersectionObserver(([e]) => { this.seen = e.isIntersecting; if (this.seen) this.draw() }, {rootMargin: "200px"}).observe(this.canvas)
    new ResizeObserver(() => { if (this.seen) this.draw() }).observe(this.canvas)
  }
}

const best = {largest: Math.max, smallest: Math.min}
/* The rows of a series within the shown range, thinned to at most 600 points: {s: steps, w: rows of a point, points(column, pick): of w
   rows the one that is picked, or their mean}. */
function rowsOf(series, upTo) {
  const s = series.s, from = range.from ?? 0, to = Math.min(range.to ?? Infinity, upTo)
  let first = 0, last = s.length
  while (first < last && s[first] < from - 1) first++
  while (last > first && s[last - 1] > to + 1) last--
  const w = Math.max(1, Math.ceil((last - first) / 600))
  const places = Array.from({length: Math.ceil((last - first) / w)}, (_, i) => first + i * w)
  const points = (values, pick) => places.map(i => {
    const part = values.slice(i, Math.min(i + w, last))
    return pick ? part.reduce((a, b) => pick(a, b)) : part.reduce((a, b) => a + b) / part.length
  })
  return {s: places.map(i => s[i]), w, points}
}

/* The curves of one series of all arms. One seed: every head, and the head that matters. More: its mean with an interval. */
function curvesFor(arms, name, kind, single) {
  const out = [], pick = best[kind] || Math.max
  arms.forEach((arm, a) => {
    const wide = 2.4 + 2 * (arms.length - 1 - a) // where curves coincide, those of earlier arms show at both sides
    const runs = arm.runs.filter(r => r.series.get(name)?.s.length)
    const common = Math.min(...arm.runs.map(r => r.state === "running" || r.state === "starting" ? r.count : Infinity))
    const look = {colour: colours[a], dash: []}
    const extremes = runs.map(run => {
      const x = run.series.get(name), {s, w, points} = rowsOf(x, runs.length > 1 ? common : Infinity)
      const columns = x.v.map(v => points(v, x.width > 1 && pick))
      if (runs.length === 1 && x.width > 1)
        columns.forEach((m, k) => out.push({...look, label: arm.short + " " + placeName(x, k), s, m, w, thick: 1, alpha: 0.45}))
      return {s, w, m: s.map((_, i) => columns.reduce((y, c) => pick(y, c[i]), columns[0][i]))}
    })
    const many = runs.length && runs[0].series.get(name).width > 1
    const label = arm.short + (many ? ", " + kind : "") + (single ? " " + single : "")
    if (extremes.length === 1) out.push({...look, label, ...extremes[0], thick: name === "loss" ? 1 : wide, alpha: name === "loss" ? 0.6 : 1})
    else if (extremes.length) out.push({...look, label, ...bandOf(extremes, isGeometric(name), student), thick: name === "loss" ? 1 : wide})
  })
  return out
}
function placeName({axis, places, heads, experts}, k) {
  const pair = (n, letter) => "l" + Math.floor(k / n) + letter + k % n
  return axis === "head" ? pair(heads, "h") : axis === "expert" ? pair(experts, "e") : axis === "layer" ? "l" + k : places[k] ?? ""
}

class StepFigure extends Figure {
  constructor(view, page) {
    super(view.id, view.title, view.note)
    Object.assign(this, {view, page})
    if (view.id === "other") {
      this.select = element("select", {onchange: () => { page.state.other = this.select.value; page.keep(); this.draw() }})
      this.select.setAttribute("aria-label", "Series of this figure")
      this.heading.after(this.select)
    }
    this.curves = new Curves(this.canvas, this.output, range, () => this.describe(), () => page.redraw(), () => page.redraw())
  }
  get names() { return this.select ? [this.select.value].filter(n => n) : this.view.series }
  describe() {
    const {arms} = this.page, {best: kind, log, floor} = this.view, names = this.names
    const list = names.flatMap(n => curvesFor(arms, n, kind, names.length > 1 && n === "val_loss" ? "validation" : ""))
    const about = arms.flatMap(a => a.runs).map(r => r.series.get(names[0])).find(x => x)
    const lines = this.view.id === "logits" ? [...new Map(arms.flatMap(a => a.tau ? [[a.tau, "QK-Clip threshold " + a.tau]] : []))] : []
    return {list, logy: log ?? (about && isGeometric(about.name)), floor, lines, ceiling: this.view.id === "loss" ? settled(list) : undefined, title: this.view.axis ?? (about ? titleOf(about) : ""), last: Math.max(1, ...arms.flatMap(a => a.runs).map(r => r.count))}
  }
  draw() {
    if (this.select) this.choices()
    this.curves.draw()
    const {list} = this.curves.plot, empty = !list.length, rows = Math.max(1, ...list.map(c => c.w)), heads = list.some(c => c.alpha < 0.5 || c.label.includes(", "))
    this.panel.classList.toggle("empty", empty)
    this.note.textContent = empty ? "No arm here records this series." : this.page.state.seeds === 1 ? this.view.note :
      this.view.note.replace(/(Thin: one head\. )?Thick: (the \w+ of all heads)/, "Shown: $2, mean and 95 % interval over seeds")
    if (this.select && this.names.length) this.note.textContent = this.page.arms.flatMap(a => a.runs).map(r => r.series.get(this.names[0])?.definition).find(x => x) ?? ""
    if (rows > 1) this.note.textContent += ` Each point is the ${heads ? this.view.best : "mean"} of ${rows} rows; zoom in to see all.`
  }
  choices() {
    const names = [...new Set(this.page.arms.flatMap(a => a.runs).flatMap(r => r.list.map(x => x.name)))], key = names.join()
    if (this.key === key) return
    this.key = key
    this.select.replaceChildren(...names.map(n => new Option(n)))
    this.select.value = names.includes(this.page.state.other) ? this.page.state.other : names.includes("grad_norm") ? "grad_norm" : names[0] ?? ""
  }
  paint(c, width, height) { drawCurves(c, width, height, {...this.describe(), from: range.from, to: range.to}) }
  table() {
    return [["arm", "seed", "step", "series", "place", "value"], ...this.page.arms.flatMap(a => a.runs.flatMap((r, i) => this.names.flatMap(n => {
      const x = r.series.get(n)
      return x ? x.s.flatMap((s, row) => x.v.map((v, k) => [a.label, r.seed, s, n, x.width > 1 ? placeName(x, k) : "", v[row]])) : []
    })))]
  }
}
const titleOf = about => (about.long_name.length < 40 ? about.long_name : about.name) + (about.unit !== "1" ? ", " + about.unit : "")
/* The largest loss after a tenth of the shown steps: the first steps would hide all others. */
const settled = list => Math.max(...list.flatMap(c => c.m.slice(Math.ceil(c.m.length / 10))).filter(Number.isFinite))

/* Max logits of every head of every arm (its first seed), as colors. */
class MapFigure extends Figure {
  constructor(page) {
    super("map", "Heads over time", "The max logit of each head (rows) in each interval of steps, on a log scale. Brighter is larger. Arrows move the mark.")
    this.page = page
    this.heat = new Heat(this.canvas, this.output, () => this.describe())
  }
  describe() {
    const known = this.page.arms.map(arm => [arm, arm.runs[0]?.series.get("attn/max_logit")]).filter(([, x]) => x?.s.length)
    const all = [...new Set(known.flatMap(([, x]) => x.s))].sort((a, b) => a - b), {s, w, points} = rowsOf({s: all}, Infinity), d = {s, w, n: [], v: []}
    for (const [arm, x] of known) {
      let row = 0
      const rows = all.map(step => x.s[row] === step ? row++ : -1) // an arm may have other steps
      x.v.forEach((v, k) => { d.n.push(arm.short + " " + placeName(x, k)); d.v.push(points(rows.map(i => v[i] ?? NaN), (a, b) => a >= b || Number.isNaN(b) ? a : b)) })
    }
    return d.n.length ? {d, log: true} : {text: "No values yet."}
  }
  draw() { this.heat.draw() }
  paint(c, width, height) { const {d, log} = this.describe(); if (d) drawHeat(c, width, height, d, log, null) }
  table() { const {d} = this.describe(); return d ? [["head", ...d.s], ...d.n.map((n, h) => [n, ...d.v[h]])] : [] }
}

/* Figures of one head of each arm, which the module computes from the weights of this moment. */
class HeadFigure extends Figure {
  constructor(call, page, ...texts) {
    super(...texts)
    Object.assign(this, {call, page, asked: 0})
  }
  /* Ask each arm at most four times a second, and only if its step or head has changed. */
  ask() {
    for (const arm of this.page.arms) {
      const run = arm.runs[0], head = this.page.headOf(arm), key = run && [run.count, ...head || []].join()
      arm.answers ??= {}
      const old = arm.answers[this.call] ??= {key: "", time: 0}
      if (!head || run.state === "failed" || old.busy || old.key === key || performance.now() - old.time < 250) continue
      old.busy = true
      run.call(this.call, ...head).then(values => ({values, head, error: ""}), e => ({values: null, head, error: e.message})).then(answer => {
        arm.answers[this.call] = {...answer, key, time: performance.now(), step: run.count}
        if (this.seen) this.draw()
      })
    }
  }
  get answers() { return this.page.arms.map((arm, a) => ({arm, a, ...arm.answers?.[this.call]})).filter(x => x.values) }
  called(x) { return x.arm.short + " l" + x.head[0] + "h" + x.head[1] }
  problem() { return this.page.arms.map(arm => arm.answers?.[this.call]?.error).find(x => x) || "No values yet." }
}

class AttentionFigure extends HeadFigure {
  constructor(page) {
    super("attention", page, "attention", "Attention", "The attention weights of one head on a validation text. Each row is a query, each column a key; a row sums to 1. When logits explode, one bright cell is left in each row.")
  }
  draw() {
    this.ask()
    const {c, width, height} = canvasOf(this.canvas)
    this.paint(c, width, height)
    const list = this.answers
    this.output.textContent = list.length ? list.map(x => this.called(x) + ", step " + x.step + ": mean largest weight " + short(peak(x.values), 3)).join("  ·  ") : this.problem()
    this.canvas.setAttribute("aria-label", this.output.textContent)
  }
  paint(c, width, height) {
    const list = this.answers, gap = 26, size = Math.min((width - gap) / Math.max(1, list.length) - gap, height - 50)
    c.font = "12px system-ui,sans-serif"
    list.forEach((x, i) => {
      const n = Math.round(Math.sqrt(x.values.length)), cell = size / n, total = list.length * (size + gap) - gap
      const left = (width - total) / 2 + i * (size + gap) + gap / 2 - 4, top = 24
      for (let q = 0; q < n; q++) for (let k = 0; k <= q; k++) {
        c.fillStyle = colourAt(x.values[q * n + k])
        c.fillRect(left + k * cell, top + q * cell, cell + 0.4, cell + 0.4)
      }
      c.strokeStyle = css("line")
      c.lineWidth = 1
      c.setLineDash([])
      c.strokeRect(left, top, size, size)
      c.fillStyle = css("soft")
      c.textAlign = "center"
      c.textBaseline = "middle"
      c.fillText(this.called(x), left + size / 2, 11, size)
      c.fillText("key", left + size / 2, top + size + 12)
      c.save()
      c.translate(left - 10, top + size / 2)
      c.rotate(-Math.PI / 2)
      c.fillText("query", 0, 0)
      c.restore()
    })
  }
  table() {
    return [["arm", "step", "query", "key", "weight"], ...this.answers.flatMap(x => {
      const n = Math.round(Math.sqrt(x.values.length))
      return [...x.values].map((v, i) => [this.called(x), x.step, Math.floor(i / n), i % n, v]).filter(row => row[3] <= row[2])
    })]
  }
}
/* The mean over queries of the largest weight. */
function peak(values) {
  const n = Math.round(Math.sqrt(values.length))
  let sum = 0
  for (let q = 0; q < n; q++) sum += Math.max(...values.subarray(q * n, q * n + q + 1))
  return sum / n
}

class SpectrumFigure extends HeadFigure {
  constructor(page) {
    super("spectrum", page, "spectrum", "Spectrum", "The singular values of one head's W_q W_kᵀ, largest first. One value far above the rest: one direction makes the large scores.")
    this.view = {from: null, to: null, cursor: null}
    this.curves = new Curves(this.canvas, this.output, this.view, () => this.describe(), () => this.draw())
  }
  describe() {
    const list = this.answers.map((x, i, all) => ({label: this.called(x), colour: colours[x.a], dash: [], thick: 2 * (all.length - i), w: 1, s: [...x.values].map((_, i) => i + 1), m: [...x.values]}))
    return {list, logy: true, floor: 1e-4, title: "singular value", titlex: "rank", last: Math.max(2, ...list.map(x => x.s.length))}
  }
  draw() {
    this.ask()
    this.curves.draw()
    if (!this.curves.plot.list.length) this.output.textContent = this.problem()
  }
  paint(c, width, height) { drawCurves(c, width, height, {...this.describe(), from: this.view.from, to: this.view.to}) }
  table() { return [["arm", "step", "rank", "singular value"], ...this.answers.flatMap(x => [...x.values].map((v, i) => [this.called(x), x.step, i + 1, v]))] }
}
