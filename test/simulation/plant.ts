/** A plausible bug, as a replacement in one file; `from` occurs in it exactly once. */
export type Planted = {
  readonly invariant: string
  readonly name: string
  readonly file: string
  readonly from: string
  readonly to: string
  /** Caught in worlds of another kind. */
  readonly of?: '--hosts' | '--feed'
}
