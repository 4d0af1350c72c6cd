package ort

import (
	"context"
	"errors"
)

// Ensure finds the library, and installs it where none is found and c allows it.
func Ensure(ctx context.Context, c SetupConfig) (Library, error) {
	lib, err := Find(c)
	var missing *NotFoundError
	if err == nil || !c.Install || !errors.As(err, &missing) {
		return lib, err
	}
	return Install(ctx, c)
}

// Install installs.
func Install(ctx context.Context, c SetupConfig) (Library, error) {
	return Library{}, errors.New("not yet")
}
