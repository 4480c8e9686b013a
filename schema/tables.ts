import { ANALYSIS } from './analysis.ts'
import {
  type Column,
  type ColumnType,
  company,
  editalId,
  internal,
  kept,
  observedAt,
  ordinal,
  type PublishedColumn,
  runId,
  type Source,
  type Table,
} from './columns.ts'
import { NOTICE } from './notice.ts'
import type { Fields, Value, ValueType } from './record.ts'
import { syncRuns } from './sync_runs.ts'

/**
 * Every published table as data. The warehouse's DDL, the typed reading of the raw log, the flattening,
 * the change detection, the Parquet export, the catalog's comments and the data dictionary all derive
 * from this file and the parts that it imports; each column is defined once.
 */

const COLUMN_TYPES: Readonly<Record<ValueType, ColumnType>> = {
  id: 'VARCHAR',
  string: 'VARCHAR',
  'date-time': 'TIMESTAMPTZ',
  integer: 'BIGINT',
  number: 'DOUBLE',
  double: 'DOUBLE',
  boolean: 'BOOLEAN',
  strings: 'VARCHAR',
  object: 'VARCHAR',
  any: 'VARCHAR',
}

/**
 * Returns the columns of a document's fields, in their order. An object's fields become `<object>_<field>`; lists are tables
 * of their own.
 */
function makeColumns(fields: Fields): PublishedColumn[] {
  return Object.entries(fields).flatMap(([name, field]) => {
    if ('each' in field) return []
    if ('type' in field) return valueColumns(name, field, { field: name })
    const { part, description, portuguese } = field
    const inner = Object.entries(part.fields).flatMap(([property, value]) =>
      valueColumns(
        `${name}_${property}`,
        value,
        part.freeForm ? { freeForm: name, property } : { field: `${name}.${property}` },
      ),
    )
    if (description === undefined || portuguese === undefined) return inner
    return [...inner, ...valueColumns(name, { type: 'object', description, portuguese }, { field: name })]
  })
}

function valueColumns(name: string, value: Value, from: Source): PublishedColumn[] {
  if (value.column === false) return []
  const { description, portuguese, unit, since, derived = [] } = value
  const isJson = value.type === 'strings' || value.type === 'object'
  const column: PublishedColumn = {
    name,
    type: COLUMN_TYPES[value.type],
    from: isJson && 'field' in from ? { ...from, json: true } : from,
    description: isJson ? `${description} (JSON text)` : description,
    ...(unit !== undefined && { unit }),
    ...(since !== undefined && { since }),
    portuguese,
  }
  return [column, ...derived]
}

export type { Column, ColumnType, PublishedColumn, Source, Table } from './columns.ts'
export { syncRuns }

const noticeColumns = makeColumns(NOTICE)

const comparedUpdatedAt = internal(
  '_updated_at',
  'VARCHAR',
  { timeOf: 'notice.updated_at' },
  "The notice's updated_at, to compare with",
)

const { analysis_level, analyzed, verdict, pricing } = ANALYSIS

export const editais: Table = {
  name: 'editais',
  description: 'Notices that the company follows, one row each, with their current list fields',
  portuguese: [
    'Editais',
    'Editais que a empresa acompanha, um por linha, com os dados atuais; deleted_at vazio: ainda na API',
  ],
  document: 'notice',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    ...noticeColumns,
    kept('first_seen_at', 'TIMESTAMPTZ', 'When this warehouse first saw the notice', [
      'Visto pela primeira vez (UTC)',
      'Quando nós vimos o edital pela primeira vez',
    ]),
    kept('changed_at', 'TIMESTAMPTZ', 'When this warehouse last saw the notice change', [
      'Última mudança vista (UTC)',
      'Quando nós vimos o edital mudar pela última vez',
    ]),
    kept(
      'deleted_at',
      'TIMESTAMPTZ',
      'When the notice was verified to be gone from the API; NULL while it is live',
      ['Excluído em (UTC)', 'Quando verificamos que o edital saiu da API; vazio: ainda está lá'],
    ),
    kept(
      'analysis_state',
      'VARCHAR',
      'current: the stored analysis is the one for updated_at; pending: not fetched yet; quarantined: it was not usable; excluded: analyses of this status are not fetched',
      [
        'Situação da análise (código)',
        'current: é a da última atualização; pending: ainda não buscada; quarantined: não pôde ser usada; excluded: não se buscam análises desta fase',
      ],
    ),
    {
      name: 'times_as_sent',
      type: 'VARCHAR',
      from: { timesAsSent: true },
      description:
        'Times that the API sent without an offset, without a time of day or with more than six decimals, as sent, by field (JSON text); NULL if none',
      portuguese: [
        'Horários como enviados',
        'Datas e horas que a API escreveu sem fuso, sem hora ou com mais de seis casas decimais, como as escreveu, por campo (texto JSON); vazio: nenhuma',
      ],
    },
    runId,
    comparedUpdatedAt,
    internal('_segment', 'BIGINT', { line: 'segment' }, 'Segment of the raw log that last brought it'),
    internal('_list_fields', 'UBIGINT', { kept: true }, 'Fingerprint of all list fields'),
  ],
}

