import { connect } from 'node:net'

const WITHIN_MS = 1000

/**
 * What a server says to whoever connects, before anything is asked. A Redis in protected mode, or with too many clients,
 * says why and hangs up, which cuts off who is just writing before that was read.
 * @returns the first line without its `-`; null if it says no such thing.
 */
export async function refusalAtTheDoor(url: string): Promise<string | null> {
  const { hostname, port, protocol } = new URL(url)
  if (protocol !== 'redis:') return null
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) })
  socket.setTimeout(WITHIN_MS, () => socket.destroy())
  let said = ''
  try {
    for await (const bytes of socket) {
      said += String(bytes)
      if (said.includes('\n')) break
    }
  } catch {
    // It hangs up, or is away: then that is all there is to say.
  } finally {
    socket.destroy()
  }
  return /^-(.+?)\r?\n/.exec(said)?.[1] ?? null
}
