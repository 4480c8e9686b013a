import type { Answer, Api } from '#src/core/api/client.ts'

/** The answer to a request for an id; an error is what the client would throw. */
export type Respond = (id: string) => Answer | Error

export type HandMadeApi = Pick<Api, 'notice' | 'analysis' | 'concurrency'> & {
  /** The ids that were asked for, in their order. */
  readonly asked: { readonly notices: string[]; readonly analyses: string[] }
  /** The most requests that were under way at once. */
  readonly mostAtOnce: () => number
}

/** An API without HTTP; unless an answer is given, it has no notice. */
export function handMadeApi({
  notice = () => ABSENT,
  analysis = () => ABSENT,
  concurrency = 1,
}: {
  notice?: Respond
  analysis?: Respond
  concurrency?: number
} = {}): HandMadeApi {
  const asked = { notices: [] as string[], analyses: [] as string[] }
  let [now, most] = [0, 0]
  const answer = async (respond: Respond, ids: string[], id: string) => {
    ids.push(id)
    now += 1
    most = Math.max(most, now)
    // Like an answer over a network, it arrives later.
    await new Promise(setImmediate)
    now -= 1
    const given = respond(id)
    if (given instanceof Error) throw given
    return given
  }
  return {
    asked,
    concurrency,
    mostAtOnce: () => most,
    notice: id => answer(notice, asked.notices, id),
    analysis: id => answer(analysis, asked.analyses, id),
  }
}

export const ABSENT: Answer = { kind: 'absent' }

export const TOO_LARGE: Answer = { kind: 'too_large', excerpt: Buffer.from('{"id":"') }

/** An answer with this document. */
export function bodyOf(document: unknown): Extract<Answer, { kind: 'body' }> {
  return { kind: 'body', bytes: Buffer.from(JSON.stringify(document)) }
}