export const analyses: Table = {
  name: 'analyses',
  description: 'Structured analysis of a notice, one row per analysed notice',
  portuguese: [
    'Análises',
    'Análise estruturada do edital, uma linha por edital analisado: recomendação, visão geral, precificação e risco do órgão',
  ],
  document: 'analysis',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    ...makeColumns(ANALYSIS),
    {
      name: 'empty_parts',
      type: 'VARCHAR',
      from: { emptyOf: ['pricing', 'orgao_report'] },
      description:
        'Parts that are present but empty in the analysis: pricing, orgao_report (JSON text); NULL if none',
      portuguese: [
        'Partes vazias',
        'Partes que a análise traz sem nenhum valor: pricing, orgao_report (texto JSON); vazio: nenhuma',
      ],
    },
    {
      name: 'prazos_lidos',
      type: 'VARCHAR',
      from: {
        deadlinesIn: {
          text: { freeForm: 'overview', property: 'prazo_impugnacao' },
          law: { freeForm: 'overview', property: 'lei_aplicavel' },
        },
      },
      since: 10,
      description:
        'What overview_prazo_impugnacao and overview_lei_aplicavel say of the days to contest and to ask questions: the clauses of each act, and the laws (JSON text); prazos_impugnacao has the days',
      portuguese: [
        'Prazos lidos',
        'O que o prazo e a lei do edital dizem dos dias para impugnar e pedir esclarecimentos: as cláusulas de cada ato e as leis (texto JSON); os dias estão em prazos_impugnacao',
      ],
    },
    {
      name: 'source_updated_at',
      type: 'TIMESTAMPTZ',
      from: { line: 'updated_at' },
      description: "The notice's updated_at for which this analysis was fetched",
      portuguese: ['Versão analisada (UTC)', 'Atualização do edital para a qual esta análise foi buscada'],
    },
    {
      name: 'fetched_at',
      type: 'TIMESTAMPTZ',
      from: { line: 'fetched_at' },
      description: 'When this analysis was last fetched',
      portuguese: ['Buscado em (UTC)', 'Quando nós buscamos esta análise pela última vez'],
    },
    runId,
    internal(
      '_source_updated_at',
      'VARCHAR',
      { timeOf: 'source_updated_at' },
      'source_updated_at, to compare with the updated_at of the notice',
    ),
    internal('_hash', 'VARCHAR', { line: 'hash' }, 'SHA-256 of the normalised document'),
    internal('_segment', 'BIGINT', { line: 'segment' }, 'Segment of the raw log in which it was received'),
  ],
}

/** Makes the table of a list in each analysis: one row an element. */
function makeTable(
  each: 'requirements' | 'items' | 'alerts',
  description: string,
  portuguese: Table['portuguese'],
): Table {
  const columns = [company, editalId, ordinal, ...makeColumns(ANALYSIS[each].each.fields)]
  const stored = { document: 'analysis', each, rows: 'current', files: 'by_month' } as const
  return { name: each, description, portuguese, ...stored, columns }
}

export const requirements = makeTable('requirements', 'Habilitation requirements demanded by the notice', [
  'Requisitos de habilitação',
  'Requisitos de habilitação exigidos pelo edital, um por linha',
])

export const items = makeTable('items', 'Items and lots of the notice', [
  'Itens e lotes',
  'Itens do edital, com o lote, um por linha',
])

export const alerts = makeTable('alerts', 'Legal-risk alerts and opportunities of the notice', [
  'Alertas',
  'Alertas de risco jurídico e oportunidades do edital, um por linha',
])

export const editalVersions: Table = {
  name: 'edital_versions',
  description: "Every observed version of a notice's list fields",
  portuguese: [
    'Histórico dos editais',
    'Cada versão dos dados do edital que nós vimos; mudanças entre duas leituras não aparecem',
  ],
  document: 'notice',
  rows: 'history',
  files: 'by_month',
  columns: [
    company,
    editalId,
    observedAt,
    ...noticeColumns,
    runId,
    {
      name: 'gone_since',
      type: 'TIMESTAMPTZ',
      from: { kept: true },
      description:
        'When the notice was verified to be gone from the API, if it returned with this version; NULL otherwise',
      portuguese: [
        'Ausente desde (UTC)',
        'Quando verificamos que o edital tinha saído da API, se ele voltou com esta versão; vazio nas demais',
      ],
      since: 7,
    },
  ],
}

