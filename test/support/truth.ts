import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { World } from '#src/sandbox/world.ts'
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

/** Checks that the live notices match the world: ids, list fields, and number of child rows. */
export async function expectTruth(company: SyncedCompany): Promise<void> {
  const rows = await company.query<Record<string, unknown>>(
    `SELECT edital_id, objeto, numero, status, epoch_ms(updated_at) AS updated_at, deleted_at,
       (SELECT count(*) FROM requirements r WHERE r.edital_id = e.edital_id) AS requirements,
       (SELECT count(*) FROM items i WHERE i.edital_id = e.edital_id) AS items,
       (SELECT count(*) FROM alerts a WHERE a.edital_id = e.edital_id) AS alerts
     FROM editais e WHERE deleted_at IS NULL AND analysis_state = 'current' ORDER BY edital_id`,
  )
  const states = await company.query<{ edital_id: string }>(
    `SELECT edital_id FROM editais WHERE deleted_at IS NULL ORDER BY edital_id`,
  )
  expect(states.map(({ edital_id }) => edital_id)).toEqual(company.world.ids().sort())
  expect(rows).toEqual(rows.map(({ edital_id }) => rowOf(company.world, String(edital_id))))
}

function rowOf(world: World, id: string): Record<string, unknown> {
  const { edital, analysis } = world.entry(id) ?? {}
  const length = (name: string) => (analysis?.[name] as unknown[] | undefined)?.length
  return {
    edital_id: id,
    objeto: edital?.objeto ?? null,
    numero: edital?.numero ?? null,
    status: edital?.status,
    updated_at: Date.parse(edital?.updated_at ?? ''),
    deleted_at: null,
    requirements: length('requirements'),
    items: length('items'),
    alerts: length('alerts'),
  }
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
