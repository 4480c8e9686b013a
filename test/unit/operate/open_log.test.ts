import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { createLogger } from '#src/lib/log.ts'
import { forTerminal } from '#src/operate/open_log.ts'

test('a log on a terminal shows no character of a foreign text that it would obey or hide', async () => {
  const shown = new PassThrough()
  const log = createLogger('info', { company: 'acme' }, await forTerminal(shown))
  const foreign = 'A\u202eB\u200bC\u001b[2JD\u009b1mE\nF\u00adG'
  log.warn({ detail: foreign }, `The API answered: ${foreign}`)
  const text = String(shown.read())
  expect(stripVTControlCharacters(text)).toContain('acme: The API answered: ABC [2JD 1mE FG')
  for (const wrong of ['\u202e', '\u200b', '\u009b', '\u00ad', '\u001b[2J', '\nF'])
    expect(text).not.toContain(wrong)
})
