import { readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { describe, expect, it } from 'vitest'

/** What can be cited: every file and directory of the project, and the headings of its documents. */
type Project = {
  readonly files: ReadonlySet<string>
  readonly directories: ReadonlySet<string>
  read(path: string): string
}

type Citation = {
  /** As written there. */
  readonly text: string
  readonly at: number
  /** Why it leads nowhere; null if it leads somewhere. */
  readonly fault: string | null
}

/** Places whose files may be cited by their path from the root. */
const FOLDERS = ['src', 'jobs', 'schema', 'config', 'test', 'bench', 'tools', 'docs', 'deploy', 'clients']
const LOOSE = ['*.md', '*.ts', '*.json', '*.yml', 'Dockerfile', '.env.example', '.ci/run']
const CITING =
  /\.(ts|md|sql|ya?ml|css|sh)$|^(biome\.json|\.env\.example|\.ci\/run)$|(^|\/)(Dockerfile|Caddyfile|nginx\.conf)$/

/** What npm and builds leave below these folders. */
const MADE = /(^|\/)clients\/.*(node_modules|dist|generated)$/

/** Named, but not in the repository. */
const NOT_OURS: ReadonlyMap<string, string> = new Map([
  ['config/companies.yaml', 'the operator makes it'],
  ['config/questions', 'the operator makes it'],
  ['config/moving.yaml', 'the operator makes it'],
  ['docker-compose.override.yml', 'the operator makes it'],
  ['collector.yaml', 'the operator makes it'],
  ['src/metabase/', "it is a folder of Metabase's own repository"],
  ['src/metabase/driver/duckdb.clj', "it is the Metabase driver's"],
  ['resources/metabase-plugin.yaml', "it is the Metabase driver's"],
  ['metabase-plugin.yaml', "it is the Metabase driver's"],
])

async function openProject(root: string): Promise<Project> {
  const files = new Set<string>()
  for await (const path of glob(
    [...FOLDERS.map(folder => `${folder}/**/*.*`), 'config/metabase/Dockerfile', 'docs/proxy/*', ...LOOSE],
    { cwd: root, exclude: path => MADE.test(path) },
  ))
    files.add(path)
  const directories = new Set<string>()
  for (const path of files) {
    for (let at = posix.dirname(path); at !== '.'; at = posix.dirname(at)) directories.add(at)
  }
  return { files, directories, read: path => readFileSync(posix.join(root, path), 'utf8') }
}

/** The files that are searched for citations. */
function citingFiles({ files }: Project): string[] {
  return [...files].filter(path => CITING.test(path)).sort()
}

/** Each citation in a file that leads nowhere, as `file:line: citation: why`. */
function wrongCitations(project: Project, path: string, text = project.read(path)): string[] {
  const wrong = citationsIn(project, path, text)
    .filter(({ fault }) => fault !== null)
    .sort((a, b) => a.at - b.at)
    .map(({ text: cited, at, fault }) => `${path}:${lineOf(text, at)}: ${cited}: ${fault}`)
  return [...new Set(wrong)]
}

/** How many citations of a file were looked up. */
function countCitations(project: Project, path: string): number {
  return citationsIn(project, path, project.read(path)).length
}

function citationsIn(project: Project, path: string, text: string): Citation[] {
  const isCode = path.endsWith('.ts')
  const comments = isCode ? commentsOf(text) : text
  // Messages to people cite documents, too; a test's texts are made up.
  const prose = isCode && !/^(test|bench)\//.test(path) ? undecorated(text) : comments
  return [
    ...documents(project, prose),
    ...titles(project, path, prose),
    ...paths(project, comments),
    ...invariants(project, comments),
    ...(path.endsWith('.md') ? links(project, path, text) : []),
    ...(isCode ? numberedSections(comments) : []),
  ]
}

/** `docs/contract.md#notice`, `docs/decisions/004-lock.md`, `ARCHITECTURE.md`: from the root, with or without a heading's anchor. */
function documents(project: Project, prose: string): Citation[] {
  const named =
    /(?<![\w/.-])((?:(?:docs|test)\/[\w/.-]*|README(?:\.pt-BR)?|ARCHITECTURE|CHANGELOG)\.md)(?:#([\p{L}\p{N}_-]+))?/gu
  return [...prose.matchAll(named)].map(({ 0: cited, 1: file = '', 2: anchor, index }) => ({
    text: cited,
    at: index,
    fault: target(project, file, anchor),
  }))
}

/** Relative links of a document: `[text](target)`, and pictures that are HTML. */
function links(project: Project, path: string, text: string): Citation[] {
  const found = text.matchAll(/\]\(([^)\s]+)\)|\b(?:src|srcset|href)="([^"\s]+)"/g)
  return [...found].flatMap(({ 1: linked, 2: shown, index }) => {
    const link = linked ?? shown ?? ''
    if (/^[a-z]+:/.test(link)) return []
    const [file = '', anchor] = link.split('#')
    const to = file === '' ? path : posix.join(posix.dirname(path), file)
    return [{ text: link, at: index, fault: target(project, to, anchor) }]
  })
}

