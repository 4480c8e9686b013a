/** A seeded source of randomness: the same seed gives the same sequence everywhere. */
export type Random = {
  /** Returns a uniform number in [0, 1). */
  next(): number
  /** Returns a uniform integer between two bounds, both included. */
  int(min: number, max: number): number
  /** Returns true with this probability (0 to 1). */
  chance(probability: number): boolean
  /** Returns one element of a non-empty list. */
  pick<T>(list: readonly T[]): T
  /** Returns one value of `[value, weight]` pairs. */
  weighted<T>(choices: readonly (readonly [T, number])[]): T
  /** Returns up to `count` distinct elements, in random order. */
  sample<T>(list: readonly T[], count: number): T[]
  /** Returns a standard normal number. */
  normal(): number
  /** Returns lower-case hexadecimal digits. */
  hex(digits: number): string
}

/** Starts a sequence. Seeds are compared as text: 1 and '1' are the same. */
export function createRandom(seed: string | number): Random {
  const next = sfc32(String(seed))
  const int = (min: number, max: number) => min + Math.floor(next() * (max - min + 1))
  const pick = <T>(list: readonly T[]): T => at(list, int(0, list.length - 1))
  return {
    next,
    int,
    pick,
    chance: probability => next() < probability,
    weighted(choices) {
      let left = next() * choices.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [value, weight] of choices) {
        left -= weight
        if (left < 0) return value
      }
      return at(choices, choices.length - 1)[0]
    },
    sample(list, count) {
      const rest = [...list]
      return Array.from(
        { length: Math.min(count, rest.length) },
        () => rest.splice(int(0, rest.length - 1), 1)[0] as (typeof rest)[number],
      )
    },
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
    hex: digits => Array.from({ length: digits }, () => int(0, 15).toString(16)).join(''),
  }
}

/** Returns a number in [0, 1) that depends only on the text. */
export function computeFraction(text: string): number {
  return sfc32(text)()
}

function at<T>(list: readonly T[], index: number): T {
  if (index < 0 || index >= list.length) throw new RangeError('nothing to choose from')
  return list[index] as T
}

/** Chris Doty-Humphrey's sfc32, seeded with four FNV-1a hashes of the text. */
function sfc32(seed: string): () => number {
  let a = fnv1a(seed, 0x811c9dc5)
  let b = fnv1a(seed, 0x1b873593)
  let c = fnv1a(seed, 0xcc9e2d51)
  let counter = 1
  const next = () => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return (sum >>> 0) / 0x1_0000_0000
  }
  // Similar seeds start with similar states; twelve rounds separate them.
  for (let round = 0; round < 12; round += 1) next()
  return next
}

function fnv1a(text: string, basis: number): number {
  let hash = basis
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  return hash >>> 0
}
