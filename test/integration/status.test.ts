import { renameSync, symlinkSync } from 'node:fs'
import { expect, it } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { latestLink, requireLatest } from '#src/core/lake/manifest.ts'
import { readStatus } from '#src/operate/status.ts'
import { reportHere } from '#test/support/here.ts'
import { idAt, openCompany } from '#test/support/prepared.ts'

it('status shows one snapshot, even if the next one is published while it reads', async () => {
  const company = await openCompany(3)
  const paths = companyPaths(company.environment.DATA_DIR ?? '', 'acme')
  const broken = (position: number) => company.bodies.set(idAt(company, position), 'no JSON')
  broken(0)
  await reportHere(company.environment, {}, 3)
  const first = await requireLatest(paths.lake)
  broken(1)
  await reportHere(company.environment, { ids: [idAt(company, 1)] }, 3)
  const second = await requireLatest(paths.lake)
  lead(paths.lake, first.directory)

  const { snapshot, quarantine } = await readStatus({
    ...paths,
    // Read after the manifest of the first snapshot, and before its rows.
    get metabase() {
      lead(paths.lake, second.directory)
      return paths.metabase
    },
  })

  expect((await requireLatest(paths.lake)).directory).toBe(second.directory)
  expect(snapshot.directory).toBe(first.directory)
  expect(quarantine.map(({ edital_id }) => edital_id)).toEqual([idAt(company, 0)])
})

/** Makes this snapshot the latest, as a publish does. */
function lead(lake: string, directory: string): void {
  symlinkSync(directory, `${latestLink(lake)}.new`)
  renameSync(`${latestLink(lake)}.new`, latestLink(lake))
}
