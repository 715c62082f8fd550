/**
 * What carries a live transcript has to do (a bridge: a writer at the worker, readers at devices), as cases that any
 * test runner can run:
 *
 *     for (const { name, run } of transcriptConformance(harness)) test(name, run)
 *
 * Ours are durable streams and rows of packed chunks. Not tested: outages, and what a slow reader costs.
 */
import { AiDbError } from '../errors.js'
import type { TranscriptWriter } from '../streams/transcript-writer.js'
import type { TranscriptUpdate } from '../streams/transcript-view.js'
import {
  applyItems,
  emptyTranscript,
  transcriptText,
  transcriptToItems,
  type Transcript,
  type TranscriptItem,
} from '../streams/transcript.js'
import { expectCode, expectSame, type ConformanceCase } from './conformance-case.js'

export interface TranscriptHarness {
  /** A transcript that no other case uses. @returns its id */
  createTranscript(): Promise<string>
  /**
   * The writer of an attempt. A higher attempt deposes the writers of lower ones.
   *
   * @param restore Everything the transcript holds, for a bridge that lost it.
   */
  createWriter(
    id: string,
    attempt: number,
    restore: () => readonly TranscriptItem[],
  ): Promise<TranscriptWriter>
  read(id: string, signal: AbortSignal): AsyncIterable<TranscriptUpdate>
}

export function transcriptConformance(harness: TranscriptHarness): ConformanceCase[] {
  return Object.entries(cases).map(([name, one]) => ({ name, run: () => one(harness) }))
}

const PATIENCE_MS = 20_000

const attempt = (number: number, keep = 0): TranscriptItem => ({
  ...{ type: 'attempt', attempt: number, step: 0, keep },
})
const text = (delta: string): TranscriptItem => ({ type: 'text', step: 0, delta })
const done = { type: 'done', status: 'completed' } as const

const cases: Readonly<Record<string, (harness: TranscriptHarness) => Promise<void>>> = {
  'a reader that was there before sees the whole text, in order and once': async (harness) => {
    const id = await harness.createTranscript()
    const read = readUntil(harness, id, ({ status }) => status === 'completed')
    const run = await begin(harness, id, 1)
    const words = Array.from({ length: 50 }, (_, word) => `word-${word} `)
    for (const word of words) await run.write(text(word))
    await run.writer.end(done)
    expectSame('the text', transcriptText(await read), words.join(''))
  },
  'what was flushed is seen by a reader that comes in the middle, without an end': async (
    harness,
  ) => {
    const id = await harness.createTranscript()
    const run = await begin(harness, id, 1)
    await run.write(text('Half a sen'))
    await run.writer.flush()
    await readUntil(harness, id, (seen) => transcriptText(seen) === 'Half a sen')
    const read = readUntil(harness, id, ({ status }) => status === 'completed')
    await run.write(text('tence.'))
    await run.writer.end(done)
    expectSame('the text', transcriptText(await read), 'Half a sentence.')
  },
  'a reader that comes after the end reads the same, and ends': async (harness) => {
    const id = await harness.createTranscript()
    const run = await begin(harness, id, 1)
    await run.write(text('All of it.'))
    await run.writer.flush()
    await run.writer.end(done)
    const seen = await readUntil(harness, id, ({ status }) => status !== 'streaming')
    expectSame('the text', [transcriptText(seen), seen.status], ['All of it.', 'completed'])
  },
  'a tool’s call, arguments and result arrive whole': async (harness) => {
    const id = await harness.createTranscript()
    const run = await begin(harness, id, 1)
    const read = readUntil(harness, id, ({ status }) => status === 'completed')
    await run.write(
      { type: 'tool-call-start', step: 0, id: 'a', name: 'add' },
      { type: 'tool-call-args', step: 0, id: 'a', delta: '{"x":' },
      { type: 'tool-call-args', step: 0, id: 'a', delta: '1}' },
      { type: 'tool-call-end', step: 0, id: 'a' },
      { type: 'tool-result', step: 0, id: 'a', name: 'add', status: 'completed', result: [2] },
    )
    await run.writer.flush()
    await run.writer.end(done)
    expectSame('the transcript', (await read).steps, run.transcript().steps)
  },
  'a takeover keeps what it says, and every reader sees the same text in the end': async (
    harness,
  ) => {
    const id = await harness.createTranscript()
    const first = await begin(harness, id, 1)
    await first.write(text('Hello wor'))
    await first.writer.flush()
    const before = readUntil(harness, id, ({ status }) => status === 'completed')
    const second = await begin(harness, id, 2, first.transcript(), 'Hello '.length)
    await second.write(text('you.'))
    await second.writer.flush()
    await second.writer.end(done)
    const after = await readUntil(harness, id, ({ status }) => status === 'completed')
    const texts = [transcriptText(await before), transcriptText(after)]
    expectSame('the texts', texts, ['Hello you.', 'Hello you.'])
  },
  'a deposed writer is FENCED, and nobody sees what it wrote': async (harness) => {
    const id = await harness.createTranscript()
    const first = await begin(harness, id, 1)
    await first.write(text('One. '))
    await first.writer.flush()
    const second = await begin(harness, id, 2, first.transcript(), 'One. '.length)
    await second.write(text('Two.'))
    await second.writer.flush()
    await first.write(text('Stale!'))
    await expectCode('the deposed flush', first.writer.flush(), 'FENCED')
    await second.writer.end(done)
    const seen = await readUntil(harness, id, ({ status }) => status === 'completed')
    expectSame('the text', transcriptText(seen), 'One. Two.')
  },
  'transcripts side by side are apart': async (harness) => {
    const texts = await Promise.all(
      ['a', 'b', 'c', 'd'].map(async (letter) => {
        const id = await harness.createTranscript()
        const run = await begin(harness, id, 1)
        for (let times = 0; times < 20; times += 1) await run.write(text(letter))
        await run.writer.flush()
        await run.writer.end(done)
        return transcriptText(await readUntil(harness, id, ({ status }) => status === 'completed'))
      }),
    )
    expectSame(
      'the texts',
      texts,
      ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(20)),
    )
  },
}

/** A worker's end: the writer, and the fold of what it wrote. */
async function begin(
  harness: TranscriptHarness,
  id: string,
  number: number,
  from: Transcript = emptyTranscript,
  keep = 0,
) {
  let transcript = from
  const writer = await harness.createWriter(id, number, () => transcriptToItems(transcript))
  const write = async (...items: TranscriptItem[]) => {
    for (const item of items) {
      transcript = applyItems(transcript, [item])
      writer.append(item)
    }
    // Appending never waits; a token's time passes.
    await new Promise((resolve) => setTimeout(resolve, 0))
  }
  await write(attempt(number, keep))
  return { writer, write, transcript: () => transcript }
}

/** Reads until it fits; every update must add up to the text it leads to. */
async function readUntil(
  harness: TranscriptHarness,
  id: string,
  fits: (transcript: Transcript) => boolean,
): Promise<Transcript> {
  const stop = new AbortController()
  const timer = setTimeout(() => stop.abort(), PATIENCE_MS)
  let seen = ''
  try {
    for await (const { transcript, appended, rewritten } of harness.read(id, stop.signal)) {
      seen = rewritten ? transcriptText(transcript) : seen + appended
      expectSame('what updates add up to', seen, transcriptText(transcript))
      if (fits(transcript)) return transcript
    }
  } finally {
    clearTimeout(timer)
    stop.abort()
  }
  throw new AiDbError('TIMEOUT', `A reader ended with '${seen}' and missed the rest.`)
}
