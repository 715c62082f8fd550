/**
 * The tools of one turn, side by side. Those with a function here run here and settle one by one, as soon as
 * each has its result; the others are awaited: their executors ring. A generation that only waits gives its
 * slot back (`waiting`) and is picked up again by the transaction that settles the last of them.
 */
import { claimOwnToolCalls } from '../claims/claim-tool-calls.js'
import type { ClaimedGeneration } from '../claims/claim-generations.js'
import { readToolCalls } from '../claims/read-generation.js'
import { putDownGeneration } from '../claims/release.js'
import { settleToolCall } from '../claims/settle-tool-calls.js'
import { isSettledToolCall } from '../contract/status.js'
import { deferred, delay, raceAbort } from '../internal/abort.js'
import type { AgentRun } from '../runner/agent-run.js'
import type { TranscriptItem } from '../streams/transcript.js'
import { runTool, type RunnableTool } from '../tools/run-tool.js'
import type { ResolvedAgent } from './agent-options.js'
import type { LoadedToolCall } from './load.js'

export interface ToolPhase {
  agent: ResolvedAgent
  generation: ClaimedGeneration
  run: AgentRun
  step: number
  /** The unsettled calls of the step; settled in place. */
  calls: LoadedToolCall[]
  /** Ids of calls this run inserted as `executing` for itself. */
  held: ReadonlySet<string>
  append: (item: TranscriptItem) => void
}

/** @returns false when the generation was put down because only other processes can go on. */
export async function runTools(phase: ToolPhase): Promise<boolean> {
  const local = phase.calls.filter((call) => localTool(phase, call) !== undefined)
  const claimed = await claimMissing(phase, local)
  const ends = await Promise.allSettled(claimed.map((call) => runOne(phase, call)))
  // Not before all have ended: who goes on from the rows takes what is unreported for not running.
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return phase.calls.every((call) => isSettledToolCall(call.status)) || waitForOthers(phase)
}

const localTool = (phase: ToolPhase, call: LoadedToolCall): RunnableTool | undefined =>
  phase.agent.tools.find((tool) => tool.name === call.name && tool.execute !== undefined)

/** Calls this run holds already, and those a picked-up generation takes again. */
async function claimMissing(
  { run, held }: ToolPhase,
  local: LoadedToolCall[],
): Promise<LoadedToolCall[]> {
  const missing = local.filter((call) => !held.has(call.id))
  if (missing.length === 0) return local
  const claimed = await claimOwnToolCalls(
    run.db,
    missing.map((call) => call.id),
    run.workerId,
  )
  const attempts = new Map(claimed.map((call) => [call.id, call.attempt]))
  for (const call of missing) call.attempt = attempts.get(call.id) ?? call.attempt
  return local.filter((call) => held.has(call.id) || attempts.has(call.id))
}

async function runOne(phase: ToolPhase, call: LoadedToolCall): Promise<void> {
  const { agent, generation, run } = phase
  const outcome = await runTool(localTool(phase, call)!, {
    args: call.args,
    context: {
      toolCallId: call.id,
      attempt: call.attempt,
      sessionId: generation.sessionId,
      generationId: generation.id,
    },
    signal: run.signal,
    timeoutMs: call.timeoutMs ?? agent.toolTimeoutMs,
  })
  await run.faultPoint('after-side-effect')
  await settleToolCall(run.db, { id: call.id, attempt: call.attempt, outcome })
  noteSettled(phase, call, {
    status: outcome.status,
    result: outcome.status === 'completed' ? outcome.result : null,
    error: outcome.status === 'failed' ? outcome.error : null,
  })
  run.emit({
    type: 'tool-settled',
    toolCallId: call.id,
    name: call.name,
    attempt: call.attempt,
    status: outcome.status,
  })
  await run.faultPoint('tool-settled')
}

function noteSettled(
  phase: ToolPhase,
  call: LoadedToolCall,
  state: Pick<LoadedToolCall, 'status' | 'result' | 'error'>,
): void {
  if (isSettledToolCall(call.status)) return
  Object.assign(call, state)
  if (!isSettledToolCall(state.status)) return
  phase.append(toolResultItem(call))
}

export function toolResultItem(call: LoadedToolCall): TranscriptItem {
  return {
    type: 'tool-result',
    step: call.step,
    id: call.providerCallId,
    name: call.name,
    status: call.status as 'completed' | 'failed' | 'cancelled',
    ...(call.status === 'completed' && { result: call.result }),
    ...(call.error !== null && { error: call.error }),
  }
}

/** Waits in the slot for `parkAfterMs`, then gives it back. */
async function waitForOthers(phase: ToolPhase): Promise<boolean> {
  const { agent, generation, run, step, calls } = phase
  const until = performance.now() + agent.parkAfterMs
  let rung = deferred()
  const off = run.onRing((ring) => {
    if (ring.kind === 'missed' || (ring.kind === 'settled' && ring.id === generation.id))
      rung.resolve()
  })
  try {
    for (;;) {
      const states = await readToolCalls(run.db, generation.id, step)
      for (const state of states) {
        const call = calls.find((candidate) => candidate.id === state.id)
        if (call) noteSettled(phase, call, state)
      }
      if (calls.every((call) => isSettledToolCall(call.status))) return true
      const left = until - performance.now()
      if (left <= 0) {
        if (await putDownGeneration(run.db, generation.id, generation.attempt, 'tools'))
          return false
        continue
      }
      const over = new AbortController()
      await raceAbort(
        Promise.race([rung.promise, delay(Math.min(left, run.pollIntervalMs), over.signal)]),
        run.signal,
      ).finally(() => over.abort())
      rung = deferred()
    }
  } finally {
    off()
  }
}
