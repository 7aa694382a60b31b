/* words.js - sentences that are computed from the data */
"use strict"

const limit = 100 // Kimi K2's threshold, at which a logit counts as exploding here
const round = (x, digits = 3) => x >= 100 && x < 1e5 ? String(Math.round(x)) : short(x, digits)

/* A summary of a series that grows: begun by first(), continued with each new row by add(summary, series, row). */
function summed(run, name, first, add) {
  const x = run.series.get(name)
  let sum = run.sums[name]
  if (!sum) sum = run.sums[name] = {rows: 0, ...first()}
  if (x) for (; sum.rows < x.s.length; sum.rows++) add(sum, x, sum.rows)
  return sum
}

/* Of one run: its largest max logit, where, where it passed the limit first, and the largest after the first row, where a clip can have acted. */
const logitsOf = run => summed(run, "attn/max_logit", () => ({peak: -Infinity, head: 0, step: 0, passed: null, passedBy: 0, later: -Infinity}), (sum, x, i) => x.v.forEach((v, k) => {
  if (v[i] > sum.peak) sum.peak = v[i], sum.head = k, sum.step = x.s[i]
  if (sum.passed === null && v[i] > limit) sum.passed = x.s[i], sum.passedBy = k
  if (i && v[i] > sum.later) sum.later = v[i]
}))
const clipsOf = run => summed(run, "qk_clip/gamma", () => ({clips: 0}), (sum, x, i) => { for (const v of x.v) if (v[i] < 1) sum.clips++ }).clips

function headName(run, k) {
  const heads = Number(run.setting("model.heads"))
  return "head " + k % heads + " of layer " + Math.floor(k / heads)
}
const isClipped = run => (run.setting("stabilizers") || "").split("+").some(s => s.startsWith("qk_clip"))

/* The last validation loss up to a step. */
function lossOf(run, upTo = Infinity) {
  const x = run.series.get("val_loss"), i = x ? x.s.findLastIndex(s => s <= upTo) : -1
  return i < 0 ? NaN : x.v[0][i]
}
const mean = list => list.reduce((a, b) => a + b, 0) / list.length

function armSentence(arm) {
  const runs = arm.runs.filter(r => r.count > 0), failures = arm.runs.filter(r => r.state === "diverged" || r.state === "blown-up")
  if (!runs.length) return ""
  const all = runs.map(logitsOf), run = runs[0], first = all[0], peak = Math.max(...all.map(x => x.peak))
  const broken = failures.length ? " " + (runs.length > 1 ? failures.length + " of " + runs.length + " runs " : "The run ") + (failures[0].state === "diverged" ? "diverged: its numbers are no longer finite." : "blew up: its loss rose for good.") : ""
  const passed = all.filter(x => x.passed !== null).length, tau = arm.tau
  if (tau && isClipped(run)) {
    const acted = runs.some(clipsOf), later = Math.max(...all.map(x => x.later))
    return (!acted && peak <= tau ? `no head has reached QK-Clip's threshold of ${tau} yet (largest: ${round(peak)}).` :
      !acted || later === -Infinity ? `a head passed QK-Clip's threshold of ${tau} before a clip could act (largest: ${round(peak)}).` :
      later > 2 * tau ? `QK-Clip does not hold: the largest score is ${round(later)}, its threshold is ${tau}.` :
      `QK-Clip holds every head at or below about ${tau} (largest${peak > later ? " after the first step" : ""}: ${round(later)}).`) + broken
  }
  if (runs.length > 1) return (passed ? `in ${passed} of ${runs.length} seeds a head passed ${limit}` : `no head passed ${limit} in ${runs.length} seeds`) + ` (largest: ${round(peak)}).` + broken
  if (passed) return `${headName(run, first.passedBy)} passed ${limit} at step ${first.passed}` + (first.peak > 1.1 * limit ? `; the largest score is ${round(first.peak)}.` : ".") + broken
  return `the largest score is ${round(first.peak)}, in ${headName(run, first.head)}.` + broken
}

/* The difference at the last validation that all arms have reached. */
function lossSentence(all) {
  const soundOf = arm => arm.runs.filter(r => !["diverged", "blown-up", "failed"].includes(r.state))
  const arms = all.filter(arm => soundOf(arm).length), sound = arms.map(soundOf)
  const step = Math.min(...sound.flat().map(r => r.series.get("val_loss")?.s.at(-1) ?? 0)), known = sound.map(runs => mean(runs.map(r => lossOf(r, step))))
  if (arms.length < 2 || !(step > 0) || !known.every(Number.isFinite)) return ""
  const ended = sound.flat().every(r => r.done && r.series.get("val_loss").s.at(-1) === step), spread = Math.max(...known) - Math.min(...known)
  const whole = all.every(arm => soundOf(arm).length === arm.runs.length), low = known.indexOf(Math.min(...known)), digits = spread < 0.005 ? 4 : 3 // enough to differ
  if (whole && spread < 0.0005) return `${ended ? "The" : `At step ${step} the`} losses are equal (${known[0].toFixed(3)} nat).`
  if (whole && arms.length === 2) return `${ended ? "The" : `At step ${step} the`} loss of ${arms[low].label} is lower by ${spread.toFixed(digits)} nat (${known[low].toFixed(digits)} against ${known[1 - low].toFixed(digits)}).`
  return `Losses${ended ? "" : ` at step ${step}`}: ` + arms.map((arm, i) => `${arm.label} ${known[i].toFixed(digits)}` + (sound[i].length < arm.runs.length ? ` (${sound[i].length} of ${arm.runs.length} seeds)` : "")).join(", ") + " nat."
}

/* [[arm or null, sentence]] */
const sentencesOf = arms => [...arms.map(arm => [arm, armSentence(arm)]), [null, lossSentence(arms)]].filter(x => x[1])

/* A screen reader repeats this only if it changes: arms that have started, passed the limit, or ended. */
const turnOf = arms => arms.map(arm => arm.runs.map(r => [r.state, r.count > 0, logitsOf(r).passed !== null, clipsOf(r) > 0]).join()).join(";")
