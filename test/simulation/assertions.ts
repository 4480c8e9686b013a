/** An invariant does not hold. */
export class Violation extends Error {
  override readonly name = 'Violation'
}

export function assertHolds(holds: boolean, what: () => string): asserts holds {
  if (!holds) throw new Violation(what())
}
