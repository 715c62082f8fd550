/**
 * `electric-ai-db`: the isomorphic entry: contracts, status tables, errors, the live transcript's reader, and
 * TanStack AI's delivery durability over Durable Streams.
 * The RFC's composable primitives run over any TanStack DB collection, which the host brings along with that library.
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
export { chunkContract, generationContract, toolCallContract } from './contract/shapes.js'
export type { ChunkContract, GenerationContract, ToolCallContract } from './contract/shapes.js'
export {
  approvalRecord,
  chunkRecord,
  generationRecord,
  messageRecord,
  sessionRecord,
  toolCallRecord,
} from './contract/records.js'
export type {
  ApprovalRecord,
  ChunkRecord,
  GenerationRecord,
  MessageRecord,
  SessionRecord,
  ToolCallRecord,
} from './contract/records.js'
export type { ClaimToolCall, ToolClaim, ToolClaimOutcome } from './contract/tool-claims.js'
export type { AnyTool, ToolCallOf, ToolCallOfAny, ToolResultOfAny } from './tools/any-tool.js'
export { makeDurableTool, makeDurableTools } from './tools/durable-tool.js'
export type { DurableTool, DurableToolOptions, DurableTools } from './tools/durable-tool.js'
export type { DurableToolContext } from './tools/durable-calls.js'
export { parallelToolCalls } from './tools/parallel-tool-calls.js'
export { waitForToolResult } from './tools/tool-result.js'
export type { WaitForToolResultOptions } from './tools/tool-result.js'
export { makeAsyncTool } from './tools/async-tool.js'
export type { AsyncToolOptions } from './tools/async-tool.js'
export { makeJobStatusTool, withJobResults } from './tools/job-results.js'
export type { JobResultsOptions, JobStatusToolOptions } from './tools/job-results.js'
export { createToolExecutionEffect } from './tools/tool-execution.js'
export type {
  ToolCallInfo,
  ToolExecutionContext,
  ToolExecutionEffect,
  ToolExecutionEffectOptions,
  ToolImplementations,
} from './tools/tool-execution.js'
export { handleDurableStreamsWake } from './runner/handle-durable-streams-wake.js'
export type { HandleDurableStreamsWakeOptions } from './runner/handle-durable-streams-wake.js'
export { keepSubscription } from './runner/keep-subscription.js'
export type { KeepSubscriptionOptions, SubscriptionKeeper } from './runner/keep-subscription.js'
export { runPullWake } from './runner/run-pull-wake.js'
export type { RunPullWakeOptions } from './runner/run-pull-wake.js'
export type { RunWake } from './runner/run-wake.js'
export { durableStreamsWebhookAdapter } from './streams/webhook-adapter.js'
export type {
  DurableStreamsWebhookAdapter,
  DurableStreamsWebhookAdapterOptions,
  UnreadStream,
} from './streams/webhook-adapter.js'
export type { PostCallback } from './streams/webhook-callback.js'
export { createWebhookVerifier } from './streams/webhook-signature.js'
export type { VerifyWebhook, WebhookVerifierOptions } from './streams/webhook-signature.js'
export {
  deleteSubscription,
  ensureSubscription,
  sessionSubscription,
} from './streams/webhook-subscription.js'
export type { Subscription, SubscriptionOptions } from './streams/webhook-subscription.js'
export { parseDurableStreamsWake } from './streams/webhook-wake.js'
export type { DurableStreamsWake, WakeStream } from './streams/webhook-wake.js'
export { isContentChunk, mapChunkType } from './generation/chunk-type.js'
export type { ChunkType } from './generation/chunk-type.js'
export { streamToCollection } from './generation/stream-to-collection.js'
export type {
  ChunkOptions,
  StreamEnd,
  StreamToCollectionOptions,
  StreamToCollectionResult,
} from './generation/stream-to-collection.js'
export { chunksOf, chunksToText, chunkTextOf } from './generation/materialize-chunks.js'
export type { TextChunk } from './generation/materialize-chunks.js'
export { createGenerationEffect } from './generation/generation-effect.js'
export type {
  ClaimGeneration,
  GenerationContext,
  GenerationEffect,
  GenerationEffectOptions,
} from './generation/generation-effect.js'
export { durableChat } from './generation/durable-chat.js'
export type { DurableChatOptions } from './generation/durable-chat.js'
