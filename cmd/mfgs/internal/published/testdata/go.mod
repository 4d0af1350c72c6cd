// A module of its own, with no packages: programs that use mfgs do not download it.
module github.com/mfgs/mfgs/cmd/mfgs/internal/published/testdata

go 1.26.0
