// Package lint checks the source tree and its documents by tests that read files and run nothing of the program: the
// table of imports, the length of functions and lines, the stable types, the size of a download, the links of documents
// and the sources of quoted figures. make lint runs it, with -count=1 since go test does not see changes of files
// outside of this module; make test does not.
package lint
