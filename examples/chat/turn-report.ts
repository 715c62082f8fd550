/** A finished turn in numbers: the object that `--json` prints. What each one means is in the help. */
import { asc, eq } from 'drizzle-orm'
import { toolCalls, type ToolCall } from '../../src/schema.js'
import type { Demo } from './demo.js'
import { differenceSoFar, textDifference } from './text-difference.js'
import type { Turn } from './turn.js'
import { unbrokenAnswer } from './unbroken-answer.js'

export interface TurnReport {
  generation: string
  toolCalls: number
  tokens: number
  firstTokenMs: number | null
  sqlRoundTrips: number | null
  text: string
}

/** Of a turn that was to be killed. */
export interface KillReport extends TurnReport {
  killToNextTokenMs: number | null
  lostChars: number
  duplicatedChars: number
  rewrites: number
  toolExecutions: number
  attempts: number
}

export async function reportTurn(demo: Demo, turn: Turn): Promise<TurnReport> {
  const { reading, generationId } = turn
  const row = await demo.store.readGeneration(generationId)
  return {
    generation: row?.status ?? 'gone',
    toolCalls: (await callsOf(demo, generationId)).length,
    tokens: reading.tokens,
    firstTokenMs: reading.firstTokenMs,
    sqlRoundTrips: await demo.workers.roundTrips(generationId),
    text: row?.content ?? '',
  }
}

export async function reportKilledTurn(demo: Demo, turn: Turn): Promise<KillReport> {
  const { reading, generationId, question } = turn
  const { text, ...report } = await reportTurn(demo, turn)
  const isOffline = demo.model.onInterrupted === 'continue'
  const calls = await callsOf(demo, generationId)
  const unbroken = isOffline ? unbrokenAnswer(question, calls) : text
  const differences = [
    differenceSoFar(unbroken, reading.streamed),
    textDifference(unbroken, reading.shown),
    textDifference(unbroken, text),
  ]
  return {
    ...report,
    killToNextTokenMs: reading.killToNextTokenMs,
    lostChars: Math.max(...differences.map(({ lost }) => lost)),
    duplicatedChars: Math.max(...differences.map(({ surplus }) => surplus)),
    rewrites: reading.rewrites,
    toolExecutions: demo.workers.toolExecutions(generationId),
    attempts: (await demo.store.readGeneration(generationId))?.attempt ?? 0,
    text,
  }
}

function callsOf({ db }: Demo, generationId: string): Promise<ToolCall[]> {
  return db
    .select()
    .from(toolCalls)
    .where(eq(toolCalls.generationId, generationId))
    .orderBy(asc(toolCalls.step), asc(toolCalls.index))
}
