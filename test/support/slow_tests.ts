import { relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

const SHOWN = 10
/** Faster than this, nothing is worth a line. */
const SLOW_MS = 1000

/** Lists the slowest files and tests at the end of a run, so that the suite does not become slow unnoticed. */
export default class SlowTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const files = modules.map(module => ({
      name: relative('.', module.moduleId),
      ms: module.diagnostic().duration,
    }))
    const tests = modules.flatMap(module =>
      [...module.children.allTests()].map(test => ({
        name: `${relative('.', module.moduleId)} > ${test.fullName}`,
        ms: test.diagnostic()?.duration ?? 0,
      })),
    )
    process.stdout.write([...slowest('files', files), ...slowest('tests', tests)].join('\n'))
  }
}

function slowest(what: string, all: readonly { name: string; ms: number }[]): string[] {
  const slow = all
    .filter(({ ms }) => ms >= SLOW_MS)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, SHOWN)
  if (slow.length === 0) return []
  return [
    `Slowest ${what}:`,
    ...slow.map(({ name, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${name}`),
    '',
  ]
}
