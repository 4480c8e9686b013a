import { type KeyEntry, stateOf } from '#src/server/key_entry.ts'
import { KeyStore } from '#src/server/keys.ts'
import type { Subscription } from './subscriptions.ts'

/** Returns a key, the one that replaced it, and so on; none if it is unknown. Null if there is no file of keys. */
export function keyLines(dataDir: string, waitMs: number): ((prefix: string) => readonly KeyEntry[]) | null {
  const keys = KeyStore.openIfThere(dataDir, waitMs)
  if (!keys) return null
  const entries = new Map(entriesOf(keys).map(entry => [entry.prefix, entry]))
  return prefix => {
    const line: KeyEntry[] = []
    for (
      let entry = entries.get(prefix);
      entry && !line.includes(entry);
      entry = entries.get(entry.replacedBy ?? '')
    )
      line.push(entry)
    return line
  }
}

/** Returns whether a subscription's key is valid, or was replaced by one that is. Null if there is no file of keys. */
export function validKeys(
  dataDir: string,
  now: Date,
  waitMs: number,
): ((subscription: Pick<Subscription, 'key'>) => boolean) | null {
  const lines = keyLines(dataDir, waitMs)
  return lines && (({ key }) => lines(key).some(entry => ['valid', 'replaced'].includes(stateOf(entry, now))))
}

function entriesOf(keys: KeyStore): readonly KeyEntry[] {
  try {
    return keys.list(null)
  } finally {
    keys.close()
  }
}
