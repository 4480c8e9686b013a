import { get } from 'node:http'
import { readDaemonSettings } from '#config/daemon.ts'
import { formatLocalAddress } from '#config/http.ts'
import { loadEnvironment } from '#config/settings.ts'
import { findSystemCode, getMessage } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'

/** A worker that is alive answers within milliseconds. */
const TIMEOUT_MS = 4000

function askStatus(url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = get(url, { timeout: TIMEOUT_MS }, response => {
      response.resume()
      resolve(response.statusCode)
    })
    request.once('timeout', () => request.destroy(new Error(`nothing within ${TIMEOUT_MS / 1000} s`)))
    request.once('error', reject)
  })
}

/** Returns null if the worker is alive, else the problem. */
async function problem(): Promise<string | null> {
  let url = ''
  try {
    url = `${formatLocalAddress(readDaemonSettings(loadEnvironment()).serve)}/healthz`
    const status = await askStatus(url)
    return status === 200 ? null : `${url} answered ${status}.`
  } catch (error) {
    if (url === '') return getMessage(error)
    return `${url} does not answer: ${findSystemCode(error) ?? getMessage(error)}.`
  }
}

// For Docker's HEALTHCHECK, which expects exit code 0 or 1, and keeps the output.
const found = await problem()
if (found !== null) process.stderr.write(`${found}\n`)
endProcess(found === null ? 0 : 1)