function target(project: Project, file: string, anchor: string | undefined): string | null {
  if (!project.files.has(file))
    return project.directories.has(file.replace(/\/$/, '')) ? null : `there is no file ${file}`
  if (anchor === undefined || slugsOf(project.read(file)).has(anchor)) return null
  return `${file} has no heading with the anchor #${anchor}`
}

/** `README.md, "More"`, and within a document `see "Redis"` or `("Redis")`. */
function titles(project: Project, path: string, prose: string): Citation[] {
  const named = /\b(README|ARCHITECTURE)(?:\.md)?(?:[,:]\s+|\s\()"([^"]+)"\)?/g
  const elsewhere = [...prose.matchAll(named)].map(({ 0: text, 1: document, 2: title = '', index }) => ({
    text,
    index,
    title,
    file: `${document}.md`,
  }))
  const here = [...prose.matchAll(/\b[Ss]ee\s+"([^"]+)"|\("([A-Z][^"]+)"\)/g)].map(
    ({ 0: text, 1: seen, 2: title = seen ?? '', index }) => ({ text, index, title, file: path }),
  )
  const cited = path.endsWith('.md') ? [...elsewhere, ...here] : elsewhere
  return cited.map(({ text, index, title, file }) => ({
    text: plain(text),
    at: index,
    fault: headingsOf(project.read(file)).includes(plain(title))
      ? null
      : `${file} has no heading "${plain(title)}"`,
  }))
}

/**
 * `src/sync.ts`, `test/system/crash/`, `src/marts/*.sql`; in backticks also a name alone, as `endpoints.ts`.
 * What ends in `.md` is left to `documents`.
 */
function paths(project: Project, comments: string): Citation[] {
  const whole = new RegExp(`(?<![\\w/.#@-])(?:${FOLDERS.join('|')})/[\\w./*-]*`, 'g')
  const alone = /(?<=`)[\w-]+(?:\/[\w-]+)*\.(?:ts|sql|css|sh|yaml|yml)(?=`)/g
  return [
    ...[...comments.matchAll(whole)].flatMap(({ 0: found, index }) => {
      const cited = found.replace(/[.-]+$/, '')
      if (cited.endsWith('.md')) return []
      return [{ text: cited, at: index, fault: isThere(project, cited) ? null : 'there is no such path' }]
    }),
    ...[...comments.matchAll(alone)].flatMap(({ 0: cited, index }) => {
      if (FOLDERS.some(folder => cited.startsWith(`${folder}/`))) return []
      const known = NOT_OURS.has(cited) || [...project.files].some(file => `/${file}`.endsWith(`/${cited}`))
      return [{ text: cited, at: index, fault: known ? null : 'no file has this name' }]
    }),
  ]
}

