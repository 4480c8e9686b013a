import { comment } from '#schema/comment.ts'
import { CATALOG, type Relation } from '#schema/marts/marts.ts'

/** The meaning of a column for Metabase. */
export type ColumnMeaning = {
  readonly name: string
  readonly label: string
  readonly description: string
  /** One of Metabase's types; absent if Metabase's own guess may stay. */
  readonly semanticType?: string
  /** The `table.column` that a foreign key refers to. */
  readonly references?: string
  /** How numbers are formatted. */
  readonly settings?: Readonly<Record<string, unknown>>
}

export type RelationMeaning = {
  readonly name: string
  readonly label: string
  readonly description: string
  readonly columns: readonly ColumnMeaning[]
}

/** Key columns by name, with the table whose rows they identify. */
const KEYS: Readonly<Record<string, string>> = { edital_id: 'editais', run_id: 'sync_runs' }

const BY_NAME: Readonly<Record<string, string>> = {
  uf: 'type/State',
  orgao: 'type/Company',
  pncp_url: 'type/URL',
  created_at: 'type/CreationTimestamp',
  updated_at: 'type/UpdatedTimestamp',
  objeto: 'type/Description',
  descricao: 'type/Description',
  description: 'type/Description',
  verdict_reason: 'type/Description',
  verdict_summary: 'type/Description',
  ai_notes: 'type/Description',
  ai_reasoning: 'type/Description',
  exigido: 'type/Description',
  notas: 'type/Description',
  titulo: 'type/Title',
  title: 'type/Title',
  parcela_descartada: 'type/Share',
}

const CATEGORIES: ReadonlySet<string> = new Set([
  ...['company', 'status', 'fase', 'modalidade', 'analysis_state', 'analysis_level', 'discard_reason'],
  ...['verdict_recommendation', 'severity', 'severidade', 'type', 'action_type', 'acao', 'category'],
  ...[
    'categoria',
    'cor',
    'risco_pagamento',
    'risco_pagamento_fonte',
    'risco_pagamento_orgao',
    'risco_pagamento_precificacao',
    'material_ou_servico',
    'unidade_medida',
    'motivo',
    'campo',
  ],
  ...[
    'de_status',
    'para_status',
    'de_fase',
    'para_fase',
    'dia_da_semana',
    'situacao_sessao',
    'recomendacao',
    'nivel_analise',
    'categoria_rotulo',
    'tipo',
    'mode',
    'kind',
  ],
])

/** Returns every table and mart of a catalog, as Metabase users see it. */
export function relationMeanings(): RelationMeaning[] {
  return CATALOG.map(relation => ({
    name: relation.name,
    label: relation.portuguese[0],
    description: comment(relation),
    columns: relation.columns.map(column => ({
      name: column.name,
      label: column.portuguese[0],
      description: comment(column),
      ...semanticOf(relation.name, column),
    })),
  }))
}

function semanticOf(
  relation: string,
  { name, unit }: Relation['columns'][number],
): Pick<ColumnMeaning, 'semanticType' | 'references' | 'settings'> {
  const home = Object.hasOwn(KEYS, name) ? KEYS[name] : undefined
  if (home === relation) return { semanticType: 'type/PK' }
  if (home) return { semanticType: 'type/FK', references: `${home}.${name}` }
  if (unit === 'BRL') {
    return {
      semanticType: 'type/Currency',
      settings: { number_style: 'currency', currency: 'BRL', currency_style: 'symbol' },
    }
  }
  if (CATEGORIES.has(name)) return { semanticType: 'type/Category' }
  const semanticType = Object.hasOwn(BY_NAME, name) ? BY_NAME[name] : undefined
  return semanticType ? { semanticType } : {}
}
