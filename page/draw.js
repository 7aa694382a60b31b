/* draw.js - curves, heat maps and their axes on a canvas, with pointer and keyboard; every page that draws loads it first */
"use strict"

const byId = id => document.getElementById(id)
const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim()
const inked = colour => colour.startsWith("#") ? colour : css(colour) // or the name of a variable of the style
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]]
const short = (x, digits) => x === null || x === undefined ? "" : Number.isNaN(x) ? "NaN" : !Number.isFinite(x) ? (x > 0 ? "∞" : "-∞") :
  x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6) ? x.toExponential(2) : String(+x.toPrecision(digits || 4))

function nearest(list, x) {
  let a = 0, b = list.length - 1
  while (b - a > 1) { const m = (a + b) >> 1; list[m] < x ? a = m : b = m }
  return Math.abs(list[a] - x) <= Math.abs(list[b] - x) ? a : b
}

const isGeometric = name => name.includes("logit") // as plot and show take their means

/* One curve of several, each {s, m, l, h, w}: means (or geometric means) with 95 % intervals; t: Student's, from one degree on. */
function bandOf(data, geometric, t) {
  const at = new Map()
  let thinned = false, w = 1
  for (const d of data) {
    w = Math.max(w, d.w)
    thinned = thinned || !!d.h
    for (const step of d.s) at.set(step, {m: [], l: Infinity, h: -Infinity})
  }
  let steps = [...at.keys()].sort((a, b) => a - b)
  const nth = Math.ceil(steps.length / 4000) // of runs whose steps do not meet; more than a screen has
  steps = steps.filter((step, i) => i % nth === 0 || i === steps.length - 1)
  for (const d of data) { // between two of its points a run has a value on the line, as in a band of plot
    let i = 0
    for (const step of steps) {
      while (i < d.s.length && d.s[i] < step) i++
      if (i === d.s.length) break
      const x = at.get(step), here = d.s[i] === step
      if (!here && (!i || !Number.isFinite(d.m[i - 1]) || !Number.isFinite(d.m[i]))) continue
      const m = here ? d.m[i] : d.m[i - 1] + (d.m[i] - d.m[i - 1]) * (step - d.s[i - 1]) / (d.s[i] - d.s[i - 1])
      x.m.push(m)
      x.l = Math.min(x.l, here && d.l ? d.l[i] : m)
      x.h = Math.max(x.h, here && d.h ? d.h[i] : m)
    }
  }
  const out = {s: steps, m: [], lo: [], hi: [], l: [], h: [], n: [], w}
  for (const step of out.s) {
    const x = at.get(step), n = x.m.length, logs = geometric ? x.m.map(Math.log) : x.m
    const mean = logs.reduce((a, b) => a + b, 0) / n
    const spread = Math.sqrt(logs.reduce((a, b) => a + (b - mean) * (b - mean), 0) / (n - 1) / n)
    const half = n > 1 ? spread * t[Math.min(n - 2, t.length - 1)] : NaN
    const back = geometric ? Math.exp : y => y
    out.m.push(back(mean))
    out.lo.push(back(mean - half))
    out.hi.push(back(mean + half))
    out.l.push(x.l)
    out.h.push(x.h)
    out.n.push(n)
  }
  if (!thinned) delete out.l, delete out.h
  return out
}

/* Set up a canvas at the size it has on the screen. */
function canvasOf(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale)
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale)
  const c = canvas.getContext("2d")
  c.setTransform(scale, 0, 0, scale, 0, 0)
  c.clearRect(0, 0, width, height)
  c.font = "12px system-ui,sans-serif"
  c.lineJoin = "round"
  return {c, width, height}
}

/* About so many round values between two. */
function ticks(low, high, about, log) {
  const out = []
  if (!(high > low)) return [low]
  if (log) {
    const decades = Math.log10(high / low)
    const mantissas = decades > 5 ? [1] : decades > 2 ? [1, 3] : decades > 0.7 ? [1, 2, 5] : null
    if (mantissas) {
      const every = Math.max(1, Math.ceil(decades / about))
      for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
        for (const m of mantissas) if (e % every === 0 && m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) out.push(m * 10 ** e)
      return out
    }
  }
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find(m => m * power >= rough) * power
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i++) out.push(i * step)
  return out
}

/* An axis: the place of a value, and back. */
function axis(low, high, from, to, log) {
  const f = log ? Math.log : x => x, g = log ? Math.exp : x => x, a = f(low), b = f(high) > a ? f(high) : a + 1
  return {low, high, log, at: x => from + (f(x) - a) / (b - a) * (to - from), back: p => g(a + (p - from) / (to - from) * (b - a))}
}

