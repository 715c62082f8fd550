/**
 * `electric-ai-db`: the isomorphic entry: contracts, status tables, errors, the live transcript's reader, and
 * TanStack AI's delivery durability over Durable Streams.
 *
 * The RFC's composable primitives (makeDurableTool, createToolExecutionEffect, ...) are not part of this
 * version; see README, "Not yet".
 */
export { AiDbError, FencedError } from './errors.js'
export type { AiDbErrorCode, AiDbErrorDetails } from './errors.js'
export {
  generationTransitions,
  initialGenerationStatuses,
  initialToolCallStatuses,
  isSettledGeneration,
  isSettledToolCall,
  toolCallTransitions,
} from './contract/status.js'
export type {
  CancelReason,
  FiberStatus,
  GenerationStatus,
  ToolCallStatus,
  WaitReason,
} from './contract/status.js'
export { readTranscript } from './streams/reader.js'
export type { ReadTranscriptOptions } from './streams/reader.js'
export { readPackedTranscript } from './streams/packed-reader.js'
export {
  applyItem,
  applyItems,
  emptyTranscript,
  joinStepTexts,
  transcriptText,
} from './streams/transcript.js'
export type {
  Transcript,
  TranscriptItem,
  TranscriptStep,
  TranscriptToolCall,
} from './streams/transcript.js'
export type { TranscriptUpdate } from './streams/transcript-view.js'
export { durableStream } from './streams/durability.js'
export type { DurableStreamOptions } from './streams/durability.js'
export { runWithLifecycle } from './runner/run-with-lifecycle.js'
export type { RunWithLifecycleOptions } from './runner/run-with-lifecycle.js'
export { drainUntilIdle } from './runner/drain-until-idle.js'
export type { DrainUntilIdleOptions } from './runner/drain-until-idle.js'
export { compareCursors } from './contract/cursor-order.js'
export type {
  CheckpointContract,
  DurableLifecycle,
  LifecycleState,
  RunnerLifecycleAdapter,
  RunnerSession,
  RunnerWake,
  WebhookExecutionMode,
} from './contract/lifecycle.js'
