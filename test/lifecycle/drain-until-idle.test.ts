/** `drainUntilIdle`: pure logic, with a source that is a number. */
import { describe, expect, it } from 'vitest'
import { AiDbError } from '../../src/errors.js'
import type { CheckpointContract } from '../../src/contract/lifecycle.js'
import { drainUntilIdle } from '../../src/runner/drain-until-idle.js'

/** A source of numbered items; `arrive` runs once, between the two questions of a round. */
function source(items: number, arrive?: () => void) {
  let read = 0
  let length = items
  return {
    get read() {
      return read
    },
    add: () => (length += 1),
    drain: {
      hasPendingWork: async () => {
        arrive?.()
        arrive = undefined
        return read < length
      },
      runCycle: async () => void (read += 1),
      buildCheckpoint: async () => [{ source: 's', cursor: String(read) }],
    },
  }
}

describe('drainUntilIdle', () => {
  it('runs cycles until nothing is pending', async () => {
    expect(await drainUntilIdle(source(3).drain)).toEqual({ completed: true, cycles: 3 })
    expect(await drainUntilIdle(source(0).drain)).toEqual({ completed: true, cycles: 0 })
  })

  it('is not completed at its limit of cycles, unless the last one was the last', async () => {
    const limited = (items: number) => drainUntilIdle({ ...source(items).drain, maxIterations: 2 })
    expect(await limited(3)).toEqual({ completed: false, cycles: 2 })
    expect(await limited(2)).toEqual({ completed: true, cycles: 2 })
  })

  it('begins no cycle after its time', async () => {
    const spent = drainUntilIdle({ ...source(3).drain, maxDurationMs: 0 })
    expect(await spent).toEqual({ completed: false, cycles: 0 })
  })

  it('begins no cycle once its signal aborted', async () => {
    const items = source(3)
    const stop = new AbortController()
    const runCycle = async () => {
      await items.drain.runCycle()
      stop.abort(new Error('shutdown'))
    }
    const drain = drainUntilIdle({ ...items.drain, runCycle, signal: stop.signal })
    await expect(drain).rejects.toThrow('shutdown')
    expect(items.read).toBe(1)
  })

  it('beats and checkpoints after each cycle, and an error of either ends it', async () => {
    const told: unknown[] = []
    const lifecycle = {
      heartbeat: async () => void told.push('beat'),
      checkpoint: async ([one]: CheckpointContract[]) => void told.push(one!.cursor),
    }
    await drainUntilIdle({ ...source(2).drain, lifecycle })
    expect(told).toEqual(['beat', '1', 'beat', '2'])
    const lost = () => Promise.reject(new AiDbError('FENCED', 'lost'))
    const items = source(3)
    const drain = drainUntilIdle({ ...items.drain, lifecycle: { heartbeat: lost } })
    await expect(drain).rejects.toMatchObject({ code: 'FENCED' })
    expect(items.read).toBe(1)
  })

  it('what arrives while it looks is not behind the checkpoint of an idle source', async () => {
    let upTo = 5
    const told: string[] = []
    await drainUntilIdle({
      hasPendingWork: async () => {
        upTo += 1
        return false
      },
      runCycle: async () => {},
      buildCheckpoint: async () => [{ source: 's', cursor: String(upTo) }],
      lifecycle: { checkpoint: async ([one]) => void told.push(one!.cursor) },
    })
    expect(told).toEqual(['5'])
  })

  it('refuses options it does not know, and limits that are none', async () => {
    const misspelt = { ...source(1).drain, maxIteration: 1 }
    await expect(drainUntilIdle(misspelt)).rejects.toThrow("did you mean 'maxIterations'?")
    await expect(drainUntilIdle({ ...source(1).drain, maxIterations: 0 })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
  })
})
