// Package lint holds what the tree is to look like, as tests that read it and run nothing: which package may import
// which, the shape of functions and files, which types promise to stay, what a download holds, where links of documents lead
// and which source a quoted figure has. make lint runs it, and make test does not.
package lint
