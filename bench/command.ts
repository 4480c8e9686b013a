import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const root = new URL('../', import.meta.url)

export type Command = { readonly nodeOptions: string[]; readonly file: string; readonly args: string[] }

/** The command behind this npm script, so that benchmarks measure what users run. */
export async function commandOf(script: string): Promise<Command> {
  const { scripts } = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as {
    scripts: Readonly<Record<string, string>>
  }
  const [node, ...words] = (scripts[script] ?? '').split(' ')
  const at = words.findIndex(word => /\.[jt]s$/.test(word))
  if (node !== 'node' || at === -1)
    throw new Error(`npm script "${script}" does not run Node with a file: ${scripts[script]}`)
  return {
    nodeOptions: words.slice(0, at),
    file: fileURLToPath(new URL(words[at] as string, root)),
    args: words.slice(at + 1),
  }
}
