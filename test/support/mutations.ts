import fc from 'fast-check'

/*
 * Mutated documents: valid ones with a few edits. An edit is data (the operation and the node), so that fast-check can
 * shrink a failing document to the one edit that matters.
 */

/**
 * A parsed JSON text: scalars and keys as written, members in order. It can hold what a JavaScript value cannot:
 * duplicate keys, 1e400, escapes.
 */
export type Tree = string | Members | Elements
type Members = { readonly members: readonly Member[] }
type Member = readonly [key: string, value: Tree]
type Elements = { readonly elements: readonly Tree[] }

export function treeOf(value: unknown): Tree {
  if (Array.isArray(value)) return { elements: value.map(treeOf) }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const present = Object.entries(value).filter(([, each]) => each !== undefined)
  return { members: present.map(([key, each]) => [JSON.stringify(key), treeOf(each)]) }
}

export function textOf(tree: Tree): string {
  if (typeof tree === 'string') return tree
  if ('elements' in tree) return `[${tree.elements.map(textOf).join(',')}]`
  return `{${tree.members.map(([key, value]) => `${key}:${textOf(value)}`).join(',')}}`
}

/** JSON texts known to break parsers of JSON, numbers, dates, CSV, SQL and paths. */
const VALUES: readonly string[] = [
  ...['null', 'true', 'false', '{}', '[]', '[null]', '[[]]', '[{}]', '{"a":1}', '["a"]', '[5]', '""', '" "'],
  ...[
    '0',
    '-0',
    '1',
    '1.0',
    '1.5',
    '-1',
    '1e2',
    '1E+2',
    '1e400',
    '-1e400',
    '1e-400',
    '5e-324',
    '1e21',
    '0.0',
  ],
  ...['123456789012', '2147483648', '9007199254740991', '9007199254740993', '9223372036854775808', '1e308'],
  ...[
    '0.1000000000000000055511151231257827',
    '12345678901234567890123',
    '-9007199254740993',
    '9999999999999.99',
  ],
  ...[
    '"12.5"',
    '"1"',
    '"true"',
    '"null"',
    '"NaN"',
    '"Infinity"',
    '"M"',
    '"ready"',
    '"deep"',
    '"none"',
    '"red"',
  ],
  ...[
    '"\\ud800"',
    '"a\\udc00b"',
    '"\\ud83d\\ude00"',
    '"\\u0000"',
    '"a\\u0000b"',
    '"\\u001b[2J\\u0085"',
    '"\\ufeff"',
  ],
  ...['"\\n\\r\\t"', '"\\u2028"', '"\\/\\"\\\\"', '"\\u0041"', '"😀"', '"ação"', '"А"'],
  ...[
    '"=1+1"',
    '"+1"',
    '"-1"',
    '"@SUM(A1)"',
    '"\\t=1"',
    '"=HYPERLINK(\\"http://x\\")"',
    '"<p>x</p>"',
    '"a,b;c"',
  ],
  ...[
    '"\'; DROP TABLE editais; --"',
    '"../../etc/passwd"',
    '".."',
    '"."',
    '"a/b"',
    '"a%2fb"',
    '"C:\\\\x"',
    '"a?b#c"',
  ],
  ...[
    '"2026-03-01T09:00:00"',
    '"2026-03-01"',
    '"2026-03-01 09:00"',
    '"2026-03-01t09:00:00z"',
    '"2026-02-29"',
  ],
  ...['"2026-03-01T09:00:00.123456789-03:00"', '"2026-03-01T09:00:00+0530"', '"2026-03-01T09:00:00,5"'],
  ...[
    '"2018-11-04T00:30:00"',
    '"2018-02-17T23:30:00"',
    '"1900-01-01T00:00:00"',
    '"0001-01-01T00:00:00+14:00"',
  ],
  ...[
    '"9999-12-31T23:59:59.999999999-12:00"',
    '"0000-01-01"',
    '"2026-03-01T24:00:00"',
    '"2026-03-01T23:59:60Z"',
  ],
  ...[
    '"01/03/2026 09:00"',
    '"1772366400"',
    '"2026-3-1"',
    '"+002026-03-01T09:00:00Z"',
    '"2026-03-01T09:00:00+15:59"',
  ],
  ...[
    '"2026-03-01T09:00:00 "',
    '"2026-03-01T09:00:00\\u00a0Z"',
    '"2026-03-01T09:00:00-03"',
    '"２０２６-03-01"',
  ],
  ...[
    '{"__proto__":{"id":"x"}}',
    '{"toJSON":1}',
    '{"a":"\\ud800","a":1}',
    '{"\\ud800":1,"\\udc00":2}',
    '{"":0}',
  ],
  ...['"12345678901234-2026-9223372036854775808"', '"12345678901234-2026-000012"', '"1-2-3"'],
]

