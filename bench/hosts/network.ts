/** Where the hosts of a storm are, and how they reach Redis, the object store and the API. */
export type Network = {
  /** The address that Redis, the object store and the API listen on. */
  readonly address: string
  /** Whether each host has an address and a link of its own, so that it can be cut off. */
  readonly hasLinks: boolean
  /** @param dataDir a directory for the host's disk. */
  addHost(dataDir: string): Promise<Place>
}

/** What a host's processes run in. */
export type Place = {
  readonly address: string
  /** A command that replaces itself with the command after it, on this host. */
  readonly within: readonly string[]
  /** Cuts the link: the host lives on, and nothing arrives in either direction. */
  cut(): Promise<void>
  join(): Promise<void>
  /** Takes the link away for good, as a power failure does: whoever it was connected to is told nothing. */
  unplug(): Promise<void>
  /** What is left of the host, when its processes have ended. */
  remove(): Promise<void>
}

const LOOPBACK = '127.0.0.1'

/** All hosts are processes of this machine's network, which cannot be cut off. */
export function sharedNetwork(): Network {
  const nothing = async () => {}
  const place = {
    address: LOOPBACK,
    within: [],
    cut: nothing,
    join: nothing,
    unplug: nothing,
    remove: nothing,
  }
  return { address: LOOPBACK, hasLinks: false, addHost: async () => place }
}
