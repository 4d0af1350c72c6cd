// Package files opens the files that a program is given, and writes those that
// it leaves: the one place for what both must not do.
//
// [Open] opens regular files only. A pipe without a writer would keep its reader
// waiting for ever, and a device may never end.
//
// A [Draft] writes files that are there as a whole or not at all: in a hidden
// folder beside their place, synced, then renamed. What a killed process has left
// of one is removed by the next draft in the same folder. A [Growing] file is the other way: what a
// killed process has written of it, the next goes on from.
package files
