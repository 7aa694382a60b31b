/* play.js - the state of the page, its link, its arms and their runs */
"use strict"

const standard = {arms: ["muon", "muonclip"], seeds: 1, lesson: 0, head: "", other: "", view: [],
  set: "model.width=32 model.context=32 train.lr=0.03 train.weight_decay=0 qk_clip.tau=30 train.steps=600 train.val_every=50 record.spectra_every=20"}
const calm = matchMedia("(prefers-reduced-motion: reduce)")
const page = {state: null, arms: [], playing: true, embedded: false, redraw, keep, headOf}
const desk = new Engine(() => {}) // answers questions about options and bits; trains nothing
let checker = null // of settings
let options = {presets: []}, rows = new Map(), figures = [], slides = [], completion = null, lastTurn = ""

/* --- the link ----------------------------------------------------------------------------------------------- */
function readLink() {
  const p = new URLSearchParams(location.hash.slice(1)), lesson = Math.min(Math.max(Math.trunc(p.get("lesson")) || 0, 0), lessons.length)
  const base = {...standard, ...lesson ? lessons[lesson - 1].state : {}}, arms = p.getAll("arm").slice(0, 4)
  page.embedded = p.has("embed")
  return {arms: arms.length ? arms : [...base.arms], seeds: Math.min(Math.max(Math.trunc(p.get("seeds")) || base.seeds, 1), 8), lesson, head: p.get("head") ?? base.head,
    other: p.get("other") ?? base.other, view: p.has("view") ? p.get("view").split(",").filter(x => x) : base.view, set: p.get("set") ?? base.set}
}
function link() {
  const p = new URLSearchParams(), s = page.state
  if (s.lesson) p.set("lesson", s.lesson)
  for (const arm of s.arms) p.append("arm", arm)
  p.set("set", s.set)
  if (s.seeds > 1) p.set("seeds", s.seeds)
  for (const key of ["head", "other"]) if (s[key]) p.set(key, s[key])
  if (s.view.length || s.lesson) p.set("view", s.view.join(","))
  if (page.embedded) p.set("embed", 1)
  return "#" + p
}
function keep() { history.replaceState(null, "", link()) }

/* --- runs ---------------------------------------------------------------------------------------------------- */
const armOf = text => { const [preset, ...own] = wordsOf(text); return {preset, own: own.join(" ")} }
function textsOf({arms, set, seeds}) {
  return arms.map(text => {
    const {preset, own} = armOf(text), first = Math.trunc(valueIn(own, "train.seed") ?? valueIn(set, "train.seed")) || 1
    return Array.from({length: seeds}, (_, i) => ({seed: first + i, text: [`preset=${preset}`, set, own, ...seeds > 1 ? [`train.seed=${first + i}`] : []].filter(x => x).join(" ")}))
  })
}
function start() {
  for (const run of page.arms.flatMap(a => a.runs)) run.end()
  range.from = range.to = range.cursor = null
  page.arms = textsOf(page.state).map((texts, i) => {
    const arm = armOf(page.state.arms[i]), own = wordsOf(arm.own).map(w => w.replace(/^(stabilizers=|\w+\.)/, "")).join(" ")
    const only = page.state.arms.filter(t => armOf(t).preset === arm.preset).length === 1
    return {...arm, label: [arm.preset, own].join(" ").trim(), short: only ? arm.preset : own || arm.preset, runs: texts.map(({seed, text}) => Object.assign(new Run(text, redraw), {seed})),
      get tau() { const r = this.runs[0]; return isClipped(r) ? Number(r.setting("qk_clip.tau")) : null }}
  })
  page.playing = true
  go()
}
function go() {
  for (const run of page.arms.flatMap(a => a.runs)) run.ask("go", page.playing && !document.hidden).catch(() => {})
  byId("pause").textContent = page.playing ? "Pause" : "Continue"
}

