import { randomUUID } from 'node:crypto'
import type { ObjectStore, WriteCondition } from '#src/lib/objects/objects.ts'
import { type Finding, ok, problem } from './extra.ts'

const CHECK = 'store'
/** Some stores accept two of racing writes now and then. */
const RACERS = 16
const ROUNDS = 3
/** A UUID, and room for a store that answers with something else. */
const RACE_BYTES = 1024

/**
 * Creates an object many times at once, and replaces one version of it many times at once: a store that lets two win would
 * let two workers overwrite each other.
 */
export async function checkRace(store: ObjectStore, company: string): Promise<Finding> {
  const keys = Array.from({ length: ROUNDS }, () => `${company}/lake/.doctor-${randomUUID()}`)
  try {
    for (const key of keys) {
      const created = await race(store, key, { absent: true })
      // An answer that was lost is no second winner.
      if (created > 1)
        return unsafe(store, `${created} of ${RACERS} racing writers create one object`, 'If-None-Match')
      const found = await store.get(key, RACE_BYTES)
      if (found === null) continue
      const replaced = await race(store, key, { tag: found.tag })
      if (replaced > 1)
        return unsafe(
          store,
          `${replaced} of ${RACERS} racing writers replace one version of an object`,
          'If-Match',
        )
      if (replaced === 0 && (await store.get(key, RACE_BYTES))?.bytes.equals(found.bytes))
        return problem(
          CHECK,
          store.root,
          'let nobody replace an object by the ETag that it gave: no worker could run',
          'Use a store with conditional writes (If-Match with PUT), without a gateway that changes ETags',
        )
    }
    return ok(
      CHECK,
      store.root,
      `Of ${RACERS} racing writers, the object store lets one create an object, and one replace it`,
    )
  } finally {
    await store.remove(keys)
  }
}

/** Writes the same object several times at once. @returns how many of the writers won. */
async function race(store: ObjectStore, key: string, condition: WriteCondition): Promise<number> {
  const writes = Array.from({ length: RACERS }, () => store.put(key, Buffer.from(randomUUID()), condition))
  return (await Promise.all(writes)).filter(tag => tag !== null).length
}

function unsafe(store: ObjectStore, what: string, header: string): Finding {
  return problem(
    CHECK,
    store.root,
    `let ${what}: workers could overwrite each other`,
    `Use a store with conditional writes (${header} with PUT)`,
  )
}
