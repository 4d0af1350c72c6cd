//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A client makes one request at a time.
type client struct {
	*soak
	rng  *rand.Rand
	name string
	n    int // of requests
	web  *http.Client
	rpc  inference.GRPCInferenceServiceClient
}

func (s *soak) newClient(i int, web *http.Client, conn *grpc.ClientConn) *client {
	return &client{
		soak: s, rng: s.rng(i), name: fmt.Sprint("client", i), web: web,
		rpc: inference.NewGRPCInferenceServiceClient(conn),
	}
}

func (s *soak) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient(s.server.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// A request is a valid request.
type request struct {
	*oip.Request
	of []int
}

func (cl *client) request(most int) request {
	model := []string{swapped, swapped, swapped, steady, steady, spare}[cl.rng.IntN(6)]
	of := make([]int, 1+cl.rng.IntN(most))
	for i := range of {
		of[i] = cl.rng.IntN(examples)
	}
	cl.n++
	return request{&oip.Request{
		Model: model, ID: cl.name + "-" + strconv.Itoa(cl.n), Inputs: []tensor.Tensor{cl.bundles.input(of)},
	}, of}
}

// refusal is an error answered by the server.
type refusal struct {
	code int // of HTTP
	says string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.code, r.says) }

// judged checks an answer or refusal of a request, and returns its outcome.
func (cl *client) judged(q request, r *oip.Response, err error) (outcome, error) {
	if err == nil {
		return answered, cl.bundles.check(r, q.Model, q.ID, q.of)
	}
	var no *refusal
	if errors.As(err, &no) {
		switch {
		case no.code == http.StatusTooManyRequests:
			return shed, nil
		case no.code == http.StatusServiceUnavailable && q.Model == spare:
			return absent, nil
		}
	}
	return "", err
}

// post makes an HTTP request and reads its answer.
func (cl *client) post(ctx context.Context, path string, body []byte, headers ...string) (http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, "POST", "http://"+cl.server.http+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := cl.web.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		var e struct{ Error string }
		if json.Unmarshal(answer, &e) != nil || e.Error == "" {
			return nil, nil, fmt.Errorf("%d without an error in JSON: %.100q", response.StatusCode, answer)
		}
		err = &refusal{response.StatusCode, e.Error}
	}
	return response.Header, answer, err
}

// packed encodes a body in one of the accepted encodings.
func (cl *client) packed(body []byte) ([]byte, string) {
	var b bytes.Buffer
	var z io.WriteCloser
	var name string
	switch cl.rng.IntN(4) {
	case 0:
		z, name = gzip.NewWriter(&b), "gzip"
	case 1:
		z, name = zlib.NewWriter(&b), "deflate"
	default:
		return body, ""
	}
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes(), name
}

// inferHTTP asks over HTTP, with inputs and outputs each as JSON or bytes.
func (cl *client) inferHTTP(ctx context.Context, q request) (outcome, error) {
	binary := cl.rng.IntN(2) == 0
	q.Binary = cl.rng.IntN(2) == 0
	body, length, err := q.Body(func(string) bool { return binary })
	if err != nil {
		return "", err
	}
	body, encoding := cl.packed(body)
	header, answer, err := cl.post(ctx, "/v2/models/"+q.Model+"/infer", body, oip.Header, length, "Content-Encoding", encoding)
	if err != nil {
		return cl.judged(q, nil, err)
	}
	r, err := oip.ReadResponse(answer, header.Get(oip.Header), oip.Limits{})
	return cl.judged(q, r, err)
}

// inferRPC asks over gRPC, with inputs raw or in fields.
func (cl *client) inferRPC(ctx context.Context, q request) (outcome, error) {
	m, err := cl.message(q)
	if err != nil {
		return "", err
	}
	var options []grpc.CallOption
	if cl.rng.IntN(3) == 0 {
		options = append(options, grpc.UseCompressor("gzip"))
	}
	answer, err := cl.rpc.ModelInfer(ctx, m, options...)
	if err != nil {
		return cl.judged(q, nil, ofRPC(err))
	}
	r, err := oip.ResponseFromProto(answer, oip.Limits{})
	return cl.judged(q, r, err)
}

func (cl *client) message(q request) (*inference.ModelInferRequest, error) {
	m, err := q.Proto()
	if err == nil && cl.rng.IntN(2) == 0 {
		m.RawInputContents = nil
		m.Inputs[0].Contents = &inference.InferTensorContents{Fp32Contents: q.Inputs[0].Data.([]float32)}
	}
	return m, err
}

