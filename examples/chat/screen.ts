/**
 * The terminal: the answer on stdout, everything else on stderr.
 *
 * The progress line is there when stderr is a terminal and is rewritten in place. When stdout is the same
 * terminal it stands on the row below the text, so the cursor has to find its way back into the text: the
 * column is counted here. Nothing of it ever goes to stdout.
 */

const ERASE_ROW = '\r\x1b[2K'
const ERASE_BELOW = '\x1b[J'
const UP = '\x1b[1A'
const toColumn = (column: number) => `\x1b[${column + 1}G`

const WIDE =
  /[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]/u
const NO_WIDTH = /[\p{M}\u200b-\u200d]/u

type Output = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>

export class Screen {
  readonly #out: Output
  readonly #err: Output
  /** Both are terminals, and then the same one. */
  readonly #shared: boolean
  #column = 0
  #progress = ''
  #drawn = false
  #held: string[] = []

  constructor(out: Output = process.stdout, err: Output = process.stderr) {
    this.#out = out
    this.#err = err
    this.#shared = out.isTTY === true && err.isTTY === true
  }

  /** A piece of the answer. */
  text(piece: string): void {
    if (piece === '') return
    this.#erase()
    this.#out.write(piece)
    this.#advance(piece)
    if (this.#column === 0) this.#tellHeld()
    this.#draw()
  }

  /** Begins a new line, unless there is nothing on this one. */
  endLine(): void {
    if (this.#column > 0) this.text('\n')
  }

  /** Something to know, on a line of its own: in a shared terminal not before the sentence has ended. */
  note(line: string): void {
    if (this.#shared && this.#column > 0) return void this.#held.push(line)
    this.#erase()
    this.#err.write(`${line}\n`)
    this.#draw()
  }

  /** Replaces the progress line; '' removes it. */
  progress(line: string): void {
    if (this.#err.isTTY !== true) return
    this.#erase()
    this.#progress = line.slice(0, Math.max(0, (this.#err.columns || 80) - 1))
    this.#draw()
  }

  #tellHeld(): void {
    for (const line of this.#held.splice(0)) this.#err.write(`${line}\n`)
  }

  #erase(): void {
    if (this.#drawn) this.#err.write(this.#shared ? ERASE_BELOW : ERASE_ROW)
    this.#drawn = false
  }

  #draw(): void {
    // In the last column the terminal is about to wrap, and moving would make it forget that.
    if (this.#progress === '' || (this.#shared && this.#column >= this.#columns)) return
    const back = this.#shared ? UP + toColumn(this.#column) : ''
    this.#err.write(`${this.#shared ? '\n' : ''}\r${this.#progress}${back}`)
    this.#drawn = true
  }

  get #columns(): number {
    return this.#out.columns || 80
  }

  #advance(piece: string): void {
    for (const character of piece) {
      const width = NO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1
      if (character === '\n') this.#column = 0
      else this.#column = this.#column + width > this.#columns ? width : this.#column + width
    }
  }
}
