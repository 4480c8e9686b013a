import { readFrames } from '#src/store/rawlog/frames.ts'
import type { ObjectStore } from '#src/store/remote/objects.ts'
import { directoryKey } from '#src/store/shared_log/segments.ts'
import type { ChangingCompany } from './companies.ts'
import { withObjects } from './store.ts'

/** No run of the storm takes longer: what a run began with may be sealed by another one meanwhile. */
const LONGEST_RUN_MS = 60_000

export type Asked = { readonly company: string; readonly version: string; readonly atMs: number }

/** How many requests for an analysis came although the log had it for longer than any run takes. */
export async function repeated(
  companies: readonly ChangingCompany[],
  asked: readonly Asked[],
  settings: Readonly<Record<string, string>>,
): Promise<number> {
  return await withObjects(settings, async store => {
    let again = 0
    for (const { slug } of companies) {
      const sealed = await sealedAt(store, slug)
      again += asked.filter(
        ({ company, version, atMs }) =>
          company === slug && atMs - (sealed.get(version) ?? Number.POSITIVE_INFINITY) > LONGEST_RUN_MS,
      ).length
    }
    return again
  })
}

/** When each version of an analysis was sealed first, by the store's clock. */
async function sealedAt(store: ObjectStore, company: string): Promise<ReadonlyMap<string, number>> {
  const sealed = new Map<string, number>()
  for await (const { key, modified } of store.list(`${directoryKey(company)}/`)) {
    const found = await store.get(key)
    for await (const frame of readFrames(found?.bytes ?? Buffer.alloc(0))) {
      if ('damage' in frame) throw new Error(`${key} is damaged: ${frame.damage}`)
      for (const text of frame.text.toString('utf8').split('\n').filter(Boolean)) {
        const { type, edital_id, updated_at } = JSON.parse(text) as Record<string, string>
        const version = `${edital_id} ${updated_at}`
        if (type?.startsWith('analysis') && !sealed.has(version)) sealed.set(version, modified.getTime())
      }
    }
  }
  return sealed
}
