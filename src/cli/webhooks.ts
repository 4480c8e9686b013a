import { Command } from 'commander'
import { readCompanies } from '#config/companies.ts'
import { readServeSettings } from '#config/http.ts'
import { type Environment, readCommonSettings, readSettings } from '#config/settings.ts'
import { makePrintable } from '#schema/text_key.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { closing } from '#src/lib/closing.ts'
import { pluralize } from '#src/lib/count.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { mayBePublic } from '#src/lib/http/public_lookup.ts'
import { openLog } from '#src/operate/open_log.ts'
import { renderTable } from '#src/present/terminal/table.ts'
import { findKeyState } from '#src/server/key_file.ts'
import { KeyStore, noValidKey, takePrefix } from '#src/server/keys.ts'
import { EVENT_KINDS, openFeeds, PING } from '#src/server/webhooks/feed.ts'
import { sendMessage } from '#src/server/webhooks/send.ts'
import { readValidKeys, type Subscription, Subscriptions } from '#src/server/webhooks/subscriptions.ts'

/** How long to wait for another writer. */
const WAIT_MS = 2000
/** Each waits for some seconds: the changes of a large company are read for the first time. */
const LATEST_TRIES = 12
/** Failed messages shown of each subscription in the list. */
const DEAD_SHOWN = 3

type AddOptions = { key: string; url: string; events?: string; fromStart?: true; json?: true }

export function createWebhooksCommand(environment: Environment): Command {
  const command = new Command('webhooks').description(
    'Manage webhooks: the daemon posts what changes to their receivers, signed as Standard Webhooks specifies.',
  )
  command
    .command('add')
    .description('subscribe a receiver, and show the secret of its signatures, once')
    .requiredOption(
      '--key <prefix>',
      'prefix of an API key with the scope feed; the subscription ends with the key',
    )
    .requiredOption('--url <url>', 'address of the receiver')
    .option('--events <kinds>', `only these, separated by commas: ${EVENT_KINDS.join(', ')} (default: all)`)
    .option('--from-start', 'begin with the first event of the log (default: with what changes from now on)')
    .option('--json', 'print JSON')
    .action((options: AddOptions) => add(environment, options))
  command
    .command('list')
    .description('list the subscriptions, what waits for them, and what was given up')
    .option('--json', 'print JSON')
    .action((options: { json?: true }) => list(environment, options))
  command
    .command('test <id>')
    .description('send a message of the type ping now, and show what the receiver answered')
    .action((id: string) => test(environment, id))
  command
    .command('replay <id>')
    .description('send again the messages that were given up')
    .action((id: string) => change(environment, id, replay))
  command
    .command('discard <id>')
    .description('forget the messages that were given up')
    .action((id: string) => change(environment, id, discard))
  command
    .command('resume <id>')
    .description('start a stopped subscription again')
    .action((id: string) => change(environment, id, resume))
  command
    .command('remove <id>')
    .description('end a subscription; messages that wait for it are not sent')
    .action((id: string) => change(environment, id, remove))
  return command
}

async function add(
  environment: Environment,
  { key, url, events, fromStart, json }: AddOptions,
): Promise<void> {
  const { webhooksToPrivate } = readServeSettings(environment)
  const { dataDir } = readCommonSettings(environment)
  const company = findCompany(dataDir, takePrefix(key))
  const kinds = events === undefined ? null : parseKinds(events)
  const about = { company, key: takePrefix(key), url: parseAddress(url, webhooksToPrivate), events: kinds }
  const cursor = fromStart ? null : await latest(environment, company)
  const { subscription, secret } = withStore(Subscriptions.open(dataDir, WAIT_MS), store =>
    store.add({ ...about, cursor }, new Date()),
  )
  if (json) {
    process.stdout.write(`${JSON.stringify({ ...subscription, secret })}\n`)
    return
  }
  process.stdout.write(`${secret}\n`)
  process.stderr.write(
    `Webhook ${subscription.id} of ${company}. Store its secret now: it is not shown again. Try it: editais webhooks test ${subscription.id}\n`,
  )
}

/** Returns the place in the feed after which events are new. */
async function latest(environment: Environment, company: string): Promise<string> {
  const { environments, places } = await readCompanies(environment)
  const place = environments.get(company) ??
    places.get(company) ?? { DATA_DIR: readCommonSettings(environment).dataDir }
  const { dataDir, remoteLog } = readSettings(place)
  const { lake } = companyPaths(dataDir, company)
  const log = await openLog('error', {})
  await using feeds = closing(openFeeds({ findLake: () => lake, findLog: () => remoteLog, log }))
  for (let tries = 0; tries < LATEST_TRIES; tries += 1) {
    const cursor = await feeds.latest(company)
    if (cursor !== null) return cursor
  }
  throw new FatalError(
    `${company} has no snapshot yet, or its changes are not ready. Try again after its next sync, or use --from-start.`,
    EXIT.failed,
  )
}

