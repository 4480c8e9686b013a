import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, test } from 'vitest'
import { readMailSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { composeMail } from '#src/extras/report/mail.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { type Behaviour, MAIL_USER, startMailServer } from '#test/support/mail_server.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { type Environment, runCommand, temporaryDirectory } from '#test/support/project.ts'
import { makeAuthority } from '#test/support/redis_states.ts'
import { textOf } from '#test/support/report_page.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

const TO = 'ana@example.com, rui@example.com'
const FROM = 'editais@example.com'

/** A notice that needs a decision today, whatever day it is: recommended, of tomorrow, and not confirmed. */
function undecided(fields = {}, analysis = {}): Entry {
  const own = {
    ...{ data_sessao: `${dayIn(1)}T09:00:00`, orgao: 'MUNICÍPIO DE NATAL', uf: 'RN' },
    pncp_url: 'https://pncp.gov.br/app/editais/1',
  }
  return noticeEntry(1, { ...own, ...fields }, analysis)
}

async function synced(entries: readonly Entry[] = [undecided()]): Promise<Environment> {
  const company = await startCompany(entries)
  await company.syncHere()
  return { ...company.environment, REPORT_FROM: FROM, REPORT_TO: TO }
}

const send = (environment: Environment, ...more: string[]) =>
  runShared(['report', '--send', ...more], environment)

test('the week’s report goes to all recipients in one mail, with the complete report attached', async () => {
  const { port, received } = await startMailServer({ login: true })
  const environment = {
    ...(await synced()),
    SMTP_URL: `smtp://${encodeURIComponent(MAIL_USER.user)}@127.0.0.1:${port}`,
    SMTP_PASSWORD: MAIL_USER.password,
  }
  expect(await send(environment, '--weekly')).toEqual({
    code: 0,
    stderr: '',
    stdout:
      'Mailed to ana@example.com, rui@example.com: Editais da semana, acme: 1 para decidir (1 hoje), 1 sessão em 7 dias\n',
  })
  const [{ to, mail } = {} as never, ...others] = received
  expect(others).toEqual([])
  expect(to).toEqual(['ana@example.com', 'rui@example.com'])
  expect(mail).toMatchObject({
    subject: 'Editais da semana, acme: 1 para decidir (1 hoje), 1 sessão em 7 dias',
    from: { address: FROM },
    headers: expect.arrayContaining([
      expect.objectContaining({ key: 'auto-submitted', value: 'auto-generated' }),
    ]),
  })
  expect(mail.text).toMatch(
    /^- até \d\d\/\d\d\/\d{4} \(hoje\): MUNICÍPIO DE NATAL · RN; confirmar ou desistir; sessão \d\d\/\d\d\/\d{4} às 09:00; parecer Participar, análise [A-Z]\S+; R\$\s1,25 https:\/\/pncp\.gov\.br\/app\/editais\/1$/m,
  )
  expect(mail.text).toContain('O que mudou nos últimos 7 dias')
  expect(textOf(mail.html ?? '')).toContain('MUNICÍPIO DE NATAL · RN; confirmar ou desistir')
  expect(mail.html).toContain('<a href="https://pncp.gov.br/app/editais/1">')
  const [attached] = mail.attachments
  expect(attached).toMatchObject({
    filename: expect.stringMatching(/^editais-acme-\d{4}-\d\d-\d\d\.html$/),
    mimeType: 'text/html',
    disposition: 'attachment',
  })
  const report = new TextDecoder().decode(attached?.content as ArrayBuffer)
  expect(report).toMatch(/^<!doctype html>\n<html lang="pt-BR">.*<\/html>\n$/s)
  expect(textOf(report)).toContain('1 edital espera uma decisão hoje')
})

test('the mail names what changed in each notice, from what to what, with its link; the daily one only what is new', async () => {
  const company = await startCompany([undecided({ data_sessao: `${dayIn(20)}T09:00:00` }), noticeEntry(2)])
  await company.syncHere()
  company.world.update(idOf(1), { edital: { data_sessao: `${dayIn(19)}T09:00:00` }, updatedAt: new Date() })
  await company.syncHere()
  const text = async (span: 'day' | 'week', now: Date) => {
    const { lake } = companyPaths(company.environment.DATA_DIR as string, 'acme')
    return (await composeMail(lake, span, { now, pagesUrl: null })).text
  }
  const line = new RegExp(
    `^- Sessão antecipada: MUNICÍPIO DE NATAL · RN; de ${brazilian(20)} 09:00 para ${brazilian(19)} 09:00; impugnar até \\d\\d/\\d\\d/\\d{4} https://pncp.gov.br/app/editais/1$`,
    'm',
  )
  const soon = new Date(Date.now() + 60_000)
  expect(await text('day', soon)).toMatch(line)
  expect(await text('week', soon)).toMatch(line)
})

/** A day as people write it. */
function brazilian(days: number): string {
  return dayIn(days).split('-').reverse().join('/')
}

test('links lead to our pages if the operator says where they are', async () => {
  const gone = noticeEntry(2, { pncp_url: 'https://pncp.gov.br/app/editais/2' })
  const company = await startCompany([undecided(), gone])
  await company.syncHere()
  company.world.remove(idOf(2))
  await company.syncHere()
  const environment = { ...company.environment, PAGES_URL: 'https://editais.example.com/' }
  const page = `https://editais.example.com/editais/${idOf(1)}`
  const mail = await runShared(['report', '--weekly'], environment)
  expect(mail.stdout).toContain(`R$\u00a01,25 ${page}\n`)
  // Our pages do not have it any more.
  expect(mail.stdout).toMatch(/^- Saiu da lista: .* https:\/\/pncp\.gov\.br\/app\/editais\/2$/m)
  const output = join(await temporaryDirectory(), 'report.html')
  await runShared(['report', '--output', output], environment)
  const report = await readFile(output, 'utf8')
  expect(report).toContain(`<a href="${page}" rel="noopener noreferrer">MUNICÍPIO DE NATAL</a>`)
  expect(report).not.toContain('href="https://pncp.gov.br/app/editais/1')
  const wrong = await runShared(['report'], { ...environment, PAGES_URL: 'https://example.com/editais' })
  expect(wrong).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(
      'PAGES_URL=https://example.com/editais: must be an address without a path',
    ),
  })
})

