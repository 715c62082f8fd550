/** The typed transition tables by themselves; against the database: test/postgres/transitions.test.ts. */
import { describe, expect, it } from 'vitest'
import {
  generationTransitions,
  initialGenerationStatuses,
  initialToolCallStatuses,
  isSettledGeneration,
  isSettledToolCall,
  toolCallTransitions,
} from '../../src/contract/status.js'

type Table = Readonly<Record<string, Readonly<Record<string, boolean>>>>

const machines: readonly (readonly [
  string,
  Table,
  Readonly<Record<string, boolean>>,
  (status: string) => boolean,
])[] = [
  [
    'generation',
    generationTransitions,
    initialGenerationStatuses,
    (status) => isSettledGeneration(status as keyof typeof generationTransitions),
  ],
  [
    'tool call',
    toolCallTransitions,
    initialToolCallStatuses,
    (status) => isSettledToolCall(status as keyof typeof toolCallTransitions),
  ],
]

describe.each(machines)('%s', (_name, table, initial, isSettled) => {
  const statuses = Object.keys(table)
  const ways = (from: string) => statuses.filter((to) => to !== from && table[from]![to])

  it('has every status in both directions, and among the initial ones', () => {
    for (const from of statuses) expect(Object.keys(table[from]!)).toEqual(statuses)
    expect(Object.keys(initial)).toEqual(statuses)
  })

  it('may always be written without moving: progress, leases and metadata do that', () => {
    expect(statuses.filter((status) => !table[status]![status])).toEqual([])
  })

  it('is settled exactly where there is no way out', () => {
    expect(statuses.filter(isSettled)).toEqual(statuses.filter((from) => ways(from).length === 0))
    expect(statuses.filter(isSettled)).toEqual(['completed', 'failed', 'cancelled'])
  })

  it('can be cancelled and can fail from wherever it is not settled: nothing is stuck for ever', () => {
    for (const from of statuses.filter((status) => !isSettled(status))) {
      expect(ways(from)).toEqual(expect.arrayContaining(['failed', 'cancelled']))
    }
  })

  it('reaches every status from its initial ones', () => {
    const reached = new Set(statuses.filter((status) => initial[status]))
    for (const from of reached) for (const to of ways(from)) reached.add(to)
    expect([...reached].toSorted()).toEqual(statuses.toSorted())
  })

  it('completes only from the status in which somebody holds it', () => {
    const into = statuses.filter((from) => from !== 'completed' && table[from]!.completed)
    expect(into).toHaveLength(1)
    expect(['generating', 'executing']).toContain(into[0])
  })
})
