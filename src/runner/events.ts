/** What a worker tells its host, typed. Events are for logs and metrics; nothing depends on them. */

export type WorkerEvent =
  | { type: 'started'; workerId: string; mode: 'listen' | 'poll' }
  | { type: 'claimed'; generationId: string; agentName: string; attempt: number; queuedMs: number }
  | { type: 'step'; generationId: string; attempt: number; step: number; toolCalls: number }
  | { type: 'completed'; generationId: string; attempt: number; messageId: string | null }
  | { type: 'failed'; generationId: string; attempt: number; error: Error }
  /** An attempt failed and another will follow. */
  | { type: 'retrying'; generationId: string; attempt: number; error: Error; delayMs: number }
  /** Put down until its tools settle, or at shutdown. */
  | { type: 'put-down'; generationId: string; attempt: number; reason: 'tools' | 'shutdown' }
  | { type: 'cancelled'; generationId: string; attempt: number }
  /** Another attempt owns it now; this run wrote nothing more. */
  | { type: 'fenced'; generationId: string; attempt: number }
  | { type: 'tool-claimed'; toolCallId: string; name: string; attempt: number }
  | {
      type: 'tool-settled'
      toolCallId: string
      name: string
      attempt: number
      status: 'completed' | 'failed' | 'fenced'
    }
  | { type: 'recovered'; workers: string[]; generations: number; toolCalls: number }
  /** The lease ran out or the row is gone: everything held was dropped, and the worker registered anew. */
  | { type: 'lease-lost'; workerId: string }
  /** Something in the background failed and will be tried again. */
  | { type: 'error'; error: Error }
  | { type: 'stopped'; workerId: string }

export type WorkerEventListener = (event: WorkerEvent) => void
