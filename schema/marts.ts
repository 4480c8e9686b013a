import { type ColumnType, publishedColumns, TABLES } from './tables.ts'

/**
 * The marts: views for BI in every catalog. `schema/marts/<name>.sql` defines a view; this file describes its columns,
 * in their order, for the comments and the data dictionary.
 * A mart may use the tables, `snapshot_info` and the marts before it.
 */

export type MartColumn = {
  readonly name: string
  readonly type: ColumnType | 'DATE' | 'TIMESTAMP'
  readonly description: string
  readonly unit?: string
  /** The column that its values come from, as `table.column`; absent if it is derived. */
  readonly from?: string
}

export type Mart = {
  readonly name: string
  readonly description: string
  readonly columns: readonly MartColumn[]
}

const BRL = 'BRL'
const DAYS = 'days'

/** Columns that are the same as in a table. */
function same(table: string, ...names: readonly string[]): MartColumn[] {
  const columns = publishedColumns(TABLES.find(({ name }) => name === table) as (typeof TABLES)[number])
  return names.map(name => {
    const found = columns.find(column => column.name === name)
    if (!found) throw new Error(`${table} has no column ${name}`)
    const { type, description, unit } = found
    return { name, type, description, ...(unit ? { unit } : {}), from: `${table}.${name}` }
  })
}

/** A column of a table under another name. */
function renamed(name: string, from: string): MartColumn {
  const [table = '', column = ''] = from.split('.')
  return { ...(same(table, column)[0] as MartColumn), name }
}

function derived(type: MartColumn['type'], name: string, description: string, unit?: string): MartColumn {
  return { name, type, description, ...(unit ? { unit } : {}) }
}

const text = (name: string, description: string) => derived('VARCHAR', name, description)
const flag = (name: string, description: string) => derived('BOOLEAN', name, description)
const count = (name: string, description: string) => derived('BIGINT', name, description)
const days = (name: string, description: string) => derived('BIGINT', name, description, DAYS)
const duration = (name: string, description: string) => derived('DOUBLE', name, description, DAYS)
const money = (name: string, description: string) => derived('DOUBLE', name, description, BRL)
const date = (name: string, description: string) => derived('DATE', name, description)
const local = (name: string, description: string) =>
  derived('TIMESTAMP', name, `${description}, local time of SOURCE_TIMEZONE`)
const moment = (name: string, description: string) => derived('TIMESTAMPTZ', name, description)

/** Columns of an earlier mart. */
function of(mart: Mart, ...names: readonly string[]): MartColumn[] {
  return names.map(name => {
    const found = mart.columns.find(column => column.name === name)
    if (!found) throw new Error(`${mart.name} has no column ${name}`)
    return found
  })
}

const company = same('editais', 'company')
const notice = same('editais', 'company', 'edital_id')
const fase = text('fase', 'Phase in Portuguese; a phase that is new in the API is unchanged')
const faseOrdem = derived('INTEGER', 'fase_ordem', 'Order of the phases, 1 to 6; 9 for a new one')
const emAndamento = flag('em_andamento', 'Whether the phase is neither discarded nor expired')

/** One row per company; written with each snapshot. */
export const snapshotInfo: Mart = {
  name: 'snapshot_info',
  description: 'The snapshot itself, one row per company',
  columns: [
    ...company,
    text('snapshot', 'Name of the snapshot'),
    moment('published_at', 'When the snapshot was written'),
    text('source_timezone', 'Time zone of local times (SOURCE_TIMEZONE)'),
  ],
}

const fases: Mart = {
  name: 'fases',
  description: 'The phases of the contract in their order',
  columns: [...same('editais', 'status'), fase, faseOrdem, emAndamento],
}

const calendario: Mart = {
  name: 'calendario',
  description: 'Days from 2010 to 2060 with the national holidays of Brazil and the last day to contest',
  columns: [
    date('dia', 'Day'),
    text('feriado', 'National holiday on that day, or Good Friday; optional days off do not count'),
    flag('dia_util', 'Whether it is neither on a weekend nor a national holiday'),
    date('limite_impugnacao', 'Last day to contest a session on that day: the third business day before it'),
  ],
}

