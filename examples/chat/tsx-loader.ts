/** The arguments that make Node load TypeScript, for a child process: whoever starts it may have none to hand on. */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

export const TSX: readonly string[] = [
  '--import',
  pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href,
]
