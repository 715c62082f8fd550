/** What the production processes read from their environment; a missing variable is named, all at once. */

export interface ProductionEnvironment {
  databaseUrl: string
  electricUrl: string
  electricSecret: string
  streamsUrl: string
  port: number
}

const REQUIRED = {
  DATABASE_URL: 'the Postgres of the tables',
  ELECTRIC_URL: 'the origin of Electric',
  ELECTRIC_SECRET: 'the secret Electric was started with',
  STREAMS_URL: 'the origin of the Durable Streams server',
} as const

export function readEnvironment(env: NodeJS.ProcessEnv = process.env): ProductionEnvironment {
  const missing = Object.entries(REQUIRED).filter(([name]) => !env[name])
  if (missing.length > 0) {
    const lines = missing.map(([name, meaning]) => `  ${name}: ${meaning}`)
    throw new Error(`Set these variables (see .env.example):\n${lines.join('\n')}`)
  }
  const port = Number(env.PORT || 3000)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new Error(`PORT is ${JSON.stringify(env.PORT)}. Give a port number, such as 3000.`)
  }
  return {
    databaseUrl: env.DATABASE_URL!,
    electricUrl: env.ELECTRIC_URL!,
    electricSecret: env.ELECTRIC_SECRET!,
    streamsUrl: env.STREAMS_URL!,
    port,
  }
}
