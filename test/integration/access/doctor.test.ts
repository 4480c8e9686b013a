import {
  chmod,
  chown,
  lchown,
  link,
  mkdir,
  readdir,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Finding } from '#src/extras/extra.ts'
import { diagnoseHere, type Prepared, prepareDirectory } from '#test/support/doctor.ts'
import { isRoot, STRANGER } from '#test/support/other_users.ts'
import type { Environment } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'

let prepared: Prepared
beforeAll(async () => {
  prepared = await prepareDirectory()
  return prepared.remove
})
beforeEach(async () => {
  await prepared.restore()
  // Others can enter: otherwise open files inside would not matter.
  await chmod(at('..'), 0o711)
  await chmod(at(), 0o711)
})
afterEach(async () => {
  const strange = (await readdir(at('..'))).filter(name => !['acme', 'kept'].includes(name))
  for (const name of strange) await rm(at('..', name), { recursive: true })
  await chown(at('..'), process.getuid?.() ?? 0, process.getgid?.() ?? 0)
})

const at = (...names: string[]) => join(prepared.directory, ...names)

async function privacyOf(settings: Environment = {}): Promise<Finding[]> {
  const { findings } = await diagnoseHere({ ...prepared.environment, ...settings }, true)
  return findings.filter(({ check }) => check === 'privacy')
}

const WELL = [{ status: 'ok', what: 'Other users can open only what LAKE_READERS allows' }]

async function publish(settings: Environment = {}): Promise<void> {
  const ended = await runShared(['publish'], { ...prepared.environment, ...settings })
  expect(ended).toMatchObject({ code: 0 })
}

describe('doctor', () => {
  test('reports nothing when other users can open nothing', async () => {
    expect(await privacyOf()).toMatchObject(WELL)
  })

  test('reports what is too open, and the next run closes it', async () => {
    await mkdir(at('mirror'))
    for (const [mode, ...names] of [
      [0o755, '.', '..', 'raw', 'rows', 'mirror'],
      [0o777, 'lake'],
      [0o644, 'warehouse.duckdb', 'state.json', 'lock', '../api_keys.sqlite', '../.metabase_api_key'],
      [0o666, '../catalog.duckdb'],
    ] as const) {
      for (const name of names) {
        if (!(await stat(at(name)).catch(() => null))) await writeFile(at(name), '')
        await chmod(at(name), mode)
      }
    }
    const found = await privacyOf()
    expect(Object.fromEntries(found.map(({ subject, what }) => [subject, what]))).toEqual({
      [at('..')]: 'can be listed by other users (0755)',
      [at()]: 'can be listed by other users (0755)',
      [at('raw')]: 'can be listed by other users (0755)',
      [at('rows')]: 'can be listed by other users (0755)',
      [at('mirror')]: 'can be listed by other users (0755)',
      [at('lake')]: 'can be changed by other users (0777)',
      [at('warehouse.duckdb')]: 'can be read by other users (0644)',
      [at('state.json')]: 'can be read by other users (0644)',
      [at('lock')]: 'can be read by other users (0644)',
      [at('../api_keys.sqlite')]: 'can be read by other users (0644)',
      [at('../.metabase_api_key')]: 'can be read by other users (0644)',
      [at('../catalog.duckdb')]: 'can be changed by other users (0666)',
    })
    for (const { status, mend } of found)
      expect([status, mend]).toEqual(['warning', 'The next run corrects its mode'])
    await publish()
    expect(await privacyOf()).toMatchObject(WELL)
  })

  test('ignores open files behind a directory that others cannot enter', async () => {
    await chmod(at('..'), 0o700)
    await chmod(at('raw'), 0o777)
    expect(await privacyOf()).toMatchObject(WELL)
  })

  test.each([
    { mode: 0o777, danger: 'other users can replace every company in it (0777)' },
    { mode: 0o1777, danger: 'other users can create files in it under our names (0777)' },
  ])(
    'reports a DATA_DIR shared with other users ($mode), and a run leaves it as it is',
    async ({ mode, danger }) => {
      await writeFile(at('../notes.txt'), 'of another user')
      await chmod(at('..'), mode)
      const problem = {
        status: 'problem',
        subject: at('..'),
        what: `is shared with other programs: ${danger}`,
        mend: 'Move the companies to a separate directory, and set DATA_DIR to it',
      }
      expect(await privacyOf()).toMatchObject([problem])
      await publish()
      expect(await privacyOf()).toMatchObject([problem])
      expect((await stat(at('..'))).mode & 0o7777).toBe(mode)
    },
  )

  test('reports a link to a directory that is too open, which no run closes', async () => {
    await rename(at('raw'), at('../elsewhere'))
    await chmod(at('../elsewhere'), 0o755)
    await symlink(at('../elsewhere'), at('raw'))
    const problem = { status: 'problem', subject: at('raw'), mend: `chmod 0700 ${at('raw')}` }
    await publish()
    expect(await privacyOf()).toMatchObject([problem])
    await chmod(at('raw'), 0o700)
    expect(await privacyOf()).toMatchObject(WELL)
  })

  test('reports an open file with a second hard link, which no run closes', async () => {
    await chmod(at('state.json'), 0o644)
    await link(at('state.json'), at('../elsewhere.json'))
    const problem = { status: 'problem', subject: at('state.json'), mend: `chmod 0600 ${at('state.json')}` }
    expect(await privacyOf()).toMatchObject([problem])
  })

  test('reports a lake that is more open than LAKE_READERS says or has another group, until the next run', async () => {
    const group = process.getgid?.() === 0 ? 54_321 : process.getgid?.()
    const settings = { LAKE_READERS: `group:${group}` }
    const found = await privacyOf(settings)
    expect(found.map(({ subject, what }) => [subject, what])).toContainEqual([
      at('lake'),
      'can be listed by other users (0755)',
    ])
    if (isRoot) {
      const mend = 'The next run changes its group'
      const what = `belongs to the group with id 0, not to that of LAKE_READERS (${group})`
      expect(found).toContainEqual(expect.objectContaining({ subject: at('lake'), what, mend }))
    }
    await publish(settings)
    expect(await privacyOf(settings)).toMatchObject(WELL)
  })

  test('reports a path that blocks readers of the lake, until the next run', async () => {
    await chmod(at(), 0o700)
    expect(await privacyOf()).toMatchObject(WELL)
    const settings = { LAKE_READERS: 'all' }
    const what =
      'cannot be entered by users who may read the lake (mode 0700; LAKE_READERS gives the lake 0755)'
    const mend = `The next run corrects its mode, or run chmod 0711 ${at()}`
    expect(await privacyOf(settings)).toMatchObject([{ status: 'warning', subject: at(), what, mend }])
    await publish(settings)
    expect(await privacyOf(settings)).toMatchObject(WELL)
  })

  test.runIf(isRoot)('reports files that belong to another user', async () => {
    await chown(at('state.json'), STRANGER, STRANGER)
    await symlink('/nowhere', at('metabase.json'))
    await lchown(at('metabase.json'), STRANGER, STRANGER)
    expect(await privacyOf()).toMatchObject([
      {
        status: 'problem',
        subject: at('metabase.json'),
        mend: `rm ${at('metabase.json')}`,
        what: `is a link made by another user (id ${STRANGER}), who can change it`,
      },
      {
        status: 'problem',
        subject: at('state.json'),
        mend: `chown 0 ${at('state.json')}, as root`,
        what: `belongs to another user (id ${STRANGER}), who can change it`,
      },
    ])
  })
})
