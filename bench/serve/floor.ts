import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * The least time that an answer can take: Node's own server, which always sends the same bytes.
 * Usage: node floor.ts BYTES, with an IPC channel; sends its port.
 */
const body = Buffer.alloc(Number(process.argv[2]), 'x')
const headers = { 'content-type': 'application/json', 'content-length': String(body.length) }
const server = createServer((_, response) => {
  response.writeHead(200, headers)
  response.end(body)
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())