/* "", or the error in a text. A model that does not fit ends the module: then another takes its place. */
async function wrongIn(text) {
  const engine = checker ??= new Engine(() => {})
  try { return await engine.ask("check", text) } catch (e) {
    if (engine === checker) checker = null
    engine.end()
    return e.message
  }
}
/* Take a new state: check its settings, continue the runs if only settings that `resume` takes were changed, else restart. */
let newest = 0
async function take(change) {
  const before = page.state, state = {...before, ...change}, mine = ++newest
  const texts = textsOf(state), slow = setTimeout(() => { if (mine === newest) byId("wrong").textContent = "A model of this size takes a while to begin." }, 2000)
  if (checker?.waiting.size) checker.end(), checker = null // still at an older state
  const wrong = await Promise.all(texts.map(seeds => wrongIn(seeds[0].text)))
  clearTimeout(slow)
  if (mine !== newest) return
  const shared = wrong.some(x => x) && await Promise.all(texts.map((_, i) => wrongIn(["preset=" + armOf(state.arms[i]).preset, state.set].join(" "))))
  if (mine !== newest) return
  byId("wrong").textContent = shared ? shared.find(x => x) || "" : ""
  page.arms.forEach((arm, i) => { if (arm.wrong) arm.wrong.textContent = shared && !shared[i] ? wrong[i] : "" })
  byId("set").setAttribute("aria-invalid", String(!!byId("wrong").textContent))
  if (wrong.some(x => x)) return
  page.state = state
  if (!(await continued(before, state))) start()
  layout()
  keep()
}
async function continued(before, state) {
  const runs = page.arms.flatMap(a => a.runs), same = key => JSON.stringify(before[key]) === JSON.stringify(state[key])
  if (!same("arms") || !same("seeds") || same("set") || runs.some(r => r.state === "failed")) return false
  const old = wordsOf(before.set), now = wordsOf(state.set), fresh = now.filter(w => !old.includes(w))
  if (!fresh.length || fresh.some(w => page.arms.some(a => valueIn(a.own, keyOf(w)) !== undefined)) || old.some(w => !now.some(x => keyOf(x) === keyOf(w))) || !fresh.every(w => rows.get(keyOf(w))?.resume)) return false
  try { for (const word of fresh) await Promise.all(runs.map(r => r.change(word))) } catch { return false }
  go()
  return true
}

function headOf(arm) {
  const run = arm.runs[0], heads = Number(run?.setting("model.heads"))
  const chosen = /^l(\d+)h(\d+)$/.exec(page.state.head)
  if (chosen) return [Number(chosen[1]), Number(chosen[2])]
  const x = run?.series.get("attn/max_logit")
  if (!x || !x.s.length) return null
  const k = x.v.reduce((b, v, i) => v.at(-1) > x.v[b].at(-1) ? i : b, 0)
  return [Math.floor(k / heads), k % heads]
}

/* --- drawing -------------------------------------------------------------------------------------------------- */
let due = 0, drawn = 0
function redraw() {
  if (due) return
  due = setTimeout(() => requestAnimationFrame(() => { due = 0; drawn = performance.now(); draw() }), Math.max(0, (calm.matches ? 1000 : 100) - (performance.now() - drawn)))
}
function draw() {
  for (const f of figures) if (f.seen) f.draw()
  const sentences = sentencesOf(page.arms), turn = turnOf(page.arms)
  if (sentences.length) byId("sentence").replaceChildren(...sentences.map(([arm, text]) => element("span", {}, ...arm ? [swatch(page.arms.indexOf(arm)), element("b", {textContent: arm.label}), ": "] : [], text + " ")))
  else byId("sentence").textContent = page.arms.flatMap(a => a.runs).find(r => r.error)?.error ?? "Loading the simulator ..."
  if (sentences.length && turn !== lastTurn) byId("spoken").textContent = byId("sentence").textContent, lastTurn = turn
  for (const arm of page.arms) drawArm(arm)
  for (const s of slides) s.update()
  headChoices()
  byId("whole").hidden = range.from === null
  byId("note").textContent = [...page.arms[0]?.runs[0]?.messages || []].filter(m => m.includes("no effect") && page.arms.every(a => a.runs[0].messages.has(m))).join("; ")
  drawCommands()
  drawAnswer()
}
function swatch(i) {
  const s = element("i", {className: "swatch"})
  s.style.background = `var(--${colours[i]})`
  return s
}
function drawArm(arm) {
  if (!arm.status) return
  const run = arm.runs[0], slow = Math.min(...arm.runs.map(r => r.count)), failed = arm.runs.find(r => r.state === "failed")
  const states = [...new Set(arm.runs.map(r => r.state))].join(", "), rate = arm.runs.reduce((n, r) => n + (r.done ? 0 : r.rate), 0)
  const logits = logitsOf(run), clips = clipsOf(run)
  arm.status.textContent = failed ? failed.error : [`${states === "running" && !page.playing ? "paused" : states}, step ${slow} of ${run.steps}` + (rate && page.playing ? `, ${Math.round(rate)} steps/s` : ""),
    Number.isFinite(lossOf(run)) ? `validation loss ${lossOf(run).toFixed(3)} nat` : "", Number.isFinite(logits.peak) ? (arm.runs.length > 1 ? "first seed: " : "") + `peak logit ${round(logits.peak)} at step ${logits.step}` : "", clips ? clips + " clips" : "",
    ...[...run.messages].filter(m => !m.includes("no effect") || valueIn(arm.own, keyOf(m.split(" ")[0])))].filter(x => x).join("  ·  ")
  arm.status.className = failed || run.state === "diverged" || run.state === "blown-up" ? "wrong" : "soft"
}
function drawCommands() {
  const {seeds} = page.state, firsts = page.arms.map(a => a.runs[0]).filter(r => r?.command)
  const of = key => [...new Set(firsts.map(r => key === "train.seed" ? r.seed : r.setting(key)))].join(" or ") // arms may differ
  byId("command").textContent = page.arms.map(a => a.runs[0]?.command).filter(x => x).join("\n")
  byId("regime").textContent = firsts.length ? `${of("model.layers")} layers, width ${of("model.width")}, ${of("model.heads")} heads, context ${of("model.context")}, ` +
    `batch ${of("train.batch")}, learning rate ${of("train.lr")} (${of("train.schedule")}), weight decay ${of("train.weight_decay")}, data ${of("data")}. ` +
    (seeds > 1 ? `${seeds} seeds from ${of("train.seed")} on: the commands show the first. Lines are means over seeds (of logits geometric means), bands their 95 % intervals (Student's t).` : "One seed: raise Seeds before you conclude anything.") : ""
}

