package wrap

import "github.com/mfgs/mfgs/featurize"

// texts fills the outputs of texts.
func (p *Predictor) texts(out []Tensor, texts []featurize.Text) {
	longest := 1
	for i := range texts {
		longest = max(longest, len(texts[i].Symbols))
	}
	shape := []int64{int64(len(texts)), int64(longest)}
	symbols, probabilities := make([]string, len(texts)*longest), make([]float32, len(texts)*longest)
	for i := range texts {
		for j, s := range texts[i].Symbols {
			symbols[i*longest+j] = p.decoding.Symbol(s)
		}
		copy(probabilities[i*longest:], texts[i].Probabilities)
	}
	first := len(p.outputs) - textOutputs
	out[0] = Tensor{Name: p.outputs[first].Name, Shape: shape, Data: symbols}
	out[1] = Tensor{Name: p.outputs[first+1].Name, Shape: shape, Data: probabilities}
}

// decode sets the text or tags of a prediction from the i-th rows of the outputs of these.
func (p *Predictor) decode(one *Prediction, texts []Tensor, i int) {
	width := int(texts[0].Shape[1])
	symbols, probabilities := row(texts[0].Data.([]string), i, width), row(texts[1].Data.([]float32), i, width)
	if p.decoding.Tags() {
		one.Tags = []*Tag{}
		for j, s := range symbols {
			if s != "" {
				for len(one.Tags) < j {
					one.Tags = append(one.Tags, nil)
				}
				one.Tags = append(one.Tags, &Tag{s, float64(probabilities[j])})
			}
		}
		return
	}
	text := ""
	one.Characters = []Character{}
	for j, s := range symbols {
		if s == "" {
			break
		}
		text += s
		one.Characters = append(one.Characters, Character{s, float64(probabilities[j])})
	}
	one.Text = &text
}
