import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Hono } from 'hono'
import { parse } from 'yaml'

type Node = { [name: string]: Node }

/** What an address that answers says of itself, beside the contract's own words. */
export type Extras = {
  /** Answers that each operation may give besides, by status. */
  readonly responses: Readonly<Record<string, object>>
  /** Headers of each 200. */
  readonly headers: Readonly<Record<string, object>>
  /** Whether sessions may be local times, without an offset, as in real notices. */
  readonly localSessions: boolean
}

/** Served from the package, so that the page needs nothing of another server. */
const UI_FILES: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tender notices: API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`
const START = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true, validatorUrl: null })\n`
/** The page shows what it is given, and asks nobody else. */
const CSP =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"

/** Adds `GET /openapi.json` and, for a browser, `GET /docs`; neither needs a key. */
export function describeApi(
  // biome-ignore lint/suspicious/noExplicitAny: whatever its routes share among them
  app: Hono<any>,
  extras: Extras,
): void {
  let description: object | null = null
  app.get('/openapi.json', async context => {
    description ??= await readDescription(extras)
    return context.json(description)
  })
  app.get('/docs', context =>
    context.body(PAGE, 200, { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': CSP }),
  )
  app.get('/docs/start.js', context =>
    context.body(START, 200, { 'content-type': 'text/javascript; charset=utf-8' }),
  )
  app.get('/docs/:file{swagger-ui[a-z.-]+}', async (context, next) => {
    const file = context.req.param('file')
    const type = Object.hasOwn(UI_FILES, file) ? UI_FILES[file] : undefined
    if (type === undefined) return next()
    const path = fileURLToPath(import.meta.resolve(`swagger-ui-dist/${file}`))
    const headers = { 'content-type': type, 'cache-control': 'public, max-age=86400' }
    return context.body(new Uint8Array(await readFile(path)), 200, headers)
  })
}

/** OpenAPI 3.1, of the address that it is asked of. */
async function readDescription({ responses, headers, localSessions }: Extras): Promise<object> {
  const text = await readFile(new URL('../../schema/openapi.yaml', import.meta.url), 'utf8')
  const document = parse(text) as Node
  const operations = Object.values(document.paths as Node).map(({ get }) => get as Node)
  for (const operation of operations) {
    const said = operation.responses as Node
    Object.assign(said, responses)
    said['200'] = { ...said['200'], headers } as unknown as Node
  }
  if (localSessions) for (const name of ['Edital', 'EditalAnalysis']) loosen(document, name)
  return { ...document, servers: [{ url: '/' }] }
}

/** A time without an offset is none of the format `date-time`. */
function loosen(document: Node, schema: string): void {
  const properties = document.components?.schemas?.[schema]?.properties as Node
  properties.data_sessao = {
    type: 'string',
    description: 'Date of the public session; without an offset it is local time, and it may have no time.',
  } as unknown as Node
}
