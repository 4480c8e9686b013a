import { inFile, type Mutant } from './mutants/mutant.ts'
import { DETECT, FETCH, LOAD, MISSING } from './mutants/pipeline.ts'
import { APPLY, APPLY_MANY, EXPORT, RETENTION, ROWS, SQL } from './mutants/store.ts'

const MARTS = [
  ...inFile('src/marts/passagens_por_fase.sql', [
    {
      name: 'away-is-in-the-phase',
      reason: 'days without the notice count as days in its phase',
      from: 'lead(coalesce(gone_since, observed_at))',
      to: 'lead(observed_at)',
    },
    {
      name: 'entry-was-seen',
      reason: 'a stay that was under way at the first run counts from that run',
      from: 'status_anterior IS NULL AND coalesce(',
      to: 'false AND coalesce(',
    },
  ]),
  ...inFile('src/marts/valor_por_uf.sql', [
    {
      name: 'discarded-at-stake',
      reason: 'what was discarded counts as at stake',
      from: 'soma(CASE WHEN em_andamento THEN valor_somado END)',
      to: 'soma(valor_somado)',
    },
  ]),
  ...inFile('src/marts/republicacoes.sql', [
    {
      name: 'every-text-again-is-the-same-purchase',
      reason: 'new purchases with recurring texts count once',
      from: 'GROUP BY company, comprador, objeto, valor',
      to: 'GROUP BY company, comprador, objeto',
    },
  ]),
  ...inFile('src/marts/funil.sql', [
    {
      name: 'phases-with-notices-alone',
      reason: 'the funnel has gaps',
      from: 'SELECT company, status FROM snapshot_info CROSS JOIN fases',
      to: 'SELECT company, status FROM por_fase',
    },
  ]),
  ...inFile('src/marts/prazos_calculados.sql', [
    {
      name: 'a-weekend-is-open',
      reason: 'days on which offices are closed count as business days',
      from: 'isodow(dia) < 6 AND feriado IS NULL AS certo',
      to: 'feriado IS NULL AS certo',
    },
  ]),
]

export const MUTANTS: readonly Mutant[] = [
  ...DETECT,
  ...MISSING,
  ...FETCH,
  ...LOAD,
  ...SQL,
  ...APPLY,
  ...APPLY_MANY,
  ...EXPORT,
  ...RETENTION,
  ...ROWS,
  ...MARTS,
]
