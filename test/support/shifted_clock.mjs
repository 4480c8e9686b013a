// Loaded before a program (`node --import`): its clock differs from the machine's by CLOCK_AHEAD_MS.
const aheadMs = Number(process.env.CLOCK_AHEAD_MS ?? 0)
const Right = Date
globalThis.Date = class extends Right {
  constructor(...given) {
    if (given.length === 0) super(Right.now() + aheadMs)
    else super(...given)
  }

  static now() {
    return Right.now() + aheadMs
  }
}