test('without --send the mail is only printed, and --output goes with neither', async () => {
  const environment = await synced()
  const printed = await runShared(['report', '--weekly'], environment)
  expect(printed).toMatchObject({ code: 0, stderr: 'Not sent: add --send.\n' })
  expect(printed.stdout).toMatch(/^Editais da semana, acme: 1 para decidir.*\n\n1 edital em andamento/)
  const tomorrow = new Date(Date.now() + 25 * 3_600_000)
  const { text } = await composeMail(companyPaths(environment.DATA_DIR ?? '', 'acme').lake, 'day', {
    now: tomorrow,
    pagesUrl: null,
  })
  expect(text).toContain('\nO que mudou nas 24 horas até a última leitura da lista\n')
  const both = await send(environment, '--output', 'x.html')
  expect(both).toMatchObject({ code: 2, stderr: expect.stringMatching(/--output writes a file/) })
})

test('text of notices cannot become markup, a header or another recipient', async () => {
  const { port, received } = await startMailServer()
  const evil = '<img src=x onerror=alert(1)>\r\nBcc: eve@example.com\r\n\r\n.\r\n\u202e\u0000'
  const environment = {
    ...(await synced([
      undecided(
        {
          ...{ orgao: evil, numero: evil, uf: evil, objeto: evil, pncp_url: 'javascript:alert(1)' },
          participation_confirmed: true,
        },
        {
          verdict: { recommendation: evil },
          requirements: [{ category: 'outros', title: evil, status: 'red' }],
        },
      ),
    ])),
    SMTP_URL: `smtp://127.0.0.1:${port}`,
  }
  expect(await send(environment)).toMatchObject({ code: 0 })
  const [{ to, mail } = {} as never] = received
  expect(to).toEqual(['ana@example.com', 'rui@example.com'])
  expect(mail.bcc).toBeUndefined()
  expect(mail.subject).toBe('Editais do dia, acme: 1 para decidir (1 hoje), 1 sessão em 7 dias')
  expect(mail.html).not.toMatch(/<img|\u202e|javascript/)
  expect(mail.html).toContain('&lt;img src=x')
  expect(mail.text?.match(/^- até .*/gm)).toHaveLength(1)
})

test('a password is sent only over TLS, by STARTTLS or from the start, and only to a server that is trusted', async () => {
  const authority = await makeAuthority()
  const secret = join(await temporaryDirectory(), 'password')
  await writeFile(secret, `${MAIL_USER.password}\n`)
  const environment = { ...(await synced()), SMTP_PASSWORD_FILE: secret }
  const user = encodeURIComponent(MAIL_USER.user)
  for (const fromTheStart of [false, true]) {
    const { port, received } = await startMailServer({ login: true, tls: authority, fromTheStart })
    const SMTP_URL = `${fromTheStart ? 'smtps' : 'smtp'}://${user}@127.0.0.1:${port}${fromTheStart ? '' : '?tls=required'}`
    const stranger = await runCommand(['report', '--send'], { ...environment, SMTP_URL })
    expect(stranger).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no secure connection \(.*certificate/),
    })
    // The key's own process trusts the authority, as the variable says.
    const trusting = { ...environment, SMTP_URL, NODE_EXTRA_CA_CERTS: authority.certificate }
    expect(await runCommand(['report', '--send'], trusting)).toMatchObject({ code: 0 })
    expect(received.map(({ wasSecure }) => wasSecure)).toEqual([true])
  }
  const { port, received } = await startMailServer({ login: true })
  const plain = await send({ ...environment, SMTP_URL: `smtp://${user}@127.0.0.1:${port}?tls=required` })
  expect(plain).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/no secure connection.*\?tls=off/),
  })
  expect(received).toEqual([])
})

