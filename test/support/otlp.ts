import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

type Value = string | number | boolean | null
type Attributes = Readonly<Record<string, Value>>

/** A span as a collector receives it. */
export type ReceivedSpan = {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** Empty for the root. */
  readonly parentSpanId: string
  /** Nanoseconds since 1970. */
  readonly start: bigint
  readonly end: bigint
  readonly attributes: Attributes
  /** 0 unset, 1 ok, 2 error. */
  readonly status: { readonly code: number; readonly message: string }
}

export type ReceivedTrace = {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly resource: Attributes
  readonly spans: readonly ReceivedSpan[]
}

export type Receiver = { readonly url: string; readonly received: readonly ReceivedTrace[] }

/**
 * A receiver of OTLP over HTTP, which shares no code with the exporter, until the test ends.
 * @param answer sends what the exporter gets.
 */
export async function startReceiver(
  answer: (response: ServerResponse) => void = response => response.end(),
): Promise<Receiver> {
  const received: ReceivedTrace[] = []
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    received.push({ path: request.url ?? '', headers: request.headers, body, ...decode(body) })
    answer(response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}

/** The first field of a message of protobuf by number: numbers, or the bytes of texts and messages. */
type Fields = ReadonlyMap<number, readonly (bigint | Buffer)[]>

const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

function fieldsOf(bytes: Buffer): Fields {
  const fields = new Map<number, (bigint | Buffer)[]>()
  let at = 0
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at)
      at += 1
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const key = Number(varint())
    const wire = key & 7
    const value =
      wire === WIRE.varint
        ? varint()
        : wire === WIRE.bytes
          ? take(Number(varint()))
          : take(wire === WIRE.fixed64 ? 8 : 4)
    const number = key >> 3
    fields.set(number, [...(fields.get(number) ?? []), value])
  }
  return fields
}

const messages = (fields: Fields, number: number) => (fields.get(number) ?? []) as readonly Buffer[]
const bytesIn = (fields: Fields, number: number) => messages(fields, number)[0] ?? Buffer.alloc(0)
const textIn = (fields: Fields, number: number) => bytesIn(fields, number).toString()

/** Numbers of fields as in opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto. */
function decode(body: Buffer): Pick<ReceivedTrace, 'resource' | 'spans'> {
  const ofResources = messages(fieldsOf(body), 1).map(fieldsOf)
  const scopes = ofResources.flatMap(each => messages(each, 2)).map(fieldsOf)
  return {
    resource: Object.assign({}, ...ofResources.map(each => attributesIn(fieldsOf(bytesIn(each, 1)), 1))),
    spans: scopes.flatMap(scope => messages(scope, 2)).map(spanOf),
  }
}

function spanOf(bytes: Buffer): ReceivedSpan {
  const fields = fieldsOf(bytes)
  const status = fieldsOf(bytesIn(fields, 15))
  return {
    traceId: bytesIn(fields, 1).toString('hex'),
    spanId: bytesIn(fields, 2).toString('hex'),
    parentSpanId: bytesIn(fields, 4).toString('hex'),
    name: textIn(fields, 5),
    start: bytesIn(fields, 7).readBigUInt64LE(),
    end: bytesIn(fields, 8).readBigUInt64LE(),
    attributes: attributesIn(fields, 9),
    status: { message: textIn(status, 2), code: Number(status.get(3)?.[0] ?? 0n) },
  }
}

function attributesIn(fields: Fields, number: number): Attributes {
  return Object.fromEntries(
    messages(fields, number).map(bytes => {
      const pair = fieldsOf(bytes)
      return [textIn(pair, 1), anyValueOf(fieldsOf(bytesIn(pair, 2)))]
    }),
  )
}

function anyValueOf(fields: Fields): Value {
  const [[number, [value = null] = []] = [0]] = fields
  if (number === 1) return String(value)
  if (number === 2) return value === 1n
  if (number === 3) return Number(value)
  return number === 4 ? (value as Buffer).readDoubleLE() : null
}
