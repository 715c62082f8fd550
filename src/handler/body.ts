/**
 * Bodies: JSON of a bounded size that fits its schema, or a refusal that names the field.
 *
 * The type must be `application/json`, also where there is nothing to say: a page of another site can make a
 * browser send forms and plain text with the user's cookies, but not this without asking first.
 */
import type { z } from 'zod'
import { nearest } from '../internal/options.js'
import { Refusal } from './problem.js'

export type BodySchema = z.ZodObject

/**
 * @returns what the schema makes of the body.
 * @throws Refusal 400, 413 or 415.
 */
export async function readBody<Schema extends BodySchema>(
  request: Request,
  schema: Schema,
  maxBytes: number,
): Promise<z.output<Schema>> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    const message = 'The body must be JSON. Send it with content-type: application/json.'
    throw new Refusal(415, 'INVALID_INPUT', message)
  }
  const text = await readText(request, maxBytes)
  const given = withKey(request, schema, parseJson(text))
  const parsed = schema.safeParse(given)
  if (!parsed.success) throw misfit(parsed.error, schema)
  return parsed.data
}

/** Counts what arrives: a length that a client announces is a hint, and a chunked body has none. */
async function readText(request: Request, maxBytes: number): Promise<string> {
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > maxBytes) throw tooLarge(maxBytes)
  if (!request.body) return ''
  const reader = request.body.getReader()
  const parts: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.byteLength
    if (size > maxBytes) {
      void reader.cancel().catch(() => undefined)
      throw tooLarge(maxBytes)
    }
    parts.push(value)
  }
  return decode(parts, size)
}

function decode(parts: readonly Uint8Array[], size: number): string {
  const whole = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.byteLength
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(whole)
  } catch {
    throw new Refusal(400, 'INVALID_INPUT', 'The body is not UTF-8. Encode it so.')
  }
}

function parseJson(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    throw new Refusal(400, 'INVALID_INPUT', 'The body is not JSON. Check that it is whole.')
  }
}

/** The header `Idempotency-Key` stands in for a body's `id`; the standard puts it in quotes. */
function withKey(request: Request, schema: BodySchema, body: unknown): unknown {
  const key = request.headers.get('idempotency-key')?.replace(/^"(.*)"$/, '$1')
  if (key === undefined || !('id' in schema.shape)) return body
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body
  const { id = key } = body as { id?: unknown }
  if (id === key) return { ...body, id }
  const message = 'Idempotency-Key and id differ. Send one of them, or the same in both.'
  throw new Refusal(400, 'INVALID_INPUT', message, { field: 'id' })
}

function misfit(error: z.ZodError, schema: BodySchema): Refusal {
  const [issue] = error.issues
  if (issue?.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const known = Object.keys(schema.shape)
    const near = issue.path.length === 0 ? nearest(key, known) : undefined
    const cure = near ? `did you mean '${near}'?` : `known: ${known.join(', ')}.`
    const field = [...issue.path, key].join('.').slice(0, 200)
    return new Refusal(400, 'INVALID_INPUT', `Unknown field '${field}'; ${cure}`, { field })
  }
  const field = issue?.path.join('.') || 'body'
  const message = `${field}: ${issue?.message ?? 'does not fit'}. Correct it and send it again.`
  return new Refusal(400, 'INVALID_INPUT', message, { field })
}

const tooLarge = (maxBytes: number) =>
  new Refusal(413, 'TOO_LARGE', `The body has more than ${maxBytes} bytes. Send less.`)
