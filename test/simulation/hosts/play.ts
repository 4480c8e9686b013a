import { cpSync, existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import { readFrames } from '#src/core/rawlog/examine.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { KEY } from '#test/simulation/alter.ts'
import { MemoryRedis } from '#test/simulation/memory_redis.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { BUCKET, type S3Server, startS3, writeCredentials } from '#tools/s3_server.ts'

/** A machine with a disk and a clock of its own. */
export type Host = {
  readonly name: string
  readonly paths: CompanyPaths
  readonly environment: Readonly<Record<string, string>>
  /** How wrong its clock is. */
  readonly clockOffMs: number
  /** It cannot reach the object store. */
  isCutOff: boolean
  /** Its process died; nothing that it still does counts. */
  isDead: boolean
}

/** What one run does, and what happens to it. */
export type HostRun = {
  readonly host: Host
  /** Dies at this step of disk or store; never, if it takes fewer. */
  readonly diesAt: number
  /** Loses the store at this request to it. */
  readonly cutOffAt: number
  /** Stands still at this request to API or store, while the others go on. */
  readonly pausesAt: number
  /** For so long by the store's clock. */
  readonly pauseMs: number
  steps: number
  storeRequests: number
  requests: number
  wasPaused: boolean
  /** Another host had a process at the same time. */
  hadCompany: boolean
  /** The analyses that were sealed when it went on after it had stood still. */
  sealedMeanwhile: ReadonlySet<string>
  /** Those of them that it requested afterwards. */
  readonly askedAgain: string[]
  /** Each request for an analysis, as the notice and its version. */
  readonly asked: string[]
}

export type HostsPlay = {
  readonly random: Random
  readonly ticking: Random
  readonly company: StepwiseCompany
  readonly sandbox: Sandbox
  readonly s3: S3Server
  /** What hosts know of each other. */
  readonly redis: MemoryRedis
  readonly place: string
  readonly hosts: Host[]
  /** The store's clock. */
  readonly clock: { now: Date }
  /** Runs under way, one on each of these hosts. */
  readonly active: Map<Host, HostRun>
  readonly turns: Turns<Host>
  /** Objects of the log when first seen, by key. */
  readonly sealed: Map<string, Buffer>
  readonly counts: Map<string, number>
  readonly log: (line: string) => void
  /** Share of requests to the store that fail. */
  flaky: number
  changesPerAnswer: number
  /** Share of runs after which Redis can be reached. */
  redisIsThere: number
  /** Whether an owner may have ended without a word. */
  isUnreleased: boolean
  /** A `--full` run requests again what is sealed, and so does the run that continues it. */
  hasRefetched: boolean
  runs: number
}

export const LOG = 'hosts/acme/log/'
/** Newer than a backup of the log. */
export const BESIDE_LOG = ['hosts/acme/checkpoints/', 'hosts/acme/owner.json']
const HOUR_MS = 3_600_000
const NAMES = ['host1', 'host2', 'host3', 'host4']

export async function openHosts(
  seed: string,
  place: string,
  log: (line: string) => void,
): Promise<HostsPlay> {
  const random = createRandom(`hosts ${seed}`)
  const company = new StepwiseCompany(createRandom(`company ${seed}`), random.int(0, 15))
  // Each host has a key, so that its requests are known.
  const companies = NAMES.map(name => ({ slug: name, key: keyOf(name), world: company.world }))
  const sandbox = await startSandbox({ companies })
  const turns = new Turns<Host>(createRandom(`turns ${seed}`), {
    stands: host => standsStill(play, host),
    resumes: host => goesOn(play, host),
  })
  const play: HostsPlay = {
    ...{ random, company, sandbox, place, log, turns, hosts: [], active: new Map(), runs: 0 },
    redis: new MemoryRedis(),
    ticking: createRandom(`clock ${seed}`),
    s3: await startS3(),
    clock: { now: new Date('2026-11-20T12:00:00Z') },
    sealed: new Map(),
    counts: new Map(),
    flaky: random.pick([0, 0, 0.05, 0.2]),
    redisIsThere: 0.8,
    changesPerAnswer: random.pick([0, 0, 0.3]),
    isUnreleased: false,
    hasRefetched: false,
  }
  for (let hosts = random.int(2, 3); hosts > 0; hosts -= 1) await addHost(play)
  connect(play, createRandom(`store ${seed}`))
  return play
}

const keyOf = (name: string) => `${KEY}-${name}`

/** A host with an empty disk. */
export async function addHost(play: HostsPlay): Promise<Host> {
  const { random, place, hosts, sandbox, s3 } = play
  const name = NAMES[hosts.length] as string
  const dataDir = join(place, name)
  await mkdir(dataDir)
  const host: Host = {
    name,
    paths: companyPaths(dataDir, 'acme'),
    environment: {
      API_BASE_URL: sandbox.url,
      API_KEY: keyOf(name),
      API_CONCURRENCY: String(random.pick([1, 2, 4])),
      API_RETRIES: '1',
      API_TIMEOUT_MS: '50000',
      DATA_DIR: dataDir,
      COMPANY: 'acme',
      LOG_LEVEL: 'fatal',
      SNAPSHOT_KEEP: '1h',
      ANALYSIS_MAX_AGE: 'off',
      LOG_URL: `s3://${BUCKET}/hosts`,
      S3_ENDPOINT: s3.url,
      S3_CREDENTIALS_FILE: await writeCredentials(join(place, `${name}.credentials`), name),
    },
    clockOffMs: random.weighted([
      [0, 3],
      [random.int(-48, 48) * HOUR_MS, 1],
    ]),
    isCutOff: false,
    isDead: false,
  }
  hosts.push(host)
  return host
}

export function count({ counts }: Pick<HostsPlay, 'counts'>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1)
}

