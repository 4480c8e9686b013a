import { readSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { zstdDecompressSync } from 'node:zlib'
import { getMessage } from '#src/lib/errors.ts'
import { BOTH } from './lines.ts'

/** Lines to make of analyses that are in a file, and of the notices that they belong to. */
export type UnpackOrder = {
  /** An open file of this process. */
  readonly file: number
  /** For each notice, where its analysis is in the file: offset, bytes, and bytes when unpacked; offset -1 for none. */
  readonly frames: Float64Array
  /** The notices, each followed by a comma, and the bytes of each; null for lines of analyses alone. */
  readonly notices: { readonly bytes: Uint8Array; readonly sizes: Float64Array } | null
  /** Bytes of all lines. */
  readonly size: number
  /** The buffer for the lines; null for memory of their own. */
  readonly into: SharedArrayBuffer | null
}

/** `lines` are null if they went where the order said. */
export type UnpackResult = { readonly lines: Uint8Array<ArrayBuffer> | null } | { readonly error: string }

/** One chunk is enough for any frame: a further one would cost as much as all the rest. */
const SPARE_BYTES = 1024
const NEWLINE = 10
const NONE = -1
const [BEFORE, BETWEEN, WITHOUT, AFTER] = [BOTH.before, BOTH.between, BOTH.none, BOTH.after].map(text =>
  Buffer.from(text),
) as [Buffer, Buffer, Buffer, Buffer]

// A thread: unpacking takes most of the time of an export, and the server keeps answering.
parentPort?.on('message', (order: UnpackOrder) => {
  try {
    const lines = order.into ? null : new Uint8Array(order.size)
    unpack(order, lines ?? new Uint8Array(order.into as SharedArrayBuffer, 0, order.size))
    parentPort?.postMessage({ lines } satisfies UnpackResult, lines ? [lines.buffer] : [])
  } catch (error) {
    parentPort?.postMessage({ error: getMessage(error) } satisfies UnpackResult)
  }
})

/** Unpacks the lines of a file. @throws Error if the file is damaged. */
function unpack({ file, frames, notices, size }: UnpackOrder, lines: Uint8Array): void {
  let [end, notice] = [0, 0]
  const add = (bytes: Uint8Array) => {
    lines.set(bytes, end)
    end += bytes.length
  }
  for (let number = 0; number < frames.length / 3; number += 1) {
    const [at, bytes, unpacked] = [0, 1, 2].map(part => frames[number * 3 + part] as number) as [
      number,
      number,
      number,
    ]
    const analysis = at === NONE ? null : readFrame(file, { at, bytes, unpacked })
    if (notices) {
      const noticeBytes = notices.sizes[number] as number
      add(BEFORE)
      add(notices.bytes.subarray(notice, notice + noticeBytes))
      notice += noticeBytes + 1
      add(BETWEEN)
      add(analysis ?? WITHOUT)
      add(AFTER)
    } else if (analysis) add(analysis)
    else continue
    lines[end] = NEWLINE
    end += 1
  }
  if (end !== size) throw new Error(`the lines have ${end} bytes instead of ${size}`)
}

function readFrame(
  file: number,
  { at, bytes, unpacked }: { readonly at: number; readonly bytes: number; readonly unpacked: number },
): Buffer {
  const frame = Buffer.allocUnsafe(bytes)
  const read = readSync(file, frame, 0, bytes, at)
  if (read !== bytes) throw new Error(`an analysis has ${read} bytes instead of ${bytes}`)
  const analysis = zstdDecompressSync(frame, { chunkSize: unpacked + SPARE_BYTES })
  if (analysis.length === unpacked) return analysis
  throw new Error(`an analysis has ${analysis.length} bytes of JSON instead of ${unpacked}`)
}
