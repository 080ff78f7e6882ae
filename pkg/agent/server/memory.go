package server

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memoryInterval is how many looks lie between two readings of memory.
const memoryInterval = 10

// residentBytes sums what the processes hold. HAProxy itself tells only of its
// pools, so it takes a process namespace that the agent sees.
func residentBytes(pids ...int64) (int64, error) {
	var total int64
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(string(status), "VmRSS:")
		number, _, _ := strings.Cut(strings.TrimSpace(after), " ")
		kib, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("process %d reports no resident memory", pid)
		}
		total += kib << 10
	}
	return total, nil
}

// weigh shows what all workers hold together, from time to time. Numbers of
// another process namespace would be those of strangers, so the master's own has
// to be the one its socket tells.
func (a *agent) weigh() {
	if a.looks++; a.looks%memoryInterval != 1 {
		return
	}
	a.metrics.workersResident.Set(-1)
	if a.seen.MasterPID == 0 || a.masterPeer != a.seen.MasterPID {
		return
	}
	pids := []int64{a.seen.Worker}
	for _, old := range a.seen.Old {
		pids = append(pids, old.PID)
	}
	if total, err := residentBytes(pids...); err == nil {
		a.metrics.workersResident.Set(float64(total))
	}
}
