/** The result of `JSON.rawJSON`: `JSON.stringify` writes its text as it is. */
type RawJSON = { readonly rawJSON: string }

/** The part of ECMAScript's JSON that TypeScript does not describe yet. */
interface JSON {
  /** Returns a number with its text. @throws SyntaxError unless the text is that of one number or another primitive. */
  rawJSON(text: string): RawJSON
  isRawJSON(value: unknown): value is RawJSON
  parse(
    text: string,
    reviver: (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown
}

declare module 'undici/lib/dispatcher/pool.js' {
  export { Pool as default } from 'undici'
}

declare module '*/compile_cache.js' {
  export function keepCompiled(): void
}
