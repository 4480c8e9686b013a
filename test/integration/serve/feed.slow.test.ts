import { rmSync } from 'node:fs'
import { cp, rename, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listSealedSegments, segmentPath } from '#src/core/rawlog/files.ts'
import type { Line, LoggedDocument } from '#src/core/rawlog/line.ts'
import { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { CHANGES, type FeedAnswer, follow, placed, shortly } from '#test/support/feed.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'

const at = (hour: number) => new Date(Date.UTC(2026, 10, 20, hour))
const [FIRST, SECOND, THIRD] = [1, 2, 3].map(idOf) as [string, string, string]

const refusal = async ({ ask }: ServedApi, path: string, question = {}) => {
  const { status, body } = await ask(path, question)
  return { status, ...(JSON.parse(body.toString()) as { error: string; detail: string; restart?: object }) }
}

/** What another server, with nothing prepared but the index of the feed, answers. */
async function inAnotherServer(environment: Environment, ...cursors: readonly (string | null)[]) {
  const api = await serveApi(environment)
  const answers = []
  for (const since of cursors) answers.push(await follow(api, since, 'limit=3'))
  await api.close()
  return answers
}

test('changes come once each, in order, over publishes, restarts, rebuilds and without their index', async () => {
  const company = await startSynced(notices(1, 3))
  const { world, environment } = company
  const api = await serveApi(environment)
  const begun = await follow(api, null)
  expect(shortly(begun.events).sort()).toEqual(
    [FIRST, SECOND, THIRD].flatMap(id => [`analysis_arrived ${id}`, `notice_arrived ${id}`]).sort(),
  )
  expect((await follow(api, begun.next)).events).toEqual([])
  expect(await follow(api, 'latest')).toEqual({ events: [], next: begun.next })

  // Another value of the analysis alone, other values of the notice, and one that is the same to the mirror.
  world.update(FIRST, {
    edital: { objeto: 'Mudou', valor_estimado: 7.5, orgao: null },
    analysis: { verdict: { recommendation: 'cautela', reason: 'Outra' } },
    updatedAt: at(1),
  })
  world.update(SECOND, { edital: { de_fora: 1 }, updatedAt: at(1) })
  world.remove(THIRD)
  await company.syncHere({ allowMassDelete: true })
  const changed: FeedAnswer = await api.json(`${CHANGES}?since=${begun.next}&wait=20&include=values`)
  const { cursor: _, ...first } = changed.events.find(({ kind }) => kind === 'notice_changed') ?? {}
  expect(shortly(changed.events)).toEqual([
    ...[`notice_changed ${FIRST} orgao,objeto,valor_estimado,updated_at`, `analysis_outdated ${FIRST}`],
    ...[`notice_changed ${SECOND} updated_at`, `analysis_outdated ${SECOND}`],
    `notice_deleted ${THIRD}`,
    ...shortly(changed.events).slice(5),
  ])
  expect(shortly(changed.events).slice(5).sort()).toEqual([
    `analysis_changed ${FIRST} verdict`,
    `analysis_current ${SECOND}`,
    `verdict_changed ${FIRST} participar>cautela`,
  ])
  expect(first).toMatchObject({
    edital_id: FIRST,
    changes: [
      { field: 'orgao', before: 'MUNICIPIO DE RIO DE JANEIRO', after: null },
      { field: 'objeto', before: 'Objeto 1', after: 'Mudou' },
      { field: 'valor_estimado', before: 1.25, after: 7.5 },
      { field: 'updated_at', before: '2026-11-01T00:01:00Z', after: '2026-11-20T01:00:00Z' },
    ],
  })
  // Whoever reads an event finds at least its state.
  expect(await api.json(`/api/v1/editais/${FIRST}`)).toMatchObject({ objeto: 'Mudou' })
  expect((await api.ask(`/api/v1/editais/${THIRD}`)).status).toBe(404)

  world.restore(THIRD)
  await company.syncHere()
  const returned: FeedAnswer = await api.json(`${CHANGES}?since=${changed.next}&wait=20`)
  expect(shortly(returned.events)).toEqual([`notice_returned ${THIRD}`, `analysis_current ${THIRD}`])
  // A run without news.
  await company.syncHere({ full: true })
  expect((await follow(api, returned.next)).events).toEqual([])

  const all = await follow(api, null)
  expect(all.events.length).toBe(begun.events.length + changed.events.length + returned.events.length)
  const seen = [...begun.events, ...changed.events, ...returned.events].map(
    ({ changes: _, ...event }) => event,
  )
  expect(placed(all.events)).toEqual(placed(seen))
  await api.close()
  const again = async () => {
    const [whole, rest] = await inAnotherServer(environment, null, begun.next)
    expect(placed(whole?.events ?? [])).toEqual(placed(seen))
    expect(placed(rest?.events ?? [])).toEqual(placed(seen.slice(begun.events.length)))
  }
  await again()
  rmSync(join(companyDirectory(environment), 'mirror/feed.sqlite'))
  await again()
  expect((await runShared(['rebuild'], environment)).code).toBe(0)
  await again()
})

test('cursors that are wrong, of another company, or of a log that was salvaged give no events', async () => {
  const company = await startSynced(notices(1, 3))
  const { environment, world } = company
  const other = await startCompany(notices(1, 3))
  await other.syncHere()
  const [theirs] = await inAnotherServer(other.environment, null)
  for (const hour of [1, 2, 3, 4]) {
    world.update(FIRST, { edital: { objeto: `Objeto ${hour}` }, updatedAt: at(hour) })
    await company.syncHere()
  }
  const api = await serveApi(environment)
  const { next, events } = await follow(api, null)
  const changed = `${next.slice(0, -1)}${next.endsWith('A') ? 'Q' : 'A'}`
  for (const [since, status, error] of [
    ['', 400, 'invalid_parameter'],
    ['yesterday', 400, 'invalid_parameter'],
    [`${next}A`, 400, 'invalid_parameter'],
    [changed, 410, 'cursor_gone'],
    [theirs?.next, 410, 'cursor_gone'],
    // Of an earlier version.
    ['AQAAAAEAAAABAAAAAAEAAAAAAAAAAAAAAAAA', 410, 'cursor_gone'],
  ] as const)
    expect(await refusal(api, `${CHANGES}?since=${since}`), since).toMatchObject({ status, error })
  for (const query of ['limit=0', 'limit=1001', 'wait=61', 'include=all', 'after=1', 'limit=x'])
    expect(await refusal(api, `${CHANGES}?${query}`), query).toMatchObject({ error: 'invalid_parameter' })
  const noFeed = api.store.create('acme', 'BI', new Date(), null, { scopes: ['read'], maxRps: null })
  expect(await refusal(api, CHANGES, { key: noFeed })).toMatchObject({ status: 403 })
  expect(await api.ask(CHANGES, { key: null })).toMatchObject({ status: 401 })

  await truncate(segmentPath(join(companyDirectory(environment), 'raw'), 2), 20)
  expect((await runShared(['rebuild', '--salvage'], environment)).code).toBe(0)
  await company.syncHere()
  const salvaged = await serveApi(environment)
  const gone = await refusal(salvaged, `${CHANGES}?since=${next}`)
  expect(gone).toMatchObject({
    status: 410,
    error: 'cursor_gone',
    restart: { since: 'latest', url: `${CHANGES}?since=latest` },
  })
  const fresh = await follow(salvaged, 'latest')
  expect(fresh.events).toEqual([])
  const anew = await follow(salvaged, null)
  expect(anew.next).toBe(fresh.next)
  expect(anew.events.length).toBeLessThanOrEqual(events.length)
  world.update(FIRST, { edital: { objeto: 'Depois' }, updatedAt: at(9) })
  await company.syncHere()
  const later: FeedAnswer = await salvaged.json(`${CHANGES}?since=${fresh.next}&wait=20`)
  expect(shortly(later.events)[0]).toBe(`notice_changed ${FIRST} objeto,updated_at`)
})

test('after a backup is restored, cursors that are ahead of it are gone once something was published', async () => {
  const company = await startSynced(notices(1, 3))
  const { environment, world } = company
  const directory = companyDirectory(environment)
  await cp(directory, `${directory}-backup`, { recursive: true, verbatimSymlinks: true })
  const [kept] = await inAnotherServer(environment, 'latest')
  for (const hour of [1, 2, 3, 4]) {
    world.update(FIRST, { edital: { objeto: `Objeto ${hour}` }, updatedAt: at(hour) })
    await company.syncHere()
  }
  const [ahead] = await inAnotherServer(environment, null)
  await rm(directory, { recursive: true })
  await rename(`${directory}-backup`, directory)
  const ask = async (since = '') => {
    const api = await serveApi(environment)
    const answer = await refusal(api, `${CHANGES}?since=${since}`)
    await api.close()
    return answer
  }
  // As from a server that is behind another one.
  expect(await ask(ahead?.next)).toMatchObject({ status: 503, error: 'cursor_ahead' })
  world.update(FIRST, { edital: { objeto: 'Depois' }, updatedAt: at(9) })
  await company.syncHere()
  expect(await ask(ahead?.next)).toMatchObject({ status: 410, error: 'cursor_gone' })
  const [later] = await inAnotherServer(environment, kept?.next ?? null)
  expect(shortly(later?.events ?? [])[0]).toBe(`notice_changed ${FIRST} objeto,updated_at`)
})

test('what the warehouse could not load is no event', async () => {
  const company = await startSynced(notices(1, 3))
  const { environment, world } = company
  const api = await serveApi(environment)
  const { next } = await follow(api, 'latest')
  for (const id of [FIRST, SECOND]) world.update(id, { edital: { objeto: 'Mudou' }, updatedAt: at(1) })
  const items = [{ numero_item: 1, quantidade: { abc: 'an object' } }]
  await appendSegment(environment, [
    ...[FIRST, SECOND].map(id => noticeLine(company, id)),
    analysisLine(company, FIRST, { items }),
    analysisLine(company, SECOND, { items: [] }),
  ])
  await company.syncHere()
  const page: FeedAnswer = await api.json(`${CHANGES}?since=${next}&wait=20`)
  expect(shortly(page.events)).toEqual([
    ...[`notice_changed ${FIRST} objeto,updated_at`, `analysis_outdated ${FIRST}`],
    ...[`notice_changed ${SECOND} objeto,updated_at`, `analysis_outdated ${SECOND}`],
    `analysis_changed ${SECOND} items`,
  ])
  expect((await api.ask(`/api/v1/editais/${FIRST}/analysis`)).status).toBe(503)
  await company.syncHere({ ids: [FIRST] })
  const replaced: FeedAnswer = await api.json(`${CHANGES}?since=${page.next}&wait=20`)
  expect(shortly(replaced.events)).toEqual([`analysis_current ${FIRST}`])
})

test('without its log, the feed is refused with a reason, and the mirror goes on', async () => {
  const { environment } = await startSynced(notices(1, 2))
  const raw = join(companyDirectory(environment), 'raw')
  const api = await serveApi(environment)
  await rename(raw, `${raw}.away`)
  expect(await refusal(api, CHANGES)).toMatchObject({ status: 503, error: 'unavailable' })
  expect((await api.ask('/api/v1/editais')).status).toBe(200)
  expect(api.lines.join('')).toContain('The changes cannot be served: segment ')
  await rename(`${raw}.away`, raw)
  await rm(join(companyDirectory(environment), 'mirror/feed.sqlite'), { force: true })
  const [answer] = await inAnotherServer(environment, null)
  expect(answer?.events).toHaveLength(4)
})

type Appended = readonly [Line, LoggedDocument]

/** Writes the next segment of the raw log, like a run that died before it loaded it. */
async function appendSegment(environment: Environment, lines: readonly Appended[]): Promise<void> {
  const directory = join(companyDirectory(environment), 'raw')
  const firstNumber = (await listSealedSegments(directory)).length + 1
  const log = new RawLogWriter({ directory, firstNumber, runId: 'by-hand', now: () => new Date() })
  await log.append({
    type: 'run_started',
    mode: 'incremental',
    analysis_statuses: ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'],
    company: 'acme',
  })
  for (const [line, document] of lines) await log.append(line, document)
  await log.seal()
  await log.close()
}

function noticeLine({ world }: Pick<SyncedCompany, 'world'>, id: string): Appended {
  const edital = world.entry(id)?.edital
  return [
    { type: 'notice', edital_id: id, updated_at: String(edital?.updated_at) },
    { notice: JSON.stringify(edital) },
  ]
}

function analysisLine({ world }: Pick<SyncedCompany, 'world'>, id: string, patch: object): Appended {
  const { edital, analysis } = world.entry(id) ?? {}
  const updated_at = String(edital?.updated_at)
  return [
    { type: 'analysis', edital_id: id, updated_at, source_updated_at: updated_at, hash: `of ${id}` },
    { analysis: JSON.stringify({ ...analysis, ...patch }) },
  ]
}
