/** A stream's transcript as it stands now, without waiting for more: what a worker that takes over reads. */
import { generationStreamUrl, type StreamAddress } from './stream-address.js'
import { applyItems, emptyTranscript, type Transcript, type TranscriptItem } from './transcript.js'

export interface ReadOnceOptions extends StreamAddress {
  headers?: Readonly<Record<string, string>>
  fetch?: typeof fetch
  signal?: AbortSignal
}

/** @returns undefined when the stream is missing or cannot be read: live text is a hint, never a condition. */
export async function readTranscriptOnce(
  options: ReadOnceOptions,
): Promise<Transcript | undefined> {
  const request = options.fetch ?? fetch
  let transcript = emptyTranscript
  let offset = '-1'
  try {
    for (;;) {
      const response = await request(
        `${generationStreamUrl(options)}?offset=${encodeURIComponent(offset)}`,
        {
          headers: { ...options.headers },
          signal: options.signal ?? AbortSignal.timeout(5_000),
        },
      )
      if (!response.ok) return undefined
      transcript = applyItems(transcript, (await response.json()) as TranscriptItem[])
      const next = response.headers.get('Stream-Next-Offset')
      if (next === null || next === offset || response.headers.has('Stream-Up-To-Date'))
        return transcript
      offset = next
    }
  } catch {
    return undefined
  }
}
