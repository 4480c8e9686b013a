import { type ContractField, fieldsBelow, LISTS, PARTS } from './contract_tables.ts'

/*
 * Documents with every field of docs/contract.md, whose values follow from the types there.
 */

type Values = Readonly<Record<string, unknown>>

/** Values that fit together, or that tests rely on; by heading and field. */
const CHOSEN: Values = {
  'Notice.pncp_id': '42498733000148-2026-17',
  'Notice.orgao': 'Município do Rio de Janeiro',
  'Notice.objeto': 'Luvas',
  'Notice.uf': 'RJ',
  // Without an offset, as most writers of the API have it.
  'Notice.data_sessao': '2026-12-01T09:00:00',
  // The phase in which a reason for discard matters.
  'Notice.status': 'discarded',
  'Notice.participation_confirmed': false,
  'Verdict.reason': 'Prazo curto.',
}

/** A notice with every field of docs/contract.md#notice. */
export function healthyNotice(id: string): Values {
  return { ...valuesBelow('Notice'), id }
}

/** An analysis with every field of docs/contract.md#analysis, and one element in each list. */
export function healthyAnalysis(id: string): Values {
  const notice = healthyNotice(id)
  const parts = new Map(Object.entries(PARTS))
  const lists = new Map(Object.entries(LISTS))
  return valuesBelow('Analysis', field => {
    const part = parts.get(field.name)
    const list = lists.get(field.name)
    if (part !== undefined) return valuesBelow(part)
    if (list !== undefined) return [valuesBelow(list)]
    return notice[field.name] ?? typical(field)
  })
}

function valuesBelow(heading: string, value: (field: ContractField) => unknown = typical): Values {
  return Object.fromEntries(
    fieldsBelow(heading).map(field => [field.name, CHOSEN[`${heading}.${field.name}`] ?? value(field)]),
  )
}

function typical({ name, type, values }: ContractField): unknown {
  if (values.length > 0) return values.at(-1)
  if (type in VALUES) return VALUES[type]
  throw new Error(`${name} of docs/contract.md has a type without a value in VALUES: ${type}`)
}

/** By type, as the contract words it. */
const VALUES: Values = {
  string: 'Texto',
  'string, date-time': '2026-11-01T00:00:00Z',
  'number (double)': 1234.5,
  number: 25.5,
  integer: 1,
  boolean: true,
  'array of string': ['Um.'],
  'object (free-form)': { pagina: 3 },
  any: 'Conforme o edital',
}
