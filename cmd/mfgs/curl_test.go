package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// curl implements the flags of curl that scripts and documents use, for machines without it; others are errors.
// testdata/serve/clients runs curl itself.
func curl() {
	if err := runCurl(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		os.Exit(1)
	}
}

func runCurl(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("curl", flag.ContinueOnError)
	data, form, method := f.String("d", "", ""), f.String("F", "", ""), f.String("X", "", "")
	binary, retries := f.String("data-binary", "", ""), f.Int("retry", 0, "")
	delay, _ := f.Int("retry-delay", 1, ""), f.Bool("retry-connrefused", false, "")
	fails := f.Bool("f", false, "")
	f.Bool("s", false, "")
	headers := http.Header{}
	f.Func("H", "", func(s string) error {
		name, value, ok := strings.Cut(s, ":")
		if !ok {
			return errors.New("want NAME: VALUE")
		}
		headers.Add(name, strings.TrimSpace(value))
		return nil
	})
	url := ""
	for len(args) > 0 { // flags and the URL in any order
		if args[0] == "-sf" {
			args = append([]string{"-s", "-f"}, args[1:]...)
		}
		if err := f.Parse(args); err != nil {
			return err
		}
		if args = f.Args(); len(args) > 0 {
			url, args = args[0], args[1:]
		}
	}
	body, kind, err := curlBody(*data, *binary, *form)
	if err != nil {
		return err
	}
	if *method == "" {
		*method = http.MethodGet
		if body != nil {
			*method = http.MethodPost
		}
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	for try := 0; ; try++ {
		request, err := http.NewRequest(*method, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		if request.Header = headers.Clone(); kind != "" && headers.Get("Content-Type") == "" {
			request.Header.Set("Content-Type", kind)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			if try == *retries {
				return err
			}
			time.Sleep(time.Duration(*delay) * time.Second)
			continue
		}
		defer answer.Body.Close()
		if *fails && answer.StatusCode >= 400 {
			return errors.New(answer.Status)
		}
		_, err = io.Copy(stdout, answer.Body)
		return err
	}
}

// curlBody returns the body of -d, --data-binary or -F.
func curlBody(data, binary, form string) (body []byte, kind string, err error) {
	switch {
	case form != "":
		name, path, ok := strings.Cut(form, "=@")
		if !ok {
			return nil, "", errors.New("-F: want NAME=@FILE")
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		part, err := w.CreateFormFile(name, filepath.Base(path))
		if err != nil {
			return nil, "", err
		}
		if _, err := part.Write(file); err != nil {
			return nil, "", err
		}
		err = w.Close() // it writes the end
		return b.Bytes(), w.FormDataContentType(), err
	case binary != "":
		data = binary
		fallthrough
	case data != "":
		body = []byte(data)
		if path, ok := strings.CutPrefix(data, "@"); ok {
			if body, err = os.ReadFile(path); err != nil {
				return nil, "", err
			}
		}
		return body, "application/x-www-form-urlencoded", nil
	}
	return nil, "", nil
}
