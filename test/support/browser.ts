import { type Browser, chromium, type Page } from 'playwright-core'
import { findOnPath, installPackages, type Packages, REFUSED } from './system_packages.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const PACKAGES: Packages = {
  'apt-get': ['chromium'],
  dnf: ['chromium'],
  apk: ['chromium'],
  brew: ['chromium'],
}

/**
 * The machine's Chromium, or one that is installed with its package manager: playwright's own would be a download.
 * @returns its path; null if the user refused.
 * @throws Error if it cannot be installed.
 */
export async function obtainChromium(): Promise<string | null> {
  const found = await findOnPath(NAMES)
  if (found) return found
  const problem = await installPackages('Chromium', PACKAGES)
  if (problem === REFUSED) return null
  const installed = await findOnPath(NAMES)
  if (installed === null)
    throw new Error(`Chromium could not be installed: ${problem ?? 'it is not in PATH'}`)
  return installed
}

const HANGS_MS = 120_000

type Options = {
  readonly colorScheme?: 'light' | 'dark'
  /** For pages of the daemon. */
  readonly token?: string
  /** For pages of people who signed in: `name=value`. */
  readonly cookie?: string
}

export async function openPage(
  browser: Browser,
  url: string,
  { colorScheme = 'light', token, cookie }: Options = {},
): Promise<Page> {
  const page = await browser.newPage({
    colorScheme,
    // Scripts of tests run in the page, too.
    bypassCSP: true,
    ...(token ? { extraHTTPHeaders: { authorization: `Bearer ${token}` } } : {}),
  })
  // Before the test's own limit ends what hangs, so that the message names the step.
  page.setDefaultTimeout(HANGS_MS)
  const [name, value] = cookie?.split('=') ?? []
  if (name && value) await page.context().addCookies([{ name, value, url }])
  await page.goto(url, { waitUntil: 'networkidle' })
  return page
}

/** A name of this machine that browsers do not trust as they trust `localhost`: as in an office's network. */
export const PLAIN_NAME = 'lan.test'

/** Chromium without a window. As root, it runs only without its sandbox; it opens only pages of this machine. */
export async function launchBrowser(executablePath: string): Promise<Browser> {
  const names = `--host-resolver-rules=MAP ${PLAIN_NAME} 127.0.0.1`
  const args = process.getuid?.() === 0 ? ['--no-sandbox', names] : [names]
  return await chromium.launch({ executablePath, args })
}