/** The requests of hosts to store and API: what goes wrong, and what happens between two of them. */
function connect(play: HostsPlay, random: Random): void {
  const { s3, sandbox, clock, company, turns } = play
  const hostOf = (name: string | null) => play.hosts.find(one => one.name === name) as Host
  s3.now = () => clock.now
  s3.gate = async ({ keyId, method, key }) => {
    await turns.pass(hostOf(keyId), `${method} ${key}`)
  }
  s3.fault = ({ keyId, method }) => {
    const host = hostOf(keyId)
    const run = play.active.get(host)
    if (run) run.storeRequests += 1
    if (run && run.storeRequests >= run.cutOffAt) host.isCutOff = true
    if (method === 'PUT') reach(play, host)
    if (host.isDead || host.isCutOff) return 'drop'
    const fault = random.chance(play.flaky) ? random.pick(['lose', 'drop', 409, 500, 503] as const) : null
    if (method !== 'PUT' || typeof fault === 'number' || fault === 'drop') return fault
    reach(play, host)
    // What was carried out before the process died no longer gets an answer.
    return host.isDead ? 'lose' : fault
  }
  sandbox.faults.onRequest = async ({ company: name, kind, id, offset }) => {
    const host = hostOf(name)
    const stood = await turns.pass(host, `${kind} ${id} ${offset}`)
    const run = play.active.get(host)
    if (!run) return
    for (let left = play.changesPerAnswer; left > 0 && random.chance(left); left -= 1) company.change()
    if (kind !== 'analysis') return
    const version = `${id} ${company.world.entry(id ?? '')?.edital.updated_at}`
    run.asked.push(version)
    if (!stood && run.sealedMeanwhile.has(version)) run.askedAgain.push(version)
  }
}

/** Counts the request; from this one on, a process may stand still, for others sometimes long enough to be silent. */
function standsStill(play: HostsPlay, host: Host): boolean {
  const { clock, company, random } = play
  const run = play.active.get(host)
  if (!run) return false
  run.requests += 1
  if (run.requests !== run.pausesAt) return false
  count(play, 'stood still')
  clock.now = new Date(clock.now.getTime() + run.pauseMs)
  if (random.chance(0.5)) company.change()
  return true
}

