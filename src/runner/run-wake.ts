/** One wake of a Durable Streams subscription, from claim to end, however it came: delivered, claimed or rechecked. */
import type { RunnerSession } from '../contract/lifecycle.js'
import { AiDbError } from '../errors.js'
import type { DurableStreamsWebhookAdapter, UnreadStream } from '../streams/webhook-adapter.js'
import type { DurableStreamsWake } from '../streams/webhook-wake.js'
import { runWithLifecycle } from './run-with-lifecycle.js'

/**
 * The work of a wake. `unread` says where to read on; empty when the work of an earlier wake covered it. Returning
 * without a word is `done: true`.
 */
export type RunWake = (
  wake: DurableStreamsWake,
  session: RunnerSession<DurableStreamsWake>,
  unread: UnreadStream[],
) => Promise<void | { done: boolean }>

export type WakeOutcome = 'ran' | 'rejected' | 'fenced'

export interface RunWakeOptions {
  adapter: DurableStreamsWebhookAdapter
  run: RunWake
  signal?: AbortSignal | undefined
}

/** @returns how it went; a refused or lost wake is somebody else's. @throws what the work threw. */
export async function runWake(
  wake: DurableStreamsWake,
  { adapter, run, signal }: RunWakeOptions,
): Promise<WakeOutcome> {
  try {
    await runWithLifecycle(
      wake,
      adapter,
      async (session) => {
        let ended = false
        const noting: RunnerSession<DurableStreamsWake> = {
          wake: session.wake,
          ...(session.fenceToken === undefined ? {} : { fenceToken: session.fenceToken }),
          signal: session.signal,
          heartbeat: () => session.heartbeat(),
          checkpoint: (checkpoints) => session.checkpoint(checkpoints),
          complete: (result) => {
            ended = true
            return session.complete(result)
          },
          fail: (error) => {
            ended = true
            return session.fail(error)
          },
        }
        const result = await run(wake, noting, await adapter.readUnread(wake))
        if (!ended) await session.complete(result ?? { done: true })
      },
      signal ? { signal } : {},
    )
    return 'ran'
  } catch (thrown) {
    const code = thrown instanceof AiDbError ? thrown.code : undefined
    if (code === 'WAKE_REJECTED') return 'rejected'
    if (code === 'FENCED') return 'fenced'
    throw thrown
  }
}
