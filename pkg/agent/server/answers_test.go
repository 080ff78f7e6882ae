package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const table26 = `#<PID>          <type>          <reloads>       <uptime>        <version>      
9256            master          2 [failed: 1]   0d00h00m05s     2.6.12-1+deb12u4
# workers
9557            worker          1               0d00h00m00s     2.6.12-1+deb12u4
# old workers
9267            worker          3               0d00h01m00s     2.6.12-1+deb12u4
# programs

`

func TestParseProcesses(t *testing.T) {
	old := []oldWorker{{PID: 9267, Reloads: 3}}
	many, manyOld := strings.Split(table26, "# programs")[0], slices.Clone(old)
	for i := range 250 {
		many += fmt.Sprintf("%d            worker          %d               0d00h01m00s     2.6.12-1+deb12u4\n", 10000+i, i+4)
		manyOld = slices.Insert(manyOld, 0, oldWorker{PID: int64(10000 + i), Reloads: int64(i + 4)})
	}
	tests := []struct {
		name   string
		answer string
		want   processes
		fails  bool
	}{
		{name: "the current worker is not an old one", answer: table26, want: processes{MasterPID: 9256, Reloads: 2, Failed: 1, Worker: 9557, Old: old}},
		{name: "250 old workers are all counted, the oldest first", answer: many + "# programs\n\n",
			want: processes{MasterPID: 9256, Reloads: 2, Failed: 1, Worker: 9557, Old: manyOld}},
		{name: "250 old workers without an end are not known", answer: many, fails: true},
		{name: "a table cut between two rows is not known", answer: many[:strings.LastIndex(many[:len(many)-1], "\n")+1], fails: true},
		{name: "a new column before the reloads is stepped over", answer: insertColumn(table26, "<cpu>", "7%"),
			want: processes{MasterPID: 9256, Reloads: 2, Failed: 1, Worker: 9557, Old: old}},
		{name: "a header that counts no reloads", answer: strings.Replace(table26, "<reloads>", "<loads>", 1), fails: true},
		{name: "an old worker whose reloads are no number", answer: strings.Replace(table26, "worker          3", "worker          x", 1), fails: true},
		{name: "an old process of an unknown type is an old worker", answer: strings.Replace(table26, "worker          3", "thing           3", 1),
			want: processes{MasterPID: 9256, Reloads: 2, Failed: 1, Worker: 9557, Old: old}},
		{name: "an unknown last column is ignored",
			answer: strings.ReplaceAll(table26, "2.6.12-1+deb12u4", "2.6.12 x"), want: processes{MasterPID: 9256, Reloads: 2, Failed: 1, Worker: 9557, Old: old}},
		{name: "no worker yet", answer: strings.Join(strings.Split(table26, "\n")[:3], "\n") + "\n\n", want: processes{MasterPID: 9256, Reloads: 2, Failed: 1}},
		{name: "a table cut within a row", answer: many[:len(many)-75], fails: true},
		{name: "a table cut within the master's row", answer: table26[:110], fails: true},
		{name: "an empty answer", answer: "", fails: true},
		{name: "a sentence", answer: "Unknown command.\n", fails: true},
		{name: "two current workers", answer: strings.Replace(table26, "# old workers\n", "", 1), fails: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseProcesses(tc.answer)
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

// insertColumn puts a column after the type into every row of a table.
func insertColumn(table, header, value string) string {
	var rows []string
	for line := range strings.SplitSeq(table, "\n") {
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "#<PID>"):
			line = strings.Join(slices.Insert(fields, 2, header), " ")
		case len(fields) > 2 && fields[0] != "#":
			line = strings.Join(slices.Insert(fields, 2, value), " ")
		}
		rows = append(rows, line)
	}
	return strings.Join(rows, "\n")
}

func TestParseInfo(t *testing.T) {
	got, err := parseInfo("Name: HAProxy\nVersion: 3.0.11-1\nPid: 7\nCurrConns: 2\ndescription: holdfast-x: y\nStart_time_sec: 1700000000\n\n")
	want := workerInfo{PID: 7, StartTime: 1700000000, Description: "holdfast-x: y", FullVersion: "3.0.11-1", Connections: 2}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("info (-want +got), %v:\n%s", err, diff)
	}
	for _, answer := range []string{"", "Can't find the target PID matching the prefix '@!9'\n", "Pid: x\n", "Pid: 7\n"} {
		if _, err := parseInfo(answer); err == nil {
			t.Errorf("%q was taken for a worker", answer)
		}
	}
}

func TestParseReload(t *testing.T) {
	tests := []struct {
		answer  string
		verdict reloadVerdict
		log     string
	}{
		{"", verdictNone, ""},
		{"Success=1\n--\n[NOTICE] loaded\n", verdictLoaded, "[NOTICE] loaded"},
		{"Success=0\n--\n[ALERT] no\n[ALERT] really\n", verdictRefused, "[ALERT] no\n[ALERT] really"},
		{"Success=0\n", verdictRefused, ""},
		{"Success=10\n", verdictNone, ""},
	}
	for _, tc := range tests {
		verdict, log := parseReload(tc.answer)
		if verdict != tc.verdict || log != tc.log {
			t.Errorf("%q gives %d %q, want %d %q", tc.answer, verdict, log, tc.verdict, tc.log)
		}
	}
}

func TestShortVersion(t *testing.T) {
	for full, want := range map[string]string{"2.6.12-1+deb12u4": "2.6.12", "3.0.11": "3.0.11", "3.3-dev1": "3.3", "": ""} {
		if got := shortVersion(full); got != want {
			t.Errorf("%q is %q, want %q", full, got, want)
		}
	}
}

// FuzzAnswers: nothing HAProxy may say makes a parser panic or name a worker
// without an identity.
func FuzzAnswers(f *testing.F) {
	f.Add(table26)
	f.Add("Pid: 7\nStart_time_sec: 1\n")
	f.Add("Success=0\n--\n")
	f.Fuzz(func(t *testing.T, answer string) {
		if p, err := parseProcesses(answer); err == nil && p.MasterPID <= 0 {
			t.Errorf("master without a PID: %+v", p)
		}
		if info, err := parseInfo(answer); err == nil && (info.PID <= 0 || info.StartTime <= 0) {
			t.Errorf("worker without identity: %+v", info)
		}
		parseReload(answer)
	})
}