const editaisAtivos: Mart = {
  name: 'editais_ativos',
  description:
    'Live notices, one row each: all that the API still shows, with local times and plausible values',
  columns: [
    ...notice,
    ...same('editais', 'pncp_id', 'orgao_cnpj', 'orgao', 'objeto', 'numero', 'modalidade', 'uf', 'status'),
    fase,
    faseOrdem,
    emAndamento,
    ...same('editais', 'participation_confirmed', 'discard_reason', 'valor_estimado'),
    money('valor_estimado_informado', 'Estimated value; NULL if it is 0, symbolic or a sentinel'),
    flag(
      'valor_suspeito',
      'Whether the value is negative, below 1, only nines (eight or more), or 100 billion or more',
    ),
    ...same('editais', 'data_sessao'),
    local('data_sessao_local', 'Public session; NULL before 2010 and after 2060'),
    date('data_sessao_dia', 'Local day of the public session'),
    days('dias_ate_sessao', 'From today to the session; negative if it is past'),
    local('criado_local', 'When the company began to follow the notice'),
    local('atualizado_local', "The API's last update of the notice"),
    local('confirmado_local', 'When participation was confirmed'),
    ...same(
      'editais',
      'pncp_url',
      'analysis_state',
      'created_at',
      'updated_at',
      'first_seen_at',
      'changed_at',
    ),
  ],
}

const editalResumo: Mart = {
  name: 'edital_resumo',
  description:
    'Live notices, one row each, with verdict, sums of items, requirements by colour and alerts by severity',
  columns: [
    ...editaisAtivos.columns,
    date('ultimo_dia_impugnacao', 'Last day to contest: the third business day before the session'),
    days('dias_ate_impugnacao', 'From today to the last day to contest; negative if it is past'),
    ...same('analyses', 'analysis_level', 'verdict_recommendation', 'verdict_reason'),
    count('itens', 'Items'),
    money('itens_valor_total', 'Sum of the total values of the items'),
    count('itens_selecionados', 'Items that the evaluation selected'),
    money('itens_selecionados_valor', 'Sum of the total values of the selected items'),
    count('requisitos', 'Requirements'),
    count('requisitos_vermelhos', 'Red requirements'),
    count('requisitos_amarelos', 'Yellow requirements'),
    count('requisitos_verdes', 'Green requirements'),
    count('requisitos_sem_avaliacao', 'Requirements without a colour'),
    count('alertas', 'Alerts'),
    count('oportunidades', 'Alerts that are opportunities'),
    count('alertas_criticos', 'Alerts of critical severity, without opportunities'),
    count('alertas_altos', 'Alerts of high severity, without opportunities'),
    count('alertas_medios', 'Alerts of medium severity, without opportunities'),
    count('alertas_baixos', 'Alerts of low severity, without opportunities'),
    renamed('investimento_total', 'analyses.pricing_investimento_total'),
    renamed('garantia_proposta', 'analyses.pricing_garantia_proposta'),
    renamed('garantia_contratual', 'analyses.pricing_garantia_contratual'),
    renamed('margem_min', 'analyses.pricing_margem_min'),
    renamed('margem_max', 'analyses.pricing_margem_max'),
    text('risco_pagamento', "Payment risk of the pricing, else of the buyer's report"),
    renamed('prazo_impugnacao', 'analyses.overview_prazo_impugnacao'),
  ],
}

const passagensPorFase: Mart = {
  name: 'passagens_por_fase',
  description: 'Stays of notices in phases, as observed: the API does not show when a notice moved',
  columns: [
    ...notice,
    ...same('edital_versions', 'status'),
    fase,
    faseOrdem,
    moment('entrou_em', 'When it was first observed in the phase'),
    moment(
      'saiu_em',
      'When it was first observed in another phase, or verified to be gone; NULL while it is in this phase',
    ),
    flag('em_curso', 'Whether it is still in this phase'),
    duration('dias', 'How long it was observed in this phase, until now if it still is'),
  ],
}

const funil: Mart = {
  name: 'funil',
  description: 'Live notices by phase: number, value and age; includes phases without notices',
  columns: [
    ...company,
    ...same('editais', 'status'),
    fase,
    faseOrdem,
    emAndamento,
    count('editais', 'Live notices'),
    count('sem_valor', 'Live notices without a plausible value'),
    money('valor_total', 'Sum of the plausible values'),
    money('valor_mediano', 'Median of the plausible values'),
    duration('idade_mediana_dias', 'Median time since the company began to follow them'),
    duration('dias_na_fase_mediana', 'Median time since they were first observed in the phase'),
  ],
}

const transicoesDeFase: Mart = {
  name: 'transicoes_de_fase',
  description: 'Every observed move of a notice from one phase to another',
  columns: [
    ...notice,
    ...same('editais', 'orgao', 'objeto'),
    text('de_status', 'Phase that it left'),
    text('para_status', 'Phase that it entered'),
    text('de_fase', 'Phase that it left, in Portuguese'),
    text('para_fase', 'Phase that it entered, in Portuguese'),
    moment('observado_em', 'When the new phase was first observed'),
    date('observado_dia', 'Local day of observado_em'),
    duration('dias_na_fase', 'How long it was observed in the phase that it left'),
  ],
}

