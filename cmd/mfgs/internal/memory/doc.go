// Package memory has a program say so when it gets no memory.
package memory
