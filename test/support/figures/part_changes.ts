import { down, sorted } from './arithmetic.ts'
import { type Document, textOf } from './contract.ts'
import { elementsOf, type Picture } from './picture.ts'
import { plain, seen } from './spelling.ts'

/** Requirements and alerts in which an analysis differs from the one before; an element is found again by its title, in any spelling. */
export function partChangesOf({ all, history }: Picture) {
  const changes = all.flatMap(notice => {
    const versions = history.followed.get(notice.id)?.versions ?? []
    return (['requirements', 'alerts'] as const).flatMap(list => {
      const lists = versions.map(({ analysis, at }) => ({ at, elements: elementsOf(analysis, list) }))
      // The first list that has something is no change.
      const known = lists.slice(lists.findIndex(({ elements }) => elements.length > 0))
      return known.slice(1).flatMap(({ at, elements }, index) => {
        const [before, after] = [byTitle(known[index]?.elements ?? []), byTitle(elements)]
        return [...new Set([...before.keys(), ...after.keys()])].flatMap(key => {
          const [was, is] = [before.get(key), after.get(key)]
          const [from, to] = [was, is].map(one => (one === undefined ? null : stateOf(list, one)))
          if (from === to) return []
          const title = seen(textOf((is ?? was)?.title)) ?? 'sem título'
          return [{ notice, at, list, title, from, to, sense: partSenseOf(list, was, is) }]
        })
      })
    })
  })
  return sorted(
    changes,
    down(({ at }) => at.getTime()),
    ({ notice }) => notice.id,
    ({ list }) => PART_NAMES[list],
    ({ title }) => title,
    // What is missing comes last.
    ({ from }) => from ?? '\u{10ffff}',
    ({ to }) => to ?? '\u{10ffff}',
  )
}

export const PART_NAMES = { requirements: 'Requisito', alerts: 'Alerta' }

function byTitle(elements: readonly Document[]): Map<string, Document> {
  const found = new Map<string, Document>()
  for (const element of elements) {
    const title = plain(seen(textOf(element.title)) ?? '').toLowerCase()
    let place = 1
    while (found.has(`${place} ${title}`)) place += 1
    found.set(`${place} ${title}`, element)
  }
  return found
}

/** Of the contract's states, the worst first, with their names. */
const STATES = {
  requirements: { red: 'vermelho', yellow: 'amarelo', green: 'verde' },
  alerts: { critical: 'crítica', high: 'alta', medium: 'média', low: 'baixa' },
} as const

type List = keyof typeof STATES

function codeOf(list: List, { status, severity }: Document): string | null {
  return textOf(list === 'requirements' ? status : severity)
}

function stateOf(list: List, element: Document): string {
  const code = codeOf(list, element)
  const names: Readonly<Record<string, string>> = STATES[list]
  return code === null ? 'não avaliado' : (names[code] ?? code)
}

function partSenseOf(list: List, was?: Document, is?: Document): string {
  if (!was) return 'novo'
  if (!is) return 'retirado'
  const codes = Object.keys(STATES[list])
  const [before = -1, after = -1] = [was, is].map(one => codes.indexOf(codeOf(list, one) ?? ''))
  if (before < 0 || after < 0 || before === after) return 'outro'
  return after > before ? 'melhor' : 'pior'
}
