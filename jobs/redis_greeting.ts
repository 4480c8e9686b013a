import { connect } from 'node:net'

const WITHIN_MS = 1000

/**
 * Reads what the server sends on connect, before any command. A Redis in protected mode, or with too many clients,
 * sends the reason and hangs up; a client that is writing then loses the connection before it has read the reason.
 * @returns the first line without its `-`; null if the server sends no such line.
 */
export async function refusalAtTheDoor(url: string): Promise<string | null> {
  const { hostname, port, protocol } = new URL(url)
  if (protocol !== 'redis:') return null
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) })
  socket.setTimeout(WITHIN_MS, () => socket.destroy())
  let greeting = ''
  try {
    for await (const bytes of socket) {
      greeting += String(bytes)
      if (greeting.includes('\n')) break
    }
  } catch {
    // The server hung up or is away: use what it sent.
  } finally {
    socket.destroy()
  }
  return /^-(.+?)\r?\n/.exec(greeting)?.[1] ?? null
}
