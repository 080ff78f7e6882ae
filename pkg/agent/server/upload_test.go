package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime/multipart"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// FuzzUpload: whatever comes as a body is taken whole, or refused with nothing
// left behind; and it never leaves its slot.
func FuzzUpload(f *testing.F) {
	good := output{api.ConfigPath: "x\n", "a/b.map": "k v\n"}.request(api.Token{LeaderEpoch: 1})
	manifest, err := json.Marshal(good.Manifest)
	if err != nil {
		f.Fatal(err)
	}
	body := "--x\r\nContent-Disposition: form-data; name=\"manifest\"\r\n\r\n" + string(manifest) +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"plan\"\r\n\r\n" + string(good.Plan) +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/b.map\"\r\n\r\nk v\n" +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"haproxy.cfg\"\r\n\r\nx\n\r\n--x--\r\n"
	f.Add([]byte(body))
	f.Add([]byte(body[:len(body)/2]))
	f.Add([]byte("--x--"))
	dir, err := os.MkdirTemp("", "hff")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	l, err := newLayout(filepath.Join(dir, "d"))
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(l.sets(), 0o700), os.MkdirAll(l.run(), 0o700)); err != nil {
		f.Fatal(err)
	}
	a := newAgent(Config{Registry: prometheus.NewRegistry()}, l, &disk{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		up := &upload{}
		r := receiver{agent: a, admit: func(*api.Manifest) error { return nil },
			form: multipart.NewReader(bytes.NewReader(raw), "x"), up: up}
		err := r.receive()
		if err == nil {
			for path := range up.staging.have {
				if api.ValidatePath(path) != nil {
					t.Errorf("took %q", path)
				}
			}
			err = up.staging.discard()
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range maxSlots {
			left, _ := os.ReadDir(filepath.Join(l.slot("s"+string(rune('0'+i))), setFiles))
			if len(left) > 0 {
				t.Fatalf("left %s behind", left[0].Name())
			}
		}
		if entries, _ := os.ReadDir(l.dir); len(entries) != 2 {
			t.Fatalf("folder holds %v", entries)
		}
	})
}
