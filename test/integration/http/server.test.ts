import { createServer } from 'node:net'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { startHttp } from '#src/lib/http/server.ts'
import { errorOf, leaveSnapshot, STATUS, SYNC, serveWorker } from '#test/support/http.ts'

test('GET / lists the paths for everybody', async () => {
  const { url } = await serveWorker()
  const response = await fetch(url)
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({
    'GET /healthz': expect.any(String),
    operators: expect.any(String),
  })
})

test('an unknown path gets 404, and a wrong method 405 with the allowed ones', async () => {
  const { url, ask, post } = await serveWorker()
  const nowhere = await fetch(`${url}/nowhere`)
  expect(nowhere.status).toBe(404)
  expect(await errorOf(nowhere)).toEqual({
    error: 'not_found',
    detail: 'There is nothing at /nowhere. GET / lists what is available.',
  })
  const wrong = await post('/metrics')
  expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  expect((await errorOf(wrong)).detail).toBe('/metrics does not support POST. Use GET, HEAD.')
  const got = await ask(SYNC)
  expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST'])
  expect((await ask('/companies/acme')).status).toBe(404)
})

test('a slash at the end of a path makes no difference', async () => {
  const { ask } = await serveWorker()
  for (const path of ['/healthz/', '/queues', '/queues/', `${STATUS}/`]) {
    expect([path, (await ask(path)).status]).not.toEqual([path, 404])
  }
})

test('a bug is logged, and answered without a stack', async () => {
  const { ask, company, logged } = await serveWorker({
    status: () => Promise.reject(new TypeError('fruit is undefined')),
  })
  await leaveSnapshot(company('acme'))
  const response = await ask(STATUS)
  expect(response.status).toBe(500)
  expect(await errorOf(response)).toEqual({
    error: 'internal_error',
    detail: 'Something went wrong. See the log.',
  })
  expect(logged.join('')).toContain('fruit is undefined')
  expect(logged.join('')).not.toContain('.ts:')
})

test('no page can be framed, and its scripts come only from the server itself', async () => {
  const { ask } = await serveWorker()
  for (const path of ['/', '/queues', '/queues/static/favicon.ico', '/nowhere', '/metrics']) {
    const { headers } = await ask(path)
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'self';.*frame-ancestors 'none'/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('strict-transport-security')).toBeNull()
    expect(headers.get('access-control-allow-origin')).toBeNull()
  }
})

test('a port in use is reported in one sentence', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void taken.close())
  await new Promise(resolve => taken.once('listening', resolve))
  const { port } = taken.address() as { port: number }
  const failure = await startHttp(new Hono(), { host: '127.0.0.1', port }).catch(error => error)
  expect(failure).toBeInstanceOf(FatalError)
  expect(failure).toMatchObject({
    exitCode: EXIT.usage,
    message: `Port ${port} on 127.0.0.1 is already in use, perhaps by another worker. Set HTTP_PORT to a free port.`,
  })
  const elsewhere = await startHttp(new Hono(), { host: '192.0.2.1', port: 0 }).catch(error => error)
  expect(elsewhere).toMatchObject({ exitCode: EXIT.usage, message: expect.stringContaining('HTTP_HOST') })
})

test('closing does not wait for a request that never ends', async () => {
  const underWay = Promise.withResolvers<void>()
  const hanging = new Hono().get('/', () => {
    underWay.resolve()
    return new Promise<Response>(() => {})
  })
  const { url, close } = await startHttp(hanging, { host: '127.0.0.1', port: 0 })
  const asked = fetch(url).catch(error => error)
  await underWay.promise
  await close()
  expect(await asked).toBeInstanceOf(Error)
  await expect(fetch(url)).rejects.toThrow()
})
