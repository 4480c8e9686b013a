import { expect, it } from 'vitest'
import { post, visit } from '#jobs/alerts/webhook.ts'

it.each([
  ['no address', 'ERR_INVALID_URL'],
  ['ftp://127.0.0.1/hook', 'UND_ERR_INVALID_ARG'],
  ['http://na%ZZme@127.0.0.1:1/hook', 'unknown error'],
])('an address that cannot be called (%s) is an answer, and never throws', async (url, code) => {
  const answer = { outcome: 'unanswered', said: `did not answer (${code})` }
  expect(await post(url, {})).toEqual(answer)
  expect(await visit(url)).toEqual(answer)
})
