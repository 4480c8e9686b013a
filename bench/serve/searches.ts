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
