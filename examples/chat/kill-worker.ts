/**
 * `POST /demo/kill`: ends the worker process that writes an answer, with SIGKILL. For this demo only; a real
 * server has no such route.
 *
 * It answers the page itself and nobody else: the browser says where a request comes from, and a page of another
 * origin cannot make it lie.
 */
import type { WorkerProcesses } from './worker-processes.js'

export interface KillAnswer {
  /** For people: which process is gone. */
  killed?: string
  /** Why none was. */
  error?: string
}

export async function answerKill(request: Request, workers: WorkerProcesses): Promise<Response> {
  if (request.headers.get('origin') !== new URL(request.url).origin) {
    return answer(403, { error: 'Only the page of this server may do that.' })
  }
  const body: unknown = await request.json().catch(() => undefined)
  const generationId = (body as { generationId?: unknown } | undefined)?.generationId
  if (typeof generationId !== 'string') return answer(400, { error: 'Send { generationId }.' })
  const holder = workers.holderOf(generationId)
  if (holder === undefined) return answer(409, { error: 'no worker has this answer just now.' })
  holder.child.kill('SIGKILL')
  return answer(200, { killed: holder.name })
}

const answer = (status: number, body: KillAnswer) => Response.json(body, { status })
