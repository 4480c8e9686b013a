import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Ended, type Environment, surroundings } from './project.ts'
import { END, type Order } from './shared_process.ts'

const SHARED = join(import.meta.dirname, 'shared_process.ts')
/** The end mark after the command's own output. */
const CODE = new RegExp(`${END}(\\d+)${END}$`)

/** Started for the first command of this test worker; null if it has ended. */
let running: ChildProcessWithoutNullStreams | null = null
let last: Promise<unknown> = Promise.resolve()

/**
 * Like `runCommand`, but in a process that this worker's commands share, one after another: starting a process takes
 * ten times as long as a small command. Not for tests that need a separate process: signals, two commands at once,
 * whether it ends by itself.
 */
export async function runShared(
  args: readonly string[],
  environment: Environment,
  cwd = environment.DATA_DIR ?? tmpdir(),
): Promise<Ended> {
  let isOver = false
  onTestFinished(() => void (isOver || running?.kill('SIGKILL')))
  const order = { args, cwd, environment: { ...surroundings(), ...environment } }
  const ended = last
    .then(() => carryOut(order))
    .finally(() => {
      isOver = true
    })
  last = ended.catch(() => {})
  return await ended
}

/** If the shared process ends, the result is the same as if the command's own process had. */
function carryOut(order: Order): Promise<Ended> {
  running ??= start()
  const child = running
  return new Promise((resolve, reject) => {
    const output = { stdout: '', stderr: '' }
    const finish = (ended: Ended) => {
      child.stdout.off('data', hearStdout)
      child.stderr.off('data', hearStderr)
      child.off('close', onClose).off('error', reject)
      resolve(ended)
    }
    const hear = (name: keyof typeof output, text: string) => {
      output[name] += text
      const [end, code] = CODE.exec(output.stdout) ?? []
      if (end === undefined || !output.stderr.endsWith(END)) return
      const stdout = output.stdout.slice(0, -end.length)
      finish({ code: Number(code), stdout, stderr: output.stderr.slice(0, -END.length) })
    }
    const hearStdout = (text: string) => hear('stdout', text)
    const hearStderr = (text: string) => hear('stderr', text)
    const onClose = (code: number | null) => finish({ code, ...output })
    child.stdout.on('data', hearStdout)
    child.stderr.on('data', hearStderr)
    child.once('close', onClose).once('error', reject)
    child.stdin.write(`${JSON.stringify(order)}\n`)
  })
}

/** It ends with this worker, when its stdin closes, and does not keep the worker alive. */
function start(): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, [SHARED], { env: surroundings() })
  child.once('exit', () => {
    running = null
  })
  child.stdin.on('error', () => {})
  child.stdout.setEncoding('utf8')
  child.stderr.setEncoding('utf8')
  return child
}
