/** Returns the directory of a Delta table's log. */

export function logOf(directory: string): string {
  return `${directory}/_delta_log/`
}

export function commitPath(directory: string, version: number): string {
  return `${logOf(directory)}${digits(version)}.json`
}

export function checkpointPath(directory: string, version: number): string {
  return `${logOf(directory)}${digits(version)}.checkpoint.parquet`
}

/** Returns the object that names the newest checkpoint. */
export function hintPath(directory: string): string {
  return `${logOf(directory)}_last_checkpoint`
}

/** Returns the version of a commit or a checkpoint; null for anything else. */
export function versionOf(key: string): number | null {
  const [, version] = /\/(\d{20})\.(?:json|checkpoint\.parquet)$/.exec(key) ?? []
  return version === undefined ? null : Number(version)
}

function digits(version: number): string {
  return String(version).padStart(20, '0')
}
