import { ANALYSIS, type ANALYSIS_LEVELS, REPEATED_FIELDS } from '#schema/analysis.ts'
import { chooseSegment, generateItems } from './generate_tender.ts'
import { withPlainFields } from './plain_fields.ts'
import { createRandom, type Random } from './random.ts'
import { ALERT_TEMPLATES, BULLETS, DEMANDS, NOTES, REASONS } from './vocabulary/evaluation.ts'
import type { MarketSegment } from './vocabulary/segments.ts'
import type { AnalysisDocument, Edital } from './world.ts'

export type Level = (typeof ANALYSIS_LEVELS)[number]

const DEPTH: Readonly<Record<Level, number>> = { none: 0, simple: 1, medium: 2, deep: 3 }

/** Returns true if an evaluation at the first level includes the results of the second. */
export function reaches(level: Level, needed: Level): boolean {
  return DEPTH[level] >= DEPTH[needed]
}

/** Returns the next deeper level, or null for the deepest. */
export function deepenLevel(level: Level): Level | null {
  return ({ none: 'simple', simple: 'medium', medium: 'deep', deep: null } as const)[level]
}

/**
 * Describes how an analysis violates the rules of its level (docs/contract.md#phases-and-levels); empty if it does not.
 * `analyzed` is false if the level is `none`, and true for every other level; no verdict or overview before `simple`;
 * no pricing, requirements or items before `medium`.
 */
export function findLevelViolations(analysis: Readonly<Record<string, unknown>>): string[] {
  const level = analysis.analysis_level as Level
  if (!(level in DEPTH)) return [`unknown level ${String(analysis.analysis_level)}`]
  const violations: string[] = []
  if (analysis.analyzed !== (level !== 'none')) violations.push(`analyzed is ${String(analysis.analyzed)}`)
  if (!reaches(level, 'simple')) {
    if (analysis.overview !== undefined) violations.push('overview before simple')
    if (Object.keys((analysis.verdict ?? {}) as object).length > 0) violations.push('verdict before simple')
  }
  if (!reaches(level, 'medium')) {
    if ((analysis.pricing ?? null) !== null) violations.push('pricing before medium')
    for (const section of ['requirements', 'items'] as const) {
      if ((analysis[section] as unknown[]).length > 0) violations.push(`${section} before medium`)
    }
  }
  return violations
}

type Recommendation = keyof typeof REASONS
type Colour = keyof typeof NOTES

/**
 * Returns the analysis of a notice at a level, valid by the level rules (docs/contract.md#phases-and-levels). It depends only on
 * the notice's `id`, public facts and level: a deeper level keeps the values of a shallower one.
 * @param tenderItems the notice's items if they are already known; else they are generated.
 */
export function generateAnalysis(
  edital: Edital,
  level: Level,
  tenderItems?: readonly object[],
): AnalysisDocument {
  const { id, pncp_id, objeto } = edital
  const recommendation = chooseRecommendation(id)
  const segment = chooseSegment(objeto)
  const generated = defined({
    ...Object.fromEntries(REPEATED_FIELDS.map(name => [name, edital[name]])),
    analysis_level: level,
    analyzed: level !== 'none',
    verdict: reaches(level, 'simple') ? generateVerdict(edital, segment, recommendation, level) : {},
    ...(reaches(level, 'simple') && { overview: generateOverview(edital, segment) }),
    ...(reaches(level, 'medium')
      ? projectedSections(edital, tenderItems ?? generateItems(pncp_id, segment), recommendation, level)
      : {
          requirements: [],
          items: [],
          alerts: [],
          ...(createRandom(`${id} null`).chance(0.5) && { pricing: null }),
        }),
    ...(reaches(level, 'deep') && deepSections(edital, segment)),
  })
  return withPlainFields(ANALYSIS, generated, `${id} plain`)
}

/** Returns the recommendation for this notice, the same at every level. */
export function chooseRecommendation(id: string): Recommendation {
  return createRandom(`${id} recommendation`).weighted([
    ['participar', 40],
    ['cautela', 35],
    ['nao_recomendado', 25],
  ] as const)
}

