import { type MartColumn, VIEWS } from '#schema/marts.ts'
import { portuguese } from '#schema/portuguese.ts'
import { type Column, publishedColumns, TABLES, type Table } from '#schema/tables.ts'

const INTRODUCTION = `# Data dictionary

Made from \`schema/\` by \`npm run dictionary\`: change it there.

**Tables** are what was read from the API and what the worker noted about it, as Parquet files and as views in
\`catalog.duckdb\`. **Marts** are further views in the catalog, made for BI: with phases in Portuguese, local
times, deadlines and values that can be summed up.

- \`company\` and \`edital_id\` join whatever has them; \`status\` joins \`fases\`, a day joins \`calendario\`. With
  \`ordinal\` they tell the rows of \`requirements\`, \`items\` and \`alerts\` apart. Sum these up one table at a time:
  joined to one another they multiply.
- A notice is live while \`editais.deleted_at\` is NULL. Marts of notices hold live ones only, but for the
  histories: \`passagens_por_fase\`, \`tempo_por_fase\`, \`transicoes_de_fase\` and \`mudancas\`.
- TIMESTAMPTZ columns are moments, in UTC. \`*_local\` columns and days are local, of \`SOURCE_TIMEZONE\`.
- Money is BRL. An estimated value of 0 can mean that it is secret: sum up \`valor_estimado_informado\`.
- The API does not tell when a notice moved to another phase. What is called *observed* is when the sync saw it.

*Em português:* as **tabelas** são o que foi lido da API; os **marts** são visões para BI. \`company\` e
\`edital_id\` ligam uns aos outros. Horas em UTC, salvo \`*_local\` e os dias, no fuso da empresa. Valores em
BRL; 0 pode significar orçamento sigiloso. *Vazio* é NULL. *Observado* é quando nós vimos, não quando ocorreu.
`

/** The worker's part that writes the columns of a table which come from no single document. */
const KEPT_BY: Readonly<Record<string, string>> = {
  editais: 'comparison with what was stored',
  sync_runs: 'report of the run',
  quarantine: 'validation',
  schema_drift: 'validation',
}

const LINES = {
  edital_id: '`Edital.id`',
  updated_at: '`Edital.updated_at`',
  run_id: 'worker: the run',
  at: 'worker: time it was logged',
  fetched_at: 'worker: time of the fetch',
  hash: 'worker: the normalised document',
  segment: 'worker: the raw log',
} as const

const ELEMENTS = { requirements: 'Requirement', items: 'Item', alerts: 'Alert' } as const

type Described = {
  readonly name: string
  readonly type: string
  readonly unit?: string
  readonly description: string
  readonly source: string
}
type Relation = {
  readonly name: string
  readonly description: string
  readonly columns: readonly Described[]
}

/**
 * The data dictionary as Markdown: every table, every mart and their columns, in English and Portuguese.
 * @throws Error where something has no entry in `schema/portuguese.ts`.
 */
export function renderDictionary(): string {
  const tables = TABLES.map(tableRelation)
  const marts = VIEWS.map(({ name, description, columns }) => ({
    name,
    description,
    columns: columns.map(column => ({ ...column, source: martSource(column) })),
  }))
  const parts = [
    INTRODUCTION,
    contents([...tables, ...marts]),
    '## Tables\n',
    ...tables.map(section),
    '## Marts\n',
    ...marts.map(section),
  ]
  return parts.join('\n')
}

function tableRelation(table: Table): Relation {
  return {
    name: table.name,
    description: table.description,
    columns: publishedColumns(table).map(column => ({ ...column, source: tableSource(table, column) })),
  }
}

/** Where in the contract a column comes from, or which part of the worker writes it. */
function tableSource(table: Table, { from }: Column): string {
  if ('field' in from) return `\`${documentOf(table)}.${from.field}\``
  if ('freeForm' in from) return `\`${documentOf(table)}.${from.freeForm}.${from.property}\``
  if ('line' in from) return LINES[from.line]
  if ('timesAsSent' in from) return `the times of \`${documentOf(table)}\``
  if ('emptyOf' in from) return from.emptyOf.map(part => `\`${documentOf(table)}.${part}\``).join(', ')
  if ('pncpIdPart' in from) return `\`Edital.pncp_id\`, part ${from.pncpIdPart}`
  if ('ordinal' in from) return `position in \`EditalAnalysis.${table.each}\``
  if ('company' in from) return 'worker: the company of the key'
  return `worker: ${KEPT_BY[table.name] ?? 'bookkeeping'}`
}

/** The contract's name of the object whose fields a table has. */
function documentOf(table: Table): string {
  if (table.each) return ELEMENTS[table.each]
  return table.document === 'notice' ? 'Edital' : 'EditalAnalysis'
}

function martSource({ from }: MartColumn): string {
  return from ? `as \`${from}\`` : 'derived'
}

function contents(relations: readonly Relation[]): string {
  const rows = relations.map(({ name, description }) => {
    const { label } = portuguese(name)
    return [`[\`${name}\`](#${name})`, escaped(label), escaped(description)]
  })
  return markdownTable(['Table or mart', 'Nome', 'What it holds'], rows)
}

function section({ name, description, columns }: Relation): string {
  const inPortuguese = portuguese(name)
  const rows = columns.map(column => {
    const { label, description } = portuguese(name, column.name)
    return [
      `\`${column.name}\``,
      column.type,
      escaped(column.unit ?? ''),
      escaped(label),
      escaped(column.description),
      escaped(description),
      column.source,
    ]
  })
  return `### ${name}

**${escaped(inPortuguese.label)}.** ${escaped(description)}.

*${escaped(inPortuguese.description)}.*

${markdownTable(['Column', 'Type', 'Unit', 'Nome', 'Meaning', 'Significado', 'Source'], rows)}`
}

function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('')
}

/** Text that Markdown shows as it is: no end of a cell, no HTML, no emphasis. */
function escaped(text: string): string {
  return text.replace(/[\\|<*`]/g, '\\$&').replace(/\s+/g, ' ')
}
