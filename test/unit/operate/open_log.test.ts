import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { createLogger } from '#src/lib/log.ts'
import { describeRetry, formatForTerminal, logListener } from '#src/operate/open_log.ts'

test('a log on a terminal shows no character of a foreign text that it would obey or hide', async () => {
  const shown = new PassThrough()
  const log = createLogger('info', { company: 'acme' }, await formatForTerminal(shown))
  const foreign = 'A\u202eB\u200bC\u001b[2JD\u009b1mE\nF\u00adG'
  log.warn({ detail: foreign }, `The API answered: ${foreign}`)
  const text = String(shown.read())
  expect(stripVTControlCharacters(text)).toContain('acme: The API answered: ABC [2JD 1mE FG')
  for (const wrong of ['\u202e', '\u200b', '\u009b', '\u00ad', '\u001b[2J', '\nF'])
    expect(text).not.toContain(wrong)
})

test('lines on a terminal are sentences, without what only programs need', async () => {
  const shown = new PassThrough()
  const log = createLogger('info', { company: 'acme', run_id: 'r1' }, await formatForTerminal(shown))
  const report = { mode: 'full', status: 'partial', listed: 1400, added: 3, changed: 2, loaded: 5, failed: 1 }
  log.warn({ ...report, error: 'The API is down.', seconds: 3.24 }, 'run finished')
  log.info({ method: 'GET', path: '/editais', status: 200, ms: 3.1, key: 'edk_1' }, 'Answered')
  log.info({ snapshot: 's1', months: 2, parts: { a: 1 } }, 'Serving a new snapshot')
  log.info('Stopped.')
  shown.end()
  const text = (await shown.toArray()).join('')
  const lines = stripVTControlCharacters(text).trim().split('\n')
  expect(lines.map(line => line.replace(/^\[\d\d:\d\d:\d\d\] /, ''))).toEqual([
    'WARN: acme: Run partial: 1,400 notices, 3 new, 2 changed, 5 analyses loaded, 1 failed, in 3.2 s. The API is down.',
    'INFO: acme: GET /editais: 200, 3.1 ms',
    'INFO: acme: Serving a new snapshot (snapshot s1, months 2)',
    'INFO: acme: Stopped.',
  ])
})

test('the last time that a request is sent again names no end', () => {
  const retry = { path: '/x', reason: 'down', againMs: 300_000 }
  expect(describeRetry({ ...retry, untilMs: null }, 0)).toBe('/x: down; again in 5 min')
  expect(describeRetry({ ...retry, againMs: 10, untilMs: 60_000 }, 0)).toBe(
    '/x: down; again now, for at most 60 s more',
  )
})

test('requests that are sent again are one line a minute', () => {
  const lines: string[] = []
  const log = createLogger('info', {}, { write: line => void lines.push(line) })
  let now = 0
  const listener = logListener(log, () => now)
  for (now of [0, 1000, 59_000, 61_000, 62_000])
    listener.retry?.({ path: '/x', reason: `503 at ${now}`, againMs: 16_000, untilMs: 240_000 })
  listener.note('Something else')
  expect(lines.map(line => (JSON.parse(line) as { msg: string }).msg)).toEqual([
    '/x: 503 at 0; again in 16 s, for at most 4 min more',
    '/x: 503 at 61000; again in 16 s, for at most 3 min more',
    'Something else',
  ])
})
