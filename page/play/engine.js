/* engine.js - runs in a Web Worker: one WebAssembly module with one run. A message {id, call, args} gets {id, value} or
   {id, error}. While a run trains, {rows, ...} reports the news. */
"use strict"

let x = null, run = 0, going = false, sent = [], printed = ""
const encoder = new TextEncoder(), decoder = new TextDecoder()
const bytes = () => new Uint8Array(x.memory.buffer)

/* The system calls that the module imports: a clock, random bytes and messages. All others report ENOSYS. */
function system(module) {
  const view = () => new DataView(x.memory.buffer), imports = {}
  const known = {
    clock_time_get: (clock, precision, out) => { view().setBigUint64(out, BigInt(Math.round(performance.now() * 1e6)), true); return 0 },
    random_get: (p, n) => { crypto.getRandomValues(bytes().subarray(p, p + n)); return 0 },
    environ_sizes_get: (count, size) => { view().setUint32(count, 0, true); view().setUint32(size, 0, true); return 0 },
    environ_get: () => 0,
    fd_prestat_get: () => 8, // EBADF: no folders
    fd_write: (fd, vectors, n, out) => {
      let all = 0, text = ""
      for (let i = 0; i < n; i++) {
        const p = view().getUint32(vectors + 8 * i, true), length = view().getUint32(vectors + 8 * i + 4, true)
        text += decoder.decode(bytes().slice(p, p + length))
        all += length
      }
      view().setUint32(out, all, true)
      printed += text
      return 0
    },
    proc_exit: code => { throw new Error("the module exited with status " + code) },
  }
  for (const {module: from, name} of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = known[name] || (() => 52)
  return imports
}

function read(p) {
  const all = bytes()
  return p ? decoder.decode(all.slice(p, all.indexOf(0, p))) : ""
}
function write(text) {
  const coded = encoder.encode(text + "\0"), p = x.play_room(coded.length) // the memory may grow here
  bytes().set(coded, p)
}
const numbers = (Type, p, n) => new Type(x.memory.buffer, p, n).slice()
/* The module's output before it ended, or the message of the error. */
const said = e => printed.trim() || e.message
const failed = () => { throw new Error(read(x.play_error())) }

/* The rows that were not sent yet. */
function news() {
  const rows = [], moved = []
  for (let i = 0; i < x.play_series(run); i++) {
    const n = x.play_rows(run, i), width = x.play_width(run, i), from = sent[i] ?? 0
    if (n === from) continue
    const steps = numbers(Float64Array, x.play_row_steps(run, i) + 8 * from, n - from)
    const values = numbers(Float64Array, x.play_values(run, i) + 8 * from * width, (n - from) * width)
    rows.push([i, steps, values])
    moved.push(steps.buffer, values.buffer)
    sent[i] = n
  }
  return [{rows, count: x.play_count(run), steps: x.play_steps(run), state: read(x.play_state(run))}, moved]
}

/* Train in portions of about 30 ms, so that messages are answered between them. */
const channel = new MessageChannel()
let portion = 1
channel.port1.onmessage = () => {
  if (!going) return
  const begun = performance.now()
  try {
    const done = x.play_step(run, portion)
    const took = performance.now() - begun
    if (done < 0) failed()
    going = done > 0 && read(x.play_state(run)) === "running"
    const [report, moved] = news()
    postMessage({...report, rate: done / took * 1e3}, moved)
    portion = Math.max(1, Math.min(4 * portion, Math.round(done * 30 / took) || 1))
    if (going) channel.port2.postMessage(0)
  } catch (e) {
    going = false
    postMessage({broken: said(e)})
  }
}

const calls = {
  async load(module) {
    x = (await WebAssembly.instantiate(module, system(module))).exports
    if (x._initialize) x._initialize()
  },
  options: () => ({...JSON.parse(read(x.play_options())), version: read(x.play_version())}),
  doctor: () => ({bits: read(x.play_doctor()), reference: read(x.play_doctor_reference()), level: read(x.play_level())}),
  check(text) { write(text); return x.play_check() ? "" : read(x.play_error()) },
  start(text) {
    write(text)
    run = x.play_new()
    if (!run) failed()
    const series = Array.from({length: x.play_series(run)}, (_, i) =>
      JSON.parse(read(x.play_describe(run, i))))
    return {series, steps: x.play_steps(run), settings: read(x.play_settings(run)), command: read(x.play_command(run)), warnings: read(x.play_warnings())}
  },
  go(flag) {
    if (!run) return // the error of start stays the last
    if (flag && !going) channel.port2.postMessage(0)
    going = flag
  },
  step() {
    if (x.play_step(run, 1) < 0) failed()
    const [report, moved] = news()
    postMessage(report, moved)
  },
  change(word) {
    write(word)
    if (!x.play_change(run)) failed()
    sent = []
    return {settings: read(x.play_settings(run)), command: read(x.play_command(run)), ...news()[0]}
  },
  attention(layer, head) {
    const p = x.play_attention(run, layer, head), n = x.play_context(run)
    return p ? numbers(Float32Array, p, n * n) : failed()
  },
  spectrum(layer, head) {
    const p = x.play_spectrum(run, layer, head)
    return p ? numbers(Float64Array, p, x.play_spectrum_size(run, layer, head)) : failed()
  },
  csv: () => read(x.play_csv(run)),
  bytes: () => Number(x.play_bytes(run)),
}

onmessage = async ({data: {id, call, args}}) => {
  try { postMessage({id, value: await calls[call](...args)}) } catch (e) { postMessage({id, error: said(e)}) }
}