/* Draw curves with their axes, and return the axes. o: list of {label, colour, dash, thick, alpha, s, m: middle, lo, hi: interval, l, h: extremes,
   w: steps of a point; k: of the axis a step}; logx, logy, from, to, floor: the least value of a log axis; ceiling: the largest of any; title, titlex; grain: the least
   difference of two places (1); lines: [[value, text]]; over: draws more. */
function drawCurves(c, width, height, o) {
  const {list, logx, logy} = o
  let first = Infinity, last = 0, low = Infinity, high = -Infinity
  for (const x of list) for (const s of x.s) { last = Math.max(last, s); if (s > 0) first = Math.min(first, s) }
  const from = Math.max(o.from ?? 0, logx ? Math.min(first, last) || 1 : 0), to = Math.max(o.to ?? last, from + (o.grain ?? 1))
  const see = y => { if (Number.isFinite(y) && (!logy || y > 0)) { low = Math.min(low, y); high = Math.max(high, y) } }
  for (const x of list) x.s.forEach((s, i) => {
    if (s < from || s > to) return
    see(x.m[i])
    if (x.h) see(x.h[i]), see(x.l[i])
    // an interval of few seeds can be wider than everything else
    if (x.hi && Math.abs(x.hi[i]) < 4 * Math.abs(x.m[i])) see(x.hi[i]), see(x.lo[i])
  })
  if (!(low <= high)) low = logy ? 0.1 : 0, high = 1
  if (o.ceiling > low) high = Math.min(high, o.ceiling)
  for (const [value] of o.lines || []) // room for the text above a line
    if (value > low && value <= (logy ? 1.1 * high : high + 0.1 * (high - low))) high = Math.max(high, logy ? value * (high / low) ** 0.1 : value + (high - low) * 0.1)
  if (logy) { low = Math.max(low, Math.min(o.floor || 0, high / 2)); if (high / low < 1.01) low /= 1.1, high *= 1.1; low /= 1.05; high *= 1.05 }
  else { const room = (high - low || Math.abs(high) || 1) * 0.05; low -= room; high += room }
  const left = 72, right = width - 12, top = 12, bottom = height - 34
  const x = axis(from, to, left, right, logx), y = axis(low, high, bottom, top, logy)
  const plot = {x, y, left, right, top, bottom, list, grain: o.grain ?? 1}
  c.strokeStyle = css("line")
  c.fillStyle = css("soft")
  c.lineWidth = 1
  c.textAlign = "right"
  c.textBaseline = "middle"
  for (const v of ticks(low, high, 6, logy)) {
    c.beginPath(); c.moveTo(left, y.at(v)); c.lineTo(right, y.at(v)); c.stroke()
    c.fillText(short(v), left - 6, y.at(v))
  }
  c.textAlign = "center"
  c.textBaseline = "top"
  for (const v of ticks(from, to, width < 500 ? 4 : 8, logx)) {
    c.beginPath(); c.moveTo(x.at(v), top); c.lineTo(x.at(v), bottom); c.stroke()
    c.fillText(short(v, 6), x.at(v), bottom + 5)
  }
  c.fillText(o.titlex || "step", (left + right) / 2, bottom + 19)
  c.save()
  c.translate(6, (top + bottom) / 2)
  c.rotate(-Math.PI / 2)
  c.fillText(o.title, 0, 0, bottom - top)
  c.restore()
  c.save()
  c.beginPath(); c.rect(left, top, right - left, bottom - top); c.clip()
  const fill = (curve, a, b, alpha) => {
    c.globalAlpha = alpha
    c.fillStyle = inked(curve.colour)
    let begun = -1
    const inside = v => logy ? Math.max(v, low / 10) : v
    const end = upTo => {
      if (begun < 0) return
      c.beginPath()
      for (let i = begun; i < upTo; i++) c.lineTo(x.at(curve.s[i]), y.at(inside(b[i])))
      for (let i = upTo; i-- > begun;) c.lineTo(x.at(curve.s[i]), y.at(inside(a[i])))
      c.fill()
      begun = -1
    }
    curve.s.forEach((s, i) => {
      if (!Number.isFinite(a[i]) || !Number.isFinite(b[i]) || (logy && b[i] <= 0) || (logx && s <= 0)) end(i)
      else if (begun < 0) begun = i
    })
    end(curve.s.length)
    c.globalAlpha = 1
  }
  for (const curve of list) {
    if (curve.h) fill(curve, curve.l, curve.h, curve.lo ? 0.12 : 0.3)
    if (curve.lo) fill(curve, curve.lo, curve.hi, 0.22)
  }
  for (const curve of list) {
    c.strokeStyle = inked(curve.colour)
    c.globalAlpha = curve.alpha ?? 1
    c.lineWidth = curve.thick
    c.setLineDash(curve.dash)
    c.beginPath()
    let pen = false
    curve.s.forEach((s, i) => {
      const v = curve.m[i]
      if (!Number.isFinite(v) || (logy && v <= 0) || (logx && s <= 0)) pen = false
      else { pen ? c.lineTo(x.at(s), y.at(v)) : c.moveTo(x.at(s), y.at(v)); pen = true }
    })
    c.stroke()
    if (curve.s.length === 1) { c.beginPath(); c.arc(x.at(curve.s[0]), y.at(curve.m[0]), 3, 0, 7); c.stroke() }
  }
  c.globalAlpha = 1
  c.strokeStyle = c.fillStyle = css("soft")
  c.lineWidth = 1
  c.setLineDash([3, 5])
  c.textAlign = "left"
  c.textBaseline = "bottom"
  for (const [value, text] of o.lines || []) {
    c.beginPath(); c.moveTo(left, y.at(value)); c.lineTo(right, y.at(value)); c.stroke()
    c.fillStyle = css("paper")
    c.globalAlpha = 0.8
    c.fillRect(left + 2, y.at(value) - 17, c.measureText(text).width + 4, 16)
    c.globalAlpha = 1
    c.fillStyle = css("soft")
    c.fillText(text, left + 4, y.at(value) - 2)
  }
  c.setLineDash([])
  if (o.over) o.over(c, plot)
  c.restore()
  return plot
}

