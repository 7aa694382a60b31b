/* run.js - the module of this file, workers that run it, and the runs in them */
"use strict"

const inlined = id => byId(id).textContent.trim()
const workerURL = URL.createObjectURL(new Blob([inlined("engine")], {type: "text/javascript"}))

async function unpack(id) {
  const packed = Uint8Array.from(atob(inlined(id)), c => c.charCodeAt(0))
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer()
}

/* Whether relaxed multiply-add rounds once here: (1 + 2^-12)^2 - 1 keeps 2^-24 then. In bytes: a module with one function
   () -> f32 of f32x4.relaxed_madd. Engines without relaxed SIMD do not compile it. */
async function isFused() {
  const a = [0x43, 0, 8, 128, 63, 0xfd, 0x13], minus = [0x43, 0, 0, 128, 0xbf, 0xfd, 0x13] // f32.const, f32x4.splat
  const body = [0, ...a, ...a, ...minus, 0xfd, 0x85, 2, 0xfd, 0x1f, 0, 0x0b]
  const bytes = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7d, 3, 2, 1, 0, 7, 5, 1, 1, 0x66, 0, 0, 10, body.length + 2, 1, body.length, ...body])
  try { return (await WebAssembly.instantiate(bytes)).instance.exports.f() > 2 ** -11 } catch { return false }
}
const theModule = isFused().then(fused => unpack(fused || !byId("exact") ? "module" : "exact")).then(bytes => WebAssembly.compile(bytes))

/* A worker with a module. call() returns a promise; `heard` gets the messages that are not answers. */
class Engine {
  constructor(heard) {
    this.worker = new Worker(workerURL)
    this.waiting = new Map()
    this.asked = 0
    this.worker.onmessage = ({data}) => {
      const ask = this.waiting.get(data.id)
      if (!ask) return heard(data)
      this.waiting.delete(data.id)
      data.error === undefined ? ask.done(data.value) : ask.failed(new Error(data.error))
    }
    this.worker.onerror = e => heard({broken: e.message})
    this.ready = theModule.then(module => this.call("load", module))
  }
  call(call, ...args) {
    return new Promise((done, failed) => {
      this.waiting.set(++this.asked, {done, failed})
      this.worker.postMessage({id: this.asked, call, args})
    })
  }
  async ask(call, ...args) {
    await this.ready
    return this.call(call, ...args)
  }
  end() {
    this.worker.terminate()
    for (const ask of this.waiting.values()) ask.failed(new Error("ended"))
  }
}

/* One run of an arm. series: name -> {name, axis, width, about, unit, places, s: steps, v: a list of values for each column}. */
class Run extends Engine {
  constructor(text, changed) {
    super(data => this.take(data))
    Object.assign(this, {text, changed, series: new Map(), list: [], count: 0, steps: 0, state: "starting", rate: 0, error: "", messages: new Set(), settings: {}, sums: {}})
    this.ready = this.ready.then(() => this.call("start", text)).then(begun => {
      this.list = begun.series.map(x => ({...x, s: [], v: Array.from({length: x.width}, () => [])}))
      for (const x of this.list) this.series.set(x.name, x)
      this.state = "running"
      this.tell(begun)
    }).catch(e => this.take({broken: e.message}))
  }
  tell({settings, command, steps, warnings}) {
    if (warnings) this.note(warnings)
    this.settings = Object.fromEntries(readConfig(settings))
    this.command = command
    this.steps = steps
    this.changed()
  }
  take({rows, count, steps, state, rate, broken}) {
    if (broken && this.state !== "failed") this.state = "failed", this.error = broken
    for (const [i, s, v] of rows || []) {
      const x = this.list[i]
      for (const step of s) x.s.push(step)
      for (let k = 0; k < v.length; k++) x.v[k % x.width].push(v[k])
    }
    if (rows) Object.assign(this, {count, steps, state})
    if (rate) this.rate = this.rate ? 0.8 * this.rate + 0.2 * rate : rate
    this.changed()
  }
  /* The module sends all rows again: those of the old end may be gone. */
  async change(text) {
    const now = await this.ask("change", text)
    for (const x of this.list) x.s = [], x.v = x.v.map(() => [])
    this.sums = {}
    this.tell(now)
    this.take(now)
  }
  note(text) { for (const line of text.trim().split("\n")) this.messages.add(line.replace(/^.*command line: /, "")) }
  setting(key) { return this.settings[key] }
  get done() { return this.state !== "running" && this.state !== "starting" }
}

/* [key, value] of lines "key = value" below headings [section]. */
function readConfig(text) {
  let section = ""
  return text.split("\n").flatMap(line => {
    const heading = /^\[(\w+)\]/.exec(line), pair = /^([\w.]+) = ?(.*)$/.exec(line)
    if (heading) section = heading[1] + "."
    return pair ? [[section + pair[1], pair[2]]] : []
  })
}
