import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { wrongNotices } from '#tools/truth.ts'
import { idOf } from './notices.ts'
import { companyDirectory, type Environment } from './project.ts'
import type { SyncedCompany } from './synced.ts'

/** Ids of the notices or analyses requested since the last run began, with duplicates. */
export function asked(company: SyncedCompany, kind: 'notice' | 'analysis'): string[] {
  const { byId } = company.sandbox.requests
  return [...byId].flatMap(([id, counts]) => Array(counts[kind]).fill(id)).sort()
}

/** Names of the existing snapshots. */
export async function snapshots(environment: Environment): Promise<string[]> {
  return await readdir(join(companyDirectory(environment), 'lake/snapshots'))
}

/** Checks that the live notices match the world, but for those that wait for their analysis. */
export async function expectTruth(company: SyncedCompany): Promise<void> {
  const wrong = await wrongNotices(sql => company.query(sql), company.world)
  const waiting = await company.query<{ edital_id: string }>(
    `SELECT edital_id FROM editais WHERE deleted_at IS NULL AND analysis_state <> 'current' ORDER BY ALL`,
  )
  expect(wrong.sort()).toEqual(waiting.map(({ edital_id }) => edital_id))
}

/** Lists the ids of the notices whose analysis is in the latest snapshot. */
export async function publishedAnalyses(company: SyncedCompany): Promise<string[]> {
  const rows = await company.query<{ edital_id: string }>(
    `SELECT edital_id FROM editais JOIN analyses USING (edital_id) WHERE analysis_state = 'current' ORDER BY 1`,
  )
  return rows.map(({ edital_id }) => edital_id)
}

/** Lists the ids of so many notices, without some of them. */
export function idsBut(total: number, some: readonly string[]): string[] {
  const without = new Set(some)
  return Array.from({ length: total }, (_, index) => idOf(index + 1)).filter(id => !without.has(id))
}
