import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { Logger } from 'pino'
import { messageOf } from '#src/lib/errors.ts'
import { Readers } from '#src/server/read/readers.ts'
import { createMcpServer } from './server.ts'

/** All scopes are granted: a user who can run this program can read the files anyway. */
const SCOPES = ['read', 'sql']
const NO_KEY = { prefix: '', isStillValid: () => true }

/** Serves a company's snapshots on standard input and output, until the input ends. */
export function serveOnStdio({ lake, log }: { readonly lake: string; readonly log: Logger }): void {
  const readers = new Readers(log)
  serveStdio(
    () =>
      createMcpServer({
        scopes: SCOPES,
        lake,
        log,
        read: (order, signal) => readers.read(NO_KEY, order, signal),
      }),
    {
      maxSubscriptions: 0,
      onerror: error => log.warn(`A message could not be answered: ${messageOf(error)}.`),
    },
  )
}
