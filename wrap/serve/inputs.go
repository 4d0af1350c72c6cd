package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// inputsOf turns the body of a request into model inputs. It is a JSON object of the inputs or an image file, alone
// or as the only file of a form. The body itself shows which, since curl sets no type for either.
func inputsOf(p *wrap.Predictor, contentType string, body []byte, memory *reservation) ([]tensor.Tensor, error) {
	kind, parameters, err := mime.ParseMediaType(cmp.Or(contentType, "application/octet-stream"))
	if err != nil {
		return nil, invalid("Content-Type %.70q: %v", contentType, err)
	}
	if kind == "multipart/form-data" {
		if err := memory.add(int64(len(body))); err != nil {
			return nil, err
		}
		if body, err = onlyFile(multipart.NewReader(bytes.NewReader(body), parameters["boundary"])); err != nil {
			return nil, err
		}
	}
	if kind == "application/json" || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		if err := memory.add(int64(len(body)) * bytesJSON); err != nil {
			return nil, err
		}
		inputs, err := p.JSONInputs(body)
		return inputs, asInvalid(err)
	}
	if len(body) == 0 {
		return nil, invalid("the body is empty: send an image, PNG or JPEG, or a JSON object of the model's inputs")
	}
	if !p.TakesImages() {
		return nil, invalid("the model does not take images: send a JSON object of its inputs, such as %s", inputList(p))
	}
	if err := checkImage(body, openSize(p), memory); err != nil {
		return nil, err
	}
	inputs, err := p.ImageInputs(body)
	return inputs, asInvalid(err)
}

// inputList describes the inputs of a model in one line.
func inputList(p *wrap.Predictor) string {
	var all []string
	for _, info := range p.Inputs() {
		all = append(all, fmt.Sprintf("%.70q, %.200s", info.Name, info))
	}
	return strings.Join(all, "; ")
}

// onlyFile returns the file in a form.
func onlyFile(form *multipart.Reader) ([]byte, error) {
	var file []byte
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalid("malformed form: %v", err)
		}
		if part.FileName() == "" && part.FormName() != "image" {
			return nil, invalid("the form has a field %.70q: send parameters in the query, and the image as the only file", part.FormName())
		}
		if file != nil {
			return nil, invalid("the form has several files, want one")
		}
		if file, err = io.ReadAll(part); err != nil { // no more than the body
			return nil, invalid("malformed form: %v", err)
		}
		file = slices.Clip(file)
	}
	if file == nil {
		return nil, invalid("the form has no file, want one: the image")
	}
	return file, nil
}

// bytesJSON estimates the memory per byte of a JSON object while it is parsed into tensors. Lists of single digits take
// most: 8 bytes for every two, half as many again while the list grows, and a compact copy of the text.
const bytesJSON = 12

// maxPixels bounds the images of requests.
const maxPixels = 32 << 20

// openSize reports whether the model's input leaves its size open, so that the image decides it.
func openSize(p *wrap.Predictor) bool {
	for _, d := range p.Inputs()[0].Shape[1:] {
		if d.Value <= 0 {
			return true
		}
	}
	return false
}

// checkImage refuses images that are too large, and reserves the memory of others. Decoding reports any other fault of
// the file.
func checkImage(file []byte, openSize bool, memory *reservation) error {
	c, format, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	if c.Width > maxPixels || c.Height > maxPixels || c.Width*c.Height > maxPixels {
		return invalid("an image of %d×%d pixels, want at most %d in all", c.Width, c.Height, maxPixels)
	}
	size := bytesPixel(c.ColorModel)
	if format == "jpeg" && progressive(file) {
		size += 16 // coefficients of 4 bytes, of up to four components
	}
	if openSize {
		size += 3 * 8 // numbers
	}
	return memory.add(int64(c.Width) * int64(c.Height) * size)
}

// bytesPixel estimates the memory per pixel while an image is decoded: the decoder's image, half as much again for
// interlaced rows or converted colours, and three bytes of colour.
func bytesPixel(m color.Model) int64 {
	switch m {
	case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model:
		return 16
	case color.CMYKModel:
		return 12
	}
	return 10
}

// progressive reports whether a JPEG file is progressive, so that its decoder keeps all coefficients.
func progressive(file []byte) bool {
	for at := 2; at+4 <= len(file); {
		marker := file[at+1]
		switch {
		case file[at] != 0xff:
			return false
		case marker == 0xff: // fill
			at++
			continue
		case marker == 0xc2:
			return true
		case marker == 0xda: // start of a scan, after all headers
			return false
		}
		at += 2 + int(file[at+2])<<8 + int(file[at+3])
	}
	return false
}
