import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'

const PAGE = 200
/** Events of one answer of the feed. */
export const EVENTS = 200

const TEXTS = [
  'aquisição',
  'servicos limpeza',
  'medicamentos',
  '"merenda escolar"',
  'manuten*',
  'prefeitura obras',
  'de',
  '',
]
const FILTERS = [
  '',
  'uf=SP,RJ,MG',
  'status=analysis,pricing',
  'verdict=participar',
  'session_from=2020-01-01&value_min=50000',
]
const SORTS = ['', 'session', '-value', '-updated']

/** A server, and the key of a company with this many notices. */
export type Served = { readonly url: string; readonly key: string; readonly notices: number }

/** Searches as people and programs send them: with text or without, for a few notices or for nearly all of them. */
export function searchPaths(): string[] {
  return TEXTS.flatMap(text =>
    FILTERS.flatMap(filter =>
      SORTS.map(sort => {
        const query = [text && `q=${encodeURIComponent(text)}`, filter, sort && `sort=${sort}`]
        return `/api/v1/mirror/editais?${query.filter(part => part !== '').join('&')}`
      }),
    ),
  )
}

/** Every page of the list. */
export function pagePaths({ notices }: Served): string[] {
  return Array.from(
    { length: Math.ceil(notices / PAGE) },
    (_, n) => `/api/v1/editais?limit=${PAGE}&offset=${n * PAGE}`,
  )
}

/** Some hundred notices from all over the list. */
export async function noticePaths(served: Served): Promise<string[]> {
  const paths: string[] = []
  for (const path of pagePaths(served)) {
    const { editais } = (await ask(served, path)).answer as { editais: { id: string }[] }
    paths.push(...editais.slice(0, 5).map(({ id }) => `/api/v1/editais/${id}`))
  }
  return paths
}

/** Every answer of the feed that is full, from the beginning of the log. */
export async function changesPaths(served: Served): Promise<string[]> {
  const paths: string[] = []
  for (let path = `/api/v1/mirror/changes?limit=${EVENTS}`; ; ) {
    const { status, answer } = await ask(served, path)
    // Its index is being made.
    if (status === 503) {
      await sleep(500)
      continue
    }
    const page = answer as { next: string; has_more: boolean }
    if (!page.has_more) return paths
    paths.push(path)
    path = `/api/v1/mirror/changes?limit=${EVENTS}&since=${page.next}`
  }
}

async function ask({ url, key }: Served, path: string): Promise<{ status: number; answer: unknown }> {
  const { statusCode, body } = await request(`${url}${path}`, { headers: { 'x-api-key': key } })
  return { status: statusCode, answer: await body.json() }
}
