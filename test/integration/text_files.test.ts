import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { FatalError } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import { noticeEntry, notices } from '#test/support/notices.ts'
import { startCommand, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const MARK = Buffer.from('\uFEFF')
const WIDE = 'it is in UTF-16, or has NUL characters: save it as UTF-8'

/** How programs save a text besides plain UTF-8, with what the message says; null if it can be read. */
const SAVED: readonly [string, (text: string) => Buffer, string | null][] = [
  ['UTF-8 with a mark', text => Buffer.concat([MARK, Buffer.from(text)]), null],
  ['with lines of another file before it', text => Buffer.from(`\n\uFEFF${text}`), null],
  ['UTF-16 LE with a mark', text => Buffer.from(`\uFEFF${text}`, 'utf16le'), WIDE],
  ['UTF-16 BE with a mark', text => Buffer.from(`\uFEFF${text}`, 'utf16le').swap16(), WIDE],
  ['UTF-16 LE without a mark', text => Buffer.from(text, 'utf16le'), WIDE],
  ['UTF-16 BE without a mark', text => Buffer.from(text, 'utf16le').swap16(), WIDE],
  ['Latin-1', text => Buffer.from(`${text}é`, 'latin1'), 'line LAST is not UTF-8: save the file as UTF-8'],
]

/** What the message says of this text, or null. */
const problemOf = (text: string, expected: string | null) =>
  expected?.replace('LAST', String(text.split('\n').length)) ?? null

async function fileOf(content: string | Uint8Array, name: string): Promise<string> {
  const path = join(await temporaryDirectory(), name)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content)
  return path
}

/** What a call throws, or null. */
function thrown(call: () => unknown): string | null {
  try {
    call()
    return null
  } catch (error) {
    expect(error).toBeInstanceOf(FatalError)
    return (error as FatalError).message
  }
}

test('bytes that are no UTF-8 are refused with their line, and marks between files are ignored', () => {
  const decoded = (text: string) => decodeText(Buffer.from(text, 'latin1'))
  expect(decoded('')).toBe('')
  expect(decodeText(Buffer.from('\uFEFF\uFEFFa\uFEFFb\n\uFEFFç\r\n'))).toBe('a\uFEFFb\nç\r\n')
  // Cut in the middle of a character, too long a form, and half of a surrogate pair.
  for (const wrong of ['\xe7', '\xc3', 'a\xc3\nb', '\xc0\xaf', '\xed\xa0\x80', '\xf4\x90\x80\x80'])
    expect(() => decoded(`x\ny${wrong}\nz`)).toThrow('line 2 is not UTF-8')
  expect(() => decoded('a\0b')).toThrow('NUL')
})

test.each(SAVED)('.env in %s is read whole, or refused', async (_, save, expected) => {
  const { environment } = await startSynced(notices(1, 2))
  // The first variable is the one that a mark would take away: then the data would be elsewhere.
  const text = `DATA_DIR=${environment.DATA_DIR}\nCOMPANY=acme\nAPI_KEY=x # chave`
  const path = await fileOf(save(text), '.env')
  const ended = await runShared(['query', '--csv', 'SELECT count(*) AS n FROM editais'], {}, dirname(path))
  const problem = problemOf(text, expected)
  if (problem === null) expect(ended).toMatchObject({ code: 0, stdout: 'n\r\n2\r\n' })
  else expect(ended).toMatchObject({ code: 2, stdout: '', stderr: `.env cannot be read: ${problem}.\n` })
  expect(await readdir(dirname(path))).toEqual(['.env'])
})

test.each(SAVED)('a question, and SQL from a file, in %s', async (_, save, expected) => {
  const { environment } = await startSynced([noticeEntry(1, { objeto: 'café' }), noticeEntry(2)])
  const sql = "SELECT count(*) AS n FROM editais WHERE objeto = 'café' -- fim"
  const question = await fileOf(save(`-- Nome\n-- Descricao\n${sql}`), 'config/questions/minha.sql')
  const place = join(question, '../../..')
  const asked = await runShared(['ask', 'minha', '--csv'], environment, place)
  const file = await fileOf(save(sql), 'a.sql')
  const queried = await runShared(['query', '--csv', '--file', file], environment)
  for (const [path, ended, lines] of [
    [question, asked, 3],
    [file, queried, 1],
  ] as const) {
    const problem = problemOf('\n'.repeat(lines - 1), expected)
    if (problem === null) expect(ended).toMatchObject({ code: 0, stdout: 'n\r\n1\r\n' })
    else expect(ended).toMatchObject({ code: 2, stdout: '', stderr: `${path} cannot be read: ${problem}.\n` })
  }
})

test('SQL from standard input is decoded as that from a file', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const run = async (bytes: Buffer) => {
    const { child, ended } = startCommand(
      ['query', '--csv', '--file', '-'],
      environment,
      environment.DATA_DIR as string,
      'pipe',
    )
    child.stdin?.end(bytes)
    return await ended
  }
  const sql = "SELECT count(*) AS n FROM editais WHERE objeto <> 'é'"
  expect(await run(Buffer.from(`\uFEFF${sql}`))).toMatchObject({ code: 0, stdout: 'n\r\n2\r\n' })
  expect(await run(Buffer.from(sql, 'latin1'))).toMatchObject({
    code: 2,
    stdout: '',
    stderr: 'Standard input cannot be read: line 1 is not UTF-8: save the file as UTF-8.\n',
  })
})

test.each(SAVED)('the companies, a key and notices of the sandbox in %s', async (_, save, expected) => {
  const { environment } = await startSynced(notices(1, 2))
  const { API_BASE_URL, DATA_DIR } = environment as Record<string, string>
  const key = await fileOf(save('edk_test_1'), 'key')
  const companies = `companies:\n  acme: { api_base_url: "${API_BASE_URL}", api_key_file: ${key} } # é`
  const file = await fileOf(save(companies), 'companies.yaml')
  const ended = await runShared(['query', '--csv', 'SELECT count(*) AS n FROM editais'], {
    DATA_DIR: DATA_DIR as string,
    COMPANIES_FILE: file,
  })
  const ofFile = problemOf(companies, expected)
  if (ofFile === null) expect(ended).toMatchObject({ code: 0, stdout: 'n\r\n2\r\n' })
  else expect(ended).toMatchObject({ code: 2, stdout: '', stderr: `${file} cannot be read: ${ofFile}.\n` })

  const problem = problemOf('', expected)
  expect(thrown(() => readApiSettings({ API_BASE_URL, API_KEY_FILE: key }))).toBe(
    problem && `API_KEY_FILE (${key}) cannot be read: ${problem}.`,
  )
  const world = await fileOf(save(JSON.stringify({ edital: {} })), 'notices.ndjson')
  const { code, stderr } = await runShared(['sandbox', '--port', '0', '--notices', world], environment)
  expect([code, stderr]).toEqual([2, expect.stringContaining(problem ?? 'edital.id')])
})

test('a variable that was no UTF-8 where it was set is refused, and not shown', () => {
  const message = 'COMPANY has characters that are not UTF-8. Save the file that sets it as UTF-8.'
  expect(thrown(() => readSettings({ COMPANY: 's\uFFFDo' }))).toBe(message)
  const api = { API_BASE_URL: 'http://127.0.0.1:9', API_KEY: 'segredo\uFFFD' }
  expect(thrown(() => readApiSettings(api))).toBe(message.replace('COMPANY', 'API_KEY'))
})