/* --- the parts of the page ------------------------------------------------------------------------------------- */
/* Sets the controls to the state: after start, a link, a lesson. */
function layout() {
  const {state} = page
  byId("set").value = state.set
  byId("arms").replaceChildren(...page.arms.map(armRow))
  byId("add").hidden = state.arms.length >= 4
  byId("all").hidden = !state.view.length
  const first = state.view.length ? state.view : ["logits", "loss"] // above the controls
  for (const f of figures) f.panel.hidden = state.view.length > 0 && !first.includes(f.name)
  byId("figures").dataset.count = first.length
  byId("figures").append(...first.map(name => figures.find(f => f.name === name)?.panel ?? ""))
  byId("views").append(...figures.filter(f => !first.includes(f.name)).map(f => f.panel))
  document.body.classList.toggle("embed", page.embedded)
  for (const a of document.querySelectorAll("nav a")) (a === byId("free") ? !state.lesson : a.hash === "#lesson=" + state.lesson) ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current")
  redraw()
}
function armRow(arm, i) {
  const change = text => { const arms = [...page.state.arms]; arms[i] = text; take({arms}) }
  const select = element("select", {}, ...(options.presets.length ? options.presets : [{name: arm.preset, help: ""}]).map(p => element("option", {value: p.name, textContent: p.name, title: p.help})))
  const own = element("input", {value: arm.own, placeholder: "own settings, as train.lr=0.006", spellcheck: false, onchange: () => change([select.value, own.value].join(" ").trim())})
  const csv = element("button", {type: "button", textContent: "CSV", title: "Download the runs with their settings; maxlogit import reads them", onclick: () => saveRuns(arm)})
  const remove = element("button", {type: "button", textContent: "Remove", disabled: page.arms.length < 2, onclick: () => take({arms: page.state.arms.filter((_, k) => k !== i)})})
  for (const [e, label] of [[select, "Preset"], [own, "Own settings"], [csv, "CSV"], [remove, "Remove"]]) e.setAttribute("aria-label", `${label}: arm ${i + 1}`)
  select.value = arm.preset
  select.onchange = () => change([select.value, own.value].join(" ").trim())
  arm.status = element("p", {})
  arm.wrong = element("p", {className: "wrong"})
  arm.wrong.setAttribute("role", "alert")
  const li = element("li", {}, element("div", {className: "row"}, select, own, csv, remove), arm.status, arm.wrong)
  li.style.borderLeftColor = `var(--${colours[i]})`
  return li
}
async function saveRuns(arm) {
  for (const run of arm.runs) if (run.count) download(`${arm.preset}-seed-${run.seed}.csv`, "text/csv", await run.ask("csv"))
}
function slide(spec) {
  const key = spec[1], value = () => key === "seeds" ? page.state.seeds : valueIn(page.state.set, key) ?? page.arms[0]?.runs[0]?.setting(key) ?? rows.get(key)?.default
  let later = 0
  const s = makeSlider(spec, () => s.wanted ?? value(), x => {
    s.wanted = x
    s.update()
    clearTimeout(later)
    later = setTimeout(() => { page.moved = key; take(key === "seeds" ? {seeds: x} : {set: withKey(page.state.set, key, x)}).finally(() => { s.wanted = undefined; s.update() }) }, 150)
  })
  if (rows.get(key)) s.root.title = rows.get(key).help
  return s
}
function headChoices() {
  const x = page.arms[0]?.runs[0]?.series.get("attn/max_logit"), names = Array.from({length: x?.width ?? 0}, (_, k) => placeName(x, k))
  for (const f of figures.filter(f => f.heads)) {
    if (f.heads.length === names.length + 1 && f.heads.value === page.state.head) continue
    f.heads.replaceChildren(new Option("largest logit", ""), ...names.map(n => new Option(n)))
    f.heads.value = names.includes(page.state.head) ? page.state.head : ""
  }
}
function makeFigures() {
  figures = [...overSteps.map(v => new StepFigure(v, page)), new MapFigure(page), new AttentionFigure(page), new SpectrumFigure(page)]
  for (const f of figures.filter(f => f instanceof HeadFigure)) {
    f.heads = element("select", {onchange: () => { page.state.head = f.heads.value; keep(); redraw() }})
    f.heads.setAttribute("aria-label", "Head: " + f.heading.textContent)
    f.heading.after(f.heads)
  }
}