/** Names, as JSON writes them, that are similar to the contract's or have a meaning in JavaScript. */
const KEYS: readonly string[] = [
  ...[
    '"id"',
    '"pncp_id"',
    '"objeto"',
    '"status"',
    '"updated_at"',
    '"data_sessao"',
    '"items"',
    '"verdict"',
    '"title"',
  ],
  ...[
    '"ID"',
    '"Objeto"',
    '"OBJETO"',
    '"Status"',
    '"Items"',
    '"id "',
    '"\\u0069d"',
    '"obj\\u0065to"',
    '"objeto\\u0000"',
  ],
  ...[
    '"__proto__"',
    '"constructor"',
    '"toJSON"',
    '"hasOwnProperty"',
    '"length"',
    '""',
    '"0"',
    '"1"',
    '"a.b"',
    '"[]"',
  ],
  ...[
    '"\\ud800"',
    '"\\u0000"',
    '"\\""',
    '"novo"',
    '"numero_item"',
    '"descricao"',
    '"quantidade"',
    '"metadata"',
  ],
  ...['"lei_aplicavel"', '"LEI_APLICAVEL"', '"is_srp"', '"bullets"', `"${'k'.repeat(300)}"`],
]

const PIECES: readonly string[] = [
  ...[
    '\\u0000',
    '\\ud800',
    '\\udfff',
    '\\ud83d\\ude00',
    '\\n',
    '\\u2029',
    '\\\\',
    '\\"',
    '\u00a0',
    '\u200b',
    '=',
    '<b>',
  ],
  ...['\\ufeff', 'ç', '\u{1f600}', '\\u0085', "'", ';', '--', 'x'.repeat(500)],
]

export type Edit = {
  readonly do: 'replace' | 'remove' | 'repeat' | 'insert' | 'copy' | 'nest' | 'rename' | 'splice'
  /** Index of the node in text order, modulo their number. */
  readonly at: number
  /** A second number: another node, a depth, a position in a text. */
  readonly to: number
  readonly text: string
  readonly key: string
}

export type ByteEdit = {
  readonly do: 'flip' | 'cut' | 'insert' | 'drop'
  /** Position as a share of the length. */
  readonly at: number
  readonly byte: number
}

export type Mutation = {
  /** Index of the valid document, modulo their number. */
  readonly base: number
  readonly edits: readonly Edit[]
  /** Applied to the encoded text, after the edits. */
  readonly bytes: readonly ByteEdit[]
}

const value = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(...VALUES) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }).map(each => JSON.stringify(each)) },
  { weight: 1, arbitrary: fc.double().map(each => JSON.stringify(each)) },
  { weight: 1, arbitrary: fc.json({ maxDepth: 2 }) },
)

const edit: fc.Arbitrary<Edit> = fc.record({
  do: fc.constantFrom(
    ...([
      'replace',
      'replace',
      'replace',
      'remove',
      'repeat',
      'insert',
      'copy',
      'nest',
      'rename',
      'splice',
    ] as const),
  ),
  at: fc.nat(100_000),
  to: fc.nat(100_000),
  text: value,
  key: fc.constantFrom(...KEYS),
})

const byteEdit: fc.Arbitrary<ByteEdit> = fc.record({
  do: fc.constantFrom(...(['flip', 'cut', 'insert', 'drop'] as const)),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  byte: fc.nat(255),
})

/** @param bytes whether some are also edited as bytes; the result may then be invalid JSON. */
export function mutation({ bytes }: { bytes: boolean }): fc.Arbitrary<Mutation> {
  const structural = fc.constant<ByteEdit[]>([])
  return fc.record({
    base: fc.nat(1000),
    edits: fc.array(edit, { maxLength: 4, size: 'max' }),
    bytes: bytes
      ? fc.oneof(
          { weight: 5, arbitrary: structural },
          { weight: 1, arbitrary: fc.array(byteEdit, { minLength: 1, maxLength: 3 }) },
        )
      : structural,
  })
}

/** The bytes of a mutated document. @param bases at least one valid document; its id is replaced by `id`. */
export function mutated({ base, edits, bytes }: Mutation, bases: readonly Tree[], id: string): Buffer {
  const tree = edits.reduce(edited, withId(bases[base % bases.length] as Tree, id))
  return bytes.reduce(editedBytes, Buffer.from(textOf(tree)))
}

function withId(tree: Tree, id: string): Tree {
  if (typeof tree === 'string' || !('members' in tree)) return tree
  return {
    members: tree.members.map(member => (member[0] === '"id"' ? ['"id"', JSON.stringify(id)] : member)),
  }
}

