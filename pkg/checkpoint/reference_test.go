package checkpoint

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// This file is a second, small implementation of the wire format, written from
// its document and not from the code: it calls nothing of this package or of
// package plan but their plain types. What both agree on is likely right.

func refHex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func refChecksum(content string) string { return "sha256:" + refHex(content) }

func refPlanDigest(s string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(s)) }

// One coder of each kind, since each holds a window of several MiB.
var (
	refEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil)
		if err != nil {
			panic(err)
		}
		return e
	})
	refDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil)
		if err != nil {
			panic(err)
		}
		return d
	})
)

func refPack(content string) string {
	return base64.StdEncoding.EncodeToString(refEncoder().EncodeAll([]byte(content), nil))
}

func refUnpack(t testing.TB, text string) string {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("base64: %v", err)
	}
	content, err := refDecoder().DecodeAll(packed, nil)
	if err != nil {
		t.Fatalf("zstd: %v", err)
	}
	return string(content)
}

// refFile is one auxiliary file of the reference set.
type refFile struct {
	family              int
	name, path, runtime string
	reload              bool
	content             string
	compressed          bool
}

func (f refFile) kind() string {
	return [...]string{"", "HAProxyMapFile", "HAProxyGeneralFile", "Secret", "Secret", "HAProxyCRTListFile", "HAProxyGeneralFile"}[f.family]
}

func (f refFile) planKind() string {
	return [...]string{"", "map", "general", "cert", "ca", "crtlist", "ca"}[f.family]
}

func (f refFile) contentSuffix() string {
	ca := "false"
	if f.family == 4 || f.family == 6 {
		ca = "true"
	}
	return "-content-" + refHex(f.kind()+"\x00"+f.path+"\x00"+refChecksum(f.content)+"\x00"+ca)
}

const refConfiguration = "global\n  log stdout\n\ndefaults\n  mode http\n\nbackend be\n  # a comment\n  server s1 10.0.0.1:80\n"

// refFiles are in walk order: family number, then name.
func refFiles() []refFile {
	return []refFile{
		{family: 1, name: "/etc/haproxy/maps/host.map", path: "/etc/haproxy/maps/host.map", runtime: "maps/host.map", content: "# hosts\na.example be one\nb.example be\n", compressed: true},
		{family: 1, name: "/etc/haproxy/maps/void.map", path: "/etc/haproxy/maps/void.map", runtime: "maps/void.map"},
		{family: 2, name: "503.http", path: "/etc/haproxy/general/503.http", runtime: "general/503.http", reload: true, content: "HTTP/1.0 503 Service Unavailable\r\n\r\n"},
		{family: 3, name: "a_example.pem", path: "/etc/haproxy/ssl/a_example.pem", runtime: "ssl/a_example.pem", content: "certificate and key, not really\n"},
		{family: 4, name: "clients.pem", path: "/etc/haproxy/ssl/clients.pem", runtime: "ssl/clients.pem", content: strings.Repeat("authority ", 50), compressed: true},
		{family: 5, name: "list.txt", path: "/etc/haproxy/ssl/list.txt", runtime: "ssl/list.txt", content: "/etc/haproxy/ssl/a_example.pem a.example\n"},
		{family: 6, name: "bundle.pem", path: "/etc/haproxy/general/bundle.pem", runtime: "general/bundle.pem", content: "another authority\n"},
	}
}

// refContentChecksum takes the files in the documented order: general files by
// name, then maps, certificates, CA files, crt-lists by path.
func refContentChecksum(configuration string, files []refFile) string {
	text := configuration
	for _, name := range []string{"503.http", "bundle.pem"} {
		for _, f := range files {
			if (f.family == 2 || f.family == 6) && f.name == name {
				text += f.name + f.content
			}
		}
	}
	for _, family := range []int{1, 3, 4, 5} {
		for _, f := range files {
			if f.family == family {
				text += f.path + f.content
			}
		}
	}
	return refHex(text)[:16]
}

func refSetID(files []refFile) string {
	lists := map[int][]string{}
	sums := map[int]string{}
	for _, f := range files {
		switch f.family {
		case 2:
			lists[2] = append(lists[2], fmt.Sprintf(`{"Filename":%q,"Path":%q,"IsCaFile":false,"ReloadOnPush":%t}`, f.name, f.path, f.reload))
			sums[2] += refChecksum(f.content)
		case 6:
			lists[2] = append(lists[2], fmt.Sprintf(`{"Filename":%q,"Path":%q,"IsCaFile":true,"ReloadOnPush":null}`, f.name, f.path))
			sums[2] += refChecksum(f.content)
		default:
			lists[f.family] = append(lists[f.family], fmt.Sprintf(`{"Path":%q}`, f.path))
			sums[f.family] += refChecksum(f.content)
		}
	}
	list := func(family int) string {
		if lists[family] == nil {
			return "null"
		}
		return "[" + strings.Join(lists[family], ",") + "]"
	}
	text := `{"MapFiles":` + list(1) + `,"SSLCertificates":` + list(3) + `,"SSLCaFiles":` + list(4) +
		`,"GeneralFiles":` + list(2) + `,"CRTListFiles":` + list(5) + `}`
	return "content-sha256:" + refHex(text+sums[1]+sums[3]+sums[4]+sums[2]+sums[5])
}

