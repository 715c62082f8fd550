/**
 * The tool executor: a process that runs tools and no models. It claims pending calls of its tools by name,
 * from any agent's generations, and settles each as soon as it has its result.
 */
import { claimToolCalls, type ClaimedToolCall } from '../claims/claim-tool-calls.js'
import { releaseToolCalls } from '../claims/release.js'
import { releaseLostToolCalls } from '../claims/release-lost-claims.js'
import { settleToolCall, type ToolOutcome } from '../claims/settle-tool-calls.js'
import { checkHeldToolCalls } from '../claims/workers.js'
import { AiDbError, FencedError, toError } from '../errors.js'
import { delay, jittered } from '../internal/abort.js'
import { isUnreachable } from '../internal/database-errors.js'
import { toDatabase, type Database } from '../internal/database.js'
import { refuseUnknownOptions } from '../internal/options.js'
import { runTool, type RunnableTool } from '../tools/run-tool.js'
import type { FaultPoint } from './agent-run.js'
import type { WorkerEventListener } from './events.js'
import { startService, type Held } from './service.js'
import { asWorker, serviceOptions, type Worker, type WorkerOptions } from './worker.js'

export interface ToolExecutorOptions extends Omit<
  WorkerOptions,
  'agents' | 'streams' | 'concurrencyPerKey'
> {
  /** Tools with their functions: `toolDefinition({...}).server(fn)`. */
  tools: readonly RunnableTool[]
  /** One execution, in ms, where the call does not say. @default 300_000 */
  toolTimeoutMs?: number
}

const KNOWN = [
  'db',
  'tools',
  'schema',
  'slots',
  'leaseMs',
  'pollIntervalMs',
  'doorbell',
  'shutdownGraceMs',
  'handleSignals',
  'onEvent',
  'onFaultPoint',
  'toolTimeoutMs',
]

interface Execution {
  db: Database
  tools: ReadonlyMap<string, RunnableTool>
  timeoutMs: number
  emit: WorkerEventListener
  faultPoint: (point: FaultPoint) => void | Promise<void>
}

/**
 * Starts an executor. Resolves when it is registered and listening.
 *
 * @throws AiDbError INVALID_OPTION, NOT_MIGRATED, PERMISSION_DENIED, DATABASE_UNREACHABLE.
 */
export async function createToolExecutor(options: ToolExecutorOptions): Promise<Worker> {
  refuseUnknownOptions('createToolExecutor()', options, KNOWN)
  const tools = new Map((options.tools ?? []).map((tool) => [tool.name, tool]))
  refuseBadTools(tools)
  const db = toDatabase(options.db, options.schema === undefined ? {} : { schema: options.schema })
  const emit = options.onEvent ?? (() => undefined)
  const execution: Execution = {
    db,
    tools,
    emit,
    timeoutMs: options.toolTimeoutMs ?? 300_000,
    faultPoint: options.onFaultPoint ?? (() => undefined),
  }
  const service = await startService<ClaimedToolCall>({
    ...serviceOptions(options, db, emit),
    agents: [],
    tools: [...tools.keys()],
    claim: (limit, workerId) => claimToolCalls(db, { workerId, tools: [...tools.keys()], limit }),
    concerns: (ring) => ring.kind === 'tool-call' && tools.has(ring.name),
    cancelledIds: (ids) => checkHeldToolCalls(db, ids),
    releaseLost: (workerId, running) => releaseLostToolCalls(db, workerId, running),
    run: (call, held) => execute(execution, call, held),
  })
  return asWorker(service, db)
}

async function execute(execution: Execution, call: ClaimedToolCall, held: Held): Promise<void> {
  const { emit } = execution
  const { id, name, attempt } = call
  emit({ type: 'tool-claimed', toolCallId: id, name, attempt })
  try {
    const outcome = await runTool(execution.tools.get(name)!, {
      args: call.args,
      context: {
        toolCallId: id,
        attempt,
        sessionId: call.sessionId,
        generationId: call.generationId,
      },
      signal: held.signal,
      timeoutMs: call.timeoutMs ?? execution.timeoutMs,
    })
    await execution.faultPoint('after-side-effect')
    await settleWhenReachable(execution, call, outcome, held.signal)
    emit({ type: 'tool-settled', toolCallId: id, name, attempt, status: outcome.status })
    await execution.faultPoint('tool-settled')
  } catch (thrown) {
    await abandon(execution, call, held, toError(thrown))
  }
}

/** A result is worth waiting for: while the database is away it is kept and offered again. */
async function settleWhenReachable(
  { db, emit }: Execution,
  call: ClaimedToolCall,
  outcome: ToolOutcome,
  signal: AbortSignal,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await settleToolCall(db, { id: call.id, attempt: call.attempt, outcome })
    } catch (thrown) {
      if (!isUnreachable(thrown) || signal.aborted) throw thrown
      emit({ type: 'error', error: toError(thrown) })
      await delay(jittered(Math.min(50 * 2 ** tries, 1_000)), signal)
    }
  }
}

/** Fenced, cancelled, or stopping: nothing is settled; at a shutdown the call goes back. */
async function abandon(
  { db, emit }: Execution,
  call: ClaimedToolCall,
  held: Held,
  error: Error,
): Promise<void> {
  const { id, name, attempt } = call
  if (!held.signal.aborted && !(error instanceof FencedError)) emit({ type: 'error', error })
  try {
    await releaseToolCalls(db, [id], held.workerId)
  } catch (thrown) {
    emit({ type: 'error', error: toError(thrown) })
  }
  emit({ type: 'tool-settled', toolCallId: id, name, attempt, status: 'fenced' })
}

function refuseBadTools(tools: ReadonlyMap<string, RunnableTool>): void {
  const without = [...tools.values()].find((tool) => typeof tool.execute !== 'function')
  if (tools.size > 0 && !without) return
  const problem = without ? `'${without.name}' has no function` : 'is empty'
  throw new AiDbError(
    'INVALID_OPTION',
    `createToolExecutor(): tools ${problem}. Pass tools made with toolDefinition({...}).server(fn).`,
    { field: 'tools' },
  )
}
