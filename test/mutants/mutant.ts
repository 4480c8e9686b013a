/** A mistake that somebody could make, as a replacement in one file; `from` stands there exactly once. */
export type Mutant = {
  readonly name: string
  /** What goes wrong with it. */
  readonly reason: string
  readonly file: string
  readonly from: string
  readonly to: string
}

type Replaced = Omit<Mutant, 'file'>

export function inFile(file: string, mutants: readonly Replaced[]): Mutant[] {
  return mutants.map(mutant => ({ ...mutant, file }))
}
