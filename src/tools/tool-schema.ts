/** Values checked by a tool's schema, if that is a Standard Schema; a plain JSON schema checks nothing here. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { AiDbError } from '../errors.js'

/**
 * @returns the value as the schema gives it back (defaults filled in, strings trimmed, …).
 * @throws AiDbError TOOL_FAILED, naming every field that does not fit.
 */
export async function checkedBySchema(
  schema: unknown,
  value: unknown,
  what: string,
): Promise<unknown> {
  if (!isStandardSchema(schema)) return value
  const result = await schema['~standard'].validate(value)
  if (!result.issues) return result.value
  const told = result.issues
    .map((issue) => `${issue.path?.map(pathKey).join('.') || '(root)'}: ${issue.message}`)
    .join('; ')
  throw new AiDbError('TOOL_FAILED', `The ${what} do not fit its schema: ${told}`)
}

const pathKey = (part: PropertyKey | StandardSchemaV1.PathSegment) =>
  String(typeof part === 'object' ? part.key : part)

function isStandardSchema(schema: unknown): schema is StandardSchemaV1 {
  return (
    (typeof schema === 'object' || typeof schema === 'function') &&
    schema !== null &&
    '~standard' in schema
  )
}
