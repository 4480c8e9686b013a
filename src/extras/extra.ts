import type { Command } from 'commander'
import type { Environment, Settings } from '#config/settings.ts'
import type { TraceSettings } from '#config/traces.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { InStage } from '#src/core/pipeline/request.ts'
import type { Follower, RunContext } from '#src/core/pipeline/run.ts'
import type { ExitCode } from '#src/lib/errors.ts'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import type { Holding, Listener } from './hold.ts'

/** One result of checking a company's directory. */
export type Finding = {
  /** The name of the check: one word for all findings of a kind. */
  readonly check: string
  /** A warning needs no action: nothing is wrong yet, or the next run fixes it. */
  readonly status: 'ok' | 'warning' | 'problem'
  /** Path of the file or directory that it is about. */
  readonly subject: string
  /** Completes a sentence that begins with the subject's name; if `ok`, a sentence of its own. */
  readonly what: string
  /** The remedy, with the command; null if there is nothing to do. */
  readonly mend: string | null
}

export function ok(check: string, subject: string, what: string): Finding {
  return { check, status: 'ok', subject, what, mend: null }
}

export function warning(check: string, subject: string, what: string, mend: string | null = null): Finding {
  return { check, status: 'warning', subject, what, mend }
}

export function problem(check: string, subject: string, what: string, mend: string): Finding {
  return { check, status: 'problem', subject, what, mend }
}

/** Returns all findings, with `well` in front unless there is a problem among them. */
export function prependWell(findings: readonly Finding[], well: Finding): Finding[] {
  return findings.some(({ status }) => status === 'problem') ? [...findings] : [well, ...findings]
}

/**
 * What an extra adds to the product. The programs know extras only by this type, from the list in `src/extras.ts`. Each
 * part is optional, and loads what it needs when it is called: the daemon reads the list when it starts.
 */
export type Extra = {
  /** A reader of the lake, which may be pointed to each new snapshot. */
  readonly follower?: (settings: Settings, paths: CompanyPaths) => Follower
  /** The raw log that several hosts share. */
  readonly hosts?: HostsExtra
  /** The lake somewhere else, which gets a snapshot after the run. */
  readonly publisher?: Publisher
  /** The state that a reader of the lake left, for `status`, metrics and alerts. */
  readonly reader?: ReaderExtra
  /** Checks what the extra has of a company, for `doctor`. */
  readonly check?: (options: CheckOptions) => Promise<readonly Finding[]>
  /** The times of a run's stages, sent somewhere. */
  readonly traces?: (
    name: TraceName,
    settings: TraceSettings,
    about: Readonly<Record<string, string>>,
  ) => RunTrace
  /** The latest snapshot for people. */
  readonly report?: ReportExtra
  /** Commands by name; each is loaded only when it is used. */
  readonly commands?: Readonly<Record<string, OpenCommand>>
}

/** The effects for one company of this machine, whose log may be shared with other hosts. */
export type CompanyContext = RunContext & { readonly sharedLog: SharedLog | null }

/** A raw log that several hosts share, as the programs need it. The caller holds the company's lock on this disk. */
export type SharedLog = NonNullable<RunContext['sharedLog']> & {
  /** The address of the store, as LOG_URL has it. */
  readonly root: string
  /**
   * Takes the log for this process, then brings to the disk what others sealed.
   * @returns the last segment of a checkpoint that restored an empty disk; 0 without one.
   * @throws FatalError (held) naming the owner, if it still holds the log after `waitMs`.
   */
  take(taking: Taking): Promise<number>
  /** Brings to the disk what others sealed, without taking the log. @returns as `take`. */
  bring(bringing: Bringing): Promise<number>
  /** Gives the log back. Never throws. */
  release(): Promise<void>
  /**
   * Compares the log on this disk with the store's.
   * @param segment one that this disk has, after which the store may have more; by default its last one.
   */
  standing(segment?: number): Promise<Standing>
}

/** How the store's log stands to the one on this disk: equal, with more segments, or another one. */
export type Standing = 'same' | 'later' | 'other'

export type Bringing = {
  readonly onSegment: (done: number, total: number) => void
  /** Called with a sentence for each checkpoint that cannot be trusted. */
  readonly onRefused: (text: string) => void
  /** For a disk that is restored. */
  readonly sourceTimezone: string
}

export type Taking = Bringing & {
  /** The work of this process, for others who wait. */
  readonly what: string
  readonly waitMs: number
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly onWait: (what: string) => void
  /** Brings nothing: this disk has what the store lacks. */
  readonly leavesDisk?: boolean
}

export type HostsExtra = {
  /** @param signal aborted when the process is to end. */
  readonly open: (settings: S3Settings, paths: CompanyPaths, signal: AbortSignal) => SharedLog
  /** Opens a company's segments in the store for reading. @param last the last segment that may be read. */
  readonly openStored: (settings: S3Settings, company: string, last: number) => Promise<StoredSegments>
  /** Returns whether this host could continue a company with the store. Changes nothing. */
  readonly reachLog: (settings: S3Settings, company: string, signal: AbortSignal) => Promise<Reach>
}

