/**
 * Shape contracts: the few fields a primitive needs of rows whose tables are the host's own.
 *
 * Each is a type and a Standard Schema validator of the same name in lower case; other fields pass through
 * untouched. Rows with other field names are mapped to these roles: by `transform` where a primitive
 * writes them, by `select` in the query where it reads them. Ready-made rows with every field of the
 * library's own tables are `toolCallRecord` and its neighbours (`src/contract/records.ts`).
 */
import { z } from 'zod'
import { AiDbError } from '../errors.js'

/** A tool call: `status` moves pending → executing → completed | failed | cancelled. */
export interface ToolCallContract {
  /** Unique; the provider's tool call id wherever the library makes the row. */
  id: string
  status: string
  /** The tool that is to run. */
  name: string
  args: unknown
}

/** A request for a generation: `status` moves pending → generating → completed | failed | cancelled. */
export interface GenerationContract {
  id: string
  status: string
}

/** A piece of a generation's output. `orderBy(index)` is the text. */
export interface ChunkContract {
  id: string
  generationId: string
  /** 0, 1, 2, … within its generation. */
  index: number
  /** Marks the last chunk, where the host's schema has it. */
  isFinal?: boolean | undefined
}

const text = (role: string) =>
  z.string({ error: `must be a string: ${role}` }).min(1, { error: `must not be empty: ${role}` })

export const toolCallContract = z
  .looseObject({
    id: text('the unique id of the tool call'),
    status: text('pending, executing, completed, failed or cancelled'),
    name: text('the name of the tool to run'),
    args: z.unknown(),
  })
  .superRefine((row, context) => {
    // An unknown value may be undefined, so the object schema lets a missing one pass.
    if ('args' in row) return
    context.addIssue({ code: 'custom', path: ['args'], message: 'is missing: the arguments' })
  })

export const generationContract = z.looseObject({
  id: text('the unique id of the generation'),
  status: text('pending, generating, completed, failed or cancelled'),
})

export const chunkContract = z.looseObject({
  id: text('the unique id of the chunk'),
  generationId: text('the generation it belongs to'),
  index: z
    .number({ error: 'must be a number: its place in the generation' })
    .int({ error: 'must be a whole number: its place in the generation' })
    .min(0, { error: 'must not be negative: its place in the generation' }),
  isFinal: z.boolean({ error: 'must be true or false' }).optional(),
})

const contracts = {
  'tool call': toolCallContract,
  generation: generationContract,
  chunk: chunkContract,
} as const

/**
 * Throws INVALID_INPUT, its `field` the first that does not fit, unless the row has the shape.
 *
 * @param what Which primitive asks, for the message.
 */
export function requireShape(what: string, contract: keyof typeof contracts, row: unknown): void {
  const parsed = contracts[contract].safeParse(row)
  if (parsed.success) return
  const [issue] = parsed.error.issues
  const field = issue?.path.map(String).join('.') || undefined
  throw new AiDbError(
    'INVALID_INPUT',
    `${what}: a row is no ${contract}: ${field ? `its ${field} ` : ''}${issue?.message}. ` +
      'Map your field to that role: with select() in a query, with transform where rows are made.',
    field ? { field } : {},
  )
}
