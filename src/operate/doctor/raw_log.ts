import { join } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import {
  type Examined,
  examineLog,
  findStraySegment,
  listOtherNames,
  listUnknownTypes,
} from '#src/core/rawlog/examine.ts'
import { damagedDirectory, UNSEALED_SUFFIX, WAYS_OUT } from '#src/core/rawlog/files.ts'
import { type Finding, ok, prependWell, problem, warning } from '#src/extras/extra.ts'
import { pluralize } from '#src/lib/count.ts'
import { findSystemCode, getMessage } from '#src/lib/errors.ts'

const CHECK = 'raw log'

/** Checks that the log has no gap, that every line can be read, and that all of it belongs to this company. */
export async function checkRawLog(
  paths: CompanyPaths,
  onSegment: (done: number, total: number) => void,
): Promise<{ findings: Finding[]; examined: Examined[] | null }> {
  try {
    const stray = await findStraySegment(paths.raw)
    if (stray !== null) {
      return { findings: [problem(CHECK, stray.path, stray.why, 'Move it elsewhere')], examined: null }
    }
    const examined = await examineLog({ directory: paths.raw, onSegment })
    const findings = [
      ...examined.flatMap(checkSegment),
      ...checkCompany(paths, examined),
      ...(await checkOthers(paths.raw)),
    ]
    return { findings: prependWell(findings, summary(paths.raw, examined)), examined }
  } catch (error) {
    if (findSystemCode(error) === undefined) throw error
    const found = problem(
      CHECK,
      paths.raw,
      `cannot be read: ${getMessage(error)}`,
      'Run as the user who owns the files, or change their owner to this user (chown -R)',
    )
    return { findings: [found], examined: null }
  }
}

function checkSegment(one: Examined): Finding[] {
  const { path, state, why, contents } = one
  if (state === 'whole') {
    const [unknown] = listUnknownTypes(contents)
    if (unknown === undefined) return []
    return [
      problem(
        CHECK,
        path,
        `has lines of type ${unknown}, which this version does not know: a rebuild would drop them`,
        'Use the version of the program that wrote them, or a later one',
      ),
    ]
  }
  const left = state === 'damaged' ? `; ${sumLines(contents)} of its lines can be read` : ''
  return [problem(CHECK, path, `${why}${left}`, WAYS_OUT)]
}

/** Warns of another company's name in the log: a renamed company and directory, or the wrong directory. */
function checkCompany({ raw, company }: CompanyPaths, examined: readonly Examined[]): Finding[] {
  const own = examined.filter(({ state }) => state === 'whole' || state === 'damaged')
  const companies = own.flatMap(({ contents }) => [...contents.claims.companies])
  const last = companies.at(-1)
  if (last === undefined || last === company) return []
  return [
    warning(
      CHECK,
      raw,
      `was last written for company ${last}: if ${company} is not its new name, this is the wrong directory`,
    ),
  ]
}

async function checkOthers(directory: string): Promise<Finding[]> {
  return (await listOtherNames(directory)).flatMap(name => {
    const path = join(directory, name)
    if (path === damagedDirectory(directory)) return []
    if (name.endsWith(UNSEALED_SUFFIX))
      return [
        warning(CHECK, path, 'was not sealed when its run ended. This is harmless: the next run removes it'),
      ]
    return [warning(CHECK, path, 'is not part of the log', 'Move it elsewhere')]
  })
}

function summary(directory: string, examined: readonly Examined[]): Finding {
  if (examined.length === 0) return ok(CHECK, directory, 'No segments yet')
  const lines = examined.reduce((sum, { contents }) => sum + sumLines(contents), 0)
  const salvaged = examined.filter(({ contents }) => contents.kinds.has('lost'))
  const numbers = salvaged.map(({ number }) => number).join(', ')
  return ok(
    CHECK,
    directory,
    `${pluralize(examined.length, 'segment')} without a gap; ${pluralize(lines, 'line')}, all readable${numbers ? ` (salvaged: ${numbers})` : ''}`,
  )
}

export function sumLines({ kinds }: Examined['contents']): number {
  return [...kinds.values()].reduce((sum, count) => sum + count, 0)
}
