/** Batches: together under load, alone when idle, and nobody's failure is another's. */
import { expect, test } from 'vitest'
import { AiDbError } from '../../src/errors.js'
import { deferred } from '../../src/internal/abort.js'
import { batched, type BatchedOptions } from '../../src/internal/batched.js'

const unreachable = new AiDbError('DATABASE_UNREACHABLE', 'The database is away. Wait.')

/** Doubles numbers, and writes down how. */
function doubler(options: Partial<BatchedOptions<number, number>> = {}) {
  const done: (number | readonly number[])[] = []
  const run = batched<number, number>({
    together: (items) => {
      done.push([...items])
      return options.together?.(items) ?? Promise.resolve(items.map((n) => n * 2))
    },
    alone: (item) => {
      done.push(item)
      return options.alone?.(item) ?? Promise.resolve(item * 2)
    },
    ...(options.most !== undefined && { most: options.most }),
    waitMs: options.waitMs ?? 60_000,
  })
  return { run, done }
}

test('what is asked for alone is done alone', async () => {
  const { run, done } = doubler()
  expect(await run(1)).toBe(2)
  expect(await run(2)).toBe(4)
  expect(done).toEqual([1, 2])
})

test('what is asked for at one moment is done together, and each gets its own result', async () => {
  const { run, done } = doubler({ most: 2 })
  expect(await Promise.all([1, 2, 3].map(run))).toEqual([2, 4, 6])
  expect(done).toEqual([[1, 2], 3])
})

test('what comes while something is under way waits for its end, then goes together', async () => {
  const first = deferred<number>()
  const { run, done } = doubler({ alone: () => first.promise })
  const one = run(1)
  await new Promise(setImmediate)
  const others = [run(2), run(3)]
  await new Promise(setImmediate)
  expect(done).toEqual([1])
  first.resolve(2)
  expect(await Promise.all([one, ...others])).toEqual([2, 4, 6])
  expect(done).toEqual([1, [2, 3]])
})

test('one that hangs holds the others up for waitMs only', async () => {
  const { run, done } = doubler({ alone: () => new Promise(() => undefined), waitMs: 1 })
  void run(1)
  await new Promise(setImmediate)
  expect(await Promise.all([run(2), run(3)])).toEqual([4, 6])
  expect(done).toEqual([1, [2, 3]])
})

test('what a batch leaves out is done alone, and fails alone', async () => {
  const fenced = new Error('fenced')
  const { run, done } = doubler({
    together: (items) => Promise.resolve(items.map((n) => (n === 2 ? undefined : n * 2))),
    alone: () => Promise.reject(fenced),
  })
  expect(await Promise.allSettled([1, 2, 3].map(run))).toEqual([
    { status: 'fulfilled', value: 2 },
    { status: 'rejected', reason: fenced },
    { status: 'fulfilled', value: 6 },
  ])
  expect(done).toEqual([[1, 2, 3], 2])
})

test('a batch that fails is done one by one', async () => {
  const { run, done } = doubler({ together: () => Promise.reject(new Error('one of them')) })
  expect(await Promise.all([1, 2].map(run))).toEqual([2, 4])
  expect(done).toEqual([[1, 2], 1, 2])
})

test('a batch whose answer was lost is not done again: all of it is in doubt', async () => {
  const { run, done } = doubler({ together: () => Promise.reject(unreachable) })
  expect(await Promise.allSettled([1, 2].map(run))).toEqual([
    { status: 'rejected', reason: unreachable },
    { status: 'rejected', reason: unreachable },
  ])
  expect(done).toEqual([[1, 2]])
})
