/** The fold behind every live view. The properties hold for any log, coherent or not. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  applyItem,
  applyItems,
  coalesce,
  emptyTranscript,
  joinStepTexts,
  transcriptText,
  transcriptToItems,
  type Transcript,
  type TranscriptItem,
} from '../../src/streams/transcript.js'

const step = fc.nat(3)
const id = fc.constantFrom('a', 'b', 'c')
const name = fc.constantFrom('add', 'now')
const delta = fc.string({ maxLength: 6 })
const status = fc.constantFrom('completed' as const, 'failed' as const, 'cancelled' as const)
const of = <T extends TranscriptItem['type']>(type: T) => fc.constant(type)

const anyItem: fc.Arbitrary<TranscriptItem> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: of('text'), step, delta }) },
  { weight: 2, arbitrary: fc.record({ type: of('thinking'), step, delta }) },
  { weight: 2, arbitrary: fc.record({ type: of('tool-call-start'), step, id, name }) },
  { weight: 4, arbitrary: fc.record({ type: of('tool-call-args'), step, id, delta }) },
  { weight: 1, arbitrary: fc.record({ type: of('tool-call-end'), step, id }) },
  {
    weight: 2,
    arbitrary: fc.record(
      { type: of('tool-result'), step, id, name, status, result: fc.jsonValue(), error: delta },
      { requiredKeys: ['type', 'step', 'id', 'name', 'status'] },
    ),
  },
  { weight: 1, arbitrary: fc.record({ type: of('step-end'), step }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: of('attempt'),
      attempt: fc.nat(4),
      step: fc.integer({ min: -1, max: 3 }),
      keep: fc.nat(12),
    }),
  },
)

const anyLog = fc.array(anyItem, { maxLength: 60 })

/** What a viewer can see; whether items are being ignored is the fold's own affair. */
const visible = ({ ignoring: _, ...transcript }: Transcript): unknown =>
  JSON.parse(JSON.stringify(transcript))

/** Cuts every delta of a log into pieces. */
function split(items: readonly TranscriptItem[], size: number): TranscriptItem[] {
  return items.flatMap((item) => {
    if (!('delta' in item)) return [item]
    const pieces: TranscriptItem[] = []
    for (let at = 0; at < item.delta.length; at += size) {
      pieces.push({ ...item, delta: item.delta.slice(at, at + size) })
    }
    return pieces
  })
}

describe('a transcript is the same', () => {
  test('however its deltas are merged or cut', () => {
    fc.assert(
      fc.property(anyLog, fc.integer({ min: 1, max: 3 }), (log, size) => {
        const whole = applyItems(emptyTranscript, log)
        expect(applyItems(emptyTranscript, coalesce(log))).toEqual(whole)
        expect(applyItems(emptyTranscript, split(log, size))).toEqual(whole)
        expect(applyItems(emptyTranscript, coalesce(split(log, size)))).toEqual(whole)
      }),
    )
  })

  test('when its tail begins anywhere, folded on in batches', () => {
    fc.assert(
      fc.property(anyLog, fc.nat(60), (log, at) => {
        const head = applyItems(emptyTranscript, coalesce(log.slice(0, at)))
        const both = applyItems(head, coalesce(log.slice(at)))
        expect(both).toEqual(applyItems(emptyTranscript, log))
      }),
    )
  })

  test('rebuilt from its items, on nothing and on top of any other log of its attempt', () => {
    fc.assert(
      fc.property(anyLog, anyLog, fc.option(status), (log, other, end) => {
        const folded = applyItems(emptyTranscript, log)
        const t = end ? applyItem(folded, { type: 'done', status: end }) : folded
        const items = JSON.parse(JSON.stringify(transcriptToItems(t))) as TranscriptItem[]
        expect(visible(applyItems(emptyTranscript, items))).toEqual(visible(t))
        const before = other.filter((item) => item.type !== 'attempt')
        expect(visible(applyItems(applyItems(emptyTranscript, before), items))).toEqual(visible(t))
      }),
    )
  })
})

describe('a takeover', () => {
  const log: TranscriptItem[] = [
    { type: 'attempt', attempt: 1, step: 0, keep: 0 },
    { type: 'text', step: 0, delta: 'Let me see.' },
    { type: 'tool-call-start', step: 0, id: 'a', name: 'add' },
    { type: 'tool-call-args', step: 0, id: 'a', delta: '{"x":' },
    { type: 'tool-call-args', step: 0, id: 'a', delta: '1}' },
    { type: 'tool-call-end', step: 0, id: 'a' },
    { type: 'tool-result', step: 0, id: 'a', name: 'add', status: 'completed', result: 2 },
    { type: 'tool-call-start', step: 0, id: 'b', name: 'now' },
    { type: 'text', step: 1, delta: 'It is tw' },
  ]
  const before = applyItems(emptyTranscript, log)

  test('at the next step keeps so much of its text, and ends the steps before', () => {
    const after = applyItem(before, { type: 'attempt', attempt: 2, step: 1, keep: 5 })
    expect(transcriptText(after)).toBe('Let me see.\n\nIt is')
    expect(after.steps.map((s) => s.ended)).toEqual([true, false])
  })

  test('drops calls that were not settled, and later steps', () => {
    const after = applyItem(before, { type: 'attempt', attempt: 2, step: 0, keep: 99 })
    expect(after.steps).toHaveLength(1)
    expect(after.steps[0]?.toolCalls).toEqual([
      { id: 'a', name: 'add', args: '{"x":1}', state: 'completed', result: 2 },
    ])
  })

  test('makes what the deposed worker still writes invisible, until its own items follow', () => {
    const after = applyItems(before, [
      { type: 'attempt', attempt: 2, step: 1, keep: 0 },
      { type: 'attempt', attempt: 1, step: 1, keep: 8 },
      { type: 'text', step: 1, delta: 'o o clock' },
      { type: 'attempt', attempt: 2, step: 1, keep: 0 },
      { type: 'text', step: 1, delta: 'Two.' },
    ])
    expect(transcriptText(after)).toBe('Let me see.\n\nTwo.')
  })

  test('leaves the value it began from as it was', () => {
    const copy = JSON.stringify(before)
    applyItem(before, { type: 'attempt', attempt: 2, step: 0, keep: 0 })
    expect(JSON.stringify(before)).toBe(copy)
  })
})

test('a call settles once: a second result of it changes nothing', () => {
  const first = { step: 0, id: 'a', name: 'add', status: 'completed', result: 1 } as const
  const once = applyItem(emptyTranscript, { type: 'tool-result', ...first })
  expect(applyItem(once, { type: 'tool-result', ...first, status: 'failed' })).toBe(once)
})

test('an item type of a newer version is skipped', () => {
  const item = { type: 'toString', step: 0 } as unknown as TranscriptItem
  expect(applyItem(emptyTranscript, item)).toBe(emptyTranscript)
})

test('empty steps leave no blank lines in the text', () => {
  expect(joinStepTexts(['', 'one', '', 'two', ''])).toBe('one\n\ntwo')
})
