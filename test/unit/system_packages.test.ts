import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { mayRun } from '#test/support/system_packages.ts'

async function ask(answer: string, isTTY: boolean) {
  const input = Object.assign(new PassThrough(), { isTTY })
  const output = Object.assign(new PassThrough(), { isTTY })
  input.end(answer)
  const mayIt = await mayRun('Redis', 'apt-get install -y redis-server', { input, output })
  output.end()
  return { mayIt, shown: await text(output) }
}

describe('before the tests install something', () => {
  it.each([
    { answer: '\n', mayIt: true },
    { answer: 'y\n', mayIt: true },
    { answer: 'n\n', mayIt: false },
    { answer: ' No\n', mayIt: false },
  ])('they ask on a terminal, naming the command: $answer is $mayIt', async ({ answer, mayIt }) => {
    const asked = await ask(answer, true)
    expect(asked.mayIt).toBe(mayIt)
    expect(asked.shown).toContain('Redis is not installed. Run apt-get install -y redis-server? [Y/n] ')
  })

  it('they only report it elsewhere, because nobody can answer', async () => {
    const asked = await ask('n\n', false)
    expect(asked).toEqual({
      mayIt: true,
      shown: 'Redis is not installed: running apt-get install -y redis-server.\n',
    })
  })
})
