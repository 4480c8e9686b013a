import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Context } from 'hono'
import { methodNotAllowed } from 'hono/method-not-allowed'
import type { Logger } from 'pino'
import { explain } from '#src/lib/errors.ts'
import { computeTag } from '#src/lib/hash.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { requestPath } from '#src/lib/http/request_target.ts'
import {
  asksForHtml,
  maskPath,
  sendFault,
  sendJson,
  sendNoSuchRoute,
  sendRefusal,
  sendWrongMethod,
} from './answers.ts'
import { describeServer, type Extras } from './openapi.ts'
import { createRoutes, type Routes } from './routes.ts'
import { Json } from './source.ts'

/** Answers requests; routes outside the API are added to `pages`. */
export type Service = {
  readonly pages: Routes
  readonly fetch: Routes['fetch']
}

type ServiceOptions = {
  /** The routes below `/api/`, by `createRoutes`. */
  readonly api: Routes
  readonly extras: Extras
  readonly log: Pick<Logger, 'error'> | null
  /** The answer of `GET /`. */
  readonly contents: object
  /** The address that `GET /` redirects browsers to, instead. */
  readonly home?: string
}

/**
 * Returns the app that is shared by sandbox, `editais serve` and daemon: the API below `/api/`, its description, and the same
 * answers to any other request. Outside the API a trailing slash is ignored.
 */
export function createService({ api, extras, log, contents, home }: ServiceOptions): Service {
  const pages = createRoutes({ forgivesSlash: true })
  pages.use(methodNotAllowed({ app: pages, onMethodNotAllowed: sendWrongMethod }))
  pages.notFound(sendNoSuchRoute)
  pages.onError((error, context) => {
    const refusal = sendRefusal(context, error)
    if (refusal) return refusal
    log?.error({ method: context.req.method, path: maskPath(context.req.path) }, explain(error).message)
    return sendFault(context)
  })
  pages.get('/', context => {
    context.header('Vary', 'Accept')
    return home !== undefined && asksForHtml(context) ? context.redirect(home, 303) : context.json(contents)
  })
  pages.get('/healthz', context => context.json({ alive: true }))
  api.notFound(sendNoSuchRoute)
  describeApi(pages, extras)
  return {
    pages,
    fetch(request, env, execution) {
      const path = requestPath((env as Partial<HttpBindings>).incoming?.url ?? request.url)
      return (isOfApi(path) ? api : pages).fetch(request, env, execution)
    },
  }
}

function isOfApi(path: string): boolean {
  return path === '/api' || path.startsWith('/api/')
}

/** Served from the package, so that the page needs no other server. */
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
<style>
.swagger-ui .opblock-summary-method, .swagger-ui .info .title small { background: #3b4151 !important }
.swagger-ui .info a, .swagger-ui .info .url { color: #1a5fb4 !important }
.swagger-ui .btn.authorize span, .swagger-ui .btn.authorize { color: #1e6b45; border-color: currentcolor }
.swagger-ui .json-schema-2020-12-expand-deep-button { color: #3b4151 }
</style>
</head>
<body>
<div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`
// What Swagger UI lacks for people who cannot see it, or use only a keyboard: names, landmarks, the order of headings,
// and no button within a button.
const START = `const LACKING = [
  ['#servers', 'aria-label', 'Server'],
  ['.information-container', 'role', 'banner'],
  ['.scheme-container', 'role', 'region'],
  ['.scheme-container', 'aria-label', 'Server and key'],
  ['h3.opblock-tag, section.models h4', 'role', 'heading'],
  ['h3.opblock-tag, section.models h4', 'aria-level', '2'],
]
// Its elements appear after its requests, and again when a person unfolds one.
new MutationObserver(() => LACKING.forEach(([selector, name, value]) =>
  document.querySelectorAll(selector).forEach(element => element.setAttribute(name, value))))
  .observe(document.getElementById('ui'), { childList: true, subtree: true })
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#ui',
  validatorUrl: null,
  plugins: [() => ({ components: { CopyToClipboardBtn: () => null } })],
})
`

/**
 * Adds `GET /openapi.json` and, for a browser, `GET /docs`; neither needs a key. Each file is read once, and later
 * requests get the same bytes.
 */
function describeApi(pages: Routes, extras: Extras): void {
  const description = once(async () => document(await describeServer(extras)))
  pages.get('/openapi.json', async context => await sendJson(context, await description()))
  pages.get('/docs', context => sendText(context, 'text/html; charset=utf-8', PAGE))
  pages.get('/docs/start.js', context => sendText(context, 'text/javascript; charset=utf-8', START))
  for (const [file, type] of Object.entries(UI_FILES)) {
    const bytes = once(async () => {
      const read = await readFile(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${file}`)))
      return new Json(read, computeTag(read), type)
    })
    const headers = { 'cache-control': 'public, max-age=86400' }
    pages.get(`/docs/${file}`, async context => await sendJson(context, await bytes(), headers))
  }
}

/** Reads at the first call. If that fails, the next call retries. */
function once<T>(read: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | null = null
  return () => {
    value ??= read().catch(error => {
      value = null
      throw error
    })
    return value
  }
}

function document(value: object): Json {
  const bytes = Buffer.from(JSON.stringify(value))
  return new Json(bytes, computeTag(bytes))
}

function sendText(context: Context, type: string, text: string): Response {
  return context.body(text, 200, { 'content-type': type })
}