function projectedSections(
  edital: Edital,
  items: readonly object[],
  recommendation: Recommendation,
  level: Level,
) {
  const deep = reaches(level, 'deep')
  return {
    requirements: generateRequirements(edital, recommendation, deep),
    items: deep ? selectItems(edital, items) : items,
    alerts: generateAlerts(edital, recommendation),
    pricing: generatePricing(edital, recommendation),
  }
}

function generateVerdict(
  edital: Edital,
  segment: MarketSegment,
  recommendation: Recommendation,
  level: Level,
) {
  const random = createRandom(`${edital.id} verdict`)
  const reason = random.pick(REASONS[recommendation])
  const lead = {
    participar: 'Recomenda-se participar',
    cautela: 'Participar com cautela',
    nao_recomendado: 'Não se recomenda participar',
  }[recommendation]
  const bullets = random.sample(BULLETS, random.int(4, 6))
  return {
    recommendation,
    reason,
    summary: `${lead}: certame de ${segment.name} promovido por ${String(edital.orgao ?? 'órgão não informado')}. ${reason}`,
    bullets: reaches(level, 'medium') ? bullets : bullets.slice(0, 3),
  }
}

function generateOverview(edital: Edital, segment: MarketSegment) {
  const random = createRandom(`${edital.id} overview`)
  const value = edital.valor_estimado
  return defined({
    orgao_licitante: edital.orgao,
    lei_aplicavel: random.weighted([
      ['Lei 14.133/2021', 80],
      ['Lei 14.133/2021, art. 28, I', 15],
      ['Lei 13.303/2016', 5],
    ]),
    valor_estimado:
      value === 0
        ? 'Sigiloso'
        : random.chance(0.5)
          ? value
          : typeof value === 'number'
            ? brl(value)
            : undefined,
    is_srp: /registro de preços/iu.test(String(edital.objeto)),
    ...(random.chance(0.9) && { exclusivo_me_epp: random.chance(0.3) }),
    prazo_impugnacao: '3 dias úteis antes da sessão',
    locais_entrega: random.pick([
      [choosePlace(edital)],
      choosePlace(edital),
      [choosePlace(edital), 'Almoxarifado central'],
    ]),
    restricoes_participacao: random.pick([[], ['Vedada a participação em consórcio'], 'Não há']),
    atestado_capacidade_exigido: random.pick([true, false, 'Mínimo de 50 % das quantidades']),
    visita_tecnica_obrigatoria: random.pick([false, false, true, 'Facultativa']),
    modo_disputa: random.pick(['Aberto', 'Aberto e fechado', 'Fechado e aberto']),
    segmento: segment.name,
  })
}

function generateRequirements(edital: Edital, recommendation: Recommendation, deep: boolean) {
  const segment = chooseSegment(edital.objeto)
  const random = createRandom(`${edital.id} requirements`)
  const colours = {
    participar: [
      ['green', 80],
      ['yellow', 17],
      ['red', 3],
    ],
    cautela: [
      ['green', 58],
      ['yellow', 32],
      ['red', 10],
    ],
    nao_recomendado: [
      ['green', 45],
      ['yellow', 25],
      ['red', 30],
    ],
  } as const
  return random
    .sample(DEMANDS, random.int(6, DEMANDS.length))
    .map(({ category, title, required, current }) => {
      const status: Colour = random.weighted<Colour>(colours[recommendation])
      const note = random.pick(NOTES[status])
      const metadata = random.chance(0.3) ? generateMetadata(random, category, segment) : null
      const evaluated = deep
        ? { current: current[status], ai_notes: note, ...(metadata && { metadata }) }
        : {}
      return { category, title, required, status, ...evaluated }
    })
}

