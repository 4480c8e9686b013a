import type { Logger } from 'pino'
import { localTime } from '#schema/times.ts'
import { FatalError } from '#src/lib/errors.ts'
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
  /** Of the last seven days, what matters most first. */
  readonly news: Found
}

export const MAX_DECISIONS = 12
export const MAX_AGENDA = 25
const MAX_NEWS = 400
/** Characters of a text; the page cuts further. */
const MAX_TEXT = 400
const MAX_BYTES = 1_000_000

const NAMED = 'orgao, uf, numero, texto_limpo(objeto) AS objeto'
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
    sql: `SELECT edital_id, mudanca, de, para, observado_em, ${NAMED}, retificacao
      FROM novidades WHERE observado_em > agora() - INTERVAL 7 DAY AND observado_em <= agora()
      ORDER BY mudanca_ordem, observado_em DESC, edital_id`,
    maxRows: MAX_NEWS,
  },
} as const

type Known = { readonly key: string; readonly today: Promise<Today> }

/** Reads what *Hoje* shows, once for each snapshot and hour: a reading takes a process, and about a second. */
export class TodayReader {
  readonly #served: ServedCompanies
  readonly #readers: Readers
  readonly #known = new Map<string, Known>()

  constructor(served: ServedCompanies, log: Logger) {
    this.#served = served
    this.#readers = new Readers(log)
  }

  /** @throws Refusal (503) if the snapshot cannot be read now. */
  async read(company: string, now: Date): Promise<Today> {
    const { name, timeZone } = this.#served.snapshotOf(company)
    const key = `${name} ${localTime(now, timeZone).toISOString().slice(0, 13)}`
    const known = this.#known.get(company)
    if (known?.key === key) return await known.today
    const today = this.#readNow(company)
    this.#known.set(company, { key, today })
    today.catch(() => {
      if (this.#known.get(company)?.today === today) this.#known.delete(company)
    })
    return await today
  }

  async #readNow(company: string): Promise<Today> {
    const order = { isForeign: false, maxBytes: MAX_BYTES, maxText: MAX_TEXT }
    const statements = Object.values(STATEMENTS)
    // For all who look at it: it does not end with the first one.
    const anybody = { prefix: `hoje ${company}`, isStillValid: () => true }
    try {
      const lake = this.#served.lakeOf(company)
      const { results } = await this.#readers.read(
        anybody,
        { lake, ...order, statements },
        new AbortController().signal,
      )
      const [decisions = NOTHING, agenda = NOTHING, news = NOTHING] = results.map(foundIn)
      return { decisions, agenda, news }
    } catch (error) {
      if (error instanceof FatalError) throw new Refusal(503, error.message, 5)
      throw error
    }
  }
}

const NOTHING: Found = { rows: [], isCut: false }

function foundIn(rows: Rows): Found {
  return { rows: records(rows), isCut: rows.isCut }
}
