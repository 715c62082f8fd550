/** The chat example's tools: arithmetic that never evaluates code, the clock of a place, the lookups. */
import { describe, expect, it } from 'vitest'
import { demoTools, evaluate } from '../../examples/chat/tools.js'

const tools = demoTools({ now: () => new Date('2026-01-01T03:04:05Z') })

function call(name: string, args: Record<string, unknown>): unknown {
  const tool = tools.find((one) => one.name === name)
  if (tool?.execute === undefined) throw new Error(`no tool ${name}`)
  return (tool.execute as (input: unknown) => unknown)(args)
}

describe('calculate', () => {
  it.each<[string, number]>([
    ['17*23', 391],
    ['12 / 4 + 3', 6],
    ['2 + 3 * 4', 14],
    ['(2 + 3) * 4', 20],
    ['10 - 4 - 3', 3],
    ['2 ^ 3 ^ 2', 512],
    ['-2 ^ 2', -4],
    ['2 ^ -1', 0.5],
    ['17 % 5', 2],
    ['5 - -3', 8],
    ['.5 + 1.25', 1.75],
    ['0.1 + 0.2', 0.3],
    ['6 × 7 ÷ 2', 21],
    ['1234567 * 1234567', 1524155677489],
  ])('%s = %d', (expression, result) => {
    expect(call('calculate', { expression })).toEqual({ expression, result })
  })

  it.each<[string, string]>([
    ['1 / 0', 'divides by zero'],
    ['5 % 0', 'divides by zero'],
    ['(1 + 2', 'closing parenthesis is missing'],
    ['1 + 2)', '")" is not expected'],
    ['1 +', 'ends too early'],
    ['', 'ends too early'],
    ['2 3', '"3" is not expected'],
    ['process.exit(1)', '"p" is not a number'],
    ['9 ^ 9 ^ 9', 'not a finite number'],
    ['1.2.3', '".3" is not expected'],
  ])('refuses %j: %s', (expression, reason) => {
    expect(() => evaluate(expression)).toThrow(reason)
  })
})

describe('delete_file', () => {
  it('asks people first, and deletes nothing', () => {
    expect(tools.find((tool) => tool.name === 'delete_file')?.needsApproval).toBe(true)
    expect(call('delete_file', { file: 'package.json' })).toEqual({ deleted: 'package.json' })
  })
})

describe('current_time', () => {
  it.each<[string, string, string, string, string]>([
    ['Tokyo', 'Asia/Tokyo', '12:04', 'Thursday', '2026-01-01'],
    ['New York', 'America/New_York', '22:04', 'Wednesday', '2025-12-31'],
    ['europe/paris', 'Europe/Paris', '04:04', 'Thursday', '2026-01-01'],
    ['Beijing', 'Asia/Shanghai', '11:04', 'Thursday', '2026-01-01'],
    ['Mumbai', 'Asia/Calcutta', '08:34', 'Thursday', '2026-01-01'],
    ['San Francisco', 'America/Los_Angeles', '19:04', 'Wednesday', '2025-12-31'],
    ['Washington, D.C.', 'America/New_York', '22:04', 'Wednesday', '2025-12-31'],
    ['London, UK', 'Europe/London', '03:04', 'Thursday', '2026-01-01'],
    ['UTC', 'UTC', '03:04', 'Thursday', '2026-01-01'],
  ])('%s is in %s at %s', (place, timeZone, time, weekday, date) => {
    expect(call('current_time', { place })).toEqual({ place, timeZone, time, weekday, date })
  })

  it('writes midnight as 00', () => {
    const [, midnight] = demoTools({ now: () => new Date('2026-01-01T00:00:00Z') })
    const execute = midnight?.execute as (input: unknown) => unknown
    expect(execute({ place: 'UTC' })).toMatchObject({ time: '00:00' })
  })

  it('names the place it does not know, and the cure', () => {
    expect(() => call('current_time', { place: 'Atlantis' })).toThrow(/"Atlantis".*Europe\/Paris/)
    expect(() => call('current_time', { place: '' })).toThrow('No time zone')
  })
})

describe('lookup', () => {
  it('finds an entry whatever its case and article', () => {
    for (const topic of ['Eiffel Tower', 'the eiffel tower', ' EIFFEL TOWER ']) {
      expect(call('lookup', { topic })).toMatchObject({ found: true, topic })
    }
    expect(call('lookup', { topic: 'PostgreSQL' })).toMatchObject({ found: true })
  })

  it('says that it found nothing, for a name every object has too', () => {
    expect(call('lookup', { topic: 'Zaphod' })).toEqual({ found: false, topic: 'Zaphod' })
    expect(call('lookup', { topic: 'constructor' })).toMatchObject({ found: false })
    expect(() => call('current_time', { place: 'constructor' })).toThrow('No time zone')
  })
})
