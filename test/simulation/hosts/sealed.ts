import { readFrames } from '#src/core/rawlog/frames.ts'

const VERSIONS = new WeakMap<Buffer, Promise<string[]>>()

/** The analyses that are sealed, each as its notice and version. */
export async function sealedVersions({
  sealed,
}: {
  readonly sealed: ReadonlyMap<string, Buffer>
}): Promise<ReadonlySet<string>> {
  const all = [...sealed.values()].map(bytes => {
    const known = VERSIONS.get(bytes) ?? versionsIn(bytes)
    VERSIONS.set(bytes, known)
    return known
  })
  return new Set((await Promise.all(all)).flat())
}

async function versionsIn(bytes: Buffer): Promise<string[]> {
  const found: string[] = []
  for await (const frame of readFrames(bytes)) {
    if ('damage' in frame) continue
    for (const text of frame.text.toString('utf8').split('\n').filter(Boolean)) {
      const { type, edital_id, updated_at } = JSON.parse(text) as Record<string, string>
      if (type === 'analysis' || type === 'analysis_same') found.push(`${edital_id} ${updated_at}`)
    }
  }
  return found
}