function generateMetadata(random: Random, category: string, segment: MarketSegment): object {
  if (category === 'programa_integridade') return { gatilho: 'grande_vulto', prazo_meses: 6 }
  if (category === 'regularidade_trabalhista' && segment.materialOrService === 'S') {
    return {
      cct: `SP${String(random.int(1, 9_999)).padStart(6, '0')}/2026`,
      piso_salarial: random.int(160_000, 420_000) / 100,
      adicionais: random.sample(['insalubridade', 'periculosidade', 'adicional noturno'], random.int(0, 2)),
    }
  }
  return {
    entrega: { prazo_dias: random.int(5, 45), locais: ['almoxarifado central'] },
    pagina: random.int(2, 60),
  }
}

function selectItems(edital: Edital, items: readonly object[]) {
  const random = createRandom(`${edital.id} selection`)
  return items.map(item => {
    const selected = random.chance(0.6)
    return {
      ...item,
      ai_selected: selected,
      ai_reasoning: selected
        ? 'Item compatível com o catálogo e com margem dentro da meta.'
        : 'Item fora do catálogo ou com preço de referência abaixo do custo.',
      ai_confidence: random.int(55, 99) / 100,
    }
  })
}

function generateAlerts(edital: Edital, recommendation: Recommendation) {
  const random = createRandom(`${edital.id} alerts`)
  const most = { participar: 3, cautela: 5, nao_recomendado: 6 }[recommendation]
  return random.sample(ALERT_TEMPLATES, random.int(0, most)).map(template => ({
    type: template.type,
    severity: random.pick(template.severities),
    title: template.title,
    description: template.description,
    action_type: template.action,
    legal_thesis: template.thesis,
  }))
}

function generatePricing(edital: Edital, recommendation: Recommendation) {
  const random = createRandom(`${edital.id} pricing`)
  const value = typeof edital.valor_estimado === 'number' ? edital.valor_estimado : 0
  const least = { participar: 0.12, cautela: 0.06, nao_recomendado: 0.01 }[recommendation]
  const share = (rate: number) => Math.round(value * rate * 100) / 100
  const lowest = Math.round((least + random.next() * 0.04) * 1000) / 1000
  return {
    investimento_total: share(0.55 + random.next() * 0.3),
    garantia_proposta: random.chance(0.2) ? share(0.01) : 0,
    garantia_contratual: random.chance(0.6) ? share(0.05) : 0,
    margem_min: lowest,
    margem_max: Math.round((lowest + 0.03 + random.next() * 0.12) * 1000) / 1000,
    risco_pagamento: random.weighted([
      ['baixo', 40],
      ['medio', 25],
      ['alto', 12],
      ['critico', 4],
      ['desconhecido', 12],
      ['', 7],
    ]),
    is_srp: /registro de preços/iu.test(String(edital.objeto)),
    sigiloso: value === 0,
  }
}

function deepSections(edital: Edital, segment: MarketSegment) {
  const random = createRandom(`${edital.id} deep`)
  const risk = random.pick(['baixo', 'medio', 'alto', 'desconhecido'])
  return {
    orgao_report: random.chance(0.85)
      ? { payment_risk: risk, status: risk === 'desconhecido' ? 'sem_dados' : 'concluido' }
      : null,
    operational: random.chance(0.9)
      ? {
          prazo_entrega_dias: random.int(5, 60),
          parcelamento:
            segment.materialOrService === 'M'
              ? 'sob demanda, por ordem de fornecimento'
              : 'mensal, por medição',
          locais: [{ nome: choosePlace(edital), distancia_km: random.int(4, 900) }],
          recebimento: 'Provisório em 5 dias; definitivo em até 15 dias úteis.',
        }
      : null,
  }
}

function choosePlace(edital: Edital): string {
  return `${String(edital.orgao ?? 'Órgão')} (${String(edital.uf ?? 'BR')})`
}

const BRL = new Intl.NumberFormat('pt-BR', { style: 'currency', currency: 'BRL' })

function brl(value: number): string {
  return BRL.format(value)
}

/** Drops undefined properties: an absent field is absent, not null. */
function defined(document: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== undefined))
}
