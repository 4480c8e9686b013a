import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AxeResults, RunOptions } from 'axe-core'
import type { Browser } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { requestRun } from '#jobs/queues/queue.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { renderLatestReport } from '#src/extras/report/page.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { launchBrowser, obtainChromium, openPage, PLAIN_NAME } from '#test/support/browser.ts'
import { leaveSnapshot, serveWorker, TOKEN } from '#test/support/http.ts'
import { IS_NIGHT } from '#test/support/night.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { KEY, startCompany, startSynced } from '#test/support/synced.ts'

const WIDTHS = [320, 390, 768, 1280]
const SCHEMES = ['light', 'dark'] as const
/** By day, axe sees each page twice: at the least width in light, at the largest in dark. */
const SEEN = { light: 320, dark: 1280 }
/** A4 less the margins of the report, in CSS pixels. */
const PAGE_WIDTH = Math.floor(((210 - 2 * 13) / 25.4) * 96)
const PHONE = { width: 390, height: 844 }
/** Some ten screens, and some seven. */
const MAX_PHONE_HEIGHT = { report: 9000, notice: 6000 }
const MAX_PRINTED_PAGES = 6
const AXE = await readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

declare const axe: { run(options: RunOptions): Promise<AxeResults> }

const chromium = await obtainChromium()

