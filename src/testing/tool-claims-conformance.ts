/**
 * What a claim of tool calls (`ClaimToolCall`) has to do so that any number of tool execution effects compete safely, as
 * cases that any test runner can run:
 *
 *     for (const { name, run } of toolClaimsConformance(harness)) test(name, run)
 *
 * `settle` and `release` are optional in a claim; a claim without them is not asked for them. Not tested: how a holder
 * hears that its claim is lost before it settles, and how soon a dead holder's calls are free.
 */
import type { ClaimToolCall, ToolClaim } from '../contract/tool-claims.js'
import { expectCode, expectSame, type ConformanceCase } from './conformance-case.js'

export interface ToolClaimsHarness {
  /** The claim of one more consumer, as another process would have it. */
  createConsumer(): Promise<ClaimToolCall>
  /** So many pending calls that no other case uses. @returns their ids */
  createCalls(count: number): Promise<string[]>
  /** The row as it is stored. */
  readCall(id: string): Promise<{ status: string; result?: unknown; error?: string | null }>
  /** Takes the call from its holder, as recovery does with a dead one's. Absent: claims of this backend never end. */
  takeOver?(id: string): Promise<void>
}

type Case = (harness: ToolClaimsHarness) => Promise<void>

export function toolClaimsConformance(harness: ToolClaimsHarness): ConformanceCase[] {
  const all = harness.takeOver ? { ...claimCases, ...lossCases } : claimCases
  return Object.entries(all).map(([name, one]) => ({ name, run: () => one(harness) }))
}

const claimCases: Readonly<Record<string, Case>> = {
  'a pending call is claimed, as attempt 1, and says that it is executing': async (harness) => {
    const { claim, id } = await claimed(harness)
    expectSame('the attempt', claim.attempt, 1)
    expectSame('the status', (await harness.readCall(id)).status, 'executing')
  },
  'a call that somebody holds is not claimed again': async (harness) => {
    const { id } = await claimed(harness)
    const other = await harness.createConsumer()
    expectSame('the second claim', Boolean(await other({ id })), false)
  },
  'of many claims of a call at once, one wins': async (harness) => {
    const [id] = await harness.createCalls(1)
    const consumers = await Promise.all(Array.from({ length: 6 }, () => harness.createConsumer()))
    const claims = await Promise.all(consumers.map((claim) => claim({ id: id! })))
    expectSame('the number of winners', claims.filter(isClaim).length, 1)
  },
  'consumers that compete for many calls have each of them once': async (harness) => {
    const ids = await harness.createCalls(40)
    const consumers = await Promise.all(Array.from({ length: 3 }, () => harness.createConsumer()))
    const won: string[] = []
    const claimAll = async (claim: ClaimToolCall) => {
      const tried = ids.map(async (id) => isClaim(await claim({ id })) && won.push(id))
      await Promise.all(tried)
    }
    await Promise.all(consumers.map(claimAll))
    expectSame('the calls that were won', won.toSorted(), ids.toSorted())
  },
  'a settled call has its result, and is claimed no more': async (harness) => {
    const { claim, id } = await claimed(harness)
    if (!claim.settle) return
    await claim.settle({ status: 'completed', result: { sum: 3 } })
    const { status, result } = await harness.readCall(id)
    expectSame('the row', { status, result }, { status: 'completed', result: { sum: 3 } })
    const other = await harness.createConsumer()
    expectSame('a claim of what is settled', await other({ id }), false)
  },
  'a call that failed says why': async (harness) => {
    const { claim, id } = await claimed(harness)
    if (!claim.settle) return
    await claim.settle({ status: 'failed', error: 'no such table' })
    const { status, error } = await harness.readCall(id)
    expectSame('the row', { status, error }, { status: 'failed', error: 'no such table' })
  },
  'a call is settled once: what comes later is FENCED and changes nothing': async (harness) => {
    const { claim, id } = await claimed(harness)
    if (!claim.settle) return
    await claim.settle({ status: 'completed', result: 1 })
    const again = claim.settle({ status: 'failed', error: 'too late' })
    await expectCode('the second settle', again, 'FENCED')
    expectSame('the status', (await harness.readCall(id)).status, 'completed')
  },
  'a call that is given back is another’s to claim': async (harness) => {
    const { claim, id } = await claimed(harness)
    if (!claim.release) return
    await claim.release()
    expectSame('the status', (await harness.readCall(id)).status, 'pending')
    const other = await harness.createConsumer()
    if (!isClaim(await other({ id }))) throw new Error('A released call could not be claimed.')
  },
}

const lossCases: Readonly<Record<string, Case>> = {
  'a holder that lost its call is fenced: the next one’s attempt is higher, its result stands':
    async (harness) => {
      const { claim: first, id } = await claimed(harness)
      await harness.takeOver!(id)
      const second = await (await harness.createConsumer())({ id })
      if (!isClaim(second)) throw new Error('A call whose holder is gone could not be claimed.')
      if (second.attempt <= first.attempt)
        throw new Error(`Expected an attempt above ${first.attempt}, got ${second.attempt}.`)
      if (!first.settle) return
      const late = first.settle({ status: 'completed', result: 'late' })
      await expectCode('what the first one settles', late, 'FENCED')
      await second.settle?.({ status: 'completed', result: 'second' })
      expectSame('the result', (await harness.readCall(id)).result, 'second')
    },
}

const isClaim = (claimed: ToolClaim | false | 'later'): claimed is ToolClaim =>
  typeof claimed === 'object'

async function claimed(harness: ToolClaimsHarness): Promise<{ claim: ToolClaim; id: string }> {
  const [id] = await harness.createCalls(1)
  const claim = await (await harness.createConsumer())({ id: id! })
  if (!isClaim(claim)) throw new Error(`A pending call was not given to its only consumer.`)
  return { claim, id: id! }
}
