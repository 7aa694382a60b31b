// A module of WebAssembly under Node, with the part of WASI that it imports.
import { readFileSync } from 'node:fs'

export function open(path) {
  const compiled = new WebAssembly.Module(readFileSync(path))
  let exports
  const view = () => new DataView(exports.memory.buffer)
  const text = (from, bytes) => Buffer.from(exports.memory.buffer, from, bytes).toString('utf8')
  const wasi = {
    clock_time_get: (clock, precision, to) => (view().setBigUint64(to, process.hrtime.bigint(), true), 0),
    environ_sizes_get: (count, bytes) => (view().setUint32(count, 0, true), view().setUint32(bytes, 0, true), 0),
    environ_get: () => 0,
    fd_close: () => 0,
    fd_fdstat_get: () => 8, // no such file
    fd_seek: () => 8,
    fd_write: (fd, parts, count, written) => {
      let bytes = 0
      for (let i = 0; i < count; i++) {
        const from = view().getUint32(parts + 8 * i, true), length = view().getUint32(parts + 8 * i + 4, true)
        process.stderr.write(text(from, length))
        bytes += length
      }
      view().setUint32(written, bytes, true)
      return 0
    },
    proc_exit: (status) => { throw new Error(`exit ${status}`) },
  }
  exports = new WebAssembly.Instance(compiled, { wasi_snapshot_preview1: wasi }).exports
  exports._initialize()
  const string = (at) => {
    const memory = new Uint8Array(exports.memory.buffer)
    return at ? text(at, memory.indexOf(0, at) - at) : null
  }
  const put = (words) => {
    const bytes = Buffer.from(words + '\0')
    const at = exports.play_room(bytes.length)
    new Uint8Array(exports.memory.buffer).set(bytes, at)
  }
  const bits = (words) => {
    put(words)
    return string(exports.play_bits()) ?? string(exports.play_error())
  }
  const file = (name, contents) => {
    const bytes = Buffer.concat([Buffer.from(name + '\n'), contents]), at = exports.play_room(bytes.length)
    new Uint8Array(exports.memory.buffer).set(bytes, at)
    return exports.play_file(bytes.length)
  }
  return { compiled, exports, string, put, bits, file, doubles: (at, n) => new Float64Array(exports.memory.buffer, at, n),
    floats: (at, n) => new Float32Array(exports.memory.buffer, at, n) }
}
