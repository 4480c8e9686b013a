import { type Browser, chromium, type Page } from 'playwright-core'
import { findOnPath } from './system_packages.ts'

/** An installed Chromium: playwright's own ones would have to be downloaded. */

export const CHROMIUM = await findOnPath([
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
])

type Options = {
  readonly colorScheme?: 'light' | 'dark'
  /** For pages of the daemon. */
  readonly token?: string
}

export async function openPage(
  browser: Browser,
  url: string,
  { colorScheme = 'light', token }: Options = {},
): Promise<Page> {
  const page = await browser.newPage({
    colorScheme,
    // Scripts of tests run in the page, too.
    bypassCSP: true,
    ...(token ? { extraHTTPHeaders: { authorization: `Bearer ${token}` } } : {}),
  })
  await page.goto(url, { waitUntil: 'networkidle' })
  return page
}

/** Chromium without a window. As root, it runs only without its sandbox; it opens only pages of this machine. */
export async function launchBrowser(executablePath: string): Promise<Browser> {
  return await chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
}
