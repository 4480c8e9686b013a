import { basename } from 'node:path'

/** Run as `editais`, which is the image's command; elsewhere npm runs it, and keeps options without two dashes. */
export const IS_EDITAIS = basename(process.argv[1] ?? '') === 'editais'

/** Commands in a message as they are typed here: the image has no npm. */
export function asTyped(text: string): string {
  return IS_EDITAIS ? asEditais(text) : text
}

/** `npm run sync -- --full` as `editais sync --full`. */
function asEditais(text: string): string {
  return text
    .replaceAll(/\bnpm run (?:-s )?([a-z]+)(?: --(?= ))?/g, 'editais $1')
    .replaceAll(', after two dashes:', ':')
}
