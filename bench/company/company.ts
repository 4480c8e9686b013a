import { createRandom, type Random } from '#src/sandbox/random.ts'
import { createTexts, type Texts } from './text.ts'

/** The 24 months of `created_at`. */
const FIRST_MONTH = Date.UTC(2024, 10, 1)
const LAST_MOMENT = Date.UTC(2026, 9, 31, 23)
const DAY_MS = 86_400_000
/** Share of notices that were only screened: they have no child rows yet. */
const SHARE_SCREENED = 0.06
/** The largest known notice has 360 items. */
const MAX_ITEMS = 360

const STATUS = ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'] as const
const QUALIFICATION = ['habilitacao_juridica', 'qualificacao_tecnica', 'qualificacao_economica']
const REGULARITY = ['regularidade_fiscal', 'regularidade_trabalhista', 'declaracoes']
const CATEGORY = [...QUALIFICATION, ...REGULARITY, 'amostras', 'garantias', 'outros']
const UF = ['SP', 'MG', 'RJ', 'BA', 'PR', 'RS', 'PE', 'CE', 'SC', 'GO', 'PA', 'MA', 'DF', 'AM']
const UNIT = ['UN', 'CX', 'PCT', 'KG', 'L', 'M2', 'POSTO', 'MES', 'FR', 'SERVIÇO']
const CITIES =
  'Uberaba, São José dos Campos, Feira de Santana, Londrina, Caxias do Sul, Olinda, Sobral, Joinville, ' +
  'Anápolis, Santarém, Imperatriz, Taguatinga, Manaus, Niterói'
const CITY = CITIES.split(', ')

/** One notice of the generated company: the source of its list item and its analysis. */
type Subject = {
  readonly id: string
  readonly pncpId: string
  readonly status: (typeof STATUS)[number]
  readonly createdAt: Date
  readonly fields: string
}

/** An analysis as JSON text, and the number of its child rows. */
type Made = { readonly json: string; readonly children: number }

export type GeneratedCompany = {
  readonly subjects: readonly Subject[]
  /** The list item (docs/contract.md#notice) as JSON text. */
  notice(index: number, updatedAt: Date): string
  /** The analysis (docs/contract.md#analysis); each version has a different verdict and items. */
  analysis(index: number, version: number): Made
}

/**
 * A company of `count` notices, most recent first; the same count, seed and texts give the same company.
 * Generating texts takes time, so several companies can share them.
 */
export function createCompany(
  count: number,
  seed: string,
  texts: Texts = createTexts(createRandom(`${seed}:texts`)),
): GeneratedCompany {
  const random = createRandom(`${seed}:notices`)
  const moments = Array.from({ length: count }, () =>
    Math.floor(FIRST_MONTH + random.next() * (LAST_MOMENT - FIRST_MONTH)),
  ).sort((a, b) => b - a)
  const subjects = moments.map((moment, index) => subject(index, new Date(moment), random, texts))
  return {
    subjects,
    notice: (index, updatedAt) => noticeJson(subjects[index] as Subject, updatedAt),
    analysis: (index, version) =>
      analysisJson(subjects[index] as Subject, createRandom(`${seed}:${index}:${version}`), texts),
  }
}

function subject(index: number, createdAt: Date, random: Random, texts: Texts): Subject {
  const cnpj = String(random.int(10_000_000, 99_999_999)).padStart(8, '0')
  const year = createdAt.getUTCFullYear()
  const city = random.pick(CITY)
  const pncpId = `${cnpj}000190-${year}-${String(index + 1).padStart(6, '0')}`
  const session = new Date(createdAt.getTime() + random.int(8, 45) * DAY_MS)
  const fields = [
    `"pncp_id":"${pncpId}"`,
    `"orgao":"Prefeitura Municipal de ${city}"`,
    `"objeto":"${texts.ofLength(random.int(120, 420))}"`,
    `"numero":"${random.int(1, 400)}/${year}"`,
    `"modalidade":"Pregão - Eletrônico","uf":"${random.pick(UF)}"`,
    `"valor_estimado":${price(random, 12)},"data_sessao":"${session.toISOString()}"`,
    `"pncp_url":"https://pncp.gov.br/app/editais/${cnpj}000190/${year}/${index + 1}"`,
  ].join()
  return { id: `ed_${random.hex(20)}`, pncpId, status: random.pick(STATUS), createdAt, fields }
}

function noticeJson({ id, fields, status, createdAt }: Subject, updatedAt: Date): string {
  const discarded = status === 'discarded' ? ',"discard_reason":"Fora do perfil de atuação da empresa"' : ''
  return `{"id":"${id}",${fields},"status":"${status}","participation_confirmed":${status === 'ready'}${discarded},"created_at":"${createdAt.toISOString()}","updated_at":"${updatedAt.toISOString()}"}`
}