describe.skipIf(chromium === null)('in a browser (skipped if the user refuses to install one)', () => {
  let browser: Browser

  beforeAll(async () => {
    browser = await launchBrowser(chromium ?? '')
    return () => browser.close()
  })

  /** The rules that a page breaks, with everything unfolded; at each width in light and dark, what is wider than that. */
  async function findings(
    url: string,
    { ready = 'body', ...who }: { ready?: string; token?: string; cookie?: string } = {},
  ): Promise<string[]> {
    const found: string[] = []
    // A page each, since colours may change gradually.
    for (const colorScheme of SCHEMES) {
      const page = await openPage(browser, url, { colorScheme, ...who })
      await page.waitForSelector(ready)
      await page.evaluate(AXE)
      await page.evaluate('for (const details of document.querySelectorAll("details")) details.open = true')
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 })
        if (IS_NIGHT || SEEN[colorScheme] === width) {
          const { violations, passes } = await page.evaluate(
            async () => await axe.run({ resultTypes: ['violations'] }),
          )
          expect(passes.length).toBeGreaterThan(5)
          found.push(...violations.map(({ id, nodes }) => `${width} ${colorScheme}: ${id} ${nodes[0]?.html}`))
        }
        const wider = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
        if (wider > 0) found.push(`${width}: ${wider} px wider than the window`)
      }
      await page.close()
    }
    return found
  }

  it('the report meets axe’s rules, is short on a phone, fits the width of a printed page, and has six of them at most', async () => {
    const company = await startCompany(
      generateWorld({ seed: 5, company: 'acme', notices: 1000, start: new Date() }),
    )
    await company.syncHere()
    const path = join(await temporaryDirectory(), 'report.html')
    const lake = companyPaths(company.environment.DATA_DIR ?? '', 'acme').lake
    await writeFile(path, await renderLatestReport(lake, { now: new Date(), pagesUrl: null }))
    const url = pathToFileURL(path).href
    expect(await findings(url)).toEqual([])

    expect(await readFile(path, 'utf8')).toContain('Próximas sessões: as primeiras')
    const page = await openPage(browser, url)
    const heightOf = () => page.evaluate<number>('document.documentElement.scrollHeight')
    const rowsShown = () =>
      page.evaluate<number>(
        'document.querySelectorAll("tbody tr").values().filter(row => row.checkVisibility()).toArray().length',
      )
    const all = await rowsShown()
    // Charts fill their card, with text of a readable size.
    for (const width of [1024, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      const scales = await page.evaluate<number[]>(
        '[...document.querySelectorAll(".chart svg")].filter(svg => svg.checkVisibility()).map(svg => svg.clientWidth < svg.closest(".chart").clientWidth ? 0 : svg.clientWidth / svg.viewBox.baseVal.width)',
      )
      expect(scales.length).toBeGreaterThan(4)
      expect(scales.filter(scale => scale < 0.8 || scale > 1.4)).toEqual([])
    }
    await page.setViewportSize(PHONE)
    expect(await heightOf()).toBeLessThan(MAX_PHONE_HEIGHT.report)
    expect(await rowsShown()).toBeLessThan(all)
    for (const box of await page.locator('.all input:visible').all()) await box.check()
    expect(await rowsShown()).toBe(all)

    await page.setViewportSize({ width: PAGE_WIDTH, height: 800 })
    await page.emulateMedia({ media: 'print' })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(PAGE_WIDTH)
    const printed = (await page.pdf({ preferCSSPageSize: true })).toString('latin1')
    const pages = printed.match(/\/Type\s*\/Page\b/g)?.length ?? 0
    expect(pages).toBeGreaterThan(1)
    expect(pages).toBeLessThanOrEqual(MAX_PRINTED_PAGES)
    await page.close()
  })

  it('the pages of the daemon and of the API meet them, too', async () => {
    const worker = await serveWorker({ companies: ['acme', 'beta'] })
    await leaveSnapshot(worker.company('acme'))
    await requestRun(worker.queues, 'sync', 'acme')
    for (const path of ['/report', '/queues', '/queues/queue/runs'])
      expect(await findings(`${worker.url}${path}`, { token: TOKEN }), path).toEqual([])
    const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world: new World() }] })
    expect(await findings(`${sandbox.url}/docs`, { ready: '.opblock' })).toEqual([])
    await sandbox.close()
  })

  it('the pages for who has a key meet them, too', async () => {
    const company = await startSynced(
      generateWorld({ seed: 7, company: 'acme', notices: 120, start: new Date() }),
    )
    const { url, keys, json } = await serveApi(company.environment)
    const cookie = `editais_chave=${keys.acme}`
    const filter = 'status=pricing,ready&limit=12'
    const { editais } = await json<{ editais: { id: string }[] }>(`/api/v1/mirror/editais?${filter}`)
    expect(await findings(`${url}/editais`)).toEqual([])
    const notice = `/${editais[0]?.id}?q=a&fase=ready`
    for (const path of ['/hoje', '', '?fase=ready&q=zzz', '?de=2026-02-31', notice, '/none', '/a/b'])
      expect(await findings(`${url}/editais${path}`, { cookie }), path).toEqual([])

    const page = await openPage(browser, `${url}/editais/${editais[0]?.id}`, { cookie })
    await page.setViewportSize(PHONE)
    const heightOf = () => page.evaluate<number>('document.documentElement.scrollHeight')
    for (const { id } of editais) {
      await page.goto(`${url}/editais/${id}`)
      expect(await heightOf(), id).toBeLessThan(MAX_PHONE_HEIGHT.notice)
    }
    await page.setViewportSize({ width: PAGE_WIDTH, height: 800 })
    const folded = await heightOf()
    await page.emulateMedia({ media: 'print' })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(PAGE_WIDTH)
    // Folded parts are printed, too.
    expect(await heightOf()).toBeGreaterThan(folded)
    await page.close()
  })

  it('a person signs in, decides, searches, reads, takes a calendar along and signs out, at each width', async () => {
    const company = await startSynced(
      generateWorld({ seed: 7, company: 'acme', notices: 60, start: new Date() }),
    )
    const { url, keys } = await serveApi(company.environment)
    // Over plain HTTP, at a name that browsers do not trust.
    const address = `${url.replace('127.0.0.1', PLAIN_NAME)}/editais/hoje`
    for (const [index, width] of WIDTHS.entries()) {
      const colorScheme = SCHEMES[index % 2] as 'light' | 'dark'
      const page = await openPage(browser, address, { colorScheme })
      await page.setViewportSize({ width, height: 800 })
      const fits = async (what: string) => {
        const wider = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
        expect(wider, `${what} at ${width}, ${colorScheme}`).toBe(0)
      }
      await page.fill('#chave', keys.acme as string)
      await page.click('main button')
      await page.waitForSelector('h1:has-text("Hoje, ")')
      await fits('Hoje')
      await page.click('header nav >> text=Buscar')
      await page.waitForSelector('text=Todos (60)')
      await fits('the list')
      await page.fill('#q', 'aquisição')
      await page.press('#q', 'Enter')
      // The page that is left has a list, too.
      await page.waitForURL(/\?.*q=aquisi/)
      await page.waitForSelector('ol.notices h2 a')
      const calendar = await page.getAttribute('text=Baixar calendário', 'href')
      expect(
        await page.evaluate(`fetch(${JSON.stringify(calendar)}).then(answer => answer.text())`),
      ).toContain('BEGIN:VCALENDAR')
      await page.click('ol.notices h2 a')
      await page.waitForSelector('dt:has-text("Sessão")')
      await fits('a notice')
      await page.click('text=Voltar aos resultados')
      expect(await page.inputValue('#q')).toBe('aquisição')
      await page.click('header button')
      await page.waitForSelector('#chave')
      await page.close()
    }
  })
})
