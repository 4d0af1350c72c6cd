//go:build !linux

package main

// limitHeap does nothing where address spaces are not limited.
func limitHeap() {}