function analysisJson(about: Subject, random: Random, texts: Texts): Made {
  const head = `{"id":"${about.id}",${about.fields},"status":"${about.status}"`
  if (random.chance(SHARE_SCREENED)) {
    const json = `${head},"analysis_level":"simple","analyzed":true,"verdict":{},"overview":${overview(random, texts)},"requirements":[],"items":[],"alerts":[],"pricing":null}`
    return { json, children: 0 }
  }
  const rows = {
    requirements: random.int(9, 25),
    items: Math.min(MAX_ITEMS, Math.ceil(20 * Math.exp(0.85 * random.normal()))),
    alerts: random.int(3, 13),
  }
  const listOf = (length: number, element: (ordinal: number) => string) =>
    Array.from({ length }, (_, index) => element(index + 1)).join()
  const json = [
    head,
    `"analysis_level":"${random.chance(0.3) ? 'deep' : 'medium'}","analyzed":true`,
    `"verdict":${verdict(random, texts)},"overview":${overview(random, texts)}`,
    `"requirements":[${listOf(rows.requirements, () => requirement(random, texts))}]`,
    `"items":[${listOf(rows.items, ordinal => item(ordinal, random, texts))}]`,
    `"alerts":[${listOf(rows.alerts, () => alert(random, texts))}]`,
    `"pricing":${pricing(random)}`,
    `"orgao_report":{"payment_risk":"${random.pick(['baixo', 'medio', 'alto'])}","status":"concluido"}`,
    `"operational":{"prazo_entrega_dias":${random.int(5, 90)},"locais":["${texts.ofLength(60)}"],"parcelado":${random.chance(0.6)}}}`,
  ].join()
  return { json, children: rows.requirements + rows.items + rows.alerts }
}

function verdict(random: Random, texts: Texts): string {
  const recommendation = random.pick(['participar', 'cautela', 'nao_recomendado'])
  const bullets = Array.from({ length: random.int(3, 6) }, () => `"${texts.ofLength(110)}"`)
  return `{"recommendation":"${recommendation}","reason":"${texts.ofLength(140)}","summary":"${texts.ofLength(600)}","bullets":[${bullets.join()}]}`
}

function overview(random: Random, texts: Texts): string {
  return `{"orgao_licitante":"Município de ${random.pick(CITY)}","lei_aplicavel":"Lei 14.133/2021","valor_estimado":${price(random, 12)},"is_srp":${random.chance(0.5)},"exclusivo_me_epp":${random.chance(0.3)},"prazo_impugnacao":"3 dias úteis","locais_entrega":["${texts.ofLength(80)}"],"restricoes_participacao":"${texts.ofLength(120)}","atestado_capacidade_exigido":${random.chance(0.7)},"visita_tecnica_obrigatoria":${random.chance(0.1)}}`
}

function requirement(random: Random, texts: Texts): string {
  const detail = random.chance(0.25)
    ? `{"clausula":"${random.int(3, 19)}.${random.int(1, 12)}","pagina":${random.int(2, 120)}}`
    : '{}'
  return `{"category":"${random.pick(CATEGORY)}","title":"${texts.ofLength(30)}","required":"${texts.ofLength(230)}","current":"${texts.ofLength(120)}","status":"${random.pick(['red', 'yellow', 'green'])}","ai_notes":"${texts.ofLength(120)}","metadata":${detail}}`
}

function item(ordinal: number, random: Random, texts: Texts): string {
  const quantity = random.int(1, 5000)
  const unitPrice = Number(price(random, 4))
  return `{"numero_item":${ordinal},"descricao":"${texts.ofLength(110)}","quantidade":${quantity},"unidade_medida":"${random.pick(UNIT)}","valor_unitario_estimado":${unitPrice},"valor_total":${Number((quantity * unitPrice).toFixed(2))},"material_ou_servico":"${random.chance(0.7) ? 'M' : 'S'}","numero_lote":${random.chance(0.5) ? random.int(1, 9) : 'null'},"criterio_julgamento_nome":"Menor preço","ai_selected":${random.chance(0.4)},"ai_reasoning":"${texts.ofLength(50)}","ai_confidence":${random.int(0, 100) / 100}}`
}

function alert(random: Random, texts: Texts): string {
  const thesis = random.chance(0.5) ? `"${texts.ofLength(280)}"` : 'null'
  return `{"type":"${random.pick(['risk', 'opportunity', 'info'])}","severity":"${random.pick(['critical', 'high', 'medium', 'low'])}","title":"${texts.ofLength(40)}","description":"${texts.ofLength(260)}","action_type":"${random.pick(['impugnacao', 'esclarecimento', 'none'])}","legal_thesis":${thesis}}`
}

function pricing(random: Random): string {
  return `{"investimento_total":${price(random, 10)},"garantia_proposta":${price(random, 6)},"garantia_contratual":${price(random, 8)},"margem_min":${random.int(3, 9)},"margem_max":${random.int(10, 28)},"risco_pagamento":"${random.pick(['baixo', 'medio', 'alto'])}","is_srp":${random.chance(0.5)},"sigiloso":${random.chance(0.1)}}`
}

/** BRL with two decimals, around e to the power of `scale`. A trailing 0 is not written. */
function price(random: Random, scale: number): string {
  return String(Number(Math.exp(scale + random.normal()).toFixed(2)))
}