async function goesOn(play: HostsPlay, host: Host): Promise<void> {
  const run = play.active.get(host)
  if (!run) return
  run.wasPaused = true
  rememberSealed(play)
  run.sealedMeanwhile = await sealedVersions(play)
}

/** What the store has of the log. */
export function rememberSealed({ s3, sealed }: HostsPlay): void {
  for (const [key, { bytes }] of s3.objects)
    if (key.startsWith(LOG) && !sealed.has(key)) sealed.set(key, bytes)
}

/** A step of a run's disk or store, at which its process may die. */
export function reach(play: HostsPlay, host: Host): void {
  const run = play.active.get(host)
  if (!run || host.isDead) return
  run.steps += 1
  if (run.steps === run.diesAt) die(play, host)
}

/** Where the disk is as a dead process left it: what that still does is in the other directory. */
export function leftBy({ paths }: Host): string {
  return `${paths.root}.crashed`
}

function die(play: HostsPlay, host: Host): void {
  const { root } = host.paths
  count(play, 'died')
  if (existsSync(root)) cpSync(root, leftBy(host), { recursive: true, verbatimSymlinks: true })
  host.isDead = true
}

/**
 * A company whose every change has a later `updated_at`: then an analysis that was sealed for one never needs to be
 * requested again.
 */
class StepwiseCompany {
  readonly world = new World([])
  readonly #random: Random
  #made = 0
  #versions = 0

  constructor(random: Random, notices: number) {
    this.#random = random
    for (let n = 0; n < notices; n += 1) this.#arrive()
  }

  change(): void {
    const [id] = this.#random.sample(this.world.ids(), 1)
    const kind = this.#random.int(0, 9)
    if (id === undefined || kind < 3) this.#arrive()
    else if (kind < 9) this.#update(id)
    else this.world.remove(id)
  }

