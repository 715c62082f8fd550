/**
 * What the tool primitives infer, and what must not compile: checked by `tsc -p .`, which the typecheck
 * script and the editor run. A `@ts-expect-error` above a line that compiles is an error itself.
 */
import { chat, toolDefinition } from '@tanstack/ai'
import {
  and,
  createCollection,
  eq,
  localOnlyCollectionOptions,
  type Transaction,
} from '@tanstack/db'
import { describe, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import {
  createToolExecutionEffect,
  makeAsyncTool,
  makeDurableTool,
  makeDurableTools,
  waitForToolResult,
  type ChunkContract,
  type GenerationContract,
  type ToolCallContract,
  type ToolImplementations,
} from '../../src/index.js'
import { scriptedAdapter } from '../../src/testing.js'

const searchTool = toolDefinition({
  name: 'searchDatabase',
  description: 'Search the database for relevant documents',
  inputSchema: z.object({ query: z.string() }),
  outputSchema: z.object({ results: z.array(z.string()) }),
})
const analysisTool = toolDefinition({
  name: 'analyzeDocument',
  description: 'Analyze a document',
  inputSchema: z.object({ document: z.string() }),
  outputSchema: z.object({ summary: z.string() }),
})
const tools = [searchTool, analysisTool] as const
const adapter = scriptedAdapter({ turns: [] })

const rowSchema = z.object({
  id: z.string(),
  name: z.string(),
  args: z.unknown(),
  status: z.enum(['pending', 'executing', 'completed', 'failed', 'cancelled']),
  result: z.object({ results: z.array(z.string()) }).optional(),
  error: z.string().optional(),
  generationId: z.string().optional(),
})
type Row = z.output<typeof rowSchema>

/** Never called: its body is there to be compiled. */
function neverRuns(_body: () => void): void {}

const toolCalls = createCollection(
  localOnlyCollectionOptions({ id: 'types', getKey: (row: Row) => row.id, schema: rowSchema }),
)
const plain = createCollection(
  localOnlyCollectionOptions<Row, string>({ id: 'plain', getKey: (row) => row.id }),
)

const settledOptions = {
  isComplete: (row: Row) => row.status === 'completed',
  getResult: (row: Row) => row.result!,
}

describe('makeDurableTool', () => {
  test('types arguments and rows from the tool and the collection', () => {
    neverRuns(() => {
      const durable = makeDurableTool(searchTool, toolCalls, {
        timeout: 60_000,
        transform: (toolCall, generationId) => {
          expectTypeOf(toolCall.args).toEqualTypeOf<{ query: string }>()
          expectTypeOf(toolCall.name).toEqualTypeOf<'searchDatabase'>()
          expectTypeOf(generationId).toEqualTypeOf<string | undefined>()
          return {
            id: toolCall.id,
            name: toolCall.name,
            args: toolCall.args,
            status: 'pending' as const,
            generationId,
          }
        },
        isComplete: (row) => {
          expectTypeOf(row.status).toEqualTypeOf<Row['status']>()
          return row.status === 'completed' || row.status === 'failed'
        },
        getResult: (row): { results: string[] } => {
          if (row.status === 'failed') throw new Error(row.error)
          return row.result!
        },
      })
      expectTypeOf(durable.name).toEqualTypeOf<'searchDatabase'>()
      expectTypeOf<Parameters<typeof durable.execute>[0]>().toEqualTypeOf<{ query: string }>()
      expectTypeOf<Awaited<ReturnType<typeof durable.execute>>>().toEqualTypeOf<{
        results: string[]
      }>()
      void chat({ adapter, tools: [durable], messages: [] })
    })
  })

  test('takes a collection without a schema', () => {
    neverRuns(() => {
      makeDurableTool(searchTool, plain, {
        transform: ({ id, name, args }) => ({ id, name, args, status: 'pending' }),
        ...settledOptions,
      })
    })
  })

  test('refuses a row that is not the collection’s', () => {
    neverRuns(() => {
      makeDurableTool(searchTool, toolCalls, {
        // @ts-expect-error a status the schema does not have
        transform: ({ id, name, args }) => ({ id, name, args, status: 'waiting' }),
        ...settledOptions,
      })
      makeDurableTool(searchTool, toolCalls, {
        // @ts-expect-error the name is missing
        transform: ({ id, args }) => ({ id, args, status: 'pending' }),
        ...settledOptions,
      })
    })
  })

  test('refuses a result that is not the tool’s', () => {
    neverRuns(() => {
      makeDurableTool(analysisTool, toolCalls, {
        transform: ({ id, name, args }) => ({ id, name, args, status: 'pending' }),
        isComplete: () => true,
        // @ts-expect-error analyzeDocument gives a summary
        getResult: (row) => row.result!,
      })
    })
  })

  test('refuses what is no option', () => {
    neverRuns(() => {
      makeDurableTool(searchTool, toolCalls, {
        transform: ({ id, name, args }) => ({ id, name, args, status: 'pending' }),
        ...settledOptions,
        // @ts-expect-error it is called timeout
        timeoutMs: 1,
      })
    })
  })
})

describe('makeDurableTools', () => {
  test('keeps each tool’s types, and tells the calls apart by name', () => {
    neverRuns(() => {
      const durable = makeDurableTools(tools, toolCalls, {
        timeout: 60_000,
        transform: (tc, genId) => {
          expectTypeOf(tc.name).toEqualTypeOf<'searchDatabase' | 'analyzeDocument'>()
          if (tc.name === 'searchDatabase') expectTypeOf(tc.args).toEqualTypeOf<{ query: string }>()
          return { ...tc, status: 'pending', generationId: genId }
        },
        isComplete: (row) => row.status === 'completed' || row.status === 'failed',
        getResult: (row) => (row.status === 'failed' ? Promise.reject(row.error) : row.result),
      })
      expectTypeOf(durable[0].name).toEqualTypeOf<'searchDatabase'>()
      expectTypeOf<Awaited<ReturnType<(typeof durable)[1]['execute']>>>().toEqualTypeOf<{
        summary: string
      }>()
      // @ts-expect-error there are two of them
      void durable[2]
    })
  })
})

describe('makeAsyncTool', () => {
  test('types the immediate result from the tool', () => {
    const imageTool = toolDefinition({
      name: 'generateImage',
      description: 'Generate an image',
      inputSchema: z.object({ prompt: z.string() }),
      outputSchema: z.object({ jobId: z.string(), status: z.literal('queued') }),
    })
    neverRuns(() => {
      const tool = makeAsyncTool(imageTool, toolCalls, {
        transform: (tc, genId) => ({ ...tc, status: 'pending', generationId: genId }),
        getImmediateResult: (row) => ({ jobId: row.id, status: 'queued' }),
      })
      expectTypeOf(tool.execute({ prompt: '' })).resolves.toEqualTypeOf<{
        jobId: string
        status: 'queued'
      }>()
      makeAsyncTool(imageTool, toolCalls, {
        transform: (tc) => ({ ...tc, status: 'pending' }),
        // @ts-expect-error not the status of the schema
        getImmediateResult: (row) => ({ jobId: row.id, status: 'done' }),
      })
    })
  })
})

describe('waitForToolResult', () => {
  test('gives what getResult gives', () => {
    neverRuns(() => {
      const result = waitForToolResult(
        toolCalls,
        'call_1',
        (row) => row.status === 'completed',
        (row) => row.result?.results.length ?? 0,
        { timeout: 1_000, signal: AbortSignal.timeout(1_000) },
      )
      expectTypeOf(result).toEqualTypeOf<Promise<number>>()
    })
  })
})

describe('createToolExecutionEffect', () => {
  const implementations = {
    searchDatabase: async (args: { query: string }) => ({ results: [args.query] }),
    analyzeDocument: async (args: { document: string }) => ({ summary: args.document }),
  }

  test('infers arguments, results and rows', () => {
    neverRuns(() => {
      createToolExecutionEffect({
        query: (q) =>
          q
            .from({ tc: toolCalls })
            .where(({ tc }) => and(eq(tc.status, 'pending'), eq(tc.$synced, true))),
        tools: [searchTool, analysisTool],
        implementations: {
          searchDatabase: async (args, ctx) => {
            expectTypeOf(args).toEqualTypeOf<{ query: string }>()
            expectTypeOf(ctx.signal).toEqualTypeOf<AbortSignal>()
            expectTypeOf(ctx.attempt).toEqualTypeOf<number>()
            expectTypeOf(ctx.toolCallId).toEqualTypeOf<string>()
            expectTypeOf(ctx.row.generationId).toEqualTypeOf<string | undefined>()
            return { results: [args.query] }
          },
          analyzeDocument: (args) => {
            expectTypeOf(args).toEqualTypeOf<{ document: string }>()
            return { summary: args.document }
          },
        },
        onExecuting: (row): Transaction<any> =>
          toolCalls.update(row.id, (draft) => {
            draft.status = 'executing'
          }),
        onComplete: async (row, result) => {
          expectTypeOf(row.status).toEqualTypeOf<Row['status']>()
          expectTypeOf(result).toEqualTypeOf<{ results: string[] } | { summary: string }>()
        },
        onError: async (row, error) => {
          expectTypeOf(row.id).toEqualTypeOf<string>()
          expectTypeOf(error).toEqualTypeOf<Error>()
        },
        onCancelled: (_row, reason) => {
          expectTypeOf(reason).toEqualTypeOf<'by-user' | 'by-timeout' | 'by-error'>()
        },
        claim: async (row) => ({ attempt: row.id.length }),
      })
    })
  })

  test('takes callbacks that are written elsewhere', () => {
    const onComplete = (row: { id: string; generationId?: string | undefined }) => row.generationId
    const claim = async (row: { id: string }) => ({ attempt: row.id.length })
    neverRuns(() => {
      createToolExecutionEffect({
        query: (q) => q.from({ tc: toolCalls }),
        tools,
        implementations,
        onComplete,
        claim,
      })
      createToolExecutionEffect({
        query: (q) => q.from({ tc: toolCalls }),
        tools,
        implementations,
        // @ts-expect-error the rows have no number
        onComplete: (row: { number: number }) => row.number,
      })
    })
  })

  test('needs an implementation of every tool', () => {
    neverRuns(() => {
      createToolExecutionEffect({
        query: (q) => q.from({ tc: toolCalls }),
        tools: [searchTool, analysisTool],
        // @ts-expect-error analyzeDocument is missing
        implementations: { searchDatabase: implementations.searchDatabase },
      })
    })
  })

  test('refuses an implementation of the wrong arguments, result or name', () => {
    neverRuns(() => {
      createToolExecutionEffect({
        query: (q) => q.from({ tc: toolCalls }),
        tools,
        implementations: {
          // @ts-expect-error the argument is a query
          searchDatabase: async (args: { document: string }) => ({ results: [args.document] }),
          analyzeDocument: implementations.analyzeDocument,
        },
      })
      createToolExecutionEffect({
        query: (q) => q.from({ tc: toolCalls }),
        tools,
        implementations: {
          searchDatabase: implementations.searchDatabase,
          // @ts-expect-error the result is a summary
          analyzeDocument: async (args) => ({ results: [args.document] }),
        },
      })
      createToolExecutionEffect({
        query: (q) => q.from({ tc: toolCalls }),
        tools,
        // @ts-expect-error there is no tool of this name
        implementations: { ...implementations, searchWeb: async () => ({ results: [] }) },
      })
    })
  })

  test('refuses rows without the shape of a tool call, takes them mapped by select', () => {
    const jobs = createCollection(
      localOnlyCollectionOptions<
        { jobId: string; tool: string; input: unknown; state: string },
        string
      >({ id: 'jobs', getKey: (row) => row.jobId }),
    )
    neverRuns(() => {
      createToolExecutionEffect({
        // @ts-expect-error rows have none of id, status, name, args
        query: (q) => q.from({ job: jobs }),
        tools: [searchTool],
        implementations: { searchDatabase: implementations.searchDatabase },
      })
      createToolExecutionEffect({
        query: (q) =>
          q.from({ job: jobs }).select(({ job }) => ({
            id: job.jobId,
            status: job.state,
            name: job.tool,
            args: job.input,
          })),
        tools: [searchTool],
        implementations: { searchDatabase: implementations.searchDatabase },
        onComplete: (row) => expectTypeOf(row.id).toEqualTypeOf<string>(),
      })
    })
  })

  test('the map of implementations has a type of its own', () => {
    expectTypeOf<ToolImplementations<typeof tools>>().toHaveProperty('searchDatabase')
    expectTypeOf<keyof ToolImplementations<typeof tools>>().toEqualTypeOf<
      'searchDatabase' | 'analyzeDocument'
    >()
  })
})

test('the shape contracts are the RFC’s', () => {
  expectTypeOf<ToolCallContract>().toEqualTypeOf<{
    id: string
    status: string
    name: string
    args: unknown
  }>()
  expectTypeOf<GenerationContract>().toEqualTypeOf<{ id: string; status: string }>()
  expectTypeOf<ChunkContract>().toExtend<{ id: string; generationId: string; index: number }>()
  expectTypeOf<Row>().toExtend<ToolCallContract>()
})