function list(environment: Environment, { json }: { json?: true }): void {
  const store = Subscriptions.openIfThere(readCommonSettings(environment).dataDir, WAIT_MS)
  const all = store
    ? withStore(store, () =>
        store.list().map(subscription => ({
          ...subscription,
          ...store.counts(subscription.id),
          deadLetters: store.deadLetters(subscription.id, DEAD_SHOWN),
        })),
      )
    : []
  if (json) {
    process.stdout.write(`${JSON.stringify(all)}\n`)
    return
  }
  if (all.length === 0) {
    process.stdout.write('There are no webhooks yet.\n')
    return
  }
  const columns = ['id', 'company', 'key', 'receiver', 'events', 'waiting', 'given up', 'state']
  const rows = all.map(one => ({
    id: one.id,
    company: one.company,
    key: one.key,
    // The rest of an address is often a secret.
    receiver: new URL(one.url).host,
    events: one.events?.join(',') ?? 'all',
    waiting: String(one.queued),
    'given up': String(one.dead),
    state: one.stoppedBecause === null ? 'sending' : `stopped: ${one.stoppedBecause}`,
  }))
  process.stdout.write(`${renderTable(columns, rows)}\n`)
  for (const { id, deadLetters } of all) {
    for (const dead of deadLetters)
      process.stdout.write(`${id}: ${dead.id} was given up at ${dead.at}: ${makePrintable(dead.because)}.\n`)
  }
}

async function test(environment: Environment, id: string): Promise<void> {
  const { webhooksToPrivate: allowPrivate } = readServeSettings(environment)
  const store = Subscriptions.openIfThere(readCommonSettings(environment).dataDir, WAIT_MS)
  const { subscription, secret } = known(id, store, opened => ({
    subscription: opened.find(id),
    secret: opened.readSecret(id),
  }))
  const now = new Date()
  const { company, url } = subscription as Subscription
  const body = JSON.stringify({ type: PING, timestamp: now.toISOString(), data: { company } })
  const message = { id: `msg_ping${now.getTime()}`, body }
  const { outcome, clause } = await sendMessage(message, { url, secret: secret ?? '', allowPrivate, now })
  const sentence = `The receiver of ${id} ${clause}.\n`
  if (outcome === 'received') process.stdout.write(sentence)
  else throw new FatalError(sentence.trim(), EXIT.failed)
}

type Change = (store: Subscriptions, id: string, dataDir: string) => string

const replay: Change = (store, id) => {
  const messages = store.replay(id, new Date())
  return messages === 0 ? noneGivenUp(id) : `${pluralize(messages, 'message')} of ${id} will be sent again.`
}

const discard: Change = (store, id) => {
  const messages = store.discard(id)
  return messages === 0 ? noneGivenUp(id) : `${pluralize(messages, 'message')} of ${id} will never be sent.`
}

function noneGivenUp(id: string): string {
  return `${id} has no messages that were given up.`
}

const resume: Change = (store, id, dataDir) => {
  const { key, stoppedBecause } = store.find(id) as Subscription
  if (stoppedBecause === null) return `${id} was not stopped.`
  if (readValidKeys(dataDir, new Date(), WAIT_MS)?.({ key }) !== true) throw noValidKey(key)
  store.resume(id)
  return `${id} sends again, beginning with what it has not sent yet.`
}

const remove: Change = (store, id) => {
  store.remove(id)
  return `Webhook ${id} is removed. Messages that waited for it are not sent.`
}

function change(environment: Environment, id: string, work: Change): void {
  const { dataDir } = readCommonSettings(environment)
  const store = Subscriptions.openIfThere(dataDir, WAIT_MS)
  const sentence = known(id, store, opened => work(opened, id, dataDir))
  process.stdout.write(`${sentence}\n`)
}

/** Runs `work` if the subscription exists. @throws FatalError (usage) if it does not. */
function known<T>(id: string, store: Subscriptions | null, work: (store: Subscriptions) => T): T {
  if (store) {
    const found = withStore(store, () => (store.find(id) ? { result: work(store) } : null))
    if (found) return found.result
  }
  throw new FatalError(`There is no webhook ${id}. \`editais webhooks list\` shows them.`, EXIT.usage)
}

/** Returns the company whose key has this prefix. @throws FatalError (usage) unless that key is valid and may follow changes. */
function findCompany(dataDir: string, prefix: string): string {
  const keys = KeyStore.openIfThere(dataDir, WAIT_MS)
  const entry = keys?.list(null).find(one => one.prefix === prefix)
  keys?.close()
  if (!entry || findKeyState(entry, new Date()) !== 'valid') throw noValidKey(prefix)
  if (!entry.scopes.includes('feed'))
    throw new FatalError(`${prefix} may not follow changes: it lacks the scope feed.`, EXIT.usage)
  return entry.company
}

function parseKinds(text: string): readonly string[] {
  const kinds = text.split(',').map(kind => kind.trim())
  const unknown = kinds.find(kind => !(EVENT_KINDS as readonly string[]).includes(kind))
  if (unknown === undefined) return [...new Set(kinds)]
  throw new FatalError(`There is no event "${unknown}". Choose from ${EVENT_KINDS.join(', ')}.`, EXIT.usage)
}

function parseAddress(text: string, allowPrivate: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null
  const isWeb = url?.protocol === 'https:' || (allowPrivate && url?.protocol === 'http:')
  if (!url || !isWeb || url.username || url.password)
    throw new FatalError(
      `--url must be an address such as https://erp.example.com/hooks, without a name or password${allowPrivate ? '' : '; http:// and private addresses need WEBHOOKS_ALLOW_PRIVATE=on'}.`,
      EXIT.usage,
    )
  if (!allowPrivate && !mayBePublic(url.hostname))
    throw new FatalError(
      `${url.hostname} is a private address. WEBHOOKS_ALLOW_PRIVATE=on allows it, for the daemon as well.`,
      EXIT.usage,
    )
  return url.href
}

function withStore<T>(store: Subscriptions, work: (store: Subscriptions) => T): T {
  using opened = closing(store)
  return work(opened)
}
