//go:build !linux

package main

// limitHeap does nothing on systems without a limit on address space.
func limitHeap() {}
