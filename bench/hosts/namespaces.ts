import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { promisify } from 'node:util'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import type { Network, Place } from './network.ts'

/**
 * Linux's network namespaces: a hub, which this process is in, and one for each host, with a link to the hub's bridge.
 * The hub has no name and no other link, and the names of the others are files that only this process and its children
 * see. So all of it is gone when they have ended, in whatever way.
 */

/** Has the id of the process that is in the hub: those that it starts are not. */
const MARK = 'EDITAIS_BENCH_HUB'
const ENV = '/usr/bin/env'
/** Of the names of namespaces. */
const NAMES = '/run/netns'
const BRIDGE = 'hub'
const HUB = '10.99.0.1'
const HUB_HARDWARE = '02:00:00:00:00:00'
const HOSTS_IN_A_ROW = 250

const command = promisify(execFile)
const ip = (...args: readonly string[]) => command('ip', args)

/**
 * Continues in a hub. Call it first: the process begins anew there, with the same id, arguments and terminal.
 * @throws FatalError if this system, or this user, cannot.
 */
export async function enterHub(): Promise<void> {
  const { pid, execPath, execArgv, argv, env } = process
  if (env[MARK] === String(pid)) return
  await checkNamespaces()
  const again = ['unshare', '--net', '--mount', '--', execPath, ...execArgv, ...argv.slice(1)]
  process.execve?.(ENV, ['env', ...again], { ...env, [MARK]: String(pid) })
}

async function checkNamespaces(): Promise<void> {
  try {
    if (process.platform !== 'linux') throw new Error(`this is ${process.platform}`)
    if (process.getuid?.() !== 0) throw new Error('this user is not root')
    await ip('-V')
    await command('unshare', ['--net', '--mount', '--', 'ip', 'netns', 'list'])
  } catch (error) {
    throw new FatalError(
      `--namespaces needs Linux, root, and the commands ip and unshare (apt-get install iproute2 util-linux): ${getMessage(error).trim()}.`,
    )
  }
}

/** Makes the hub's bridge. The caller is in a hub. */
export async function openHub(): Promise<Network> {
  await mkdir(NAMES, { recursive: true })
  await command('mount', ['-t', 'tmpfs', 'names', NAMES])
  await ip('link', 'set', 'lo', 'up')
  await ip('link', 'add', BRIDGE, 'address', HUB_HARDWARE, 'type', 'bridge')
  await ip('address', 'add', `${HUB}/16`, 'dev', BRIDGE)
  await ip('link', 'set', BRIDGE, 'up')
  let hosts = 0
  return { address: HUB, hasLinks: true, addHost: dataDir => addHost(hosts++, dataDir) }
}

/** No address is used twice: what a lost host sent may still arrive. */
async function addHost(number: number, dataDir: string): Promise<Place> {
  const [name, port] = [`host-${number}`, `port-${number}`]
  const [high, low] = [1 + Math.floor(number / HOSTS_IN_A_ROW), 1 + (number % HOSTS_IN_A_ROW)]
  const address = `10.99.${high}.${low}`
  const hardware = `02:00:00:00:${byte(high)}:${byte(low)}`
  const peer = ['peer', 'name', 'eth0', 'address', hardware, 'netns', name]
  await ip('netns', 'add', name)
  await ip('link', 'add', port, 'type', 'veth', ...peer)
  await ip('link', 'set', port, 'master', BRIDGE, 'up')
  await ip('-n', name, 'link', 'set', 'lo', 'up')
  await ip('-n', name, 'address', 'add', `${address}/16`, 'dev', 'eth0')
  await ip('-n', name, 'link', 'set', 'eth0', 'up')
  // Both know each other's hardware, as if a router were in between: otherwise the kernel would soon find out that the
  // other one is gone, and return errors. A network that is cut somewhere further away is only silent.
  await ip('-n', name, 'neighbour', 'add', HUB, 'lladdr', HUB_HARDWARE, 'dev', 'eth0')
  await ip('neighbour', 'add', address, 'lladdr', hardware, 'dev', BRIDGE)
  await mkdir(dataDir)
  return {
    address,
    within: ['ip', 'netns', 'exec', name, 'sh', '-c', WITH_DISK, 'sh', dataDir],
    // On the hub's side: the host's own interface would refuse to send.
    cut: async () => void (await ip('link', 'set', port, 'down')),
    join: async () => void (await ip('link', 'set', port, 'up')),
    unplug: async () => void (await ip('link', 'delete', port)),
    remove: async () => void (await ip('netns', 'delete', name)),
  }
}

function byte(value: number): string {
  return value.toString(16).padStart(2, '0')
}

/** `ip netns exec` hides what is mounted after it from others: so the disk is gone with the host's last process. */
const WITH_DISK = 'mount -t tmpfs -o mode=0700 disk "$1" && shift && exec "$@"'
