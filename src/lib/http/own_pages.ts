/** Returns whether a browser sent the request from a page of another site. Programs send neither header. */
export function isFromElsewhere(headers: Headers): boolean {
  // Set by the browser, and no page can forge it. Browsers send it only over a secure connection.
  const site = headers.get('sec-fetch-site')
  if (site !== null) return site !== 'same-origin' && site !== 'none'
  const origin = headers.get('origin')
  if (origin === null) return false
  // Compared without the scheme: a proxy in front of us may speak TLS.
  return !URL.canParse(origin) || new URL(origin).host !== headers.get('host')
}