/** A slash at the end means a directory; a star stands for any part of a name. */
function isThere({ files, directories }: Project, cited: string): boolean {
  if (NOT_OURS.has(cited)) return true
  const path = cited.replace(/\/\*\*$/, '/')
  if (path.includes('*')) return [...files].some(file => posix.matchesGlob(file, path))
  return path.endsWith('/') ? directories.has(path.slice(0, -1)) : files.has(path) || directories.has(path)
}

/** `(I4)`, `invariant I10`: rows of ARCHITECTURE.md's table. */
function invariants(project: Project, comments: string): Citation[] {
  const known = new Set(
    [...project.read('ARCHITECTURE.md').matchAll(/^\| (I\d+) \|/gm)].map(([, name]) => name),
  )
  return [...comments.matchAll(/\bI\d{1,2}\b/g)].map(({ 0: name, index }) => ({
    text: name,
    at: index,
    fault: known.has(name) ? null : 'ARCHITECTURE.md has no such invariant',
  }))
}

/** Numbers change when a document does, and mean nothing to a reader without it. */
function numberedSections(comments: string): Citation[] {
  return [...comments.matchAll(/\b[Ss]ections?\s+\d[\d.]*|\bDESIGN\b/g)].map(({ 0: cited, index }) => ({
    text: plain(cited),
    at: index,
    fault: 'cite a heading by its anchor, as docs/contract.md#notice',
  }))
}

/** The text with spaces for everything but comments, so that each character keeps its place. */
function commentsOf(text: string): string {
  return text
    .split('\n')
    .map(line => {
      const start = /^\s*(?:\/\*\*?|\*\/?|\/\/)|\s\/\/ |\s\/\*\*? /.exec(line)
      const from = start ? start.index + start[0].length : line.length
      return ' '.repeat(from) + line.slice(from)
    })
    .join('\n')
}

/** GitHub's anchors: lower case, no punctuation, a hyphen for each space, a number after a repeated one. */
function slugsOf(document: string): ReadonlySet<string> {
  const slugs = new Set<string>()
  for (const heading of headingsOf(document)) {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-')
    let unique = slug
    for (let n = 1; slugs.has(unique); n += 1) unique = `${slug}-${n}`
    slugs.add(unique)
  }
  return slugs
}

/** The titles of a document's headings, without their markup; a `#` in a block of code begins no heading. */
function headingsOf(document: string): string[] {
  return [...document.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} +(.+?)(?: +#+)?$/gm)].map(
    ([, title = '']) => title.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, ''),
  )
}

/** The text with spaces for the star that begins a line of a comment: a title may go on behind it. */
function undecorated(text: string): string {
  return text.replaceAll(/^ *\*\/?/gm, found => ' '.repeat(found.length))
}

/** A title may go on in the next line. */
function plain(text: string): string {
  return text.replaceAll(/\s+/g, ' ')
}

function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length
}

const project = await openProject(join(import.meta.dirname, '../..'))

describe('What comments and documents cite', () => {
  it('is there: files, directories, headings, titles and invariants', () => {
    expect(citingFiles(project).flatMap(path => wrongCitations(project, path))).toEqual([])
  })

  it('is looked for in code, documents, SQL and what containers are made of', () => {
    const searched = citingFiles(project)
    const some = [
      'src/sync.ts',
      'jobs/main.ts',
      'schema/openapi.yaml',
      'config/settings.ts',
      'docker-compose.yml',
    ]
    const others = [
      'bench/main.ts',
      'README.md',
      'ARCHITECTURE.md',
      'CHANGELOG.md',
      'docs/contract.md',
      'docs/internals/scan.md',
      'docs/decisions/001-raw-log.md',
      'README.pt-BR.md',
      'Dockerfile',
    ]
    expect(searched).toEqual(
      expect.arrayContaining([...some, ...others, 'test/integration/citations.test.ts']),
    )
    expect(countCitations(project, 'ARCHITECTURE.md')).toBeGreaterThan(100)
    expect(countCitations(project, 'docs/internals/daemon.md')).toBeGreaterThan(20)
    expect(countCitations(project, 'docs/contract.md')).toBeGreaterThan(50)
    expect(countCitations(project, 'schema/notice.ts')).toBeGreaterThan(3)
  })
})

