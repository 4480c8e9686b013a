import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { type LogLine, type ServiceProcess, startServiceProcess } from '#tools/service_process.ts'
import { type Environment, npmScript, remember } from './processes.ts'

const SERVED_WITHIN_MS = 300_000

export type ServiceOptions = {
  readonly directory: string
  readonly env: Environment
  /** A command that replaces itself with the command after it, on another host. */
  readonly within?: readonly string[]
  /** Follows its log. Without it, nobody reads the log after the line with the address. */
  readonly onLine?: (line: LogLine) => void
}

/** Starts what this npm script runs on a free port, with none of the caller's settings. */
export async function startService(script: string, options: ServiceOptions): Promise<ServiceProcess> {
  const { directory, env, within = [], onLine } = options
  return await startServiceProcess({
    ...{ name: script, directory, onLine },
    command: [...within, process.execPath, ...(await npmScript(script))],
    env: { PATH: process.env.PATH ?? '', HTTP_PORT: '0', ...env, LOG_LEVEL: 'info' },
    onStart: remember,
  })
}

/** Resolves when this key's company is served, to the seconds since the start. */
export async function untilServed(service: ServiceProcess, key: string): Promise<number> {
  for (;;) {
    const asked = request(`${service.url}/api/v1/editais?limit=1`, { headers: { 'x-api-key': key } })
    const { statusCode, body } = await Promise.race([asked, service.early])
    await body.dump()
    const seconds = service.seconds()
    if (statusCode === 200) return seconds
    if (seconds * 1000 > SERVED_WITHIN_MS)
      throw new Error(`${service.url} did not serve the company within ${SERVED_WITHIN_MS / 1000} s`)
    await sleep(20)
  }
}
