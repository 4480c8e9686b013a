import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Ended, type Environment, surroundings } from './project.ts'
import { END, type Order } from './shared_process.ts'

const SHARED = join(import.meta.dirname, 'shared_process.ts')
/** After what the command itself wrote. */
const CODE = new RegExp(`${END}(\\d+)${END}$`)

/** Started for the first command of this worker; null when it has ended. */
let running: ChildProcessWithoutNullStreams | null = null
let last: Promise<unknown> = Promise.resolve()

/**
 * As `runCommand`, but in a process that this worker's commands share, one after another: to start one costs
 * ten times what a small command does. Not for what only a process of its own shows: signals, two commands at
 * once, whether it ends by itself.
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

/** A process that ends meanwhile has ended as the command's own would have. */
function carryOut(order: Order): Promise<Ended> {
  running ??= start()
  const child = running
  return new Promise((resolve, reject) => {
    const said = { stdout: '', stderr: '' }
    const finish = (ended: Ended) => {
      child.stdout.off('data', hearStdout)
      child.stderr.off('data', hearStderr)
      child.off('close', onClose).off('error', reject)
      resolve(ended)
    }
    const hear = (name: keyof typeof said, text: string) => {
      said[name] += text
      const [end, code] = CODE.exec(said.stdout) ?? []
      if (end === undefined || !said.stderr.endsWith(END)) return
      const stdout = said.stdout.slice(0, -end.length)
      finish({ code: Number(code), stdout, stderr: said.stderr.slice(0, -END.length) })
    }
    const hearStdout = (text: string) => hear('stdout', text)
    const hearStderr = (text: string) => hear('stderr', text)
    const onClose = (code: number | null) => finish({ code, ...said })
    child.stdout.on('data', hearStdout)
    child.stderr.on('data', hearStderr)
    child.once('close', onClose).once('error', reject)
    child.stdin.write(`${JSON.stringify(order)}\n`)
  })
}

/** It ends when this worker does, with the pipe of its standard input, and keeps it from nothing. */
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
