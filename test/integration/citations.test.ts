import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { citingFiles, countCitations, openProject, slugsOf, wrongCitations } from '#test/support/citations.ts'

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