/* Curves on a canvas: hover and arrows show values, dragging and + - 0 zoom. `view` holds from, to and cursor, and several
   may share one; describe() returns the options of drawCurves and `last`, the last step; `changed` redraws all of them. */
class Curves {
  constructor(canvas, output, view, describe, changed, moved) {
    Object.assign(this, {canvas, output, view, describe, changed, moved: moved || (() => this.draw()), plot: null, drag: null})
    const place = e => e.clientX - canvas.getBoundingClientRect().left
    const step = p => Math.max(0, Math.round(this.plot.x.back(Math.min(Math.max(p, this.plot.left), this.plot.right)) / this.plot.grain) * this.plot.grain)
    const point = at => { view.cursor = at; this.moved() }
    canvas.onpointermove = e => { if (!this.plot) return; if (this.drag) this.drag.to = place(e); point(step(place(e))) }
    canvas.onpointerleave = () => { if (this.plot && !this.drag) point(null) }
    canvas.onpointerdown = e => { if (this.plot && e.button === 0) { this.drag = {from: place(e), to: place(e)}; try { canvas.setPointerCapture(e.pointerId) } catch { /* a pointer that is gone */ } } }
    canvas.onpointerup = () => {
      const d = this.drag
      this.drag = null
      if (!d) return
      const a = step(Math.min(d.from, d.to)), b = step(Math.max(d.from, d.to))
      if (Math.abs(d.to - d.from) > 8 && b > a) view.from = a, view.to = b
      changed()
    }
    canvas.onpointercancel = () => { this.drag = null; if (this.plot) this.draw() }
    canvas.ondblclick = () => this.whole()
    canvas.onkeydown = e => { if (this.plot && !e.ctrlKey && !e.metaKey && !e.altKey && this.key(e.key, point)) e.preventDefault() }
  }
  whole() { this.view.from = this.view.to = null; this.changed() }
  key(key, point) {
    const all = this.plot.list.length ? this.plot.list[0].s : [], move = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10}[key], {x} = this.plot
    if (move && all.length) {
      const i = this.view.cursor === null ? (move > 0 ? -1 : all.length) : nearest(all, this.view.cursor)
      point(all[Math.min(Math.max(i + move, 0), all.length - 1)])
    } else if (key === "+" || key === "=" || key === "-") this.zoom(key === "-" ? 2 : 0.5, this.view.cursor ?? (x.low + x.high) / 2)
    else if (key === "0") this.whole()
    else if (key === "Escape") point(null)
    else return false
    return true
  }
  zoom(factor, middle) {
    const {x, last, grain} = this.plot, f = x.log ? Math.log : v => v, g = x.log ? Math.exp : v => v, m = f(middle)
    const from = Math.max(g(m + (f(x.low) - m) * factor), x.log ? Math.min(x.low, grain) : 0), to = Math.min(g(m + (f(x.high) - m) * factor), last)
    if (to - from < 2 * grain) return
    const all = factor > 1 && from <= (x.log ? grain : 0) && to >= last
    this.view.from = all ? null : from
    this.view.to = all ? null : to
    this.changed()
  }
  draw() {
    const {c, width, height} = canvasOf(this.canvas), o = this.describe(), drag = this.drag
    this.plot = drawCurves(c, width, height, {...o, from: this.view.from, to: this.view.to})
    const {x, y, top, bottom} = this.plot
    this.plot.last = o.last
    if (drag) { c.globalAlpha = 0.2; c.fillStyle = css("link"); c.fillRect(drag.from, top, drag.to - drag.from, bottom - top); c.globalAlpha = 1 }
    this.output.replaceChildren(...this.view.cursor === null || !o.list.length ? [] : this.values(c, o))
    this.canvas.setAttribute("aria-label", o.title + " over " + (o.titlex || "steps") + " " + short(x.low) + " to " + short(x.high, 6) + ", " + o.list.length + " curves, values " + short(y.low) + " to " + short(y.high))
  }
  /* The line at the cursor, and the curves that it crosses. */
  values(c, o) {
    const plot = this.plot, cursor = this.view.cursor, p = plot.x.at(cursor)
    c.strokeStyle = css("soft")
    c.beginPath(); c.moveTo(p, plot.top); c.lineTo(p, plot.bottom); c.stroke()
    const crossed = plot.list.map(curve => ({curve, i: nearest(curve.s, cursor)})).filter(({curve, i}) => Math.abs(curve.s[i] - cursor) <= Math.max(curve.w, (plot.x.high - plot.x.low) / 20))
    crossed.sort((a, b) => b.curve.m[b.i] - a.curve.m[a.i])
    const table = document.createElement("table")
    for (const {curve, i} of crossed.slice(0, 12)) {
      const y = curve.m[i], row = table.insertRow(), cell = text => { row.insertCell().textContent = text }, line = document.createElement("span")
      if (Number.isFinite(y) && (!plot.y.log || y > 0)) { c.fillStyle = inked(curve.colour); c.beginPath(); c.arc(plot.x.at(curve.s[i]), plot.y.at(y), 4, 0, 7); c.fill() }
      line.className = "swatch"
      line.style.borderTopColor = inked(curve.colour)
      row.insertCell().append(line, curve.label)
      cell(short(y, 6))
      cell(curve.hi && Number.isFinite(curve.hi[i]) ? "[" + short(curve.lo[i]) + ", " + short(curve.hi[i]) + "] n=" + curve.n[i] : "")
      cell(curve.h && curve.h[i] !== curve.m[i] ? short(curve.l[i]) + " to " + short(curve.h[i]) + " in " + Math.round(curve.w / (curve.k ?? 1)) + " steps" : "")
    }
    if (crossed.length > 12) table.insertRow().insertCell().textContent = "and " + (crossed.length - 12) + " more"
    const bold = document.createElement("b")
    bold.textContent = (o.titlex || "step") + " " + short(cursor, 7)
    return [bold, o.happened ? o.happened() : "", table]
  }
}