describe('The pages of', () => {
  it.each(['docs/internals', 'docs/decisions', 'docs/operating', 'docs/operating/runbooks'])(
    '%s are all in its index',
    folder => {
      const index = project.read(`${folder}/README.md`)
      const listed = [...index.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, page]) => `${folder}/${page}`)
      const pages = [...project.files].filter(
        path => dirname(path) === folder && path.endsWith('.md') && path !== `${folder}/README.md`,
      )
      expect(listed.sort()).toEqual(pages.sort())
    },
  )
})

describe('A citation that leads nowhere is named with its file, line and reason', () => {
  const CODE = 'src/sync.ts'
  const comment = (...lines: string[]) =>
    ['const one = 1', '/**', ...lines.map(line => ` * ${line}`), ' */'].join('\n')

  it.each([
    ['a heading', 'docs/contract.md#notices', 'docs/contract.md has no heading with the anchor #notices'],
    [
      'a heading of another document',
      'ARCHITECTURE.md#no-such',
      'ARCHITECTURE.md has no heading with the anchor #no-such',
    ],
    ['a document', 'docs/no_such.md#notice', 'there is no file docs/no_such.md'],
    ['a file', 'src/core/pipeline/no_such.ts', 'there is no such path'],
    ['a directory', 'test/no_such/', 'there is no such path'],
    ['a pattern', 'schema/no_such_*.ts', 'there is no such path'],
    ['an invariant', 'I99', 'ARCHITECTURE.md has no such invariant'],
    ['a number of a section', 'section 2.1', 'cite a heading by its anchor, as docs/contract.md#notice'],
    ['a document that is not here', 'DESIGN', 'cite a heading by its anchor, as docs/contract.md#notice'],
  ])('%s', (_what, cited, why) => {
    expect(wrongCitations(project, CODE, comment('The first line.', `The second (${cited}).`))).toEqual([
      `${CODE}:4: ${cited}: ${why}`,
    ])
  })

  it('a name alone in backticks, a title, also over two lines, and one in a message', () => {
    expect(wrongCitations(project, CODE, comment('See `no_such.ts`.'))).toEqual([
      `${CODE}:3: no_such.ts: no file has this name`,
    ])
    expect(
      wrongCitations(
        project,
        CODE,
        comment('ARCHITECTURE.md, "What', 'is where", and README.md, "No', 'such".'),
      ),
    ).toEqual([`${CODE}:4: README.md, "No such": README.md has no heading "No such"`])
    expect(wrongCitations(project, CODE, `throw new Error('README.md ("No such") has them')`)).toEqual([
      `${CODE}:1: README.md ("No such"): README.md has no heading "No such"`,
    ])
  })

  it('a link and a title in a document', () => {
    const text = [
      '[one](contract.md#notice)',
      '[two](#no-such)',
      '[three](../no_such.md)',
      '<img src="pictures/no_such.webp">',
      'As it is ("No such").',
    ]
    const path = 'docs/contract.md'
    expect(wrongCitations(project, path, text.join('\n'))).toEqual([
      `${path}:2: #no-such: ${path} has no heading with the anchor #no-such`,
      `${path}:3: ../no_such.md: there is no file no_such.md`,
      `${path}:4: pictures/no_such.webp: there is no file docs/pictures/no_such.webp`,
      `${path}:5: ("No such"): ${path} has no heading "No such"`,
    ])
  })
})

it('anchors are those of GitHub', () => {
  const document = [
    '# A `code`, *and* more: é_1',
    '## Twice',
    '    # no heading',
    '## Twice',
    '```',
    '# none',
    '```',
  ]
  expect([...slugsOf(document.join('\n'))]).toEqual(['a-code-and-more-é_1', 'twice', 'twice-1'])
})
