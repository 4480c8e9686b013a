import { chmodSync, mkdtempSync, statSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { closeDataDirectory } from '#src/core/company/data_directory.ts'
import { keyFilePath } from '#src/server/keys.ts'
import { subscriptionsPath } from '#src/server/webhooks/subscriptions.ts'

function openDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'editais-sync-test-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  chmodSync(directory, 0o755)
  return directory
}

const modeOf = (path: string) => statSync(path).mode & 0o777

test('DATA_DIR is closed although keys, webhooks and a catalog are in it, and they are closed, too', () => {
  const directory = openDirectory()
  const secret = [`${keyFilePath(directory)}-wal`, subscriptionsPath(directory)]
  for (const path of [...secret, `${subscriptionsPath(directory)}-wal`])
    writeFileSync(path, '', { mode: 0o644 })
  expect(closeDataDirectory(directory, true)).toEqual([])
  expect([directory, ...secret].map(modeOf)).toEqual([0o711, 0o600, 0o600])
})

test('a directory with a file of others stays as it is, for those who use it', () => {
  const directory = openDirectory()
  writeFileSync(join(directory, 'others.txt'), '', { mode: 0o644 })
  closeDataDirectory(directory, true)
  expect(modeOf(directory)).toBe(0o755)
})
