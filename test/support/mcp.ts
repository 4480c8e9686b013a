import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { onTestFinished } from 'vitest'
import { type Environment, MAIN, surroundings } from './project.ts'

/** What a tool returned to a client. */
export type Called = {
  readonly isError: boolean
  /** All of it as text, as a model could see it. */
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: each tool has fields of its own
  readonly data: any
  readonly ms: number
}

/** Which protocol the client speaks: before or since the revision without sessions. */
export type Era = 'legacy' | 'auto'

export type Connected = {
  readonly client: Client
  call(name: string, given?: Record<string, unknown>): Promise<Called>
}

/** As containers often do, the system lets processes that crash dump their memory. */
const WITH_DUMPS = ['-c', 'ulimit -c unlimited 2>/dev/null; exec "$0" "$@"']

/** Starts `editais mcp` and connects to it. */
export async function connectToCommand(environment: Environment, era: Era = 'legacy'): Promise<Connected> {
  const transport = new StdioClientTransport({
    command: '/bin/sh',
    args: [...WITH_DUMPS, process.execPath, MAIN, 'mcp'],
    env: { ...surroundings(), ...environment },
    cwd: environment.DATA_DIR as string,
    stderr: 'ignore',
  })
  return await connect(transport, era)
}

export async function connectToUrl(url: string, key: string, era: Era = 'legacy'): Promise<Connected> {
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  return await connect(
    new StreamableHTTPClientTransport(new URL(`${url}/api/v1/mirror/mcp`), { requestInit }),
    era,
  )
}

type Transport = StdioClientTransport | StreamableHTTPClientTransport

async function connect(transport: Transport, era: Era): Promise<Connected> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } })
  await client.connect(transport)
  onTestFinished(() => client.close())
  return {
    client,
    async call(name, given = {}) {
      const startedMs = performance.now()
      const result = await client.callTool({ name, arguments: given })
      return {
        isError: result.isError === true,
        text: JSON.stringify(result),
        data:
          result.isError === true
            ? null
            : JSON.parse((result.content as { text: string }[])[0]?.text as string),
        ms: performance.now() - startedMs,
      }
    },
  }
}
