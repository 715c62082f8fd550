/** Where a generation's stream lives. Writer, reader and the handler's proxy agree on it here. */

/** The Postgres schema's default name, which sets streams of several installations apart. */
export const DEFAULT_STREAM_PREFIX = 'ai_db'

export interface StreamAddress {
  /** Base URL of the stream server, without `/v1/stream`. */
  streamsUrl: string | URL
  /** @default 'ai_db' */
  prefix?: string
  generationId: string
}

/** The path on the server; a generation's id is one segment of it, whatever characters it has. */
export function generationStreamPath(prefix: string, generationId: string): string {
  return `/v1/stream/${encodeURIComponent(prefix)}/generations/${encodeURIComponent(generationId)}`
}

export function generationStreamUrl(address: StreamAddress): string {
  const { streamsUrl, prefix = DEFAULT_STREAM_PREFIX, generationId } = address
  return `${String(streamsUrl).replace(/\/+$/, '')}${generationStreamPath(prefix, generationId)}`
}
