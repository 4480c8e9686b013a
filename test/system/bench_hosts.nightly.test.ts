import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, inject, onTestFinished, test } from 'vitest'
import { surroundings } from '#test/support/project.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const SMALL = ['hosts', '--notices', '0', '--companies', '2', '--small', '5', '--cut', '3', '--every', '3']

const canSeparate = await promisify(execFile)('unshare', [
  '--net',
  '--mount',
  '--',
  'ip',
  'netns',
  'list',
]).then(
  () => process.platform === 'linux' && process.getuid?.() === 0,
  () => false,
)

async function surroundingsOf() {
  const temporary = await mkdtemp(join(tmpdir(), 'bench-hosts-test-'))
  onTestFinished(() => rm(temporary, { recursive: true, force: true }))
  return { temporary, options: { cwd: root, env: { ...process.env, ...surroundings(), TMPDIR: temporary } } }
}

test.skipIf(inject('redisBinary') === null || !canSeparate)(
  'a storm in namespaces loses hosts and cuts some off; all companies are right, and nothing is left',
  async () => {
    const { temporary, options } = await surroundingsOf()
    const args = ['bench/main.ts', ...SMALL, '--seconds', '8', '--namespaces', '--json']
    const { stdout } = await promisify(execFile)(process.execPath, args, options)
    const { figures, bars } = JSON.parse(stdout) as {
      figures: { key: string; value: number }[]
      bars: { what: string; met: boolean }[]
    }
    const value = (key: string) => figures.find(each => each.key === key)?.value
    expect(value('losses')).toBeGreaterThanOrEqual(2)
    expect(value('cuts')).toBeGreaterThanOrEqual(1)
    expect(value('request_overlaps')).toBe(0)
    expect(bars).toHaveLength(5)
    expect(bars.filter(({ met }) => !met)).toEqual([])
    expect((await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))).toEqual([])
  },
  180_000,
)

test.skipIf(inject('redisBinary') === null || !canSeparate)(
  'an interrupted storm ends its processes, and removes its data and its network',
  async () => {
    const { temporary, options } = await surroundingsOf()
    const args = ['bench/main.ts', ...SMALL, '--seconds', '60', '--namespaces']
    const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
    child.stderr.setEncoding('utf8')
    for await (const text of child.stderr.iterator({ destroyOnReturn: false }))
      if (String(text).includes('losing host')) break
    child.stderr.resume()
    child.kill('SIGINT')
    expect((await once(child, 'exit'))[0]).toBe(130)
    expect((await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))).toEqual([])
    const { stdout } = await promisify(execFile)('ip', ['link'])
    expect(stdout).not.toMatch(/port-\d|hub/)
  },
  60_000,
)

test.skipIf(process.platform === 'win32')('without ip, one sentence says what is needed', async () => {
  const { temporary, options } = await surroundingsOf()
  const args = ['bench/main.ts', ...SMALL, '--namespaces']
  const failed = await promisify(execFile)(process.execPath, args, {
    ...options,
    env: { ...options.env, PATH: temporary },
  }).catch(error => error)
  expect(failed.stderr).toMatch(/^--namespaces needs Linux, root, and the commands ip and unshare .*\.\n$/)
  expect(failed.code).toBe(1)
  expect((await readdir(temporary)).filter(name => name.startsWith('editais-sync-bench-'))).toEqual([])
})
