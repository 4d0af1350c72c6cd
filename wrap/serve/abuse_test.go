package serve_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

// byHand sends bytes, and closes for writing if that is the end, and returns all that the server sends.
func (r *running) byHand(all string, end bool) string {
	r.t.Helper()
	c, err := net.Dial("tcp", r.HTTPAddr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, all); err != nil {
		r.t.Fatal(err)
	}
	if end {
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			r.t.Fatal(err)
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := io.ReadAll(c)
	if err != nil && len(all) < 1<<16 { // unread bytes of a long header reset the connection
		r.t.Errorf("%.40q: %v", all, err)
	}
	return string(answer)
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	const post = "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct{ name, all, status, says string }{
		{"a body that breaks off", post + "Content-Length: 100\r\n\r\n{", "400", "ended early"},
		{"a broken chunk", post + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n", "400", "cannot be read"},
		{"a packed body that breaks off", post + "Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n\x1f\x8b", "400", "ended early"},
		{"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "400", ""},
		{"a negative length", post + "Content-Length: -1\r\n\r\n{}", "400", ""},
		{"a length in words", post + "Content-Length: many\r\n\r\n{}", "400", ""},
		{"a length beyond all limits", post + "Content-Length: 9000000000000000000\r\n\r\n{}", "413", "67108864 bytes"},
		{"a long head", "GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<18) + "\r\n\r\n", "431", ""},
		{"no head", "\x16\x03\x01\r\n\r\n", "400", ""},
		{"HTTP/1.0 without a host", "GET /v2/health/live HTTP/1.0\r\n\r\n", "200", "true"},
		{"HTTP/1.1 without a host", "GET /v2/health/live HTTP/1.1\r\n\r\n", "400", ""},
	} {
		answer := r.byHand(c.all, true)
		if c.name == "a long head" && answer == "" {
			continue
		}
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) && !strings.HasPrefix(answer, "HTTP/1.0 "+c.status) ||
			!strings.Contains(answer, c.says) {
			t.Errorf("%s: %.300q, want %s and %q", c.name, answer, c.status, c.says)
		}
	}
	// Pipelined requests are answered in order.
	one := func(id, header string) string {
		body := inferBody(t, id, 1500, 1501, "")
		return fmt.Sprintf("%s%sContent-Length: %d\r\n\r\n%s", post, header, len(body), body)
	}
	answer := r.byHand(one("first", "")+one("second", "")+one("third", "Connection: close\r\n"), false)
	first, second := strings.Index(answer, `"first"`), strings.Index(answer, `"second"`)
	if first < 0 || second < first || strings.Index(answer, `"third"`) < second {
		t.Errorf("three requests at once: %.300q", answer)
	}
}

// binaryBody returns a request of the protocol with digits as binary data, and its header.
func binaryBody(t *testing.T, from, to int) (string, string) {
	t.Helper()
	x := wraptest.DigitTensor(t, from, to)
	body, header, err := (&oip.Request{Inputs: []tensor.Tensor{x}}).Body(func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return string(body), header
}

func TestInconsistentRequestsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	body, length := binaryBody(t, 1500, 1503)
	text := inferBody(t, "", 1500, 1501, "")
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"x%d","shape":[1],"datatype":"FP32","data":[1]}`, i)
	}
	shaped := func(shape string) string { return strings.Replace(text, "[1,1,8,8]", shape, 1) }
	for _, c := range []struct {
		name, body, header string
		code               int
		says               string
	}{
		{"no length of the JSON", body, "", 400, ""},
		{"none of it", body, "0", 400, ""},
		{"a byte less", body, fmt.Sprint(len(body) - 769), 400, ""},
		{"more than there is", body, fmt.Sprint(len(body) + 1), 400, oip.Header},
		{"a negative one", body, "-1", 400, oip.Header},
		{"no number", body, "many", 400, oip.Header},
		{"beyond 64 bits", body, "99999999999999999999", 400, oip.Header},
		{"a byte missing", body[:len(body)-1], length, 400, "only 767 bytes are left"},
		{"a byte more", body + "x", length, 400, "1 bytes are left"},
		{"too many inputs", `{"inputs":[` + strings.Join(many, ",") + `]}`, "", 413, "64"},
		{"nested deeply", strings.Repeat(`{"a":`, 100_000), "", 400, ""},
		{"lists nested deeply", `{"inputs":[{"name":"image","shape":[1],"datatype":"FP32","data":` + strings.Repeat("[", 100_000), "", 400, ""},
		{"a huge shape", shaped("[1,1,8,8000000000000]"), "", 413, ""},
		{"a shape beyond 64 bits", shaped("[4294967296,4294967296,4294967296,8]"), "", 400, ""},
		{"a negative shape", shaped("[-1,1,8,-8]"), "", 400, ""},
		{"as many examples as fit in no memory", shaped("[1000000,1,8,8]"), "", 413, ""},
		{"NaN, which the network makes NaN of", strings.Replace(text, `"data":[0`, `"data":[NaN`, 1), "", 400, "logit 0 is NaN"},
		{"null for a number", strings.Replace(text, `"data":[0`, `"data":[null`, 1), "", 400, "element 0: broken JSON: want a number"},
		{"a number beyond float32", strings.Replace(text, `"data":[0`, `"data":[1e39`, 1), "", 400, ""},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{oip.Header, c.header}
		}
		code, _, answer := r.send("POST", "/v2/models/digits/infer", c.body, headers...)
		clear := strings.HasPrefix(string(answer), `{"error":"`) && strings.Contains(string(answer), c.says)
		if code != c.code || !clear || len(answer) > 1000 {
			t.Errorf("%s: %d %.300s, want %d and %q", c.name, code, answer, c.code, c.says)
		}
	}
	// Unknown members are ignored, as the protocol requires.
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1501, `,"parameters":{"mood":"good"},"more":{"a":[1]}`), &got)
}

// NaN in an example is refused, or gives the largest OOD score. Requests in the same batch are answered as usual.
func TestNaNsDoNotDisturbOtherRequests(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}}})
	p := wraptest.Opened(t, dir, wrap.Options{})
	want, err := p.Predict(t.Context(), []wrap.Tensor{wraptest.DigitTensor(t, 1500, 1503)})
	if err != nil {
		t.Fatal(err)
	}
	body, length := binaryBody(t, 1500, 1503)
	scores := func(body string) (int, []float64) {
		code, header, answer := r.send("POST", "/v2/models/digits/infer", body, oip.Header, length)
		if code != http.StatusOK {
			return code, nil
		}
		got, err := oip.ReadResponse(answer, header.Get(oip.Header), oip.Limits{})
		if err != nil {
			t.Error(err)
			return code, nil
		}
		for _, o := range got.Outputs {
			if o.Name == "ood_score" {
				return code, o.Data.([]float64)
			}
		}
		t.Error("no ood_score")
		return code, nil
	}
	var group sync.WaitGroup
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32} {
		packed := []byte(body)
		binary.LittleEndian.PutUint32(packed[len(packed)-4:], math.Float32bits(float32(v)))
		for range 4 {
			group.Go(func() {
				code, got := scores(string(packed))
				if code != http.StatusBadRequest && (code != http.StatusOK || len(got) != 3 || got[2] < 1) {
					t.Errorf("%v: %d %v", v, code, got)
				}
			})
			group.Go(func() {
				code, got := scores(body)
				for i := range want {
					if code != http.StatusOK || !approx.Equal(got[i], want[i].OODScore, 1e-5) {
						t.Errorf("beside %v: %d %v, want %v", v, code, got, want[i].OODScore)
					}
				}
			})
		}
	}
	group.Wait()
}

// zeros returns n zeros, compressed.
func zeros(t testing.TB, n int, z io.WriteCloser) {
	t.Helper()
	if _, err := io.CopyN(z, zero{}, int64(n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// allocated returns how many bytes f allocates in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// bombPNG returns an image with many pixels of one colour.
func bombPNG(t testing.TB, width, height int) []byte {
	t.Helper()
	out := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
		body := append([]byte(kind), data...)
		out = binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
	}
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	chunk("IHDR", append(size, 8, 0, 0, 0, 0))
	var b bytes.Buffer
	zeros(t, min((width+1)*height, 8<<20), zlib.NewWriter(&b))
	chunk("IDAT", b.Bytes())
	chunk("IEND", nil)
	return out
}

func TestDecompressionIsBoundedByTheMemoryOfRequests(t *testing.T) {
	const most, bombs, unpacked = 1 << 20, 20, 32 << 20
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: most, InFlight: 4 * most})
	var packed, deflated bytes.Buffer
	zeros(t, unpacked, gzip.NewWriter(&packed))
	zeros(t, unpacked, zlib.NewWriter(&deflated))
	for _, c := range []struct{ name, path, encoding, body string }{
		{"gzip", "/v2/models/digits/infer", "gzip", packed.String()},
		{"deflate", "/v2/models/digits/infer", "deflate", deflated.String()},
		{"of an image", "/v1/predict", "gzip", packed.String()},
		{"of a document", "/v2/repository/index", "gzip", packed.String()},
		{"an image of many pixels", "/v1/predict", "", string(bombPNG(t, 60_000, 60_000))},
		{"a wide image", "/v1/predict", "", string(bombPNG(t, 1<<31-1, 1))},
	} {
		took := allocated(func() {
			var group sync.WaitGroup
			for range bombs {
				group.Go(func() {
					code, _, answer := r.send("POST", c.path, c.body, "Content-Encoding", c.encoding)
					if code != 400 && code != 413 && code != 429 {
						t.Errorf("%s: %d %s", c.name, code, answer)
					}
				})
			}
			group.Wait()
		})
		if limit := int64(bombs * 8 * most); took > limit {
			t.Errorf("%s: %d bytes of memory, want at most %d of what unpacks to %d", c.name, took, limit, bombs*unpacked)
		}
	}
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1501, ""), &got)
}

// FuzzHandler: every request is answered, and never with an internal error.
func FuzzHandler(f *testing.F) {
	s, err := serve.New(f.Context(), serve.Config{
		Bundles: []serve.Bundle{{Name: "d", Dir: digits(f)}}, HTTP: "127.0.0.1:0", MaxBody: 1 << 20,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	handler := s.Handler()
	const infer = "/v2/models/d/infer"
	row := strings.Repeat("0,", 63) + "1"
	input := `{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":[` + row + `]}]}`
	f.Add("POST", infer, "application/json", "", "", []byte(input))
	f.Add("POST", infer, "", "", "111", append([]byte(`{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","parameters":{"binary_data_size":256}}]}`), make([]byte, 256)...))
	f.Add("POST", infer, "", "gzip", "", []byte("\x1f\x8b\x08\x00"))
	f.Add("POST", "/v1/predict", "image/png", "", "", bombPNG(f, 8, 8))
	f.Add("POST", "/v1/predict?model=d&method=mf0&t_act=2", "application/json", "", "", []byte(`{"image":[[`+row+`]]}`))
	f.Add("POST", "/v1/predict", "multipart/form-data; boundary=b", "", "", []byte("--b\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\nx\r\n--b--\r\n"))
	f.Add("POST", "/v2/repository/index", "", "deflate", "", []byte(`{"ready":true}`))
	f.Add("GET", "/v2/models/d/versions/1/config", "", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path, kind, encoding, length string, body []byte) {
		if strings.Contains(path, "load") {
			return // a model that is gone is one of the server's errors
		}
		request, err := http.NewRequest(method, "http://localhost", bytes.NewReader(body))
		if err != nil {
			return
		}
		u, err := request.URL.Parse(path)
		if err != nil || u.Host != "localhost" {
			return
		}
		request.URL = u
		for name, value := range map[string]string{"Content-Type": kind, "Content-Encoding": encoding, oip.Header: length} {
			if value != "" {
				request.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		if w.Code >= 500 && w.Code != http.StatusNotImplemented {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// A client that is refused before its body is read sees the refusal, however large the body is, and at once if nothing
// of it comes.
func TestARefusalReachesAClientThatIsStillSending(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: 4 << 20})
	known := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: 4 << 20, Token: "s3cret"})
	for _, c := range []struct {
		r                  *running
		path, host, status string
		size               int
	}{
		{r, "/v2/models/digits/infer", "localhost", "413", 8 << 20},
		{r, "/v2/models/letters/infer", "localhost", "404", 8 << 20},
		{r, "/none", "localhost", "404", 8 << 20},
		{r, "/v2/models/digits/infer", "evil.example", "403", 8 << 20},
		{r, "/v1/predict?top=none", "localhost", "400", 3 << 20},
		{r, "/v2/repository/index", "localhost", "413", 1 << 20},
		{known, "/v2/models/digits/infer", "localhost", "401", 8 << 20},
	} {
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
			c.path, c.host, c.size)
		answer := c.r.byHand(head+strings.Repeat(" ", c.size), false)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) || !strings.HasSuffix(answer, "}") {
			t.Errorf("%s: %.200q, want %s", c.path, answer, c.status)
		}
		conn, err := net.Dial("tcp", c.r.HTTPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, head)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		first := make([]byte, 12)
		if _, err := io.ReadFull(conn, first); err != nil || string(first) != "HTTP/1.1 "+c.status {
			t.Errorf("%s: %q, %v to a head alone, want %s", c.path, first, err, c.status)
		}
	}
}

// Tensors are charged to the memory of all requests before they are allocated: strings of two bytes take many times as
// much in memory.
func TestTensorsCountTowardsTheMemoryOfRequests(t *testing.T) {
	const most = 1 << 20
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: most, InFlight: 2 * most})
	const n = 60_000
	texts := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d],"datatype":"BYTES","data":[%s""]}]}`, n, strings.Repeat(`"",`, n-1))
	took := allocated(func() {
		code, _, answer := r.send("POST", "/v2/models/digits/infer", texts)
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(string(answer), "more memory than the limit for all requests") {
			t.Errorf("%d %s", code, answer)
		}
	})
	if took > 2*most {
		t.Errorf("%d bytes are taken", took)
	}
}

// Results are charged too, before anything runs: those of digits are several times as large as the inputs.
func TestResultsCountTowardsTheMemoryOfRequests(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: most, InFlight: 2 * most})
	for n, want := range map[int]int{500: 200, 2000: 413} { // 1,408 bytes each, beside 256 of the input
		head := fmt.Sprintf(`{"inputs":[{"name":"image","shape":[%d,1,8,8],"datatype":"FP32","parameters":{"binary_data_size":%d}}]}`, n, 256*n)
		body := head + strings.Repeat("\x00", 256*n)
		code, _, answer := r.send("POST", "/v2/models/digits/infer", body, oip.Header, fmt.Sprint(len(head)))
		if code != want || code == 413 && !strings.Contains(string(answer), "more memory than the limit for all requests") {
			t.Errorf("%d examples: %d %.300s, want %d", n, code, answer, want)
		}
	}
	if r.Taken() != 0 {
		t.Error("memory is not given back")
	}
	_, _, stats := r.send("GET", "/v2/models/digits/stats", "")
	if !strings.Contains(string(stats), `"inference_count":500,`) {
		t.Errorf("what is refused is run: %s", stats)
	}
}

// A client that announces a large body and sends none of it takes no memory from others.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: most, InFlight: 4 * most})
	for size := most; size >= 512; size /= 2 {
		for range 4 {
			c, err := net.Dial("tcp", r.HTTPAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{", size)
		}
	}
	time.Sleep(100 * time.Millisecond) // all of them are read by then
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1501, ""), &got)
}

// A refusal leaves the connection to further requests, unless the rest of the body is too long.
func TestRefusalsKeepConnections(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: 4 << 20})
	for size, closes := range map[int]bool{1 << 10: false, 2 << 20: false, 5 << 20: true} {
		answer, err := r.client.Post(r.url+"/v2/models/none/infer", "application/json", bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound || answer.Close != closes {
			t.Errorf("%d bytes: %d, the connection closes: %v, want %v", size, answer.StatusCode, answer.Close, closes)
		}
	}
}

// net/http cancels the context of a connection if a read deadline passes just after the end of a body, and goes on
// taking requests from it: these must be answered.
func TestARequestWhoseContextHadEndedBeforeIsAnswered(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for path, body := range map[string]string{
		"/v2/models/digits/infer": inferBody(t, "next", 0, 1, ""), "/v2/repository/models/digits/load": "",
	} {
		request := httptest.NewRequestWithContext(ctx, "POST", "http://localhost"+path, strings.NewReader(body))
		answer := httptest.NewRecorder()
		r.Handler().ServeHTTP(answer, request)
		if answer.Code != 200 || answer.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d %s, Connection %q", path, answer.Code, answer.Body, answer.Header().Get("Connection"))
		}
	}
}