const partsOf = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)) // red, green, blue
const viridis = ["#440154", "#482777", "#3f4a8a", "#31678e", "#26838f", "#1f9d8a", "#6cce5a", "#b6de2b", "#fee825"].map(partsOf)
/* The colour at t, 0 to 1, of a list of colours at equal distances. */
function along(list, t) {
  const x = Math.min(Math.max(t, 0), 1) * (list.length - 1), i = Math.min(Math.floor(x), list.length - 2)
  return list[i].map((a, k) => Math.round(a + (list[i + 1][k] - a) * (x - i)))
}
const colourAt = t => "rgb(" + along(viridis, t).join(",") + ")"

/* Draw rows of values over steps, d: {s: steps, n: names of the rows, v: their values, w: steps of a point}, and return where they are. */
function drawHeat(c, width, height, d, log, mark) {
  c.textBaseline = "middle"
  let low = Infinity, high = -Infinity
  for (const row of d.v) for (const v of row) if (Number.isFinite(v) && (!log || v > 0)) low = Math.min(low, v), high = Math.max(high, v)
  const part = v => log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low)
  const left = 12 + Math.min(150, Math.max(...d.n.map(n => c.measureText(n).width))), right = width - 74, top = 10, bottom = height - 34
  const last = d.s.length > 1 ? d.s[d.s.length - 1] + (d.s[d.s.length - 1] - d.s[d.s.length - 2]) : d.s[0] + d.w
  const x = s => left + (s - d.s[0]) / (last - d.s[0] || 1) * (right - left), row = (bottom - top) / d.n.length
  d.v.forEach((values, h) => values.forEach((v, i) => {
    c.fillStyle = Number.isFinite(v) && (!log || v > 0) ? colourAt(high > low ? part(v) : 0.5) : css("soft")
    const a = x(d.s[i]), b = x(i + 1 < d.s.length ? d.s[i + 1] : last)
    c.fillRect(a, top + h * row, b - a + 0.6, row + 0.6)
  }))
  c.fillStyle = css("soft")
  c.textAlign = "right"
  const every = Math.ceil(13 / row)
  d.n.forEach((n, h) => { if (h % every === 0) c.fillText(n, left - 5, top + (h + 0.5) * row, left - 8) })
  c.textAlign = "center"
  for (const s of ticks(d.s[0], last, width < 500 ? 4 : 8, false)) c.fillText(short(s, 6), x(s), bottom + 10)
  c.fillText("step", (left + right) / 2, bottom + 25)
  for (let i = 0; i < 60; i++) {
    c.fillStyle = colourAt(1 - i / 59)
    c.fillRect(right + 10, top + i * (bottom - top) / 60, 10, (bottom - top) / 60 + 0.6)
  }
  c.fillStyle = css("soft")
  c.textAlign = "left"
  c.fillText(short(high, 5), right + 24, top + 5)
  c.fillText(short(low, 5), right + 24, bottom - 5)
  if (mark && mark[0] < d.n.length && mark[1] < d.s.length) {
    const [h, i] = mark, a = x(d.s[i]), wide = Math.max(3, x(i + 1 < d.s.length ? d.s[i + 1] : last) - a)
    c.strokeStyle = "#fff"; c.lineWidth = 3
    c.strokeRect(a, top + h * row, wide, row)
    c.strokeStyle = "#000"; c.lineWidth = 1
    c.strokeRect(a, top + h * row, wide, row)
  }
  return {d, left, right, top, bottom, row, last, x, low, high}
}

