import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { readNoticesFile } from '#src/sandbox/world.ts'
import { START } from '#test/support/sandbox.ts'

const world = generateWorld({ seed: 1, company: 'aurora', notices: 3, start: START })
const entries = world.ids().flatMap(id => world.entry(id) ?? [])
const lines = entries.map(entry => JSON.stringify(entry))

async function fileOf(content: string | Uint8Array, name = 'notices.ndjson'): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'notices-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const path = join(directory, name)
  await writeFile(path, content)
  return path
}

test('notices are read unchanged, plain or gzipped', async () => {
  expect(await readNoticesFile(await fileOf(`${lines.join('\n')}\n\n`))).toEqual(entries)
  expect(await readNoticesFile(await fileOf(gzipSync(lines.join('\r\n')), 'notices.ndjson.gz'))).toEqual(
    entries,
  )
})

test('a member named like the prototype of all objects is read, too', async () => {
  const line = lines[0]?.replace('{"edital":{', '{"edital":{"__proto__":{"a":1},') ?? ''
  const [read] = await readNoticesFile(await fileOf(line))
  expect(JSON.stringify(read)).toBe(line)
})

test.each([
  ['{"edital": ', 'line 4: not JSON.'],
  ['{"edital": {"id": "x"}, "analysis": {}}', 'line 4: edital.pncp_id'],
  [lines[0] ?? '', 'is already in line 1.'],
  ['[]', 'line 4: line: '],
])('an invalid line is named: %.40s', async (line, message) => {
  const path = await fileOf([...lines, line].join('\n'))
  await expect(readNoticesFile(path)).rejects.toMatchObject({
    name: 'FatalError',
    exitCode: 2,
    message: expect.stringContaining(message),
  })
  await expect(readNoticesFile(path)).rejects.toThrow(path)
})

test('a missing, empty or broken file is reported in one clear sentence', async () => {
  await expect(readNoticesFile('/nowhere/notices.ndjson')).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringMatching(/^Cannot read the notices in \/nowhere\/notices\.ndjson: ENOENT/),
  })
  await expect(readNoticesFile(await fileOf('\n'))).rejects.toThrow('contains no notices')
  const cut = gzipSync(lines.join('\n')).subarray(0, 60)
  await expect(readNoticesFile(await fileOf(cut, 'x.gz'))).rejects.toMatchObject({ exitCode: 2 })
})
