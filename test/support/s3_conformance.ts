import { createHash } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { create, type ObjectStore } from '#src/lib/objects/objects.ts'

/** What a publish needs from an object store. Every server that tests use must pass: our own alone proves nothing. */

export type Check = {
  readonly title: string
  /** @throws Error if the store does something else. */
  readonly check: (store: ObjectStore, directory: string) => Promise<void>
}

const RACERS = 40
const ROUNDS = 5
const INCREMENTS = 8
const LISTED = 23
/** More bytes than any object here has. */
const MOST = 16 * 1024 * 1024

export const CONFORMANCE: readonly Check[] = [
  {
    title: `of ${RACERS} racing creates, one wins`,
    async check(store) {
      for (let round = 0; round < ROUNDS; round += 1) {
        const bodies = Array.from({ length: RACERS }, (_, index) => Buffer.from(`${index}`))
        const tags = await Promise.all(bodies.map(body => store.put(`race/${round}`, body, { absent: true })))
        const winners = tags.flatMap((tag, index) => (tag === null ? [] : [index]))
        same('winners', winners.length, 1)
        same('content', (await store.get(`race/${round}`, MOST))?.bytes.toString(), `${winners[0]}`)
      }
    },
  },
  {
    title: 'no increment by If-Match is lost',
    async check(store) {
      await store.put('counter', Buffer.from('0'))
      const increment = async () => {
        for (;;) {
          const found = await store.get('counter', MOST)
          const next = Buffer.from(String(Number(found?.bytes) + 1))
          if (await store.put('counter', next, { tag: found?.tag ?? '' })) return
        }
      }
      await Promise.all(
        Array.from({ length: INCREMENTS }, async () => {
          for (let count = 0; count < INCREMENTS; count += 1) await increment()
        }),
      )
      same('counter', (await store.get('counter', MOST))?.bytes.toString(), String(INCREMENTS ** 2))
    },
  },
  {
    title: 'a stale tag is refused, and changes nothing',
    async check(store) {
      const first = await store.put('stale', Buffer.from('1'))
      await store.put('stale', Buffer.from('2'))
      same('answer', await store.put('stale', Buffer.from('3'), { tag: first ?? '' }), null)
      same('content', (await store.get('stale', MOST))?.bytes.toString(), '2')
    },
  },
  {
    title: 'creating the same content again succeeds, other content does not',
    async check(store) {
      same('first', await create(store, 'once', Buffer.from('a')), true)
      same('again', await create(store, 'once', Buffer.from('a')), true)
      same('other', await create(store, 'once', Buffer.from('b')), false)
    },
  },
  {
    title: 'a file is uploaded once, whole',
    async check(store, directory) {
      const path = join(directory, 'upload')
      const bytes = Buffer.alloc(3_000_000, 'editais ')
      await writeFile(path, bytes)
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      const file = { path, bytes: bytes.length, sha256 }
      same('first', await store.upload('file', file), true)
      same('again', await store.upload('file', file), false)
      same('content', (await store.get('file', MOST))?.bytes.equals(bytes), true)
      await rm(path)
    },
  },
  {
    title: 'a missing object is null, and removing it is not an error',
    async check(store) {
      same('object', await store.get('nothing/here', MOST), null)
      await store.remove(['nothing/here'])
    },
  },
  {
    title: 'a list of several pages has each object once, with its size, and nothing of its neighbours',
    async check(store) {
      const keys = Array.from(
        { length: LISTED },
        (_, index) => `list/part=${String(index).padStart(3, '0')}.bin`,
      )
      await Promise.all(keys.map((key, index) => store.put(key, Buffer.alloc(index))))
      await store.put('listed/not', Buffer.from('x'))
      const found: string[] = []
      for await (const { key, bytes } of store.list('list/')) found.push(`${key} ${bytes}`)
      same('list', found.sort().join(), keys.map((key, index) => `${key} ${index}`).join())
      await store.remove(keys.slice(1))
      const left: string[] = []
      for await (const { key } of store.list('list/')) left.push(key)
      same('left', left.join(), keys[0])
    },
  },
]

function same(what: string, found: unknown, expected: unknown): void {
  if (found !== expected) throw new Error(`${what}: ${found} instead of ${expected}`)
}
