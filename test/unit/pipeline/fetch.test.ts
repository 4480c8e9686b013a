import { describe, expect, it } from 'vitest'
import type { Work } from '#src/core/pipeline/detect.ts'
import { type Fetched, fetchAnalyses } from '#src/core/pipeline/fetch.ts'
import type { Line, LoggedDocument } from '#src/core/rawlog/line.ts'
import {
  EXIT,
  ExcludedError,
  FatalError,
  getMessage,
  InterruptedError,
  RequestError,
} from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { bodyOf, handMadeApi, type Respond, TOO_LARGE } from '#test/support/hand_made_api.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'

const UPDATED_AT = '2026-11-01T00:01:00-0300'
const BUSY = new RequestError('it answers 503', true)

function work(number: number, about: Partial<Work> = {}): Work {
  return { edital_id: idOf(number), updated_at: UPDATED_AT, hash: null, same_version: false, ...about }
}

/** Work about the notices with these numbers. */
function works(from: number, to: number): Work[] {
  return Array.from({ length: to - from + 1 }, (_, index) => work(from + index))
}

function analysisOf(id: string): Record<string, unknown> {
  return { ...noticeEntry(Number(id.slice(1))).analysis }
}

const well: Respond = id => bodyOf(analysisOf(id))

type Logged = { readonly line: Line; readonly document: LoggedDocument | undefined }

async function* each<T>(all: readonly T[]): AsyncGenerator<T> {
  yield* all
}

async function fetch(
  all: readonly Work[],
  api = handMadeApi({ analysis: well }),
  {
    signal = new AbortController().signal,
    append = async () => {},
  }: { signal?: AbortSignal; append?: () => Promise<void> } = {},
) {
  const logged: Logged[] = []
  const progress: number[] = []
  const outcomes = (fetched: Fetched) =>
    fetched.loaded + fetched.gone + fetched.quarantined + fetched.failed + fetched.excluded
  const fetched = await fetchAnalyses({
    api,
    signal,
    work: each(all),
    loader: {
      append: async (line, document) => {
        await append()
        logged.push({ line, document })
      },
    },
    onProgress: done => progress.push(done),
  })
  expect(progress.at(-1) ?? 0, 'progress is reported to the end').toBe(outcomes(fetched))
  return { ...fetched, logged, outcomes: outcomes(fetched) }
}

describe('an analysis', () => {
  it('that was not stored yet is logged with its document, for the updated_at it was fetched for', async () => {
    const { logged, ...fetched } = await fetch([work(1)])
    expect(fetched).toMatchObject({ loaded: 1, silentChanges: 0, stopped: null, outcomes: 1 })
    const text = JSON.stringify(analysisOf(idOf(1)))
    expect(logged).toEqual([
      {
        line: {
          type: 'analysis',
          edital_id: idOf(1),
          updated_at: UPDATED_AT,
          hash: hashContent(text),
          source_updated_at: '2026-11-01T00:01:00-03:00',
        },
        document: { analysis: Buffer.from(text) },
      },
    ])
  })

  it('that is what is stored is logged as the same, without its document', async () => {
    const hash = hashContent(JSON.stringify(analysisOf(idOf(1))))
    const { logged, ...fetched } = await fetch([work(1, { hash, same_version: true })])
    expect(fetched).toMatchObject({ loaded: 1, silentChanges: 0 })
    expect(logged).toEqual([
      {
        line: {
          type: 'analysis_same',
          edital_id: idOf(1),
          updated_at: UPDATED_AT,
          hash,
          source_updated_at: '2026-11-01T00:01:00-03:00',
        },
        document: undefined,
      },
    ])
  })

  it.each([
    ['changed silently, if its notice is as it was', { hash: 'another', same_version: true }, 1],
    ['did not, if its notice changed', { hash: 'another', same_version: false }, 0],
    ['did not, if none was stored', { hash: null, same_version: true }, 0],
  ])('that is not what is stored %s', async (_, about, silentChanges) => {
    const { logged, ...fetched } = await fetch([work(1, about)])
    expect(fetched).toMatchObject({ loaded: 1, silentChanges })
    expect(logged).toMatchObject([{ line: { type: 'analysis' } }])
  })

  it('with something that is not in the contract is loaded, and its line records it', async () => {
    const { logged, loaded } = await fetch(
      [work(1)],
      handMadeApi({ analysis: id => bodyOf({ ...analysisOf(id), extra: 1 }) }),
    )
    expect(loaded).toBe(1)
    expect(logged[0]?.line).toMatchObject({ drift: [{ path: 'analysis.extra', kind: 'unknown_field' }] })
    expect(logged[0]?.line).not.toHaveProperty('raw')
  })

  it('of which a value could not be kept is loaded with its bytes beside', async () => {
    const body = bodyOf({ ...analysisOf(idOf(1)), valor_estimado: 'much' })
    const { logged, loaded } = await fetch([work(1)], handMadeApi({ analysis: () => body }))
    expect(loaded).toBe(1)
    expect(logged[0]?.line).toMatchObject({ raw: body.bytes.toString('base64') })
    expect(JSON.parse(String(Object.values(logged[0]?.document ?? {})[0]))).toMatchObject({
      valor_estimado: null,
    })
  })

  it('that cannot be used is set aside with its bytes', async () => {
    const bytes = Buffer.from('<html>')
    const { logged, ...fetched } = await fetch(
      [work(1)],
      handMadeApi({ analysis: () => ({ kind: 'body', bytes }) }),
    )
    expect(fetched).toMatchObject({ quarantined: 1, loaded: 0, failed: 0 })
    expect(logged).toMatchObject([
      {
        line: {
          type: 'rejected',
          kind: 'analysis',
          edital_id: idOf(1),
          updated_at: '2026-11-01T00:01:00-03:00',
          path: '$',
          reason: 'the body is not JSON',
          hash: hashContent(bytes),
          raw: bytes.toString('base64'),
          excerpt: '<html>',
        },
        document: undefined,
      },
    ])
  })

  it('of another notice, or too large, is set aside under the id that was asked for', async () => {
    const api = handMadeApi({ analysis: id => (id === idOf(1) ? bodyOf(analysisOf(idOf(3))) : TOO_LARGE) })
    const { logged, quarantined } = await fetch([work(1), work(2)], api)
    expect(quarantined).toBe(2)
    expect(logged).toMatchObject([
      { line: { type: 'rejected', edital_id: idOf(1), reason: 'the document is about another notice' } },
      { line: { type: 'rejected', edital_id: idOf(2), reason: 'the body is too large', excerpt: '{"id":"' } },
    ])
  })

  it('that is absent, as its notice is, is gone and leaves no line', async () => {
    const api = handMadeApi()
    const { logged, ...fetched } = await fetch([work(1)], api)
    expect(fetched).toMatchObject({ gone: 1, failed: 0, outcomes: 1 })
    expect(logged).toEqual([])
    expect(api.asked).toEqual({ analyses: [idOf(1)], notices: [idOf(1)] })
  })

  it('that is absent while its notice is there failed', async () => {
    const api = handMadeApi({ notice: () => bodyOf({}) })
    expect(await fetch([work(1)], api)).toMatchObject({ gone: 0, failed: 1, logged: [], outcomes: 1 })
  })

  it('that the API does not offer is excluded, with the reason', async () => {
    const api = handMadeApi({ analysis: () => new ExcludedError('not of this phase') })
    expect(await fetch([work(1)], api)).toMatchObject({
      ...{
        excluded: 1,
        failed: 0,
        lastExcluded: `${idOf(1)}: not of this phase`,
        lastFailure: null,
        outcomes: 1,
      },
    })
  })

  it('that fails leaves the others as they are, and its reason is reported', async () => {
    const api = handMadeApi({ analysis: id => (id === idOf(2) ? BUSY : well(id)) })
    expect(await fetch(works(1, 3), api)).toMatchObject({
      loaded: 2,
      failed: 1,
      lastFailure: `${idOf(2)}: it answers 503`,
      stopped: null,
      outcomes: 3,
    })
  })
})

