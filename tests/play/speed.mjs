// speed.mjs MODULE WORDS STEPS ROUNDS: steps per second of processor time, of each round
import { open } from './module.mjs'

const [path, words, steps, rounds] = process.argv.slice(2)
const { exports, put, string } = open(path)
put(words)
const run = exports.play_new()
if (!run || exports.play_step(run, 5) < 0) throw new Error(string(exports.play_error()))
for (let i = 0; i < rounds; i++) {
  const began = process.cpuUsage()
  exports.play_step(run, Number(steps))
  const { user, system } = process.cpuUsage(began)
  console.log((Number(steps) * 1e6 / (user + system)).toFixed(2))
}
