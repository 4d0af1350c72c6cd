package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/mfgs/mfgs/internal/chart"
)

//go:embed report.html
var pageHTML string

//go:embed report.css
var pageCSS string

var htmlTemplate = template.Must(template.New("report").Parse(pageHTML))

// writeHTML writes the page as one file. Its Content-Security-Policy, in a meta element, allows pictures from data:
// URLs and the style sheet in it, and nothing else.
func writeHTML(w io.Writer, p *page) error {
	style := "\n" + chart.Stylesheet() + pageCSS
	sum := sha256.Sum256([]byte(style))
	var b bytes.Buffer
	err := htmlTemplate.Execute(&b, struct {
		*page
		Style  template.CSS
		Policy string
	}{p, template.CSS(style),
		"default-src 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"})
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}
