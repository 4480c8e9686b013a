import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished } from 'vitest'
import type { AlertMessage } from '#jobs/alerts/alert.ts'
import type { AlertName } from '#jobs/alerts/table.ts'

export type { AlertMessage }

/** A receiver of alerts. */
export type Webhook = {
  /** With a path and a query, as secret URLs have. */
  readonly url: string
  readonly token: string
  /** All received messages in order, whatever the answer was. */
  readonly messages: AlertMessage[]
  readonly requests: IncomingMessage[]
  /** How a message is answered; default 200. */
  answer: (message: AlertMessage, response: ServerResponse) => void | Promise<void>
  /** Refuses connections until `start`. */
  stop(): Promise<void>
  start(): Promise<void>
}

const TOKEN = 'T0K3N-5up3r-s3cr3t'

export async function startWebhook(): Promise<Webhook> {
  let server: Server | null = null
  let port = 0
  const messages: AlertMessage[] = []
  const requests: IncomingMessage[] = []
  const webhook: Webhook = {
    get url() {
      return `http://127.0.0.1:${port}/hooks/${TOKEN}?token=${TOKEN}`
    },
    token: TOKEN,
    messages,
    requests,
    answer: (_, response) => void response.writeHead(200).end('ok'),
    async stop() {
      const closing = server
      server = null
      closing?.closeAllConnections()
      if (closing) await new Promise(resolve => closing.close(resolve))
    },
    async start() {
      server = createServer(async (request, response) => {
        const message = (await json(request)) as AlertMessage
        messages.push(message)
        requests.push(request)
        await webhook.answer(message, response)
      })
      const listening = server
      await new Promise<void>(resolve => listening.listen(port, '127.0.0.1', resolve))
      port = (listening.address() as AddressInfo).port
    },
  }
  await webhook.start()
  onTestFinished(() => webhook.stop())
  return webhook
}

/** `key_refused raised`, … in the order of arrival. */
export function received({ messages }: Pick<Webhook, 'messages'>): `${AlertName} ${string}`[] {
  return messages.map(({ alert, state }) => `${alert} ${state}` as const)
}

/** Answers with this status. */
export function refusing(status: number, headers = {}): Webhook['answer'] {
  return (_, response) => void response.writeHead(status, headers).end('no')
}

/** Holds each request without an answer. */
export function holding(webhook: Webhook): { readonly waiting: ServerResponse[] } {
  const waiting: ServerResponse[] = []
  webhook.answer = (_, response) => void waiting.push(response)
  return { waiting }
}

export async function arrived({ messages }: Webhook, count: number, timeout = 10_000): Promise<void> {
  await expect.poll(() => messages.length, { interval: 5, timeout }).toBe(count)
}
