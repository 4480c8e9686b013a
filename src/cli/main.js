#!/usr/bin/env -S node --min-semi-space-size=16
import { existsSync } from 'node:fs'

// The option above, which npm's scripts have as well, lets the heap begin with room for young objects. Otherwise a short
// command spends a quarter of its time collecting them, because the heap grows only step by step.
//
// JavaScript, so that no command loads Node's TypeScript parser, and an older Node can read it: everything else comes parsed and
// compiled from the cache, in half the time.
if (Number.parseInt(process.versions.node, 10) < 26) {
  await import('./older_node.js')
} else {
  const { keepCompiled } = await import('../lib/compile_cache.js')
  keepCompiled()
  const start = ['./start.ts', '../../dist/src/cli/start.js'].find(file =>
    existsSync(new URL(file, import.meta.url)),
  )
  await import(start)
}
