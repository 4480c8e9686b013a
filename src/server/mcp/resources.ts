import { type McpServer, ResourceTemplate } from '@modelcontextprotocol/server'
import { CATALOG, VIEWS } from '#schema/marts/marts.ts'
import { FatalError } from '#src/lib/errors.ts'
import { describeRelation } from '#src/present/dictionary.ts'

const MARKDOWN = 'text/markdown'

/** Adds the data dictionary: what is in each table and mart. None of it comes from a notice. */
export function addResources(server: McpServer): void {
  server.registerResource(
    'dictionary',
    'editais://dictionary',
    { title: 'Tables and marts', description: 'What each table and mart holds.', mimeType: MARKDOWN },
    uri => markdown(uri, listOf('Tables and marts', CATALOG)),
  )
  server.registerResource(
    'marts',
    'editais://marts',
    { title: 'Marts', description: 'Views that answer common questions.', mimeType: MARKDOWN },
    uri => markdown(uri, listOf('Marts', VIEWS)),
  )
  const names = CATALOG.map(({ name }) => name)
  server.registerResource(
    'relation',
    new ResourceTemplate('editais://dictionary/{relation}', {
      list: () => ({ resources: CATALOG.map(resourceOf) }),
      complete: { relation: typed => names.filter(name => name.startsWith(typed)).slice(0, 50) },
    }),
    { title: 'A table or mart', description: 'Its columns, with units and meanings.', mimeType: MARKDOWN },
    (uri, { relation }) => {
      const text = describeRelation(String(relation))
      if (text === null)
        throw new FatalError('There is no such table or mart. The resource editais://dictionary lists them.')
      return markdown(uri, text)
    },
  )
}

type Listed = (typeof CATALOG)[number]

function resourceOf({ name, description, portuguese: [title] }: Listed) {
  return { uri: `editais://dictionary/${name}`, name, title, description, mimeType: MARKDOWN }
}

function markdown(uri: URL, text: string) {
  return { contents: [{ uri: uri.href, mimeType: MARKDOWN, text }] }
}

function listOf(title: string, relations: readonly Listed[]): string {
  const lines = relations.map(({ name, description, portuguese: [label, meaning] }) => {
    return `- \`${name}\` (${label}): ${description}. ${meaning}.`
  })
  return `# ${title}\n\n${lines.join('\n')}\n`
}
