import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { launchBrowser, obtainChromium, openPage } from '#test/support/browser.ts'
import { type ClientPackage, projectWithClient } from '#test/support/client_package.ts'
import { startCuttingProxy } from '#test/support/cutting_proxy.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const EXPORT = '/api/v1/mirror/export.ndjson?what=both'
const PAGE = `<title>ERP</title><script type="module">
import * as editais from '/index.js'
window.editais = editais
</script>`
const chromium = await obtainChromium()

/** A site with a page, and the files of the package. */
async function serveSite(): Promise<string> {
  const dist = join(await projectWithClient(), 'node_modules/@editais-sync/client/dist')
  const site = createServer(async ({ url = '' }, response) => {
    if (!url.endsWith('.js')) return response.setHeader('content-type', 'text/html').end(PAGE)
    const bytes = await readFile(join(dist, url)).catch(() => null)
    response.writeHead(bytes ? 200 : 404, { 'content-type': 'text/javascript' }).end(bytes)
  }).listen(0, '127.0.0.1')
  await once(site, 'listening')
  onTestFinished(() => void site.close().closeAllConnections())
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}`
}

declare const editais: ClientPackage

/** Runs in the page. */
async function useClient({ url, apiKey }: { url: string; apiKey: string }) {
  const { createClient } = editais
  const client = createClient({ url, apiKey })
  const lines: unknown[] = []
  for await (const line of client.exportNotices({ what: 'both' })) lines.push(line)
  const before = await client.getIfChanged('/api/v1/editais', null)
  const again = await client.getIfChanged('/api/v1/editais', before?.etag ?? null)
  const wrong = await createClient({ url, apiKey: 'edk_wrong' })
    .get('/api/v1/mirror')
    .catch(error => error.message as string)
  return { lines, again, wrong }
}

describe.skipIf(chromium === null)('in a browser (skipped if the user refuses to install one)', () => {
  let browser: Browser

  beforeAll(async () => {
    browser = await launchBrowser(chromium ?? '')
    return () => browser.close()
  })

  test('a page of another origin that SERVE_CORS_ORIGINS names exports, resumes and revalidates', async () => {
    const world = generateWorld({ seed: '3', company: 'aurora', notices: 100, start: new Date('2026-11-20') })
    const site = await serveSite()
    const api = await serveApi((await startSynced(world)).environment, { corsOrigins: [site] })
    const proxy = await startCuttingProxy(api.url)
    const page = await openPage(browser, site)
    const apiKey = api.keys.acme as string
    proxy.cutAfter(50_000, 200_000)
    const { lines, again, wrong } = await page.evaluate(useClient, { url: proxy.url, apiKey })
    const expected = (await api.ask(EXPORT)).body.toString().trimEnd().split('\n')
    expect(lines).toEqual(expected.map(line => JSON.parse(line)))
    expect(proxy.left()).toBe(0)
    expect(again).toBeNull()
    expect(wrong).toContain('401 unauthorized')
  })
})
