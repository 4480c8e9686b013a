import { mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runInProcess } from '#jobs/process.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { renderLatestReport, writeReport } from '#src/extras/report/page.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { configured } from '#test/support/alerting.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { rowsOf, textOf, tilesOf } from '#test/support/report_page.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'

type Fields = Readonly<Record<string, unknown>>

const DAY_MS = 86_400_000
/** The limit for a company of 20,000 notices; lists are limited, so the size hardly depends on their number. */
const MAX_BYTES = 2_000_000

function findLake({ environment }: SyncedCompany): string {
  return companyPaths(environment.DATA_DIR ?? '', 'acme').lake
}

async function render(company: SyncedCompany, now = new Date()): Promise<string> {
  return await renderLatestReport(findLake(company), { now, pagesUrl: null })
}

/** A notice with its session this many days ahead, at nine in Brasília. */
function ahead(number: number, distance: number, fields: Fields = {}, analysis: Fields = {}): Entry {
  return noticeEntry(number, { data_sessao: `${dayIn(distance)}T09:00:00`, ...fields }, analysis)
}

describe('the report of a company', () => {
  // figures.slow.test.ts compares its contents with the documents.
  it('is the same for the same snapshot and time, and complete when rendered in another process', async () => {
    const world = generateWorld({ seed: 5, company: 'acme', notices: 200, start: new Date() })
    const company = await startCompany(world)
    await company.syncHere()
    const now = new Date()
    expect(await render(company, now)).toBe(await render(company, now))

    // It is also larger than a pipe's buffer.
    const signal = new AbortController().signal
    // As the worker does: its processes use its compile cache.
    enableCompileCache()
    const reported = await runInProcess({
      company: configured(company.environment),
      order: { kind: 'report' },
      signal,
    })
    const html = reported.kind === 'report' ? reported.html : JSON.stringify(reported)
    expect(html).toMatch(/^<!doctype html>.*<\/html>\s*$/is)
    expect(html.length).toBeGreaterThan(150_000)
  })

  it('shows text from notices as plain text, whatever it contains', async () => {
    const evil =
      '<script>alert(1)</script>"\'--><img src=x onerror=alert(2)>\u0000\u202e{a|b} =1+1 class="x" font-family:x'
    const hostile = {
      orgao: evil,
      objeto: evil,
      numero: evil,
      uf: evil,
      modalidade: evil,
      discard_reason: evil,
    }
    const analysis = {
      requirements: [1, 2].map(() => ({ category: 'outros', title: evil, status: 'red' })),
      alerts: [{ type: 'risk', severity: 'high', title: evil, description: evil, action_type: 'impugnacao' }],
      verdict: { recommendation: 'cautela', reason: evil },
    }
    const company = await startCompany([
      ahead(1, 20, { ...hostile, pncp_url: 'javascript:alert(3)' }, analysis),
      ahead(2, 20, { ...hostile, pncp_url: 'https://pncp.gov.br/a"onclick="alert(4)' }, analysis),
      ahead(3, 20, {
        orgao: 'Á'.repeat(5000),
        objeto: `fim ${'palavra '.repeat(600)}`,
        pncp_url: 'data:text/html,x',
      }),
    ])
    await company.syncHere()
    const page = await render(company)

    // All markup is ours: no script, no external resource, no event handler, no other link.
    const tags = new Set([...page.matchAll(/<([a-z0-9]+)/gi)].map(([, name]) => name))
    expect(
      [...tags].filter(name => /script|img|link|iframe|object|embed|form|base|image|use/.test(name ?? '')),
    ).toEqual([])
    const bare = page.replaceAll(/="[^"]*"/g, '=""')
    expect(bare.match(/<[^>]*\s(on\w+|src|srcset|xlink:href)\s*=/gi)).toBeNull()
    expect(page).not.toMatch(/url\(|@import/)
    const links = new Set([...page.matchAll(/href="([^"]*)"/g)].map(([, href]) => href))
    expect([...links].filter(href => !href?.startsWith('#'))).toEqual([
      'https://pncp.gov.br/a%22onclick=%22alert(4)',
    ])
    // The text itself is still there, in tables and charts; invisible characters are removed.
    expect(textOf(page)).toContain('<script>alert(1)</script>"\'-->')
    expect(page.match(/<svg.*?<\/svg>/gs)?.join('')).toContain('&lt;script&gt;alert(1)')
    expect(page).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
    expect(page).not.toContain('Á'.repeat(100))
    expect(page).not.toContain('palavra '.repeat(40))
    // Each drawing is complete.
    for (const [svg] of page.matchAll(/<svg.*?<\/svg>/gs)) {
      expect(svg.match(/<text /g)?.length ?? 0).toBe(svg.match(/<\/text>/g)?.length ?? 0)
      expect(svg).not.toMatch(/ecmeta|zr\d|<style/)
    }
  })

  it('shows a note if there are no notices, analyses or values', async () => {
    const company = await startCompany([])
    await company.syncHere()
    const empty = await render(company)
    expect(empty).not.toContain('<svg')
    expect(empty).not.toContain('<table')
    expect(textOf(empty)).toContain('Nenhum edital é acompanhado neste momento.')
    expect(textOf(empty)).toContain('Nada a decidir')
    expect(textOf(empty)).toContain('Nada mudou nos últimos 7 dias.')
    expect(textOf(empty)).toContain('Nenhum edital novo nas últimas 12 semanas.')
    expect(tilesOf(empty)).toMatchObject({ 'Editais em andamento': '0', 'Valor em disputa': 'R$ 0' })

    const bare = { orgao: undefined, objeto: undefined, valor_estimado: undefined, status: 'screening' }
    const nothing = { verdict: {}, requirements: [], items: [], alerts: [], pricing: null }
    company.world.put(noticeEntry(1, bare, nothing))
    company.world.put(ahead(2, 3, { ...bare, valor_estimado: 0 }, nothing))
    await company.syncHere()
    const page = await render(company)
    expect(page).not.toMatch(/undefined|null|NaN|Infinity/)
    expect(rowsOf(page, 'Próximas sessões')[1]).toContain('Órgão não informado')
    expect(textOf(page)).toContain('nenhum informa o valor')
    expect(textOf(page)).toContain('Nenhum requisito analisado nos editais com sessão por vir.')
  })

  it('limits its lists, and shows how many more there are and what is missing', async () => {
    const notices = Array.from({ length: 60 }, (_, index) =>
      ahead(
        index + 1,
        10,
        { pncp_id: `${String(index).padStart(14, '0')}-2026-1`, orgao: `ÓRGÃO ${index}` },
        {
          alerts: [{ type: 'risk', severity: 'critical', title: 'Prazo', action_type: 'impugnacao' }],
        },
      ),
    )
    const company = await startCompany(notices)
    company.faults.respond = ({ kind, id }) =>
      kind === 'analysis' && id === idOf(7) ? { status: 200, body: 'no JSON' } : undefined
    await company.syncHere()
    const page = await render(company)
    expect(rowsOf(page, 'Próximas sessões: as primeiras 15')).toHaveLength(16)
    expect(textOf(page)).toContain('… e mais 45 sessões até')
    expect(rowsOf(page, 'Prazos de impugnação e esclarecimento em aberto: os primeiros 10')).toHaveLength(11)
    expect(textOf(page)).toContain('… e mais 49 alertas com prazo em aberto')
    expect(rowsOf(page, 'Órgãos por valor em disputa: os 10 maiores')).toHaveLength(11)
    expect(textOf(page)).toContain('… e mais 50 órgãos')
    expect(rowsOf(page, 'Em quarentena, por motivo')[1]).toMatch(/^análise the body is not JSON 1 /)
    expect(Buffer.byteLength(page)).toBeLessThan(MAX_BYTES)

    // Sessions pass and figures age without a new snapshot.
    const later = textOf(await render(company, new Date(Date.now() + 40 * DAY_MS)))
    expect(later).toContain('A última leitura completa foi há 40 dias')
    expect(later).toContain('Nenhuma sessão de edital em andamento até')
  })

  it('of a snapshot that an earlier version wrote has the marts of this one', async () => {
    const company = await startCompany([ahead(1, 3)])
    await company.syncHere()
    const now = new Date()
    const before = await render(company, now)
    const latest = await realpath(join(findLake(company), 'latest'))
    const catalog = await Database.open(join(latest, 'catalog.duckdb'))
    await catalog.run('DROP VIEW mudancas_parecer')
    catalog.close()
    await expect(render(company, now)).rejects.toThrow(/mudancas_parecer/)
    const manifest = join(latest, 'manifest.json')
    const text = await readFile(manifest, 'utf8')
    // That version did not know these tables.
    const { tables, ...about } = JSON.parse(text)
    for (const table of ['requirement_versions', 'alert_versions']) delete tables[table]
    await writeFile(manifest, JSON.stringify({ ...about, tables, catalog_hash: 'of another version' }))
    expect(await render(company, now)).toBe(before)
  })

  it('is written by a command, beside the lake or to a given path, completely or not at all', async () => {
    const company = await startCompany([ahead(1, 3)])
    const { environment } = company
    await expect(render(company)).rejects.toThrow(/There is no snapshot.*editais sync/)
    await company.syncHere()
    const path = join(environment.DATA_DIR ?? '', 'acme/report.html')
    const ended = await runShared(['report'], environment)
    expect(ended).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(path) })
    expect(await readFile(path, 'utf8')).toMatch(/^<!doctype html>\n<html lang="pt-BR">.*<\/html>\n$/s)

    const directory = await temporaryDirectory()
    await mkdir(join(directory, 'taken'))
    const taken = writeReport(findLake(company), join(directory, 'taken'), {
      now: new Date(),
      pagesUrl: null,
    })
    await expect(taken).rejects.toThrow(/cannot be written.*--output/)
    expect(await readdir(directory)).toEqual(['taken'])
  })
})
