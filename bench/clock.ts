/**
 * One clock for all processes of a machine: the system's steady clock, which every process reads alike.
 * (`performance.timeOrigin` is taken from the wall clock when a process starts, so it differs between
 * processes by as much as that was set meanwhile.)
 */

/** Milliseconds since some moment that is the same for all processes. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
