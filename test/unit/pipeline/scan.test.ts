import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ListedFile } from '#src/core/pipeline/listed.ts'
import { readByIds, readInto, scan } from '#src/core/pipeline/scan.ts'
import { FatalError, InterruptedError, RequestError } from '#src/lib/errors.ts'
import { createRandom } from '#src/sandbox/random.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { ABSENT, bodyOf, handMadeApi, TOO_LARGE } from '#test/support/hand_made_api.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'

/** `page` is the most notices that this page shows. */
type Shown = { readonly entries: readonly Entry[]; readonly total?: number; readonly page?: number }
/** What the list is when a page of it is asked for, counted from 1. */
type ListAt = (asked: number) => Shown

async function openListed() {
  const listed = new ListedFile(join(await temporaryDirectory(), 'listed.ndjson'))
  onTestFinished(() => listed.close())
  const ids = async () => {
    await listed.flush()
    const lines = (await readFile(listed.path, 'utf8')).split('\n').filter(line => line !== '')
    return lines.map(line => JSON.parse(line).edital_id as string)
  }
  return { listed, ids }
}

/** Reads a list of which a page shows at most so many; `ignoresOffset` as a broken server does. */
async function read(
  listAt: ListAt,
  {
    page = 20,
    concurrency = 1,
    ignoresOffset = false,
    signal = new AbortController().signal,
    body = (text: string) => text,
  } = {},
) {
  const { listed, ids } = await openListed()
  const offsets: number[] = []
  const api = {
    concurrency,
    list: async ({ limit, offset }: { limit: number; offset: number }) => {
      offsets.push(offset)
      const { entries, total = entries.length, page: most = page } = listAt(offsets.length)
      const from = ignoresOffset ? 0 : offset
      const editais = entries.slice(from, from + Math.min(limit, most)).map(({ edital }) => edital)
      return Buffer.from(body(JSON.stringify({ editais, count: editais.length, total, limit, offset })))
    },
  }
  const result = await scan({ api, statuses: null, readPage: readInto(listed), signal, onProgress: () => {} })
  return { ...result, offsets, ids: [...new Set(await ids())].sort() }
}

const idsOf = (entries: readonly Entry[]) => entries.map(({ edital }) => edital.id).sort()

describe('the list', () => {
  const all = notices(1, 50)

  it('is read in pages that overlap by one notice, and is whole in one pass', async () => {
    const { ids, ...result } = await read(() => ({ entries: all }))
    expect(result).toMatchObject({ passes: 1, complete: true, total: 50, offsets: [0, 19, 38] })
    expect(ids).toEqual(idsOf(all))
  })

  it('is read by several at once, and what a page left out is asked for again', async () => {
    const { ids, offsets, ...result } = await read(asked => ({ entries: all, page: asked === 2 ? 8 : 20 }), {
      concurrency: 8,
    })
    expect(result).toMatchObject({ complete: true, total: 50 })
    expect(offsets.slice(0, 3)).toEqual([0, 19, 38])
    expect(ids).toEqual(idsOf(all))
  })

  it('may be empty, or have one notice a page, where there is no overlap to see', async () => {
    expect(await read(() => ({ entries: [] }))).toMatchObject({
      complete: true,
      total: 0,
      offsets: [0],
      ids: [],
    })
    const few = notices(1, 3)
    const single = await read(() => ({ entries: few }), { page: 1 })
    expect(single.ids).toEqual(idsOf(few))
    expect(single.offsets.slice(0, 3)).toEqual([0, 1, 2])
  })

  it('that loses a notice before the next page is read twice: another has slipped between the pages', async () => {
    const { ids, ...result } = await read(asked => ({
      entries: asked === 1 ? all : [...all.slice(1), noticeEntry(51)],
    }))
    expect(result).toMatchObject({ passes: 2, complete: true })
    // The union of both passes.
    expect(ids).toEqual(idsOf(notices(1, 51)))
  })

  it('whose total is higher than what it shows is not whole, and is read twice at most', async () => {
    const { ids, ...result } = await read(() => ({ entries: all, total: 52 }))
    expect(result).toMatchObject({ passes: 2, complete: false, total: 52 })
    expect(ids).toEqual(idsOf(all))
  })

  it.each([900_000, 30])(
    'whose total is %i is read as far as it has notices, or its total goes',
    async total => {
      const { ids, offsets, ...result } = await read(() => ({ entries: all, total }))
      expect(result).toMatchObject({ passes: 2, complete: false })
      expect(offsets.length).toBeLessThan(15)
      expect(ids).toEqual(idsOf(all.slice(0, total === 30 ? 39 : 50)))
    },
  )

  it('in another order each time is not whole', async () => {
    const random = createRandom('orders')
    const result = await read(() => ({ entries: random.sample(all, all.length) }))
    expect(result).toMatchObject({ passes: 2, complete: false })
  })

  it('whose total changes between two pages is not whole', async () => {
    const result = await read(asked => ({ entries: all, total: asked % 2 === 0 ? 50 : 49 }))
    expect(result).toMatchObject({ passes: 2, complete: false })
  })

  it('that is the same at every offset ends the run', async () => {
    const result = read(() => ({ entries: all }), { ignoresOffset: true })
    await expect(result).rejects.toThrow(FatalError)
    await expect(result).rejects.toThrow('The API ignores offset')
  })

  it('that cannot be read ends the run, with the place', async () => {
    const result = read(() => ({ entries: all }), { body: () => '<html>' })
    await expect(result).rejects.toThrow('The list page at offset 0 cannot be read')
  })

  it('is not read once the run is interrupted', async () => {
    await expect(read(() => ({ entries: all }), { signal: AbortSignal.abort() })).rejects.toThrow(
      InterruptedError,
    )
  })
})

describe('single notices', () => {
  it('are listed as if the list had shown them, and failures of others are reported', async () => {
    const { listed, ids } = await openListed()
    const answers: Record<string, ReturnType<typeof bodyOf> | typeof ABSENT | Error> = {
      [idOf(1)]: bodyOf(noticeEntry(1).edital),
      [idOf(3)]: TOO_LARGE,
      [idOf(4)]: new RequestError('it answers 503'),
    }
    const progress: number[] = []
    const result = await readByIds({
      ...{
        api: handMadeApi({ notice: id => answers[id] ?? ABSENT }),
        listed,
        signal: new AbortController().signal,
      },
      ids: [1, 2, 3, 4].map(idOf),
      onProgress: ({ done }) => progress.push(done),
    })
    expect(result).toMatchObject({
      ...{ absent: [idOf(2)], complete: null, passes: 0 },
      failed: [
        { id: idOf(3), reason: 'its answer is too large' },
        { id: idOf(4), reason: 'it answers 503' },
      ],
    })
    expect(await ids()).toEqual([idOf(1)])
    expect(progress).toEqual([1, 2, 3, 4])
  })
})
