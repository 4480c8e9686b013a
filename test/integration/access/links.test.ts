import { existsSync } from 'node:fs'
import {
  chmod,
  chown,
  lchown,
  link,
  lstat,
  mkdir,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { checkDirectory } from '#jobs/queues/company_registry.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { contextHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { isRoot, STRANGER } from '#test/support/other_users.ts'
import { companyDirectory, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'

const KEPT = 'do not write here\n'

/** A synced company, and a file outside it that the planted links point to. */
async function openCompany(): Promise<SyncedCompany & { at: (name: string) => string; target: string }> {
  const company = await startSynced(notices(1, 4))
  const target = join(await temporaryDirectory(), 'target')
  await writeFile(target, KEPT, { mode: 0o644 })
  const directory = companyDirectory(company.environment)
  return { ...company, at: name => join(directory, name), target }
}

async function expectUntouched(target: string): Promise<void> {
  expect(await readFile(target, 'utf8')).toBe(KEPT)
  expect((await lstat(target)).mode & 0o777).toBe(0o644)
}

describe('a planted file', () => {
  const replaced = [
    ...['lock.holder.json', 'state.json.part', 'state.json', 'raw/000003.ndjson.zst.part'],
    ...['list.json.part', 'list.json'],
    ...['tmp/listed.ndjson', 'tmp/records.ndjson', 'tmp/work.ndjson', 'tmp/warehouse.next.duckdb'],
    ...['tmp/tmp_work.ndjson', 'lake/latest.part'],
  ]
  const plant = {
    'a link': symlink,
    'a second name': link,
  }
  test.each(Object.entries(plant))(
    'as %s in place of a file is replaced, and never written to',
    async (_, plantAt) => {
      const company = await openCompany()
      const { at, target, world, environment } = company
      await mkdir(at('tmp'), { recursive: true })
      for (const name of replaced) {
        await rm(at(name), { force: true })
        await plantAt(target, at(name))
      }
      world.update(idOf(1), { edital: { objeto: 'Mudou' }, updatedAt: new Date('2026-11-20T12:00:00Z') })
      const { code, stderr } = await runShared(['sync'], environment)
      expect({ code, stderr }).toMatchObject({ code: 0 })
      await expectUntouched(target)
      expect((await lstat(at('state.json'))).nlink).toBe(1)
      await rm(at('warehouse.duckdb'))
      await mkdir(at('tmp'), { recursive: true })
      await plantAt(target, at('tmp/warehouse.next.duckdb'))
      expect((await runShared(['rebuild'], environment)).code).toBe(0)
      await expectUntouched(target)
    },
  )

  test.each([
    { name: 'lock', args: ['sync'] },
    { name: 'lock-journal', args: ['sync'] },
    { name: 'warehouse.duckdb', args: ['sync'], isReplaced: true },
    { name: 'warehouse.duckdb.wal', args: ['sync'] },
    { name: '../api_keys.sqlite', args: ['keys', 'create', '--description', 'ERP'] },
    { name: '../api_keys.sqlite-wal', args: ['keys', 'create', '--description', 'ERP'] },
  ])('as a link $name is refused with one sentence', async ({ name, args, isReplaced }) => {
    const { at, target, environment } = await openCompany()
    for (const planted of [target, join(target, '../not-there')]) {
      await rm(at(name), { force: true })
      await symlink(planted, at(name))
      const { code, stderr } = await runShared(args, environment)
      const refused = { code: 2, stderr: `${join(at(name))} is a link, so it is not opened. Remove it.\n` }
      // A link to a missing file counts as no warehouse: a run replaces it with a new one.
      const isMissing = isReplaced && planted !== target
      expect({ code, stderr }, planted).toEqual(isMissing ? { code: 0, stderr: '' } : refused)
      await expectUntouched(target)
      expect(existsSync(join(target, '../not-there'))).toBe(false)
    }
  })

  test.each([
    { name: 'lock', args: ['sync'] },
    { name: 'warehouse.duckdb', args: ['sync'] },
    { name: '../api_keys.sqlite', args: ['keys', 'create', '--description', 'ERP'] },
  ])('as a hard link to another file $name is refused, unless that is closed', async ({ name, args }) => {
    const { at, target, environment } = await openCompany()
    await rm(at(name), { force: true })
    await link(target, at(name))
    const { code, stderr } = await runShared(args, environment)
    expect({ code, stderr: stderr.split('\n').at(-2) }).toEqual({
      code: 2,
      stderr: expect.stringMatching(`^${join(at(name))} has another hard link .*mv the copy over it\\.$`),
    })
    await expectUntouched(target)
  })

  test('as a second hard link to a closed lock blocks no run', async () => {
    const { at, target, environment } = await openCompany()
    expect((await runShared(['sync'], environment)).code).toBe(0)
    await link(at('lock'), join(target, '../second'))
    expect(await runShared(['sync'], environment)).toMatchObject({ code: 0, stderr: '' })
  })

  test('as a link in place of the directory id is refused', async () => {
    const { at, target, environment } = await openCompany()
    const redis = { hsetnx: async () => 1, hget: async () => null } as unknown as Queues['redis']
    await symlink(join(target, '../not-there'), at('id'))
    const company = { slug: 'acme', ...contextHere(environment) } as unknown as Parameters<
      typeof checkDirectory
    >[1]
    await expect(checkDirectory({ redis, prefix: 'test' }, company)).rejects.toThrow(
      `${at('id')} is a link, so it is not opened. Remove it.`,
    )
    expect(existsSync(join(target, '../not-there'))).toBe(false)
  })

  test('as a link to another database leaves that database unchanged', async () => {
    const { at, target, environment } = await openCompany()
    const path = join(target, '../other.sqlite')
    const db = new DatabaseSync(path)
    db.exec('CREATE TABLE other (one)')
    db.close()
    const before = await readFile(path)
    await symlink(path, at('../api_keys.sqlite'))
    expect((await runShared(['keys', 'create', '--description', 'ERP'], environment)).code).toBe(2)
    expect(await readFile(path)).toEqual(before)
  })

  test('as a link in place of tmp is replaced, and its target does not change', async () => {
    const { at, environment, world } = await openCompany()
    const shared = await temporaryDirectory()
    await chmod(shared, 0o777)
    await writeFile(join(shared, 'listed.ndjson'), KEPT)
    await rm(at('tmp'), { recursive: true, force: true })
    await symlink(shared, at('tmp'))
    world.update(idOf(1), { edital: { objeto: 'Mudou' } })
    expect((await runShared(['sync'], environment)).code).toBe(0)
    expect((await lstat(shared)).mode & 0o777).toBe(0o777)
    expect(await readFile(join(shared, 'listed.ndjson'), 'utf8')).toBe(KEPT)
    expect(existsSync(at('tmp'))).toBe(false)
  })

  test.runIf(isRoot)('that another user owns is refused as a lock, keys or a linked directory', async () => {
    const { at, target, environment } = await openCompany()
    for (const [name, args] of [
      ['lock', ['sync']],
      ['warehouse.duckdb', ['sync']],
      ['../api_keys.sqlite', ['keys', 'create', '--description', 'ERP']],
    ] as const) {
      if (!existsSync(at(name))) await writeFile(at(name), '')
      await chown(at(name), STRANGER, STRANGER)
      const { code, stderr } = await runShared(args, environment)
      expect({ code, stderr }, name).toEqual({
        code: 2,
        stderr: `${join(at(name))} belongs to user ${STRANGER}, so it is not opened. Remove it, or chown it to this user.\n`,
      })
      await chown(at(name), 0, 0)
    }
    await rm(at('raw'), { recursive: true })
    await symlink(join(target, '..'), at('raw'))
    await lchown(at('raw'), STRANGER, STRANGER)
    const { code, stderr } = await runShared(['sync'], environment)
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: `${at('raw')} is a link created by user ${STRANGER}, so it is not followed. Remove it and run again.\n`,
    })
  })
})

test('directories that the operator linked are followed and keep their mode', async () => {
  const company = await startCompany(notices(1, 4))
  const elsewhere = await temporaryDirectory()
  await chmod(elsewhere, 0o755)
  await symlink(elsewhere, companyDirectory(company.environment))
  await company.sync()
  expect(existsSync(join(elsewhere, 'state.json'))).toBe(true)
  expect((await lstat(elsewhere)).mode & 0o777).toBe(0o755)
  expect((await lstat(join(elsewhere, 'raw'))).mode & 0o777).toBe(0o700)
  expect(await realpath(join(elsewhere, 'lake/latest'))).toContain(elsewhere)
})
