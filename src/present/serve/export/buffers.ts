/**
 * Memory that threads unpack into, and that is sent from. New memory for each span costs as much as all the rest: the
 * garbage collector runs every 64 MB.
 */
const BUFFER_BYTES = 1024 * 1024
/** More are freed. */
const MAX_IDLE = 8

const idle: SharedArrayBuffer[] = []

/** Returns null if one would be too small for this. */
export function takeBuffer(bytes: number): SharedArrayBuffer | null {
  return bytes > BUFFER_BYTES ? null : (idle.pop() ?? new SharedArrayBuffer(BUFFER_BYTES))
}

/** Returns a buffer for reuse. Call it only when no code reads the buffer any more. One that is not returned is freed. */
export function returnBuffer(buffer: SharedArrayBuffer): void {
  if (idle.length < MAX_IDLE) idle.push(buffer)
}
