import { spawn } from 'node:child_process'
import { stripVTControlCharacters } from 'node:util'
import { expect, onTestFinished } from 'vitest'
import { type Environment, MAIN, surroundings } from './project.ts'

export const KEYS = {
  tab: '\t',
  enter: '\r',
  left: '\x1B[D',
  up: '\x1B[A',
  ctrlC: '\x03',
  ctrlD: '\x04',
} as const

type Terminal = {
  /** Types, and returns what the terminal shows from then on, as soon as `expected` is in it. */
  readonly type: (text: string, expected: string | RegExp) => Promise<string>
  readonly until: (expected: string | RegExp) => Promise<string>
  readonly ended: Promise<number | null>
}

/**
 * Starts a command on a pseudo-terminal, by `script` of util-linux or BSD.
 * @param size a command that sets the terminal's size; empty for a terminal without one.
 */
export function startOnTerminal(
  args: readonly string[],
  environment: Environment,
  cwd: string,
  size = 'stty rows 40 cols 120; ',
): Terminal {
  const command = [process.execPath, MAIN, ...args]
  const own =
    process.platform === 'darwin'
      ? ['-q', '/dev/null', ...command]
      : ['-qec', `${size}${command.map(word => `'${word}'`).join(' ')}`, '/dev/null']
  const child = spawn('script', own, {
    cwd,
    env: { ...surroundings(), TERM: 'xterm', COLUMNS: '120', ...environment },
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  const until = async (expected: string | RegExp) => {
    const text = () => stripVTControlCharacters(shown).replaceAll('\r', '')
    await expect.poll(text, { timeout: 10_000, interval: 20 }).toMatch(expected)
    return text()
  }
  const type = async (text: string, expected: string | RegExp) => {
    shown = ''
    child.stdin.write(text)
    return await until(expected)
  }
  const ended = new Promise<number | null>(resolve => child.on('close', resolve))
  return { type, until, ended }
}
