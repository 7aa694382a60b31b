/* controls.js - sliders, and completion of settings from the program's own option rows */
"use strict"

/* label, key, stops. A slider writes key=value into the text of all settings; "seeds" is the page's own. */
const sliders = [
  ["Learning rate", "train.lr", [0.0001, 0.0003, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.3, 1]],
  ["Clip threshold tau", "qk_clip.tau", [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300]],
  ["Weight decay", "train.weight_decay", [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1]],
  ["Width", "model.width", [8, 16, 32, 48, 64, 96, 128]],
  ["Heads", "model.heads", [1, 2, 4, 8]],
  ["Layers", "model.layers", [1, 2, 3, 4, 6]],
  ["Context", "model.context", [8, 16, 32, 64, 128]],
  ["Batch", "train.batch", [1, 2, 4, 8, 16, 32]],
  ["Steps", "train.steps", [50, 100, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000, 10000]],
  ["Seeds", "seeds", [1, 2, 3, 4, 6, 8]],
]

/* The words of a text, as a shell would split it. */
const wordsOf = text => text.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) || []
const keyOf = word => word.split("=")[0].trim()
function valueIn(text, key) {
  const found = wordsOf(text).filter(w => keyOf(w) === key).pop()
  return found?.slice(found.indexOf("=") + 1)
}
function withKey(text, key, value) {
  const words = wordsOf(text), i = words.findLastIndex(w => keyOf(w) === key)
  words.splice(i < 0 ? words.length : i, i < 0 ? 0 : 1, key + "=" + value)
  return words.join(" ")
}

/* One slider: value() reads the present value, change(value) is called while it moves. */
function makeSlider([label, key, stops], value, change) {
  const input = element("input", {type: "range", min: 0, max: stops.length - 1, step: 1}), shown = element("b", {})
  const root = element("label", {className: "slider"}, label, shown, input)
  input.dataset.key = key
  input.oninput = () => change(stops[input.value])
  const update = () => {
    const now = value(), x = Number(now)
    shown.textContent = now ?? "–"
    if (now !== undefined) input.value = stops.reduce((b, s, i) => Math.abs(s - x) < Math.abs(stops[b] - x) ? i : b, 0)
    input.setAttribute("aria-valuetext", String(now ?? "set by the preset"))
  }
  return {root, update}
}

/* Completion of key=value words in a text field. rows: of play_options(), key -> {help, choices, default, allowed}. */
class Completion {
  constructor(input, list, help, rows, apply) {
    Object.assign(this, {input, list, help, rows, apply, at: -1, first: help.textContent})
    input.oninput = () => this.open()
    input.onkeydown = e => this.key(e)
    input.onblur = () => setTimeout(() => this.close(), 150)
    input.onchange = () => apply()
    input.onclick = input.onkeyup = () => this.explain()
    list.onpointerdown = e => { e.preventDefault(); const li = e.target.closest("li"); if (li) this.take(li.dataset.text) }
  }
  /* The word at the caret: where it begins and ends. */
  word() {
    const {value, selectionStart: caret} = this.input, before = /\S*$/.exec(value.slice(0, caret))[0], after = /^\S*/.exec(value.slice(caret))[0]
    return {text: before + after, typed: before, from: caret - before.length, to: caret + after.length}
  }
  matches() {
    const {typed} = this.word(), [key, value] = typed.split("=")
    if (!typed) return []
    if (value === undefined) {
      const order = k => k === key ? -1 : k.startsWith(key) ? 0 : k.includes("." + key) ? 1 : 2
      return [...this.rows.keys()].filter(k => k.includes(key)).sort((a, b) => order(a) - order(b)).slice(0, 12).map(k => [k + "=", k, this.rows.get(k).help])
    }
    return (this.rows.get(key)?.choices || []).filter(c => c.startsWith(value) && c !== value).map(c => [key + "=" + c, c, ""])
  }
  open() {
    const found = this.matches()
    this.at = -1
    this.list.replaceChildren(...found.map(([text, label, help], i) => {
      const li = element("li", {id: "choice" + i}, label, element("span", {textContent: help}))
      li.setAttribute("role", "option")
      li.dataset.text = text
      return li
    }))
    this.list.hidden = !found.length
    this.input.setAttribute("aria-expanded", String(!!found.length))
    this.input.removeAttribute("aria-activedescendant")
    this.explain()
  }
  close() { this.list.hidden = true; this.input.setAttribute("aria-expanded", "false"); this.input.removeAttribute("aria-activedescendant") }
  move(by) {
    const all = [...this.list.children]
    this.at = (this.at + by + all.length + (this.at < 0 && by < 0 ? 1 : 0)) % all.length
    all.forEach((li, i) => li.setAttribute("aria-selected", String(i === this.at)))
    all[this.at].scrollIntoView({block: "nearest"})
    this.input.setAttribute("aria-activedescendant", all[this.at].id)
  }
  key(e) {
    const open = !this.list.hidden
    if (open && (e.key === "ArrowDown" || e.key === "ArrowUp")) this.move(e.key === "ArrowDown" ? 1 : -1)
    else if (open && (e.key === "Tab" && !e.shiftKey || e.key === "Enter" && this.at >= 0)) this.take(this.list.children[Math.max(0, this.at)].dataset.text)
    else if (open && e.key === "Escape") this.close()
    else if (e.key === "Enter") this.close(), this.apply()
    else return
    e.preventDefault()
  }
  take(text) {
    const {from, to} = this.word()
    this.input.setRangeText(text, from, to, "end")
    this.input.focus()
    this.open()
  }
  explain() {
    const row = this.rows.get(keyOf(this.word().text))
    this.help.textContent = row ? `${keyOf(this.word().text)}: ${row.help}` + (row.allowed ? ` (${row.allowed})` : "") + (row.default !== "" ? `, default ${row.default}` : "") + "." : this.first
  }
}
