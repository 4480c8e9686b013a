import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { notices } from '#test/support/notices.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'

const SIZE = 1024 * 1024

/** Mounts a file system of one megabyte in memory; false if this user may not mount. */
function mountSmall(directory: string): boolean {
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', directory])
  return status === 0
}

function canMount(): boolean {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false
  const directory = join(process.env.TMPDIR ?? '/tmp', `editais-sync-mount-${process.pid}`)
  mkdirSync(directory, { recursive: true })
  const can = mountSmall(directory)
  if (can) spawnSync('umount', [directory])
  rmSync(directory, { recursive: true, force: true })
  return can
}

// SQLite writes the lock's file itself, so only a disk that is really full can test this.
test.skipIf(!canMount())(
  'a disk that is full when the company is locked is reported, with what to do',
  async () => {
    const dataDir = await temporaryDirectory()
    mountSmall(dataDir)
    onTestFinished(() => void spawnSync('umount', [dataDir]))
    const company = await startCompany(notices(1, 2), { DATA_DIR: dataDir })
    mkdirSync(join(dataDir, 'acme/raw'), { recursive: true })
    for (const name of ['lake/snapshots', 'tmp']) mkdirSync(join(dataDir, 'acme', name), { recursive: true })
    try {
      writeFileSync(join(dataDir, 'fill'), Buffer.alloc(2 * SIZE))
    } catch {
      // The disk is full now.
    }
    const { code, stderr } = await runCommand(['sync'], company.environment)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^The lock .*\/acme\/lock cannot be taken: the disk is full\. Free some space \(/m)
    expect(company.sandbox.requests.total).toBe(0)
  },
)