/* A heat map on a canvas: pointer and arrows move a mark. describe() returns {d, log}, or {text} if there is nothing to draw. */
class Heat {
  constructor(canvas, output, describe) {
    Object.assign(this, {canvas, output, describe, heat: null, mark: null})
    canvas.onpointermove = e => {
      const heat = this.heat
      if (!heat) return
      const box = canvas.getBoundingClientRect(), p = e.clientX - box.left, q = e.clientY - box.top
      if (p < heat.left || p >= heat.right || q < heat.top || q >= heat.bottom) this.mark = null
      else {
        let i = heat.d.s.length - 1
        while (i > 0 && heat.x(heat.d.s[i]) > p) i--
        this.mark = [Math.min(Math.floor((q - heat.top) / heat.row), heat.d.n.length - 1), i]
      }
      this.draw()
    }
    canvas.onkeydown = e => {
      const move = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[e.key]
      if (!move || !this.heat) return
      const within = (v, n) => Math.min(Math.max(v, 0), n - 1), {d} = this.heat, mark = this.mark
      this.mark = mark ? [within(mark[0] + move[0], d.n.length), within(mark[1] + move[1], d.s.length)] : [0, 0]
      this.draw()
      e.preventDefault()
    }
  }
  draw() {
    const {c, width, height} = canvasOf(this.canvas), {d, log, text} = this.describe()
    this.heat = null
    this.output.textContent = ""
    if (!d) { c.fillStyle = css("soft"); c.fillText(text, 12, height / 2); return }
    const heat = this.heat = drawHeat(c, width, height, d, log, this.mark), mark = this.mark
    this.canvas.setAttribute("aria-label", d.n.length + " rows over steps " + d.s[0] + " to " + heat.last + ", values " + short(heat.low) + " to " + short(heat.high))
    if (mark && mark[0] < d.n.length && mark[1] < d.s.length)
      this.output.textContent = d.n[mark[0]] + ", " + (d.w > 1 ? "from step " : "step ") + d.s[mark[1]] + ": " + short(d.v[mark[0]][mark[1]], 6)
  }
}
