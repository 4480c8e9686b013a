import { type ContractField, fieldsBelow, LISTS, PARTS } from '../contract_tables.ts'

export type Kind = 'text' | 'number' | 'integer' | 'boolean' | 'moment' | 'id'

export type Spec =
  | { readonly is: Kind; readonly words?: readonly string[] }
  | { readonly is: 'object'; readonly members: Members }
  | { readonly is: 'list'; readonly each: Spec }
  /** Any value is kept; another kind, or a member that is not listed, is reported. */
  | { readonly is: 'free'; readonly kind: 'object' | 'text'; readonly members?: Members }

/** Names of required members end in `!`. */
export type Members = Readonly<Record<string, Spec>>

const KINDS: Readonly<Record<string, Kind>> = {
  string: 'text',
  'string, enum': 'text',
  'string, date-time': 'moment',
  number: 'number',
  'number (double)': 'number',
  integer: 'integer',
  boolean: 'boolean',
}

/** The members of the object whose fields are in the contract's table below a heading. */
function membersBelow(heading: string): Members {
  // Any value fits a field without a type.
  const typed = fieldsBelow(heading).filter(({ type }) => type !== 'any')
  return Object.fromEntries(
    typed.map(field => [field.presence === 'always' ? `${field.name}!` : field.name, specOf(field)]),
  )
}

function specOf({ name, type, values }: ContractField): Spec {
  if (name === 'id') return { is: 'id' }
  if (name in LISTS) {
    return { is: 'list', each: { is: 'object', members: membersBelow(LISTS[name as keyof typeof LISTS]) } }
  }
  if (type === 'array of string') return { is: 'list', each: { is: 'free', kind: 'text' } }
  const members = name in PARTS ? membersBelow(PARTS[name as keyof typeof PARTS]) : undefined
  if (type === 'object (free-form)') return { is: 'free', kind: 'object', ...(members && { members }) }
  if (members) return { is: 'object', members }
  const kind = KINDS[type]
  if (kind === undefined) throw new Error(`docs/contract.md: ${name} has the unknown type ${type}`)
  return { is: kind, ...(values.length > 0 && { words: values }) }
}

export const MEMBERS = { notice: membersBelow('Notice'), analysis: membersBelow('Analysis') }
