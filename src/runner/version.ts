/** The package's version, as registered in `workers`; the test of the package compares it with package.json. */
export const VERSION = '0.1.0'
