import type { paths as ContractPaths, components } from './generated/contract.js'
import type { paths as MirrorPaths, operations } from './generated/mirror.js'

/** All paths of both OpenAPI documents. */
export interface Paths extends ContractPaths, MirrorPaths {}

type Json = 'application/json'
type Content = { readonly content: Readonly<Record<Json, unknown>> }
type Operation = { readonly parameters: unknown; readonly responses: { readonly 200: Content } }

/** The paths whose `GET` has a JSON document. */
export type Path = {
  [P in keyof Paths]: Paths[P] extends { get: Operation } ? P : never
}[keyof Paths]

type Get<P extends Path> = Paths[P] extends { get: infer O extends Operation } ? O : never

/** What a path answers. */
export type DocumentOf<P extends Path> = Get<P>['responses'][200]['content'][Json]

/** Undefined is the same as left out. */
type Optional<Names> = { readonly [Name in keyof Names]?: Names[Name] | undefined }

type InPath<P extends Path> = Get<P>['parameters'] extends { path: infer Names }
  ? { readonly path: Names }
  : { readonly path?: never }

type InQuery<P extends Path> = Get<P>['parameters'] extends { query?: infer Names }
  ? { readonly query?: Optional<NonNullable<Names>> }
  : { readonly query?: never }

type Abortable = { readonly signal?: AbortSignal | undefined }

/** The parameters of a path. */
export type GetOptions<P extends Path> = InPath<P> & InQuery<P> & Abortable

type QueryOf<Name extends 'search' | 'changes'> = Optional<
  NonNullable<operations[Name]['parameters']['query']>
>

export type Notice = components['schemas']['Edital']
export type Analysis = components['schemas']['EditalAnalysis']

/** A page of a search. */
export type SearchPage = DocumentOf<'/api/v1/mirror/editais'>
export type SearchFilters = Omit<QueryOf<'search'>, 'cursor'>
export type SearchOptions = Abortable

/** Changes, and `next`, the cursor after them. */
export type ChangesPage = DocumentOf<'/api/v1/mirror/changes'>
export type ChangeEvent = ChangesPage['events'][number]
export type ChangesOptions = QueryOf<'changes'> & Abortable

/** What a line of an export is, by `what`. */
export type ExportLines = {
  notices: Notice
  analyses: Analysis
  both: { edital: Notice; analysis: Analysis | null }
}
export type What = keyof ExportLines
export type ExportOptions<W extends What> = { readonly what: W } & Abortable