/** Segments in the object store, which never change. */
export type StoredSegments = {
  /** Returns the SHA-256 of a segment, as hex; null if it is missing. */
  hashSegment(number: number): Promise<string | null>
  read(number: number): Promise<Buffer>
  close(): void
}

/** Whether a host could continue a company with a store. */
export type Reach = {
  /** Why this host could not continue the company: a sentence or two; null if it could. */
  readonly problem: string | null
  /** How far the store's clock is ahead of ours; null if it did not say. */
  readonly aheadMs: number | null
}

export type Publishing = Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal' | 'inStage'>

/** @property silenceMs a store that answers nothing for so long is given up. */
export type PublishOptions = Holding & { readonly silenceMs?: number }

export type Publisher = {
  /** Whether the store lacks a snapshot that it should have now. */
  readonly isDue: (settings: Settings, paths: CompanyPaths, now: Date) => Promise<boolean>
  /** Publishes the latest snapshot if that is due; see `publishBehind` in `src/operate/extras.ts`. */
  readonly publish: (
    context: Publishing,
    listener: Listener,
    options: PublishOptions,
  ) => Promise<PublishedElsewhere | null>
  /** Removes what no kept snapshot needs, every night; null if there is no store. */
  readonly vacuum: (
    context: Publishing,
    options: Holding,
  ) => Promise<{ readonly snapshotsRemoved: number; readonly objectsRemoved: number } | null>
}

/** The result of a publish. */
export type PublishedElsewhere = {
  readonly snapshot: string
  /** False if it was there already. */
  readonly written: boolean
  /** New files, and their bytes. */
  readonly uploaded: number
  readonly bytesUploaded: number
}

export type ReaderExtra = {
  /** Its key in the output of `status --json`. */
  readonly key: string
  readonly isConfigured: (settings: Settings) => boolean
  /** Returns what the last attempt left; null if there was none. */
  read(paths: CompanyPaths): Promise<object | null>
  /** Describes a state that `read` returned, for people. @param directory of the latest snapshot. */
  describe(state: object, directory: string): readonly string[]
  readonly gauges: readonly ReaderGauge[]
  /** Returns since when the reader is behind, and why; null if it is not, or may be for a while. */
  behind?(state: object): ReaderBehind | null
}

type ReaderGauge = {
  readonly name: string
  readonly help: string
  /** Returns null if there is no value yet. */
  value(state: object): number | null
}

export type ReaderBehind = { readonly since: string; readonly triedAt: string; readonly error: string }

export type CheckOptions = {
  readonly paths: CompanyPaths
  readonly settings: Pick<Settings, 'remoteLake' | 'remoteLog'>
  /** Skips what takes as long as a rebuild. */
  readonly quick: boolean
  /** Aborted when the process is to end. */
  readonly signal: AbortSignal
}

export type TraceName = 'sync' | 'object_store'

export type RunTrace = {
  readonly inStage: InStage
  /**
   * Sends the trace, once nothing is held any more; takes at most 5 s, and never throws.
   * @param onUnsent gets a sentence for the operator if it was not sent.
   */
  end(ended: TraceEnd, onUnsent: (text: string) => void): Promise<void>
}

export type TraceEnd = {
  readonly exitCode: ExitCode
  /** Null if there is none. */
  readonly report: RunReport | null
  /** The message that the user sees; null if nothing went wrong. */
  readonly error: string | null
}

export type ReportExtra = {
  /** Returns the latest snapshot as one HTML page, in Portuguese. */
  readonly render: (
    lake: string,
    options: { readonly now: Date } & Pick<Settings, 'pagesUrl'>,
  ) => Promise<string>
  /** Mails the week's report. @param id the same for another attempt, so that receivers show it once. */
  readonly mail: (
    lake: string,
    options: { readonly environment: Environment; readonly now: Date; readonly id: string },
  ) => Promise<{ readonly recipients: number; readonly server: string }>
}

/** The functions that a program passes to the commands of extras. */
export type CommandTools = {
  /** Opens the company, shows the progress of `work`, and ends the display whatever happens. */
  readonly withCompany: <T>(
    settings: Settings,
    work: (context: CompanyContext, listener: Listener) => Promise<T>,
  ) => Promise<T>
  /** Holds the company while `work` runs: on this disk, and if hosts share its log, on all of them. */
  readonly holdCompany: <T>(
    context: CompanyContext,
    listener: Listener,
    options: Holding,
    work: () => Promise<T>,
  ) => Promise<T>
  /** Brings this disk to what the shared log has. */
  readonly bringUpToDate: (context: CompanyContext, listener: Listener, held: Holding) => Promise<unknown>
  /** Throws FatalError (usage) if nothing of the company is on this disk or in the shared log. */
  readonly assertHasData: (context: CompanyContext) => Promise<void>
  /** Returns the lakes of all configured companies. */
  readonly listLakes: (environment: Environment) => Promise<string[]>
}

type OpenCommand = (environment: Environment, tools: CommandTools) => Promise<Command>