export const analysisVersions: Table = {
  name: 'analysis_versions',
  description: 'Level, verdict and pricing of every distinct analysis observed',
  portuguese: [
    'Histórico das análises',
    'Nível, recomendação e precificação de cada análise diferente que nós vimos',
  ],
  document: 'analysis',
  rows: 'history',
  files: 'by_month',
  columns: [
    company,
    editalId,
    observedAt,
    ...makeColumns({ analysis_level, analyzed, verdict, pricing }),
    runId,
  ],
}

/** Makes the history of a list in each analysis: which elements it had, and the states that people follow, without long texts. */
function makeHistory(
  each: 'requirements' | 'alerts',
  fields: Fields,
  name: string,
  description: string,
  portuguese: Table['portuguese'],
): Table {
  const [label] = ordinal.portuguese
  const place: PublishedColumn = {
    ...ordinal,
    portuguese: [
      label,
      'Posição na lista daquela análise, a partir de 1; com o ID do edital e Observado em identifica a linha',
    ],
  }
  const columns = [company, editalId, observedAt, place, ...makeColumns(fields), runId]
  const stored = { document: 'analysis', each, rows: 'history', files: 'by_month' } as const
  return { name, description, portuguese, ...stored, columns }
}

const requirement = ANALYSIS.requirements.each.fields
const alert = ANALYSIS.alerts.each.fields

export const requirementVersions = makeHistory(
  'requirements',
  { category: requirement.category, title: requirement.title, status: requirement.status },
  'requirement_versions',
  'Requirements of every distinct analysis observed, with their state',
  [
    'Histórico dos requisitos',
    'Requisitos de cada análise diferente que nós vimos, com o semáforo que tinham, um por linha',
  ],
)

export const alertVersions = makeHistory(
  'alerts',
  { type: alert.type, severity: alert.severity, title: alert.title, action_type: alert.action_type },
  'alert_versions',
  'Alerts of every distinct analysis observed, with their severity and action',
  [
    'Histórico dos alertas',
    'Alertas de cada análise diferente que nós vimos, com a severidade e a ação que tinham, um por linha',
  ],
)

/** One row for each part: no row of a table is long. */
export const wholeDocuments: Table = {
  name: 'whole_documents',
  description: 'Documents of which a text is cut in the other tables, whole, in parts',
  portuguese: [
    'Documentos inteiros',
    'Documentos dos quais outra tabela traz algum texto cortado, inteiros, em partes, uma por linha',
  ],
  document: 'kept',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    kept('document', 'VARCHAR', 'notice or analysis', ['Documento', 'notice (edital) ou analysis (análise)']),
    kept('ordinal', 'INTEGER', 'Position of the part in the document, from 1', [
      'Parte',
      'Posição da parte no documento, a partir de 1',
    ]),
    kept('content', 'VARCHAR', 'The part; all parts together are the JSON text of the document', [
      'Conteúdo',
      'A parte; todas juntas, na ordem, são o documento como texto JSON',
    ]),
  ],
}

const quarantine: Table = {
  name: 'quarantine',
  description: 'Records that could not be used, set aside with the reason until they can',
  portuguese: ['Quarentena', 'Registros que não puderam ser usados, separados com o motivo até que possam'],
  document: 'kept',
  rows: 'history',
  files: 'one',
  columns: [
    company,
    kept('edital_id', 'VARCHAR', 'Notice; NULL if the record has no usable id', [
      'ID do edital',
      'Edital do registro; vazio quando o registro não tem ID que sirva',
    ]),
    kept('kind', 'VARCHAR', 'notice or analysis', [
      'Documento',
      'O que não pôde ser usado: notice (edital) ou analysis (análise)',
    ]),
    kept('reason', 'VARCHAR', 'Why it could not be used', [
      'Motivo',
      'Por que o registro não pôde ser usado',
    ]),
    kept('path', 'VARCHAR', 'Where in the document', [
      'Campo',
      'Onde no documento, por exemplo analysis.items[].quantidade',
    ]),
    kept('observed_at', 'TIMESTAMPTZ', 'When it was last received', [
      'Recebido em (UTC)',
      'Quando o registro foi recebido pela última vez',
    ]),
    kept('attempts', 'BIGINT', 'How many times an unusable record was received', [
      'Tentativas',
      'Quantas vezes foi recebido sem poder ser usado',
    ]),
    kept('next_attempt_at', 'TIMESTAMPTZ', 'When it is fetched again', [
      'Próxima tentativa (UTC)',
      'Quando será tentado de novo',
    ]),
    kept(
      'resolved_at',
      'TIMESTAMPTZ',
      'When a usable record arrived, or the notice was gone; NULL while open',
      ['Resolvido em (UTC)', 'Quando chegou um registro que serve ou o edital saiu da API; vazio: em aberto'],
    ),
    kept('body_excerpt', 'VARCHAR', 'First 2 kB of what was received', [
      'Trecho recebido',
      'Primeiros 2 kB do que foi recebido',
    ]),
    internal('_updated_at', 'VARCHAR', { kept: true }, "The notice's updated_at, to compare with"),
    internal('_hash', 'VARCHAR', { kept: true }, 'SHA-256 of the bytes received'),
    internal('_segment', 'BIGINT', { kept: true }, 'Segment of the raw log that holds the bytes'),
    internal('_seq', 'BIGINT', { kept: true }, 'Line of that segment'),
  ],
}

