import { constants, existsSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { hostname } from 'node:os'
import { isAbsolute, relative } from 'node:path'
import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import type { Finding } from '#src/extras/extra.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { AGAIN, stopSignal } from '#src/lib/exit.ts'
import { describeHolder, type LockHolder, readHolder, takeLock } from '#src/lib/lock.ts'
import { type Diagnosis, diagnose, diagnoseStores } from '#src/operate/doctor/doctor.ts'
import { parseSeconds } from '#src/present/terminal/options.ts'

type Options = { company?: string; quick?: true; wait: number; json?: true }

/** How many findings of one check are printed one by one. */
const SHOWN = 10
const HELP = `
Runs of the company wait until the doctor is done. Without --quick, that takes as long as a rebuild.

Exit codes: 0 no problems, 1 problems, 2 wrong usage or settings, 4 company held by a run, 130 interrupted.`
const MARKS = { ok: '✓', warning: '!', problem: '✗' } as const

export function createDoctorCommand(environment: Environment): Command {
  return new Command('doctor')
    .description("Check a company's data, and report how to fix what is wrong. Changes nothing.")
    .option('--company <slug>', 'company to check, instead of COMPANY')
    .option('--quick', 'skip comparing rows and checksums; still reads the whole raw log')
    .option('--wait <seconds>', 'how long to wait for a run of the company to end', parseSeconds, 600)
    .option('--json', 'print one JSON object')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      process.exitCode = await run(environment, options)
    })
}

async function run(environment: Environment, options: Options): Promise<number> {
  const settings = readSettings(await loadCompanyEnvironment(environment, options.company))
  const { company, dataDir, sourceTimezone, remoteLog } = settings
  const paths = companyPaths(dataDir, company)
  const quick = options.quick ?? false
  const step = createStep()
  const signal = stopSignal(() => step(`Stopping. ${AGAIN}`))
  if (!existsSync(paths.root)) {
    if (remoteLog === null)
      throw new FatalError(
        `${dataDir} has no data of company ${company}. Check COMPANY and DATA_DIR.`,
        EXIT.usage,
      )
    // Before the first run, and on a host that has not restored the company yet.
    const about = { paths, settings, quick, signal }
    return await show(environment, options, await diagnoseStores(about))
  }
  const lock = { waitMs: options.wait * 1000, signal, show: step }
  try {
    const diagnosis = await holding(paths, lock, held =>
      diagnose({
        paths,
        now: new Date(),
        sourceTimezone,
        settings,
        signal,
        newId: () => 'doctor',
        ...held,
        quick,
        onProgress: (what, done, total) => step(what, `${done} of ${total}`),
      }),
    )
    step('')
    return await show(environment, options, diagnosis)
  } finally {
    step('')
  }
}

/** Prints the diagnosis. @returns the exit code. */
async function show(environment: Environment, { json }: Options, diagnosis: Diagnosis): Promise<number> {
  const output = json
    ? `${JSON.stringify(diagnosis)}\n`
    : makePrintableLines(describe(diagnosis) + (await companyHint(environment, diagnosis)))
  process.stdout.write(output)
  return diagnosis.well ? EXIT.ok : EXIT.failed
}

/** Holds the company while `work` checks it. Without permission to lock, checks it without the lock. */
async function holding<T>(
  paths: CompanyPaths,
  { waitMs, signal, show }: { waitMs: number; signal: AbortSignal; show: (text: string) => void },
  work: (held: { isHeld: boolean; deadHolder: LockHolder | null }) => Promise<T>,
): Promise<T> {
  if (!(await canLock(paths))) return await work({ isHeld: false, deadHolder: null })
  let before = await readHolder(paths.lock)
  const own = { pid: process.pid, host: hostname(), what: 'doctor', since: new Date().toISOString() }
  const lock = await takeLock(paths.lock, own, {
    waitMs,
    signal,
    nowMs: () => performance.now(),
    onWait: holder => {
      // The holder is alive.
      before = null
      show(`Waiting for ${describeHolder(holder)} to release the company`)
    },
  })
  try {
    return await work({ isHeld: true, deadHolder: before })
  } finally {
    await lock.release()
  }
}

async function canLock({ root, lock }: CompanyPaths): Promise<boolean> {
  const path = existsSync(lock) ? [root, lock] : [root]
  const may = path.map(one => access(one, constants.R_OK | constants.W_OK))
  return await Promise.all(may).then(
    () => true,
    () => false,
  )
}

/** Shows progress in one line on a terminal; elsewhere prints one line per step, without counts. */
function createStep(): (what: string, howFar?: string) => void {
  const { stderr } = process
  let last = ''
  return (what, howFar) => {
    if (stderr.isTTY) stderr.write(`\r\x1b[K${what}${howFar ? `: ${howFar}` : ''}`)
    else if (what !== '' && what !== last) stderr.write(`${what}\n`)
    last = what
  }
}

/** Returns how to give the suggested commands this company; empty if they use it by default. */
async function companyHint(environment: Environment, { company, findings }: Diagnosis): Promise<string> {
  if (!findings.some(({ mend }) => mend?.includes('`editais '))) return ''
  const usual = await loadCompanyEnvironment(environment).then(
    own => readSettings(own).company,
    () => null,
  )
  if (usual === company) return ''
  return `Run these commands with --company ${company}: editais rebuild --company ${company}.\n`
}

function describe({ company, directory, findings }: Diagnosis): string {
  const checks = Map.groupBy(findings, ({ check, status }) => `${check} ${status}`)
  const lines = [...checks.values()].flatMap(some => [
    ...some.slice(0, SHOWN).flatMap(finding => describeFinding(finding, directory)),
    ...(some.length > SHOWN ? [`  … and ${some.length - SHOWN} more like these (--json shows all)`] : []),
  ])
  return `${company}  ${directory}\n\n${lines.join('\n')}\n\n${summary(findings)}\n`
}

function describeFinding({ check, status, subject, what, mend }: Finding, directory: string): string[] {
  const head = `${MARKS[status]} ${check.padEnd(10)}`
  if (status === 'ok') return [`${head} ${what}`]
  const path = isAbsolute(subject) ? relative(directory, subject) || subject : subject
  return [`${head} ${path} ${what}.`, ...(mend ? [`${' '.repeat(13)}→ ${mend}`] : [])]
}

function summary(findings: readonly Finding[]): string {
  const [problems, warnings] = (['problem', 'warning'] as const).map(wanted =>
    formatProblemCount(findings.filter(({ status }) => status === wanted).length, wanted),
  )
  const all = [problems, warnings].filter(Boolean).join(', ')
  return all || 'No problems found.'
}

function formatProblemCount(count: number, what: string): string {
  if (count === 0) return ''
  return `${count} ${what}${count > 1 ? 's' : ''}`
}
