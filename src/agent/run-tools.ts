/**
 * The tools of one turn, side by side. Those with a function here run here and settle one by one, as soon as
 * each has its result, or once people have approved them; the others are awaited: executors and votes ring. A
 * generation that only waits gives its slot back (`waiting`) and is picked up again by the transaction that settles
 * the last of them, or approves one.
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

/** @returns false when the generation was put down because only others can go on. */
export async function runTools(phase: ToolPhase): Promise<boolean> {
  const { calls, run, generation } = phase
  const running = new Map<string, Promise<void>>()
  const bell = listen(phase)
  let parkAt: number | undefined
  try {
    for (;;) {
      const refused = await startRunnable(phase, running)
      if (calls.every((call) => isSettledToolCall(call.status))) return true
      const others = calls.filter(
        (call) => !running.has(call.id) && !isSettledToolCall(call.status),
      )
      // What runs here tells by itself: a turn whose tools all run here reads nothing.
      if (others.length === 0) {
        await oneEnds(running)
        continue
      }
      await look(phase, others)
      const moved = (call: LoadedToolCall) =>
        isSettledToolCall(call.status) || (isRunnable(phase, call) && !refused.has(call.id))
      if (others.some(moved)) continue
      if (running.size > 0) {
        parkAt = undefined
        await bell.wait(run.pollIntervalMs, oneEnds(running))
        continue
      }
      parkAt ??= performance.now() + phase.agent.parkAfterMs
      const left = parkAt - performance.now()
      if (left > 0) await bell.wait(Math.min(left, run.pollIntervalMs))
      else if (
        await putDownGeneration(
          run.db,
          generation.id,
          generation.attempt,
          'tools',
          gatedHere(phase),
        )
      )
        return false
    }
  } catch (thrown) {
    // Not before all have ended: who goes on from the rows takes what is unreported for not running.
    await Promise.allSettled(running.values())
    throw thrown
  } finally {
    bell.close()
  }
}

const localTool = (phase: ToolPhase, call: LoadedToolCall): RunnableTool | undefined =>
  phase.agent.tools.find((tool) => tool.name === call.name && tool.execute !== undefined)

/** May this run take the call: its function is here, nobody holds it, and nobody must be asked (any more)? */
const isRunnable = (phase: ToolPhase, call: LoadedToolCall): boolean =>
  call.status === 'pending' && !call.gated && localTool(phase, call) !== undefined

/** Calls that this run takes once people have approved them. */
const gatedHere = (phase: ToolPhase): string[] =>
  phase.calls
    .filter((call) => call.gated && !isSettledToolCall(call.status) && localTool(phase, call))
    .map((call) => call.id)

/**
 * Starts what this run holds already, and what it can take: a picked-up generation's, an approved one.
 *
 * @returns what it could not take: another has it, or a transaction that is open locks it.
 */
async function startRunnable(
  phase: ToolPhase,
  running: Map<string, Promise<void>>,
): Promise<Set<string>> {
  const idle = phase.calls.filter(
    (call) => !running.has(call.id) && !isSettledToolCall(call.status),
  )
  const mine = idle.filter((call) => phase.held.has(call.id) && localTool(phase, call))
  const missing = idle.filter((call) => !phase.held.has(call.id) && isRunnable(phase, call))
  const taken = await claimed(phase, missing)
  for (const call of [...mine, ...taken]) {
    // A failed one stays, so that whoever waits next is told.
    const ends = runOne(phase, call).then(() => void running.delete(call.id))
    ends.catch(() => undefined)
    running.set(call.id, ends)
  }
  return new Set(missing.filter((call) => !taken.includes(call)).map((call) => call.id))
}

async function claimed({ run }: ToolPhase, calls: LoadedToolCall[]): Promise<LoadedToolCall[]> {
  if (calls.length === 0) return []
  const ids = calls.map((call) => call.id)
  const rows = await claimOwnToolCalls(run.db, ids, run.workerId)
  const attempts = new Map(rows.map((row) => [row.id, row.attempt]))
  for (const call of calls) call.attempt = attempts.get(call.id) ?? call.attempt
  return calls.filter((call) => attempts.has(call.id))
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
  state: Pick<LoadedToolCall, 'status' | 'result' | 'error'> & { gated?: boolean },
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

/** Reads others' calls as they stand: settled, approved, given back. */
async function look(phase: ToolPhase, others: readonly LoadedToolCall[]): Promise<void> {
  const { run, generation, step } = phase
  for (const state of await readToolCalls(run.db, generation.id, step)) {
    const call = others.find((candidate) => candidate.id === state.id)
    if (call) noteSettled(phase, call, state)
  }
}

/** Resolves when one of the runs here has ended; rejects as soon as one has failed. */
const oneEnds = (running: ReadonlyMap<string, Promise<void>>): Promise<void> =>
  Promise.race(running.values())

/** Rings about this generation's calls; one that came between two waits ends the next at once. */
function listen({ generation, run }: ToolPhase) {
  let rung = deferred()
  const close = run.onRing((ring) => {
    if (ring.kind === 'missed' || (ring.kind === 'settled' && ring.id === generation.id))
      rung.resolve()
  })
  const wait = async (ms: number, other?: Promise<void>): Promise<void> => {
    const over = new AbortController()
    const ends = [rung.promise, delay(ms, over.signal), ...(other ? [other] : [])]
    await raceAbort(Promise.race(ends), run.signal).finally(() => over.abort())
    rung = deferred()
  }
  return { wait, close }
}
