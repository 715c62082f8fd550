/** Which kind of chunk an AG-UI event is, in the RFC's five words; what no reader of text wants is none. */
import type { StreamChunk } from '@tanstack/ai'

export type ChunkType = 'text' | 'tool-call-start' | 'tool-call-args' | 'tool-call-end' | 'thinking'

const TYPES: Readonly<Record<string, ChunkType>> = {
  TEXT_MESSAGE_CONTENT: 'text',
  TOOL_CALL_START: 'tool-call-start',
  TOOL_CALL_ARGS: 'tool-call-args',
  TOOL_CALL_END: 'tool-call-end',
  STEP_FINISHED: 'thinking',
  REASONING_MESSAGE_CONTENT: 'thinking',
}

/** The RFC's mapping: an event it does not name is 'text' (and brings no content of its own). */
export function mapChunkType(aiType: string): ChunkType {
  return TYPES[aiType] ?? 'text'
}

/** A `filter` for `streamToCollection`: events with something to show, and not a run's bookkeeping. */
export function isContentChunk(chunk: StreamChunk): boolean {
  return chunk.type in TYPES
}
