#!/usr/bin/env node
/** The CLI: `electric-ai-db <command>`. One file a command. */
import { toError } from '../errors.js'
import { nearest } from '../internal/options.js'

const commands: Readonly<
  Record<string, { about: string; load: () => Promise<(argv: string[]) => Promise<number>> }>
> = {
  migrate: {
    about: 'bring a database up to this version: --url, --schema, --host-tables',
    load: async () => (await import('./migrate.js')).migrateCommand,
  },
  dev: {
    about: 'start an embedded Postgres and stream server, for development only',
    load: async () => (await import('./dev.js')).dev,
  },
}

async function main([name, ...argv]: string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    console.log(usage())
    return name === undefined ? 2 : 0
  }
  const command = commands[name]
  if (!command) {
    const near = nearest(name, Object.keys(commands))
    console.error(
      `Unknown command '${name}'${near ? `; did you mean '${near}'?` : '.'}\n\n${usage()}`,
    )
    return 2
  }
  return (await command.load())(argv)
}

function usage(): string {
  const lines = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(8)} ${about}`)
  return `Usage: electric-ai-db <command> [options]\n\n${lines.join('\n')}`
}

main(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error: unknown) => {
    console.error(toError(error).message)
    process.exitCode = 1
  },
)
