import { MIRROR_EXTRAS } from '#src/server/api_extras.ts'
import { describeServer } from '#src/server/contract/openapi.ts'
import { mirrorRoutes } from '#src/server/mirror/app.ts'
import { describeMirror } from '#src/server/mirror/routes.ts'

/** OpenAPI 3.1, as JSON. */
export type OpenApi = Readonly<Record<string, unknown>>

/** What a server describes at `/openapi.json` and `/api/v1/mirror/openapi.json`, without a server. */
export async function openApiDocuments(): Promise<{ readonly contract: OpenApi; readonly mirror: OpenApi }> {
  const noRequest = () => {
    throw new Error('only described, never called')
  }
  const routes = mirrorRoutes({ findLake: noRequest, dataDir: '', log: { error: noRequest } as never })
  const served = { contract: await describeServer(MIRROR_EXTRAS), mirror: describeMirror(routes) }
  return JSON.parse(JSON.stringify(served))
}
