import type { Logger } from 'pino'
import { localTime } from '#schema/times.ts'
import { messageOf } from '#src/lib/errors.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { type ReadRecord, type Rows, records } from '#src/server/read/order.ts'
import { Readers } from '#src/server/read/readers.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'

/** Rows of a part, and whether there are more. */
export type Found = { readonly rows: readonly ReadRecord[]; readonly isCut: boolean }

/** What the page *Hoje* shows, from the marts that the report, the mail and the dashboard show, too. */
export type Today = {
  readonly decisions: Found
  /** Sessions, and last days for grave alerts, of this and the next six days. */
  readonly agenda: Found
  /** Of the last seven days, the latest first. */
  readonly news: Found
}

export const MAX_DECISIONS = 12
export const MAX_AGENDA = 25
const MAX_NEWS = 400
/** Characters of a text; the page cuts further. */
const MAX_TEXT = 400
const MAX_BYTES = 1_000_000
/** Companies whose readings run or wait: two run at once, each for a second or so. */
const MAX_WAITING = 20
const RETRY_SECONDS = 5
/** A snapshot that could not be read is not read again before. */
const FAILED_MS = 60_000

const clean = (...columns: string[]) => columns.map(name => `texto_limpo(${name}) AS ${name}`).join(', ')
const NAMED = `${clean('orgao', 'numero', 'objeto')}, uf`
const STATEMENTS = {
  decisions: {
    sql: `SELECT edital_id, decidir_ate, dias_ate_decidir, decisao, recomendacao, ${NAMED}, valor_estimado_informado, data_sessao_local
      FROM decisoes ORDER BY decidir_ate, valor_estimado_informado DESC NULLS LAST, edital_id`,
    maxRows: MAX_DECISIONS,
  },
  agenda: {
    sql: `FROM (
        SELECT data_sessao_dia AS dia, dias_ate_sessao AS dias, data_sessao_local AS hora, 'Sessão' AS evento, edital_id, ${NAMED},
          participation_confirmed AS confirmada, requisitos_vermelhos AS vermelhos
        FROM agenda_sessoes WHERE dias_ate_sessao BETWEEN 0 AND 6
        UNION ALL
        SELECT prazo, dias_ate_prazo, NULL,
          if(action_type = 'impugnacao', 'Último dia para impugnar', 'Último dia para pedir esclarecimento'), edital_id, ${NAMED}, NULL, NULL
        FROM alertas_juridicos
        WHERE em_andamento AND NOT oportunidade AND severity IN ('critical', 'high') AND dias_ate_prazo BETWEEN 0 AND 6
        GROUP BY ALL)
      ORDER BY dia, hora NULLS FIRST, edital_id, evento`,
    maxRows: MAX_AGENDA,
  },
  news: {
    sql: `SELECT edital_id, mudanca, mudanca_ordem, ${clean('de', 'para')}, observado_em, ${NAMED}, retificacao
      FROM novidades WHERE observado_em > agora() - INTERVAL 7 DAY AND observado_em <= agora()
      ORDER BY observado_em DESC, mudanca_ordem, edital_id`,
    maxRows: MAX_NEWS,
  },
} as const

type Served = Pick<ServedCompanies, 'companies' | 'snapshotOf' | 'lakeOf'>

type Known = {
  /** The snapshot and the day that it was read for. */
  readonly of: string
  readonly today: Promise<Today>
  /** From then on, it is read again. */
  againAtMs: number
  hasFailed: boolean
}

/**
 * Reads what *Hoje* shows, once for each snapshot and day, and again after an hour: a reading takes a process, and about a second.
 */
export class TodayReader {
  readonly #served: Served
  readonly #readers: Pick<Readers, 'read'>
  readonly #log: Logger
  readonly #known = new Map<string, Known>()
  #waiting = 0

  constructor(served: Served, log: Logger, readers: Pick<Readers, 'read'> = new Readers(log)) {
    this.#served = served
    this.#readers = readers
    this.#log = log
  }

  /** @throws Refusal (503) if the snapshot cannot be read now. */
  async read(company: string, now: Date): Promise<Today> {
    const { name, timeZone } = this.#served.snapshotOf(company)
    const local = localTime(now, timeZone)
    const of = `${name} ${local.toISOString().slice(0, 10)}`
    const known = this.#known.get(company)
    const isCurrent = known?.of === of
    if (isCurrent && now.getTime() < known.againAtMs) return await known.today
    const canShow = isCurrent && !known.hasFailed
    if (this.#waiting >= MAX_WAITING) {
      if (canShow) return await known.today
      throw new Refusal(503, 'Too many companies are being read.', RETRY_SECONDS)
    }
    const today = this.#readNow(company)
    const read: Known = { of, today, againAtMs: now.getTime() + untilNextHour(local), hasFailed: false }
    today.catch(() => {
      read.hasFailed = true
      read.againAtMs = now.getTime() + FAILED_MS
    })
    if (canShow) {
      // Those who look meanwhile do not wait.
      known.againAtMs = read.againAtMs
      today.then(
        () => this.#known.set(company, read),
        () => {},
      )
      return await known.today
    }
    this.#known.set(company, read)
    this.#dropOthers()
    return await today
  }

  async #readNow(company: string): Promise<Today> {
    const order = { isForeign: false, maxBytes: MAX_BYTES, maxText: MAX_TEXT }
    const statements = Object.values(STATEMENTS)
    // For all who look at it: it does not end with the first one.
    const anybody = { prefix: `hoje ${company}`, isStillValid: () => true }
    this.#waiting += 1
    try {
      const lake = this.#served.lakeOf(company)
      const signal = new AbortController().signal
      const { results } = await this.#readers.read(anybody, { lake, ...order, statements }, signal)
      const [decisions = NOTHING, agenda = NOTHING, news = NOTHING] = results.map(foundIn)
      return { decisions, agenda, news }
    } catch (error) {
      this.#log.error({ company }, `The page Hoje cannot be read: ${messageOf(error)}`)
      throw new Refusal(503, 'The page cannot be read at the moment.', FAILED_MS / 1000)
    } finally {
      this.#waiting -= 1
    }
  }

  /** Forgets companies that are no longer served. */
  #dropOthers(): void {
    const served = new Set(this.#served.companies)
    for (const company of this.#known.keys()) if (!served.has(company)) this.#known.delete(company)
  }
}

const HOUR_MS = 3_600_000

function untilNextHour(local: Date): number {
  return HOUR_MS - (local.getTime() % HOUR_MS)
}

const NOTHING: Found = { rows: [], isCut: false }

function foundIn(rows: Rows): Found {
  return { rows: records(rows), isCut: rows.isCut }
}
