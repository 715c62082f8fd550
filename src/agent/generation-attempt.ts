/**
 * One attempt at a generation, from its rows to its end:
 *
 *     load ─► tools unsettled? ─yes─► run them ─► (put down, if only others can go on)
 *                  │ no    ▲
 *                  ▼       └──────────────────────┐
 *             model turn ─asks for tools─► record step
 *                  │ answers
 *                  ▼
 *               cutover
 *
 * Every write carries the attempt; when one finds it stale it throws FencedError, and this ends.
 */
import type { ClaimedGeneration } from '../claims/claim-generations.js'
import { recordStep } from '../claims/record-step.js'
import { settleGeneration } from '../claims/settle-generation.js'
import type { AgentRun } from '../runner/agent-run.js'
import type { ResolvedAgent } from './agent-options.js'
import { collaboratorTools } from './collaborators.js'
import { modelMessages, stepMessages, type FinishedStep } from './history.js'
import { openLiveText, shownInStream, transcriptOfChunks, type LiveText } from './live-text.js'
import { loadGeneration, type Loaded } from './load.js'
import { runModelTurn, type ModelTurn } from './model-turn.js'
import { loadedCalls, planToolCalls } from './plan-tool-calls.js'
import { runTools, toolResultItem } from './run-tools.js'
import { finishedSteps, messageOf, nextAction, unsettledCalls } from './steps.js'

export class GenerationAttempt {
  readonly #agent: ResolvedAgent
  readonly #generation: ClaimedGeneration
  readonly #run: AgentRun
  #loaded: Loaded = { messages: [], toolCalls: [], chunks: [] }
  #steps: FinishedStep[] = []
  /** Text of the running step. */
  #partial = ''
  #held: ReadonlySet<string> = new Set()
  live: LiveText | undefined

  constructor(agent: ResolvedAgent, generation: ClaimedGeneration, run: AgentRun) {
    this.#agent = agent
    this.#generation = generation
    this.#run = run
  }

