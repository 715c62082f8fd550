/** `build-page-process.ts <root> <outDir>`: one Vite build, and the end. Started by build-page.ts. */
import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { build } from 'vite'

const [root, outDir] = process.argv.slice(2)
if (root === undefined || outDir === undefined) throw new Error('usage: <root> <outDir>')

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url))

await build({
  root,
  configFile: false,
  logLevel: 'error',
  plugins: [react()],
  resolve: {
    // Outside of this repository the package itself is found under these names.
    alias: [
      { find: /^electric-ai-db\/client$/, replacement: source('client.ts') },
      { find: /^electric-ai-db$/, replacement: source('index.ts') },
    ],
    dedupe: ['react', 'react-dom', '@tanstack/db'],
  },
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2023',
    // Browsers that have light-dark(), so that it stays what it is.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2_000,
  },
})
