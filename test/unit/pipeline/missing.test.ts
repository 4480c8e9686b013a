import { describe, expect, it } from 'vitest'
import {
  findUnlistedRecords,
  isAnotherCompany,
  isForeignKey,
  verifyMissing,
} from '#src/core/pipeline/missing.ts'
import type { Verdict } from '#src/core/pipeline/validate.ts'
import { InterruptedError, RequestError } from '#src/lib/errors.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { ABSENT, bodyOf, type HandMadeApi, handMadeApi, TOO_LARGE } from '#test/support/hand_made_api.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { openStored, STARTED, type WarehouseCase } from '#test/support/warehouse.ts'

const ANOTHER_TIME = '2020-01-01T00:00:00.000Z'

const openWith = (...entries: readonly Entry[]) => openStored(entries, { areFetched: false })

/** Verifies what these notices, which the list shows, leave open. */
async function verify(
  warehouse: WarehouseCase,
  shown: readonly (Entry | Verdict)[],
  api: HandMadeApi,
  { allowMassDelete = false, signal = new AbortController().signal } = {},
) {
  const listed = await warehouse.list(...shown)
  const missing = await verifyMissing({ db: warehouse.db, api, listed, allowMassDelete, signal })
  await listed.flush()
  return { ...missing, listed }
}

describe('a notice that the list did not show', () => {
  it('is gone if it answers 404, and only those that are stored, live and not shown are asked for', async () => {
    const warehouse = await openWith(...notices(1, 3))
    await warehouse.store([noticeEntry(4)], { deletedAt: STARTED })
    const api = handMadeApi()
    const missing = await verify(warehouse, [noticeEntry(2), noticeEntry(5)], api)
    expect(missing).toMatchObject({ found: 0, held: false, unverified: [] })
    expect([...missing.gone].sort()).toEqual([idOf(1), idOf(3)])
    expect([...api.asked.notices].sort()).toEqual([idOf(1), idOf(3)])
  })

  it('that exists after all is listed like any other', async () => {
    const warehouse = await openWith(noticeEntry(1))
    const now = noticeEntry(1, { status: 'ready' })
    const missing = await verify(warehouse, [], handMadeApi({ notice: () => bodyOf(now.edital) }))
    expect(missing).toMatchObject({ gone: [], found: 1, unverified: [] })
    expect(
      await warehouse.db.rows(`SELECT edital_id, notice.status AS status FROM ${missing.listed.compared}`),
    ).toEqual([{ edital_id: idOf(1), status: 'ready' }])
  })

  it('about which no useful answer came is left as it is, with the reason', async () => {
    const warehouse = await openWith(...notices(1, 3))
    const api = handMadeApi({
      notice: id => (id === idOf(1) ? new RequestError('503') : id === idOf(2) ? TOO_LARGE : ABSENT),
    })
    const missing = await verify(warehouse, [], api)
    expect(missing.gone).toEqual([idOf(3)])
    expect([...missing.unverified].sort((a, b) => a.id.localeCompare(b.id))).toEqual([
      { id: idOf(1), reason: '503' },
      { id: idOf(2), reason: 'its answer is too large' },
    ])
  })

  it('is missing also where a listed record has no id', async () => {
    const warehouse = await openWith(noticeEntry(1))
    const nameless: Verdict = {
      ok: false,
      editalId: null,
      reason: 'no id',
      path: 'id',
      raw: Buffer.from('{}'),
    }
    expect(await verify(warehouse, [nameless], handMadeApi())).toMatchObject({ gone: [idOf(1)] })
  })

  it('is asked for by as many at once as the API may be', async () => {
    const api = handMadeApi({ concurrency: 3 })
    await verify(await openWith(...notices(1, 9)), [], api)
    expect(api.mostAtOnce()).toBe(3)
    expect(api.asked.notices).toHaveLength(9)
  })

  it('is not asked for once the run is interrupted', async () => {
    const api = handMadeApi()
    const verified = verify(await openWith(noticeEntry(1)), [], api, { signal: AbortSignal.abort() })
    await expect(verified).rejects.toThrow(InterruptedError)
    expect(api.asked.notices).toEqual([])
  })

  it('a fault that is not the request’s ends the run', async () => {
    const api = handMadeApi({ notice: () => new TypeError('a bug') })
    await expect(verify(await openWith(noticeEntry(1)), [], api)).rejects.toThrow('a bug')
  })
})

