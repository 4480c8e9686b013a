import { expect, test } from 'vitest'
import { inProcess } from '#jobs/process.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { configured } from './support/alerting.ts'
import { startCompany } from './support/synced.ts'

test('what the process of a job tells arrives whole, also where it is larger than a pipe holds', async () => {
  const company = await startCompany(
    generateWorld({ seed: 7, company: 'acme', notices: 300, start: new Date() }),
  )
  await company.syncHere()
  const ended = await inProcess({
    company: configured(company.environment),
    order: { kind: 'report' },
    signal: new AbortController().signal,
  })
  const html = ended.kind === 'report' ? ended.html : JSON.stringify(ended)
  expect(html).toMatch(/^<!doctype html>.*<\/html>\s*$/is)
  // Pipes hold less.
  expect(html.length).toBeGreaterThan(150_000)
})
