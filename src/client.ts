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
