package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Random letters have the lengths of the texts and their first and last tokens, and no labels.
func TestRandomLettersHaveTheLengthsOfTheTexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	like, path := filepath.Join(dir, "like.jsonl"), filepath.Join(dir, "letters.jsonl")
	text := `{"text":"ab","input_ids":[1,7,8,2],"attention_mask":[1,1,1,1],"label":3}` + "\n" +
		`{"text":"","input_ids":[1,2],"attention_mask":[1,1],"label":0}` + "\n"
	if err := os.WriteFile(like, []byte(strings.Repeat(text, 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeRandomLetters(path, like); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var seen []int
	for i, line := range slices.Collect(strings.Lines(string(written))) {
		var got map[string][]int
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		tokens, want := got["input_ids"], 4-2*(i%2)
		long := len(tokens) == want && len(got["attention_mask"]) == want
		if len(got) != 2 || !long || tokens[0] != 1 || tokens[want-1] != 2 {
			t.Fatalf("line %d is %s", i, line)
		}
		seen = append(seen, tokens[1:want-1]...)
	}
	low, high := slices.Min(seen), slices.Max(seen)
	if low < firstLetter || high >= firstLetter+allLetters || low == high {
		t.Errorf("letters are %d to %d", low, high)
	}
}