const tempoPorFase: Mart = {
  name: 'tempo_por_fase',
  description: 'How long notices stay in each phase, as observed',
  columns: [
    ...company,
    ...same('edital_versions', 'status'),
    fase,
    faseOrdem,
    count('passagens', 'Stays'),
    count('concluidas', 'Finished stays'),
    count('em_curso', 'Ongoing stays'),
    duration('dias_mediana', 'Median of the finished stays'),
    duration('dias_media', 'Mean of the finished stays'),
    duration('dias_p90', '90th percentile of the finished stays'),
    duration('em_curso_dias_mediana', 'Median of the ongoing stays, until now'),
  ],
}

const agendaSessoes: Mart = {
  name: 'agenda_sessoes',
  description: 'Sessions from today on of notices that are neither discarded nor expired',
  columns: [
    ...notice,
    ...of(editalResumo, 'data_sessao_local', 'data_sessao_dia'),
    text('dia_da_semana', 'Day of the week'),
    date('semana', 'Monday of the week of the session'),
    ...of(editalResumo, 'dias_ate_sessao', 'ultimo_dia_impugnacao', 'dias_ate_impugnacao'),
    ...of(editalResumo, 'orgao', 'uf', 'modalidade', 'numero', 'objeto', 'fase', 'participation_confirmed'),
    ...of(editalResumo, 'valor_estimado_informado', 'verdict_recommendation'),
    ...of(editalResumo, 'requisitos_vermelhos', 'requisitos_amarelos', 'alertas_criticos', 'alertas_altos'),
    ...of(editalResumo, 'pncp_url'),
  ],
}

const ofNotice = (...names: readonly string[]) => of(editaisAtivos, ...names)

const pendenciasHabilitacao: Mart = {
  name: 'pendencias_habilitacao',
  description: 'Requirements of live notices that are still red or yellow',
  columns: [
    ...same('requirements', 'company', 'edital_id', 'ordinal'),
    ...ofNotice(
      'orgao_cnpj',
      'orgao',
      'uf',
      'numero',
      'objeto',
      'fase',
      'em_andamento',
      'data_sessao_dia',
      'dias_ate_sessao',
    ),
    renamed('categoria', 'requirements.category'),
    renamed('titulo', 'requirements.title'),
    renamed('exigido', 'requirements.required'),
    renamed('situacao_atual', 'requirements.current'),
    ...same('requirements', 'status'),
    text('cor', 'vermelho or amarelo'),
    renamed('notas', 'requirements.ai_notes'),
  ],
}

const alertasJuridicos: Mart = {
  name: 'alertas_juridicos',
  description: 'Legal-risk alerts of live notices, with their action and its deadline',
  columns: [
    ...same('alerts', 'company', 'edital_id', 'ordinal'),
    ...ofNotice('orgao_cnpj', 'orgao', 'uf', 'numero', 'objeto', 'fase', 'em_andamento'),
    ...same('alerts', 'type'),
    flag('oportunidade', 'Whether it is an opportunity, not a risk'),
    ...same('alerts', 'severity'),
    text('severidade', 'Severity in Portuguese: crítica, alta, média, baixa'),
    derived('INTEGER', 'severidade_ordem', 'Order of the severities, 1 is critical; 9 for a new one'),
    renamed('titulo', 'alerts.title'),
    renamed('descricao', 'alerts.description'),
    ...same('alerts', 'action_type'),
    text('acao', 'Action in Portuguese'),
    ...same('alerts', 'legal_thesis'),
    ...ofNotice('data_sessao_dia'),
    date(
      'prazo',
      'Last day for the action, if it is to contest or to ask; NULL for appeals, which follow the session',
    ),
    days('dias_ate_prazo', 'From today to that day; negative if it is past'),
  ],
}

const itensSelecionados: Mart = {
  name: 'itens_selecionados',
  description: 'Items of live notices that the evaluation selected for the company',
  columns: [
    ...same('items', 'company', 'edital_id', 'ordinal'),
    ...ofNotice('orgao_cnpj', 'orgao', 'uf', 'numero', 'fase', 'em_andamento', 'data_sessao_dia'),
    ...same('items', 'numero_item', 'numero_lote', 'descricao', 'quantidade', 'unidade_medida'),
    ...same('items', 'valor_unitario_estimado', 'valor_total', 'material_ou_servico'),
    ...same('items', 'ai_reasoning', 'ai_confidence'),
  ],
}

const sums: readonly MartColumn[] = [
  count('editais', 'Live notices'),
  count('editais_em_andamento', 'Live notices that are neither discarded nor expired'),
  count('sem_valor', 'Live notices without a plausible value'),
  money('valor_total', 'Sum of the plausible values'),
  money('valor_em_andamento', 'Sum of the plausible values of notices in progress'),
  money('valor_mediano', 'Median of the plausible values'),
]

