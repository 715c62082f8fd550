/**
 * Runs one claimed generation until it is settled, put down or fenced. A crash anywhere loses at most the
 * model turn in flight; whoever claims it next goes on from its rows.
 */
import type { ClaimedGeneration } from '../claims/claim-generations.js'
import { readGeneration } from '../claims/read-generation.js'
import { releaseUnreportedCalls } from '../claims/release.js'
import { FencedError, toError } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import { isUnreachable } from '../internal/database-errors.js'
import type { AgentRun } from '../runner/agent-run.js'
import type { ResolvedAgent } from './agent-options.js'
import { concludeAttempt } from './conclude.js'
import { GenerationAttempt } from './generation-attempt.js'

export async function runGeneration(
  agent: ResolvedAgent,
  claimed: ClaimedGeneration,
  run: AgentRun,
): Promise<void> {
  let generation = claimed
  for (;;) {
    const attempt = new GenerationAttempt(agent, generation, run)
    try {
      return await attempt.toItsEnd()
    } catch (thrown) {
      const error = toError(thrown)
      // A fence need not be another's claim: a statement given up as lost may have landed after all, and a
      // tool call can be cancelled by itself. The row tells.
      const inDoubt = isUnreachable(error) || error instanceof FencedError
      const held = inDoubt ? await stillHeld(generation, run, error) : undefined
      if (held === undefined)
        return await concludeAttempt({ agent, generation, run, attempt, error })
      attempt.live?.abort()
      generation = held
    }
  }
}

/**
 * The database was away. What was being written may have committed or not, so nothing in memory counts: when
 * it is back, go on from the rows, if they are still ours.
 */
async function stillHeld(
  generation: ClaimedGeneration,
  run: AgentRun,
  error: Error,
): Promise<ClaimedGeneration | undefined> {
  if (!(error instanceof FencedError)) run.emit({ type: 'error', error })
  for (let tries = 0; !run.signal.aborted; tries += 1) {
    await delay(jittered(Math.min(50 * 2 ** tries, 1_000)), run.signal)
    try {
      const row = await readGeneration(run.db, generation.id)
      const ours = row?.status === 'generating' && row.attempt === generation.attempt
      if (!ours) return undefined
      // Calls this run began: what came of them never arrived, and nothing runs them any more.
      await releaseUnreportedCalls(run.db, generation.id, generation.attempt, run.workerId)
      return { ...generation, step: row.step }
    } catch (again) {
      if (!isUnreachable(again)) throw again
    }
  }
  return undefined
}
