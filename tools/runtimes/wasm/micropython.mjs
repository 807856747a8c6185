// MicroPython's WebAssembly port, as a command that is called like the Unix port: [-X heapsize=4M] -c CODE
import fs from 'node:fs'
import { parseArgs } from 'node:util'
import { loadMicroPython } from '@micropython/micropython-webassembly-pyscript'

const { values } = parseArgs({ options: { heap: { type: 'string', short: 'X' }, code: { type: 'string', short: 'c' } } })
const [, size, unit] = /^heapsize=(\d+)([kM]?)$/.exec(values.heap ?? 'heapsize=4M')
const heapsize = size * { '': 1, k: 1 << 10, M: 1 << 20 }[unit]
const mp = await loadMicroPython({ heapsize, linebuffer: true, stdout: (line) => fs.writeSync(1, `${line}\n`) })

// Its file system is in memory. What is not there is looked for on this machine, and copied; nothing is written back.
const { root } = mp.FS
const { lookup, mknod } = root.node_ops
root.node_ops.lookup = (parent, name) => {
  const path = parent === root ? `/${name}` : `${mp.FS.getPath(parent)}/${name}`
  const found = fs.statSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory()) return mknod(parent, name, 0o40777, 0)
  if (!found?.isFile()) return lookup(parent, name)
  const node = mknod(parent, name, 0o100666, 0)
  mp.FS.writeFile(path, fs.readFileSync(path))
  return node
}
mp.FS.chdir(process.cwd())

mp.globals.set('path', process.env.MICROPYPATH ?? '.frozen')
mp.runPython(`
import os, random, sys
os.urandom = lambda n: bytes(random.getrandbits(8) for _ in range(n))
os.sync = lambda: None
sys.path[:] = path.split(":")
`)
try {
  mp.runPython(values.code)
} catch (error) {
  const exit = /^SystemExit: (\d*)$/m.exec(error.message)
  if (!exit) console.log(error.message)
  process.exitCode = exit ? Number(exit[1]) : 1
}
