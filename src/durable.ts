import { type FileHandle, open } from 'node:fs/promises'

/** Makes renames and new names in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  await withFile(path, 'r', file => file.sync())
}

export async function withFile<T>(
  path: string,
  flags: string,
  use: (file: FileHandle) => Promise<T>,
): Promise<T> {
  const file = await open(path, flags)
  try {
    return await use(file)
  } finally {
    await file.close()
  }
}
