import { defineConfig } from 'vitest/config'
import { memoryDirectory } from './test/support/memory_directory.ts'
import LongestFirst from './test/support/sequencer.ts'

// Unless somebody said where; workers and what they start inherit it.
const inMemory = memoryDirectory()
if (inMemory !== null) process.env.TMPDIR ??= inMemory

const UNIT = 'test/unit/**/*.test.ts'

export default defineConfig({
  test: {
    reporters: ['default', './test/support/slow_tests.ts'],
    // One pool for the files of both projects: they must agree on its size.
    maxWorkers: 4,
    // Each file's own modules are loaded once per worker: no test leaves anything in them.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    projects: [
      // Decisions and results, in this process alone: no server, no command, no Redis.
      { test: { name: 'unit', include: [UNIT], testTimeout: 20_000 } },
      {
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          exclude: [UNIT],
          globalSetup: ['test/support/global_setup.ts'],
          // Commands are started as processes of their own, and machines can be slow.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
})
