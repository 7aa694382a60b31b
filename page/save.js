/* save.js - figures as PNG, SVG and CSV, and texts as files */
"use strict"

function download(name, type, content) {
  const a = document.createElement("a"), url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}))
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 60000)
}

/* The part of a canvas' context that draw.js uses, as SVG. */
class Svg {
  constructor(width, height) {
    Object.assign(this, {width, height, out: [], path: "", open: 0, clips: 0, stack: [], globalAlpha: 1, lineWidth: 1, dash: [], turn: "",
      fillStyle: "#000", strokeStyle: "#000", textAlign: "left", textBaseline: "alphabetic", scratch: document.createElement("canvas").getContext("2d")})
    this.scratch.font = "12px system-ui,sans-serif"
  }
  put(element) { this.out.push(element) }
  at(...values) { return values.map(v => +v.toFixed(2)).join(" ") }
  save() { const {globalAlpha, lineWidth, dash, fillStyle, strokeStyle, textAlign, textBaseline, turn, open} = this; this.stack.push({globalAlpha, lineWidth, dash, fillStyle, strokeStyle, textAlign, textBaseline, turn, open}) }
  restore() { const old = this.stack.pop(); for (; this.open > old.open; this.open--) this.put("</g>"); Object.assign(this, old) }
  translate(x, y) { this.turn += `translate(${this.at(x, y)})` }
  rotate(a) { this.turn += `rotate(${this.at(a * 180 / Math.PI)})` }
  setLineDash(dash) { this.dash = dash }
  beginPath() { this.path = "" }
  moveTo(x, y) { this.path += "M" + this.at(x, y) }
  lineTo(x, y) { this.path += (this.path ? "L" : "M") + this.at(x, y) }
  rect(x, y, w, h) { this.path += `M${this.at(x, y)}h${this.at(w)}v${this.at(h)}h${this.at(-w)}z` }
  arc(x, y, r) { this.path += `M${this.at(x - r, y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0` }
  clip() { this.put(`<clipPath id="c${++this.clips}"><path d="${this.path}"/></clipPath><g clip-path="url(#c${this.clips})">`); this.open++ }
  alpha() { return this.globalAlpha === 1 ? "" : ` opacity="${this.globalAlpha}"` }
  line() { return ` stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"` + (this.dash.length ? ` stroke-dasharray="${this.dash}"` : "") + this.alpha() }
  stroke() { if (this.path) this.put(`<path fill="none" stroke-linejoin="round" d="${this.path}"${this.line()}/>`) }
  fill() { this.put(`<path fill="${this.fillStyle}"${this.alpha()} d="${this.path}z"/>`) }
  fillRect(x, y, w, h) { this.put(`<rect x="${this.at(x)}" y="${this.at(y)}" width="${this.at(w)}" height="${this.at(h)}" fill="${this.fillStyle}"${this.alpha()}/>`) }
  strokeRect(x, y, w, h) { this.put(`<rect x="${this.at(x)}" y="${this.at(y)}" width="${this.at(w)}" height="${this.at(h)}" fill="none"${this.line()}/>`) }
  measureText(text) { return this.scratch.measureText(text) }
  fillText(text, x, y) {
    const anchor = {left: "start", center: "middle", right: "end"}[this.textAlign], base = {top: "hanging", middle: "central", bottom: "text-after-edge"}[this.textBaseline]
    const safe = String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;")
    this.put(`<text x="${this.at(x)}" y="${this.at(y)}" fill="${this.fillStyle}" text-anchor="${anchor}" dominant-baseline="${base || "auto"}"${this.turn && ` transform="${this.turn}"`}>${safe}</text>`)
  }
  text() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" font-family="system-ui,sans-serif" font-size="12">` +
      `<rect width="100%" height="100%" fill="${css("paper")}"/>${this.out.join("")}</svg>\n`
  }
}

/* A figure is {name, canvas, paint(c, width, height), table(): rows of a CSV}. */
const savers = {
  PNG(figure) {
    const {canvas} = figure, copy = document.createElement("canvas"), c = copy.getContext("2d")
    copy.width = canvas.width
    copy.height = canvas.height
    c.fillStyle = css("paper")
    c.fillRect(0, 0, copy.width, copy.height)
    c.drawImage(canvas, 0, 0)
    copy.toBlob(blob => download(figure.name + ".png", "", blob))
  },
  SVG(figure) {
    const svg = new Svg(figure.canvas.clientWidth, figure.canvas.clientHeight)
    figure.paint(svg, svg.width, svg.height)
    download(figure.name + ".svg", "image/svg+xml", svg.text())
  },
  CSV(figure) { download(figure.name + ".csv", "text/csv", figure.table().map(row => row.map(field).join(",") + "\n").join("")) },
}
/* Buttons that save a figure, each called by what it does. */
const saveButtons = (figure, title) => Object.keys(savers).map(kind => {
  const b = document.createElement("button")
  b.type = "button"
  b.textContent = kind
  b.title = "Save this figure as " + kind
  b.onclick = () => savers[kind](figure)
  b.setAttribute("aria-label", "Save " + title + " as " + kind)
  return b
})
/* A cell by the rules of cell_add (src/base/markup.c): a text that looks like a formula gets an apostrophe. */
function field(x) {
  const text = (/^[=+\-@]/.test(x ?? "") && isNaN(x) ? "'" : "") + (x ?? "")
  return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text
}
