import { count, flag, situation } from '../frame/situation.ts'
import { enterHub, openHub } from '../hosts/namespaces.ts'
import { sharedNetwork } from '../hosts/network.ts'
import { measureStorm } from '../hosts/storm.ts'
import { measureTakeover } from '../hosts/takeover.ts'

export const hosts = situation({
  name: 'hosts',
  about:
    'Hosts that share the raw log in an object store: how soon one with an empty disk continues a company, and whether companies stay right while workers are killed with their disks and the store is paused.',
  options: {
    notices: count('size of the company that is taken over; 0 skips this', 20_000, 0),
    latency: count('latency of each answer of the object store, in ms', 20, 0),
    companies: count('companies in the storm; 0 skips it', 40, 0),
    small: count('size of these companies', 100),
    workers: count('workers in the storm, each with a disk of its own', 3, 2),
    seconds: count('how long the storm lasts', 600),
    every: count('seconds between two losses of a host', 20),
    cut: count('longest time that a host is cut off, in seconds', 90),
    namespaces: flag(
      'each worker of the storm in a network namespace and on a mount of its own; some are also cut off for a while. Needs Linux, root, and ip (iproute2)',
    ),
  },
  needsProc: true,
  async enter({ namespaces }) {
    if (namespaces) await enterHub()
  },
  async measure(bench, options) {
    const { notices, companies, namespaces } = options
    const network = namespaces ? await openHub() : sharedNetwork()
    return [
      ...(notices > 0 ? await measureTakeover(bench, await bench.folder('takeover'), options) : []),
      ...(companies > 0 ? await measureStorm(bench, options, network) : []),
    ]
  },
})
