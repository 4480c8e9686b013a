import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'

// For a Node that is too old for the program: runs it on the pinned one, the package `node`, or says what it needs.

const pinned = createRequire(import.meta.url)
  .resolve.paths('node')
  ?.map(directory => `${directory}/node/bin/node`)
  .find(existsSync)
// That one may be too old as well.
if (pinned === undefined || process.env.EDITAIS_NODE === pinned) {
  process.stderr.write(
    `editais needs Node.js 26 or later, and this is ${process.versions.node}. Install it, or add it here: npm install node@26\n`,
  )
  process.exitCode = 2
} else {
  const child = spawn(pinned, ['--min-semi-space-size=16', ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, EDITAIS_NODE: pinned },
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => void child.kill(signal))
  child.on('error', error => {
    process.stderr.write(`${pinned} cannot be started: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (signal === 'SIGINT' ? 2 : 15)
  })
}
