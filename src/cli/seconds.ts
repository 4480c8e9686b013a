import { InvalidArgumentError } from 'commander'

/** The value of an option that waits. */
export function parseSeconds(value: string): number {
  if (!/^\d{1,6}$/.test(value)) throw new InvalidArgumentError('Give a whole number of seconds.')
  return Number(value)
}
