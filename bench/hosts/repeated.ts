import { readFrames } from '#src/store/rawlog/frames.ts'
import type { ObjectStore } from '#src/store/remote/objects.ts'
import { directoryKey } from '#src/store/shared_log/segments.ts'
import type { ChangingCompany } from './companies.ts'
import { withObjects } from './store.ts'

/** A request for an analysis, and when the company's list was last read before it: what was sealed then is known. */
export type Asked = { readonly company: string; readonly version: string; readonly listedMs: number }

/** How many requests were for an analysis that was sealed before the list was read. */
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
        ({ company, version, listedMs }) =>
          company === slug && (sealed.get(version) ?? Number.POSITIVE_INFINITY) < listedMs,
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
