import { idOf, noticeEntry, notices } from './notices.ts'
import { type SyncedCompany, startCompany } from './synced.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

/** Three runs whose log has every kind of line, most of them for several notices. */
export async function startWithHistory(): Promise<SyncedCompany> {
  const company = await startCompany([
    ...notices(1, 20),
    noticeEntry(21, { dias: 3, valor_estimado: '12.5' }, { analysis_level: 'deepest', novo: [1] }),
  ])
  const { world, faults } = company
  const [broken, unreadable, gone, returning, changed, silent, listedWrong] = [1, 2, 3, 4, 5, 6, 7].map(
    idOf,
  ) as [...[string, string, string, string, string, string, string]]
  faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [broken, unreadable] }]
  world.update(listedWrong, { edital: { participation_confirmed: undefined } })
  await company.syncHere()

  world.remove(gone)
  world.remove(returning)
  world.update(changed, { edital: { objeto: 'Mudou', created_at: '2026-08-15T12:00:00Z' }, updatedAt: NOON })
  world.update(listedWrong, { edital: { participation_confirmed: true } })
  world.update(unreadable, { updatedAt: NOON })
  await company.syncHere()

  world.restore(returning)
  world.update(silent, { analysis: { alerts: [] } })
  faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [unreadable] }]
  await company.syncHere({ full: true })
  return company
}
