package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// showsColours asks a console to understand escape sequences and reports whether it does: before Windows 10 they
// do not.
func showsColours(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
