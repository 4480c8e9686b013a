import { type KeyEntry, stateOf } from '../key_entry.ts'
import { KeyStore } from '../keys.ts'
import type { Subscription } from './subscriptions.ts'

/** Whether a subscription's key is valid, or was replaced by one that is. Null if there is no file of keys. */
export function validKeys(
  dataDir: string,
  now: Date,
  waitMs: number,
): ((subscription: Pick<Subscription, 'key'>) => boolean) | null {
  const keys = KeyStore.openIfThere(dataDir, waitMs)
  if (!keys) return null
  const entries = new Map(entriesOf(keys).map(entry => [entry.prefix, entry]))
  return ({ key }) => {
    for (let entry = entries.get(key); entry; entry = entries.get(entry.replacedBy ?? '')) {
      if (['valid', 'replaced'].includes(stateOf(entry, now))) return true
    }
    return false
  }
}

function entriesOf(keys: KeyStore): readonly KeyEntry[] {
  try {
    return keys.list(null)
  } finally {
    keys.close()
  }
}
