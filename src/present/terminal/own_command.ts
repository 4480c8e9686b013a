import { basename } from 'node:path'

/** True in the image, whose command is `editais`. Elsewhere npm runs it, and takes options for its own without `--`. */
export const IS_EDITAIS = basename(process.argv[1] ?? '') === 'editais'

/** Rewrites commands in a message to the form that works here: the image has no npm. */
export function asTyped(text: string): string {
  return IS_EDITAIS ? asEditais(text) : text
}

/** Rewrites `npm run sync -- --full` as `editais sync --full`. */
function asEditais(text: string): string {
  return text
    .replaceAll(/\bnpm run (?:-s )?([a-z]+)(?: --(?= ))?/g, 'editais $1')
    .replaceAll(', after two dashes:', ':')
}
