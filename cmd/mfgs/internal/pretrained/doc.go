// Package pretrained finds out what is written beside a model: how images become its input, and
// what its classes are called.
//
//  1. [Open] reads a folder as transformers' save_pretrained, Optimum and timm write it, and says
//     what it takes from which file. [Beside] does for a model file.
//  2. [Suggest] says what preprocessing a model seems to want where nothing is written, and why.
//  3. [Classes] and [Preprocessing] read single files, by whatever program they are.
package pretrained
