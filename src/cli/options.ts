import { InvalidArgumentError } from 'commander'

/** Reads the value of an option that counts. */
export function wholeNumber(min: number): (text: string) => number {
  return text => {
    if (/^\d{1,9}$/.test(text) && Number(text) >= min) return Number(text)
    throw new InvalidArgumentError(`Give a whole number from ${min}.`)
  }
}

/** The value of an option that waits. */
export function parseSeconds(value: string): number {
  if (!/^\d{1,6}$/.test(value)) throw new InvalidArgumentError('Give a whole number of seconds.')
  return Number(value)
}
