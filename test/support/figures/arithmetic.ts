/** Sums, medians and orders for the model. */

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** The median: the middle value, or the mean of the two in the middle; null if there are no values. */
export function median(values: readonly number[]): number | null {
  const ordered = values.toSorted((a, b) => a - b)
  const [low, high] = [ordered[Math.ceil(ordered.length / 2) - 1], ordered[Math.floor(ordered.length / 2)]]
  return low === undefined || high === undefined ? null : (low + high) / 2
}

/** The values that are not null. */
export function known<T>(values: readonly (T | null)[]): T[] {
  return values.filter(value => value !== null)
}

type Key = string | number | null
/** The sort key of a list's elements, ascending or (`downwards`) descending. */
export type Order<T> = ((element: T) => Key) & { readonly downwards?: true }

export function down<T>(key: (element: T) => Key): Order<T> {
  return Object.assign((element: T) => key(element), { downwards: true as const })
}

/** Sorts by the first key, then the next; elements without a key come last in either direction. */
export function sorted<T>(list: readonly T[], ...orders: readonly Order<T>[]): T[] {
  return list.toSorted((a, b) => {
    for (const order of orders) {
      const difference = compare(order(a), order(b), order.downwards === true)
      if (difference !== 0) return difference
    }
    return 0
  })
}

function compare(a: Key, b: Key, downwards: boolean): number {
  if (a === b) return 0
  if (a === null || b === null) return a === null ? 1 : -1
  return a < b === downwards ? 1 : -1
}
