import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const PAGE = readFileSync(join(import.meta.dirname, '../../docs/operating/redis.md'), 'utf8')

/** The rights that docs/operating/redis.md lists for a user, for the keys of a prefix; in a cluster, with `{…}`. */
export function smallestRights(prefix: string): string[] {
  const commands = [...PAGE.matchAll(/redis-cli ACL SETUSER worker ((?:.*\\\n)*.*)/g)].map(([, words = '']) =>
    words
      .replace(/\\\n|'/g, ' ')
      .split(/\s+/)
      .filter(word => !/^(on|>.*|)$/.test(word)),
  )
  const [all = [], inCluster = []] = commands
  const rights = prefix.startsWith('{') ? [...all, ...inCluster] : all
  return rights.filter(word => !word.startsWith('~')).concat(`~${prefix}:*`)
}
