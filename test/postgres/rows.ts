/** Rows to begin a test with. Each scenario has an agent of its own, so that tests of a file do not meet. */
import { createSession } from '../../src/sessions/create-session.js'
import { sendMessage } from '../../src/sessions/send-message.js'
import { createStore, type Store } from '../../src/claims/store.js'
import type { ClaimedGeneration } from '../../src/claims/claim-generations.js'
import type { TestDatabase } from '../support/database.js'

let counter = 0
const next = (what: string) => `${what}-${(counter += 1)}`

export interface WorkerChoices {
  leaseMs?: number
  agents?: readonly string[]
  tools?: readonly string[]
}

export interface Scenario {
  readonly store: Store
  readonly agent: string
  /** Makes a worker known, with a lease of an hour. @returns its id */
  worker(choices?: WorkerChoices): Promise<string>
  /** A new session. @returns its id */
  session(choices?: { priority?: number; concurrencyKey?: string }): Promise<string>
  /** A message for the scenario's agent. @returns its id */
  say(sessionId: string, content?: string): Promise<string>
  claim(workerId: string, choices?: Choices): Promise<ClaimedGeneration[]>
  /** Claims what is there and expects one. */
  claimOne(workerId: string, choices?: Choices): Promise<ClaimedGeneration>
  /** A worker, a session, a message, and their generation claimed. */
  running(): Promise<Running>
  /** Records a step that asked for so many tool calls. @returns their ids */
  calls(run: Running, count: number, status?: 'pending' | 'executing'): Promise<string[]>
}

export interface Choices {
  limit?: number
  maxAttempts?: number
  concurrencyPerKey?: number
  store?: Store
}

export interface Running {
  workerId: string
  sessionId: string
  messageId: string
  id: string
  attempt: number
}

export function scenario(database: TestDatabase, schema = 'ai_db'): Scenario {
  const store = createStore(database.db, { schema })
  const agent = next('agent')

  const worker = async ({ leaseMs = 3_600_000, agents, tools }: WorkerChoices = {}) => {
    const id = next('worker')
    await store.registerWorker({
      id,
      name: 'test',
      agents: agents ?? [agent],
      tools: tools ?? [],
      slots: 1,
      locked: false,
      leaseMs,
      version: '0',
    })
    return id
  }
  const session = async (choices: { priority?: number; concurrencyKey?: string } = {}) =>
    (await createSession(database.db, { id: next('session'), ...choices }, { schema })).id
  const say = async (sessionId: string, content = 'hello') => {
    const message = { id: next('message'), sessionId, content, targetAgent: agent }
    const sent = { ...message, queueForUnknownAgent: true }
    return (await sendMessage(database.db, sent, { schema })).id
  }
  const claim = (workerId: string, choices: Choices = {}) =>
    (choices.store ?? store).claimGenerations({
      workerId,
      agents: new Map([[agent, choices.maxAttempts ?? 5]]),
      limit: choices.limit ?? 100,
      concurrencyPerKey: choices.concurrencyPerKey,
    })
  const claimOne = async (workerId: string, choices: Choices = {}) => {
    const claimed = await claim(workerId, choices)
    if (claimed.length !== 1) throw new Error(`expected one generation, got ${claimed.length}`)
    return claimed[0]!
  }
  const running = async () => {
    const workerId = await worker()
    const sessionId = await session()
    const messageId = await say(sessionId)
    const { id, attempt } = await claimOne(workerId)
    return { workerId, sessionId, messageId, id, attempt }
  }
  const calls = async (
    run: Running,
    count: number,
    status: 'pending' | 'executing' = 'executing',
  ) => {
    const { step } = (await store.readGeneration(run.id))!
    const recorded = await store.recordStep({
      generationId: run.id,
      attempt: run.attempt,
      workerId: run.workerId,
      step,
      text: 'let me see',
      chunkIndex: step,
      toolCalls: Array.from({ length: count }, () => ({
        providerCallId: next('call'),
        name: 'lookup',
        args: { q: 1 },
        status,
      })),
      inputTokens: 1,
      outputTokens: 1,
      model: null,
      providerResponseId: null,
    })
    return recorded.map((call) => call.id)
  }
  return { store, agent, worker, session, say, claim, claimOne, running, calls }
}

/** The shortest cutover. */
export const answer = (run: { id: string; attempt: number }, content = 'done') => ({
  generationId: run.id,
  attempt: run.attempt,
  status: 'completed' as const,
  message: { content, parts: [] },
})

export const done = (id: string, attempt = 1) => ({
  id,
  attempt,
  outcome: { status: 'completed' as const, result: 42 },
})