describe('many deletions at once', () => {
  it('twenty are believed', async () => {
    const missing = await verify(await openWith(...notices(1, 20)), [], handMadeApi())
    expect(missing).toMatchObject({ held: false })
    expect(missing.gone).toHaveLength(20)
  })

  it('one more of a few are not: none is gone, and asking stops', async () => {
    const api = handMadeApi()
    const missing = await verify(await openWith(...notices(1, 30)), [], api)
    expect(missing).toMatchObject({ gone: [], held: true, unverified: [] })
    expect(api.asked.notices).toHaveLength(21)
  })

  it('of many live notices one in twenty is believed', async () => {
    const warehouse = await openWith(...notices(1, 440))
    const believed = await verify(warehouse, notices(23, 440), handMadeApi())
    expect(believed).toMatchObject({ held: false })
    expect(believed.gone).toHaveLength(22)
    expect(await verify(warehouse, notices(24, 440), handMadeApi())).toMatchObject({ gone: [], held: true })
  })

  it('all are believed where the operator allows it', async () => {
    const missing = await verify(await openWith(...notices(1, 30)), [], handMadeApi(), {
      allowMassDelete: true,
    })
    expect(missing).toMatchObject({ held: false })
    expect(missing.gone).toHaveLength(30)
  })

  it('after twenty failures in a row nobody is asked any more', async () => {
    const api = handMadeApi({ notice: () => new RequestError('503') })
    const missing = await verify(await openWith(...notices(1, 30)), [], api)
    expect(missing.gone).toEqual([])
    expect(missing.unverified).toHaveLength(20)
    expect(api.asked.notices).toHaveLength(20)
  })

  it('failures with an answer between them do not end the asking', async () => {
    let count = 0
    const api = handMadeApi({
      notice: id => {
        count += 1
        return count === 15 ? bodyOf(noticeEntry(Number(id.slice(1))).edital) : new RequestError('503')
      },
    })
    const missing = await verify(await openWith(...notices(1, 30)), [], api)
    expect(missing).toMatchObject({ found: 1 })
    expect(missing.unverified).toHaveLength(29)
  })
})

describe('another company’s list', () => {
  it('shows none of twenty live notices', async () => {
    const warehouse = await openWith(...notices(1, 20))
    await warehouse.list(...notices(101, 120))
    expect(await isAnotherCompany(warehouse.db)).toBe(true)
    await warehouse.list(...notices(20, 40))
    expect(await isAnotherCompany(warehouse.db)).toBe(false)
  })

  it('may be empty: of twenty live notices they would not all be gone, of nineteen they may', async () => {
    const warehouse = await openWith(...notices(1, 19))
    await warehouse.list()
    expect(await isAnotherCompany(warehouse.db)).toBe(false)
    await warehouse.store([noticeEntry(20)])
    await warehouse.list()
    expect(await isAnotherCompany(warehouse.db)).toBe(true)
  })

  it('may show the same ids: a notice is the same only with its created_at', async () => {
    const warehouse = await openWith(...notices(1, 20))
    await warehouse.list(...notices(1, 20, { created_at: ANOTHER_TIME }))
    expect(await isAnotherCompany(warehouse.db)).toBe(true)
    await warehouse.list(...notices(1, 20, { updated_at: ANOTHER_TIME, status: 'expired' }))
    expect(await isAnotherCompany(warehouse.db)).toBe(false)
  })

  it.each([
    ['milliseconds', '10.123456Z', '10.123Z', true],
    ['rounded milliseconds', '10.123999Z', '10.124Z', true],
    ['seconds', '10.123456Z', '10Z', true],
    ['more digits than before', '10Z', '10.123456Z', true],
    ['another second', '10.123456Z', '12Z', false],
    ['the same second, to the microsecond', '10.123456Z', '10.654321Z', false],
  ])('is its own although created_at has %s', async (_, stored, shown, isOwn) => {
    const warehouse = await openWith(...notices(1, 20, { created_at: `2026-11-01T00:00:${stored}` }))
    await warehouse.list(...notices(1, 20, { created_at: `2026-11-01T00:00:${shown}` }))
    expect(await isAnotherCompany(warehouse.db)).toBe(!isOwn)
  })

  it('is not its own if one of its notices happens to be of the same second', async () => {
    const warehouse = await openWith(...notices(1, 20))
    const close = noticeEntry(1).edital.created_at.replace('.000Z', '.400Z')
    await warehouse.list(
      noticeEntry(1, { created_at: close }),
      ...notices(2, 20, { created_at: ANOTHER_TIME }),
    )
    expect(await isAnotherCompany(warehouse.db)).toBe(true)
  })

  it('deleted notices say nothing of whose it is', async () => {
    const warehouse = await openWith(...notices(1, 20))
    await warehouse.store([noticeEntry(21)], { deletedAt: STARTED })
    await warehouse.list(noticeEntry(21))
    expect(await isAnotherCompany(warehouse.db)).toBe(true)
  })
})

