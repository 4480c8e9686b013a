import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { EXIT, FatalError, messageOf, systemCode } from '#src/lib/errors.ts'

/**
 * Connections that may wait to be accepted; the system also has its own limit. If a thousand arrive at once, clients
 * that do not fit retry after one second, then two, then four.
 */
const BACKLOG = 4096

/**
 * Listens on an address of this machine; port 0 picks a free one.
 * @param explain returns the message for a system error code: what is wrong and what to do.
 * @returns the port.
 * @throws FatalError (usage) if the port is taken or the address does not belong to this machine.
 */
export function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  explain: (code: string) => string,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', error =>
      reject(new FatalError(explain(systemCode(error) ?? messageOf(error)), EXIT.usage, { cause: error })),
    )
    server.listen({ port, host, backlog: BACKLOG }, () => resolve((server.address() as AddressInfo).port))
  })
}
