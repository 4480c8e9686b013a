import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A wording of `test/corpus/deadlines/wordings.tsv`, with what a careful reader makes of it. */
export type Wording = {
  readonly line: number
  readonly text: string
  readonly session: string
  /** Day, or null if there is none. */
  readonly contest: string | null
  /** These are undefined if the corpus leaves them open. */
  readonly questions: string | null | undefined
  readonly certainty: string | undefined
  /** `lei`, `modalidade` and `uf` of the notice. */
  readonly notice: Readonly<Record<string, string>>
}

const FILE = join(import.meta.dirname, '../corpus/deadlines/wordings.tsv')
const SESSION = '2026-12-09T09:00:00'

export function readWordings(): Wording[] {
  return readFileSync(FILE, 'utf8')
    .split('\n')
    .flatMap((row, index) => {
      if (row === '' || row.startsWith('#')) return []
      const [session = '', contest = '', questions = '', certainty = '', notice = '', text = ''] =
        row.split('\t')
      return [
        {
          line: index + 1,
          text: unescaped(text),
          session: session === '-' ? SESSION : `${session}:00`,
          contest: dayOf(contest),
          questions: questions === '-' ? undefined : dayOf(questions),
          certainty: certainty === '-' ? undefined : certainty,
          notice: Object.fromEntries(
            notice === '-' ? [] : notice.split('; ').map(part => part.split('=') as [string, string]),
          ),
        },
      ]
    })
}

function dayOf(cell: string): string | null {
  return cell === 'nenhum' ? null : cell
}

function unescaped(text: string): string {
  return text
    .replace(/\\u([0-9a-f]{4})|\\([ntr])/g, (_, code, letter) =>
      code === undefined
        ? ({ n: '\n', t: '\t', r: '\r' }[letter as 'n' | 't' | 'r'] as string)
        : String.fromCharCode(Number.parseInt(code, 16)),
    )
    .replace(/\{\{(.+?)\*(\d+)\}\}/g, (_, part, times) => part.repeat(Number(times)))
}
