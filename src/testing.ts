/** `electric-ai-db/testing`: models without a provider, and what a backend of one's own has to do, as tests. */
export {
  ScriptedAdapter,
  continueFrom,
  messageText,
  scriptedAdapter,
} from './testing/scripted-adapter.js'
export type {
  ScriptedAdapterOptions,
  ScriptedRequest,
  ScriptedToolCall,
  ScriptedTurn,
} from './testing/scripted-adapter.js'
export { answerOffline, offlineModel } from './testing/offline-model.js'
export { memoryLifecycle } from './testing/memory-lifecycle.js'
export type { MemoryLifecycle, MemoryLifecycleOptions } from './testing/memory-lifecycle.js'
export { lifecycleConformance } from './testing/lifecycle-conformance.js'
export type { LifecycleHarness } from './testing/lifecycle-conformance.js'
export { toolClaimsConformance } from './testing/tool-claims-conformance.js'
export type { ToolClaimsHarness } from './testing/tool-claims-conformance.js'
export { transcriptConformance } from './testing/transcript-conformance.js'
export type { TranscriptHarness } from './testing/transcript-conformance.js'
export type { ConformanceCase } from './testing/conformance-case.js'
export type { TranscriptWriter } from './streams/transcript-writer.js'
