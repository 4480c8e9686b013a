import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { CommanderError } from 'commander'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createSandboxCommand } from '#src/cli/sandbox.ts'
import { pageOf } from '#test/support/sandbox.ts'

const PROGRAM = `
  import { createSandboxCommand } from '#src/cli/sandbox.ts'
  await createSandboxCommand().parseAsync(process.argv.slice(1), { from: 'user' })
`

type Running = { process: ChildProcess; output: () => string; until: (text: string) => Promise<void> }

function run(...args: string[]): Running {
  const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM, '--', ...args], {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  return {
    process: child,
    output: () => output,
    until: text => expect.poll(() => output, { timeout: 10_000 }).toContain(text),
  }
}

/** What commander reports about the arguments, without running anything. */
async function refusal(...args: string[]): Promise<string> {
  const written: string[] = []
  const command = createSandboxCommand()
    .exitOverride()
    .configureOutput({ writeErr: text => void written.push(text) })
  await expect(command.parseAsync(args, { from: 'user' })).rejects.toThrow(CommanderError)
  return written.join('').trim()
}

describe('editais sandbox', () => {
  test('prints an address, keys, a curl line and .env lines that work, and exits with 0 on Ctrl-C', async () => {
    const sandbox = run(
      '--port',
      '0',
      '--companies',
      '3',
      '--notices-per-company',
      '20',
      '--seed',
      '5',
      '--live',
      '1',
    )
    await sandbox.until('Stop it with Ctrl-C.')
    const output = sandbox.output()
    const settings = Object.fromEntries(
      [...output.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    )
    expect(settings).toMatchObject({ COMPANY: 'aurora', API_KEY: expect.stringMatching(/^edk_aurora_/) })
    for (const slug of ['aurora', 'boreal', 'cerrado']) {
      expect(output).toMatch(new RegExp(`^  ${slug} +20 notices   edk_${slug}_[0-9a-f]{32}$`, 'm'))
    }
    const [, header, url] = /curl -s -H '(.+?)' '(.+?)'/.exec(output) ?? []
    expect(header).toBe(`Authorization: Bearer ${settings.API_KEY}`)
    expect(url).toBe(`${settings.API_BASE_URL}/api/v1/editais?limit=2`)
    const response = await fetch(url ?? '', {
      headers: { authorization: `Bearer ${settings.API_KEY}` },
    })
    expect(await pageOf(response)).toMatchObject({ count: 2 })
    await sandbox.until('aurora: ')
    sandbox.process.kill('SIGINT')
    sandbox.process.kill('SIGINT')
    expect(await once(sandbox.process, 'exit')).toEqual([0, null])
    expect(sandbox.output()).toContain('Stopped after 1 request.')
  })

  test('fails with one sentence if its port is in use', async () => {
    const holder = createServer()
    await new Promise<void>(resolve => holder.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void holder.close())
    const { port } = holder.address() as AddressInfo
    const command = createSandboxCommand()
    await expect(
      command.parseAsync(['--port', String(port), '--notices-per-company', '1'], { from: 'user' }),
    ).rejects.toMatchObject({
      exitCode: 2,
      message: `Port ${port} is already in use; choose another with --port.`,
    })
  })

  test('fails with one sentence if the notices cannot be read', async () => {
    await expect(
      createSandboxCommand().parseAsync(['--port', '0', '--notices', '/nowhere'], { from: 'user' }),
    ).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/^Cannot read the notices in \/nowhere: /),
    })
  })

  test.each([
    [['--port', 'http'], 'Expected a whole number from 0 to 65535.'],
    [['--companies', '0'], 'Expected a whole number from 1 to 8.'],
    [['--notices-per-company', '-1'], 'Expected a whole number from 1 to 200000.'],
    [['--live', 'fast'], 'Expected a whole number from 1 to 86400.'],
    [['--start', 'yesterday'], 'Expected a date-time with an offset'],
    [['--start', '2026-11-20T12:00:00'], 'Expected a date-time with an offset'],
    [['--order', 'uf'], 'Expected one of created_at, updated_at, id, none.'],
    [['--fault', 'explode'], 'There is no fault "explode"'],
    [['--colour'], "unknown option '--colour'"],
  ])('refuses %j with the reason', async (args, reason) => {
    expect(await refusal(...args)).toContain(reason)
  })

  test('explains every option and fault in its help', () => {
    const help: string[] = []
    createSandboxCommand()
      .configureOutput({ writeOut: text => void help.push(text) })
      .outputHelp()
    for (const word of [
      '--port',
      '--live [seconds]',
      '--fault',
      'status=CODE',
      'probability=0..1',
      'Example:',
    ]) {
      expect(help.join('')).toContain(word)
    }
  })
})
