/**
 * What examples/existing-drizzle-app imports by the package's name, for type checks before there is a
 * build. At run time the test installs the built package beside it.
 */
/* eslint-disable @typescript-eslint/consistent-type-imports -- an ambient module has no other way */
declare module 'electric-ai-db/schema' {
  type Schema = typeof import('../../src/schema.js')
  export const sessions: Schema['sessions']
  export const messages: Schema['messages']
  export const generations: Schema['generations']
}

declare module 'electric-ai-db/server' {
  type Server = typeof import('../../src/server.js')
  export const createSession: Server['createSession']
  export const sendMessage: Server['sendMessage']
}
