/**
 * A process that serves: what a test kills, stops and continues. It starts idle and creates workers or tool
 * executors as its parent asks (`worker-process.ts`), tells it each event and each fault point that was armed,
 * and ends when the parent is gone.
 */
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { createToolExecutor } from '../../src/runner/tool-executor.js'
import { createWorker, type Worker, type WorkerOptions } from '../../src/runner/worker.js'
import type { FaultPoint } from '../../src/runner/agent-run.js'
import type { WorkerEvent } from '../../src/runner/events.js'
import { defineAgent } from '../../src/agent/define-agent.js'
import { agentOptions, effectTool, type AgentConfig, type ToolName } from './child-worker-agents.js'

export interface Fault {
  point: FaultPoint
  /** Which time it is reached, from 1. @default 1 */
  nth?: number
  /** `hold`: told to the parent, and not passed before `release`. */
  action: 'kill' | 'stop' | 'report' | 'hold'
}

export interface ServeConfig {
  databaseUrl: string
  streamsUrl?: string | undefined
  /** A worker of these agents; absent: an executor of `tools`. */
  agents?: AgentConfig[]
  tools?: ToolName[]
  faults?: Fault[]
  options?: Omit<WorkerOptions, 'db' | 'agents' | 'streams' | 'onEvent' | 'onFaultPoint'>
}

export type Order =
  | { type: 'serve'; id: number; config: ServeConfig }
  | { type: 'release'; id: number }
  | { type: 'stop'; id: number }

export type Told =
  | { type: 'ready' }
  | { type: 'serving'; id: number; workerId: string }
  | { type: 'refused'; id: number; message: string }
  | { type: 'left'; id: number }
  | { type: 'fault'; id: number; point: FaultPoint; nth: number; at: number }
  | { type: 'event'; id: number; event: WorkerEvent }

interface Served {
  worker: Worker
  close(): Promise<void>
}

const tell = (told: Told) => process.connected && process.send!(told)
const served = new Map<number, Served>()
const held = new Map<number, () => void>()

async function serve(id: number, config: ServeConfig): Promise<void> {
  const { databaseUrl, streamsUrl, agents, tools = [] } = config
  const sql = postgres(databaseUrl, { max: 6, onnotice: () => undefined })
  const common = {
    ...config.options,
    db: drizzle({ client: sql }),
    onEvent: (event: WorkerEvent) => {
      tell({ type: 'event', id, event: plain(event) })
      if (event.type === 'stopped') void leave(id)
    },
    onFaultPoint: faultPoints(id, config.faults ?? []),
  }
  const worker = agents
    ? await createWorker({
        ...common,
        agents: agents.map((agent) => defineAgent(agentOptions(agent, sql))),
        streams: { url: streamsUrl },
      })
    : await createToolExecutor({ ...common, tools: tools.map((name) => effectTool(name, sql)) })
  served.set(id, { worker, close: () => sql.end({ timeout: 5 }) })
  tell({ type: 'serving', id, workerId: worker.workerId })
}

/** However it was stopped: by the parent, or by a signal, whereupon the process should end by itself. */
async function leave(id: number): Promise<void> {
  await served.get(id)?.close()
  served.delete(id)
  tell({ type: 'left', id })
  if (stopping) process.disconnect()
}

let stopping = false
process.once('SIGTERM', () => (stopping = true))

function faultPoints(id: number, faults: readonly Fault[]) {
  const times = new Map<FaultPoint, number>()
  return async (point: FaultPoint): Promise<void> => {
    const nth = (times.get(point) ?? 0) + 1
    times.set(point, nth)
    for (const fault of faults) {
      if (fault.point !== point || (fault.nth ?? 1) !== nth) continue
      if (fault.action === 'kill') process.kill(process.pid, 'SIGKILL')
      if (fault.action === 'stop') process.kill(process.pid, 'SIGSTOP')
      const released = new Promise<void>((resolve) => held.set(id, resolve))
      tell({ type: 'fault', id, point, nth, at: Date.now() })
      if (fault.action === 'hold') await released
    }
  }
}

/** An error does not travel as JSON. */
function plain(event: WorkerEvent): WorkerEvent {
  if (!('error' in event)) return event
  const { name, message } = event.error
  return { ...event, error: { name, message } }
}

process.on('message', (order: Order) => {
  if (order.type === 'serve') {
    serve(order.id, order.config).catch((thrown: unknown) =>
      tell({ type: 'refused', id: order.id, message: String(thrown) }),
    )
  }
  if (order.type === 'release') held.get(order.id)?.()
  if (order.type === 'stop') void served.get(order.id)?.worker.stop()
})
// The parent is gone, or all that was served has been stopped by a signal: then nothing may be left to hold it.
process.on('disconnect', () => {
  if (!stopping) process.exit(0)
})
tell({ type: 'ready' })
