package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// processes is what the master's "show proc" says about itself and its workers.
type processes struct {
	MasterPID int64
	// Reloads counts attempts, Failed the failures in a row since the last one
	// that worked. Neither alone tells what became of one reload.
	Reloads int64
	Failed  int64
	// Worker is the current one, zero while there is none.
	Worker int64
	// Old are the workers of earlier loads, the oldest first.
	Old []oldWorker
}

// oldWorker is a worker that was replaced and still has connections.
type oldWorker struct {
	PID int64
	// Reloads is how many loads, refused ones included, it has outlived.
	Reloads int64
}

// errTableCut says that the table does not end as a whole one does. Its missing
// rows may be anything, so none of it is used.
var errTableCut = errors.New("process table is cut")

// parseProcesses reads the table by its header and its section headers, which
// is all that the known versions have in common. A row that does not fit is an
// error: to overlook one could mean to overlook an old worker.
func parseProcesses(answer string) (processes, error) {
	// Every whole answer of the command line ends with an empty line.
	if !strings.HasSuffix(answer, "\n\n") {
		return processes{}, errTableCut
	}
	var p processes
	section, reloads := "", 0
	for line := range strings.SplitSeq(answer, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case strings.HasPrefix(line, "#<PID>"):
			reloads = slices.Index(fields, "<reloads>")
			continue
		case fields[0] == "#":
			section = strings.Join(fields[1:], " ")
			continue
		case reloads < 2 || len(fields) <= reloads:
			return processes{}, fmt.Errorf("process table has a row of %d columns and counts reloads in column %d", len(fields), reloads)
		}
		if err := p.readRow(section, fields, reloads); err != nil {
			return processes{}, err
		}
	}
	if p.MasterPID == 0 {
		return processes{}, fmt.Errorf("process table lists no master")
	}
	slices.SortStableFunc(p.Old, func(a, b oldWorker) int { return cmp.Compare(b.Reloads, a.Reloads) })
	return p, nil
}

func (p *processes) readRow(section string, fields []string, column int) error {
	pid, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || pid <= 0 {
		return fmt.Errorf("process table has a row without a PID: %q", fields[0])
	}
	reloads, err := strconv.ParseInt(fields[column], 10, 64)
	if err != nil {
		return fmt.Errorf("process table counts %q reloads of process %d", fields[column], pid)
	}
	switch {
	case section == "" && fields[1] == "master":
		p.MasterPID, p.Reloads = pid, reloads
		return p.readFailures(fields)
	case section == "workers" && fields[1] == "worker":
		if p.Worker != 0 {
			return fmt.Errorf("process table lists two current workers, %d and %d", p.Worker, pid)
		}
		p.Worker = pid
	case section == "old workers":
		// Whatever calls itself otherwise here still holds memory.
		p.Old = append(p.Old, oldWorker{PID: pid, Reloads: reloads})
	}
	return nil
}

func (p *processes) readFailures(fields []string) (err error) {
	for i, field := range fields[:len(fields)-1] {
		if field != "[failed:" {
			continue
		}
		if p.Failed, err = strconv.ParseInt(strings.TrimSuffix(fields[i+1], "]"), 10, 64); err != nil {
			return fmt.Errorf("process table counts %q failures", fields[i+1])
		}
		return nil
	}
	return fmt.Errorf("process table does not count failures")
}

// workerInfo is what a worker says about itself in "show info".
type workerInfo struct {
	PID         int64
	StartTime   int64 // seconds since 1970
	Description string
	FullVersion string
	Connections int64
}

func parseInfo(answer string) (workerInfo, error) {
	var info workerInfo
	numbers := map[string]*int64{"Pid": &info.PID, "Start_time_sec": &info.StartTime, "CurrConns": &info.Connections}
	for line := range strings.SplitSeq(answer, "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch target := numbers[key]; {
		case target != nil:
			number, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return workerInfo{}, fmt.Errorf("worker reports %s %q", key, value)
			}
			*target = number
		case key == "description":
			info.Description = value
		case key == "Version":
			info.FullVersion = value
		}
	}
	if info.PID <= 0 || info.StartTime <= 0 {
		return workerInfo{}, fmt.Errorf("worker does not report its identity")
	}
	return info, nil
}

// shortVersion is the numeric part of a version, "2.6.12" of "2.6.12-1+deb12u4".
func shortVersion(full string) string {
	end := strings.IndexFunc(full, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		return full
	}
	return full[:end]
}

// reloadVerdict is what a version that answers a reload says about it.
type reloadVerdict int

const (
	verdictNone reloadVerdict = iota // versions before 2.7 say nothing
	verdictLoaded
	verdictRefused
)

// parseReload splits the answer into the verdict and the start-up log.
func parseReload(answer string) (reloadVerdict, string) {
	head, log, _ := strings.Cut(answer, "\n")
	log = strings.TrimPrefix(log, "--\n")
	switch strings.TrimSpace(head) {
	case "Success=1":
		return verdictLoaded, strings.TrimSpace(log)
	case "Success=0":
		return verdictRefused, strings.TrimSpace(log)
	}
	return verdictNone, ""
}
