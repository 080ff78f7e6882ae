// Package render turns a template and the objects it watches into one output:
// the configuration, its files, and the plan that declares both.
//
// It promises that equal inputs give equal bytes. Templates are Go templates
// with the part of sprig's functions that reads no clock, environment, network
// or randomness; lists of objects are sorted, maps are walked in order of their
// keys. It promises as well that nothing is rendered from half an input: every
// watched kind has synced, or its absence is an error that names it. Fetched
// documents are handed in as texts: a render waits for no network.
//
// A render makes anew only what other inputs ask for: texts of snippets are kept
// with what they were made from (memory.go), and what a snippet does besides giving
// a text is noticed (frames.go, dicts.go).
//
// An error names the template, its line, the expression and the watched object
// that was being walked. It never quotes what a watched Secret holds.
//
// Its limits: the names of files are fixed by the template object, those of
// certificates apart, and a template that would run longer than
// Timeout or write more than the agents accept is refused.
package render