function edited(tree: Tree, edit: Edit): Tree {
  const place = { left: edit.at % size(tree) }
  return replaced(tree, place, node => change(tree, node, edit)) ?? 'null'
}

/** Returns the members that replace a member, or the elements that replace an element. */
type Change = (node: Node) => Node[]
type Node = { readonly key: string | null; readonly value: Tree }

function size(tree: Tree): number {
  if (typeof tree === 'string') return 1
  return children(tree).reduce((sum, child) => sum + size(child), 1)
}

function children(tree: Members | Elements): readonly Tree[] {
  return 'elements' in tree ? tree.elements : tree.members.map(([, value]) => value)
}

function replaced(tree: Tree, place: { left: number }, change: Change): Tree | undefined {
  if (place.left === 0) return change({ key: null, value: tree })[0]?.value
  if (typeof tree === 'string') return tree
  const isArray = 'elements' in tree
  const nodes: Node[] = isArray
    ? tree.elements.map(value => ({ key: null, value }))
    : tree.members.map(([key, value]) => ({ key, value }))
  place.left -= 1
  for (const [index, node] of nodes.entries()) {
    const count = size(node.value)
    if (place.left >= count) {
      place.left -= count
      continue
    }
    if (place.left === 0) nodes.splice(index, 1, ...change(node))
    else nodes[index] = { ...node, value: replaced(node.value, place, change) as Tree }
    break
  }
  return isArray
    ? { elements: nodes.map(node => node.value) }
    : { members: nodes.map(({ key, value }) => [key ?? '"0"', value]) }
}

function change(whole: Tree, node: Node, edit: Edit): Node[] {
  const { key, value } = node
  switch (edit.do) {
    case 'replace':
      return [{ key, value: edit.text }]
    case 'remove':
      return []
    case 'repeat':
      return edit.to % 2 ? [node, { key, value: edit.text }] : [{ key, value: edit.text }, node]
    case 'insert':
      return [{ key, value: inserted(value, edit) }]
    case 'copy':
      return [{ key, value: nodeAt(whole, { left: edit.to % size(whole) }) }]
    case 'nest':
      return [{ key, value: nested(value, edit) }]
    case 'rename':
      return [{ key: key === null ? null : edit.key, value }]
    case 'splice':
      return [{ key, value: spliced(value, edit) }]
  }
}

function inserted(value: Tree, { to, text, key }: Edit): Tree {
  if (typeof value === 'string') return text
  if ('elements' in value) {
    const at = to % (value.elements.length + 1)
    return { elements: value.elements.toSpliced(at, 0, text) }
  }
  return { members: value.members.toSpliced(to % (value.members.length + 1), 0, [key, text]) }
}

function nodeAt(tree: Tree, place: { left: number }): Tree {
  if (place.left === 0 || typeof tree === 'string') return tree
  place.left -= 1
  for (const child of children(tree)) {
    const count = size(child)
    if (place.left < count) return nodeAt(child, place)
    place.left -= count
  }
  return tree
}

/** Mostly a few levels; sometimes close to the limit, sometimes far more. */
function nested(value: Tree, { to, key }: Edit): Tree {
  const levels = [1, 2, 3, 95, 97, 98, 99, 100, 101, 1500][to % 10] as number
  const [open, close] = to % 3 === 0 ? ['[', ']'] : [`{${key}:`, '}']
  return open.repeat(levels) + textOf(value) + close.repeat(levels)
}

function spliced(value: Tree, { to }: Edit): Tree {
  if (typeof value !== 'string') return value
  if (!value.startsWith('"'))
    return /^-?\d/.test(value)
      ? `${value}${['e2', 'e400', 'e-400', 'E0'][to % 4]}`.replace(/(e.*)e.*/i, '$1')
      : value
  const piece = PIECES[to % PIECES.length] as string
  return to % 2 ? `"${piece}${value.slice(1)}` : `${value.slice(0, -1)}${piece}"`
}

function editedBytes(bytes: Buffer, edit: ByteEdit): Buffer {
  const at = Math.min(bytes.length, Math.floor(edit.at * (bytes.length + 1)))
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  switch (edit.do) {
    case 'flip':
      return Buffer.concat([
        before,
        after.subarray(0, 1).map(byte => byte ^ (1 << (edit.byte % 8))),
        after.subarray(1),
      ])
    case 'cut':
      return Buffer.from(before)
    case 'insert':
      return Buffer.concat([before, Buffer.of(edit.byte), after])
    case 'drop':
      return Buffer.concat([before, after.subarray(1)])
  }
}
