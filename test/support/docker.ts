import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DockerfileParser, type Instruction as Parsed } from 'dockerfile-ast'
import { parse } from 'yaml'

export const PROJECT = join(import.meta.dirname, '../..')
export const COMPOSE_FILE = join(PROJECT, 'docker-compose.yml')
export const HOSTS_FILE = join(PROJECT, 'docker-compose.hosts.yml')
export const DEMO_FILE = join(PROJECT, 'docker-compose.demo.yml')
export const DOCKERFILE = join(PROJECT, 'Dockerfile')
export const METABASE_DOCKERFILE = join(PROJECT, 'config/metabase/Dockerfile')

/** The properties of a service that tests use, after anchors are merged. */
export type Service = {
  readonly image?: string
  readonly pull_policy?: string
  readonly build?: { readonly context: string }
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly user?: string
  readonly environment?: Readonly<Record<string, string>>
  readonly env_file?: readonly { readonly path: string; readonly required: boolean }[]
  readonly volumes?: readonly (string | Mount)[]
  readonly ports?: readonly string[]
  readonly profiles?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: {
    readonly test: readonly string[]
    readonly interval?: string
    readonly start_period?: string
    readonly start_interval?: string
  }
  readonly stop_grace_period?: string
  readonly restart?: string
  readonly read_only?: boolean
  readonly tmpfs?: readonly string[]
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly mem_limit?: string
  readonly pids_limit?: number | string
  readonly networks?: readonly string[]
  readonly network_mode?: string
  readonly logging?: { readonly driver: string; readonly options: Readonly<Record<string, string>> }
}

/** A mount in long form: part of a volume. */
export type Mount = {
  readonly type: string
  readonly source: string
  readonly target: string
  readonly read_only?: boolean
  readonly volume?: { readonly subpath: string }
}

export type Compose<Name extends string = ServiceName> = {
  readonly name: string
  readonly services: Readonly<Record<Name, Service>>
  readonly volumes: Readonly<Record<string, unknown>>
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>
}

type ServiceName =
  | 'redis-password'
  | 'redis'
  | 'worker'
  | 'metabase'
  | 'metabase-lake'
  | 'metabase-password'
  | 'metabase-db'
  | 's3-key'
  | 's3'
  | 'iceberg-catalog'
  | 'trino'
type DemoName = 'redis-password' | 'redis' | 'sandbox' | 'worker'

/** A variable that Compose replaces, with its default: `${NAME:-default}`. */
export const VARIABLE = /\$\{(\w+):-([^}]*)\}/g

/** The file as Compose reads it, with these variables in `.env`. */
export async function readCompose(variables: Readonly<Record<string, string>> = {}): Promise<Compose> {
  const parsed = parse(await readFile(COMPOSE_FILE, 'utf8'), { merge: true })
  return replaceVariables(parsed, variables) as Compose
}

/** The demo as Compose reads it; a service that extends one of docker-compose.yml is replaced by it. */
export async function readDemo(): Promise<Compose<DemoName>> {
  const { services } = await readCompose()
  const parsed = parse(await readFile(DEMO_FILE, 'utf8'), { merge: true })
  const demo = replaceVariables(parsed, {}) as Compose<DemoName>
  const resolved = Object.entries(demo.services).map(([name, service]) => [name, extended(service, services)])
  return { ...demo, services: Object.fromEntries(resolved) as Compose<DemoName>['services'] }
}

type Extending = Service & { readonly extends?: { readonly file: string; readonly service: ServiceName } }

/** @throws TypeError if a service extends another one and changes it: that is not implemented here. */
function extended(service: Extending, others: Compose['services']): Service {
  if (service.extends === undefined) return service
  const { file, service: name } = service.extends
  if (Object.keys(service).length > 1 || file !== 'docker-compose.yml') {
    throw new TypeError(`not implemented: a service that extends ${name} of ${file} and changes it`)
  }
  return others[name]
}

/** Replaces only in strings, after parsing: numbers stay numbers, and values are not parsed as YAML. */
function replaceVariables(value: unknown, variables: Readonly<Record<string, string>>): unknown {
  if (typeof value === 'string') {
    return value
      .replace(VARIABLE, (_, name: string, otherwise: string) => variables[name] ?? otherwise)
      .replaceAll('$$', '$')
  }
  if (Array.isArray(value)) return value.map(one => replaceVariables(one, variables))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, replaceVariables(one, variables)]),
  )
}

/** An instruction of a Dockerfile. */
export type Instruction = {
  /** In capitals: `COPY`. */
  readonly keyword: string
  /** `--from=x` as `from: 'x'`. */
  readonly flags: Readonly<Record<string, string>>
  /** Its words, or the elements of its JSON array. */
  readonly words: readonly string[]
  /** Everything after keyword and flags, as written. */
  readonly text: string
}

export type Stage = { readonly name: string; readonly instructions: readonly Instruction[] }

/** The stages in order; the last one is the image. */
export async function readDockerfile(path = DOCKERFILE): Promise<Stage[]> {
  const stages: { name: string; instructions: Instruction[] }[] = []
  for (const parsed of DockerfileParser.parse(await readFile(path, 'utf8')).getInstructions()) {
    const instruction = instructionOf(parsed)
    const { keyword, words } = instruction
    if (keyword === 'FROM') stages.push({ name: words[2] ?? 'image', instructions: [] })
    else stages.at(-1)?.instructions.push(instruction)
  }
  return stages
}

function instructionOf(parsed: Parsed): Instruction {
  const text = parsed.getRawArgumentsContent() ?? ''
  const withFlags = parsed as Parsed & { getFlags?(): { getName(): string; getValue(): string | null }[] }
  const flags = withFlags.getFlags?.() ?? []
  const array = /\[.*\]$/s.exec(text)?.[0]
  return {
    keyword: parsed.getKeyword(),
    flags: Object.fromEntries(flags.map(flag => [flag.getName(), flag.getValue() ?? ''])),
    words: array ? (JSON.parse(array) as string[]) : parsed.getArguments().map(word => word.getValue()),
    text,
  }
}

/**
 * The patterns of the files in the build context.
 * @throws TypeError unless `.dockerignore` excludes everything and then lists exceptions.
 */
export async function readBuildContext(): Promise<string[]> {
  const text = await readFile(join(PROJECT, '.dockerignore'), 'utf8')
  const [all, ...but] = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  if (all !== '*' || !but.every(line => line.startsWith('!'))) {
    throw new TypeError('.dockerignore must be * followed by exceptions that start with !')
  }
  return but.map(line => line.slice(1))
}
