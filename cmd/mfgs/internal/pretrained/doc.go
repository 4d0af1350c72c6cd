// Package pretrained reads the preprocessing and class names in the files beside a model.
//
//  1. [Open] reads a folder written by transformers' save_pretrained, Optimum or timm. [Beside] does the
//     same for the folder of a model file.
//  2. [Suggest] suggests a preprocessing where no file has one, with the reason.
//  3. [Classes] and [Preprocessing] read single files in any of the supported forms.
package pretrained