  #arrive(): void {
    this.#made += 1
    const month = this.#random.int(0, 2)
    const created_at = new Date(Date.UTC(2026, 8 + month, 1 + this.#random.int(0, 20))).toISOString()
    this.world.put(
      noticeEntry(this.#made, { id: `n${this.#made}`, created_at, updated_at: this.#nextVersion() }),
    )
  }

  #update(id: string): void {
    const updated_at = this.#nextVersion()
    const version = this.#versions
    const verdict = { recommendation: 'cautela', reason: `Razão v${version}`, bullets: [] }
    this.world.update(id, {
      edital: { objeto: `Objeto v${version}`, updated_at },
      ...(this.#random.chance(0.7) ? { analysis: { verdict } } : {}),
    })
  }

  #nextVersion(): string {
    this.#versions += 1
    return new Date(Date.UTC(2026, 10, 1) + this.#versions * 1000).toISOString()
  }
}

const VERSIONS = new WeakMap<Buffer, Promise<string[]>>()

/** The analyses that are sealed, each as its notice and version. */
export async function sealedVersions({
  sealed,
}: {
  readonly sealed: ReadonlyMap<string, Buffer>
}): Promise<ReadonlySet<string>> {
  const all = [...sealed.values()].map(bytes => {
    const known = VERSIONS.get(bytes) ?? versionsIn(bytes)
    VERSIONS.set(bytes, known)
    return known
  })
  return new Set((await Promise.all(all)).flat())
}

async function versionsIn(bytes: Buffer): Promise<string[]> {
  const found: string[] = []
  for await (const frame of readFrames(bytes)) {
    if ('damage' in frame) continue
    for (const text of frame.text.toString('utf8').split('\n').filter(Boolean)) {
      const { type, edital_id, updated_at } = JSON.parse(text) as Record<string, string>
      if (type === 'analysis' || type === 'analysis_same') found.push(`${edital_id} ${updated_at}`)
    }
  }
  return found
}

/** A request to the store or the API that waits for its turn; `begins`: the process itself waits for its first turn. */
type Waiting<H> = {
  readonly host: H
  readonly what: string
  readonly begins: boolean
  /** Whether it waited while its process stood still. */
  stood: boolean
  readonly pass: (stood: boolean) => void
}

type Hooks<H> = {
  /** Whether a process stands still from this request on. */
  readonly stands: (host: H) => boolean
  /** It goes on. */
  readonly resumes: (host: H) => Promise<void>
}

/** Of all turns while others are under way. A process that begins while another one holds the log mostly ends at once. */
const BEGINS = 0.005
const RESUMES = 0.02

/**
 * Gives the requests of all hosts their turns, one after another: those of several processes in between each other, as drawn, and
 * not by who is faster, so that the same seed gives the same simulation. A process may stand still before any of them.
 */
class Turns<H extends { readonly name: string }> {
  readonly #random: Random
  readonly #hooks: Hooks<H>
  readonly #waiting: Waiting<H>[] = []
  /** Hosts with a process. */
  readonly #busy = new Set<H>()
  readonly #standing = new Set<H>()
  #isOpen = false

  constructor(random: Random, hooks: Hooks<H>) {
    this.#random = random
    this.#hooks = hooks
  }

  /** Resolves once a process may begin on a host; it ends with `end`. */
  async begin(host: H): Promise<void> {
    await this.#wait(host, 'begin', true)
  }

  end(host: H): void {
    this.#busy.delete(host)
    this.#standing.delete(host)
  }

  /** Resolves once it is a request's turn. @returns whether it was under way while its process stood still. */
  async pass(host: H, what: string): Promise<boolean> {
    return await this.#wait(host, what, false)
  }

  #wait(host: H, what: string, begins: boolean): Promise<boolean> {
    return new Promise(pass => {
      this.#waiting.push({ host, what, begins, stood: false, pass })
      if (!this.#isOpen) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isOpen = true
    for (let before = 0; ; ) {
      await sleep(1)
      const { length } = this.#waiting
      if (length === 0 && this.#busy.size === 0) break
      // Each process has come to a request, and no more arrive.
      const isQuiet = length === before && [...this.#busy].every(host => this.#isAtRest(host))
      before = length
      if (!isQuiet) continue
      await this.#next()
      before = this.#waiting.length
    }
    this.#isOpen = false
  }

  #isAtRest(host: H): boolean {
    return this.#standing.has(host) || this.#waiting.some(one => one.host === host && !one.begins)
  }

  async #next(): Promise<void> {
    const free = this.#sorted(one => !one.begins && !this.#standing.has(one.host))
    const begins = this.#sorted(one => one.begins && !this.#busy.has(one.host))
    const standing = [...this.#standing].sort((a, b) => (a.name < b.name ? -1 : 1))
    if (standing.length > 0 && (free.length + begins.length === 0 || this.#random.chance(RESUMES)))
      return await this.#resume(this.#random.pick(standing))
    const of = begins.length > 0 && (free.length === 0 || this.#random.chance(BEGINS)) ? begins : free
    if (of.length === 0) return
    const one = this.#random.pick(of)
    if (one.begins) this.#busy.add(one.host)
    else if (this.#hooks.stands(one.host)) {
      this.#standing.add(one.host)
      return
    }
    this.#waiting.splice(this.#waiting.indexOf(one), 1)
    one.pass(one.stood)
  }

  async #resume(host: H): Promise<void> {
    this.#standing.delete(host)
    for (const one of this.#waiting) if (one.host === host) one.stood = true
    await this.#hooks.resumes(host)
  }

  #sorted(which: (one: Waiting<H>) => boolean): Waiting<H>[] {
    const key = ({ host, what }: Waiting<H>) => `${host.name} ${what}`
    return this.#waiting.filter(which).sort((a, b) => (key(a) < key(b) ? -1 : 1))
  }
}
