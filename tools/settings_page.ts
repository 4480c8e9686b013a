import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const PAGE = join(import.meta.dirname, '../docs/operating/settings.md')

type Explained = {
  /** Null without a default. */
  readonly usual: string | null
  /** The default in Docker Compose, if that differs. */
  readonly inDocker: string | null
}

/** The settings that the page explains, with their defaults. */
export function explainedSettings(): ReadonlyMap<string, Explained> {
  const rows = readFileSync(PAGE, 'utf8').matchAll(/^\| `([A-Z][A-Z0-9_]+)` \| (?:`(.*?)`|–) \| (\S.*) \|$/gm)
  return new Map(
    [...rows].map(([, name = '', usual = null, meaning = '']) => {
      const [, inDocker = null] = /Docker: (\d+)\.$/.exec(meaning) ?? []
      return [name, { usual, inDocker }]
    }),
  )
}
