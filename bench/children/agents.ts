/** The agents of the bench's workers, each served under its kind's name. */
import { createStore, defineAgent, type Agent } from '../../src/server.js'
import { continueFrom, messageText, scriptedAdapter } from '../../src/testing.js'
import { now } from '../clock.js'
import type { AgentKind } from '../messages.js'
import type { BenchDb } from '../world.js'
import { ClockedAdapter } from './clocked-adapter.js'
import { tell } from './parent.js'

interface AgentSetting {
  db: BenchDb
  tokensPerSecond: number | undefined
}

export function benchAgent(kind: AgentKind, setting: AgentSetting): Agent {
  return KINDS[kind](setting)
}

const KINDS: Record<AgentKind, (setting: AgentSetting) => Agent> = {
  bare,
  timed,
  blocking,
  clocked,
  prose,
}

/** Tells when its run begins, and settles. */
function bare({ db }: AgentSetting): Agent {
  const store = createStore(db)
  return {
    name: 'bare',
    maxAttempts: 5,
    run: async ({ id, attempt, inbox }) => {
      tell({ type: 'begun', key: inbox[0] ?? '', at: now() })
      const message = { content: 'ok', parts: [] }
      await store.settleGeneration({ generationId: id, attempt, status: 'completed', message })
      tell({ type: 'finished' })
    },
  }
}

/** Tells when its model is called. */
function timed(): Agent {
  const adapter = scriptedAdapter({
    respond: ({ messages }) => {
      tell({ type: 'begun', key: messageText(messages.at(-1)!), at: now() })
      return { text: 'ok' }
    },
  })
  return defineAgent({ name: 'timed', instructions: 'Answer.', adapter })
}

/** Runs until it is stopped. */
function blocking(): Agent {
  return {
    name: 'blocking',
    maxAttempts: 5,
    run: (_generation, { signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true })),
  }
}

/** Streams tokens that carry the time they were yielded at. */
function clocked({ tokensPerSecond = 50 }: AgentSetting): Agent {
  const adapter = new ClockedAdapter(tokensPerSecond)
  return defineAgent({ name: 'clocked', instructions: 'Count.', adapter })
}

/** Tells a long story and goes on where it was cut. */
function prose({ tokensPerSecond = 50 }: AgentSetting): Agent {
  const story = Array.from({ length: 400 }, (_, word) => `word${word}`).join(' ')
  const adapter = scriptedAdapter({
    tokensPerSecond,
    respond: ({ messages }) => ({ text: continueFrom(story, messages) }),
  })
  return defineAgent({ name: 'prose', instructions: 'Tell.', adapter, onInterrupted: 'continue' })
}
