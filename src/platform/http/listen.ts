import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { EXIT, FatalError, messageOf, systemCode } from '#src/platform/errors.ts'

/**
 * Connections that wait to be accepted; the system has a bound of its own. When a thousand come at once, whoever finds no
 * place among them tries again after a second, then two, then four.
 */
const BACKLOG = 4096

/**
 * Listens on an address of this machine; port 0 takes a free one.
 * @param explain says for a system's code what is wrong and what to do.
 * @returns the port.
 * @throws FatalError (usage) when the port is taken, or the address is none of ours.
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
