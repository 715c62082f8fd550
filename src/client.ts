/** `electric-ai-db/client`: one conversation in a browser: its rows, live, and what people do to it. */
export { records, shapeNames } from './contract/records.js'
export type {
  ApprovalRecord,
  ChunkRecord,
  GenerationRecord,
  MessageRecord,
  SessionRecord,
  ShapeName,
  ToolCallRecord,
} from './contract/records.js'
export {
  approvalsCollectionOptions,
  chunksCollectionOptions,
  generationsCollectionOptions,
  messagesCollectionOptions,
  sessionCollectionOptions,
  sessionsCollectionOptions,
  toolCallsCollectionOptions,
} from './electric/collections.js'
export type {
  HandlerShapeOptions,
  OwnShapeOptions,
  RecordCollectionConfig,
  SessionsCollectionOptions,
  ShapeCollectionOptions,
  ShapeHealth,
} from './electric/collections.js'
export { handlerToolClaims } from './client/handler-tool-claims.js'
export type { HandlerToolClaims, HandlerToolClaimsOptions } from './client/handler-tool-claims.js'
export { chatConnection } from './client/chat-connection.js'
export type {
  ChatConnection,
  ChatConnectionOptions,
  ChatHydration,
  ChatSource,
} from './client/chat-connection.js'
export { openSession } from './client/open-session.js'
export type {
  ChatSession,
  SendOptions,
  SessionOptions,
  VoteOptions,
} from './client/open-session.js'
export { openSessions } from './client/open-sessions.js'
export type { NewListedSession, SessionList, SessionsOptions } from './client/open-sessions.js'
export type { ConnectionState } from './client/connection.js'
export type { ExternalStore } from './client/external-store.js'
export type { HeadersOption } from './client/handler-requests.js'
export type { LiveText, LiveTextState } from './client/live-texts.js'
export type { SessionAction } from './client/optimistic-writes.js'
export type { OutboxStorage } from './client/outbox-shelf.js'
export type { RecordCollection, SessionCollections } from './client/session-collections.js'
export { AiDbError } from './errors.js'
export type { AiDbErrorCode } from './errors.js'
export { emptyTranscript, transcriptText } from './streams/transcript.js'
export type { Transcript, TranscriptStep, TranscriptToolCall } from './streams/transcript.js'
