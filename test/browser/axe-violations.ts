/** What axe finds wrong with a page as it is now: no rule is left out, best practices are among them. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface AxeResults {
  violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[]
}

/** Motion is off from then on: axe must not see a colour on its way. */
export async function violations(page: Page): Promise<string[]> {
  await page.emulateMedia({ reducedMotion: 'reduce' })
  // As an expression: the page's content security policy refuses a script element, and rightly.
  await page.evaluate(AXE)
  const { violations: found } = (await page.evaluate('axe.run()')) as AxeResults
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n${html}\n${failureSummary}`),
  )
}
