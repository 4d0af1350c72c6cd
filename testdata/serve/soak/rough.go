//go:build linux

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mfgs/mfgs/internal/oip"
)

// wrong makes invalid requests, which must be refused with the right error.
func (cl *client) wrong(ctx context.Context) (outcome, error) {
	q := cl.request(3)
	q.Model = steady
	body, _, err := q.Body(func(string) bool { return false })
	if err != nil {
		return "", err
	}
	raw, length, err := q.Body(func(string) bool { return true })
	if err != nil {
		return "", err
	}
	infer := "/v2/models/" + steady + "/infer"
	replace := func(old, new string) []byte { return bytes.Replace(body, []byte(old), []byte(new), 1) }
	kinds := []func() error{
		func() error { return cl.refused(ctx, infer, body[:cl.rng.IntN(len(body))]) },
		func() error { return cl.refused(ctx, infer, replace("FP32", "FP64")) },
		func() error { return cl.refused(ctx, infer, replace("1,8,8", "8,8,1")) },
		func() error { return cl.refused(ctx, infer, replace("1,8,8", "1,8,8000000000")) },
		func() error { return cl.refused(ctx, infer, replace("image", "picture")) },
		func() error { return cl.refused(ctx, "/v2/models/none/infer", body) },
		func() error { return cl.refused(ctx, infer, bytes.Repeat([]byte("["), 1<<cl.rng.IntN(20))) },
		func() error { return cl.refused(ctx, infer, make([]byte, maxBody+1)) },
		func() error { return cl.refused(ctx, infer, raw[:len(raw)-1-cl.rng.IntN(100)], oip.Header, length) },
		func() error { return cl.refused(ctx, infer, raw, oip.Header, fmt.Sprint(cl.rng.Uint64())) },
		func() error { return cl.refused(ctx, infer, body, "Content-Encoding", "gzip") },
		func() error { return cl.refused(ctx, infer, bomb(maxBody*4), "Content-Encoding", "gzip") },
		func() error { return cl.refused(ctx, "/v1/predict", body[:20], "Content-Type", "image/png") },
		func() error { return cl.sendNotFinite(ctx, raw, length, float32(math.NaN())) },
		func() error { return cl.sendNotFinite(ctx, raw, length, float32(math.Inf(1))) },
		func() error {
			m, err := cl.message(q)
			if err != nil {
				return err
			}
			m.Inputs[0].Shape[0]++
			_, err = cl.rpc.ModelInfer(ctx, m)
			return mustRefuse(ofRPC(err))
		},
	}
	return rejected, kinds[cl.rng.IntN(len(kinds))]()
}

// bomb is n zero bytes, compressed.
func bomb(n int) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, n))
	_ = z.Close()
	return b.Bytes()
}

func (cl *client) refused(ctx context.Context, path string, body []byte, headers ...string) error {
	_, _, err := cl.post(ctx, path, body, headers...)
	// The server may refuse a body that is too large while it is sent: the client then sees no answer.
	if len(body) > maxBody && err != nil && ctx.Err() == nil {
		return nil
	}
	return mustRefuse(err)
}

func mustRefuse(err error) error {
	var no *refusal
	if err == nil {
		return errors.New("an invalid request is answered")
	}
	if !errors.As(err, &no) || no.code < 400 || no.code >= 500 {
		return fmt.Errorf("an invalid request is not refused with a status of 4xx: %w", err)
	}
	return nil
}

// sendNotFinite sends NaN or an infinity, which must be refused or be out-of-distribution.
func (cl *client) sendNotFinite(ctx context.Context, raw []byte, length string, v float32) error {
	raw = bytes.Clone(raw)
	binary.LittleEndian.PutUint32(raw[len(raw)-4:], math.Float32bits(v))
	header, answer, err := cl.post(ctx, "/v2/models/"+steady+"/infer", raw, oip.Header, length)
	if err != nil {
		return mustRefuse(err)
	}
	r, err := oip.ReadResponse(answer, header.Get(oip.Header), oip.Limits{})
	if err != nil {
		return err
	}
	for _, o := range r.Outputs {
		if o.Name == "ood_score" && number(o, o.Len()-1) < 1 {
			return fmt.Errorf("an input with %v has ood_score %v", v, number(o, o.Len()-1))
		}
	}
	return nil
}

