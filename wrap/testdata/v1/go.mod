// A module of its own, with no packages: programs that use mfgs do not download it.
module github.com/mfgs/mfgs/wrap/testdata/v1

go 1.26.0
