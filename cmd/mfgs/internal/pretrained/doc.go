// Package pretrained reads what is stored beside a model: its preprocessing, and the names of its classes.
//
//  1. [Open] reads a folder as transformers' save_pretrained, Optimum and timm write it, and says what it takes
//     from which file. [Beside] does so for a model file.
//  2. [Suggest] guesses the preprocessing of a model without such files, and says why.
//  3. [Classes] and [Preprocessing] read single files, of any of these programs.
package pretrained
