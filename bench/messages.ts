/** What a bench and its child processes say to each other. Times are of `clock.ts`. */

/** From a child. */
export type Note =
  | { type: 'ready' }
  /** Work began in the child: `key` says which, `at` when. */
  | { type: 'begun'; key: string; at: number }
  /** The child is done with it; what follows is idle. */
  | { type: 'finished' }
  /** A worker claimed a generation. */
  | { type: 'claimed'; generationId: string; attempt: number }
  /** A slice of work took so long, and so much of this process' time; then so long until it had left. */
  | { type: 'slice'; ms: number; cpuMs: number; drainedMs: number }
  /** A reader's sums of all its streams. */
  | { type: 'read'; latencies: number[]; tokens: number[]; rewrites: number }
  /** How many tokens a second each stream was given. */
  | { type: 'paces'; tokensPerSecond: number[]; latenessMs: number[] }
  /** A server listens here. */
  | { type: 'listening'; url: string }
  /** A row arrived by sync, or a notification; `key` is what was said in it. */
  | { type: 'seen'; key: string; at: number }
  /** A person pressed send. */
  | { type: 'sent'; key: string; at: number }
  /** How often each key arrived, and how long each row took. */
  | { type: 'crowd'; latencies: number[]; rows: number; repeats: number; sessions: number }

export type NoteOf<Type extends Note['type']> = Extract<Note, { type: Type }>

/** To a child. */
export type Order =
  | { type: 'stop' }
  | { type: 'ours' | 'floor'; count: number }
  | { type: 'read'; generationIds: string[] }
  | { type: 'send'; content: string; agent: string }
  | { type: 'tell' }

export type AgentKind = 'bare' | 'timed' | 'blocking' | 'clocked' | 'prose'

export interface ChildConfigs {
  worker: {
    databaseUrl: string
    streamsUrl?: string
    /** Each is served under its kind's name. */
    agents: AgentKind[]
    slots: number
    tokensPerSecond?: number
  }
  executor: { databaseUrl: string }
  turns: { databaseUrl: string; streamsUrl: string; slots: number }
  reader: { databaseUrl: string; streamsUrl: string }
  /** Hears of rows of `floor.jobs`, claims them; `settles` also tells who asked. */
  'floor-worker': { databaseUrl: string; settles: boolean }
  /** A dev sync server in a process of its own. */
  'sync-server': { databaseUrl: string }
  /** The handler on Node's HTTP server. */
  web: { databaseUrl: string; electricUrl: string; streamsUrl: string }
  /** A browser tab's session, and the live text of what is generated in it. */
  tab: { url: string; sessionId: string }
  /** Electric clients: one shape of messages per session. */
  crowd: { electricUrl: string; sessionIds: string[] }
  /** The primitives over Electric collections of a host's own tables. */
  primitives: { databaseUrl: string; electricUrl: string; role: 'asks' | 'executes' }
  /** Hears of notifications. */
  listener: { databaseUrl: string }
  /** Waits for a lock, then has it until it is killed. */
  'lock-holder': { databaseUrl: string; jobId: string }
}
