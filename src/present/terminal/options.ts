import { Command, InvalidArgumentError } from 'commander'

export type CompanyOptions = { readonly company?: string; readonly json?: true }

/** Returns a command that does one thing with one company, and prints the result. */
export function createCompanyCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--company <slug>', 'company to use, instead of COMPANY')
    .option('--json', 'print the result as one JSON object')
}

/** Parses an option that takes a count. */
export function wholeNumber(min: number): (text: string) => number {
  return text => {
    if (/^\d{1,9}$/.test(text) && Number(text) >= min) return Number(text)
    throw new InvalidArgumentError(`Expected a whole number, at least ${min}.`)
  }
}

/** Parses an option that takes a waiting time. */
export function parseSeconds(value: string): number {
  if (!/^\d{1,6}$/.test(value)) throw new InvalidArgumentError('Expected a whole number of seconds.')
  return Number(value)
}
