/** `electric-ai-db/testing`: models without a provider, for tests and demos. */
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
export type { ConformanceCase, LifecycleHarness } from './testing/lifecycle-conformance.js'
