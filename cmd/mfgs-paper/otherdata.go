package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/files"
)

// textNetwork is the network on texts of the documentation, whose data ship with it.
func (l *lab) textNetwork(dir string) (scoreNetwork, error) {
	file := func(name string) string { return filepath.Join(l.examples, "distilbert", name) }
	letters := filepath.Join(dir, "letters.jsonl")
	h := scoreNetwork{
		name: textName, seeds: []int{0}, untuned: true,
		set: &benchmark{
			name: textName, train: file("train.jsonl"), val: file("val.jsonl"), test: file("test.jsonl"),
			network: func(string, int) string { return file("model.onnx") },
		},
		sets: []oodSet{
			{name: romance, spec: file("romance.jsonl")}, {name: otherLanguages, spec: file("others.jsonl")},
			{name: randomLetters, spec: letters},
		},
	}
	return h, writeRandomLetters(letters, h.set.test)
}

// Tokens of the letters of the network on texts, as in its make.py. The first and the last token of a text are others.
const firstLetter, allLetters = 4, 31

// writeRandomLetters writes texts of random letters, as long as those of a file of JSON lines.
func writeRandomLetters(path, like string) error {
	const most = 16 << 20
	data, err := files.Read(like, most)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 0))
	var out bytes.Buffer
	for line := range strings.Lines(string(data)) {
		var text struct {
			Tokens []int `json:"input_ids"`
			Mask   []int `json:"attention_mask"`
		}
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			return err
		}
		for i := range text.Tokens[1 : len(text.Tokens)-1] {
			text.Tokens[1+i] = firstLetter + rng.IntN(allLetters)
		}
		written, err := json.Marshal(text)
		if err != nil {
			return err
		}
		out.Write(append(written, '\n'))
	}
	return images.WriteFile(path, out.Bytes())
}

// tableNetwork is the logistic regression on rows of the documentation, whose data ship with it.
func (l *lab) tableNetwork() scoreNetwork {
	file := func(name string) string { return filepath.Join(l.examples, "sklearn", name) }
	h := scoreNetwork{
		name: tableName, seeds: []int{0}, untuned: true, sigmoid: true,
		set: &benchmark{
			name: tableName, train: file("train.csv"), val: file("val.csv"), test: file("test.csv"),
			network: func(string, int) string { return file("model.onnx") },
		},
	}
	for _, name := range []string{slipped, sentinel, zero} {
		h.sets = append(h.sets, oodSet{name: name, spec: file(name + ".csv")})
	}
	return h
}
