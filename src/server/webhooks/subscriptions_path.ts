import { join } from 'node:path'

/** Returns the file of the webhook subscriptions; it is made for the first one. */
export function subscriptionsPath(dataDir: string): string {
  return join(dataDir, 'webhooks.sqlite')
}
