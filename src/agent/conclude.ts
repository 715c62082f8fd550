/**
 * How an attempt ends that did not reach its cutover: each cause with what it leaves in the rows.
 *
 * - fenced, lease lost: nothing; whoever holds it now writes.
 * - cancelled: the row has moved already; the text so far becomes a message marked partial.
 * - shutdown: put down, which costs no attempt.
 * - anything else: released to another attempt, or failed when that was the last.
 */
import { keepPartialStatement } from '../claims/cancel.js'
import type { ClaimedGeneration } from '../claims/claim-generations.js'
import { readGeneration } from '../claims/read-generation.js'
import { releaseGeneration } from '../claims/release.js'
import { FencedError, toError } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import { jsonText, storableText } from '../internal/statement.js'
import { RunEnd, type AgentRun } from '../runner/agent-run.js'
import type { ResolvedAgent } from './agent-options.js'
import type { GenerationAttempt } from './generation-attempt.js'

export interface EndedAttempt {
  agent: ResolvedAgent
  generation: ClaimedGeneration
  run: AgentRun
  attempt: GenerationAttempt
  error: Error
}

const LONGEST_RETRY_MS = 5_000

export async function concludeAttempt(ended: EndedAttempt): Promise<void> {
  const { generation, run, attempt } = ended
  for (let tries = 0; ; tries += 1) {
    try {
      return await conclusionOf(ended)
    } catch (thrown) {
      const error = toError(thrown)
      attempt.live?.abort()
      if (error instanceof FencedError) {
        return run.emit({
          type: 'fenced',
          generationId: generation.id,
          attempt: generation.attempt,
        })
      }
      run.emit({ type: 'error', error })
      // This worker lives, so nobody else will free the row: go on until it is freed, or the lease is given up.
      if (run.signal.aborted && tries > 0) return
      await delay(jittered(Math.min(100 * 2 ** tries, LONGEST_RETRY_MS)), run.signal)
    }
  }
}

async function conclusionOf(ended: EndedAttempt): Promise<void> {
  const { error, generation, run } = ended
  const why = run.signal.reason instanceof RunEnd ? run.signal.reason.why : undefined
  if (why === 'lease-lost') throw new FencedError(`Generation ${generation.id}`, generation.attempt)
  if (why === 'cancelled' || error instanceof FencedError) return keepIfCancelled(ended)
  return why === 'shutdown' ? putDown(ended) : retryOrFail(ended)
}

/** A cancelled row fences its run, too; then the words so far are worth keeping. */
async function keepIfCancelled({ generation, run, attempt, error }: EndedAttempt): Promise<void> {
  const { id, attempt: fence } = generation
  const row = await readGeneration(run.db, id)
  if (row?.status !== 'cancelled' || row.attempt !== fence) {
    throw error instanceof FencedError ? error : new FencedError(`Generation ${id}`, fence)
  }
  const message = attempt.message()
  if (message) {
    await run.db.query(keepPartialStatement, [
      id,
      fence,
      storableText(message.content),
      jsonText(message.parts),
    ])
  }
  if (attempt.live) run.afterwards(attempt.live.end({ type: 'done', status: 'cancelled' }))
  run.emit({ type: 'cancelled', generationId: id, attempt: fence })
}

async function putDown({ generation, run, attempt }: EndedAttempt): Promise<void> {
  const { id, attempt: fence } = generation
  // Before the row: whoever claims it reads what readers have been shown.
  await attempt.live?.leave().catch(() => undefined)
  await releaseGeneration(run.db, { generationId: id, attempt: fence })
  run.emit({ type: 'put-down', generationId: id, attempt: fence, reason: 'shutdown' })
}

async function retryOrFail({
  agent,
  generation,
  run,
  attempt,
  error,
}: EndedAttempt): Promise<void> {
  const { id, attempt: fence, attemptsWithoutProgress } = generation
  const delayMs = agent.retryDelayMs(Math.max(attemptsWithoutProgress, 1))
  await attempt.live?.leave().catch(() => undefined)
  const status = await releaseGeneration(run.db, {
    generationId: id,
    attempt: fence,
    error: error.message,
    delayMs,
  })
  if (status === 'pending') {
    run.emit({ type: 'retrying', generationId: id, attempt: fence, error, delayMs })
    return
  }
  if (attempt.live) {
    run.afterwards(attempt.live.end({ type: 'done', status: 'failed', error: error.message }))
  }
  run.emit({ type: 'failed', generationId: id, attempt: fence, error })
}
