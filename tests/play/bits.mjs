// bits.mjs MODULE TABLE [PART PARTS]: the rows of tests/bits.txt that the module does not reproduce
import { readFileSync } from 'node:fs'
import { open } from './module.mjs'

const [path, table, part = 0, parts = 1] = process.argv.slice(2)
const rows = readFileSync(table, 'utf8').split('\n').map((line) => line.match(/^(\S+) +(-{16}|[0-9a-f]{16}) +(.*)$/)).filter(Boolean)
const all = rows.find((row) => row[1] === 'all')[3]
const module = open(path)
const file = 'tests/golden/text.txt'
module.file(file, readFileSync(`${process.env.top_srcdir ?? '.'}/${file}`))
let wrong = 0, count = 0
for (const [i, [, name, bits, settings]] of rows.filter((row) => row[1] !== 'all').entries()) {
  if (i % parts !== Number(part)) continue
  const got = module.bits(`${all} ${settings}`)
  count++
  if (got === bits) continue
  console.log(`${name}: ${got} here, ${bits} in the table`)
  wrong++
}
console.log(`${count} rows, ${wrong} of them wrong`)
process.exit(wrong > 0 || count === 0 ? 1 : 0)