// ofRPC converts a gRPC status to a refusal.
func ofRPC(err error) error {
	switch s := status.Convert(err); s.Code() {
	case codes.ResourceExhausted:
		return &refusal{http.StatusTooManyRequests, s.Message()}
	case codes.Unavailable: // of a server that answers, and not of none
		if len(s.Details()) > 0 {
			return &refusal{http.StatusServiceUnavailable, s.Message()}
		}
	case codes.InvalidArgument, codes.NotFound, codes.Unimplemented:
		return &refusal{http.StatusBadRequest, s.Message()}
	}
	return err
}

// stream asks several requests in one gRPC stream.
func (cl *client) stream(ctx context.Context) (outcome, error) {
	stream, err := cl.rpc.ModelStreamInfer(ctx)
	if err != nil {
		return "", ofRPC(err)
	}
	var asked []request
	for range 1 + cl.rng.IntN(8) {
		q := cl.request(8)
		m, err := cl.message(q)
		if err == nil {
			err = stream.Send(m)
		}
		if err != nil {
			return "", err
		}
		asked = append(asked, q)
	}
	if err := stream.CloseSend(); err != nil {
		return "", err
	}
	for _, q := range asked {
		answer, err := stream.Recv()
		if err != nil {
			return "", err
		}
		if says := answer.GetErrorMessage(); says != "" {
			if q.Model == spare || answer.GetInferResponse().GetId() != q.ID {
				continue
			}
			return "", errors.New(says)
		}
		r, err := oip.ResponseFromProto(answer.GetInferResponse(), oip.Limits{})
		if _, err := cl.judged(q, r, err); err != nil {
			return "", err
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("the stream does not end: %v", err)
	}
	return answered, nil
}

// predict asks POST /v1/predict about one example, as JSON or as an image.
func (cl *client) predict(ctx context.Context) (outcome, error) {
	q := cl.request(1)
	body, kind := cl.picture(q.of[0]), "image/png"
	if cl.rng.IntN(2) == 0 {
		rows := [8][8]float32{}
		for i, v := range q.Inputs[0].Data.([]float32) {
			rows[i/8][i%8] = v
		}
		body, _ = json.Marshal(map[string]any{"image": [1][8][8]float32{rows}}) // of numbers
		kind = "application/json"
	}
	_, answer, err := cl.post(ctx, "/v1/predict?model="+q.Model, body, "Content-Type", kind)
	if err != nil {
		return cl.judged(q, nil, err)
	}
	var got struct {
		Class      int
		Confidence float64
		Score      float64 `json:"ood_score"`
		Abstain    bool
		Set        []int `json:"prediction_set"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return "", err
	}
	ofOne := func(b *bundle) bool {
		want := b.want[q.of[0]]
		return got.Class == want.Class && near(got.Confidence, want.Confidence) && near(got.Score, want.OODScore) &&
			got.Abstain == *want.Abstain && slices.Equal(got.Set, want.PredictionSet)
	}
	if !slices.ContainsFunc(cl.bundles.made, ofOne) {
		return "", fmt.Errorf("/v1/predict of example %d: %s", q.of[0], answer)
	}
	return answered, nil
}

// picture returns an example as PNG.
func (cl *client) picture(i int) []byte {
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	for k, v := range cl.bundles.images[i*pixels:][:pixels] {
		m.SetGray(k%8, k/8, color.Gray{Y: v})
	}
	var b bytes.Buffer
	_ = png.Encode(&b, m) // into memory
	return b.Bytes()
}

// cancelled asks and cancels at a random moment. An answer that came before must still be right.
func (cl *client) cancelled(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cl.rng.Int64N(int64(30*time.Millisecond))))
	defer cancel()
	var o outcome
	var err error
	switch q := cl.request(40); cl.rng.IntN(3) {
	case 0:
		o, err = cl.inferHTTP(ctx, q)
	case 1:
		o, err = cl.inferRPC(ctx, q)
	default:
		o, err = cl.stream(ctx)
	}
	// The server knows the deadline, too, and may report it first.
	if deadline, _ := ctx.Deadline(); err != nil && time.Until(deadline) < 5*time.Millisecond {
		return abandoned, nil
	}
	return o, err
}
