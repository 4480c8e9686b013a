import type { Answer } from './ask.js'
import { ApiError, ConnectionFailed, SnapshotGone } from './errors.js'
import type { Request, Server } from './server.js'

/** What was received of a download, and of which version of it: an ETag. */
type Progress = { readonly bytes: number; readonly version: string | null }

/**
 * The bytes of a download. After a lost connection it continues where it was, in the same version.
 * @throws SnapshotGone if that version is no longer there.
 */
export async function* download(
  server: Server,
  request: Request,
): AsyncGenerator<Uint8Array, void, undefined> {
  const patience = server.patience(request.signal)
  let progress: Progress = { bytes: 0, version: null }
  for (;;) {
    const answer = await patience.persist(() => openAfter(server, request, progress))
    if (answer === null) return
    const version = answer.headers.get('etag')
    try {
      for await (const piece of piecesOf(answer)) {
        progress = { bytes: progress.bytes + piece.length, version }
        patience.renew()
        yield piece
      }
      return
    } catch (error) {
      // Without its version, nobody knows whether a rest fits to what was received.
      if (!(error instanceof ConnectionFailed) || version === null) throw error
      await patience.waitAfter(error)
    } finally {
      answer.close()
    }
  }
}

/** The answer with the rest; null if there are no bytes at all, as of a company without notices. */
async function openAfter(
  server: Server,
  request: Request,
  { bytes, version }: Progress,
): Promise<Answer | null> {
  // A range already at the beginning: runtimes ask for compressed answers by themselves, which cannot be resumed, but
  // not together with a range.
  const headers = { range: `bytes=${bytes}-`, ...(version === null ? {} : { 'if-range': version }) }
  const answer = await server.open({ ...request, headers }).catch(error => {
    if (error instanceof ApiError && error.status === 416 && bytes === 0) return null
    throw error
  })
  if (answer === null || bytes === 0) return answer
  if (answer.status === 206 && answer.headers.get('etag') === version) return answer
  answer.close()
  throw new SnapshotGone({
    ...{ request: `GET ${request.path}`, status: answer.status, error: 'snapshot_gone', retryAfterMs: null },
    detail: 'Its snapshot was replaced while the connection was lost. Begin again, and forget what was read.',
  })
}

/** @throws ConnectionFailed also if the answer is shorter than announced, which not all runtimes notice. */
async function* piecesOf(answer: Answer): AsyncGenerator<Uint8Array, void, undefined> {
  let left = answer.status === 206 ? Number(answer.headers.get('content-length')) : 0
  for (let piece = await answer.read(); piece !== null; piece = await answer.read()) {
    left -= piece.length
    yield piece
    // All is there, even if the connection is lost before it says so.
    if (left === 0) return
  }
  if (left > 0) throw new ConnectionFailed(answer.origin, new Error('the answer ended early'))
}
