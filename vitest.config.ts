import { defineConfig } from 'vitest/config'
import { memoryDirectory } from './test/support/memory_directory.ts'
import LongestFirst from './test/support/sequencer.ts'

// Unless somebody said where; workers and what they start inherit it.
const inMemory = memoryDirectory()
if (inMemory !== null) process.env.TMPDIR ??= inMemory

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global_setup.ts'],
    // Commands are started as processes of their own, and machines can be slow.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default'],
    maxWorkers: 4,
    // Each file's own modules are loaded once per worker: no test leaves anything in them.
    isolate: false,
    sequence: { sequencer: LongestFirst },
  },
})
