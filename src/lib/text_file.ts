import { isUtf8 } from 'node:buffer'

const LINE_FEED = 0x0a
/** Before a text in UTF-16, in either order of its bytes. */
const UTF_16_MARKS = ['fffe', 'feff']
/** Windows programs begin a text in UTF-8 with it; where files were joined, it begins a line in the middle. */
const BYTE_ORDER_MARKS = /^\uFEFF+/gm

/**
 * Decodes a text that a person edited. It must be UTF-8; byte order marks at the beginning of lines are ignored.
 * Anything else is refused, because a text that is read in a wrong encoding gives wrong answers without an error.
 * @throws Error with an unfinished sentence for `… cannot be read: <message>.`; it shows nothing of the text.
 */
export function decodeText(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  // UTF-16 without a mark has a NUL in nearly every character.
  if (UTF_16_MARKS.includes(buffer.toString('hex', 0, 2)) || buffer.includes(0)) {
    throw new Error('it is in UTF-16, or has NUL characters: save it as UTF-8')
  }
  if (isUtf8(buffer)) return buffer.toString('utf8').replace(BYTE_ORDER_MARKS, '')
  throw new Error(`line ${firstWrongLine(buffer)} is not UTF-8: save the file as UTF-8`)
}

/**
 * Finds the first line that is not UTF-8. No character of UTF-8 has a line feed among its bytes, so each line can be checked by
 * itself.
 */
function firstWrongLine(bytes: Buffer): number {
  let line = 1
  for (let start = 0; ; line++) {
    const end = bytes.indexOf(LINE_FEED, start)
    if (end === -1 || !isUtf8(bytes.subarray(start, end))) return line
    start = end + 1
  }
}