const valorPorUf: Mart = {
  name: 'valor_por_uf',
  description: 'Live notices by state of the buyer',
  columns: [...company, text('uf', 'State (UF); não informada if unknown'), ...sums],
}

const valorPorModalidade: Mart = {
  name: 'valor_por_modalidade',
  description: 'Live notices by modality',
  columns: [...company, text('modalidade', 'Modality; não informada if unknown'), ...sums],
}

const orgaos: Mart = {
  name: 'orgaos',
  description: 'Buyers of live notices, one row each',
  columns: [
    ...same('editais', 'company', 'orgao_cnpj'),
    text('orgao', 'Name of the buyer in its latest notice'),
    text('uf', 'State (UF) in its latest notice'),
    count('editais', 'Live notices'),
    count('editais_em_andamento', 'Live notices that are neither discarded nor expired'),
    count('descartados', 'Live notices that are discarded'),
    derived('DOUBLE', 'parcela_descartada', 'Share of the notices that are discarded, 0 to 1'),
    money('valor_total', 'Sum of the plausible values'),
    money('valor_em_andamento', 'Sum of the plausible values of notices in progress'),
    text(
      'risco_pagamento',
      "Payment risk in the latest analysis that names one: the buyer's report, else the pricing",
    ),
    date('proxima_sessao_dia', 'Next session of a notice in progress'),
  ],
}

const motivosDescarte: Mart = {
  name: 'motivos_descarte',
  description: 'Why live notices were discarded',
  columns: [
    ...company,
    text('motivo', 'Reason as given; não informado if there is none'),
    count('editais', 'Discarded notices'),
    money('valor_total', 'Sum of the plausible values'),
    moment('ultimo_em', 'Last update of one of them'),
  ],
}

const mudancas: Mart = {
  name: 'mudancas',
  description: 'Every observed change of a list field, field by field',
  columns: [
    ...notice,
    ...same('editais', 'orgao', 'objeto'),
    text('campo', 'Field that changed'),
    text('de', 'Value before, as text; times are local'),
    text('para', 'Value after, as text; times are local'),
    moment('observado_em', 'When the change was first observed'),
    date('observado_dia', 'Local day of observado_em'),
  ],
}

const frescor: Mart = {
  name: 'frescor',
  description: 'How fresh and how complete the data are, one row per company',
  columns: [
    ...of(snapshotInfo, 'company', 'snapshot'),
    moment('publicado_em', 'When the snapshot was written'),
    local('publicado_local', 'When the snapshot was written'),
    derived('BIGINT', 'idade_minutos', 'Time since the snapshot was written', 'minutes'),
    moment('ultima_execucao_em', 'End of the last run in this snapshot'),
    text('ultima_execucao_status', 'Its status: ok, partial, failed or interrupted'),
    text('ultima_execucao_erro', 'What went wrong in it'),
    moment(
      'ultima_boa_em',
      'End of the last run over all notices that was ok or partial and left nothing out',
    ),
    local('ultima_boa_local', 'The same'),
    count('editais_ativos', 'Live notices'),
    count('analises_atuais', 'Live notices whose analysis is current'),
    count('pendentes', 'Live notices whose analysis is still to be fetched'),
    count('em_quarentena', 'Records that could not be used and are set aside'),
    count('excluidos', 'Live notices in phases whose analyses are not fetched'),
    count('desvios', 'Kinds of differences from the contract that were seen'),
    count('desvios_7_dias', 'Kinds of differences that were seen in the last 7 days'),
  ],
}

/** In the order in which they are created. */
export const MARTS: readonly Mart[] = [
  fases,
  calendario,
  editaisAtivos,
  editalResumo,
  passagensPorFase,
  funil,
  transicoesDeFase,
  tempoPorFase,
  agendaSessoes,
  pendenciasHabilitacao,
  alertasJuridicos,
  itensSelecionados,
  valorPorUf,
  valorPorModalidade,
  orgaos,
  motivosDescarte,
  mudancas,
  frescor,
]

/** All views of a catalog except those of tables. */
export const VIEWS: readonly Mart[] = [snapshotInfo, ...MARTS]

/** A table, or a view beside them, with its published columns. */
export type Relation = Pick<Mart, 'name' | 'description'> & {
  readonly columns: readonly Pick<MartColumn, 'name' | 'description' | 'unit'>[]
}

/** Everything that a catalog shows. */
export const CATALOG: readonly Relation[] = [
  ...TABLES.map(table => ({ ...table, columns: publishedColumns(table) })),
  ...VIEWS,
]