const schemaDrift: Table = {
  name: 'schema_drift',
  description: 'Where documents differ from the documented contract',
  portuguese: ['Desvios do contrato', 'Onde os documentos recebidos diferem do contrato documentado da API'],
  document: 'kept',
  rows: 'current',
  files: 'one',
  columns: [
    company,
    kept('path', 'VARCHAR', 'Field, for example analysis.items[].quantidade', [
      'Campo',
      'Onde no documento, por exemplo analysis.items[].quantidade',
    ]),
    kept(
      'kind',
      'VARCHAR',
      'unknown_field, unknown_enum, unknown_form (a text of which a part cannot be read), wrong_type or too_long (a text is cut in the tables)',
      [
        'Tipo de desvio',
        'unknown_field (campo desconhecido), unknown_enum (valor desconhecido), unknown_form (texto que não se lê inteiro), wrong_type (tipo errado) ou too_long (texto cortado nas tabelas)',
      ],
    ),
    kept('sample', 'VARCHAR', 'A value seen there; for too_long, the notice and the length', [
      'Exemplo',
      'Um valor visto nesse campo; no caso de too_long, o edital e o tamanho do texto',
    ]),
    kept('count', 'BIGINT', 'How many times it was seen', [
      'Ocorrências',
      'Quantas vezes o desvio foi visto',
    ]),
    kept('first_seen_at', 'TIMESTAMPTZ', 'First seen', [
      'Primeira vez (UTC)',
      'Quando nós vimos o desvio pela primeira vez',
    ]),
    kept('last_seen_at', 'TIMESTAMPTZ', 'Last seen', [
      'Última vez (UTC)',
      'Quando nós vimos o desvio pela última vez',
    ]),
  ],
}

export const TABLES: readonly Table[] = [
  editais,
  analyses,
  requirements,
  items,
  alerts,
  editalVersions,
  analysisVersions,
  requirementVersions,
  alertVersions,
  wholeDocuments,
  syncRuns,
  quarantine,
  schemaDrift,
]

/** Not stored: each snapshot says what it is, in one row per company. */
export const snapshotInfo = {
  name: 'snapshot_info',
  description: 'The snapshot itself, one row per company',
  portuguese: ['Retrato dos dados', 'O próprio retrato dos dados, uma linha por empresa'],
  columns: [
    { ...company, from: 'editais.company' },
    {
      name: 'snapshot',
      type: 'VARCHAR',
      description: 'Name of the snapshot',
      portuguese: ['Retrato', 'Nome do retrato dos dados'],
    },
    {
      name: 'published_at',
      type: 'TIMESTAMPTZ',
      description: 'When the snapshot was written',
      portuguese: ['Publicado em (UTC)', 'Quando o retrato dos dados foi gravado'],
    },
    {
      name: 'source_timezone',
      type: 'VARCHAR',
      description: 'Time zone of local times (SOURCE_TIMEZONE)',
      portuguese: ['Fuso horário', 'Fuso das horas locais (SOURCE_TIMEZONE)'],
    },
  ],
} as const

/** Columns of the published table, in order. */
export function listPublishedColumns(table: Table): readonly PublishedColumn[] {
  return table.columns.filter(column => 'portuguese' in column)
}

/** Columns of the warehouse's table: all except the company, which is added when a snapshot is written. */
export function listStoredColumns(table: Table): readonly Column[] {
  return table.columns.filter(column => !('company' in column.from))
}
