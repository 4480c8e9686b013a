import { company, kept, type Portuguese, type PublishedColumn, type Table } from './columns.ts'

type Counter = Pick<PublishedColumn, 'description' | 'portuguese' | 'unit'>

const counted = (description: string, portuguese: Portuguese, unit?: string): Counter => {
  return { ...(unit ? { unit } : {}), description, portuguese }
}

/** The counters of a run, in the order of their columns. `RunReport` has exactly these, so each has a column. */
export const RUN_COUNTERS = {
  listed: counted('Notices listed: the sum of the seven outcomes from unchanged to not_attempted', [
    'Listados',
    'Editais listados: soma de inalterados, carregados, adiados, sumidos, em quarentena, com falha e não tentados',
  ]),
  added: counted('Notices seen for the first time', ['Novos', 'Editais vistos pela primeira vez']),
  changed: counted('Notices whose list fields changed', [
    'Alterados',
    'Editais cujos dados da lista mudaram',
  ]),
  unchanged: counted('Outcome: nothing to do', ['Inalterados', 'Desfecho: nada a fazer']),
  loaded: counted('Outcome: analysis fetched and loaded', [
    'Carregados',
    'Desfecho: análise buscada e carregada',
  ]),
  deferred: counted('Outcome: status excluded, here or by the API, or next attempt not due yet', [
    'Adiados',
    'Desfecho: fase excluída da busca de análises, aqui ou pela API, ou próxima tentativa ainda não devida',
  ]),
  gone: counted('Outcome: vanished between the list and the analysis', [
    'Sumidos',
    'Desfecho: o edital saiu da API entre a lista e a análise',
  ]),
  quarantined: counted('Outcome: not usable, set aside', [
    'Postos em quarentena',
    'Desfecho: não pôde ser usado e foi separado',
  ]),
  failed: counted('Outcome: the API did not answer usefully', [
    'Com falha',
    'Desfecho: a API não deu resposta útil',
  ]),
  not_attempted: counted('Outcome: the run ended before its turn', [
    'Não tentados',
    'Desfecho: a execução acabou antes da vez do edital',
  ]),
  tombstoned: counted('Notices verified to be gone and marked deleted', [
    'Excluídos',
    'Editais que verificamos ter saído da API e marcamos como excluídos',
  ]),
  revived: counted('Deleted notices that returned', ['Retornados', 'Editais excluídos que voltaram']),
  silent_changes: counted('Analyses that changed without a new updated_at', [
    'Mudanças silenciosas',
    'Análises que mudaram sem que a data de atualização do edital mudasse',
  ]),
  requests: counted('HTTP requests sent', ['Requisições', 'Requisições HTTP enviadas']),
  bytes_fetched: counted(
    'Bytes of response bodies received',
    ['Bytes recebidos', 'Bytes dos corpos das respostas recebidas'],
    'bytes',
  ),
  scan_passes: counted('Passes over the list', ['Leituras da lista', 'Quantas vezes a lista foi lida']),
} as const satisfies Readonly<Record<string, Counter>>

export type RunCounter = keyof typeof RUN_COUNTERS

/** Every listed notice ends a run in exactly one of these (invariant I1). */
export const OUTCOMES = [
  'unchanged',
  'loaded',
  'deferred',
  'gone',
  'quarantined',
  'failed',
  'not_attempted',
] as const satisfies readonly RunCounter[]

/** The modes and states of a good run, which also attempted everything that was listed. */
const GOOD_RUN = {
  mode: ['full', 'incremental'],
  status: ['ok', 'partial'],
} as const

/** Returns whether a run was unfiltered and attempted everything listed, without failing: the data is as fresh as the API. */
export function isGoodRun(run: { mode: string; status: string; not_attempted: number }): boolean {
  const isAmong = (values: readonly string[], value: string) => values.includes(value)
  return isAmong(GOOD_RUN.mode, run.mode) && isAmong(GOOD_RUN.status, run.status) && run.not_attempted === 0
}

/**
 * Returns SQL for the condition that a run is good; `src/marts/leituras.sql` has it too.
 * @param run what to write before each column, such as `report.`.
 */
export function goodRunSql(run = ''): string {
  const list = (values: readonly string[]) => values.map(value => `'${value}'`).join(', ')
  return `${run}mode IN (${list(GOOD_RUN.mode)}) AND ${run}status IN (${list(GOOD_RUN.status)}) AND ${run}not_attempted = 0`
}

export const syncRuns: Table = {
  name: 'sync_runs',
  description: 'Every run of the sync, with the outcomes of the notices that it listed',
  portuguese: [
    'Execuções da sincronização',
    'Cada execução da sincronização e o que aconteceu com os editais listados',
  ],
  document: 'kept',
  rows: 'history',
  files: 'one',
  columns: [
    company,
    kept('run_id', 'VARCHAR', 'Identifier of the run', [
      'ID da execução',
      'Identificador da execução da sincronização',
    ]),
    kept('mode', 'VARCHAR', 'full, incremental, filtered, replay or salvage (repair of a damaged log)', [
      'Modo',
      'full (completa), incremental, filtered (só parte dos editais), replay (só a quarentena, sem consultar a API) ou salvage (log recuperado)',
    ]),
    kept('status', 'VARCHAR', 'ok, partial, failed or interrupted', [
      'Resultado',
      'ok, partial (parcial), failed (falhou) ou interrupted (interrompida)',
    ]),
    kept('started_at', 'TIMESTAMPTZ', 'Start of the run', ['Início (UTC)', 'Início da execução']),
    kept('finished_at', 'TIMESTAMPTZ', 'End of the run; NULL if the process died', [
      'Fim (UTC)',
      'Fim da execução; vazio quando o processo morreu',
    ]),
    ...Object.entries<Counter>(RUN_COUNTERS).map(
      ([name, counter]): PublishedColumn => ({ name, type: 'BIGINT', from: { kept: true }, ...counter }),
    ),
    kept('scan_complete', 'BOOLEAN', 'Whether a pass over the list was verified to be complete', [
      'Lista completa',
      'Se uma leitura da lista toda foi verificada como completa',
    ]),
    kept('error', 'VARCHAR', 'What went wrong and what to do', ['Erro', 'O que deu errado e o que fazer']),
  ],
}