// refPlanJSON is the canonical plan with its ID, and the ID.
func refPlanJSON(configuration string, files []refFile) (text, id string) {
	cut1 := strings.Index(configuration, "defaults")
	cut2 := strings.Index(configuration, "backend be")
	if cut1 < 0 || cut2 < cut1 {
		cut1, cut2 = 0, 0
	}
	section := func(kind, name, text string) string {
		return fmt.Sprintf(`{"kind":%q,"name":%q,"textDigest":%q,"length":%d}`, kind, name, refPlanDigest(text), len(text))
	}
	sections := strings.Join([]string{
		section("core", "global", configuration[:cut1]),
		section("profile", "http", configuration[cut1:cut2]),
		section("backend", "be", configuration[cut2:]),
	}, ",")
	rows := []string{fmt.Sprintf(`{"path":"haproxy.cfg","kind":"config","reloadOnChange":true,"digest":%q,"size":%d}`, refPlanDigest(configuration), len(configuration))}
	for _, f := range files {
		rows = append(rows, fmt.Sprintf(`{"path":%q,"kind":%q,"reloadOnChange":%t,"digest":%q,"size":%d}`,
			f.runtime, f.planKind(), f.reload, refPlanDigest(f.content), len(f.content)))
	}
	text = `{"schemaVersion":1,"id":"","sections":[` + sections + `],"backends":{"be":{"name":"be","shape":"dynamic",` +
		`"servers":[{"name":"s1","address":"10.0.0.1","port":80}],"bodyDigest":"` + refPlanDigest("server s1 10.0.0.1:80\noption x") +
		`","commentsDigest":"` + refPlanDigest("") + `","recordDigest":"r","textDigest":"t"}},"profiles":{},` +
		`"maps":{"maps/host.map":{"path":"maps/host.map","ordered":false,"entries":[{"key":"a.example","value":"be one"},{"key":"b.example","value":"be"}]},` +
		`"maps/void.map":{"path":"maps/void.map","ordered":false}},"files":[` + strings.Join(rows, ",") + `]}`
	id = refPlanDigest(text)
	return strings.Replace(text, `"id":""`, `"id":"`+id+`"`, 1), id
}

const refBackends = `{"be":{"body":["server s1 10.0.0.1:80","option x"],"comments":null}}`

// refEvidence follows the framing in the package comment.
func refEvidence(configuration, planJSON string, files []refFile) string {
	var stream []byte
	field := func(b string) {
		stream = binary.BigEndian.AppendUint64(stream, uint64(len(b)))
		stream = append(stream, b...)
	}
	number := func(n int) { field(string(binary.BigEndian.AppendUint64(nil, uint64(n)))) }
	content := func(b string) {
		sum := sha256.Sum256([]byte(b))
		number(len(b))
		field(string(sum[:]))
	}
	field("holdfast-evidence-v1")
	content(configuration)
	content(planJSON)
	number(len(files))
	for _, f := range files {
		field(string([]byte{byte(f.family)}))
		field(f.name)
		field(f.path)
		field(f.runtime)
		if f.reload {
			field("\x01")
		} else {
			field("\x00")
		}
		content(f.content)
	}
	return "sha256:" + refHex(string(stream))
}

// refDescriptors is the artifacts member of the outer payload.
func refDescriptors(t testing.TB, files []refFile) string {
	t.Helper()
	rows := make([]string, 0, len(files))
	for _, f := range files {
		row, err := json.Marshal(map[string]any{"Family": f.family})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.TrimSuffix(string(row), "}")+
			fmt.Sprintf(`,"Name":%q,"Path":%q,"RuntimePath":%q,"ReloadOnChange":%t}`, f.name, f.path, f.runtime, f.reload))
	}
	if len(rows) == 0 {
		return "null"
	}
	return "[" + strings.Join(rows, ",") + "]"
}

// refPayload is spec.retainedPlan; evidence is left out when empty.
func refPayload(planJSON, backends, descriptors, evidence string) string {
	inner := refPack(`{"plan":` + planJSON + `,"backends":` + backends + `}`)
	outer := `{"plan":"` + inner + `","artifacts":` + descriptors
	if evidence != "" {
		outer += `,"evidence":"` + evidence + `"`
	}
	return refPack(outer + "}")
}
