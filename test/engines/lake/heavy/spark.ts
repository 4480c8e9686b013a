import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { obtainJars, obtainJava } from '#test/support/java_programs.ts'
import type { Given } from '../published.ts'

const JAVA = { least: 17, below: 22 }
const WITHIN_MS = 600_000
/** The packages that Spark's own script opens. */
const OPENS = [
  ...['java.lang', 'java.lang.invoke', 'java.lang.reflect', 'java.io', 'java.net', 'java.nio', 'java.util'],
  ...['java.util.concurrent', 'java.util.concurrent.atomic', 'sun.nio.ch', 'sun.nio.cs'],
  ...['sun.security.action', 'sun.util.calendar'],
]

/** Reads every table of every snapshot with Spark, and writes what it read to a directory. */
export async function readWithSpark(
  directory: string,
  { endpoint, catalog, snapshots }: Given,
): Promise<{ readonly version: string; readonly files: string }> {
  const jars = await obtainJars('Spark 4.0', join(import.meta.dirname, 'spark.xml'))
  const java = await obtainJava(JAVA.least, JAVA.below)
  const files = join(directory, 'spark')
  const opens = OPENS.map(name => `--add-opens=java.base/${name}=ALL-UNNAMED`)
  const source = join(import.meta.dirname, 'SparkReader.java')
  const where = [`${catalog?.uri}`, `${catalog?.warehouse}`, endpoint, `${catalog?.namespace}`, files]
  const tables = Object.entries(snapshots).flatMap(([snapshot, names]) =>
    Object.keys(names).map(name => `${name}@s-${snapshot}`),
  )
  const words = [...opens, '-Xmx2g', '-cp', join(jars, '*'), source, ...where, ...tables]
  const env = { ...process.env, AWS_REGION: 'us-east-1', SPARK_LOCAL_IP: '127.0.0.1' }
  const { stdout } = await promisify(execFile)(java, words, {
    cwd: directory,
    env,
    timeout: WITHIN_MS,
    maxBuffer: 64 << 20,
  })
  return { version: stdout.trim().split('\n').at(-1) ?? 'Spark', files }
}
