import { expect, it } from 'vitest'
import { isRedisRefusal, redisRefusal } from '#src/lib/redis_refusal.ts'

const SCRIPT = 'ERR Error running script (call to f_0a): @user_script:3: -'

it.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", 'OOM'],
  ["READONLY You can't write against a read only replica.", 'READONLY'],
  [`${SCRIPT}OOM command not allowed`, 'OOM'],
  ["NOPERM User worker has no permissions to run the 'hset' command", 'NOPERM, HSET'],
  ["ERR The user executing the script can't run this command or subcommand", 'NOPERM'],
  [
    "ERR ACL failure in script: User worker has no permissions to run the 'xadd' command script: 0a, on @user_script:196.",
    'NOPERM, XADD',
  ],
  ['ERR ACL failure in script: No permissions to access a key script: 0a, on @user_script:1.', 'NOPERM'],
  ["NOPERM HSET: the user executing the script can't run this command", 'NOPERM, HSET'],
])('%s is a refusal with its meaning', (text, code) => {
  expect(isRedisRefusal(text)).toBe(true)
  expect(redisRefusal(text)).toMatch(/^Redis rejected the command \([A-Z, ]+\): .+\.$/)
  expect(redisRefusal(text)).toContain(`(${code})`)
})

it('what a retry may not meet again, or a wrong command, is no refusal', () => {
  for (const text of ['ERR syntax error', 'Connection is closed.', 'OOMPH', 'WRONGTYPE Operation']) {
    expect(isRedisRefusal(text), text).toBe(false)
    expect(redisRefusal(text)).toBe(`Redis rejected the command: ${text}.`)
  }
})

it('a refusal that needs no code is one too', () => {
  expect(isRedisRefusal('ERR max number of clients reached')).toBe(true)
  expect(isRedisRefusal("ERR unknown command 'EVAL'")).toBe(true)
})
