import type { Entry } from '#src/sandbox/world.ts'

type Fields = Readonly<Record<string, unknown>>

/** Id of the notice with this number; ids sort like numbers. */
export function idOf(number: number): string {
  return `n${String(number).padStart(5, '0')}`
}

/** Notices with these numbers, in that order. */
export function notices(from: number, to: number, fields: Fields = {}): Entry[] {
  return Array.from({ length: to - from + 1 }, (_, index) => noticeEntry(from + index, fields))
}

/**
 * A notice with a medium analysis of 2 requirements, 3 items and 1 alert, in October or November 2026. All
 * its values depend on its number; the list has higher numbers first.
 */
export function noticeEntry(number: number, fields: Fields = {}, analysis: Fields = {}): Entry {
  const id = idOf(number)
  const at = new Date(Date.UTC(2026, 9 + (number % 2), 1, 0, number)).toISOString()
  const shared = {
    id,
    pncp_id: `42498733000148-2026-${number}`,
    orgao: 'MUNICIPIO DE RIO DE JANEIRO',
    objeto: `Objeto ${number}`,
    valor_estimado: number * 1.25,
    status: 'analysis',
  }
  const edital = { ...shared, participation_confirmed: false, created_at: at, updated_at: at, ...fields }
  return {
    edital,
    analysis: {
      ...Object.fromEntries(Object.keys(shared).map(name => [name, edital[name as keyof typeof edital]])),
      analysis_level: 'medium',
      analyzed: true,
      verdict: { recommendation: 'participar', reason: `Razão ${number}`, bullets: ['um', 'dois'] },
      overview: { lei_aplicavel: 'Lei 14.133/2021', is_srp: number % 2 === 0 },
      requirements: [1, 2].map(n => ({ category: 'outros', title: `Requisito ${n}`, status: 'green' })),
      items: [1, 2, 3].map(n => ({
        numero_item: n,
        descricao: `Item ${n} de ${number}`,
        quantidade: n * number,
        valor_unitario_estimado: 0.5,
        valor_total: n * number * 0.5,
      })),
      alerts: [{ type: 'risk', severity: 'high', title: `Alerta ${number}`, action_type: 'none' }],
      pricing: { investimento_total: number * 10, risco_pagamento: 'baixo' },
      ...analysis,
    },
  }
}

/** A notice with an empty analysis, for tests of the list. */
export function bareNotice(number: number, fields: Fields = {}): Entry {
  return noticeEntry(number, fields, {
    analysis_level: 'none',
    analyzed: false,
    verdict: {},
    overview: undefined,
    pricing: null,
    requirements: [],
    items: [],
    alerts: [],
  })
}