  async toItsEnd(): Promise<void> {
    await this.#run.faultPoint('claimed')
    await this.#load()
    for (;;) {
      const next = nextAction({
        steps: this.#steps,
        inbox: this.#generation.inbox,
        maxSteps: this.#agent.maxSteps,
      })
      if (next === 'nothing-to-do') return this.#cutOver('completed')
      if (next === 'give-up') return this.#giveUp()
      if (next === 'run-tools') {
        if (!(await this.#runTools())) return this.#putDown()
        continue
      }
      const turn = await this.#askModel()
      if (turn.toolCalls.length === 0) return this.#answer(turn)
      await this.#recordStep(turn)
    }
  }

  /** The message as far as it got. */
  message(): ReturnType<typeof messageOf> {
    const steps =
      this.#partial === '' ? this.#steps : [...this.#steps, { text: this.#partial, toolCalls: [] }]
    return messageOf(steps)
  }

  /** Stops writing; another attempt, or this one from its rows, goes on. */
  abandon(): void {
    this.live?.abort()
  }

  async #load(): Promise<void> {
    const { id, step, attempt } = this.#generation
    this.#loaded = await loadGeneration(this.#run.db, id, this.#agent.historyLimit)
    const ofRows = transcriptOfChunks(this.#loaded.chunks)
    this.#steps = finishedSteps(id, step, this.#loaded, ofRows)
    // Only a takeover has something to keep; a first attempt spares the request.
    const shown =
      attempt > 1 ? ((await shownInStream(this.#generation, this.#run)) ?? ofRows) : ofRows
    this.#partial = this.#agent.onInterrupted === 'continue' ? (shown.steps[step]?.text ?? '') : ''
    this.live = openLiveText({
      generation: this.#generation,
      run: this.#run,
      chunks: this.#loaded.chunks,
      keep: this.#partial.length,
      shown,
    })
    // What settled while nobody ran: readers of the live text have not been told.
    for (const call of this.#steps.at(-1)?.toolCalls ?? []) {
      if (call.status !== 'pending' && call.status !== 'executing')
        this.live.append(toolResultItem(call))
    }
  }

  async #askModel(): Promise<ModelTurn> {
    const { agent, generation, run } = {
      agent: this.#agent,
      generation: this.#generation,
      run: this.#run,
    }
    const prefill = this.#partial
    await run.faultPoint('before-provider-call')
    const turn = await runModelTurn({
      adapter: agent.adapter,
      instructions: agent.instructions,
      messages: [
        ...modelMessages(this.#loaded.messages, this.#loaded.toolCalls),
        ...this.#steps.flatMap(stepMessages),
        ...(prefill === '' ? [] : [{ role: 'assistant' as const, content: prefill }]),
      ],
      tools: [...agent.tools, ...collaboratorTools(agent)],
      middleware: agent.middleware,
      modelOptions: agent.modelOptions,
      sessionId: generation.sessionId,
      generationId: generation.id,
      step: this.#steps.length,
      signal: run.signal,
      idleTimeoutMs: agent.idleTimeoutMs,
      onItem: (item) => {
        this.live!.append(item)
        if (item.type === 'text') {
          this.#partial += item.delta
          return run.faultPoint('mid-text')
        }
        return item.type === 'tool-call-args' ? run.faultPoint('mid-tool-arguments') : undefined
      },
    })
    return { ...turn, text: prefill + turn.text }
  }

  async #recordStep(turn: ModelTurn): Promise<void> {
    const { id, attempt } = this.#generation
    const step = this.#steps.length
    const planned = await planToolCalls(this.#agent, turn.toolCalls)
    await this.#run.faultPoint('before-step')
    const { text, chunkIndex } = await this.live!.beforeStep(turn.text)
    const recorded = await recordStep(this.#run.db, {
      generationId: id,
      attempt,
      workerId: this.#run.workerId,
      step,
      text,
      chunkIndex,
      toolCalls: planned,
      inputTokens: turn.inputTokens,
      outputTokens: turn.outputTokens,
      model: this.#agent.adapter.model,
      providerResponseId: turn.providerResponseId ?? null,
    })
    const calls = loadedCalls(id, step, planned, recorded)
    this.#held = new Set(calls.filter((call) => call.status === 'executing').map((call) => call.id))
    this.#steps.push({ text: turn.text, toolCalls: calls })
    this.#partial = ''
    this.live!.append({ type: 'step-end', step, finishReason: turn.finishReason ?? 'tool_calls' })
    for (const call of calls) if (call.status === 'failed') this.live!.append(toolResultItem(call))
    this.#run.emit({ type: 'step', generationId: id, attempt, step, toolCalls: calls.length })
    await this.#run.faultPoint('step-recorded')
  }

  #runTools(): Promise<boolean> {
    return runTools({
      agent: this.#agent,
      generation: this.#generation,
      run: this.#run,
      step: this.#steps.length - 1,
      calls: unsettledCalls(this.#steps),
      held: this.#held,
      append: (item) => this.live!.append(item),
    })
  }

  #putDown(): void {
    const { id, attempt } = this.#generation
    this.#run.emit({ type: 'put-down', generationId: id, attempt, reason: 'tools' })
    this.#run.afterwards(this.live!.leave())
  }

  #answer(turn: ModelTurn): Promise<void> {
    this.#steps.push({ text: turn.text, toolCalls: [] })
    this.#partial = ''
    return this.#cutOver('completed', turn)
  }

  #giveUp(): Promise<void> {
    return this.#cutOver(
      'failed',
      undefined,
      `no answer after ${this.#steps.length} model turns; raise maxSteps if the task needs more`,
    )
  }

  async #cutOver(status: 'completed' | 'failed', turn?: ModelTurn, error?: string): Promise<void> {
    const { id, attempt } = this.#generation
    await this.#run.faultPoint('before-cutover')
    this.live!.hold()
    const { messageId } = await settleGeneration(this.#run.db, {
      generationId: id,
      attempt,
      status,
      error,
      message: messageOf(this.#steps),
      finishReason: turn?.finishReason,
      inputTokens: turn?.inputTokens ?? 0,
      outputTokens: turn?.outputTokens ?? 0,
      model: this.#agent.adapter.model,
      providerResponseId: turn?.providerResponseId ?? null,
    })
    await this.#run.faultPoint('after-cutover')
    this.#run.afterwards(
      this.live!.end({ type: 'done', status, ...(error !== undefined && { error }) }),
    )
    this.#run.emit(
      status === 'completed'
        ? { type: 'completed', generationId: id, attempt, messageId }
        : { type: 'failed', generationId: id, attempt, error: new Error(error) },
    )
  }
}
