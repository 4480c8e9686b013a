import { expect, it } from 'vitest'
import { recognizeRedisProblem } from '#jobs/queues/redis_problem.ts'
import { refusedAnswer } from '#src/core/api/endpoints.ts'
import { describeRedirect, isRedirect } from '#src/lib/http/client.ts'
import { checkKey } from '#src/lib/http/credentials.ts'
import {
  explainNetwork,
  isInOurWords,
  NetworkError,
  recognizeTlsTrouble,
} from '#src/lib/http/network_error.ts'
import { isPublicAddress, mayBePublic } from '#src/lib/http/public_lookup.ts'
import { explainRedisRefusal, isRedisRefusal } from '#src/lib/redis_refusal.ts'

const coded = (code: string) => Object.assign(new Error('failed'), { code })

it.each([
  ['ECONNREFUSED', 'unreached', 'the connection was refused'],
  ['UND_ERR_CONNECT_TIMEOUT', 'unreached', 'no connection within 3 s'],
  ['UND_ERR_HEADERS_TIMEOUT', 'late', 'no answer within 3 s'],
  ['UND_ERR_BODY_TIMEOUT', 'late', 'the answer stalled for longer than 3 s'],
  ['ECONNRESET', 'lost', 'the connection was reset'],
  ['HPE_INVALID_CONSTANT', 'lost', 'wrapped'],
  ['EAI_FAIL', 'lost', 'wrapped'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'untrusted', 'no trusted authority signed its certificate'],
  ['CERT_HAS_EXPIRED', 'untrusted', 'its certificate has expired'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'untrusted', 'its certificate is for another host name'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'untrusted', 'it does not speak TLS'],
  ['CERT_REVOKED', 'untrusted', 'TLS failed'],
])('%s means that a server is %s: %s', (code, trouble, message) => {
  const explained = explainNetwork(new Error('wrapped', { cause: coded(code) }), '3 s')
  expect(explained).toBeInstanceOf(NetworkError)
  expect(explained).toMatchObject({ trouble, message, code })
})

it('only messages of unknown codes are in the words of the system', () => {
  const explained = (code: string) => explainNetwork(new Error('wrapped', { cause: coded(code) }), '3 s')
  const own = ['ECONNREFUSED', 'CERT_REVOKED', 'EADDRNOTAVAIL'].map(code =>
    isInOurWords(explained(code) as NetworkError),
  )
  expect(own).toEqual([true, true, false])
})

it('an error of the program is not one of the network', () => {
  for (const error of [new TypeError('wrong'), coded('ERR_INVALID_ARG_TYPE'), coded('UND_ERR_INVALID_ARG')]) {
    expect(explainNetwork(error, '3 s')).toBe(error)
  }
})

it('a code that is not about TLS says nothing about it', () => {
  expect(['ECONNREFUSED', 'ENOENT', 'UND_ERR_SOCKET', ''].map(code => recognizeTlsTrouble(code, ''))).toEqual(
    [null, null, null, null],
  )
})

it.each([
  ['write EPROTO', 'lost'],
  [
    'write EPROTO 40B3:error:0A0000F4:SSL routines:ossl_statem_client:unexpected message:statem.c:423:',
    'lost',
  ],
  [
    'write EPROTO 40B3:error:0A00010B:SSL routines:tls_validate:wrong version number:tlsany.c:78:',
    'untrusted',
  ],
  ['write EPROTO 40B3:error:0A0000C6:SSL routines:get_more:packet length too long:tls_c.c:654:', 'untrusted'],
])('EPROTO shows a server without TLS only if its text does: %s', (text, trouble) => {
  const error = Object.assign(new Error(text), { code: 'EPROTO' })
  expect(explainNetwork(error, '3 s')).toMatchObject({ trouble, code: 'EPROTO' })
  expect(recognizeRedisProblem(error, 'rediss://redis')?.kind).toBe(trouble === 'lost' ? 'away' : 'wrong')
})

it('of a redirect, only the origin of its target is shown', () => {
  const redirect = (location?: string) =>
    describeRedirect({ status: 302, headers: location === undefined ? {} : { location } }, 'API_BASE_URL')
  expect(redirect('https://other.example/path?key=secret')).toBe(
    'redirects (302) to https://other.example. Redirects are not followed, so that no other server receives the key. Set API_BASE_URL to the final address',
  )
  expect(redirect('//other.example/path?key=secret')).toContain('redirects (302) to //other.example.')
  for (const path of ['/path?key=secret', 'path', '?key=secret']) {
    expect(redirect(path)).toContain('redirects (302) to another path. Redirects are not followed')
  }
  for (const location of ['javascript:alert("secret")', 'mailto:a@b.example', 'http://[']) {
    expect(redirect(location)).toBe('redirects (302) to an address that is not HTTP. Check API_BASE_URL')
  }
  for (const location of [undefined, '']) {
    expect(redirect(location)).toBe('redirects (302) without a target. Check API_BASE_URL')
  }
})

it('304 is no redirect', () => {
  expect([200, 299, 300, 304, 308, 399, 400].filter(isRedirect)).toEqual([300, 308, 399])
  const reply = { status: 304, headers: {}, body: Buffer.alloc(0), isCut: false }
  expect(refusedAnswer(reply).message).toBe('the API answered 304')
})

it('a key that a header cannot hold is refused, and not shown', () => {
  for (const key of ['', 'two words', 'key\n', 'chave-ção', '\u0000']) {
    expect(() => checkKey(key, 'API_KEY')).toThrow(/^API_KEY contains white space or other characters/)
    if (key) expect(() => checkKey(key, 'API_KEY')).not.toThrow(key)
  }
  checkKey('edk_a+b/c=d&e', 'API_KEY')
})

it.each(['8.8.8.8', '200.160.2.3', '2001:4860:4860::8888', '2804:14c::1', '::ffff:8.8.8.8'])(
  '%s is on the internet',
  address => {
    expect(isPublicAddress(address)).toBe(true)
  },
)

it.each([
  ...[
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
  ],
  // Serves settings to virtual machines in Azure.
  ...['168.63.129.16', '::ffff:168.63.129.16'],
  ...['::', '::1', '::ffff:127.0.0.1', '::7f00:1', 'fc00::1', 'fe80::1', 'fec0::1', 'ff02::1', '2001:db8::1'],
  // IPv6 that carries an IPv4 address, and what is assigned to nobody.
  ...['64:ff9b::a00:1', '64:ff9b:1::a00:1', '2002:a00:1::', '2001::1', '1::', '10::1', '4000::1', '8000::1'],
  ...['100::1', 'not an address'],
])('%s is not', address => {
  expect(isPublicAddress(address)).toBe(false)
})

it('a name may be public until it is resolved', () => {
  expect(mayBePublic('erp.example.com')).toBe(true)
  expect(mayBePublic('[::1]')).toBe(false)
})

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
  expect(explainRedisRefusal(text)).toMatch(/^Redis rejected the command \([A-Z, ]+\): .+\.$/)
  expect(explainRedisRefusal(text)).toContain(`(${code})`)
})

it('what a retry may not meet again, or a wrong command, is no refusal', () => {
  for (const text of ['ERR syntax error', 'Connection is closed.', 'OOMPH', 'WRONGTYPE Operation']) {
    expect(isRedisRefusal(text), text).toBe(false)
    expect(explainRedisRefusal(text)).toBe(`Redis rejected the command: ${text}.`)
  }
})

it('a refusal that needs no code is one too', () => {
  expect(isRedisRefusal('ERR max number of clients reached')).toBe(true)
  expect(isRedisRefusal("ERR unknown command 'EVAL'")).toBe(true)
})
