import type { World } from '#src/sandbox/world.ts'

/** Items of the large analysis: 9 MB as JSON. */
const LARGE_ITEMS = 40_000
/** A text whose end takes long to trim. */
const DASHES = `${'-'.repeat(19_985)}${'z'.repeat(300)}`
const DASHED_REQUIREMENTS = 150
/** Texts that repeat a word, and what is searched in them. */
const REPETITIVE = { notices: 200, objeto: 'aa '.repeat(20_000) }
export const REPETITIVE_PHRASE = `"${Array.from({ length: 32 }, () => 'aa').join(' ')}"`

/** Ids of notices that a stranger made to hurt who serves them. */
export type HostileNotices = { readonly large: string; readonly dashed: string }

/** Replaces some notices of a world. It must have more than `REPETITIVE.notices`. */
export function addHostileNotices(world: World): HostileNotices {
  const [large = '', dashed = '', ...others] = world.ids()
  const items = Array.from({ length: LARGE_ITEMS }, (_, n) => ({
    numero_item: n + 1,
    descricao: `Item ${n + 1}: ${'descrição completa do objeto '.repeat(5)}`,
    quantidade: n % 97,
    unidade_medida: 'UN',
    valor_unitario_estimado: (n % 1000) / 4,
  }))
  world.update(large, { analysis: { items, analysis_level: 'deep', analyzed: true } })
  const requirements = Array.from({ length: DASHED_REQUIREMENTS }, () => ({
    category: 'outros',
    title: DASHES,
    status: 'red',
  }))
  world.update(dashed, { analysis: { requirements, analysis_level: 'deep', analyzed: true } })
  for (const id of others.slice(0, REPETITIVE.notices))
    world.update(id, { edital: { objeto: REPETITIVE.objeto } })
  return { large, dashed }
}
