import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A connection on which a test can send anything, even what no HTTP client would. */
export type RawConnection = {
  readonly socket: Socket
  /** Everything received so far. */
  readonly received: () => string
  /** Resolves to everything received when the server closes the connection. */
  readonly closed: Promise<string>
  /** Resolves when this many answers have begun. */
  answers(count: number): Promise<string>
}

/** @param from an address of this machine to connect from. */
export async function rawConnection(url: string, from = '127.0.0.1'): Promise<RawConnection> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), localAddress: from })
  onTestFinished(() => void socket.destroy())
  let text = ''
  const listeners = new Set<() => void>()
  socket.setEncoding('latin1').on('data', chunk => {
    text += chunk
    for (const listener of listeners) listener()
  })
  // A reset counts as a close here.
  socket.on('error', () => {})
  await once(socket, 'connect')
  return {
    socket,
    received: () => text,
    closed: new Promise(resolve => socket.once('close', () => resolve(text))),
    answers: count =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (text.split('HTTP/1.1 ').length - 1 < count) return
          listeners.delete(look)
          resolve(text)
        }
        listeners.add(look)
        socket.once('close', () =>
          reject(new Error(`closed after ${text.length} bytes: ${text.slice(-300)}`)),
        )
        look()
      }),
  }
}

/** Sends a text and returns everything received until the server closes the connection. */
export async function exchange(url: string, text: string, from?: string): Promise<string> {
  const connection = await rawConnection(url, from)
  connection.socket.write(text, 'latin1')
  return await connection.closed
}

/** The parts of an answer that most tests check. */
export function parsed(answer: string): {
  status: number
  headers: Readonly<Record<string, string>>
  body: string
} {
  const [head = '', ...rest] = answer.split('\r\n\r\n')
  const [line = '', ...lines] = head.split('\r\n')
  const headers = lines.map(one => {
    const at = one.indexOf(':')
    return [one.slice(0, at).toLowerCase(), one.slice(at + 1).trim()] as const
  })
  return {
    status: Number(line.split(' ')[1]),
    headers: Object.fromEntries(headers),
    body: rest.join('\r\n\r\n'),
  }
}
