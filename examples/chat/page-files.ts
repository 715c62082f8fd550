/** The built page over HTTP, from memory: assets for ever, as their names change with them; the document anew. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'

/** Answers a GET below `/`; undefined where there is no such file. */
export type PageFiles = (request: Request, actor: string) => Response | undefined

interface PageFile {
  bytes: Buffer
  type: string
  etag: string
  isHashed: boolean
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Nothing from anywhere else, and no script that is not one of these files: the second lock behind the markdown. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

export async function loadPageFiles(directory: string): Promise<PageFiles> {
  const files = await readFiles(directory)
  const document = files.get('/index.html')
  if (document === undefined) throw new Error(`There is no index.html in ${directory}.`)
  return (request, actor) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/') return documentFor(document, actor)
    const file = files.get(pathname)
    if (file === undefined || file === document) return undefined
    return assetFor(file, request)
  }
}

/** It names the actor, so it is this browser's alone. */
function documentFor({ bytes, type }: PageFile, actor: string): Response {
  const html = bytes
    .toString()
    .replace('<meta name="actor" content="" />', `<meta name="actor" content="${actor}" />`)
  return new Response(html, {
    headers: {
      'content-type': type,
      'cache-control': 'private, no-cache',
      'content-security-policy': CONTENT_SECURITY_POLICY,
      'referrer-policy': 'no-referrer', // a chat's link is its key
      'x-content-type-options': 'nosniff',
    },
  })
}

function assetFor({ bytes, type, etag, isHashed }: PageFile, request: Request): Response {
  const headers = {
    'content-type': type,
    'cache-control': isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
    'x-content-type-options': 'nosniff',
    etag,
  }
  if (request.headers.get('if-none-match') === etag) {
    return new Response(null, { status: 304, headers })
  }
  return new Response(new Uint8Array(bytes), { headers })
}

async function readFiles(directory: string): Promise<Map<string, PageFile>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const read = async (path: string): Promise<[string, PageFile]> => {
    const bytes = await readFile(path)
    const name = `/${relative(directory, path).split(sep).join('/')}`
    const type = TYPES[extname(path)] ?? 'application/octet-stream'
    const etag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}"`
    return [name, { bytes, type, etag, isHashed: name.startsWith('/assets/') }]
  }
  return new Map(
    await Promise.all(files.map(({ parentPath, name }) => read(join(parentPath, name)))),
  )
}
