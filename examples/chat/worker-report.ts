/** What the terminal and its worker processes say to each other, over the channel of `fork`. */

/** Terminal → worker. A worker starts when it is told where, so that its code loads while Postgres starts. */
export type WorkerOrder =
  { type: 'start'; databaseUrl: string; streamsUrl: string; schema?: string } | { type: 'stop' }

/** Worker → terminal. Only for the progress line and the numbers of `--json`: the answer needs none of it. */
export type WorkerReport =
  | { type: 'ready' }
  /** It could not start. */
  | { type: 'unable'; message: string }
  | { type: 'claimed'; generationId: string; attempt: number }
  | { type: 'tool-execution'; generationId: string; name: string }
  /** `roundTrips`: statements this process sent for it, from its claim to its cutover. */
  | { type: 'settled'; generationId: string; roundTrips: number }
  /** Something failed and will be tried again. */
  | { type: 'trouble'; message: string }