const REFUSALS = [
  {
    behaviour: { login: true },
    password: 'outra senha',
    sentence: /refuses the login \(535 Bad password \(password\) of .*\)\. Check the user in SMTP_URL/,
  },
  { behaviour: { login: true }, password: null, sentence: /Check REPORT_FROM and REPORT_TO|needs a login/ },
  {
    behaviour: { refusals: [['recipient', 550, 'No such user']] },
    password: null,
    sentence: /did not accept the mail for ana@example\.com; the others got it\. Check REPORT_TO/,
  },
  {
    behaviour: { refusals: [['mail', 451, 'Greylisted']] },
    password: null,
    sentence: /does not accept the mail now \(451 Greylisted\)\. Try again later/,
  },
  {
    behaviour: { refusals: [['mail', 554, 'Spam']] },
    password: null,
    sentence: /refuses the mail \(554 Spam\)\. Nothing was sent/,
  },
] satisfies { behaviour: Behaviour; password: string | null; sentence: RegExp }[]

test('a server that refuses the login, a recipient or the mail, or is busy, is reported in one sentence', async () => {
  const company = await synced()
  for (const { behaviour, password, sentence } of REFUSALS) {
    const { port } = await startMailServer(behaviour as Behaviour)
    const user = password === null ? '' : `${encodeURIComponent(MAIL_USER.user)}@`
    const SMTP_URL = `smtp://${user}127.0.0.1:${port}`
    const { code, stderr, stdout } = await send({ ...company, SMTP_URL, SMTP_PASSWORD: password ?? '' })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(sentence)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    if (password !== null) expect(stderr).not.toContain(password)
  }
})

test('a server that is not there is reported, and nothing is sent', async () => {
  const { port, stop } = await startMailServer()
  await stop()
  const ended = await send({ ...(await synced()), SMTP_URL: `smtp://127.0.0.1:${port}` })
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/cannot be reached.*Check SMTP_URL/) })
})

it.each([
  [{}, /Set SMTP_URL .* and REPORT_TO/],
  [{ SMTP_URL: 'smtp://mail.example.com', REPORT_TO: TO }, /Set REPORT_FROM/],
  [
    { SMTP_URL: 'smtp://mail.example.com', REPORT_FROM: FROM, REPORT_TO: 'ana' },
    /REPORT_TO=ana: must be e-mail addresses/,
  ],
  [
    { SMTP_URL: 'https://mail.example.com', REPORT_FROM: FROM, REPORT_TO: TO },
    /SMTP_URL=\(not shown\): must be an address such as smtp:/,
  ],
  [
    { SMTP_URL: 'smtp://u:segredo@mail.example.com', REPORT_FROM: FROM, REPORT_TO: TO },
    /SMTP_URL=\(not shown\): .*SMTP_PASSWORD/,
  ],
  [{ SMTP_URL: 'smtp://%zz@mail.example.com', REPORT_FROM: FROM, REPORT_TO: TO }, /SMTP_URL=\(not shown\)/],
  [{ SMTP_URL: 'smtp://u@mail.example.com', REPORT_FROM: FROM, REPORT_TO: TO }, /SMTP_PASSWORD is not set/],
])('settings that cannot work are refused: %j', (environment, message) => {
  expect(() => readMailSettings(environment)).toThrow(message)
  expect(() => readMailSettings(environment)).not.toThrow(/segredo/)
})

test('TLS is required unless the server is on this machine or SMTP_URL says otherwise', () => {
  const tlsOf = (SMTP_URL: string) => readMailSettings({ SMTP_URL, REPORT_FROM: FROM, REPORT_TO: TO }).tls
  expect(tlsOf('smtp://mail.example.com')).toBe('starttls')
  expect(tlsOf('smtp://mail.example.com:25/?tls=off')).toBe('off')
  expect(tlsOf('smtp://localhost?tls=required')).toBe('starttls')
  for (const wrong of ['smtps://a?tls=off', 'smtp://a?tls=no', 'smtp://a?tls=off&b=1'])
    expect(() => tlsOf(wrong), wrong).toThrow('SMTP_URL=(not shown): must be an address such as')
  expect(tlsOf('smtps://mail.example.com')).toBe('from_the_start')
  for (const host of ['localhost', '127.0.0.1', '[::1]']) expect(tlsOf(`smtp://${host}`)).toBe('off')
  expect(tlsOf('smtp://127.0.0.1.example.com')).toBe('starttls')
})