describe('fetching ends early', () => {
  it('after twenty failures in a row, with what was loaded kept', async () => {
    const api = handMadeApi({ analysis: id => (id <= idOf(5) ? well(id) : BUSY) })
    const fetched = await fetch(works(1, 40), api)
    expect(fetched).toMatchObject({ loaded: 5, failed: 20, outcomes: 25 })
    expect(fetched.stopped).toBeInstanceOf(FatalError)
    expect(fetched.stopped).toMatchObject({ exitCode: EXIT.partial })
    expect(getMessage(fetched.stopped)).toMatch(/^20 requests failed in a row.*it answers 503/)
    expect(api.asked.analyses).toHaveLength(25)
  })

  it.each([
    ['a success', well],
    ['an exclusion', () => new ExcludedError('not of this phase')],
    ['a refusal of one notice', () => new RequestError('it answers 400')],
    ['one that is gone', () => ({ kind: 'absent' as const })],
  ] satisfies [string, Respond][])('not where %s stands between the failures', async (_, respond) => {
    const api = handMadeApi({ analysis: id => (id === idOf(20) ? respond(id) : BUSY) })
    expect(await fetch(works(1, 39), api)).toMatchObject({
      stopped: null,
      failed: expect.any(Number),
      outcomes: 39,
    })
  })

  it('not by an API that refuses each notice by itself', async () => {
    const api = handMadeApi({ analysis: () => new RequestError('it answers 400') })
    expect(await fetch(works(1, 40), api)).toMatchObject({ failed: 40, stopped: null })
  })

  it('at a refused key: nothing more is asked, and the notice has no outcome', async () => {
    const refused = new FatalError('The API refuses the key.')
    const api = handMadeApi({ analysis: id => (id === idOf(2) ? refused : well(id)) })
    const fetched = await fetch(works(1, 9), api)
    expect(fetched).toMatchObject({ loaded: 1, failed: 0, stopped: refused, outcomes: 1 })
    expect(api.asked.analyses).toEqual([idOf(1), idOf(2)])
  })

  it('when it is interrupted, before the next request', async () => {
    const controller = new AbortController()
    const api = handMadeApi({
      analysis: id => {
        if (id === idOf(2)) controller.abort()
        return well(id)
      },
    })
    const fetched = await fetch(works(1, 9), api, { signal: controller.signal })
    expect(fetched).toMatchObject({ loaded: 2, outcomes: 2 })
    expect(fetched.stopped).toBeInstanceOf(InterruptedError)
  })

  it('with the error itself where the log cannot be written', async () => {
    const append = async () => {
      throw new Error('ENOSPC')
    }
    const api = handMadeApi({ analysis: well })
    await expect(fetch(works(1, 9), api, { append })).rejects.toThrow('ENOSPC')
    expect(api.asked.analyses).toEqual([idOf(1)])
  })
})

describe('how many are fetched at once', () => {
  it.each([
    [1, 1],
    [3, 5],
  ])('with %i connections, %i: while one works on an answer, another asks', async (concurrency, atOnce) => {
    const api = handMadeApi({ analysis: well, concurrency })
    expect(await fetch(works(1, 20), api)).toMatchObject({ loaded: 20, outcomes: 20 })
    expect(api.mostAtOnce()).toBe(atOnce)
    expect(new Set(api.asked.analyses).size).toBe(20)
  })
})
