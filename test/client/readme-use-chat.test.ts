/** The README's `useChat` example compiles against the packages as they are installed. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

test('the README’s useChat example fits useChat', async () => {
  const readme = await readFile('README.md', 'utf8')
  const code = /```tsx\n([^]*?useChat[^]*?)```/.exec(readme)![1]!
  const file = resolve('test/client/readme-use-chat-example.tsx')
  const entry = `'${resolve('src/client.ts')}'`
  const text = code.replace(`'electric-ai-db/client'`, entry)
  expect(text).toContain(entry)
  const { config } = ts.readConfigFile('tsconfig.json', (path) => ts.sys.readFile(path)) as {
    config: unknown
  }
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, process.cwd())
  const settings = {
    ...options,
    noEmit: true,
    jsx: ts.JsxEmit.ReactJSX,
    allowImportingTsExtensions: true,
  }
  const host = ts.createCompilerHost(settings)
  const { getSourceFile, fileExists, readFile: read } = host
  host.fileExists = (path) => path === file || fileExists(path)
  host.readFile = (path) => (path === file ? text : read(path))
  host.getSourceFile = (path, language, ...more) =>
    path === file
      ? ts.createSourceFile(path, text, language)
      : getSourceFile(path, language, ...more)
  const program = ts.createProgram([file], settings, host)
  const source = program.getSourceFile(file)!
  const errors = [
    ...program.getSyntacticDiagnostics(source),
    ...program.getSemanticDiagnostics(source),
  ]
  expect(
    errors.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
  ).toEqual([])
}, 120_000)
