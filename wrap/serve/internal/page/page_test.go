package page_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/wrap/serve/internal/page"
)

func write(w http.ResponseWriter, _ *http.Request, body []byte) { _, _ = w.Write(body) }

func get(h http.Handler, path, etag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("If-None-Match", etag)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var address = regexp.MustCompile(`(?:href|src)="(page/[^"]+)"`)

func TestThePageLoadsEachOfItsFilesOnce(t *testing.T) {
	t.Parallel()
	h := page.Handler(write, http.NotFound)
	first := get(h, "/", "")
	html := first.Body.String()
	named := address.FindAllStringSubmatch(html, -1)
	if len(named) < 3 || strings.Contains(html, "VERSION") {
		t.Fatalf("the page names %q", named)
	}
	if again := get(h, "/", first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("the same page is sent again: %d", again.Code)
	}
	folder := path.Dir(named[0][1])
	files, err := os.ReadDir("assets")
	if err != nil || len(files) < 5 {
		t.Fatal(err, files)
	}
	for _, f := range files {
		if f.Name() == "index.html" {
			continue
		}
		got := get(h, "/"+folder+"/"+f.Name(), "")
		if got.Code != http.StatusOK || !strings.HasSuffix(got.Header().Get("Cache-Control"), "immutable") ||
			got.Header().Get("Content-Type") == "" || got.Header().Get("Content-Security-Policy") != page.Policy {
			t.Errorf("%s: %d %v", f.Name(), got.Code, got.Header())
		}
		for _, m := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(got.Body.String(), -1) {
			if get(h, "/"+folder+"/"+m[1], "").Code != http.StatusOK {
				t.Errorf("%s imports %s, which is not served", f.Name(), m[1])
			}
		}
	}
	for _, p := range []string{
		"/page/0/page.js", "/" + folder + "/index.html", "/" + folder + "/../page.go", "/" + folder + "/none.js",
	} {
		if got := get(h, p, ""); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", p, got.Code)
		}
	}
}

// The policy forbids style and event attributes, and inline scripts: they would not work in a browser.
func TestThePageObeysItsPolicy(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script[^>]*>[^<]|https?://`)
	text, err := os.ReadFile("assets/index.html")
	if err != nil {
		t.Fatal(err)
	}
	if found := inline.Find(text); found != nil {
		t.Errorf("the page has %q", found)
	}
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
	} {
		if !strings.Contains(page.Policy, directive) {
			t.Errorf("the policy lacks %s", directive)
		}
	}
	if strings.Contains(page.Policy, "unsafe") || strings.Contains(page.Policy, "*") {
		t.Errorf("the policy is %s", page.Policy)
	}
}
