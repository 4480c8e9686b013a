import type { Random } from '#src/sandbox/random.ts'
import { SENTENCES } from './vocabulary.ts'

/** More than one segment of the raw log uses, so that a compressor sees few sentences twice. */
const POOL_SENTENCES = 30_000
const MIN_WORDS = 6
const MAX_WORDS = 22

/** Texts of a given length, from a pool of sentences generated once. */
export type Texts = {
  /** Whole sentences up to at least this many characters, as the content of a JSON string. */
  ofLength(characters: number): string
}

/** Generates the pool: about 3 million characters. Expects words that need no escaping in JSON. */
export function createTexts(random: Random): Texts {
  const followers = wordsByPredecessor()
  const pool = Array.from({ length: POOL_SENTENCES }, () => sentence(followers, random))
  return {
    ofLength(characters) {
      let text = random.pick(pool)
      while (text.length < characters) {
        const joint = random.chance(0.04) ? `\\n${random.int(1, 20)}.${random.int(1, 30)}. ` : ' '
        text += joint + random.pick(pool)
      }
      return text
    },
  }
}

/** Which words follow a word; words that begin a sentence follow the empty word. */
function wordsByPredecessor(): ReadonlyMap<string, readonly string[]> {
  const followers = new Map<string, string[]>()
  for (const known of SENTENCES) {
    const words = known.split(' ')
    for (const [index, word] of words.entries()) {
      const before = index === 0 ? '' : (words[index - 1] as string)
      followers.set(before, [...(followers.get(before) ?? []), word])
    }
  }
  return followers
}

function sentence(followers: ReadonlyMap<string, readonly string[]>, random: Random): string {
  const length = random.int(MIN_WORDS, MAX_WORDS)
  const words: string[] = []
  let word = ''
  while (words.length < length) {
    word = random.pick(followers.get(word) ?? (followers.get('') as readonly string[]))
    words.push(word)
    // Notices are full of numbers, which repeat least.
    if (random.chance(0.06)) words.push(`${random.int(1, 999)},${random.int(10, 99)}`)
  }
  return `${words.join(' ').replace(/[.,;]$/, '')}.`
}
