// Checked by a compiler, and never run. A line without its expected error is an error, too.
import { type Client, createClient } from '@editais-sync/client'

export async function rightCalls(client: Client): Promise<void> {
  const id: string = (await client.get('/api/v1/editais')).editais[0]?.id ?? ''
  const signal = AbortSignal.timeout(1000)
  const notice = await client.get('/api/v1/editais/{id}', { path: { id }, signal })
  const phase: 'screening' | 'analysis' | 'pricing' | 'ready' | 'discarded' | 'expired' = notice.status
  const changed = await client.getIfChanged('/api/v1/editais/{id}/analysis', null, { path: { id } })
  const title: string | undefined = changed?.document.requirements?.[0]?.title
  for await (const page of client.search({ q: phase, limit: 5 }, { signal })) void page.next?.length
  for await (const page of client.changes({ include: 'values' })) void page.events[0]?.changes?.[0]?.field
  for await (const line of client.exportNotices({ what: 'both' })) void line.analysis?.verdict?.recommendation
  for await (const line of client.exportNotices({ what: 'notices' })) void [line.objeto, title]
  createClient({ url: 'http://127.0.0.1:8080', apiKey: 'edk_…', fetch, maxWaitMs: 1, silenceMs: 1 })
}

export async function wrongCalls(client: Client): Promise<void> {
  // @ts-expect-error: no such path
  await client.get('/api/v1/notices')
  // @ts-expect-error: an export is no document
  await client.get('/api/v1/mirror/export.ndjson')
  // @ts-expect-error: messages are not read
  await client.get('/api/v1/mirror/mcp')
  // @ts-expect-error: the id is missing
  await client.get('/api/v1/editais/{id}')
  // @ts-expect-error: the id has another name
  await client.get('/api/v1/editais/{id}', { path: { edital_id: 'n1' } })
  // @ts-expect-error: no such parameter
  await client.get('/api/v1/editais', { query: { page: 2 } })
  // @ts-expect-error: a number
  await client.get('/api/v1/mirror/changes', { query: { wait: '5' } })
  // @ts-expect-error: it takes no parameters
  await client.get('/api/v1/mirror', { query: { limit: 5 } })
  // @ts-expect-error: no such field
  void (await client.get('/api/v1/mirror')).name
  // @ts-expect-error: no such filter
  client.search({ state: 'SP' })
  // @ts-expect-error: the iterator passes cursors itself
  client.search({ cursor: 'abc' })
  // @ts-expect-error: no such order
  client.search({ sort: 'objeto' })
  // @ts-expect-error: values or nothing
  client.changes({ include: 'fields' })
  // @ts-expect-error: no such export
  client.exportNotices({ what: 'all' })
  // @ts-expect-error: what is exported is missing
  client.exportNotices({})
  // @ts-expect-error: an analysis has no key `edital`
  for await (const line of client.exportNotices({ what: 'analyses' })) void line.edital
  // @ts-expect-error: without a key
  createClient({ url: 'http://127.0.0.1:8080' })
}
