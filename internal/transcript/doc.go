// Package transcript tells the events of a session to people: as lines on a screen while they happen or later, and as a
// Markdown document.
//
// Both take events in order and hold only what is open: the texts of items that have not ended. Text that an agent said
// in pieces and then as a whole is told once; where the whole differs from its pieces, both are told, and that it is so.
package transcript