// raw builds a request by hand, to be written and read slowly.
func (cl *client) raw(q request) (net.Conn, []byte, error) {
	body, length, err := q.Body(func(string) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	var d net.Dialer
	c, err := d.Dial("tcp", cl.server.http)
	if err != nil {
		return nil, nil, err
	}
	head := fmt.Sprintf("POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s: %s\r\n\r\n",
		q.Model, len(body), oip.Header, length)
	return c, append([]byte(head), body...), nil
}

// sendSlowly sends a request in small pieces, and must be answered.
func (cl *client) sendSlowly(ctx context.Context) (outcome, error) {
	q := cl.request(40)
	c, all, err := cl.raw(q)
	if err != nil {
		return "", err
	}
	defer c.Close()
	pieces := 2 + cl.rng.IntN(20)
	for i := range pieces {
		if _, err := c.Write(all[len(all)*i/pieces : len(all)*(i+1)/pieces]); err != nil {
			return "", err
		}
		if err := sleep(ctx, time.Duration(cl.rng.IntN(100))*time.Millisecond); err != nil {
			return abandoned, nil
		}
	}
	return cl.readRaw(c, q)
}

func (cl *client) readRaw(c net.Conn, q request) (outcome, error) {
	_ = c.SetReadDeadline(time.Now().Add(late))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return cl.judged(q, nil, &refusal{response.StatusCode, string(answer)})
	}
	r, err := oip.ReadResponse(answer, response.Header.Get(oip.Header), oip.Limits{})
	return cl.judged(q, r, err)
}

// stall sends part of a request and stops: the server must give up.
func (cl *client) stall(ctx context.Context) (outcome, error) {
	c, all, err := cl.raw(cl.request(40))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write(all[:cl.rng.IntN(len(all)-1)]); err != nil {
		return "", err
	}
	return waitCut(ctx, c)
}

// stallRPC opens a gRPC connection and sends nothing, or half of the preface.
func (cl *client) stallRPC(ctx context.Context) (outcome, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", cl.server.grpc)
	if err != nil {
		return "", err
	}
	defer c.Close()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := c.Write([]byte(preface[:cl.rng.IntN(len(preface))])); err != nil {
		return "", err
	}
	return waitCut(ctx, c)
}

// waitCut waits until the server closes a connection.
func waitCut(ctx context.Context, c net.Conn) (outcome, error) {
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })()
	_ = c.SetReadDeadline(time.Now().Add(late))
	_, err := io.Copy(io.Discard, c)
	if ctx.Err() != nil {
		return abandoned, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", fmt.Errorf("a client that stalls is still connected after %v", late)
	}
	return cut, nil
}

// ignoreAnswers sends many requests on one connection, and reads no answer for a while, or never.
func (cl *client) ignoreAnswers(ctx context.Context) (outcome, error) {
	q := cl.request(40)
	c, all, err := cl.raw(q)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
	for range 1 + cl.rng.IntN(500) {
		if _, err := c.Write(all); err != nil {
			break
		}
	}
	_ = sleep(ctx, time.Duration(cl.rng.Int64N(int64(3*timeout))))
	return abandoned, nil
}

// ignoreRPCAnswers opens a gRPC stream and reads no answer.
func (cl *client) ignoreRPCAnswers(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cl.rng.Int64N(int64(2*timeout))))
	defer cancel()
	stream, err := cl.rpc.ModelStreamInfer(ctx)
	for err == nil {
		m, e := cl.message(cl.request(40))
		if err = e; err == nil {
			err = stream.Send(m)
		}
	}
	if errors.Is(err, io.EOF) { // Recv returns the reason
		for err = nil; err == nil; {
			_, err = stream.Recv()
		}
	}
	if ctx.Err() == nil && status.Code(err) != codes.DeadlineExceeded {
		return "", err
	}
	return abandoned, nil
}

// http10 asks over HTTP/1.0, or pipelines several requests on one connection.
func (cl *client) http10(context.Context) (outcome, error) {
	q := cl.request(40)
	c, all, err := cl.raw(q)
	if err != nil {
		return "", err
	}
	defer c.Close()
	all = []byte(strings.Replace(string(all), "HTTP/1.1", "HTTP/1.0", 1))
	if _, err := c.Write(all); err != nil {
		return "", err
	}
	return cl.readRaw(c, q)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
