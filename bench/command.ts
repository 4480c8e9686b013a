import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const root = new URL('../', import.meta.url)

export type Command = { readonly nodeOptions: string[]; readonly file: string; readonly args: string[] }

/** What `npm run` with this name (or `npm start`) runs, so that what is measured is what users have. */
export async function commandOf(script: string): Promise<Command> {
  const { scripts } = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as {
    scripts: Readonly<Record<string, string>>
  }
  const [node, ...words] = (scripts[script] ?? '').split(' ')
  const at = words.findIndex(word => word.endsWith('.ts'))
  if (node !== 'node' || at === -1) throw new Error(`not a call of Node with a file: ${scripts[script]}`)
  return {
    nodeOptions: words.slice(0, at),
    file: fileURLToPath(new URL(words[at] as string, root)),
    args: words.slice(at + 1),
  }
}
