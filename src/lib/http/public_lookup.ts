import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A host that is not on the internet: this machine, a private network, or the metadata service of a cloud. */
export class PrivateAddressError extends Error {
  readonly code = 'EPRIVATE'
}

/** Returns whether an address can be that of a server of another party on the internet. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast') return false
  return parsed.kind() === 'ipv4' ? parsed.toString() !== AZURE_PLATFORM : parsed.match(GLOBAL_IPV6)
}

/** Serves a virtual machine its settings and certificates, at an address that looks public. */
const AZURE_PLATFORM = '168.63.129.16'
/** All of IPv6 that is assigned to hosts of the internet; what carries an IPv4 address there has a range of its own. */
const GLOBAL_IPV6 = ipaddr.parseCIDR('2000::/3')

/**
 * Returns whether the host of a URL is public as far as its text shows; a name is checked again when it is resolved.
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
