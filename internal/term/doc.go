// Package term is how Baton behaves towards a terminal, and towards what is none.
//
// What agents, files and people say is text, never an order to a terminal: Clean and everything that is written through
// a Screen replace control characters by visible ones. Colours and the line that shows progress exist only on a terminal
// that can show them; anywhere else the same words come out plain.
package term