describe('another company’s key, where the list is filtered', () => {
  async function openUnknown(): Promise<WarehouseCase> {
    const warehouse = await openWith(...notices(1, 20))
    await warehouse.list(...notices(101, 103))
    return warehouse
  }

  it('can read none of the three notices that changed last', async () => {
    const api = handMadeApi()
    expect(await isForeignKey((await openUnknown()).db, api)).toBe(true)
    // Odd numbers are in November.
    expect(api.asked.notices).toEqual([idOf(19), idOf(17), idOf(15)])
  })

  it('reads notices of the same id that were created at another time', async () => {
    const other = noticeEntry(1, { created_at: ANOTHER_TIME })
    const api = handMadeApi({ notice: id => bodyOf({ ...other.edital, id }) })
    expect(await isForeignKey((await openUnknown()).db, api)).toBe(true)
  })

  it.each([
    ['its created_at is the same', (id: string) => bodyOf(noticeEntry(Number(id.slice(1))).edital)],
    ['its created_at has no offset', () => bodyOf({ created_at: '2020-01-01T00:00:00' })],
    ['it has no created_at', () => bodyOf({})],
    ['it cannot be read', () => ({ kind: 'body' as const, bytes: Buffer.from('<html>') })],
    ['it is too large', () => TOO_LARGE],
  ])('is not another’s when a notice is answered, and %s', async (_, respond) => {
    const api = handMadeApi({ notice: respond })
    expect(await isForeignKey((await openUnknown()).db, api)).toBe(false)
    expect(api.asked.notices).toHaveLength(1)
  })

  it('is not asked about where the list shows a stored notice, or fewer than twenty are live', async () => {
    const warehouse = await openWith(...notices(1, 19))
    const api = handMadeApi()
    await warehouse.list(...notices(101, 103))
    expect(await isForeignKey(warehouse.db, api)).toBe(false)
    await warehouse.store([noticeEntry(20)])
    await warehouse.list(noticeEntry(1), ...notices(101, 103))
    expect(await isForeignKey(warehouse.db, api)).toBe(false)
    expect(api.asked.notices).toEqual([])
  })
})

describe('a list item that was set aside', () => {
  it('is over when it is listed no more, and never became a notice', async () => {
    const warehouse = await openWith(noticeEntry(1))
    await warehouse.setAside({ id: idOf(1), kind: 'notice', hash: 'stored' })
    await warehouse.setAside({ id: idOf(2), kind: 'notice', hash: 'listed' })
    await warehouse.setAside({ id: idOf(3), kind: 'notice', hash: 'unlisted' })
    await warehouse.setAside({ id: null, kind: 'notice', hash: 'nameless' })
    await warehouse.setAside({ id: idOf(4), kind: 'analysis', hash: 'analysis' })
    await warehouse.setAside({ id: idOf(5), kind: 'notice', hash: 'resolved', resolvedAt: STARTED })
    await warehouse.list(noticeEntry(2))
    const records = await findUnlistedRecords(warehouse.db)
    expect(records.sort((a, b) => a.hash.localeCompare(b.hash))).toEqual([
      { edital_id: null, hash: 'nameless' },
      { edital_id: idOf(3), hash: 'unlisted' },
    ])
  })
})
