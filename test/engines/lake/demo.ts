import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import type { Servers } from '#test/api/servers.ts'
import { type Result, reasonOf } from '../result.ts'

/** `npm run demo -- --lake` finds an S3 server, and the Python lines that it prints work. */
export async function testDemo(servers: Servers, directory: string, python: string): Promise<Result> {
  const title = 'the demo with an object store, and its Python lines'
  const programs = join(directory, 'bin')
  await mkdir(programs)
  await writeFile(join(programs, 'moto_server'), `#!/bin/sh\nexec ${python} -m moto.server "$@"\n`, {
    mode: 0o755,
  })
  // No other server may be found before it.
  const PATH = [programs, '/usr/bin', '/bin'].join(delimiter)
  const environment = { PATH, DATA_DIR: join(directory, 'demo') }
  const { output, stop } = await servers.startCommand(['demo', '--lake'], environment, 'Ctrl-C ends')
  const [, lines = ''] = /\(pip install polars deltalake\):\n((?: {2}.*\n)+)/.exec(output) ?? []
  try {
    const { stdout } = await promisify(execFile)(python, ['-c', lines.replaceAll(/^ {2}/gm, '')])
    return { title, wrong: /^shape: \(\d+, \d+\)/m.test(stdout) ? [] : [`  ${stdout || output}\n`] }
  } catch (error) {
    return { title, wrong: [`  ${reasonOf(String((error as { stderr?: string }).stderr))}\n`] }
  } finally {
    await stop()
  }
}
