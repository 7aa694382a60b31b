// presets.mjs MODULE: lines "BITS PRESET" on standard input, which the module is to have, too: 50 steps of each preset
import { readFileSync } from 'node:fs'
import { open } from './module.mjs'

const module = open(process.argv[2])
const list = readFileSync(0, 'utf8').trim().split('\n').map((line) => [line.slice(0, 16), line.slice(17)])
const wrong = list.map(([bits, words]) => [bits, words, module.bits(words)]).filter(([bits, , got]) => got !== bits)
for (const [bits, words, got] of wrong) console.log(`${words}: ${got} here, ${bits} in the program`)
console.log(`${list.length} runs, ${wrong.length} of them wrong`)
process.exit(wrong.length > 0 || list.length === 0 ? 1 : 0)
