import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** How a receiver treats a message: a `silent` one takes it, but its answer is lost. */
export type Mood = 'accepts' | 'refuses' | 'silent'
export type Received = { readonly path: string; readonly body: Readonly<Record<string, unknown>> }

/** Where webhooks and alerts are sent. */
export class Receiver {
  mood: Mood = 'accepts'
  readonly received: Received[] = []
  readonly #server: Server

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const body = JSON.parse(await text(request)) as Received['body']
      if (this.mood !== 'refuses') this.received.push({ path: request.url ?? '', body })
      if (this.mood === 'silent') response.destroy()
      else response.writeHead(this.mood === 'accepts' ? 204 : 503).end()
    })
  }

  static async start(): Promise<Receiver> {
    const receiver = new Receiver()
    await new Promise<void>(resolve => receiver.#server.listen(0, '127.0.0.1', resolve))
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
