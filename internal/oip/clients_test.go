package oip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mfgs/mfgs/internal/oip/inference"
)

// golden reads a file that testdata/clients.py has written.
func golden(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Requests of the Python clients of KServe and Triton, in all their forms, are read as the tensors that were sent.
func TestRequestsOfOtherClientsAreRead(t *testing.T) {
	t.Parallel()
	var requests []struct {
		Client, Form, Header string
		Body, Message        []byte
		Inputs               []struct {
			Name, Datatype string
			Shape          []int64
			Raw            []byte
		}
	}
	golden(t, "requests.json", &requests)
	for _, c := range requests {
		name := c.Client + " " + c.Form
		var got *Request
		var err error
		if c.Message == nil {
			got, err = ReadRequest(c.Body, c.Header, Limits{})
		} else {
			m := &inference.ModelInferRequest{}
			if err := proto.Unmarshal(c.Message, m); err != nil {
				t.Fatal(err)
			}
			got, err = RequestFromProto(m, Limits{})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		binary := c.Form == "binary" || c.Form == "raw" && c.Client == "kserve"
		want := Output{Name: "probabilities", Binary: binary, Classes: 3}
		method, err := got.Parameters.Text("method")
		act, _, errAct := got.Parameters.Number("t_act")
		if got.ID != "q7" || !slices.Equal(got.Outputs, []Output{want}) ||
			method != "mf0" || act != 0.3 || err != nil || errAct != nil {
			t.Errorf("%s: %+v", name, got)
		}
		if len(got.Inputs) != len(c.Inputs) || len(c.Inputs) < 12 {
			t.Errorf("%s: %d inputs, want %d", name, len(got.Inputs), len(c.Inputs))
			continue
		}
		for i, want := range c.Inputs {
			x := got.Inputs[i]
			raw, err := encode(nil, x)
			if err != nil || x.Name != want.Name || Datatype(x.Type()) != want.Datatype ||
				!slices.Equal(x.Shape, want.Shape) || !bytes.Equal(raw, want.Raw) {
				t.Errorf("%s: input %v, %v; want %s %v %x", name, x, err, want.Datatype, want.Shape, want.Raw)
			}
		}
	}
	if len(requests) != 7 {
		t.Errorf("%d requests, want three forms of Triton's client and four of KServe's", len(requests))
	}
}

// Messages agree with those of the clients: fields with the same name have the same number and type. Other fields have
// numbers that the client does not use, or are in answers that it does not read.
func TestMessagesAreThoseOfOtherClients(t *testing.T) {
	t.Parallel()
	var clients map[string]struct{ Fields, Methods map[string]string }
	golden(t, "messages.json", &clients)
	ours, methods := ourMessages()
	for client, c := range clients {
		taken := map[string]string{} // message and number -> name, of the client's
		for name, field := range c.Fields {
			message := name[:strings.LastIndexByte(name, '.')]
			number, _, _ := strings.Cut(field, " ")
			taken[message+" "+number] = name
		}
		same := 0
		for name, field := range ours {
			message := name[:strings.LastIndexByte(name, '.')]
			number, _, _ := strings.Cut(field, " ")
			there := taken[message+" "+number]
			switch {
			case there == name && c.Fields[name] == field:
				same++
			case there == "" && c.Fields[name] == "":
			case client == "kserve" && strings.HasPrefix(name, "inference.RepositoryModel") && number <= "2":
				// Its model_name is our repository_name: LoadName reads both.
				if c.Fields[message+".model_name"] != "1 string" || ours[message+".repository_name"] != "1 string" {
					t.Errorf("KServe's %s is not as LoadName has it", message)
				}
			default:
				t.Errorf("%s: %s is %q, where the client has %s %q", client, name, field, there, c.Fields[there])
			}
		}
		sameMethods := 0
		for name, method := range methods {
			if there, ok := c.Methods[name]; ok {
				if sameMethods++; there != method {
					t.Errorf("%s: %s is %q, where the client has %q", client, name, method, there)
				}
			}
		}
		t.Logf("%s: %d fields and values and %d methods are the same", client, same, sameMethods)
		if same < 50 || sameMethods < 8 {
			t.Errorf("%s: only %d fields and %d methods are the client's", client, same, sameMethods)
		}
		for name := range c.Methods { // KServe's are all there
			if client == "kserve" && methods[name] == "" {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

// ourMessages lists the fields and methods of inference.proto as testdata/clients.py does.
func ourMessages() (fields, methods map[string]string) {
	fields, methods = map[string]string{}, map[string]string{}
	file := inference.File_inference_proto
	var visit func(all protoreflect.MessageDescriptors)
	visit = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			m := all.Get(i)
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				kind := f.Kind().String()
				if d := f.Message(); d != nil {
					kind = string(d.FullName())
				} else if e := f.Enum(); e != nil {
					kind = string(e.FullName())
				}
				if f.Cardinality() == protoreflect.Repeated {
					kind = "repeated " + kind
				}
				fields[string(f.FullName())] = fmt.Sprint(f.Number(), " ", kind)
			}
			visit(m.Messages())
		}
	}
	visit(file.Messages())
	for i := range file.Enums().Len() {
		e := file.Enums().Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			fields[string(e.FullName())+"."+string(v.Name())] = fmt.Sprint(v.Number())
		}
	}
	for i := range file.Services().Len() {
		s := file.Services().Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			text := fmt.Sprint(m.Input().FullName(), " ", m.Output().FullName())
			if m.IsStreamingClient() || m.IsStreamingServer() {
				text += " stream"
			}
			methods[string(m.FullName())] = text
		}
	}
	return fields, methods
}
