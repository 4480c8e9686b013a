import { down, sorted } from './arithmetic.ts'
import { type Document, textOf } from './contract.ts'
import { elementsOf, type Picture } from './picture.ts'
import { plain, seen } from './spelling.ts'

/** Of the contract's states, the worst first, with their names. */
const COLOURS = { red: 'vermelho', yellow: 'amarelo', green: 'verde' }
const SEVERITIES = { critical: 'crítica', high: 'alta', medium: 'média', low: 'baixa' }

type Element = { readonly title: string | null; readonly state: string; readonly rank: number }

/** What of an analysis is followed, by its name. An opportunity has no worse state. */
const PARTS: Readonly<Record<string, (analysis: Document) => Element[]>> = {
  Requisito: analysis => elementsOf(analysis, 'requirements').map(one => elementOf(one, one.status, COLOURS)),
  Alerta: analysis =>
    elementsOf(analysis, 'alerts')
      .filter(({ type }) => type !== 'opportunity')
      .map(one => elementOf(one, one.severity, SEVERITIES)),
  Oportunidade: analysis =>
    elementsOf(analysis, 'alerts')
      .filter(({ type }) => type === 'opportunity')
      .map(one => ({ ...elementOf(one, one.severity, SEVERITIES), rank: UNRANKED })),
}

const UNRANKED = 9

function elementOf({ title }: Document, code: unknown, names: Readonly<Record<string, string>>): Element {
  const known = textOf(code)
  const rank = Object.keys(names).indexOf(known ?? '')
  const state = known === null ? 'não avaliado' : (names[known] ?? known)
  return { title: seen(textOf(title)), state, rank: rank < 0 ? UNRANKED : rank }
}

/** What appeared, went, or changed its state between two analyses; the first list that has something is no change. */
export function partChangesOf({ all, history }: Picture) {
  const changes = all.flatMap(notice =>
    Object.entries(PARTS).flatMap(([part, read]) => {
      const lists = (history.followed.get(notice.id)?.versions ?? []).map(({ analysis, at }) => ({
        at,
        elements: read(analysis),
      }))
      const known = lists.slice(lists.findIndex(({ elements }) => elements.length > 0))
      return known.slice(1).flatMap(({ at, elements }, index) =>
        differences(known[index]?.elements ?? [], elements).map(change => ({
          notice,
          at,
          part,
          ...change,
        })),
      )
    }),
  )
  return sorted(
    changes,
    down(({ at }) => at.getTime()),
    ({ notice }) => notice.id,
    ({ part }) => part,
    ({ title }) => title,
    // NULLs come last.
    ({ from }) => from ?? '\u{10ffff}',
    ({ to }) => to ?? '\u{10ffff}',
  )
}

function differences(before: readonly Element[], after: readonly Element[]) {
  const [were, are] = [before, after].map(elements =>
    Map.groupBy(elements, ({ title }) => plain(title ?? '').toLowerCase()),
  ) as [Map<string, Element[]>, Map<string, Element[]>]
  return [...new Set([...were.keys(), ...are.keys()])].flatMap(title => {
    const [gone, come] = [[...(were.get(title) ?? [])], [] as Element[]]
    for (const element of are.get(title) ?? []) {
      const same = gone.findIndex(({ state }) => state === element.state)
      if (same < 0) come.push(element)
      else gone.splice(same, 1)
    }
    const [left, right] = [gone, come].map(some => some.toSorted((a, b) => a.rank - b.rank)) as [
      Element[],
      Element[],
    ]
    return Array.from({ length: Math.max(left.length, right.length) }, (_, place) =>
      changeOf(left[place], right[place]),
    )
  })
}

function changeOf(was: Element | undefined, is: Element | undefined) {
  return {
    title: (is ?? was)?.title ?? 'sem título',
    from: was?.state ?? null,
    to: is?.state ?? null,
    sense: senseOf(was, is),
  }
}

function senseOf(was: Element | undefined, is: Element | undefined): string {
  if (!was) return 'novo'
  if (!is) return 'retirado'
  if (was.rank === is.rank || was.rank === UNRANKED || is.rank === UNRANKED) return 'outro'
  return is.rank > was.rank ? 'melhor' : 'pior'
}
