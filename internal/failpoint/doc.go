// Package failpoint lets the crash suite end a process at a named place of the program, as kill -9 would.
//
// Only a build with the tag failpoints holds any of it; in every other build Hit is an empty function that the compiler
// removes. The places are chosen by the environment variable BATON_FAILPOINT: a list of name:k, separated by commas, each
// of which ends the process at its k-th pass of that place. BATON_FAILPOINT_DIR names a folder in which every entry
// leaves a file of its name when it fires, so that it fires once and not again in the process that takes the dead one's
// place.
package failpoint
