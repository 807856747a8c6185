// aedes on a loopback port, with its sessions in a folder: node server.mjs PORT FOLDER
import { createServer } from 'node:net'
import { Aedes } from 'aedes'
import { ClassicLevel } from 'classic-level'
import level from 'aedes-persistence-level'

const [port, folder] = process.argv.slice(2)
const store = new ClassicLevel(folder)
await store.open()
const aedes = await Aedes.createBroker({ persistence: level(store) })
const server = createServer(aedes.handle).listen(Number(port), '127.0.0.1')

process.on('SIGTERM', () => {
  server.close()
  aedes.close(async () => {
    await store.close()
    process.exit(0)
  })
})
