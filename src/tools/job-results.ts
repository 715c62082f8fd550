/**
 * How a model learns what became of an asynchronous tool: by asking (a status tool), or by finding the
 * result in its history where the job's id was.
 */
import type { ModelMessage } from '@tanstack/ai'
import { z } from 'zod'
import { requireOwnCopy } from '../internal/source-collections.js'

/** What is asked of the collection: any TanStack DB collection has it. */
export interface JobCollection<TRow> {
  get(key: string): TRow | undefined
}

export interface JobStatusToolOptions<TRow, TStatus> {
  /** @default 'checkAsyncJobStatus' */
  name?: string
  description?: string
  /** What the model is told of a job's row. */
  getStatus: (row: TRow) => TStatus
}

const jobInput = z.object({ jobId: z.string().min(1) })

/** A tool to ask with: `{ jobId }` in, `getStatus(row)` out. An unknown job is an error that the model reads. */
export function makeJobStatusTool<TRow extends object, TStatus>(
  collection: JobCollection<TRow>,
  options: JobStatusToolOptions<NoInfer<TRow>, TStatus>,
) {
  requireOwnCopy('makeJobStatusTool()', 'collection', collection)
  return {
    __toolSide: 'server' as const,
    name: options.name ?? 'checkAsyncJobStatus',
    description: options.description ?? 'Check the status of a background job by its id.',
    inputSchema: jobInput,
    execute: async ({ jobId }: { jobId: string }): Promise<TStatus> => {
      const row = collection.get(jobId)
      if (!row) throw new Error(`There is no job ${jobId}.`)
      return options.getStatus(row)
    },
  }
}

export interface JobResultsOptions<TRow> {
  isComplete: (row: TRow) => boolean
  /** The result of a settled row; what it throws is told as `{ error }`, as chat() tells a tool's failure. */
  getResult: (row: TRow) => unknown
}

/**
 * The messages of the next turn, with each settled job's result in the place of its immediate one. Rows are found
 * by the tool call's id; messages without a settled row are as they were.
 */
export function withJobResults<TRow extends object>(
  messages: readonly ModelMessage[],
  collection: JobCollection<TRow>,
  { isComplete, getResult }: JobResultsOptions<NoInfer<TRow>>,
): ModelMessage[] {
  requireOwnCopy('withJobResults()', 'collection', collection)
  return messages.map((message) => {
    if (message.role !== 'tool' || message.toolCallId === undefined) return message
    const row = collection.get(message.toolCallId)
    if (!row || !isComplete(row)) return message
    return { ...message, content: JSON.stringify(resultOf(row, getResult) ?? null) }
  })
}

function resultOf<TRow>(row: TRow, getResult: (row: TRow) => unknown): unknown {
  try {
    return getResult(row)
  } catch (thrown) {
    return { error: thrown instanceof Error ? thrown.message : String(thrown) }
  }
}
