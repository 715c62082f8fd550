/** Runs: where one stands, its end by hand, its turn again. */
import { readGeneration, type GenerationState } from '../claims/read-generation.js'
import { paths, type GenerationStatusAnswer } from '../contract/requests.js'
import { AiDbError } from '../errors.js'
import type { Host } from './options.js'
import { defineRoute } from './route.js'

const statusRoute = defineRoute({
  method: 'GET',
  path: paths.generation,
  parts: ['sessionId', 'generationId'],
  action: ({ path }) => ({ verb: 'read', ...path }),
  async run({ host, path }): Promise<GenerationStatusAnswer> {
    const { id, status, attempt, error, cancelReason, content } = await requireGeneration(
      host,
      path,
    )
    return { id, status, attempt, error, cancelReason, content }
  },
})

export const generationRoutes = [statusRoute]

/** @throws AiDbError NOT_FOUND, also for a generation of another session. */
export async function requireGeneration(
  host: Host,
  { sessionId, generationId }: { sessionId: string; generationId: string },
): Promise<GenerationState> {
  const row = await readGeneration(host.database, generationId)
  if (row?.sessionId === sessionId) return row
  throw new AiDbError('NOT_FOUND', 'There is no such generation in this session.', {
    field: 'generationId',
  })
}
