import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { memoryDirectory } from './test/support/memory_directory.ts'
import LongestFirst from './test/support/sequencer.ts'

// Unless somebody said where; workers and what they start inherit it.
const inMemory = memoryDirectory()
if (inMemory !== null) process.env.TMPDIR ??= inMemory
// Commands get the same directory from `surroundings`.
process.env.NODE_COMPILE_CACHE ??= join(tmpdir(), 'node-compile-cache')

// These only end a test that hangs: commands are started as processes of their own, and machines can be slow.
const WITH_PROCESSES = {
  globalSetup: ['test/support/global_setup.ts'],
  testTimeout: 300_000,
  hookTimeout: 300_000,
}

export default defineConfig({
  test: {
    reporters: ['default', './test/support/slow_tests.ts'],
    // One pool for the files of all projects: they must agree on its size.
    maxWorkers: 4,
    // Each file's own modules are loaded once per worker: no test leaves anything in them.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    projects: [
      // Decisions and results, in this process alone: no server, no command, no Redis.
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 60_000 } },
      // Runs, commands and servers, on real files, DuckDB, HTTP and Redis.
      { test: { name: 'integration', include: ['test/integration/**/*.test.ts'], ...WITH_PROCESSES } },
      // The daemon, crashes, the image and the bench: what takes real time.
      { test: { name: 'system', include: ['test/system/**/*.test.ts'], ...WITH_PROCESSES } },
    ],
  },
})