function openLink() {
  page.state = readLink()
  page.moved = ""
  byId("wrong").textContent = ""
  start()
  layout()
  showLesson()
}

function listen() {
  byId("pause").onclick = () => { page.playing = !page.playing; go(); redraw() }
  byId("restart").onclick = () => { start(); layout() }
  byId("step").onclick = () => { page.playing = false; go(); for (const r of page.arms.flatMap(a => a.runs)) if (!r.done) r.ask("step").catch(e => r.take({broken: e.message})) }
  byId("whole").onclick = () => { range.from = range.to = null; redraw() }
  byId("all").onclick = () => { page.state.view = []; keep(); layout() }
  byId("add").onclick = () => take({arms: [...page.state.arms, ["adam", "adamclip", "muon", "muonclip"].find(p => !page.state.arms.includes(p)) || "adam"]})
  byId("copy").onclick = async () => {
    keep()
    try { await navigator.clipboard.writeText(location.href); byId("copied").textContent = "Copied." } catch { byId("copied").textContent = "Copy it from the address bar." }
    setTimeout(() => { byId("copied").textContent = "" }, 4000)
  }
  document.onvisibilitychange = go
  window.onhashchange = () => { if (location.hash !== link()) openLink() }
  matchMedia("(prefers-color-scheme: dark)").onchange = redraw
}

/* Not needed for the first curves: option rows, then the check of bits. */
async function askDesk() {
  options = await desk.ask("options")
  rows = new Map(options.sections.flatMap(s => s.keys.map(k => [(s.prefix ? s.prefix + "." : "") + k.name, k])))
  byId("version").textContent = options.version
  slides = sliders.map(slide)
  byId("sliders").replaceChildren(...slides.map(s => s.root))
  completion = new Completion(byId("set"), byId("choices"), byId("help"), rows, () => { if (byId("set").value.trim() !== page.state.set) take({set: wordsOf(byId("set").value).join(" ")}) })
  layout()
  showLesson()
  const {bits, reference, level} = await desk.ask("doctor")
  const same = bits === reference
  byId("same").textContent = same ? "These commands give the same bits:" : "These commands give the same runs up to rounding:"
  byId("bits").textContent = `Bits: ${bits}, ` + (same ? "equal to the reference of maxlogit doctor: this browser computes exactly what the program computes" : `not the reference ${reference}: this browser's arithmetic differs`) + ` (kernels: ${level}).`
}

makeFigures()
listen()
openLink()
askDesk().catch(e => { byId("wrong").textContent = e.message })
