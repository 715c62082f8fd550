/** The bench, from a child process's side. The child ends with it. */
import type { ChildConfigs, Note, Order } from '../messages.js'

export function childConfig<Name extends keyof ChildConfigs>(): ChildConfigs[Name] {
  return JSON.parse(process.argv[2] ?? '{}') as ChildConfigs[Name]
}

export function tell(note: Note): void {
  if (process.connected) process.send!(note)
}

/** `leave` runs when the bench says stop; without the bench there is nothing to leave in order. */
export function takeOrders(
  leave: () => Promise<void>,
  onOrder: (order: Order) => void = () => undefined,
): void {
  process.on('disconnect', () => process.exit(0))
  process.on('message', (order: Order) => {
    if (order.type !== 'stop') return onOrder(order)
    void leave().finally(() => process.exit(0))
  })
}
