import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A host that is not on the internet: this machine, a private network, or the metadata service of a cloud. */
export class PrivateAddressError extends Error {
  readonly code = 'EPRIVATE'
}

/** Whether an address can be that of a server of somebody else on the internet. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast') return false
  // IPv6 that carries an IPv4 address: a gateway may turn it into that one.
  return parsed.kind() === 'ipv4' || !EMBEDDING.some(range => parsed.match(range))
}

/** 64:ff9b:1::/48 (NAT64, local), and the deprecated ::/96. */
const EMBEDDING = ['64:ff9b:1::/48', '::/96'].map(range => ipaddr.parseCIDR(range))

/**
 * Whether the host of a URL is public as far as its text shows; a name is checked again when it is resolved.
 * @param host as in `URL.hostname`.
 */
export function mayBePublic(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '')
  return isIP(bare) === 0 || isPublicAddress(bare)
}

/**
 * Resolves names for a connection, and fails for a name with an address that is not public: the answer of the first check
 * is the one that is connected to, so a name cannot change in between.
 */
export const lookupPublic: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, '', 0)
    const wrong = addresses.find(({ address }) => !isPublicAddress(address))
    const [first] = addresses
    if (wrong || !first) {
      return callback(new PrivateAddressError(`${hostname} is at a private address`), '', 0)
    }
    if (options.all) return callback(null, addresses)
    return callback(null, first.address, first.family)
  })
}
