import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answerCalls } from '../processes/calls.ts'

/** The least time that an answer can take: Node's own server, which always sends as many bytes as its argument says. */
const body = Buffer.alloc(JSON.parse(process.argv[2] as string) as number, 'x')
const headers = { 'content-type': 'application/json', 'content-length': String(body.length) }
const server = createServer((_, response) => {
  response.writeHead(200, headers)
  response.end(body)
})
await once(server.listen(0, '127.0.0.1'), 'listening')

const calls = { url: () => `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
export type FloorCalls = typeof calls

answerCalls(calls)
