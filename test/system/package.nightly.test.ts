import { execFile } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { notices } from '#test/support/notices.ts'
import { surroundings, temporaryDirectory } from '#test/support/project.ts'
import { KEY } from '#test/support/synced.ts'

/** The program as a package, in an empty folder, on the Node versions that people have. Needs the npm registry. */

const PROJECT = join(import.meta.dirname, '../..')
const PACKED_WITHIN_MS = 300_000

type Environment = Readonly<Record<string, string>>

async function run(command: string, args: readonly string[], cwd: string, environment: Environment = {}) {
  // npm has the settings of the machine, such as its registry.
  const env = { ...(command === 'npm' ? process.env : surroundings()), ...environment }
  return await promisify(execFile)(command, [...args], { cwd, env, timeout: PACKED_WITHIN_MS }).then(
    done => ({ code: 0, ...done }),
    error => ({ code: error.code as number, stdout: String(error.stdout), stderr: String(error.stderr) }),
  )
}

test(
  'the package runs in an empty folder on Node 26, and an older one says what it needs, or runs it on that',
  async () => {
    const directory = await temporaryDirectory()
    const packed = await run('npm', ['pack', '--silent', '--pack-destination', directory], PROJECT)
    const tarball = join(directory, packed.stdout.trim().split('\n').at(-1) ?? '')
    const app = join(directory, 'app')
    await mkdir(app)
    await run('npm', ['init', '-y'], app)
    expect(await run('npm', ['install', tarball], app)).toMatchObject({ code: 0 })
    const editais = join(app, 'node_modules/.bin/editais')
    for (const version of ['20', '22']) {
      const own = join(directory, version)
      await mkdir(own)
      await run('npm', ['install', '--prefix', own, `node@${version}`], own)
      const node = join(own, 'node_modules/node/bin/node')
      const asked = await run(node, [editais, 'status', '--help'], app)
      expect(asked).toMatchObject({ code: 2, stdout: '' })
      expect(asked.stderr).toMatch(
        new RegExp(`^editais needs Node\\.js 26 or later, and this is ${version}\\..*\\n$`),
      )
    }
    const installed = await run('npm', ['install', 'node@26.10.0'], app)
    expect(installed).toMatchObject({ code: 0 })
    const older = join(directory, '20/node_modules/node/bin/node')
    const wrong = await run(older, [editais, 'nothing'], app)
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("unknown command 'nothing'") })

    const sandbox = await startSandbox({
      companies: [{ slug: 'acme', key: KEY, world: new World(notices(1, 9)) }],
    })
    onTestFinished(() => sandbox.close())
    const given = { API_BASE_URL: sandbox.url, API_KEY: KEY, COMPANY: 'acme' }
    expect(await run(older, [editais, 'init', '--yes'], app, given)).toMatchObject({ code: 0 })
    const here = { PATH: `${dirname(editais)}:${process.env.PATH}` }
    expect(await run(editais, ['sync', '--full'], app, here)).toMatchObject({ code: 0 })
    const counted = await run(editais, ['query', '--csv', 'SELECT count(*) AS n FROM editais'], app, here)
    expect(counted).toMatchObject({ code: 0, stdout: 'n\r\n9\r\n' })
    expect(await run(editais, ['report'], app, here)).toMatchObject({ code: 0 })
    expect(await readdir(join(app, 'data/acme'))).toContain('report.html')
  },
  PACKED_WITHIN_MS,
)
